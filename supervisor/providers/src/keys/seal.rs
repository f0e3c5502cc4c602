//! A key at rest under a passphrase: Argon2id makes a key of it, ChaCha20-Poly1305 seals with that.
//!
//! A sealed file is two lines: `provost-sealed 1 m=65536,t=3,p=1 SALT`, and nonce, ciphertext and tag in
//! base64. The first line and the provider's name are authenticated: a sealed key moved to another
//! provider's file does not open. What this does not defend against: whoever may write the file can
//! put an older sealed key back, and whoever watches this process knows the passphrase.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom as _, SystemRandom},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use supervisor_core::Secret;
use zeroize::Zeroizing;

const MARK: &str = "provost-sealed ";
/// Memory in KiB, passes, lanes: what a password costs who guesses, about 0.1 s for who knows.
const COST: (u32, u32, u32) = (65_536, 3, 1);
/// Costs that a file may name: an edited one must not take the machine.
const MOST: (u32, u32, u32) = (1_048_576, 10, 8);
const SALT: usize = 16;

/// Whether a text is a sealed one.
pub(super) fn is_sealed(text: &Secret) -> bool {
    text.expose().starts_with(MARK)
}

/// Seals a content for a provider.
pub(super) fn seal(
    provider: &str,
    passphrase: &Secret,
    content: &Secret,
) -> Result<String, &'static str> {
    let random = SystemRandom::new();
    let (mut salt, mut nonce) = ([0; SALT], [0; NONCE_LEN]);
    let filled = random
        .fill(&mut salt)
        .and_then(|()| random.fill(&mut nonce));
    filled.map_err(|_| "cannot be sealed: the kernel gives no random numbers")?;
    let (m, t, p) = COST;
    let head = format!("{MARK}1 m={m},t={t},p={p} {}", STANDARD.encode(salt));
    let key = key(passphrase, &salt, COST)?;
    let mut sealed = content.expose().as_bytes().to_vec();
    // Sealed in place: the plain bytes are gone afterwards.
    let result = key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(format!("{provider}\n{head}")),
        &mut sealed,
    );
    if result.is_err() {
        zeroize::Zeroize::zeroize(&mut sealed);
        return Err("cannot be sealed");
    }
    let body = [nonce.as_slice(), sealed.as_slice()].concat();
    Ok(format!("{head}\n{}\n", STANDARD.encode(body)))
}

/// Opens what was sealed.
pub(super) fn open(
    provider: &str,
    passphrase: &Secret,
    text: &Secret,
) -> Result<Secret, &'static str> {
    const DAMAGED: &str = "is a sealed key that is damaged";
    let mut lines = text.expose().lines();
    let head = lines.next().ok_or(DAMAGED)?;
    let body = lines.next().ok_or(DAMAGED)?;
    let mut words = head.strip_prefix(MARK).ok_or(DAMAGED)?.split(' ');
    if words.next() != Some("1") {
        return Err("was sealed by a newer version");
    }
    let cost = cost(words.next().ok_or(DAMAGED)?).ok_or(DAMAGED)?;
    if cost.0 > MOST.0 || cost.1 > MOST.1 || cost.2 > MOST.2 {
        return Err("names costs that no key of ours has");
    }
    let salt = STANDARD
        .decode(words.next().ok_or(DAMAGED)?)
        .map_err(|_| DAMAGED)?;
    let body = STANDARD.decode(body).map_err(|_| DAMAGED)?;
    let (nonce, sealed) = body.split_first_chunk::<NONCE_LEN>().ok_or(DAMAGED)?;
    let key = key(passphrase, &salt, cost)?;
    let mut sealed = Zeroizing::new(sealed.to_vec());
    let plain = key
        .open_in_place(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(format!("{provider}\n{head}")),
            &mut sealed,
        )
        .map_err(|_| "does not open: the passphrase is another, or the file was changed")?;
    let plain = std::str::from_utf8(plain).map_err(|_| DAMAGED)?;
    Ok(Secret::new(plain.to_owned()))
}

fn cost(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split(',');
    let mut next = |name: &str| parts.next()?.strip_prefix(name)?.parse().ok();
    Some((next("m=")?, next("t=")?, next("p=")?))
}

fn key(
    passphrase: &Secret,
    salt: &[u8],
    (m, t, p): (u32, u32, u32),
) -> Result<LessSafeKey, &'static str> {
    const FAILED: &str = "names costs that cannot be";
    let params = Params::new(m, t, p, Some(32)).map_err(|_| FAILED)?;
    let mut bytes = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.expose().as_bytes(), salt, bytes.as_mut())
        .map_err(|_| FAILED)?;
    let key = UnboundKey::new(&CHACHA20_POLY1305, bytes.as_ref()).map_err(|_| FAILED)?;
    Ok(LessSafeKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.into())
    }

    #[test]
    fn what_is_sealed_opens_for_its_provider_and_passphrase_only() {
        let (pass, key) = (secret("correct horse"), secret("sk-MARKER-0123456789"));
        let sealed = seal("openai", &pass, &key).expect("sealed");
        assert!(is_sealed(&secret(&sealed)) && !is_sealed(&key));
        assert!(!sealed.contains("MARKER") && !sealed.contains(&STANDARD.encode("sk-MARKER")));
        let again = seal("openai", &pass, &key).expect("sealed");
        assert_ne!(sealed, again, "salt and nonce are new each time");
        let opened = open("openai", &pass, &secret(&sealed)).expect("opens");
        assert_eq!(opened.expose(), key.expose());
        assert!(
            open("anthropic", &pass, &secret(&sealed)).is_err(),
            "another provider"
        );
        assert!(
            open("openai", &secret("wrong"), &secret(&sealed)).is_err(),
            "another passphrase"
        );
    }

    #[test]
    fn a_changed_file_does_not_open_and_costs_are_bounded() {
        let (pass, key) = (secret("p"), secret("sk-MARKER"));
        let sealed = seal("x", &pass, &key).expect("sealed");
        let (head, body) = sealed.split_once('\n').expect("two lines");
        let salt = head.rsplit(' ').next().expect("a salt");
        for text in [
            format!("{head}\n"),
            head.to_owned(),
            format!("{head}\n!!!\n"),
            format!("{head}\nAAAA\n"),
            format!("{head}\nA{}", &body[1..]).replace('\n', "\n"),
            format!("{MARK}2 m=8,t=1,p=1 {salt}\n{body}"),
            format!("{MARK}1 m=65536,t=2,p=1 {salt}\n{body}"),
            format!("{MARK}1 m=4294967295,t=3,p=1 {salt}\n{body}"),
            format!("{MARK}1 m=65536,t=3,p=1\n{body}"),
            format!("{MARK}1 garbage {salt}\n{body}"),
        ] {
            if text == sealed {
                continue;
            }
            let problem = open("x", &pass, &secret(&text)).expect_err(&text);
            assert!(!problem.contains("MARKER"));
        }
    }
}
