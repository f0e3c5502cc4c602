//! AWS keys by the standard chain: environment, profile files, container, instance metadata.

use std::{collections::BTreeMap, sync::Arc};

use reqwest::Url;
use serde::Deserialize;
use supervisor_core::Secret;

use super::{
    Environment, Proof, clock, files,
    fresh::{Fresh, Timed},
    sigv4::{self, Keys},
    token,
};
use crate::{
    Class, InferError,
    http::{Exchange, Http, Verb},
    keys::KeyFailure,
};

const CONTAINER: &str = "http://169.254.170.2";
const INSTANCE: &str = "http://169.254.169.254";
/// Life of a metadata session.
const SESSION_S: &str = "21600";

/// Where keys come from, and those that are held.
#[derive(Debug)]
pub struct Aws {
    source: Source,
    keys: Fresh<Keys>,
}

#[derive(Debug)]
enum Source {
    Static(Arc<Keys>),
    Container { url: String, token: Option<Secret> },
    Instance { base: String },
}

/// Keys as both metadata services write them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    token: Option<String>,
    expiration: Option<String>,
}

impl Aws {
    fn new(source: Source) -> Self {
        Self {
            source,
            keys: Fresh::empty(),
        }
    }

    fn fixed(id: String, secret: String, session: Option<String>) -> Self {
        Self::new(Source::Static(Arc::new(Keys {
            id: id.trim().to_owned(),
            secret: Secret::new(secret.trim().to_owned()),
            session: session.map(|token| Secret::new(token.trim().to_owned())),
        })))
    }

