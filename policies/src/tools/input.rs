//! The typed input of a call: what the law reads and what is carried out.

use serde_json::Value;

use super::{
    AskUser, Bash, EditFile, Glob, Grep, JobKill, JobOutput, ListDirectory, ReadFile, RunSql,
    SubmitPlan, Tool, WriteFile, field::Checked,
};

/// A call's input, checked and typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// `ask_user`
    AskUser(AskUser),
    /// `bash`
    Bash(Bash),
    /// `edit_file`
    EditFile(EditFile),
    /// `glob`
    Glob(Glob),
    /// `grep`
    Grep(Grep),
    /// `job_kill`
    JobKill(JobKill),
    /// `job_output`
    JobOutput(JobOutput),
    /// `list_directory`
    ListDirectory(ListDirectory),
    /// `list_tables`
    ListTables,
    /// `read_file`
    ReadFile(ReadFile),
    /// `run_sql`
    RunSql(RunSql),
    /// `submit_plan`
    SubmitPlan(SubmitPlan),
    /// `write_file`
    WriteFile(WriteFile),
}

/// Checks a call's input against the tool's contract and types it; defaults are filled in.
///
/// # Errors
/// One sentence that names the field, what it must be and what it is.
pub fn input(tool: Tool, value: &Value) -> Result<Input, String> {
    let checked = Checked::new(tool.contract().fields, value)?;
    Ok(match tool {
        Tool::AskUser => Input::AskUser(AskUser::from_checked(&checked)),
        Tool::Bash => Input::Bash(Bash::from_checked(&checked)),
        Tool::EditFile => Input::EditFile(EditFile::from_checked(&checked)?),
        Tool::Glob => Input::Glob(Glob::from_checked(&checked)),
        Tool::Grep => Input::Grep(Grep::from_checked(&checked)),
        Tool::JobKill => Input::JobKill(JobKill::from_checked(&checked)),
        Tool::JobOutput => Input::JobOutput(JobOutput::from_checked(&checked)),
        Tool::ListDirectory => Input::ListDirectory(ListDirectory::from_checked(&checked)),
        Tool::ListTables => Input::ListTables,
        Tool::ReadFile => Input::ReadFile(ReadFile::from_checked(&checked)),
        Tool::RunSql => Input::RunSql(RunSql::from_checked(&checked)),
        Tool::SubmitPlan => Input::SubmitPlan(SubmitPlan::from_checked(&checked)),
        Tool::WriteFile => Input::WriteFile(WriteFile::from_checked(&checked)),
    })
}
