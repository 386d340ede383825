//! Unguessable identifiers. The only module of the server that asks for randomness.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `bytes` random bytes (a multiple of three) as base64url, four characters for every three bytes.
///
/// # Panics
/// When the operating system gives no randomness; an id that can be guessed would be worse.
pub fn random(bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    getrandom::fill(&mut raw).expect("the operating system gives randomness");
    raw.chunks(3)
        .flat_map(|chunk| {
            let word = chunk
                .iter()
                .fold(0u32, |word, byte| word << 8 | u32::from(*byte));
            [18, 12, 6, 0].map(|shift| char::from(ALPHABET[(word >> shift & 63) as usize]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_length_and_differ() {
        assert_eq!(random(24).len(), 32);
        assert_eq!(random(18).len(), 24);
        assert_ne!(random(24), random(24));
    }
}
