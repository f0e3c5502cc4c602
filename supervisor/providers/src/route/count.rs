//! How long a request is in tokens: by the provider's own count where it has one, else an estimate that
//! is called one.

use serde_json::{Value, json};
use supervisor_core::{Infer, Permit};

use super::Providers;
use crate::{
    Class, Credential, Dialect, InferError, auth,
    breakers::now_ms,
    classify::Upstream,
    dialect::{self, Outgoing, Target},
    http::Post,
};

/// Bytes of a body that one token stands for, in tenths: what is seen over many models and languages.
const BYTES_A_TOKEN: usize = 35;

/// A length in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Tokens of input.
    pub tokens: u64,
    /// The provider did not say so; it is reckoned from the bytes.
    pub estimate: bool,
}

impl Providers {
    /// Counts what a permitted call would send.
    ///
    /// # Errors
    /// [`InferError`]; a provider without a count of its own is none.
    pub async fn count(
        &self,
        permit: Permit<Infer>,
        credential: Option<&Credential>,
    ) -> Result<Counted, InferError> {
        self.count_with(&permit.spend(), credential).await
    }

    pub(crate) async fn count_with(
        &self,
        infer: &Infer,
        credential: Option<&Credential>,
    ) -> Result<Counted, InferError> {
        let client = |words: String| InferError::new(Class::Client, words);
        let name = infer.provider.as_str();
        let row = self.config.row(name);
        let row = row.ok_or_else(|| client(format!("no provider is named `{name}`")))?;
        let (window, max_output) = self.config.models.limits(name, &infer.model);
        let speech = row.speech(&infer.model);
        let target = Target {
            provider: name,
            model: &infer.model,
            max_output,
            window,
            quirks: speech.quirks,
            wish: Some(&self.wish),
        };
        let outgoing = speech.dialect.encode(&infer.request, &target);
        let outgoing = outgoing.map_err(|error| client(error.to_string()))?;
        let estimate = estimate(&outgoing.body);
        let Some(question) = question(speech.dialect, &target, &outgoing) else {
            return Ok(estimate);
        };
        let base = row.address(&speech).map_err(client)?;
        let url = row.url(&dialect::join(&base, &question.path));
        let proof = auth::prove(row, credential, &self.http, &url, &question).await?;
        let masker = auth::masker(credential, &proof);
        let own = row
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let words = question
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        let post = Post {
            url: &url,
            accept: question.accept,
            headers: own.chain(words).collect(),
            proof,
            body: question.body.clone(),
        };
        let answer = self
            .http
            .post(post, row.limits.over(self.http.limits()))
            .await
            .map_err(|fault| fault.failure(name, &masker))?;
        let (status, hints) = (answer.status, answer.hints.clone());
        let body = answer.error_body().await;
        if status == 200 {
            let counted = serde_json::from_slice::<Value>(&body)
                .ok()
                .as_ref()
                .and_then(tokens);
            let counted = counted.map(|tokens| Counted {
                tokens,
                estimate: false,
            });
            return Ok(counted.unwrap_or(estimate));
        }
        let upstream = Upstream::read(Some(status), &body);
        // Hosts of the same dialect that do not count say so by one of these; a model that is not there
        // is told apart by its words.
        let absent = matches!(status, 404 | 405 | 501) && upstream.message.is_empty();
        if absent {
            return Ok(estimate);
        }
        Err(upstream.failure(name, &masker, &hints, now_ms() / 1_000))
    }
}

/// What a body of so many bytes is, about.
fn estimate(body: &[u8]) -> Counted {
    let tokens = body.len().saturating_mul(10).div_ceil(BYTES_A_TOKEN);
    Counted {
        tokens: u64::try_from(tokens).unwrap_or(u64::MAX),
        estimate: true,
    }
}

/// The question that a provider answers with a number; `None` where there is none to ask.
fn question(dialect: Dialect, target: &Target<'_>, outgoing: &Outgoing) -> Option<Outgoing> {
    let mut body: Value = serde_json::from_slice(&outgoing.body).ok()?;
    let fields = body.as_object_mut()?;
    let mut without = |names: &[&str]| {
        for name in names {
            fields.remove(*name);
        }
    };
    let (path, body) = match dialect {
        Dialect::Anthropic if outgoing.path == "/v1/messages" => {
            without(&["max_tokens", "stream"]);
            ("/v1/messages/count_tokens".to_owned(), body)
        }
        Dialect::OpenaiResponses if matches!(target.provider, "openai" | "azure") => {
            without(&["max_output_tokens", "stream", "store", "include"]);
            ("/responses/input_tokens".to_owned(), body)
        }
        Dialect::Gemini => {
            let path = outgoing
                .path
                .replace(":streamGenerateContent?alt=sse", ":countTokens");
            let wrapped = target.provider != "vertex";
            if wrapped {
                fields.insert(
                    "model".to_owned(),
                    format!("models/{}", target.model).into(),
                );
                (path, json!({"generateContentRequest": body}))
            } else {
                (path, body)
            }
        }
        Dialect::Bedrock => {
            without(&["inferenceConfig", "outputConfig"]);
            let path = outgoing.path.replace("/converse-stream", "/count-tokens");
            (path, json!({"input": {"converse": body}}))
        }
        Dialect::Anthropic
        | Dialect::OpenaiResponses
        | Dialect::OpenaiChat
        | Dialect::Ollama
        | Dialect::Script => return None,
    };
    Some(Outgoing {
        path,
        headers: outgoing.headers.clone(),
        accept: "application/json",
        body: serde_json::to_vec(&body).ok()?,
    })
}

/// The number in an answer.
fn tokens(answer: &Value) -> Option<u64> {
    let names = ["input_tokens", "totalTokens", "inputTokens"];
    names.iter().find_map(|name| answer.get(*name)?.as_u64())
}
