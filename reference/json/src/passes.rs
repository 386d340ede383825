//! Counts the bytes read, for tests and benches that measure how often a text is read. Release builds count
//! nothing.

/// A kind of pass over text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Checked, possibly with other work in the same pass.
    Scanned,
    /// Searched byte by byte after it was checked.
    Walked,
    /// Copied into compact form.
    Copied,
    /// Passed to code that builds something from it, without another check.
    Built,
}

/// Bytes counted so far in this process.
#[cfg(feature = "checks")]
pub fn bytes_counted(pass: Pass) -> u64 {
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
