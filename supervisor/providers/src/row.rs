//! One provider's row: its dialect by model, its address, how its key is shown, its quirks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Dialect, RowLimits,
    auth::Issuer,
    config::{ConfigFailure, is_loopback, row_failure},
    dialect::Quirks,
};

/// How a call proves whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// `x-api-key: KEY`.
    XApiKey,
    /// `x-goog-api-key: KEY`.
    XGoogApiKey,
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// AWS: a Bedrock API key as bearer, else SigV4 by the credential chain.
    Aws,
    /// Google: a bearer token of a service account, of the user's default credentials, or of the
    /// metadata server.
    Google,
    /// Azure: `api-key: KEY`, else a bearer token of Entra.
    Azure,
    /// The ChatGPT sign-in of `provost login`.
    Codex,
    /// No key.
    None,
}

impl Auth {
    /// The word of `providers.toml`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::XApiKey => "x-api-key",
            Self::XGoogApiKey => "x-goog-api-key",
            Self::Bearer => "bearer",
            Self::Aws => "aws",
            Self::Google => "google",
            Self::Azure => "azure",
            Self::Codex => "codex",
            Self::None => "none",
        }
    }

    /// Whether a call may be proven by something else than a key of the vault.
    #[must_use]
    pub fn has_other_sources(self) -> bool {
        matches!(self, Self::Aws | Self::Google | Self::Azure | Self::Codex)
    }
}

/// One provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name, as in `PROVIDER/MODEL` and `keys/PROVIDER`.
    pub name: String,
    /// Its wire grammar, where no route says otherwise.
    pub dialect: Dialect,
    /// Where calls go, with `{name}` for what stands in `values`; `None` if nobody said.
    pub base_url: Option<String>,
    /// Why its address in the environment cannot be used.
    pub trouble: Option<String>,
    /// The address was given by hand or environment: routes do not change it.
    pub pinned: bool,
    /// How a call proves whose it is.
    pub auth: Auth,
    /// Environment variables that may hold its key, first is taken first.
    pub key_env: Vec<String>,
    /// It can be called without a key.
    pub key_optional: bool,
    /// What the address holds open (`account`, `region`), as far as it is known.
    pub values: BTreeMap<String, String>,
    /// Environment variables of those values.
    pub value_env: BTreeMap<String, Vec<String>>,
    /// Headers that each call carries.
    pub headers: BTreeMap<String, String>,
    /// What each call's address ends in (`api-version`).
    pub query: BTreeMap<String, String>,
    /// In what it differs from its dialect.
    pub quirks: Quirks,
    /// Its own limits of time.
    pub limits: RowLimits,
    /// Models that are spoken to in another way; the first that fits counts.
    pub routes: Vec<Route>,
    /// Whom to sign in with, where it is not the provider's own service.
    pub sign_in: Option<Issuer>,
}

/// Models of a provider that are spoken to in another way than the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// A model id; `*` stands for any run of characters.
    pub models: String,
    /// Their grammar.
    pub dialect: Dialect,
    /// Their address, if it is not the row's.
    pub base_url: Option<String>,
    /// Their quirks, in place of the row's.
    pub quirks: Quirks,
}

/// How one model is spoken to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speech<'a> {
    /// The grammar.
    pub dialect: Dialect,
    /// Quirks.
    pub quirks: &'a Quirks,
    base_url: Option<&'a str>,
}

impl Row {
    /// A row that says nothing but its dialect.
    #[must_use]
    pub fn new(name: &str, dialect: Dialect) -> Self {
        Self {
            name: name.to_owned(),
            dialect,
            base_url: None,
            trouble: None,
            pinned: false,
            auth: Auth::XApiKey,
            key_env: Vec::new(),
            key_optional: false,
            values: BTreeMap::new(),
            value_env: BTreeMap::new(),
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            quirks: Quirks::default(),
            limits: RowLimits::default(),
            routes: Vec::new(),
            sign_in: None,
        }
    }

    /// Whom to sign in with.
    #[must_use]
    pub fn issuer(&self) -> Issuer {
        self.sign_in.clone().unwrap_or_default()
    }

