//! Every kind of sign-in against token services on loopback that keep what they are sent.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    rsa::KeySize,
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    Dialect, KeySource, Limits, Vault,
    faults::{Act, Faults, Seen},
};

fn row(name: &str, auth: Auth) -> Row {
    Row {
        auth,
        base_url: Some("https://provider.test".into()),
        ..Row::new(name, Dialect::Anthropic)
    }
}

fn environment(vars: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + use<> {
    let vars: BTreeMap<String, String> = vars
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    move |name| vars.get(name).cloned()
}

fn http() -> Arc<Http> {
    Arc::new(Http::new(Limits::default()))
}

fn outgoing() -> Outgoing {
    Outgoing {
        path: "/x".into(),
        headers: vec![],
        accept: "application/json",
        body: b"{}".to_vec(),
    }
}

async fn proven(
    row: &Row,
    credential: &Credential,
) -> Result<BTreeMap<String, String>, InferError> {
    let url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m%3A0/converse-stream";
    let proof = prove(row, Some(credential), &http(), url, &outgoing()).await?;
    let pair = |(name, secret): (&str, Secret)| (name.to_owned(), secret.expose().to_owned());
    Ok(proof.into_iter().map(pair).collect())
}

fn found(row: &Row, vars: &[(&str, &str)]) -> Credential {
    let found = elsewhere(row, &environment(vars)).expect("no fault");
    found.expect("found").0
}

fn answer(body: &Value) -> Act {
    Act::answer(
        200,
        &[("content-type", "application/json")],
        body.to_string(),
    )
}

fn refused(status: u16, body: &Value) -> Act {
    Act::answer(status, &[], body.to_string())
}

fn fields(seen: &Seen) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://h/?{}", seen.body)).expect("a form");
    url.query_pairs()
        .map(|(a, b)| (a.into_owned(), b.into_owned()))
        .collect()
}

fn token_with(exp: u64, account: &str) -> String {
    let claims =
        json!({"exp": exp, "https://api.openai.com/auth": {"chatgpt_account_id": account}});
    format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// A service account's file, as Google writes it, and its public key.
fn service_account(token_uri: &str) -> (String, Vec<u8>) {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let der: Pkcs8V1Der<'_> = pair.as_der().expect("PKCS #8");
    let lines = STANDARD.encode(der.as_ref());
    let lines: Vec<&str> = lines
        .as_bytes()
        .chunks(64)
        .map(|l| std::str::from_utf8(l).expect("ASCII"))
        .collect();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        lines.join("\n")
    );
    let file = json!({
        "type": "service_account", "client_email": "a@p.iam.test", "private_key_id": "k1",
        "private_key": pem, "token_uri": token_uri, "project_id": "p",
    });
    (file.to_string(), pair.public_key().as_ref().to_vec())
}

