//! The closed list of reasons: every transition of the loop has exactly one.

use protocol::{TransitionKind, TurnReason};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $word:literal is $kind:ident $(ends $end:ident)?;)*) => {
        /// Why the loop goes on or ends.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word in the record, at most 64 bytes.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Whether the loop goes on, goes on after something went wrong, or ends.
            #[must_use]
            pub fn kind(self) -> TransitionKind {
                match self { $(Self::$variant => TransitionKind::$kind,)* }
            }

            /// For a reason that ends the turn: how the end is told.
            #[must_use]
            pub fn end(self) -> Option<TurnReason> {
                match self { $(Self::$variant => reasons!(@end $($end)?),)* }
            }
        }
    };
    (@end $end:ident) => { Some(TurnReason::$end) };
    (@end) => { None };
}

reasons! {
    /// Tools ran and their results were appended.
    ToolResultsAppended = "tool_results_appended" is Continue;
    /// The provider paused; the same is sent again.
    ProviderPaused = "provider_paused" is Continue;

    /// The output limit cut the answer; the model was told to resume.
    OutputLimitResume = "max_output_tokens_recovery" is ContinueWithRecovery;
    /// The model announced a next step without taking it.
    ContinuationNudge = "continuation_nudge" is ContinueWithRecovery;
    /// The answer was empty; asked once more.
    EmptyAnswerRetry = "empty_answer_retry" is ContinueWithRecovery;
    /// The answer was malformed; the model was told.
    MalformedAnswer = "malformed_answer" is ContinueWithRecovery;
    /// The provider said to slow down.
    RecoverableRateLimit = "recoverable_rate_limit" is ContinueWithRecovery;
    /// The provider could not be reached, or did not answer in time.
    RecoverableNetwork = "recoverable_network" is ContinueWithRecovery;
    /// The provider is overloaded.
    RecoverableOverload = "recoverable_overload" is ContinueWithRecovery;
    /// Another failure that may pass.
    RecoverableOther = "recoverable_api_retry" is ContinueWithRecovery;

    /// The model was done.
    StopReasonTerminal = "stop_reason_terminal" is Terminate ends Done;
    /// The cap on iterations.
    MaxIterationsReached = "max_iterations_reached" is Terminate ends MaxIterationsReached;
    /// The cap on turns.
    MaxTurnsReached = "max_turns_reached" is Terminate ends MaxTurnsReached;
    /// Recovery was tried as often as it may be.
    RecoveryError = "recovery_error" is Terminate ends ModelFailed;
    /// A failure of the model call that no retry helps.
    ApiErrorTerminal = "api_error_terminal" is Terminate ends ModelFailed;
    /// Nothing came back, twice.
    NoAnswer = "no_answer_from_model" is Terminate ends ModelFailed;
    /// The output limit cut the answer again and again.
    OutputLimitReached = "output_limit_reached" is Terminate ends ModelFailed;
    /// A budget was reached.
    BudgetReached = "budget_reached" is Terminate ends BudgetReached;
    /// The same calls gave the same results again and again.
    NoProgress = "no_progress" is Terminate ends NoProgress;
    /// The model announced next steps and never took one.
    NudgesExhausted = "nudges_exhausted" is Terminate ends NoProgress;
    /// Round after round of calls that no tool takes.
    InvalidCalls = "invalid_calls" is Terminate ends NoProgress;
    /// The context is full.
    ContextFull = "context_full" is Terminate ends ContextFull;
    /// The provider refused or filtered the answer.
    AnswerFiltered = "answer_filtered" is Terminate ends Filtered;
    /// The person cancelled.
    Cancelled = "cancelled" is Terminate ends Cancelled;
    /// A hook stopped it.
    HookStopped = "stopped_by_hook" is Terminate ends Stopped;
    /// There was nothing to go on with.
    NothingToDo = "nothing_to_do" is Terminate ends Stopped;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_short_and_exactly_the_ends_end() {
        let mut words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert!(reason.as_str().len() <= 64);
            assert_eq!(
                reason.end().is_some(),
                reason.kind() == TransitionKind::Terminate
            );
        }
    }
}