    /// How a model is spoken to.
    #[must_use]
    pub fn speech(&self, model: &str) -> Speech<'_> {
        let own = self.base_url.as_deref();
        match self.routes.iter().find(|route| fits(&route.models, model)) {
            None => Speech {
                dialect: self.dialect,
                quirks: &self.quirks,
                base_url: own,
            },
            Some(route) => Speech {
                dialect: route.dialect,
                quirks: &route.quirks,
                base_url: route.base_url.as_deref().filter(|_| !self.pinned).or(own),
            },
        }
    }

    /// Where calls to a model go, with everything filled in.
    ///
    /// # Errors
    /// What is missing, and how to give it.
    pub fn address(&self, speech: &Speech<'_>) -> Result<String, String> {
        let name = &self.name;
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        let Some(template) = speech.base_url else {
            return Err(format!(
                "`{name}` has no base_url: set it in providers.toml"
            ));
        };
        let mut url = String::new();
        let mut rest = template;
        while let Some((head, tail)) = rest.split_once('{') {
            let Some((value, tail)) = tail.split_once('}') else {
                break;
            };
            url.push_str(head);
            url.push_str(&self.value(value)?);
            rest = tail;
        }
        url.push_str(rest);
        Ok(url)
    }

    /// An address with the query that each call of this row has.
    #[must_use]
    pub(crate) fn url(&self, address: &str) -> String {
        let Ok(mut url) = reqwest::Url::parse(address) else {
            return address.to_owned();
        };
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        url.into()
    }

    /// Whether all calls of this row stay on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let base = self.base_url.as_deref().unwrap_or_default();
        let local = reqwest::Url::parse(base).is_ok_and(|url| is_loopback(&url));
        local && (self.pinned || self.routes.iter().all(|route| route.base_url.is_none()))
    }

    fn value(&self, name: &str) -> Result<String, String> {
        if name == "google_host" {
            return Ok(match self.value("location")?.as_str() {
                "global" => "aiplatform.googleapis.com".to_owned(),
                place @ ("us" | "eu") => format!("aiplatform.{place}.rep.googleapis.com"),
                place => format!("{place}-aiplatform.googleapis.com"),
            });
        }
        self.values.get(name).cloned().ok_or_else(|| {
            let variables = self.value_env.get(name).map(|names| names.join(" or "));
            let row = &self.name;
            format!(
                "`{row}` needs its {name}: set {}, or [provider.{row}.values] {name} = \"…\" in providers.toml",
                variables.unwrap_or_else(|| "it in the environment".into())
            )
        })
    }
}

