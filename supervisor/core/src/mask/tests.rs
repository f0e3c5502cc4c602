//! Awkward keys in every form that a program may write them in.

use crate::{Entry, Secret};

use super::{MASKED, Masker};

/// Keys with every kind of character that some encoding treats apart.
const KEYS: &[&str] = &[
    "sk-ant-api03-Zq8_7vK-aaaaBBBB",
    "with space and \"quotes\"",
    "back\\slash\\\\double/slash",
    "line\nbreak\ttab-key",
    "Grüße-ключ-🔑-key",
    "plus+slash/equals==",
    "%41%2F-percent-key",
    "u0041\\u0041-looks-escaped",
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END KEY-----",
];

fn masker() -> (Vec<Secret>, Masker) {
    let secrets: Vec<Secret> = KEYS
        .iter()
        .map(|key| Secret::new((*key).to_owned()))
        .collect();
    let masker = Masker::new(&secrets);
    (secrets, masker)
}

fn base64(bytes: &[u8], alphabet: &[u8]) -> String {
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let mut word = 0_u32;
        for index in 0..3 {
            word = word << 8 | u32::from(group.get(index).copied().unwrap_or(0));
        }
        for index in 0..=group.len() {
            out.push(char::from(
                alphabet[(word >> (18 - 6 * index) & 63) as usize],
            ));
        }
    }
    out
}

