//! Authenticated encryption of a store's content: XChaCha20-Poly1305 with keys from a file; the first key seals, every key opens. Nonces
//! have 24 bytes, so they can be drawn at random for the whole life of a key. Without a key the content has a checksum, which protects
//! against accidents only: anybody who can write to the store can compute one.

use chacha20poly1305::aead::{self, Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use ptc_secrets::FileError;

/// Seals and opens; without a key it only binds the content to its place.
pub struct Seal {
    ciphers: Vec<XChaCha20Poly1305>,
}

/// First bytes of sealed content.
const CLEAR: u8 = 0;
const SEALED: u8 = 1;
/// Not encrypted; preceded by a checksum of its place and its bytes.
const CHECKED: u8 = 2;
const CHECKSUM_BYTES: usize = 4;
const NONCE_BYTES: usize = 24;
const KEY_BYTES: usize = 32;
/// Maximum number of keys in a file: content that no key opens was tried with all of them.
const KEYS_MAX: usize = 8;

/// Why sealed bytes do not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    #[error("it is empty")]
    Empty,
    #[error("it is nothing that was sealed")]
    Foreign,
    #[error("it is cut off")]
    CutOff,
    #[error(
        "its checksum is not that of these bytes in this place: it was damaged, or belongs elsewhere"
    )]
    Damaged,
    #[error("it is not encrypted, though there is a key")]
    Clear,
    #[error("it is encrypted, and there is no key")]
    NoKey,
    #[error("the key does not open it, or it was changed")]
    Refused,
}

/// Why a file gives no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileFault {
    #[error("cannot read {path}: {error}")]
    Unread { path: String, error: FileError },
    #[error(
        "{path} holds no key: it is 32 bytes, best as 64 hex digits (openssl rand -hex 32); at most {KEYS_MAX} of them, a line each"
    )]
    NoKey { path: String },
}

/// Why bytes cannot be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Cipher(#[from] aead::Error),
}

impl Seal {
    /// No encryption.
    pub fn none() -> Self {
        Seal {
            ciphers: Vec::new(),
        }
    }

    /// Reads keys of 32 bytes from a file: either one raw key, or a line of 64 hex digits for each. The first key seals; the others are
    /// older or not in use yet.
    ///
    /// # Errors
    /// The path and what is wrong.
    pub fn from_file(path: &str) -> Result<Self, KeyFileFault> {
        let path = || path.to_owned();
        let bytes =
            ptc_secrets::read_file(path(), ptc_secrets::SETTINGS_BYTES_MAX).map_err(|error| {
                KeyFileFault::Unread {
                    path: path(),
                    error,
                }
            })?;
        let keys = keys(&bytes).ok_or_else(|| KeyFileFault::NoKey { path: path() })?;
        let ciphers = keys
            .into_iter()
            .map(|key| XChaCha20Poly1305::new(&key.into()));
        Ok(Seal {
            ciphers: ciphers.collect(),
        })
    }

    pub fn is_on(&self) -> bool {
        !self.ciphers.is_empty()
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.ciphers.len()
    }

    /// Whether the content was sealed with the newest key.
    pub fn is_newest(&self, sealed: &[u8], place: &str) -> bool {
        let first = Seal {
            ciphers: self.ciphers.iter().take(1).cloned().collect(),
        };
        first.open(sealed, place).is_ok()
    }

    /// Seals `bytes` for the store. `place` is authenticated with them: they open nowhere else.
    ///
    /// # Errors
    /// When the system provides no random bytes.
    pub fn seal(&self, bytes: &[u8], place: &str) -> Result<Vec<u8>, SealError> {
        let Some(cipher) = self.ciphers.first() else {
            return Ok([&[CHECKED][..], &checksum(place, bytes), bytes].concat());
        };
        let mut nonce = [0; NONCE_BYTES];
        crate::token::fill(&mut nonce)?;
        let payload = Payload {
            msg: bytes,
            aad: place.as_bytes(),
        };
        let sealed = cipher.encrypt(&XNonce::from(nonce), payload)?;
        Ok([&[SEALED], nonce.as_slice(), &sealed].concat())
    }

    /// Returns the bytes that [`Seal::seal`] was given.
    ///
    /// # Errors
    /// When the content is not sealed, belongs elsewhere, or was sealed with another key or without one.
    pub fn open(&self, sealed: &[u8], place: &str) -> Result<Vec<u8>, UnsealError> {
        match (sealed.split_first(), self.is_on()) {
            // The format from before checksums were introduced.
            (Some((&CLEAR, bytes)), false) => Ok(bytes.to_vec()),
            (Some((&CHECKED, rest)), false) => {
                let (told, bytes) = rest
                    .split_first_chunk::<CHECKSUM_BYTES>()
                    .ok_or(UnsealError::CutOff)?;
                match *told == checksum(place, bytes) {
                    true => Ok(bytes.to_vec()),
                    false => Err(UnsealError::Damaged),
                }
            }
            (Some((&(CLEAR | CHECKED), _)), true) => Err(UnsealError::Clear),
            (Some((&SEALED, _)), false) => Err(UnsealError::NoKey),
            (Some((&SEALED, rest)), true) => {
                let (nonce, msg) = rest
                    .split_first_chunk::<NONCE_BYTES>()
                    .ok_or(UnsealError::CutOff)?;
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
                    .ok_or(UnsealError::Refused)
            }
            (Some(_), _) => Err(UnsealError::Foreign),
            (None, _) => Err(UnsealError::Empty),
        }
    }
}

/// Binds `bytes` to their place where there is no key.
fn checksum(place: &str, bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    // The length marks where the place ends.
    hasher.update(&place.len().to_be_bytes());
    hasher.update(place.as_bytes());
    hasher.update(bytes);
    hasher.finalize().to_be_bytes()
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
mod tests;
