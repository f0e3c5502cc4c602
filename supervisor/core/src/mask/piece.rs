//! Pieces of keys: what a provider quotes back is often cut, and half a key is too much of one.

use super::{MASKED, Masker};

/// Bytes in common with a key that are no coincidence.
const PIECE: usize = 12;

impl Masker {
    /// The text without keys, and without any run of twelve or more bytes that a key has too. For
    /// short texts from outside; each byte is compared with each key.
    #[must_use]
    pub fn mask_pieces(&self, text: &str) -> String {
        let whole = self.mask(text);
        let mut out = String::with_capacity(whole.len());
        let mut rest: &str = &whole;
        while let Some(first) = rest.chars().next() {
            let longest = self
                .keys()
                .map(|key| shared(rest.as_bytes(), key.as_bytes()))
                .max();
            let (masked, length) = match longest {
                // Keys are ASCII or whole characters: a run may end within one of the text's.
                Some(run) if run >= PIECE => (true, run),
                _ => (false, first.len_utf8()),
            };
            let length = (length..=rest.len())
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(rest.len());
            let (piece, after) = rest.split_at(length);
            out.push_str(if masked { MASKED } else { piece });
            rest = after;
        }
        out
    }
}

/// The longest run at the beginning of `text` that stands somewhere in `key`.
fn shared(text: &[u8], key: &[u8]) -> usize {
    let same = |at: usize| {
        let pairs = text.iter().zip(key.get(at..).unwrap_or_default());
        pairs.take_while(|(a, b)| a == b).count()
    };
    (0..key.len()).map(same).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::{Masker, Secret};

    const KEY: &str = "sk-ant-MARKER-0123456789";

    #[test]
    fn half_a_key_is_masked_and_a_coincidence_is_not() {
        let masker = Masker::new([&Secret::new(KEY.into())]);
        let masked = |text: &str| masker.mask_pieces(text);
        assert_eq!(masked(&format!("bad {KEY}!")), "bad masked-secret!");
        assert_eq!(
            masked(&format!("bad {}…", &KEY[..14])),
            "bad masked-secret…"
        );
        assert_eq!(masked(&format!("ü{}ü", &KEY[5..20])), "ümasked-secretü");
        assert_eq!(masked(&KEY[12..]), "masked-secret");
        assert_eq!(masked("sk-ant-xyz 0123456789"), "sk-ant-xyz 0123456789");
        assert_eq!(masked(""), "");
    }
}
