//! AWS Signature Version 4 of one request, by headers. Pure: the time is passed in.

use aws_lc_rs::{digest, hmac};
use reqwest::Url;
use supervisor_core::Secret;

use super::{Proof, clock};

/// Keys to sign with.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: Secret,
    /// Of temporary keys; sent and signed.
    pub(super) session: Option<Secret>,
}

/// What is signed.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a Url,
    /// Headers to sign besides host, date and session token.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

/// Signs a request: `authorization`, `x-amz-date` and, with temporary keys, `x-amz-security-token`.
pub(super) fn sign(
    keys: &Keys,
    region: &str,
    service: &str,
    now_s: u64,
    request: &Request<'_>,
) -> Proof {
    let stamp = clock::stamp(now_s);
    let day = stamp.get(..8).unwrap_or_default();
    let host = host(request.url);
    let mut headers: Vec<(String, String)> = vec![
        ("host".to_owned(), host),
        ("x-amz-date".to_owned(), stamp.clone()),
    ];
    if let Some(session) = &keys.session {
        let name = "x-amz-security-token".to_owned();
        headers.push((name, session.expose().to_owned()));
    }
    for (name, value) in request.headers {
        headers.push((name.to_lowercase(), one_blank(value)));
    }
    headers.sort_by(|a, b| a.0.cmp(&b.0));
    // Values of a repeated name stand in one line, in their order.
    let mut lines: Vec<(String, String)> = Vec::new();
    for (name, value) in headers {
        match lines.last_mut() {
            Some((known, values)) if *known == name => {
                values.push(',');
                values.push_str(&value);
            }
            _ => lines.push((name, value)),
        }
    }
    let signed: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
    let signed = signed.join(";");
    let head: String = lines
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();
    let canonical = Secret::new(format!(
        "{}\n{}\n{}\n{head}\n{signed}\n{}",
        request.method,
        path(request.url.path()),
        query(request.url),
        hex(digest::digest(&digest::SHA256, request.body).as_ref()),
    ));
    for (_, mut value) in lines {
        zeroize::Zeroize::zeroize(&mut value);
    }
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let hash = digest::digest(&digest::SHA256, canonical.expose().as_bytes());
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex(hash.as_ref()));
    let first = Secret::new(format!("AWS4{}", keys.secret.expose()));
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, first.expose().as_bytes());
    for word in [day, region, service, "aws4_request"] {
        key = hmac::Key::new(
            hmac::HMAC_SHA256,
            hmac::sign(&key, word.as_bytes()).as_ref(),
        );
    }
    let signature = hex(hmac::sign(&key, text.as_bytes()).as_ref());
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
        keys.id
    );
    let mut proof: Proof = vec![
        ("authorization", Secret::new(authorization)),
        ("x-amz-date", Secret::new(stamp)),
    ];
    if let Some(session) = &keys.session {
        let session = Secret::new(session.expose().to_owned());
        proof.push(("x-amz-security-token", session));
    }
    proof
}

/// The host as the client sends it: with its port where that is not the scheme's own.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The path as it is on the wire, encoded once more (every service but S3), without empty segments.
fn path(wire: &str) -> String {
    let mut path = String::from("/");
    let segments: Vec<&str> = wire.split('/').filter(|part| !part.is_empty()).collect();
    path.push_str(
        &segments
            .iter()
            .map(|part| encode(part))
            .collect::<Vec<_>>()
            .join("/"),
    );
    if wire.len() > 1 && wire.ends_with('/') && !segments.is_empty() {
        path.push('/');
    }
    path
}

/// The query, sorted by its encoded names, then values.
fn query(url: &Url) -> String {
    let pairs = url
        .query_pairs()
        .map(|(name, value)| (encode(&name), encode(&value)));
    let mut pairs: Vec<(String, String)> = pairs.collect();
    pairs.sort();
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join("&")
}

/// Everything but letters, digits and `-._~` as percent signs with upper-case hex.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&hex(&[byte]).to_ascii_uppercase());
        }
    }
    out
}

