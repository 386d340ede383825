//! One secret value: wiped on drop, never printed, readable inside this crate only.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A shorter secret can be guessed, and scrubbing it may mangle ordinary text: start-up refuses it unless configured otherwise.
pub const SECRET_BYTES_MIN: usize = 16;
/// Maximum bytes of a credential in the configuration: several times what servers accept in a header. A longer one would cost the
/// redactor more than all others together.
pub(crate) const SECRET_BYTES_MAX: usize = 64 << 10;
const _: () = assert!(SECRET_BYTES_MIN < SECRET_BYTES_MAX);
/// A shorter password of a basic credential is refused like a short credential. One between this length and [`SECRET_BYTES_MIN`] is
/// accepted: the user name is part of the credential, and nobody can try that many combinations.
pub(crate) const PASSWORD_BYTES_MIN: usize = 8;
/// A secret of fewer digits can't be distinguished from ordinary numbers.
pub(crate) const NUMBER_BYTES_MIN: usize = 8;

/// A secret. `Debug` shows no byte of it; outside this crate only [`Secret::lend`] reads it.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes ownership of the text; the bytes are wiped when the last clone's buffer is dropped.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Length in bytes: the one fact about a secret that may be disclosed.
    pub fn byte_len(&self) -> usize {
        self.0.len()
    }

    /// True for the empty secret, which is never scrubbed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True for a secret so short that a program could guess it. Surrounding blanks don't count.
    pub fn is_short(&self) -> bool {
        !self.is_empty() && self.expose().trim().len() < SECRET_BYTES_MIN
    }

    /// Compares in time that depends on the lengths only. For checking a presented token.
    pub fn matches(&self, presented: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(presented).into()
    }

    /// Lends the text to one call of a function that takes nothing else. Clippy rejects it (`clippy.toml`): each use says why it is safe.
    pub fn lend<T>(&self, login: impl FnOnce(&str) -> T) -> T {
        login(self.expose())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_and_matching_is_exact() {
        let secret = Secret::new("hunter2-hunter2".into());
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(secret.matches(b"hunter2-hunter2"));
        assert!(!secret.matches(b"hunter2"));
    }
}
