//! Scopes: which name stands in which slot. Knows nothing of forms.

/// Where a local is found from inside its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the frame.
    Slot(u32),
    /// Among the captures.
    Capture(u32),
    /// The function itself.
    Itself,
}

/// The names of one function.
#[derive(Default)]
pub struct FnScope {
    /// Its own name.
    name: Option<String>,
    locals: Vec<(String, u32)>,
    next: u32,
    /// The most slots in use at once.
    pub slots_max: u32,
    /// What is captured, seen from the enclosing function, in order.
    pub captures: Vec<Place>,
    /// How many values a `recur` takes; none where there is nothing to recur to.
    pub recur: Option<usize>,
}

/// A point to release bindings back to.
#[derive(Clone, Copy)]
pub struct Mark {
    locals: usize,
    next: u32,
}

impl FnScope {
    /// The scope of a function that may have a name of its own.
    pub fn named(name: Option<&str>) -> FnScope {
        FnScope {
            name: name.map(str::to_owned),
            ..FnScope::default()
        }
    }

    /// Where `name` is, when this function binds it: the latest binding wins, then its own name.
    pub fn find(&self, name: &str) -> Option<Place> {
        let local = self.locals.iter().rev().find(|(known, _)| known == name);
        local
            .map(|(_, slot)| Place::Slot(*slot))
            .or_else(|| (self.name.as_deref() == Some(name)).then_some(Place::Itself))
    }

    /// Binds `name` to a fresh slot.
    pub fn bind(&mut self, name: &str) -> u32 {
        let slot = self.slot();
        self.locals.push((name.to_owned(), slot));
        slot
    }

    /// A fresh slot without a name.
    pub fn slot(&mut self) -> u32 {
        let slot = self.next;
        self.next += 1;
        self.slots_max = self.slots_max.max(self.next);
        slot
    }

    /// The next slot to be handed out.
    pub fn next_slot(&self) -> u32 {
        self.next
    }

    /// The place of a captured `outer` place.
    pub fn capture(&mut self, outer: Place) -> Place {
        let at = self
            .captures
            .iter()
            .position(|known| *known == outer)
            .unwrap_or_else(|| {
                self.captures.push(outer);
                self.captures.len() - 1
            });
        Place::Capture(at as u32)
    }

    /// Where bindings stand now.
    pub fn mark(&self) -> Mark {
        Mark {
            locals: self.locals.len(),
            next: self.next,
        }
    }

    /// Ends every binding made since `mark`.
    pub fn release(&mut self, mark: Mark) {
        self.locals.truncate(mark.locals);
        self.next = mark.next;
    }
}
