//! Authenticated encryption of what a store keeps: XChaCha20-Poly1305 under a key from a file. Its nonces have 24 bytes, so each
//! may be drawn at random for as long as a key lives.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

/// Seals and opens; without a key it only says so.
pub struct Seal {
    cipher: Option<XChaCha20Poly1305>,
}

/// What sealed bytes begin with.
const CLEAR: u8 = 0;
const SEALED: u8 = 1;
const NONCE_BYTES: usize = 24;
const KEY_BYTES: usize = 32;

impl Seal {
    /// No encryption.
    pub fn none() -> Self {
        Seal { cipher: None }
    }

    /// Reads a key of 32 bytes from a file, as 64 hex digits or as it is.
    ///
    /// # Errors
    /// The path and what is wrong.
    pub fn from_file(path: &str) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let key = key(&bytes).ok_or_else(|| {
            format!(
                "{path} holds no key: it is 32 bytes, best as 64 hex digits (openssl rand -hex 32)"
            )
        })?;
        let cipher = XChaCha20Poly1305::new_from_slice(&key).map_err(|error| error.to_string())?;
        Ok(Seal {
            cipher: Some(cipher),
        })
    }

    pub fn is_on(&self) -> bool {
        self.cipher.is_some()
    }

    /// `bytes` as the store gets them; `place` says where they belong, and they open nowhere else.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn seal(&self, bytes: &[u8], place: &str) -> Result<Vec<u8>, String> {
        let Some(cipher) = &self.cipher else {
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
        match (sealed.split_first(), &self.cipher) {
            (Some((&CLEAR, bytes)), None) => Ok(bytes.to_vec()),
            (Some((&CLEAR, _)), Some(_)) => {
                Err("it is not encrypted, though there is a key".into())
            }
            (Some((&SEALED, _)), None) => Err("it is encrypted, and there is no key".into()),
            (Some((&SEALED, rest)), Some(cipher)) => {
                let (nonce, msg) = rest
                    .split_first_chunk::<NONCE_BYTES>()
                    .ok_or("it is cut off")?;
                let payload = Payload {
                    msg,
                    aad: place.as_bytes(),
                };
                cipher
                    .decrypt(&XNonce::from(*nonce), payload)
                    .map_err(|_| "the key does not open it, or it was changed".into())
            }
            _ => Err("it is nothing that was sealed".into()),
        }
    }
}

fn key(file: &[u8]) -> Option<[u8; KEY_BYTES]> {
    let text = std::str::from_utf8(file).map(str::trim).unwrap_or_default();
    if text.len() == 2 * KEY_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let mut key = [0; KEY_BYTES];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        return Some(key);
    }
    file.try_into().ok()
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
    fn keys_are_32_bytes() {
        assert!(sealed_with(&[7; 32]).is_ok());
        for wrong in [&[7; 31][..], b"", b"short", &[b'g'; 64]] {
            assert!(sealed_with(wrong).is_err_and(|error| error.contains("holds no key")));
        }
        assert!(Seal::from_file("/nowhere/key").is_err_and(|error| error.contains("/nowhere/key")));
    }
}
