//! Which message is permitted in which phase: one table per link, the whole surface on one screen.

use crate::{Report, Request};

/// Where a session stands, as the links see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nobody has greeted yet.
    Greeting,
    /// Greeted, no turn runs.
    Idle,
    /// A turn runs.
    Turn,
    /// Over.
    Ended,
}

/// Kinds of [`Request`], for the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// `hello`
    Hello,
    /// `infer`
    Infer,
    /// `calls`
    Calls,
    /// `settled`
    Settled,
    /// `append`
    Append,
    /// `transition`
    Transition,
    /// `note`
    Note,
    /// `turn_ended`
    TurnEnded,
}

impl RequestKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Hello,
        Self::Infer,
        Self::Calls,
        Self::Settled,
        Self::Append,
        Self::Transition,
        Self::Note,
        Self::TurnEnded,
    ];

    /// The kind of a request.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Hello(_) => Self::Hello,
            Request::Infer(_) => Self::Infer,
            Request::Calls { .. } => Self::Calls,
            Request::Settled(_) => Self::Settled,
            Request::Append(_) => Self::Append,
            Request::Transition(_) => Self::Transition,
            Request::Note(_) => Self::Note,
            Request::TurnEnded(_) => Self::TurnEnded,
        }
    }
}

/// The agent link's table: what the agent may say in each phase. Anything else is a fault.
#[must_use]
pub fn agent_may(phase: Phase, kind: RequestKind) -> bool {
    use RequestKind::{Append, Calls, Hello, Infer, Note, Settled, Transition, TurnEnded};
    match phase {
        Phase::Greeting => matches!(kind, Hello),
        // Repairs of a resumed history come before the first turn.
        Phase::Idle => matches!(kind, Append | Note),
        Phase::Turn => {
            matches!(
                kind,
                Infer | Calls | Settled | Append | Transition | Note | TurnEnded
            )
        }
        Phase::Ended => false,
    }
}

/// Where hands stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandsPhase {
    /// Before its greeting.
    Greeting,
    /// Greeted, set-up handles may come once.
    SettingUp,
    /// Ready: only answers to orders, no descriptor.
    Ready,
    /// Over.
    Ended,
}

/// The hands link's table.
#[must_use]
pub fn hands_may(phase: HandsPhase, report: &Report) -> bool {
    match report {
        Report::Hello(_) => phase == HandsPhase::Greeting,
        Report::Handles { .. } | Report::Ready { .. } => phase == HandsPhase::SettingUp,
        Report::Unfit { .. } => matches!(phase, HandsPhase::Greeting | HandsPhase::SettingUp),
        Report::AgentStarted
        | Report::AgentGone(_)
        | Report::Spawned { .. }
        | Report::Exited { .. }
        | Report::Resolved { .. }
        | Report::PutDone { .. }
        | Report::Failed { .. } => phase == HandsPhase::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_table_is_exactly_this() {
        let count = |phase| {
            RequestKind::ALL
                .iter()
                .filter(|k| agent_may(phase, **k))
                .count()
        };
        assert_eq!(count(Phase::Greeting), 1);
        assert_eq!(count(Phase::Idle), 2);
        assert_eq!(count(Phase::Turn), 7);
        assert_eq!(count(Phase::Ended), 0);
        assert!(
            !agent_may(Phase::Turn, RequestKind::Hello),
            "a second greeting is a fault"
        );
        assert!(
            !agent_may(Phase::Idle, RequestKind::Calls),
            "no call outside a turn"
        );
    }

    #[test]
    fn hands_hands_over_before_ready_and_never_after() {
        let handles = Report::Handles {
            names: vec!["pidfd".into()],
        };
        assert!(hands_may(HandsPhase::SettingUp, &handles));
        assert!(!hands_may(HandsPhase::Ready, &handles));
        assert!(!hands_may(HandsPhase::Greeting, &Report::AgentStarted));
    }
}