/// A header's value without blanks at its ends and with single ones inside.
fn one_blank(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2015-08-30T12:36:00Z, the time of the published vectors.
    const THEN: u64 = 1_440_938_160;

    fn keys(session: Option<&str>) -> Keys {
        Keys {
            id: "AKIDEXAMPLE".into(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into()),
            session: session.map(|token| Secret::new(token.into())),
        }
    }

    fn signature(
        keys: &Keys,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let url = Url::parse(&format!("https://example.amazonaws.com{path}")).expect("an address");
        let request = Request {
            method,
            url: &url,
            headers,
            body: body.as_bytes(),
        };
        let proof = sign(keys, "us-east-1", "service", THEN, &request);
        let line = proof[0].1.expose().to_owned();
        line.rsplit_once("Signature=").expect("signed").1.to_owned()
    }

    /// Names, requests and signatures of the test suite that AWS publishes.
    #[test]
    fn the_published_vectors_hold() {
        let form = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-length", "13"),
            (
                "x-amz-content-sha256",
                "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
            ),
        ];
        let values = [
            ("my-header1", "value4"),
            ("my-header1", "value1"),
            ("my-header1", "value3"),
            ("my-header1", "value2"),
        ];
        let trim = [("my-header1", " value1"), ("my-header2", " \"a   b   c\"")];
        let reserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        type Vector<'a> = (
            &'a str,
            &'a str,
            String,
            &'a [(&'a str, &'a str)],
            &'a str,
            &'a str,
        );
        let table: &[Vector<'_>] = &[
            (
                "get-vanilla",
                "GET",
                "/".into(),
                &[],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "post-vanilla",
                "POST",
                "/".into(),
                &[],
                "",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "get-slash",
                "GET",
                "//".into(),
                &[],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "get-slashes",
                "GET",
                "//example//".into(),
                &[],
                "",
                "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
            ),
            (
                "get-relative",
                "GET",
                "/example/..".into(),
                &[],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "get-slash-pointless-dot",
                "GET",
                "/./example".into(),
                &[],
                "",
                "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
            ),
            (
                "get-unreserved",
                "GET",
                format!("/{reserved}"),
                &[],
                "",
                "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
            ),
            (
                "get-vanilla-query-order-key-case",
                "GET",
                "/?Param2=value2&Param1=value1".into(),
                &[],
                "",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "get-vanilla-empty-query-key",
                "GET",
                "/?Param1=value1".into(),
                &[],
                "",
                "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
            ),
            (
                "get-vanilla-query-order-encoded",
                "GET",
                "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1".into(),
                &[],
                "",
                "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
            ),
            (
                "get-vanilla-query-unreserved",
                "GET",
                format!("/?{reserved}={reserved}"),
                &[],
                "",
                "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
            ),
            (
                "get-vanilla-utf8-query",
                "GET",
                "/?ሴ=bar".into(),
                &[],
                "",
                "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
            ),
            (
                "get-header-value-order",
                "GET",
                "/".into(),
                &values,
                "",
                "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
            ),
            (
                "get-header-value-trim",
                "GET",
                "/".into(),
                &trim,
                "",
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
            (
                "post-header-value-case",
                "POST",
                "/".into(),
                &[("My-Header1", "VALUE1")],
                "",
                "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
            ),
            (
                "post-x-www-form-urlencoded",
                "POST",
                "/".into(),
                &form,
                "Param1=value1",
                "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
            ),
        ];
        for (name, method, path, headers, body, expected) in table {
            assert_eq!(
                signature(&keys(None), method, path, headers, body),
                *expected,
                "{name}"
            );
        }
        let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
        let expected = "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8";
        assert_eq!(
            signature(&keys(Some(token)), "GET", "/", &[], ""),
            expected,
            "get-vanilla-with-session-token"
        );
    }

    #[test]
    fn a_path_is_encoded_once_more_than_on_the_wire() {
        assert_eq!(
            path("/model/us.nova-v1%3A0/converse"),
            "/model/us.nova-v1%253A0/converse"
        );
        assert_eq!(path("/"), "/");
        assert_eq!(path(""), "/");
        let url = Url::parse("http://127.0.0.1:8080/x").expect("an address");
        assert_eq!(host(&url), "127.0.0.1:8080");
        assert_eq!(
            host(&Url::parse("https://h:443/x").expect("an address")),
            "h"
        );
    }

    #[test]
    fn a_session_token_is_sent_and_signed_and_nothing_else_is_shown() {
        let url = Url::parse("https://h/").expect("an address");
        let request = Request {
            method: "POST",
            url: &url,
            headers: &[],
            body: b"{}",
        };
        let proof = sign(&keys(Some("TOKEN")), "eu-west-1", "bedrock", THEN, &request);
        let names: Vec<_> = proof.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            ["authorization", "x-amz-date", "x-amz-security-token"]
        );
        let line = proof[0].1.expose();
        assert!(line.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-west-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, Signature="), "{line}");
        assert!(!line.contains("wJalr"), "{line}");
        assert!(!format!("{:?} {proof:?}", keys(Some("TOKEN"))).contains("wJalr"));
    }
}
