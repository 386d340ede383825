//! Counts the bytes read, for tests and benches that ask how often a text is read. A release counts nothing.

/// One way of going over text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Checked, whatever else is done with it at once.
    Scanned,
    /// Looked for something, byte by byte, in text that was checked.
    Walked,
    /// Copied into compact form.
    Copied,
    /// Given to code that builds something of it, without being checked again.
    Built,
}

/// Bytes so far, in this process.
#[cfg(feature = "checks")]
pub fn so_far(pass: Pass) -> u64 {
    COUNTS[pass as usize].load(std::sync::atomic::Ordering::Relaxed)
}

#[cfg(feature = "checks")]
static COUNTS: [std::sync::atomic::AtomicU64; 4] =
    [const { std::sync::atomic::AtomicU64::new(0) }; 4];

#[cfg(feature = "checks")]
pub(crate) fn count(pass: Pass, bytes: usize) {
    COUNTS[pass as usize].fetch_add(bytes as u64, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(not(feature = "checks"))]
#[inline(always)]
pub(crate) fn count(_pass: Pass, _bytes: usize) {}