#[tokio::test]
async fn a_service_account_signs_its_assertion_once_and_its_token_is_shared() {
    let service = Faults::start(vec![answer(
        &json!({"access_token": "T-MARKER-1", "expires_in": 3_600}),
    )])
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("account.json");
    let (text, public) = service_account(&format!("{}/token", service.url()));
    std::fs::write(&path, text).expect("written");
    let row = row("vertex", Auth::Google);
    let credential = found(
        &row,
        &[(
            "GOOGLE_APPLICATION_CREDENTIALS",
            path.to_str().expect("UTF-8"),
        )],
    );
    for _ in 0..3 {
        let headers = proven(&row, &credential).await.expect("proven");
        assert_eq!(headers["authorization"], "Bearer T-MARKER-1");
    }
    let seen = service.seen();
    assert_eq!(seen.len(), 1, "one token serves all");
    assert!(seen[0].head.starts_with("POST /token "), "{}", seen[0].head);
    let sent = fields(&seen[0]);
    assert_eq!(
        sent["grant_type"],
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
    );
    let (signed, signature) = sent["assertion"].rsplit_once('.').expect("a JWT");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
    key.verify(signed.as_bytes(), &signature)
        .expect("the signature holds");
    let part = |at: usize| -> Value {
        let part = signed.split('.').nth(at).expect("a part");
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
    };
    assert_eq!(part(0), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    let claims = part(1);
    assert_eq!(
        (&claims["iss"], &claims["aud"]),
        (
            &json!("a@p.iam.test"),
            &json!(format!("{}/token", service.url()))
        )
    );
    assert_eq!(
        claims["exp"].as_u64().expect("exp") - claims["iat"].as_u64().expect("iat"),
        3_600
    );
    assert!(!format!("{credential:?}").contains("MARKER"));
    let masker = masker(Some(&credential), &Vec::new());
    assert!(
        masker.finds("x T-MARKER-1 y"),
        "a fetched token is masked too"
    );
}

#[tokio::test]
async fn a_token_that_is_not_taken_is_fetched_anew() {
    let token = |word: &str| answer(&json!({"access_token": word, "expires_in": 3_600}));
    let service = Faults::start(vec![token("one"), token("two")]).await;
    let (text, _) = service_account(&service.url());
    let file = KeyFile::own(Path::new("/nowhere"), "vertex", None);
    let row = row("vertex", Auth::Google);
    let credential = from_file(&row, Secret::new(text), file, "x").expect("read");
    assert!(credential.is_renewable());
    assert_eq!(
        proven(&row, &credential).await.expect("proven")["authorization"],
        "Bearer one"
    );
    credential.spoil().await;
    assert_eq!(
        proven(&row, &credential).await.expect("proven")["authorization"],
        "Bearer two"
    );
}

#[tokio::test]
async fn a_users_credentials_and_the_metadata_server_give_tokens() {
    let token = answer(&json!({"access_token": "T", "expires_in": 3_600}));
    let service = Faults::start(vec![token]).await;
    let user = json!({
        "type": "authorized_user", "client_id": "c", "client_secret": "s-MARKER-secret", "refresh_token": "r-MARKER-token",
        "token_uri": service.url(), "quota_project_id": "q",
    });
    let row = row("vertex", Auth::Google);
    let file = KeyFile::own(Path::new("/nowhere"), "vertex", None);
    let credential = from_file(&row, Secret::new(user.to_string()), file, "x").expect("read");
    let headers = proven(&row, &credential).await.expect("proven");
    assert_eq!(
        (
            headers["authorization"].as_str(),
            headers["x-goog-user-project"].as_str()
        ),
        ("Bearer T", "q")
    );
    assert_eq!(
        fields(&service.seen()[0])["refresh_token"],
        "r-MARKER-token"
    );

    let host = service.url().replace("http://", "");
    let credential = found(&row, &[("GCE_METADATA_HOST", &host)]);
    proven(&row, &credential).await.expect("proven");
    let seen = service.seen();
    assert!(
        seen[1]
            .head
            .starts_with("GET /computeMetadata/v1/instance/service-accounts/default/token ")
    );
    assert!(
        seen[1]
            .head
            .to_lowercase()
            .contains("metadata-flavor: google")
    );
}

#[tokio::test]
async fn a_refusal_names_its_service_and_shows_no_secret() {
    let echo = json!({"error": "invalid_client", "error_description": "bad secret s-MARKER-0123456789 given"});
    let service = Faults::start(vec![
        refused(401, &echo),
        refused(503, &json!({})),
        answer(&json!({"token": 1})),
    ])
    .await;
    let row = row("azure", Auth::Azure);
    let credential = found(
        &row,
        &[
            ("AZURE_TENANT_ID", "t-1"),
            ("AZURE_CLIENT_ID", "c"),
            ("AZURE_CLIENT_SECRET", "s-MARKER-0123456789"),
            ("AZURE_AUTHORITY_HOST", &service.url()),
        ],
    );
    let failure = proven(&row, &credential).await.expect_err("refused");
    assert_eq!(
        (failure.class, failure.retryable),
        (Class::Authentication, false)
    );
    let words = failure.message;
    assert!(
        words.contains("Entra")
            && words.contains("401 invalid_client")
            && !words.contains("MARKER"),
        "{words}"
    );
    let failure = proven(&row, &credential).await.expect_err("down");
    assert_eq!((failure.class, failure.retryable), (Class::Network, true));
    assert_eq!(
        proven(&row, &credential).await.expect_err("no token").class,
        Class::Authentication
    );
}

#[tokio::test]
async fn an_application_of_entra_gets_its_token() {
    let service = Faults::start(vec![answer(
        &json!({"access_token": "T", "expires_in": "3599"}),
    )])
    .await;
    let row = row("azure", Auth::Azure);
    let url = service.url();
    let vars = [
        ("AZURE_TENANT_ID", "t-1"),
        ("AZURE_CLIENT_ID", "c"),
        ("AZURE_CLIENT_SECRET", "s e&c"),
        ("AZURE_AUTHORITY_HOST", url.as_str()),
    ];
    let credential = found(&row, &vars);
    assert_eq!(
        proven(&row, &credential).await.expect("proven")["authorization"],
        "Bearer T"
    );
    let seen = &service.seen()[0];
    assert!(
        seen.head.starts_with("POST /t-1/oauth2/v2.0/token "),
        "{}",
        seen.head
    );
    let sent = fields(seen);
    assert_eq!(
        (sent["client_secret"].as_str(), sent["grant_type"].as_str()),
        ("s e&c", "client_credentials")
    );
    assert_eq!(
        sent["scope"],
        "https://cognitiveservices.azure.com/.default"
    );
    for (name, wrong) in [
        ("AZURE_AUTHORITY_HOST", "http://evil.test"),
        ("AZURE_TENANT_ID", "../x"),
    ] {
        let mut vars = vars.to_vec();
        vars.retain(|(known, _)| *known != name);
        vars.push((name, wrong));
        assert!(elsewhere(&row, &environment(&vars)).is_err(), "{wrong}");
    }
    let token = found(&row, &[("AZURE_OPENAI_AD_TOKEN", "AD\n")]);
    assert_eq!(
        proven(&row, &token).await.expect("proven")["authorization"],
        "Bearer AD"
    );
}

#[tokio::test]
async fn an_instances_and_a_containers_keys_sign_and_are_fetched_anew() {
    let keys = |id: &str, soon: bool| {
        let expiration = if soon {
            "2020-01-01T00:00:00Z"
        } else {
            "2999-01-01T00:00:00Z"
        };
        answer(
            &json!({"Code": "Success", "AccessKeyId": id, "SecretAccessKey": "S-MARKER-0123", "Token": "TOKEN-MARKER", "Expiration": expiration}),
        )
    };
    let text = |body: &str| Act::answer(200, &[], body.to_owned());
    let service = Faults::start(vec![
        text("session-1"),
        text("role-a\n"),
        keys("ID1", true),
        text("session-2"),
        text("role-a"),
        keys("ID2", false),
    ])
    .await;
    let row = row("bedrock", Auth::Aws);
    let credential = found(
        &row,
        &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &service.url())],
    );
    for id in ["ID1", "ID2", "ID2"] {
        let headers = proven(&row, &credential).await.expect("signed");
        let line = &headers["authorization"];
        assert!(
            line.contains(&format!("Credential={id}/"))
                && line.contains("/eu-west-1/bedrock/aws4_request"),
            "{line}"
        );
        assert_eq!(headers["x-amz-security-token"], "TOKEN-MARKER");
    }
    let heads: Vec<String> = service
        .seen()
        .iter()
        .map(|seen| seen.head.clone())
        .collect();
    assert_eq!(
        heads.len(),
        6,
        "what has run out is fetched anew, what holds is not"
    );
    assert!(
        heads[0].starts_with("PUT /latest/api/token ")
            && heads[0].contains("x-aws-ec2-metadata-token-ttl-seconds: 21600")
    );
    assert!(
        heads[1].starts_with("GET /latest/meta-data/iam/security-credentials/ ")
            && heads[1].contains("x-aws-ec2-metadata-token: session-1")
    );
    assert!(heads[2].starts_with("GET /latest/meta-data/iam/security-credentials/role-a "));
    assert!(!format!("{credential:?}").contains("MARKER"));

    let service = Faults::start(vec![keys("ID3", false)]).await;
    let url = service.url();
    let vars = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod-token"),
    ];
    let credential = found(&row, &vars);
    assert!(
        proven(&row, &credential).await.expect("signed")["authorization"]
            .contains("Credential=ID3/")
    );
    assert!(service.seen()[0].head.contains("authorization: pod-token"));
}

