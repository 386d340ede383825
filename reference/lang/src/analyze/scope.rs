//! Scopes: which name is in which slot of which function. Knows nothing of forms.

use std::collections::{BTreeMap, HashMap};

/// Where a function finds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    Slot(u32),
    Capture(u32),
    Itself,
}

/// The functions around the point of analysis, and the names that they bind.
///
/// Names are indexed, so that a lookup costs the same however many are bound.
pub struct Scopes {
    /// The innermost function is the last; the first is the top level.
    functions: Vec<FnScope>,
    /// The index in `bindings` of each name that was ever bound. A tree, because programs choose the names, and could
    /// make them collide in a hash table with a known hash function.
    names: BTreeMap<Box<str>, usize>,
    /// The bindings of each name, innermost last.
    bindings: Vec<Vec<Binding>>,
    /// The names of all current bindings, in the order in which they were made.
    bound: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Binding {
    /// Index of the function that binds it.
    owner: usize,
    place: Storage,
}

#[derive(Default)]
pub struct FnScope {
    next: u32,
    /// The largest number of slots in use at once.
    pub slots_max: u32,
    /// The captured values in order, as seen from the enclosing function.
    pub captures: Vec<Storage>,
    capture_of: HashMap<Storage, u32, foldhash::fast::FixedState>,
    /// The number of values that a `recur` takes; `None` where there is no target for it.
    pub recur: Option<usize>,
    /// The number of bindings when the function began.
    outer: usize,
}

/// A point up to which bindings can be released.
#[derive(Clone, Copy)]
pub struct Mark {
    bound: usize,
    next: u32,
}

impl Scopes {
    /// The top level, without bindings.
    pub fn new() -> Scopes {
        Scopes {
            functions: vec![FnScope::default()],
            names: BTreeMap::new(),
            bindings: Vec::new(),
            bound: Vec::new(),
        }
    }

    /// Every name that was bound anywhere so far.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| -> &str { name })
    }

    /// Whether `name` was bound anywhere so far.
    pub fn ever_bound(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    pub fn current(&mut self) -> &mut FnScope {
        self.functions.last_mut().expect("the top level is a scope")
    }

    /// Enters a function, optionally with a name of its own.
    pub fn enter(&mut self, name: Option<&str>) {
        self.functions.push(FnScope {
            outer: self.bound.len(),
            ..FnScope::default()
        });
        if let Some(name) = name {
            self.add(name, Storage::Itself);
        }
    }

    /// Leaves the innermost function, and ends every binding in it.
    pub fn leave(&mut self) -> FnScope {
        let left = self.functions.pop().expect("entered before");
        self.unbind(left.outer);
        left
    }

    /// Whether any enclosing function binds `name`.
    pub fn binds(&self, name: &str) -> bool {
        self.binding(name).is_some()
    }

    /// Where the innermost function finds `name`. Every function between it and the binding one captures the value in
    /// turn.
    pub fn resolve(&mut self, name: &str) -> Option<Storage> {
        let Binding { owner, mut place } = self.binding(name)?;
        for scope in &mut self.functions[owner + 1..] {
            place = scope.capture(place);
        }
        Some(place)
    }

    /// Binds `name` to a fresh slot of the innermost function.
    pub fn bind(&mut self, name: &str) -> u32 {
        let slot = self.current().slot();
        self.add(name, Storage::Slot(slot));
        slot
    }

    /// The current point, for [`Scopes::release`].
    pub fn mark(&mut self) -> Mark {
        Mark {
            bound: self.bound.len(),
            next: self.current().next,
        }
    }

    /// Ends every binding made since `mark`, which was taken in the same function.
    pub fn release(&mut self, mark: Mark) {
        self.unbind(mark.bound);
        self.current().next = mark.next;
    }

    /// The current binding of `name`, which is the latest one.
    fn binding(&self, name: &str) -> Option<Binding> {
        let at = *self.names.get(name)?;
        self.bindings[at].last().copied()
    }

    fn add(&mut self, name: &str, place: Storage) {
        let at = match self.names.get(name) {
            Some(at) => *at,
            None => {
                self.names.insert(name.into(), self.bindings.len());
                self.bindings.push(Vec::new());
                self.bindings.len() - 1
            }
        };
        let owner = self.functions.len() - 1;
        self.bindings[at].push(Binding { owner, place });
        self.bound.push(at);
    }

    fn unbind(&mut self, keep: usize) {
        for at in self.bound.drain(keep..) {
            self.bindings[at].pop();
        }
    }
}

impl FnScope {
    /// A fresh slot without a name.
    pub fn slot(&mut self) -> u32 {
        let slot = self.next;
        self.next += 1;
        self.slots_max = self.slots_max.max(self.next);
        slot
    }

    /// The next slot that will be assigned.
    pub fn next_slot(&self) -> u32 {
        self.next
    }

    /// Captures `outer`, or finds its existing capture.
    fn capture(&mut self, outer: Storage) -> Storage {
        let at = *self.capture_of.entry(outer).or_insert_with(|| {
            self.captures.push(outer);
            self.captures.len() as u32 - 1
        });
        Storage::Capture(at)
    }
}
