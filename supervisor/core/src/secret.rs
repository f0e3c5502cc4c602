//! Key material: its `Debug` prints one fixed word; it cannot be displayed, cloned or serialised, and
//! is wiped when dropped.

use zeroize::Zeroizing;

/// A key.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the key over; the caller's copy must be wiped by the caller.
    #[must_use]
    pub fn new(key: String) -> Self {
        Self(Zeroizing::new(key))
    }

    /// The key itself. Called in two places only: the one file that does HTTP, and the masker that
    /// looks for it in what is about to be written.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn debug_prints_one_fixed_word() {
        assert_eq!(format!("{:?}", Secret::new("sk-123".into())), "[secret]");
    }
}