#[tokio::test]
async fn a_machine_without_metadata_says_so_within_seconds() {
    let service = Faults::start(vec![Act::Silence]).await;
    let began = std::time::Instant::now();
    let row = row("bedrock", Auth::Aws);
    let credential = found(
        &row,
        &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &service.url())],
    );
    let failure = proven(&row, &credential).await.expect_err("nobody answers");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (failure.class, failure.retryable),
        (Class::Authentication, false)
    );
    assert!(
        failure.message.contains("AWS_ACCESS_KEY_ID"),
        "{}",
        failure.message
    );
}

/// A configuration folder in which somebody is signed in.
fn signed_in(tokens: &Value, passphrase: Option<&str>) -> (tempfile::TempDir, KeyFile) {
    let folder = tempfile::tempdir().expect("a folder");
    let passphrase = passphrase.map(|text| Arc::new(Secret::new(text.into())));
    let file = KeyFile::own(folder.path(), "codex", passphrase);
    file.write(&Secret::new(tokens.to_string()))
        .expect("written");
    (folder, file)
}

fn stored(access: &str, refresh: &str) -> Value {
    json!({"kind": "chatgpt", "access_token": access, "refresh_token": refresh, "account_id": "acc-1", "given_s": clock::now_s()})
}

fn codex_row(issuer: &str) -> Row {
    let mut row = row("codex", Auth::Codex);
    row.sign_in = Some(Issuer {
        url: issuer.to_owned(),
        client: "app-1".into(),
    });
    row
}