    /// Finds keys and answers where they come from. Without `metadata` (the provider is on this
    /// machine) the instance's service is not thought of: `None`.
    ///
    /// # Errors
    /// A profile that is named and holds nothing usable: the next place would be another account.
    pub(super) fn find(
        environment: Environment<'_>,
        metadata: bool,
    ) -> Result<Option<(Self, String)>, KeyFailure> {
        let set = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        if let (Some(id), Some(secret)) = (set("AWS_ACCESS_KEY_ID"), set("AWS_SECRET_ACCESS_KEY")) {
            let keys = Self::fixed(id, secret, set("AWS_SESSION_TOKEN"));
            return Ok(Some((keys, "AWS_ACCESS_KEY_ID".to_owned())));
        }
        let named = set("AWS_PROFILE").or_else(|| set("AWS_DEFAULT_PROFILE"));
        let profile = named.clone().unwrap_or_else(|| "default".to_owned());
        let home = set("HOME").unwrap_or_default();
        let path = |variable: &str, file: &str| {
            set(variable).unwrap_or_else(|| format!("{home}/.aws/{file}"))
        };
        let credentials = path("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config = path("AWS_CONFIG_FILE", "config");
        let mut facts = BTreeMap::new();
        for (file, heads) in [
            (&config, [format!("profile {profile}"), profile.clone()]),
            (&credentials, [profile.clone(), profile.clone()]),
        ] {
            if let Some(text) = files::foreign(file.as_ref())? {
                section(&text, &heads, &mut facts);
            }
        }
        let mut take = |name: &str| facts.remove(name).filter(|value| !value.is_empty());
        let from = format!("the AWS profile `{profile}`");
        if let (Some(id), Some(secret)) = (take("aws_access_key_id"), take("aws_secret_access_key"))
        {
            return Ok(Some((
                Self::fixed(id, secret, take("aws_session_token")),
                from,
            )));
        }
        let ways = [
            "role_arn",
            "sso_session",
            "sso_start_url",
            "credential_process",
            "login_session",
        ];
        if let Some(way) = ways.iter().find(|way| facts.contains_key(**way)) {
            let problem = format!(
                "gets its keys by {way}, which is not supported: export them first (`aws configure export-credentials --format env`)"
            );
            return Err(KeyFailure::unfit(&from, &problem));
        }
        if named.is_some() {
            let problem = format!("holds no keys in {credentials} or {config}");
            return Err(KeyFailure::unfit(&from, &problem));
        }
        if let Some((container, from)) = container(environment)? {
            return Ok(Some((Self::new(container), from)));
        }
        let off =
            set("AWS_EC2_METADATA_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true"));
        if off || !metadata {
            return Ok(None);
        }
        let base = set("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| INSTANCE.to_owned());
        let base = base.trim_end_matches('/').to_owned();
        let instance = Self::new(Source::Instance { base });
        Ok(Some((
            instance,
            "the instance's metadata service".to_owned(),
        )))
    }

    /// Signs one call.
    pub(super) async fn prove(
        &self,
        http: &Http,
        region: Option<&str>,
        url: &str,
        body: &[u8],
    ) -> Result<Proof, InferError> {
        let keys = match &self.source {
            Source::Static(keys) => Arc::clone(keys),
            Source::Container { .. } | Source::Instance { .. } => {
                self.keys.get(self.fetch(http)).await?
            }
        };
        let url = Url::parse(url)
            .map_err(|_| InferError::new(Class::Other, "the base_url is not an address"))?;
        let host = url.host_str().unwrap_or_default();
        let mut labels = host.split('.');
        let first = labels.next().unwrap_or_default();
        let service = if first == "bedrock-mantle" {
            first
        } else {
            "bedrock"
        };
        let second = labels.next().filter(|label| label.contains('-'));
        let region = region.or(second).unwrap_or("us-east-1");
        let request = sigv4::Request {
            method: "POST",
            url: &url,
            headers: &[],
            body,
        };
        Ok(sigv4::sign(
            &keys,
            region,
            service,
            clock::now_s(),
            &request,
        ))
    }

    /// The provider did not take the keys.
    pub(super) async fn spoil(&self) {
        self.keys.spoil().await;
    }

    /// Whether other keys may come where these are not taken.
    pub(super) fn is_renewable(&self) -> bool {
        !matches!(self.source, Source::Static(_))
    }

    /// Whether nobody knows before asking that there are any keys.
    pub(super) fn is_guess(&self) -> bool {
        matches!(self.source, Source::Instance { .. })
    }

    /// What must not be shown.
    pub(super) fn secrets(&self, each: &mut dyn FnMut(&Secret)) {
        let held = match &self.source {
            Source::Static(keys) => Some(Arc::clone(keys)),
            Source::Container { token, .. } => {
                token.as_ref().map(&mut *each);
                self.keys.peek()
            }
            Source::Instance { .. } => self.keys.peek(),
        };
        if let Some(keys) = held {
            each(&keys.secret);
            keys.session.as_ref().map(each);
        }
    }

    async fn fetch(&self, http: &Http) -> Result<Timed<Keys>, InferError> {
        match &self.source {
            Source::Static(_) => Err(InferError::new(Class::Other, "fixed keys are not fetched")),
            Source::Container { url, token } => {
                let what = "the container's credentials service";
                let copy = |token: &Secret| Secret::new(token.expose().to_owned());
                let exchange = Exchange {
                    headers: token.iter().map(|token| ("authorization", copy(token))).collect(),
                    near: true,
                    ..Exchange::new(Verb::Get, url)
                };
                let secrets: Vec<&Secret> = token.iter().collect();
                keys(what, &token::ask(http, what, &secrets, exchange).await?)
            }
            Source::Instance { base } => instance(http, base).await.map_err(|mut failure| {
                if failure.class == Class::Network {
                    failure.message.push_str(
                        "; elsewhere than on such an instance, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                         AWS_BEARER_TOKEN_BEDROCK, or a profile",
                    );
                    failure.class = Class::Authentication;
                    failure.retryable = false;
                }
                failure
            }),
        }
    }
}

/// The second version of the instance's metadata service: a session first, then role, then keys.
async fn instance(http: &Http, base: &str) -> Result<Timed<Keys>, InferError> {
    let what = "the instance's metadata service";
    let url = format!("{base}/latest/api/token");
    let exchange = Exchange {
        headers: vec![(
            "x-aws-ec2-metadata-token-ttl-seconds",
            Secret::new(SESSION_S.into()),
        )],
        near: true,
        ..Exchange::new(Verb::Put, &url)
    };
    let session = token::ask(http, what, &[], exchange).await?;
    let get = async |url: String| {
        let exchange = Exchange {
            headers: vec![(
                "x-aws-ec2-metadata-token",
                Secret::new(session.expose().trim().into()),
            )],
            near: true,
            ..Exchange::new(Verb::Get, &url)
        };
        token::ask(http, what, &[&session], exchange).await
    };
    let roles = format!("{base}/latest/meta-data/iam/security-credentials/");
    let role = get(roles.clone()).await?;
    let role = role.expose().lines().next().unwrap_or_default().trim();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"+=,.@_-".contains(&b);
    if role.is_empty() || !role.bytes().all(plain) {
        let words = format!("{what} names no role");
        return Err(InferError::new(Class::Authentication, words));
    }
    keys(what, &get(format!("{roles}{role}")).await?)
}

fn keys(what: &str, body: &Secret) -> Result<Timed<Keys>, InferError> {
    let failed = || InferError::new(Class::Authentication, format!("{what} answered no keys"));
    let answer: Answer = serde_json::from_str(body.expose()).map_err(|_| failed())?;
    let (Some(id), Some(secret)) = (answer.access_key_id, answer.secret_access_key) else {
        return Err(failed());
    };
    Ok(Timed {
        value: Keys {
            id,
            secret: Secret::new(secret),
            session: answer
                .token
                .filter(|token| !token.is_empty())
                .map(Secret::new),
        },
        expires_s: answer.expiration.and_then(|text| clock::rfc3339(&text)),
    })
}

/// ECS and EKS: an address in a variable. The key that it asks for goes to known places only.
fn container(environment: Environment<'_>) -> Result<Option<(Source, String)>, KeyFailure> {
    let set = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    let url = match (
        set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        set("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    ) {
        (Some(path), _) => format!("{CONTAINER}/{}", path.trim_start_matches('/')),
        (None, Some(url)) => url,
        (None, None) => return Ok(None),
    };
    let known = Url::parse(&url).is_ok_and(|url| {
        let host = url.host_str().unwrap_or_default();
        matches!(host, "169.254.170.2" | "169.254.170.23" | "[fd00:ec2::23]")
    });
    if !known && !super::may_get_secrets(&url) {
        let problem = "is neither https nor a known address of this machine";
        return Err(KeyFailure::unfit(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            problem,
        ));
    }
    let token = match set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(path) => {
            files::foreign(path.as_ref())?.map(|text| Secret::new(text.expose().trim().to_owned()))
        }
        None => set("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::new),
    };
    let source = Source::Container { url, token };
    Ok(Some((source, "the container's credentials".to_owned())))
}

/// The lines of a profile's section over what is known so far.
fn section(text: &Secret, heads: &[String; 2], facts: &mut BTreeMap<String, String>) {
    let mut within = false;
    for line in text.expose().lines() {
        let line = line.trim_end();
        if let Some(head) = line.strip_prefix('[') {
            let head = head.split(']').next().unwrap_or_default();
            let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
            within = heads.contains(&head);
        } else if within
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((name, value)) = line.split_once('=')
        {
            facts.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(vars: &[(&str, &str)]) -> Result<Option<(Aws, String)>, KeyFailure> {
        let vars: BTreeMap<String, String> = vars
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Aws::find(&move |name| vars.get(name).cloned(), true)
    }

    fn fixed(aws: &Aws) -> (String, String, Option<String>) {
        let Source::Static(keys) = &aws.source else {
            panic!("fixed keys: {aws:?}");
        };
        let session = keys.session.as_ref().map(|s| s.expose().to_owned());
        (keys.id.clone(), keys.secret.expose().to_owned(), session)
    }

    #[test]
    fn the_environment_comes_first_and_then_the_profile() {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(home.path().join(".aws")).expect("made");
        let write = |name: &str, text: &str| {
            std::fs::write(home.path().join(".aws").join(name), text).expect("written");
        };
        write(
            "credentials",
            "[default]\naws_access_key_id = A1\naws_secret_access_key=S1\n# x=1\n[ work ]\naws_access_key_id=A2\naws_secret_access_key=S2\naws_session_token=T2\n",
        );
        write(
            "config",
            "[profile work]\nregion = eu-west-1\naws_access_key_id = OLD\ns3 =\n  max = 1\n[profile sso]\nsso_session = x\n",
        );
        let home = home.path().to_str().expect("UTF-8");
        let both = [
            ("HOME", home),
            ("AWS_ACCESS_KEY_ID", "A0"),
            ("AWS_SECRET_ACCESS_KEY", "S0 "),
        ];
        let (aws, from) = find(&both).expect("found").expect("some");
        assert_eq!(
            (fixed(&aws), from.as_str()),
            (("A0".into(), "S0".into(), None), "AWS_ACCESS_KEY_ID")
        );
        let (aws, _) = find(&[("HOME", home)]).expect("found").expect("some");
        assert_eq!(fixed(&aws), ("A1".into(), "S1".into(), None));
        let (aws, _) = find(&[("HOME", home), ("AWS_PROFILE", "work")])
            .expect("found")
            .expect("some");
        assert_eq!(fixed(&aws), ("A2".into(), "S2".into(), Some("T2".into())));
        let sso = find(&[("HOME", home), ("AWS_PROFILE", "sso")]).expect_err("not supported");
        assert!(sso.to_string().contains("export-credentials"), "{sso}");
        let none = find(&[("HOME", home), ("AWS_PROFILE", "typo")]).expect_err("nothing there");
        assert!(none.to_string().contains("typo"), "{none}");
    }

    #[test]
    fn the_containers_key_goes_to_known_places_only() {
        let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        for url in [
            "http://169.254.170.23/v1",
            "https://h/x",
            "http://127.0.0.1:9/x",
        ] {
            let (aws, _) = find(&[(full, url)]).expect("good").expect("some");
            assert!(matches!(aws.source, Source::Container { .. }));
        }
        for url in [
            "http://evil.test/",
            "http://169.254.170.2.evil.test/",
            "nonsense",
        ] {
            assert!(find(&[(full, url)]).is_err(), "{url}");
        }
        let off = [("AWS_EC2_METADATA_DISABLED", "TRUE")];
        assert!(find(&off).expect("no fault").is_none());
        let (aws, _) = find(&[]).expect("no fault").expect("metadata");
        assert!(matches!(aws.source, Source::Instance { .. }));
    }
}