/// Whether a pattern of `*` and plain characters fits a model id.
fn fits(pattern: &str, model: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = model.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowFile {
    pub(crate) dialect: Option<Dialect>,
    base_url: Option<String>,
    base_url_env: Option<String>,
    auth: Option<Auth>,
    key_env: Option<Vec<String>>,
    key_optional: Option<bool>,
    #[serde(default)]
    values: BTreeMap<String, String>,
    #[serde(default)]
    value_env: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    query: BTreeMap<String, String>,
    #[serde(default)]
    quirks: toml::Table,
    #[serde(default)]
    limits: RowLimits,
    route: Option<Vec<RouteFile>>,
    sign_in: Option<Issuer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteFile {
    models: String,
    dialect: Dialect,
    base_url: Option<String>,
    #[serde(default)]
    quirks: toml::Table,
}

/// A file's row over what is known so far.
pub(crate) fn merge(
    path: &str,
    name: &str,
    known: Option<Row>,
    file: RowFile,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Row, ConfigFailure> {
    let wrong = |problem: String| row_failure(path, name, problem);
    let set = |variable: &str| environment(variable).filter(|value| !value.trim().is_empty());
    let mut row = match (known, file.dialect) {
        (Some(row), None) => row,
        // Another grammar has other quirks, and other models that are special.
        (Some(row), Some(dialect)) => Row {
            dialect,
            quirks: if dialect == row.dialect {
                row.quirks.clone()
            } else {
                Quirks::default()
            },
            ..row
        },
        (None, Some(dialect)) => Row::new(name, dialect),
        (None, None) => {
            let problem = "a new provider needs a dialect (`openai-chat`) and a base_url";
            return Err(wrong(problem.into()));
        }
    };
    row.auth = file.auth.unwrap_or(row.auth);
    row.key_env = file.key_env.unwrap_or(row.key_env);
    row.key_optional = file.key_optional.unwrap_or(row.key_optional);
    row.quirks = quirks(&row.quirks, file.quirks).map_err(wrong)?;
    file.limits.check().map_err(wrong)?;
    row.limits = file.limits.merged(row.limits);
    for (header, value) in file.headers {
        check_header(&header, &value).map_err(wrong)?;
        row.headers.insert(header.to_lowercase(), value);
    }
    row.query.extend(file.query);
    row.values.extend(file.values);
    for (value, variables) in file.value_env {
        if let Some(given) = variables.iter().find_map(|variable| set(variable)) {
            row.values.insert(value.clone(), given.trim().to_owned());
        }
        row.value_env.insert(value, variables);
    }
    for (value, given) in &row.values {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if given.is_empty() || given.len() > 100 || !given.bytes().all(plain) {
            let problem =
                format!("{value}: it stands in the address: letters, digits, `-`, `_`, `.` only");
            return Err(wrong(problem));
        }
    }
    if let Some(mut issuer) = file.sign_in {
        issuer.url = check_url(&issuer.url, false).map_err(wrong)?;
        row.sign_in = Some(issuer);
    }
    let routed = file.route.is_some();
    if let Some(routes) = file.route {
        row.routes.clear();
        for route in routes {
            let url = route.base_url.map(|url| check_url(&url, true));
            row.routes.push(Route {
                models: route.models,
                dialect: route.dialect,
                base_url: url.transpose().map_err(wrong)?,
                quirks: quirks(&Quirks::default(), route.quirks).map_err(wrong)?,
            });
        }
    }
    let named = file.base_url_env.and_then(|variable| {
        let url = set(&variable)?;
        Some((variable, url))
    });
    if let Some((variable, url)) = named {
        // A variable may be meant for another program: it is an error once this provider is asked.
        match check_url(&with_scheme(&url), false) {
            Ok(url) => (row.base_url, row.trouble, row.pinned) = (Some(url), None, true),
            Err(problem) => row.trouble = Some(format!("{variable}: {problem}")),
        }
    } else if let Some(url) = file.base_url {
        row.base_url = Some(check_url(&url, true).map_err(wrong)?);
        row.trouble = None;
        row.pinned = path != crate::config::EMBEDDED_NAME && !routed;
    }
    Ok(row)
}

/// `OLLAMA_HOST` and its kind hold a name and a port only; 11434 is Ollama's.
fn with_scheme(text: &str) -> String {
    let text = text.trim();
    if text.contains("://") {
        return text.to_owned();
    }
    let host = text.split('/').next().unwrap_or(text);
    let port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let everywhere = host
        .strip_prefix("0.0.0.0")
        .map(|rest| format!("127.0.0.1{rest}"));
    let host = everywhere.as_deref().unwrap_or(text);
    if port {
        format!("http://{host}")
    } else {
        format!("http://{host}:11434")
    }
}

/// Single keys over the quirks so far.
fn quirks(known: &Quirks, file: toml::Table) -> Result<Quirks, String> {
    if file.is_empty() {
        return Ok(known.clone());
    }
    let mut table = toml::Table::try_from(known).map_err(|error| format!("quirks: {error}"))?;
    table.extend(file);
    let quirks = Quirks::deserialize(table);
    quirks.map_err(|error| format!("quirks: {}", error.to_string().trim()))
}

fn check_header(name: &str, value: &str) -> Result<(), String> {
    let good = reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_ok()
        && reqwest::header::HeaderValue::from_str(value).is_ok();
    let ours = [
        "authorization",
        "x-api-key",
        "x-goog-api-key",
        "api-key",
        "host",
        "cookie",
    ];
    if ours.contains(&name.to_lowercase().as_str()) {
        return Err(format!(
            "headers: `{name}`: a key belongs into keys/PROVIDER, not here"
        ));
    }
    if good {
        Ok(())
    } else {
        Err(format!("headers: `{name}` is no header"))
    }
}

/// An address that a key may be sent to: https, or http on this machine; http elsewhere only where a
/// person wrote it into the configuration.
pub(crate) fn check_url(text: &str, explicit: bool) -> Result<String, String> {
    // What an address holds open is filled in later, with plain words only.
    let plain: String = text.chars().filter(|c| !matches!(c, '{' | '}')).collect();
    let url = reqwest::Url::parse(&plain).map_err(|error| format!("base_url: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("base_url: a key or password does not belong here, use keys/PROVIDER".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("base_url: leave out everything after `?` or `#`".into());
    }
    let http_allowed = explicit || is_loopback(&url);
    match url.scheme() {
        "https" => {}
        "http" if http_allowed => {}
        "http" => {
            return Err(
                "plain http would show the key to the network: use https, or write the address into \
                 providers.toml if that is wanted"
                    .into(),
            );
        }
        other => return Err(format!("base_url: `{other}` is neither https nor http")),
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("base_url: it names no host".into());
    }
    let kept = if plain == text { url.as_str() } else { text };
    Ok(kept.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn config(text: &str, environment: &[(&str, &str)]) -> Config {
        let environment = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::parse(Some(("providers.toml", text)), None, &environment).expect("good")
    }

    fn address(config: &Config, provider: &str, model: &str) -> Result<String, String> {
        let row = config.row(provider).expect("known");
        row.address(&row.speech(model))
    }

    #[test]
    fn an_address_is_filled_in_and_what_is_missing_is_named() {
        let none = config("version = 1", &[]);
        for (provider, word) in [
            ("cloudflare", "CLOUDFLARE_ACCOUNT_ID"),
            ("bedrock", "AWS_REGION"),
            ("vertex", "GOOGLE_CLOUD_PROJECT"),
            ("openai-compatible", "base_url"),
        ] {
            let words = address(&none, provider, "m").expect_err(provider);
            assert!(
                words.contains(word) && words.contains("providers.toml"),
                "{words}"
            );
        }
        let own = "version = 1\n[provider.cloudflare.values]\naccount = \"abc\"";
        assert_eq!(
            address(&config(own, &[]), "cloudflare", "m").expect("whole"),
            "https://api.cloudflare.com/client/v4/accounts/abc/ai/v1"
        );
        let project = ("GOOGLE_CLOUD_PROJECT", "p-1");
        for (place, host) in [
            ("global", "aiplatform.googleapis.com"),
            ("eu", "aiplatform.eu.rep.googleapis.com"),
            ("us-east5", "us-east5-aiplatform.googleapis.com"),
        ] {
            let config = config("version = 1", &[project, ("GOOGLE_CLOUD_LOCATION", place)]);
            assert_eq!(
                address(&config, "vertex", "claude-opus-5").expect("whole"),
                format!("https://{host}/v1/projects/p-1/locations/{place}/publishers/anthropic")
            );
        }
    }

    #[test]
    fn a_value_cannot_lead_a_call_elsewhere() {
        for bad in ["evil.test/#", "a@b", "a b", "a?b"] {
            let text = format!("version = 1\n[provider.bedrock.values]\nregion = \"{bad}\"");
            let failure = Config::parse(Some(("f", &text)), None, &|_| None).expect_err(bad);
            assert!(failure.to_string().contains("region"), "{failure}");
        }
    }

    #[test]
    fn models_take_the_first_route_that_fits_and_an_address_by_hand_stands() {
        let mut config = config("version = 1", &[]);
        let row = config.row("opencode").expect("known");
        for (model, dialect) in [
            ("gpt-6-sol", Dialect::OpenaiResponses),
            ("claude-opus-5", Dialect::Anthropic),
            ("gemini-3.8-flash", Dialect::Gemini),
            ("glm-5.4", Dialect::OpenaiChat),
        ] {
            assert_eq!(row.speech(model).dialect, dialect, "{model}");
        }
        config
            .set_base_url("vertex", "http://127.0.0.1:9")
            .expect("set");
        assert_eq!(
            address(&config, "vertex", "claude-x").as_deref(),
            Ok("http://127.0.0.1:9")
        );
        assert!(config.row("vertex").expect("known").is_local());
        assert!(!config.row("openai").expect("known").is_local());
    }

    #[test]
    fn single_quirks_are_changed_and_unknown_ones_refused() {
        let text = "version = 1\n[provider.mistral.quirks]\nno_stream_options = false";
        let config = config(text, &[]);
        let quirks = &config.row("mistral").expect("known").quirks;
        assert_eq!(quirks.call_ids, crate::dialect::CallIds::Nine);
        assert!(!quirks.no_stream_options);
        for bad in [
            "version = 1\n[provider.mistral.quirks]\ncall_id = \"nine\"",
            "version = 1\n[provider.mistral.headers]\nAuthorization = \"Bearer x\"",
            "version = 1\n[provider.mistral.headers]\n\"a b\" = \"x\"",
        ] {
            let failure = Config::parse(Some(("f", bad)), None, &|_| None).expect_err(bad);
            assert!(failure.to_string().contains("mistral"), "{failure}");
        }
    }

    #[test]
    fn ollamas_host_is_read_as_its_own_program_reads_it() {
        for (given, url) in [
            ("127.0.0.1:1234", "http://127.0.0.1:1234"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("localhost", "http://localhost:11434"),
            ("https://ollama.com", "https://ollama.com"),
        ] {
            let config = config("version = 1", &[("OLLAMA_HOST", given)]);
            assert_eq!(address(&config, "ollama", "m").as_deref(), Ok(url));
        }
    }

    #[test]
    fn a_pattern_fits_whole_ids() {
        for (pattern, model, expected) in [
            ("claude-*", "claude-x", true),
            ("claude-*", "a-claude-x", false),
            ("*/*", "meta/llama", true),
            ("*/*", "gemini", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXc", false),
            ("m", "m", true),
            ("m", "mm", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, model), expected, "{pattern} {model}");
        }
    }
}