#[tokio::test]
async fn a_sign_in_is_refreshed_once_for_all_and_kept_before_it_is_used() {
    let (old, new) = (
        token_with(clock::now_s() + 60, "acc-1"),
        token_with(clock::now_s() + 9_999, "acc-1"),
    );
    let slow = answer(&json!({"access_token": new, "refresh_token": "R2-MARKER", "id_token": "x"}))
        .slowly(Duration::from_millis(30));
    let service = Faults::start(vec![
        slow,
        refused(401, &json!({"error": "refresh_token_reused"})),
    ])
    .await;
    let (folder, file) = signed_in(&stored(&old, "R1-MARKER"), Some("a passphrase"));
    let row = codex_row(&service.url());
    // Two supervisors of one account, ten calls each.
    let vaults = [0, 1].map(|_| {
        let mut vault = Vault::new();
        vault.unlock(Secret::new("a passphrase".into()));
        let from = vault
            .take(&row, Some(folder.path()), &environment(&[]))
            .expect("taken");
        assert_eq!(from, KeySource::File(file.path().to_owned()));
        Arc::new(vault)
    });
    let mut tasks = Vec::new();
    for vault in &vaults {
        for _ in 0..10 {
            let (vault, row) = (Arc::clone(vault), row.clone());
            tasks.push(tokio::spawn(async move {
                proven(&row, vault.get("codex").expect("there"))
                    .await
                    .expect("proven")
            }));
        }
    }
    for task in tasks {
        let headers = task.await.expect("done");
        assert_eq!(headers["authorization"], format!("Bearer {new}"));
        assert_eq!(headers["chatgpt-account-id"], "acc-1");
    }
    assert_eq!(service.seen().len(), 1, "a refresh token works once");
    let sent: Value = serde_json::from_str(&service.seen()[0].body).expect("JSON");
    assert_eq!(
        (&sent["refresh_token"], &sent["client_id"]),
        (&json!("R1-MARKER"), &json!("app-1"))
    );
    assert!(file.is_sealed().expect("read"), "it stays sealed");
    let text = file.read().expect("read").expect("there");
    assert!(text.expose().contains("R2-MARKER"));
    let mode = std::fs::metadata(file.path())
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert!(vaults[0].masker().finds("a R2-MARKER b"));
}

