//! What the documents say of the code is what the code is.

#[cfg(test)]
mod docs {
    use std::path::{Path, PathBuf};

    use protocol::call::Stage;
    use provost_tests::shape::drawn;
    use serde_json::Value;
    use supervisor_providers::Class;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("a workspace")
            .to_owned()
    }

    fn read(path: &str) -> String {
        std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The words in backticks of a text.
    fn quoted(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').skip(1).step_by(2)
    }

    #[test]
    fn the_arrows_of_architecture_md_are_those_of_the_test() {
        let text = read("ARCHITECTURE.md");
        assert!(text.lines().count() < 250, "it is read in one sitting");
        let table = text
            .split("## The arrows")
            .nth(1)
            .expect("a chapter of arrows");
        let rows: Vec<Vec<&str>> = table
            .lines()
            .skip_while(|line| !line.starts_with("| `"))
            .take_while(|line| line.starts_with("| `"))
            .map(|line| quoted(line).collect())
            .collect();
        let drawn: Vec<Vec<&str>> = drawn::ARROWS
            .iter()
            .map(|(name, named)| std::iter::once(name).chain(*named).copied().collect())
            .collect();
        assert_eq!(rows, drawn);
    }

    #[test]
    fn the_files_that_documents_name_exist() {
        let mut seen = 0;
        for document in ["ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md"] {
            let text = read(document);
            let files = quoted(&text).filter(|word| {
                word.contains('/') && (word.ends_with(".rs") || word.ends_with(".toml"))
            });
            for file in files {
                assert!(root().join(file).is_file(), "{document} names `{file}`");
                seen += 1;
            }
        }
        assert!(seen >= 12, "only {seen} files are named");
    }

    #[test]
    fn what_ci_takes_from_the_readme_is_there_and_is_a_target() {
        let readme = read("README.md");
        let makefile = read("Makefile");
        for marker in ["<!-- ci: demo -->", "<!-- ci: test -->"] {
            let after = readme
                .split(marker)
                .nth(1)
                .unwrap_or_else(|| panic!("no {marker}"));
            let block = after.split("```").nth(1).expect("a block after the marker");
            let command = block.lines().nth(1).expect("a command");
            let target = command
                .strip_prefix("make ")
                .expect("a target of the Makefile");
            assert!(
                makefile.contains(&format!("\n{target}:")),
                "no target `{target}`"
            );
        }
    }

    #[test]
    fn the_schemas_are_json_and_their_words_are_the_codes() {
        let schema = |name: &str| -> Value {
            serde_json::from_str(&read(&format!("docs/schema/{name}"))).expect(name)
        };
        // A new stage does not compile until it is listed here, and fails until it is in the schema.
        let all = [
            Stage::Resolve,
            Stage::Input,
            Stage::Safety,
            Stage::Permissions,
            Stage::Mode,
            Stage::Budget,
            Stage::Hook,
        ];
        for stage in all {
            match stage {
                Stage::Resolve
                | Stage::Input
                | Stage::Safety
                | Stage::Permissions
                | Stage::Mode
                | Stage::Budget
                | Stage::Hook => {}
            }
        }
        let words = serde_json::to_value(all).expect("words");
        let refused = schema("refused.json");
        assert_eq!(
            refused["properties"]["refused"]["properties"]["stage"]["enum"],
            words
        );

        let usage = serde_json::to_value(protocol::Usage::default()).expect("usage");
        let fields = |value: &Value| -> Vec<String> {
            value
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect()
        };
        let json = schema("json.json");
        assert_eq!(
            fields(&json["$defs"]["usage"]["properties"]),
            fields(&usage)
        );
        let call = schema("call.json");
        let properties = &call["properties"];
        assert_eq!(fields(&properties["usage"]["properties"]), fields(&usage));
        // A new class does not compile until it is listed here, and fails until it is in the schema.
        let all = [
            Class::Client,
            Class::ContextTooLong,
            Class::Authentication,
            Class::RateLimit,
            Class::Quota,
            Class::Network,
            Class::Overload,
            Class::Refusal,
            Class::Other,
        ];
        for class in all {
            match class {
                Class::Client
                | Class::ContextTooLong
                | Class::Authentication
                | Class::RateLimit
                | Class::Quota
                | Class::Network
                | Class::Overload
                | Class::Refusal
                | Class::Other => {}
            }
        }
        let words = serde_json::to_value(all.map(Class::as_str)).expect("words");
        assert_eq!(properties["error"]["properties"]["class"]["enum"], words);
        assert_eq!(
            fields(&schema("stream-json.json")["properties"])[..2],
            ["seq", "session"]
        );
    }
}
