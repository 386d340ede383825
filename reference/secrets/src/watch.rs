//! The time limit of a search. Knows nothing of what is searched for.

/// Work between two time checks, in bytes of text that is easy to search: well below a millisecond.
const WORK_BETWEEN_LOOKS: usize = 4 * 1024;

/// Checks at regular amounts of work whether there is time left. Once there is none, results are incomplete.
pub(crate) struct Watch<'w> {
    has_time: Option<&'w mut dyn FnMut() -> bool>,
    left: usize,
    over: bool,
}

impl<'w> Watch<'w> {
    /// A watch without a time limit.
    pub fn unlimited() -> Self {
        Self {
            has_time: None,
            left: usize::MAX,
            over: false,
        }
    }

    /// A watch that asks `has_time`, for the first time right away.
    pub fn new(has_time: &'w mut dyn FnMut() -> bool) -> Self {
        let over = !has_time();
        Self {
            has_time: Some(has_time),
            left: WORK_BETWEEN_LOOKS,
            over,
        }
    }

    /// Charges the next piece of work, in bytes of easy text. False when there is no time for it.
    pub fn try_spend(&mut self, work: usize) -> bool {
        if work < self.left {
            self.left -= work;
        } else if let Some(has_time) = self.has_time.as_mut().filter(|_| !self.over) {
            self.left = WORK_BETWEEN_LOOKS;
            self.over = !has_time();
        }
        !self.over
    }

    /// Whether the search was cut short.
    pub fn is_over(&self) -> bool {
        self.over
    }
}