#[tokio::test]
async fn a_sign_in_that_is_over_says_how_to_begin_anew() {
    let service = Faults::start(vec![refused(
        401,
        &json!({"error": {"code": "refresh_token_expired", "message": "R1-MARKER-0123"}}),
    )])
    .await;
    let (folder, _file) = signed_in(&stored("x", "R1-MARKER-0123"), None);
    let row = codex_row(&service.url());
    let mut vault = Vault::new();
    vault
        .take(&row, Some(folder.path()), &environment(&[]))
        .expect("taken");
    let credential = vault.get("codex").expect("there");
    // A token whose end nobody knows is used until it is not taken.
    assert_eq!(
        proven(&row, credential).await.expect("proven")["authorization"],
        "Bearer x"
    );
    credential.spoil().await;
    let failure = proven(&row, credential).await.expect_err("over");
    assert_eq!(failure.class, Class::Authentication);
    assert!(
        failure.message.contains("provost login codex") && !failure.message.contains("MARKER"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn a_person_signs_in_by_a_code() {
    let access = token_with(clock::now_s() + 9_999, "acc-7");
    let service = Faults::start(vec![
        answer(&json!({"device_auth_id": "d-1", "user_code": "ABCD-EFGH", "interval": "1"})),
        refused(403, &json!({})),
        answer(
            &json!({"authorization_code": "code-1", "code_challenge": "c", "code_verifier": "v-1"}),
        ),
        answer(&json!({"id_token": access, "access_token": access, "refresh_token": "R"})),
    ])
    .await;
    let issuer = Issuer {
        url: service.url(),
        client: "app-1".into(),
    };
    let sign_in = SignIn::begin(issuer).await.expect("begun");
    assert_eq!(
        (sign_in.code.as_str(), sign_in.url.as_str()),
        (
            "ABCD-EFGH",
            format!("{}/codex/device", service.url()).as_str()
        )
    );
    let text = sign_in.finish().await.expect("signed in");
    let kept: Value = serde_json::from_str(text.expose()).expect("JSON");
    assert_eq!(
        (&kept["account_id"], &kept["refresh_token"]),
        (&json!("acc-7"), &json!("R"))
    );
    let seen = service.seen();
    let heads: Vec<&str> = seen
        .iter()
        .map(|s| s.head.lines().next().expect("a line"))
        .collect();
    assert_eq!(
        heads,
        [
            "POST /api/accounts/deviceauth/usercode HTTP/1.1",
            "POST /api/accounts/deviceauth/token HTTP/1.1",
            "POST /api/accounts/deviceauth/token HTTP/1.1",
            "POST /oauth/token HTTP/1.1",
        ]
    );
    let sent = fields(&seen[3]);
    assert_eq!(
        (sent["code"].as_str(), sent["code_verifier"].as_str()),
        ("code-1", "v-1")
    );
    assert_eq!(
        sent["redirect_uri"],
        format!("{}/deviceauth/callback", service.url())
    );
}

#[tokio::test]
async fn a_service_that_sends_a_strange_code_or_none_is_refused() {
    for body in [
        json!({}),
        json!({"device_auth_id": "d", "user_code": "\u{1b}[2J evil"}),
    ] {
        let service = Faults::start(vec![answer(&body)]).await;
        let issuer = Issuer {
            url: service.url(),
            client: "a".into(),
        };
        assert!(SignIn::begin(issuer).await.is_err(), "{body}");
    }
}

#[test]
fn a_file_that_would_send_secrets_in_the_clear_is_refused() {
    let row = row("vertex", Auth::Google);
    let file = || KeyFile::own(Path::new("/nowhere"), "vertex", None);
    for text in [
        service_account("http://evil.test/token").0,
        r#"{"type":"external_account"}"#.into(),
        r#"{"type":"service_account","client_email":"x"}"#.into(),
        r#"{"type":"service_account","client_email":"x","private_key":"MARKER"}"#.into(),
        "{MARKER".into(),
    ] {
        let failure = from_file(&row, Secret::new(text), file(), "the file").expect_err("unfit");
        assert!(!failure.to_string().contains("MARKER"), "{failure}");
    }
}

/// The provider says a fetched token back, in a form of its own, a byte at a time: nothing of it comes
/// out, in text, in an error, or in anything that prints the answer.
#[tokio::test]
async fn a_fetched_token_that_is_echoed_stays_outside() {
    let token = "ya29.MARKER+a/b=c.(x|y)*[z]$^-0123";
    let tokens = Faults::start(vec![answer(
        &json!({"access_token": token, "expires_in": 3_600}),
    )])
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("keys")).expect("made");
    let (text, _) = service_account(&tokens.url());
    KeyFile::own(folder.path(), "vertex", None)
        .write(&Secret::new(text))
        .expect("written");

    let forms = [
        token.to_owned(),
        STANDARD.encode(format!("Bearer {token}!")),
        URL_SAFE_NO_PAD.encode(token),
        token.bytes().map(|byte| format!("{byte:02X}")).collect(),
        String::from_utf8(super::token::form(&[("t", token)]).expose().as_bytes()[2..].to_vec())
            .expect("ASCII"),
    ];
    for form in &forms {
        let chunk = json!({"candidates": [{"content": {"parts": [{"text": format!("x {form} y")}]}, "finishReason": "STOP"}]});
        let said = Act::stream(format!("data: {chunk}\n\n")).pieces(1);
        let error = refused(
            400,
            &json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": format!("bad {form}")}}),
        );
        let server = Faults::start(vec![said, error]).await;
        let own = format!(
            "version = 1\n[provider.vertex]\nbase_url = \"{}\"\n",
            server.url()
        );
        let config =
            crate::Config::parse(Some(("providers.toml", &own)), None, &|_| None).expect("rows");
        let row = config.row("vertex").expect("a row").clone();
        let mut vault = Vault::new();
        vault
            .take(&row, Some(folder.path()), &environment(&[]))
            .expect("taken");
        let providers = crate::Providers::new(config);
        let infer = supervisor_core::Infer {
            request: protocol::Infer {
                id: 1,
                system: String::new(),
                messages: vec![protocol::Message::user("hi")],
                tools: vec![],
                max_output: 9,
            },
            provider: "vertex".into(),
            model: "gemini-3-pro".into(),
            fallbacks: Vec::new(),
        };
        let mut streamed = String::new();
        let answer = providers
            .infer_with(&infer, vault.get("vertex"), &mut |text| {
                streamed.push_str(text)
            })
            .await
            .expect("an answer");
        let head = server.seen()[0].head.clone();
        assert!(
            head.contains(&format!("authorization: Bearer {token}")),
            "{head}"
        );
        let failure = providers
            .infer_with(&infer, vault.get("vertex"), &mut |_| {})
            .await
            .expect_err("refused");
        let shown = format!("{streamed} {answer:?} {failure} {failure:?} {vault:?}");
        assert!(
            !shown.contains(form.as_str()) && !shown.contains("MARKER"),
            "{shown}"
        );
        assert_eq!(answer.message.text(), streamed);
        assert!(streamed.contains("masked-secret"), "{streamed}");
    }
}
