//! Every name that telemetry uses, in one table: the GenAI conventions are still in development, and a
//! change of theirs is a change here alone. Names of our own begin with `provost.`.

/// Attributes.
pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const AGENT: &str = "gen_ai.agent.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const REQUEST_STREAM: &str = "gen_ai.request.stream";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const REASONING: &str = "gen_ai.usage.reasoning.output_tokens";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const TOOL: &str = "gen_ai.tool.name";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const CALL: &str = "gen_ai.tool.call.id";
pub(crate) const ERROR: &str = "error.type";
pub(crate) const SESSION: &str = "session.id";
pub(crate) const VERDICT: &str = "provost.verdict";
pub(crate) const RULE: &str = "provost.rule.id";
pub(crate) const OUTCOME: &str = "provost.outcome";
pub(crate) const COST: &str = "provost.cost.micro_usd";
pub(crate) const LINK: &str = "provost.link";
pub(crate) const PERCENT: &str = "provost.progress.percent";

/// Spans; the one of a model call and of a tool's end in its name.
pub(crate) const AGENT_SPAN: &str = "invoke_agent";
pub(crate) const CHAT: &str = "chat";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

/// Metrics.
pub(crate) const DURATION: &str = "gen_ai.client.operation.duration";
pub(crate) const TOKENS: &str = "gen_ai.client.token.usage";
pub(crate) const TO_FIRST_CHUNK: &str = "gen_ai.client.operation.time_to_first_chunk";
pub(crate) const VERDICTS: &str = "provost.verdicts";
pub(crate) const TOOL_DURATION: &str = "provost.tool.duration";
pub(crate) const SESSIONS: &str = "provost.sessions";

/// Events of the log.
pub(crate) const BEGAN: &str = "provost.session.began";
pub(crate) const ENDED: &str = "provost.session.ended";
pub(crate) const JUDGED: &str = "provost.call.judged";
pub(crate) const SETTLED: &str = "provost.call.settled";
pub(crate) const MODEL_FAILED: &str = "provost.model.failed";
pub(crate) const FAULT: &str = "provost.fault";

/// A provider's row by the name that the conventions give it; those without one keep a plain word.
pub(crate) fn provider(row: &str) -> &str {
    match row {
        "bedrock" => "aws.bedrock",
        "azure" => "azure.ai.openai",
        "gemini" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "mistral" => "mistral_ai",
        "kimi" => "moonshot_ai",
        "codex" => "openai",
        "z-ai" => "z_ai",
        "cloudflare" => "cloudflare.workers_ai",
        other => other,
    }
}
