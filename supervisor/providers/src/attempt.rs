//! One attempt at one provider: encode for it, prove it, carry it, read the answer to its end.

use std::borrow::Cow;

use protocol::{Inference, Part};
use supervisor_core::Masker;

use crate::{
    Class, Credential, Dialect, InferError, Providers, Row, auth,
    breakers::now_ms,
    classify::{Hints, Upstream},
    dialect::{self, Decode, SoFar, StreamFault, Target},
    http::{Answer, Post},
    route::lock,
    script::Play,
};

/// Who is asked what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) row: &'a Row,
    pub(crate) model: &'a str,
    pub(crate) request: &'a protocol::Infer,
    pub(crate) credential: Option<&'a Credential>,
}

/// What comes of an attempt before its end.
pub(crate) enum Piece<'a> {
    /// Text to forward.
    Text(&'a str),
    /// What has come so far: told after each piece of the body.
    SoFar(SoFar),
}

pub(crate) type OnPiece<'a> = &'a mut (dyn FnMut(Piece<'_>) + Send);

impl Providers {
    pub(crate) async fn attempt(
        &self,
        call: Call<'_>,
        on_piece: OnPiece<'_>,
    ) -> Result<Inference, InferError> {
        match call.row.dialect {
            Dialect::Script => self.play(call, on_piece).await,
            _ => self.ask(call, on_piece).await,
        }
    }

    async fn play(&self, call: Call<'_>, on_piece: OnPiece<'_>) -> Result<Inference, InferError> {
        let play = {
            let mut script = lock(&self.script);
            let Some(script) = script.as_mut() else {
                let words = "the `script` provider has no conversation to play: pass --script FILE";
                return Err(InferError::new(Class::Client, words));
            };
            script.play(call.request, call.model)
        };
        let Play { delay, deltas, end } = play;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        for delta in deltas {
            on_piece(Piece::Text(&delta));
            // Lets a cancel or another effect in between two deltas.
            tokio::task::yield_now().await;
        }
        end
    }

    async fn ask(&self, call: Call<'_>, on_piece: OnPiece<'_>) -> Result<Inference, InferError> {
        let Call {
            row,
            model,
            request,
            credential,
        } = call;
        let name = row.name.as_str();
        let client = |words: String| InferError::new(Class::Client, words);
        let (window, max_output) = self.config.models.limits(name, model);
        let speech = row.speech(model);
        let target = Target {
            provider: name,
            model,
            max_output,
            window,
            quirks: speech.quirks,
            // Number 0 is the classifier's question, whose answer has a form of its own.
            wish: (request.id != 0).then_some(&self.wish),
        };
        let limits = row.limits.over(self.http.limits());
        let base = row.address(&speech).map_err(client)?;
        let outgoing = speech
            .dialect
            .encode(request, &target)
            .map_err(|error| client(error.to_string()))?;
        let decoder = speech.dialect.decoder(&target, &request.messages);
        let decoder = decoder.ok_or_else(|| client("this dialect has no wire".into()))?;
        let url = row.url(&dialect::join(&base, &outgoing.path));
        let mut renewed = false;
        let (answer, masker) = loop {
            let proof = auth::prove(row, credential, &self.http, &url, &outgoing).await?;
            let masker = auth::masker(credential, &proof);
            let own = row
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()));
            let dialect = outgoing
                .headers
                .iter()
                .map(|(name, value)| (*name, value.as_str()));
            let post = Post {
                url: &url,
                accept: outgoing.accept,
                headers: own.chain(dialect).collect(),
                proof,
                body: outgoing.body.clone(),
            };
            let answer = self.http.post(post, limits).await;
            let answer = answer.map_err(|fault| fault.failure(name, &masker))?;
            if answer.status == 200 {
                break (answer, masker);
            }
            let (status, hints) = (answer.status, answer.hints.clone());
            let mut upstream = Upstream::read(Some(status), &answer.error_body().await);
            if let (true, Some(kind)) = (upstream.kind.is_empty(), &hints.kind) {
                upstream.kind = kind.split(':').next().unwrap_or_default().to_owned();
            }
            // A token that was taken back before its time: another one, once.
            let stale = status == 401 || upstream.kind.starts_with("ExpiredToken");
            if let Some(credential) = credential.filter(|c| stale && !renewed && c.is_renewable()) {
                renewed = true;
                credential.spoil().await;
                continue;
            }
            return Err(upstream.failure(name, &masker, &hints, now_ms() / 1_000));
        };
        if answer.media.contains("html") {
            let words = format!("{name} answered a web page, not a model: check base_url");
            return Err(InferError::new(Class::Other, words));
        }
        let mut stream = masker.stream();
        let mut forward = |piece: Piece<'_>| match piece {
            Piece::Text(text) => on_piece(Piece::Text(&stream.push(text))),
            Piece::SoFar(so_far) => on_piece(Piece::SoFar(so_far)),
        };
        let answer = read(name, decoder, answer, &masker, &mut forward).await?;
        on_piece(Piece::Text(&stream.finish()));
        Ok(clean(answer, &masker))
    }
}

/// Reads an answer whose head was good, as a stream or as one document, whatever it calls itself.
async fn read(
    name: &str,
    mut decoder: Box<dyn Decode>,
    mut answer: Answer,
    masker: &Masker,
    on_piece: OnPiece<'_>,
) -> Result<Inference, InferError> {
    let fault = |fault: StreamFault| stream_failure(name, masker, fault);
    while let Some(piece) = answer.next().await.map_err(|f| f.failure(name, masker))? {
        let mut forward = |text: &str| on_piece(Piece::Text(text));
        let whole = decoder.push(&piece, &mut forward).map_err(fault)?;
        let so_far = decoder.so_far();
        answer.content |= so_far.content > 0;
        on_piece(Piece::SoFar(so_far));
        if whole {
            break;
        }
    }
    let mut forward = |text: &str| on_piece(Piece::Text(text));
    decoder.finish(&mut forward).map_err(fault)
}

fn stream_failure(name: &str, masker: &Masker, fault: StreamFault) -> InferError {
    match fault {
        StreamFault::InBand(upstream) => upstream.failure(name, masker, &Hints::default(), 0),
        StreamFault::Cut => InferError::new(
            Class::Network,
            format!("{name}: the answer broke off before its end"),
        ),
        StreamFault::Malformed(what) => InferError::new(
            Class::Network,
            format!("{name}: the answer is damaged: {what}"),
        ),
        StreamFault::TooLarge(what) => InferError::new(Class::Other, format!("{name}: {what}")),
    }
}

/// A provider that echoes the key into an answer must not hand it to the worker that way.
fn clean(mut answer: Inference, masker: &Masker) -> Inference {
    let mask = |text: &mut String| {
        if let Cow::Owned(masked) = masker.mask(text) {
            *text = masked;
        }
    };
    for part in &mut answer.message.parts {
        match part {
            Part::Text { text } => mask(text),
            Part::Reasoning { raw, .. } => mask(raw),
            Part::ToolCall { input, name, .. } => {
                mask(name);
                masker.mask_value(input);
            }
            Part::ToolResult { content, .. } => mask(content),
        }
    }
    answer
}
