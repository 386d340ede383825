//! Authenticated encryption of what a store keeps: XChaCha20-Poly1305 under keys from a file, of which the first seals and each
//! opens. Its nonces have 24 bytes, so each may be drawn at random for as long as a key lives.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

/// Seals and opens; without a key it only says so.
pub struct Seal {
    ciphers: Vec<XChaCha20Poly1305>,
}

/// What sealed bytes begin with.
const CLEAR: u8 = 0;
const SEALED: u8 = 1;
const NONCE_BYTES: usize = 24;
const KEY_BYTES: usize = 32;
/// Keys of a file: what none of them opens was tried with all.
const KEYS_MAX: usize = 8;

impl Seal {
    /// No encryption.
    pub fn none() -> Self {
        Seal {
            ciphers: Vec::new(),
        }
    }

    /// Reads keys of 32 bytes from a file: one as it is, or a line of 64 hex digits for each. The first one seals; those behind it
    /// are older or not in use yet.
    ///
    /// # Errors
    /// The path and what is wrong.
    pub fn from_file(path: &str) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let keys = keys(&bytes).ok_or_else(|| {
            format!(
                "{path} holds no key: it is 32 bytes, best as 64 hex digits (openssl rand -hex 32); at most {KEYS_MAX} of them, a line each"
            )
        })?;
        let ciphers = keys
            .iter()
            .map(|key| XChaCha20Poly1305::new_from_slice(key).map_err(|error| error.to_string()));
        Ok(Seal {
            ciphers: ciphers.collect::<Result<_, _>>()?,
        })
    }

    pub fn is_on(&self) -> bool {
        !self.ciphers.is_empty()
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.ciphers.len()
    }

    /// Whether it was sealed as it would be now.
    pub fn is_newest(&self, sealed: &[u8], place: &str) -> bool {
        let first = Seal {
            ciphers: self.ciphers.iter().take(1).cloned().collect(),
        };
        first.open(sealed, place).is_ok()
    }

    /// `bytes` as the store gets them; `place` says where they belong, and they open nowhere else.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn seal(&self, bytes: &[u8], place: &str) -> Result<Vec<u8>, String> {
        let Some(cipher) = self.ciphers.first() else {
            return Ok([&[CLEAR], bytes].concat());
        };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let payload = Payload {
            msg: bytes,
            aad: place.as_bytes(),
        };
        let sealed = cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|error| error.to_string())?;
        Ok([&[SEALED], nonce.as_slice(), &sealed].concat())
    }

    /// What [`Seal::seal`] was given.
    ///
    /// # Errors
    /// When it is something else, belongs elsewhere, or was sealed with another key or none.
    pub fn open(&self, sealed: &[u8], place: &str) -> Result<Vec<u8>, String> {
        match (sealed.split_first(), self.is_on()) {
            (Some((&CLEAR, bytes)), false) => Ok(bytes.to_vec()),
            (Some((&CLEAR, _)), true) => Err("it is not encrypted, though there is a key".into()),
            (Some((&SEALED, _)), false) => Err("it is encrypted, and there is no key".into()),
            (Some((&SEALED, rest)), true) => {
                let (nonce, msg) = rest
                    .split_first_chunk::<NONCE_BYTES>()
                    .ok_or("it is cut off")?;
                let open = |cipher: &XChaCha20Poly1305| {
                    let payload = Payload {
                        msg,
                        aad: place.as_bytes(),
                    };
                    cipher.decrypt(&XNonce::from(*nonce), payload).ok()
                };
                self.ciphers
                    .iter()
                    .find_map(open)
                    .ok_or_else(|| "the key does not open it, or it was changed".into())
            }
            _ => Err("it is nothing that was sealed".into()),
        }
    }
}

fn keys(file: &[u8]) -> Option<Vec<[u8; KEY_BYTES]>> {
    if let Ok(key) = file.try_into() {
        return Some(vec![key]);
    }
    let lines = std::str::from_utf8(file).ok()?.lines().map(str::trim);
    let keys: Option<Vec<_>> = lines.filter(|line| !line.is_empty()).map(key).collect();
    keys.filter(|keys| (1..=KEYS_MAX).contains(&keys.len()))
}

fn key(text: &str) -> Option<[u8; KEY_BYTES]> {
    if text.len() == 2 * KEY_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let mut key = [0; KEY_BYTES];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        return Some(key);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed_with(text: &[u8]) -> Result<Seal, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Seal::from_file(file.path().to_str().unwrap())
    }

    #[test]
    fn what_is_sealed_opens_in_its_place_with_its_key_only() {
        let (one, other) = (
            sealed_with(&[b'a'; 64]).unwrap(),
            sealed_with(format!("{}\n", "b".repeat(64)).as_bytes()).unwrap(),
        );
        let sealed = one.seal(b"words", "here").unwrap();
        assert_eq!(one.open(&sealed, "here").unwrap(), b"words");
        assert!(!sealed.windows(5).any(|window| window == b"words"));
        assert_ne!(sealed, one.seal(b"words", "here").unwrap());
        assert!(one.open(&sealed, "there").is_err());
        assert!(other.open(&sealed, "here").is_err());
        assert!(Seal::none().open(&sealed, "here").is_err());
        let clear = Seal::none().seal(b"words", "here").unwrap();
        assert!(one.open(&clear, "here").is_err());
        assert_eq!(Seal::none().open(&clear, "there").unwrap(), b"words");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(one.open(&changed, "here").is_err(), "byte {at}");
            assert!(one.open(&sealed[..at], "here").is_err(), "first {at}");
        }
    }

    #[test]
    fn the_first_key_seals_and_each_opens() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let sealed_with = |text: String| sealed_with(text.as_bytes()).unwrap();
        let (old, both, new) = (
            sealed_with(a.clone()),
            sealed_with(format!("\n{b}\r\n\n {a}\n")),
            sealed_with(b),
        );
        let by_old = old.seal(b"words", "here").unwrap();
        let by_both = both.seal(b"words", "here").unwrap();
        assert_eq!(both.open(&by_old, "here").unwrap(), b"words");
        assert_eq!(new.open(&by_both, "here").unwrap(), b"words");
        assert!(old.open(&by_both, "here").is_err() && both.open(&by_old, "there").is_err());
        assert!(both.is_newest(&by_both, "here") && !both.is_newest(&by_old, "here"));
        let clear = Seal::none().seal(b"words", "here").unwrap();
        assert!(both.open(&clear, "here").is_err() && Seal::none().is_newest(&clear, "here"));
    }

    #[test]
    fn keys_are_32_bytes() {
        assert!(sealed_with(&[7; 32]).is_ok());
        assert!(sealed_with("a".repeat(64).repeat(2).as_bytes()).is_err());
        assert!(sealed_with(format!("{}\n", "a".repeat(64)).repeat(9).as_bytes()).is_err());
        assert!(sealed_with(format!("{}\n{}", "a".repeat(64), "a".repeat(63)).as_bytes()).is_err());
        for wrong in [&[7; 31][..], b"", b"short", &[b'g'; 64]] {
            assert!(sealed_with(wrong).is_err_and(|error| error.contains("holds no key")));
        }
        assert!(Seal::from_file("/nowhere/key").is_err_and(|error| error.contains("/nowhere/key")));
    }
}
