//! The provider rows: which dialect, address and key names a provider has. Embedded, overridden by the
//! operator's own `providers.toml` and environment, never by anything in a workspace.

use std::{collections::BTreeMap, io::Read as _, os::unix::fs::MetadataExt as _, path::Path};

use protocol::bounds;
use serde::Deserialize;

use crate::{
    Models,
    row::{self, Row, RowFile},
};

const EMBEDDED: &str = include_str!("providers.toml");

/// What the built-in rows are called in errors.
pub(crate) const EMBEDDED_NAME: &str = "embedded providers.toml";

/// Rows and models.
#[derive(Debug, Clone)]
pub struct Config {
    rows: BTreeMap<String, Row>,
    /// Windows, limits and prices.
    pub models: Models,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFailure {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Anybody could send the key elsewhere.
    #[error("{path} is writable by every account of this machine: chmod o-w it")]
    Open {
        /// The file.
        path: String,
    },
    /// A file is longer than any real one.
    #[error("{path} is larger than 1 MiB: it is no configuration file")]
    TooLarge {
        /// The file.
        path: String,
    },
    /// A file is not what it should be; the cause shows the line with a caret.
    #[error("{path}: {source}")]
    Parse {
        /// The file.
        path: String,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A value is not acceptable.
    #[error("{path}: provider `{provider}`: {problem}")]
    Row {
        /// The file or variable.
        path: String,
        /// The provider.
        provider: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A model's row is not acceptable.
    #[error("{path}: model `{model}`: {problem}")]
    Model {
        /// The file.
        path: String,
        /// The model.
        model: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// `PROVIDER/MODEL` names nobody we know.
    #[error("unknown model `{model}`: write PROVIDER/MODEL with a provider of: {known}")]
    Unknown {
        /// As given, cut.
        model: String,
        /// The providers.
        known: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    provider: BTreeMap<String, RowFile>,
}

impl Config {
    /// The embedded rows, then the environment (`ANTHROPIC_BASE_URL` and its kind), then
    /// `providers.toml` and `models.toml` of the configuration folder, each over the one before.
    ///
    /// # Errors
    /// [`ConfigFailure`] names file, line and remedy.
    pub fn load(
        folder: Option<&Path>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigFailure> {
        let read = |name: &str| folder.map(|folder| read(&folder.join(name))).transpose();
        let providers = read("providers.toml")?.flatten();
        let models = read("models.toml")?.flatten();
        Self::parse(
            providers.as_ref().map(pair),
            models.as_ref().map(pair),
            environment,
        )
    }

    /// The same from texts: each is a name for errors and the content.
    ///
    /// # Errors
    /// [`ConfigFailure`] names file, line and remedy.
    pub fn parse(
        providers: Option<(&str, &str)>,
        models: Option<(&str, &str)>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigFailure> {
        let mut config = Self {
            rows: BTreeMap::new(),
            models: Models::load(models)?,
        };
        let own = [(EMBEDDED_NAME, EMBEDDED)];
        for (path, text) in own.into_iter().chain(providers) {
            let file: File = parse(path, text)?;
            if file.version != 1 {
                return Err(row_failure(path, "*", "version must be 1".into()));
            }
            for (name, row) in file.provider {
                config.merge(path, &name, row, environment)?;
            }
        }
        Ok(config)
    }

    fn merge(
        &mut self,
        path: &str,
        name: &str,
        file: RowFile,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), ConfigFailure> {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if name.is_empty() || name.len() > 40 || !name.bytes().all(fits) {
            let problem = "a provider is named by lower-case letters, digits and `-`, at most 40";
            return Err(row_failure(path, name, problem.into()));
        }
        let known = self.rows.get(name).cloned();
        let row = row::merge(path, name, known, file, environment)?;
        self.rows.insert(name.to_owned(), row);
        Ok(())
    }

    /// Points a provider at another address, as an explicit flag does.
    ///
    /// # Errors
    /// [`ConfigFailure`] when the provider is unknown or the address is not acceptable.
    pub fn set_base_url(&mut self, provider: &str, url: &str) -> Result<(), ConfigFailure> {
        let known = self.known();
        let Some(row) = self.rows.get_mut(provider) else {
            return Err(ConfigFailure::Unknown {
                model: cut(provider),
                known,
            });
        };
        let checked = row::check_url(url, true);
        let checked = checked.map_err(|problem| row_failure("--base-url", provider, problem))?;
        row.base_url = Some(checked);
        (row.pinned, row.trouble) = (true, None);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn set_limits(&mut self, provider: &str, limits: crate::RowLimits) {
        if let Some(row) = self.rows.get_mut(provider) {
            row.limits = limits;
        }
    }

    /// A provider's row.
    #[must_use]
    pub fn row(&self, provider: &str) -> Option<&Row> {
        self.rows.get(provider)
    }

    /// All rows, by name.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Splits `PROVIDER/MODEL`; the model may hold slashes itself.
    ///
    /// # Errors
    /// [`ConfigFailure::Unknown`] lists the providers.
    pub fn resolve<'a>(&self, name: &'a str) -> Result<(&'a str, &'a str), ConfigFailure> {
        match name.split_once('/') {
            Some((provider, model)) if self.rows.contains_key(provider) && !model.is_empty() => {
                Ok((provider, model))
            }
            _ => Err(ConfigFailure::Unknown {
                model: cut(name),
                known: self.known(),
            }),
        }
    }

    fn known(&self) -> String {
        self.rows.keys().cloned().collect::<Vec<_>>().join(", ")
    }
}

fn pair(file: &(String, String)) -> (&str, &str) {
    (&file.0, &file.1)
}

fn cut(word: &str) -> String {
    crate::failure::one_line(word, 80)
}

pub(crate) fn row_failure(path: &str, provider: &str, problem: String) -> ConfigFailure {
    ConfigFailure::Row {
        path: path.to_owned(),
        provider: cut(provider),
        problem,
    }
}

/// Reads a file that need not exist.
fn read(path: &Path) -> Result<Option<(String, String)>, ConfigFailure> {
    let name = path.display().to_string();
    let failed = |source| ConfigFailure::Read {
        path: name.clone(),
        source,
    };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    if file.metadata().map_err(failed)?.mode() & 0o002 != 0 {
        return Err(ConfigFailure::Open { path: name });
    }
    let mut text = String::new();
    let mut bounded = file.take(bounds::CONFIG_FILE + 1);
    bounded.read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > bounds::CONFIG_FILE {
        return Err(ConfigFailure::TooLarge { path: name });
    }
    Ok(Some((name, text)))
}

pub(crate) fn parse<T: serde::de::DeserializeOwned>(
    path: &str,
    text: &str,
) -> Result<T, ConfigFailure> {
    toml::from_str(text).map_err(|error| ConfigFailure::Parse {
        path: path.to_owned(),
        source: Box::new(error),
    })
}

/// Whether an address is this machine itself.
pub(crate) fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Auth;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    fn with(text: &str) -> Result<Config, ConfigFailure> {
        Config::parse(Some(("providers.toml", text)), None, &nothing)
    }

    #[test]
    fn the_embedded_rows_stand_and_a_file_changes_only_what_it_names() {
        let config = Config::parse(None, None, &nothing).expect("embedded");
        let names: Vec<_> = config.rows().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "anthropic",
                "anthropic-compatible",
                "azure",
                "bedrock",
                "cloudflare",
                "codex",
                "deepseek",
                "gemini",
                "kimi",
                "minimax",
                "mistral",
                "ollama",
                "openai",
                "openai-compatible",
                "opencode",
                "openrouter",
                "script",
                "vertex",
                "z-ai",
            ]
        );
        let row = config.row("anthropic").expect("known").clone();
        assert_eq!(row.base_url.as_deref(), Some("https://api.anthropic.com"));
        assert_eq!(
            (row.auth, row.key_env.as_slice()),
            (Auth::XApiKey, &["ANTHROPIC_API_KEY".to_owned()][..])
        );

        let text = "version = 1\n[provider.anthropic]\nbase_url = \"http://10.0.0.1:8080/x/\"\n\
                    [provider.mine]\ndialect = \"anthropic\"\nbase_url = \"https://h\"\nauth = \"bearer\"";
        let config = with(text).expect("good");
        let changed = config.row("anthropic").expect("known");
        assert_eq!(
            changed,
            &Row {
                base_url: Some("http://10.0.0.1:8080/x".into()),
                pinned: true,
                ..row
            }
        );
        assert_eq!(config.row("mine").expect("new").auth, Auth::Bearer);
    }

    #[test]
    fn mistakes_name_file_line_and_key() {
        let unknown =
            with("version = 1\n[provider.anthropic]\nbaseurl = \"x\"").expect_err("refused");
        let words = unknown.to_string();
        assert!(
            words.contains("providers.toml") && words.contains("line 3"),
            "{words}"
        );
        assert!(words.contains("baseurl"), "{words}");
        for (text, word) in [
            ("version = 2", "version"),
            ("version = 1\n[provider.new]\nauth = \"none\"", "dialect"),
            (
                "version = 1\n[provider.\"a/b\"]\ndialect = \"anthropic\"",
                "lower-case",
            ),
            (
                "version = 1\n[provider.anthropic]\nbase_url = \"https://u:p@h\"",
                "password",
            ),
            (
                "version = 1\n[provider.anthropic]\nbase_url = \"ftp://h\"",
                "ftp",
            ),
            (
                "version = 1\n[provider.anthropic]\nbase_url = \"https://h?x=1\"",
                "?",
            ),
        ] {
            let failure = with(text).expect_err(text).to_string();
            assert!(failure.contains(word), "{text}: {failure}");
        }
    }

    #[test]
    fn the_environment_may_name_an_address_but_not_plain_http_elsewhere() {
        let load = |url: &'static str| {
            let environment =
                move |name: &str| (name == "ANTHROPIC_BASE_URL").then(|| url.to_owned());
            Config::parse(None, None, &environment)
        };
        for good in [
            "https://gateway.test/v1",
            "http://127.0.0.1:4000",
            "http://[::1]:4000",
            "http://localhost",
        ] {
            let config = load(good).expect(good);
            let row = config.row("anthropic").expect("known");
            assert_eq!(row.address(&row.speech("m")).as_deref(), Ok(good));
        }
        for bad in [
            "http://gateway.test",
            "http://127.0.0.1.evil.test",
            "http://localhost.evil.test",
        ] {
            let config = load(bad).expect("an error of this provider alone");
            let row = config.row("anthropic").expect("known");
            let failure = row.address(&row.speech("m")).expect_err(bad);
            assert!(
                failure.contains("ANTHROPIC_BASE_URL") && failure.contains("https"),
                "{failure}"
            );
        }
    }

    #[test]
    fn files_of_the_folder_are_read_where_they_exist_and_not_if_anybody_can_write_them() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let load = || Config::load(Some(folder.path()), &nothing);
        assert_eq!(load().expect("no files").rows().count(), 19);
        let providers = folder.path().join("providers.toml");
        let models = folder.path().join("models.toml");
        let row = "version = 1\n[provider.mine]\ndialect = \"anthropic\"\n";
        std::fs::write(&providers, row).expect("written");
        std::fs::write(
            &models,
            "version = 1\n[[model]]\nprovider = \"mine\"\nid = \"*\"\nwindow = 9\noutput = 8\n",
        )
        .expect("written");
        let config = load().expect("good");
        assert!(config.row("mine").is_some());
        assert_eq!(config.models.limits("mine", "any"), (9, 8));
        for path in [&models, &providers] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).expect("set");
            let words = load().expect_err("open").to_string();
            assert!(
                words.contains("chmod") && words.contains(".toml"),
                "{words}"
            );
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("set");
        }
        std::fs::write(&providers, "x".repeat(1 << 21)).expect("written");
        assert!(matches!(load(), Err(ConfigFailure::TooLarge { .. })));
    }

    #[test]
    fn a_model_is_named_with_its_provider() {
        let mut config = Config::parse(None, None, &nothing).expect("embedded");
        assert_eq!(
            config.resolve("anthropic/claude-x").expect("known"),
            ("anthropic", "claude-x")
        );
        assert_eq!(
            config.resolve("anthropic-compatible/a/b").expect("known").1,
            "a/b"
        );
        for bad in ["claude-x", "openal/x", "anthropic/", ""] {
            let failure = config.resolve(bad).expect_err(bad).to_string();
            assert!(failure.contains("anthropic-compatible, azure"), "{failure}");
        }
        config
            .set_base_url("anthropic", "http://127.0.0.1:9")
            .expect("explicit");
        assert!(config.set_base_url("nobody", "http://127.0.0.1:9").is_err());
    }
}
