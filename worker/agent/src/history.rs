//! Adding to the conversation so that it stays one that every provider accepts.

use protocol::{Message, Part, Role};

/// Adds a message. Results that follow results join them: a provider wants all results of one
/// answer in the message after it. An empty message is not added.
pub(crate) fn push(history: &mut Vec<Message>, message: Message) {
    if is_empty(&message) {
        return;
    }
    if only_results(&message)
        && let Some(last) = history.last_mut().filter(|last| only_results(last))
    {
        last.parts.extend(message.parts);
        return;
    }
    history.push(message);
}

/// Whether the last message holds tool results.
pub(crate) fn ends_with_results(history: &[Message]) -> bool {
    history.last().is_some_and(only_results)
}

/// Whether nothing in it would reach a model.
pub(crate) fn is_empty(message: &Message) -> bool {
    message.parts.iter().all(|part| match part {
        Part::Text { text } => text.trim().is_empty(),
        // Reasoning alone is no answer, and providers refuse a message of it alone.
        Part::Reasoning { .. } => true,
        Part::ToolCall { .. } | Part::ToolResult { .. } => false,
    })
}

/// Whether it is a user message of tool results alone.
pub(crate) fn only_results(message: &Message) -> bool {
    message.role == Role::User
        && !message.parts.is_empty()
        && message
            .parts
            .iter()
            .all(|part| matches!(part, Part::ToolResult { .. }))
}
