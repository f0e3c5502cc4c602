//! A hook as a policy declares it: an event, a program with its arguments, and what its failure means.

use serde::{Deserialize, Serialize};

use crate::LayerName;

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// The agent has greeted; it observes, and may say something to the model.
    SessionStart,
    /// A turn is about to begin; it observes, and may say something to the model.
    QueryStart,
    /// The model is about to be asked; it may stop the turn.
    IterationStart,
    /// A call is about to be judged; it may deny it or change its input.
    PreTool,
    /// A person is about to be asked; it may deny, and give advice to the person.
    PermissionRequest,
    /// A call has had its effect; it observes, and may say something to the model.
    PostTool,
    /// Every call of an answer is done; it observes, and may say something to the model.
    ToolUsesComplete,
    /// The model is done; it may ask for one more cycle.
    Stop,
    /// A turn is over, however it ended; it observes.
    QueryComplete,
    /// The conversation is about to be made shorter; it observes.
    Compaction,
    /// The session is about to end; it observes.
    SessionEnd,
}

impl HookEvent {
    /// All of them, in the order of a session.
    pub const ALL: [Self; 11] = [
        Self::SessionStart,
        Self::QueryStart,
        Self::IterationStart,
        Self::PreTool,
        Self::PermissionRequest,
        Self::PostTool,
        Self::ToolUsesComplete,
        Self::Stop,
        Self::QueryComplete,
        Self::Compaction,
        Self::SessionEnd,
    ];

    /// As it is written in a policy and told to hooks.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::QueryStart => "query_start",
            Self::IterationStart => "iteration_start",
            Self::PreTool => "pre_tool",
            Self::PermissionRequest => "permission_request",
            Self::PostTool => "post_tool",
            Self::ToolUsesComplete => "tool_uses_complete",
            Self::Stop => "stop",
            Self::QueryComplete => "query_complete",
            Self::Compaction => "compaction",
            Self::SessionEnd => "session_end",
        }
    }

    /// The event of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == word)
    }

    /// Whether it is about one call, so that a hook may choose by tool.
    #[must_use]
    pub fn has_tool(self) -> bool {
        matches!(
            self,
            Self::PreTool | Self::PermissionRequest | Self::PostTool
        )
    }
}

/// `[[hook]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// Unique within its layer.
    pub id: String,
    /// The layer that it came from: it says where the hook runs.
    pub layer: LayerName,
    /// File and line (`team.toml:12`).
    pub at: String,
    /// The file alone: a relative program is looked for beside it.
    pub file: String,
    /// When.
    pub event: HookEvent,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Tools that it is for; empty for all.
    pub tool: Vec<String>,
    /// Whether its failure is a denial.
    pub required: bool,
    /// Seconds that it may take.
    pub timeout: u64,
}

impl Hook {
    /// As records and people name it: `organisation/no-secrets`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.layer.as_str(), self.id)
    }

    /// Whether it runs at an event, for a tool if the event has one.
    #[must_use]
    pub fn is_for(&self, event: HookEvent, tool: Option<&str>) -> bool {
        let chosen =
            self.tool.is_empty() || tool.is_none_or(|tool| self.tool.iter().any(|own| own == tool));
        self.event == event && chosen
    }
}

/// Tells the hooks of `a` that `b` does without: what they would have denied is newly allowed.
pub(crate) fn missed(a: &[Hook], b: &[Hook], tell: &mut impl FnMut(&str, &str, String, String)) {
    let shown = |hook: &Hook| {
        let required = if hook.required { ", required" } else { "" };
        let tools = match hook.tool.is_empty() {
            true => String::new(),
            false => format!(" of {}", hook.tool.join(", ")),
        };
        let command = hook.command.join(" ");
        format!("{}{tools}: {command}{required}", hook.event.as_str())
    };
    for old in a {
        let new = b.iter().find(|new| new.name() == old.name());
        let as_strict = new.is_some_and(|new| {
            let tools = new.tool.is_empty()
                || (!old.tool.is_empty() && old.tool.iter().all(|tool| new.tool.contains(tool)));
            new.event == old.event
                && new.command == old.command
                && tools
                && (new.required || !old.required)
        });
        if !as_strict {
            let now = new.map_or_else(|| "not there".to_owned(), shown);
            tell("hook", &old.name(), shown(old), now);
        }
    }
}
