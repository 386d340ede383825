//! Passes over text in which no pattern can start, several bytes at a step, with the shift table of Wu and Manber.
//! Knows what patterns consist of; finds and replaces nothing.

/// Bytes of a gram: what is looked at in each step.
const GRAM: usize = 4;
/// A window shorter than this steps too little to pay.
const WINDOW_MIN: usize = 8;
/// The longest window: a step must fit into a byte of the table.
const WINDOW_MAX: usize = 128;
/// Slots of the table per gram of the patterns: the more, the fewer chance hits, and the fewer slots are near at hand.
const SLOTS_PER_GRAM: usize = 4;
/// Bounds of the table, as powers of two: within a core's caches.
const SLOTS_MIN_LOG2: u32 = 14;
const SLOTS_MAX_LOG2: u32 = 20;

/// A table over some patterns.
pub(crate) struct Skip {
    /// By slot of a gram: how far the window may move.
    shifts: Vec<u8>,
    /// Bits by which a gram's product is shifted to give its slot.
    shift: u32,
    /// Bytes of the window: at most those of the shortest pattern.
    window: usize,
}

impl Skip {
    /// A table, unless the patterns are so short or so many that it would not pay.
    pub fn new(patterns: &[&str]) -> Option<Self> {
        let shortest = patterns.iter().map(|pattern| pattern.len()).min()?;
        // Many patterns afford a short window: more grams would fill the table, and a full table never steps far.
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

    /// The first place from `from` on at which a pattern may start; `None` when none can any more.
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
