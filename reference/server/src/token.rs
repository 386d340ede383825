//! Random bytes and unguessable identifiers. The only module of the server that uses randomness.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// `bytes` random bytes as base64url.
///
/// # Panics
/// When the operating system provides no randomness; a guessable id would be worse.
pub fn random(bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    fill(&mut raw).expect("the operating system gives randomness");
    URL_SAFE_NO_PAD.encode(raw)
}

/// Fills `bytes` with random bytes.
///
/// # Errors
/// When the operating system provides no randomness.
pub fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    getrandom::fill(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_have_their_length_and_differ() {
        assert_eq!(random(24).len(), 32);
        assert_eq!(random(18).len(), 24);
        assert_ne!(random(24), random(24));
    }
}
