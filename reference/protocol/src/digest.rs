//! SHA-256 digests as hex text. Knows nothing of what is digested.

use sha2::{Digest, Sha256};

/// The digest of `bytes` as 64 lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    Sha256::digest(bytes)
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
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