const STANDARD: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("text");
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent(text: &str, keep: &str, upper: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || keep.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else if upper {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

/// Every form of a key, with a word for the failure message.
fn forms(key: &str) -> Vec<(&'static str, String)> {
    let escaped: String = key
        .encode_utf16()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect();
    let mut forms = vec![
        ("plain", key.to_owned()),
        ("json", json(key)),
        ("json twice", json(&json(key))),
        ("json three times", json(&json(&json(key)))),
        ("json with \\/", json(key).replace('/', "\\/")),
        ("all \\u", escaped.clone()),
        ("all \\u in json", json(&escaped)),
        ("url", percent(key, "-_.~", true)),
        ("url lower", percent(key, "-_.~", false)),
        ("url path", percent(key, "-_.~/+=", true)),
        (
            "url all",
            key.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        ),
        (
            "url twice",
            percent(&percent(key, "-_.~", true), "-_.~", true),
        ),
        ("form", percent(key, "-_.~ ", true).replace(' ', "+")),
        (
            "hex",
            key.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ),
        (
            "HEX",
            key.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ),
    ];
    for before in ["", "x", "xy", "Bearer "] {
        for after in ["", "z", "zz"] {
            let whole = format!("{before}{key}{after}");
            forms.push(("base64", base64(whole.as_bytes(), STANDARD)));
            forms.push(("base64url", base64(whole.as_bytes(), URL)));
        }
    }
    let long = base64(
        format!("authorization: Bearer {key}\n").as_bytes(),
        STANDARD,
    );
    let wrapped: Vec<&str> = long
        .as_bytes()
        .chunks(19)
        .map(|part| std::str::from_utf8(part).expect("ascii"))
        .collect();
    forms.push(("base64 wrapped", wrapped.join("\n")));
    forms.push(("base64 wrapped in json", wrapped.join("\\r\\n")));
    forms
}

#[test]
fn a_key_is_found_in_every_form_alone_and_within_other_text() {
    let (_secrets, masker) = masker();
    for key in KEYS {
        for (name, form) in forms(key) {
            for text in [
                form.clone(),
                format!("before {form} after"),
                format!("ü\"{form}\"\n"),
            ] {
                assert!(masker.finds(&text), "{name} of {key:?} in {text:?}");
                let masked = masker.mask(&text);
                assert!(masked.contains(MASKED), "{name} of {key:?}: {masked:?}");
                assert!(
                    !masker.finds(&masked),
                    "{name} of {key:?} is left in {masked:?}"
                );
                assert!(!masked.contains(key), "{name}");
            }
        }
    }
}

#[test]
fn what_stands_beside_a_key_is_kept() {
    let (_secrets, masker) = masker();
    let text = format!("GET /?k={}&v=1 HTTP/1.1", KEYS[0]);
    assert_eq!(masker.mask(&text), format!("GET /?k={MASKED}&v=1 HTTP/1.1"));
    let twice = format!("{}{}", KEYS[0], KEYS[0]);
    assert_eq!(masker.mask(&twice), format!("{MASKED}{MASKED}"));
}

#[test]
fn ordinary_text_passes_as_it_is() {
    let (_secrets, masker) = masker();
    for text in [
        "",
        "an ordinary line with \\\"quotes\\\", 100 % and \\u00e4\\n",
        "sk-ant-api03-Zq8_7vK-aaaaBBB",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA",
        "\\\\\\\\\\\\%%%%%%",
    ] {
        assert!(
            matches!(masker.mask(text), std::borrow::Cow::Borrowed(_)),
            "{text:?}"
        );
    }
    assert!(!Masker::default().finds(KEYS[0]));
}

#[test]
fn a_key_that_comes_in_pieces_is_found() {
    let (_secrets, masker) = masker();
    for key in KEYS {
        for (name, form) in forms(key) {
            let text = format!("before «{form}» after");
            let whole = masker.mask(&text).into_owned();
            for size in [1, 2, 3, 7, 50] {
                let mut stream = masker.stream();
                let mut out = String::new();
                let letters: Vec<char> = text.chars().collect();
                for piece in letters.chunks(size) {
                    out.push_str(&stream.push(&piece.iter().collect::<String>()));
                    assert!(!masker.finds(&out), "{name} of {key:?} by {size}");
                }
                out.push_str(&stream.finish());
                assert!(!masker.finds(&out), "{name} of {key:?} by {size}: {out:?}");
                assert_eq!(out.starts_with("before «"), whole.starts_with("before «"));
                assert!(out.ends_with("» after") && out.contains(MASKED), "{out:?}");
            }
        }
    }
}

#[test]
fn a_stream_without_keys_is_passed_on_whole_and_soon() {
    let (_secrets, masker) = masker();
    let mut stream = masker.stream();
    assert_eq!(stream.push("hello "), "hello ");
    assert_eq!(stream.push("sk-ant"), "", "may be a key");
    assert_eq!(stream.push("elope"), "sk-antelope");
    let flood = "\\".repeat(200_000);
    let mut out = stream.push(&flood);
    assert!(out.len() > 100_000, "what waits is bounded: {}", out.len());
    out.push_str(&stream.finish());
    assert_eq!(out, flood);
}

#[test]
fn short_keys_are_counted_and_not_looked_for() {
    let secrets = [Secret::new("ollama".into()), Secret::new("\n".into())];
    let masker = Masker::new(&secrets);
    assert_eq!(masker.too_short(), 1);
    assert!(!masker.finds("provider ollama"));
}

#[test]
fn an_entry_is_masked_in_values_names_figures_and_ids() {
    let secrets = [
        Secret::new("sk-1234567890".into()),
        Secret::new("9876543210123".into()),
    ];
    let masker = Masker::new(&secrets);
    let entry = Entry::Verdict {
        call: protocol::CallId::parse("sk-1234567890").expect("valid"),
        tool: "bash".into(),
        action: protocol::Digest::of(b""),
        input: serde_json::json!({
            "command": "curl -H 'x: sk-1234567890'",
            "sk-1234567890": [9_876_543_210_123_u64, {"deep": "c2stMTIzNDU2Nzg5MA=="}],
        }),
        verdict: verdict(),
    };
    let masked = masker.mask_entry(&entry).expect("still an entry");
    let text = serde_json::to_string(&masked).expect("json");
    assert!(!masker.finds(&text), "{text}");
    assert!(text.matches(MASKED).count() >= 5, "{text}");
    assert_eq!(masked.kind(), "verdict");
}

fn verdict() -> policies::Verdict {
    policies::Verdict {
        decision: policies::Decision::Allow,
        stage: policies::Stage::Permissions,
        rule: None,
        layer: None,
        reason: "contained".into(),
        instead: None,
        parts: Vec::new(),
        once_only: false,
    }
}
