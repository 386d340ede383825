//! A 64-bit FNV-1a hash of bytes that are written to it: the same on every machine and in every version. Not against forgers.

use std::io;

/// Hashes what is written.
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut digest = Self::default();
        digest.add(bytes);
        digest.finish()
    }

    /// The hash of all bytes so far.
    pub fn finish(&self) -> u64 {
        self.0
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    }
}

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
