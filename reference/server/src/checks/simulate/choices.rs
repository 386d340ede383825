//! The source of a simulation's decisions: a seed, or the bytes of a fuzzer. The same source makes the same decisions.

/// A source of decisions.
pub enum Choices {
    /// An endless stream that a seed determines.
    Seed(u64),
    /// Decisions of a fuzzer, until they run out.
    Bytes(std::vec::IntoIter<u8>),
}

impl Choices {
    /// A number below `sides`, which is not zero.
    pub fn below(&mut self, sides: usize) -> usize {
        let number = match self {
            Choices::Seed(state) => next(state),
            Choices::Bytes(bytes) => u64::from(bytes.next().unwrap_or_default()),
        };
        usize::try_from(number % sides as u64).unwrap_or_default()
    }

    /// Whether an event with this probability in percent happens.
    pub fn percent(&mut self, chances: usize) -> bool {
        self.below(100) < chances
    }

    pub fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// One of the weighted items.
    pub fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut number = self.below(items.iter().map(|(weight, _)| weight).sum());
        let lies_here = |(weight, _): &&(usize, T)| {
            let here = number < *weight;
            number = number.saturating_sub(*weight);
            here
        };
        let found = items.iter().find(lies_here);
        found.expect("a number below the sum lies within one").1
    }

    /// Whether the decisions have run out.
    pub fn is_over(&self) -> bool {
        matches!(self, Choices::Bytes(bytes) if bytes.as_slice().is_empty())
    }
}

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
