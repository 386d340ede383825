//! The limits of a program. Knows nothing of how they are enforced.

/// What a program may use. The wall-clock limit is up to the host: see [`crate::host::Host::pulse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the program may hold at once, including all its workers, its native stack, and the text written of
    /// its value.
    pub memory_bytes: u64,
    /// Parallel workers that may be alive at once in the whole program.
    pub workers: usize,
    /// Brackets that may be open at once.
    pub nesting: u32,
    /// Distinct symbols and keywords in one program.
    pub symbols: u32,
    /// Graphemes of one printed line; longer lines are truncated.
    pub print_graphemes: usize,
}

impl Limits {
    /// The defaults.
    pub const DEFAULT: Limits = Limits {
        memory_bytes: 10 << 20,
        workers: 8,
        nesting: 64,
        symbols: 10_000,
        print_graphemes: 2_000,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
