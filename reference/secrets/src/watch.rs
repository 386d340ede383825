//! The time limit of a search. Knows nothing of what is searched for.

/// What is done between two questions, in bytes of text that is easy to search: well below a millisecond.
const WORK_BETWEEN_LOOKS: usize = 4 * 1024;

/// Asks whether there is time for more, each time when so much was done. Once there is none, what was found is not all.
pub(crate) struct Watch<'w> {
    goes_on: Option<&'w mut dyn FnMut() -> bool>,
    left: usize,
    over: bool,
}

impl<'w> Watch<'w> {
    /// One that always has time.
    pub fn patient() -> Self {
        Self {
            goes_on: None,
            left: usize::MAX,
            over: false,
        }
    }

    /// One that asks `goes_on`, now for the first time.
    pub fn new(goes_on: &'w mut dyn FnMut() -> bool) -> Self {
        let over = !goes_on();
        Self {
            goes_on: Some(goes_on),
            left: WORK_BETWEEN_LOOKS,
            over,
        }
    }

    /// Counts what is done next, in bytes of easy text. False when there is no time for it.
    pub fn affords(&mut self, work: usize) -> bool {
        if work < self.left {
            self.left -= work;
        } else if let Some(goes_on) = self.goes_on.as_mut().filter(|_| !self.over) {
            self.left = WORK_BETWEEN_LOOKS;
            self.over = !goes_on();
        }
        !self.over
    }

    /// Whether the search was broken off.
    pub fn is_over(&self) -> bool {
        self.over
    }
}
