//! SHA-256 digests as hex text. Knows nothing of what is digested.

use sha2::{Digest, Sha256};

/// The digest of `bytes` as 64 lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The first 16 hex digits.
pub fn short(bytes: &[u8]) -> String {
    let mut hex = hex(bytes);
    hex.truncate(16);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests() {
        assert_eq!(short(b"loopback-unauthenticated"), "e3c379a6691b4bec");
        assert_eq!(short(b"disabled"), "17eb3c0168d0d7b2");
        assert_eq!(&hex(b"1")[..8], "6b86b273");
    }
}
