//! The time limit of a search. Knows nothing of what is searched for.

/// Work between two time checks, in bytes of text that is easy to search: well below a millisecond.
const WORK_BETWEEN_LOOKS: usize = 4 * 1024;

/// Checks at regular amounts of work whether there is time left. Once there is none, results are incomplete.
pub(crate) struct Watch<'w> {
    goes_on: Option<&'w mut dyn FnMut() -> bool>,
    left: usize,
    over: bool,
}

impl<'w> Watch<'w> {
    /// A watch without a time limit.
    pub fn patient() -> Self {
        Self {
            goes_on: None,
            left: usize::MAX,
            over: false,
        }
    }

    /// A watch that asks `goes_on`, for the first time right away.
    pub fn new(goes_on: &'w mut dyn FnMut() -> bool) -> Self {
        let over = !goes_on();
        Self {
            goes_on: Some(goes_on),
            left: WORK_BETWEEN_LOOKS,
            over,
        }
    }

    /// Charges the next piece of work, in bytes of easy text. False when there is no time for it.
    pub fn affords(&mut self, work: usize) -> bool {
        if work < self.left {
            self.left -= work;
        } else if let Some(goes_on) = self.goes_on.as_mut().filter(|_| !self.over) {
            self.left = WORK_BETWEEN_LOOKS;
            self.over = !goes_on();
        }
        !self.over
    }

    /// Whether the search was cut short.
    pub fn is_over(&self) -> bool {
        self.over
    }
}
