//! From call to action: what is judged is what is executed.

use protocol::{CommandId, call::Call};

use crate::{
    Action, Facts, FileAccess, FileVerb, Malformed, Run, ViewPath, shell,
    tools::{self, Input, Tool},
};

/// Reads a call.
///
/// # Errors
/// [`Malformed`] says what is wrong with the tool's name or input.
pub fn normalise(call: &Call, facts: &Facts) -> Result<Action, Malformed> {
    let Some(tool) = Tool::parse(&call.tool) else {
        let known: Vec<&str> = Tool::ALL.iter().map(|tool| tool.as_str()).collect();
        return Err(Malformed::UnknownTool {
            name: call
                .tool
                .chars()
                .take(80)
                .flat_map(char::escape_debug)
                .collect(),
            known: known.join(", "),
        });
    };
    let input = tools::input(tool, &call.input).map_err(Malformed::Input)?;
    of_input(tool, input, facts)
}

/// Reads a checked input.
///
/// # Errors
/// [`Malformed`] says what is wrong with it.
pub fn of_input(tool: Tool, input: Input, facts: &Facts) -> Result<Action, Malformed> {
    let file = |verb: FileVerb, field: &str, word: &str| -> Result<Action, Malformed> {
        if word.is_empty() {
            return Err(Malformed::Input(format!("`{field}` is empty: name a path")));
        }
        let word = facts.named(word);
        let path = ViewPath::new(&word, &facts.workspace, &facts.home).ok_or_else(|| {
            Malformed::Input(format!(
                "`{field}` is not a path: it holds a NUL byte or more than 4,096 bytes"
            ))
        })?;
        let place = facts.place(&path);
        Ok(Action::File(FileAccess {
            tool,
            verb,
            path,
            place,
        }))
    };
    let job = |id: String, kill: bool| -> Result<Action, Malformed> {
        CommandId::parse(&id)
            .map(|id| Action::Job {
                job: id.to_string(),
                kill,
            })
            .map_err(|_| {
                Malformed::Input("`job_id` is not the id of a job: bash told it".to_owned())
            })
    };
    match input {
        Input::AskUser(ask) => Ok(Action::AskPerson {
            question: ask.question,
            choices: ask.choices,
        }),
        Input::Bash(bash) => Ok(Action::Run(Run {
            reading: shell::read(&facts.named_line(&bash.command)),
            line: bash.command,
            timeout_s: bash.timeout_s,
            background: bash.run_in_background,
            stdin: bash.stdin,
        })),
        Input::EditFile(edit) => file(FileVerb::Write, "file_path", &edit.file_path),
        Input::WriteFile(write) => file(FileVerb::Write, "file_path", &write.file_path),
        Input::ReadFile(read) => file(FileVerb::Read, "file_path", &read.file_path),
        Input::ListDirectory(list) => file(FileVerb::Read, "path", &list.path),
        Input::Grep(grep) => file(FileVerb::Read, "path", &grep.path),
        Input::Glob(glob) => {
            // The pattern is searched for below `path`, which is what is judged.
            if glob.pattern.starts_with('/') || glob.pattern.split('/').any(|part| part == "..") {
                return Err(Malformed::Input(
                    "`pattern` is relative and without `..`: name the folder in `path`".to_owned(),
                ));
            }
            file(FileVerb::Read, "path", &glob.path)
        }
        Input::JobKill(kill) => job(kill.job_id, true),
        Input::JobOutput(look) => job(look.job_id, false),
        Input::ListTables => Ok(Action::ListTables),
        Input::SubmitPlan(submit) => Ok(Action::SubmitPlan { plan: submit.plan }),
        Input::RunSql(sql) => Ok(Action::Query {
            database: sql.database.unwrap_or_default(),
            query: sql.query,
        }),
    }
}

#[cfg(test)]
mod tests {
    use protocol::CallId;
    use serde_json::json;

    use super::*;
    use crate::Place;

    fn read(tool: &str, input: serde_json::Value) -> Result<Action, Malformed> {
        let facts = Facts {
            workspace: "/srv/app".into(),
            home: "/home/u".into(),
            system: vec!["/usr".into()],
            interactive: true,
            tree: None,
        };
        let call = Call {
            id: CallId::parse("c1").expect("valid"),
            tool: tool.into(),
            input,
            prepared: None,
        };
        normalise(&call, &facts)
    }

    #[test]
    fn every_tool_has_an_action() {
        let rows = [
            ("ask_user", json!({"question": "which?"})),
            ("bash", json!({"command": "ls"})),
            (
                "edit_file",
                json!({"file_path": "a", "old_string": "x", "new_string": "y"}),
            ),
            ("glob", json!({"pattern": "**/*.rs"})),
            ("grep", json!({"pattern": "x"})),
            ("job_kill", json!({"job_id": "c1"})),
            ("job_output", json!({"job_id": "c1"})),
            ("list_directory", json!({"path": "."})),
            ("list_tables", json!({})),
            ("read_file", json!({"file_path": "a"})),
            ("run_sql", json!({"query": "SELECT 1"})),
            ("submit_plan", json!({"plan": "first this"})),
            ("write_file", json!({"file_path": "a", "content": ""})),
        ];
        assert_eq!(rows.len(), Tool::ALL.len());
        for (tool, input) in rows {
            assert!(
                read(tool, input.clone()).is_ok(),
                "{tool}: {:?}",
                read(tool, input)
            );
        }
    }

    #[test]
    fn a_line_is_kept_byte_for_byte_and_a_path_is_resolved() {
        let line = "cat <<'E'\n a  b \nE\n";
        let Ok(Action::Run(run)) = read("bash", json!({"command": line})) else {
            panic!("runs")
        };
        assert_eq!(run.line, line);
        let Ok(Action::File(access)) = read("read_file", json!({"file_path": "../app-x/k"})) else {
            panic!("file")
        };
        assert_eq!(
            (access.path.as_str(), access.place),
            ("/srv/app-x/k", Place::Outside)
        );
    }

    #[test]
    fn what_is_not_a_call_is_told_exactly() {
        let unknown = read("shell", json!({})).expect_err("unknown").to_string();
        assert!(unknown.starts_with("no tool is named `shell`; the tools are: ask_user, bash, "));
        for (tool, input, word) in [
            ("bash", json!({}), "command"),
            ("bash", json!({"command": "ls", "cwd": "/"}), "cwd"),
            ("read_file", json!({"file_path": "a\0b"}), "file_path"),
            ("glob", json!({"pattern": "../*"}), "pattern"),
            ("job_kill", json!({"job_id": "../1"}), "job_id"),
        ] {
            let fault = read(tool, input).expect_err(tool).to_string();
            assert!(fault.contains(word), "{fault}");
        }
    }
}
