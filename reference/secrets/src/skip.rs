//! Skips text in which no pattern can start, several bytes at a step, with the shift table of Wu and Manber. Knows
//! only the patterns' bytes; finds and replaces nothing.

/// Bytes of a gram, the piece of text examined in each step.
const GRAM: usize = 4;
/// Shorter windows skip too little to pay off.
const WINDOW_MIN: usize = 8;
/// The longest window: a step must fit into a byte of the table.
const WINDOW_MAX: usize = 128;
/// Slots of the table per gram of the patterns. More slots mean fewer false hits, but fit less well into caches.
const SLOTS_PER_GRAM: usize = 4;
/// Bounds of the table size, as powers of two: within a core's caches.
const SLOTS_MIN_LOG2: u32 = 14;
const SLOTS_MAX_LOG2: u32 = 20;

pub(crate) struct Skip {
    /// How far the window may move, by slot of a gram.
    shifts: Vec<u8>,
    /// Right shift that turns a gram's product into its slot.
    shift: u32,
    /// Bytes of the window: at most those of the shortest pattern.
    window: usize,
}

impl Skip {
    /// Builds a table; `None` when the patterns are so short or so many that skipping would not pay off.
    pub fn new(patterns: &[&str]) -> Option<Self> {
        let shortest = patterns.iter().map(|pattern| pattern.len()).min()?;
        // Many patterns allow only a short window: more grams would fill the table, and a full table never steps far.
        let affordable = (1 << SLOTS_MAX_LOG2) / (SLOTS_PER_GRAM * patterns.len()) + GRAM - 1;
        let window = shortest.min(WINDOW_MAX).min(affordable);
        if window < WINDOW_MIN {
            return None;
        }
        let most = window - GRAM + 1;
        let slots = (patterns.len() * most * SLOTS_PER_GRAM).next_power_of_two();
        let bits = slots.ilog2().clamp(SLOTS_MIN_LOG2, SLOTS_MAX_LOG2);
        let farthest = u8::try_from(most).ok()?;
        let mut skip = Self {
            shifts: vec![farthest; 1 << bits],
            shift: u32::BITS - bits,
            window,
        };
        for pattern in patterns {
            for at in 0..most {
                let slot = skip.slot(&pattern.as_bytes()[at..at + GRAM]);
                let step = farthest - 1 - at as u8;
                skip.shifts[slot] = skip.shifts[slot].min(step);
            }
        }
        Some(skip)
    }

    /// The first position from `from` on where a pattern may start; `None` when there is none.
    pub fn candidate(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut end = from + self.window;
        while end <= bytes.len() {
            match self.shifts[self.slot(&bytes[end - GRAM..end])] {
                0 => return Some(end - self.window),
                step => end += usize::from(step),
            }
        }
        None
    }

    /// Bytes that the table occupies.
    pub fn memory_bytes(&self) -> usize {
        self.shifts.len()
    }

    fn slot(&self, gram: &[u8]) -> usize {
        let packed = u32::from_le_bytes([gram[0], gram[1], gram[2], gram[3]]);
        // The odd factor spreads neighbouring grams; its high bits depend on all of them.
        (packed.wrapping_mul(0x9E37_79B1) >> self.shift) as usize
    }
}
