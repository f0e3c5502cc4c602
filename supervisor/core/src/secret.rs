//! Key material: its `Debug` prints one fixed word; it cannot be displayed, cloned or serialised, and
//! is wiped when dropped. None of these compiles:
//!
//! ```compile_fail,E0277
//! let key = supervisor_core::Secret::new("sk-1".to_owned());
//! println!("{key}");
//! ```
//! ```compile_fail,E0599
//! let key = supervisor_core::Secret::new("sk-1".to_owned());
//! let copy = key.clone();
//! ```
//! ```compile_fail,E0277
//! let key = supervisor_core::Secret::new("sk-1".to_owned());
//! let text = serde_json::to_string(&key);
//! ```
//! ```compile_fail,E0277
//! let key: supervisor_core::Secret = serde_json::from_str("\"sk-1\"").unwrap();
//! ```
//! ```compile_fail,E0369
//! let key = || supervisor_core::Secret::new("sk-1".to_owned());
//! let same = key() == key();
//! ```
//! ```compile_fail,E0616
//! let key = supervisor_core::Secret::new("sk-1".to_owned());
//! let inner = key.0;
//! ```

use zeroize::Zeroizing;

/// A key.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the key over; the caller's copy must be wiped by the caller.
    #[must_use]
    pub fn new(key: String) -> Self {
        Self(Zeroizing::new(key))
    }

    /// The key itself. Called where it is shown to its provider, kept in its own file, or looked for in
    /// what is about to be written, and nowhere else.
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
