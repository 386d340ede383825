//! How big and how deep a value is, kept with each collection, and how large ones are walked, copied and freed in slices that
//! look at the clock. Knows nothing of what is inside.
//!
//! What is freed can't be given up half-way: a program that has to stop frees the rest, which its memory limit bounds.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::Value;
use crate::clock;
use crate::heap::MAPPED_BYTES;

/// What a walk over a value costs. Shared parts count each time they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes visited by a full walk, long text counting as several; saturating.
    pub weight: u64,
    /// Levels of nesting; never less than the true depth.
    pub depth: u32,
}

impl Shape {
    /// A value without parts.
    pub const LEAF: Shape = Shape {
        weight: 1,
        depth: 0,
    };
    /// A collection without parts.
    pub const EMPTY: Shape = Shape {
        weight: 1,
        depth: 1,
    };

    /// A value of `bytes` bytes without parts: what is long takes long to walk over too.
    #[inline]
    pub const fn of_bytes(bytes: usize) -> Shape {
        /// Bytes that are compared in about the time of one node.
        const NODE_BYTES: usize = 256;
        Shape {
            weight: 1 + (bytes / NODE_BYTES) as u64,
            depth: 0,
        }
    }

    /// The shape of a collection of `parts`.
    pub fn of<'a>(parts: impl Iterator<Item = &'a Value>) -> Shape {
        watched(parts).fold(Shape::EMPTY, |shape, part| shape.with(part.shape()))
    }

    /// This collection with one more part.
    #[inline]
    pub fn with(self, part: Shape) -> Shape {
        Shape {
            weight: self.weight.saturating_add(part.weight),
            depth: self.depth.max(part.depth.saturating_add(1)),
        }
    }

    /// This collection with one part less. The depth stays as an upper bound.
    #[inline]
    pub fn without(self, part: Shape) -> Shape {
        let weight = if self.weight == u64::MAX {
            u64::MAX
        } else {
            self.weight.saturating_sub(part.weight).max(1)
        };
        Shape {
            weight,
            depth: self.depth,
        }
    }
}

/// Parts between two looks of a loop that does next to nothing with each.
const SLICE_PARTS: usize = 512;
/// Steps of the clock for a part that is read or freed, as if it were in no cache.
const PART_STEPS: usize = 8;
/// Steps of the clock for a block that is freed.
const BLOCK_STEPS: usize = 16;

/// `parts`, with a look at the clock now and then: for loops that can't give up.
pub fn watched<T>(parts: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let mut left = SLICE_PARTS;
    parts.inspect(move |_| {
        left -= 1;
        if left == 0 {
            left = SLICE_PARTS;
            clock::goes_on(SLICE_PARTS * PART_STEPS);
        }
    })
}

/// [`watched`] for loops that make a block for each part.
pub fn watched_blocks<T>(parts: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    parts.inspect(|_| {
        clock::goes_on(BLOCK_STEPS);
    })
}

/// Frees `parts` in slices.
pub fn free<T>(parts: &mut Vec<T>) {
    while parts.len() > SLICE_PARTS {
        parts.truncate(parts.len() - SLICE_PARTS);
        clock::goes_on(SLICE_PARTS * PART_STEPS);
    }
    if parts.capacity() * size_of::<T>() > MAPPED_BYTES {
        parts.clear();
        give_back(std::mem::take(parts));
    }
}

/// Frees `parts`, none of which has anything to free, in slices: the system takes pages back one by one.
pub fn give_back<T>(mut parts: Vec<T>) {
    let slice = MAPPED_BYTES / size_of::<T>().max(1);
    while parts.capacity() > slice {
        let left = parts.capacity() - slice;
        parts.truncate(left);
        parts.shrink_to(left);
        clock::goes_on(MAPPED_BYTES / 64);
    }
}

/// Parts that a buffer may have room for beside those that it holds, whatever their number.
const SPARE_PARTS: usize = 8;

/// Gives back what `parts` has room for beyond four times what it holds: what shortens a long buffer in place would keep all of it, for
/// as long as somebody holds the few that are left.
#[inline]
pub fn fit<T>(parts: &mut Vec<T>) {
    if parts.capacity() / 4 > parts.len() + SPARE_PARTS {
        shrink(parts);
    }
}

#[cold]
fn shrink<T>(parts: &mut Vec<T>) {
    // The system takes pages back one by one.
    let slice = MAPPED_BYTES / size_of::<T>().max(1);
    while parts.capacity() - parts.len() > slice {
        parts.shrink_to(parts.capacity() - slice);
        clock::goes_on(MAPPED_BYTES / 64);
    }
    parts.shrink_to_fit();
}

/// How much a tree holds at most for each byte of its parts: its nodes are half full at least.
pub const TREE_TIMES: usize = 2;

/// Work that is put off, freed in slices when it is given up half-way: there may be as much of it as there is memory.
pub struct Stack<T>(Vec<T>);

impl<T> Default for Stack<T> {
    fn default() -> Stack<T> {
        Stack(Vec::new())
    }
}

impl<T> Deref for Stack<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Stack<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T> Drop for Stack<T> {
    fn drop(&mut self) {
        free(&mut self.0);
    }
}

/// A collection that is freed in slices, one part after the other.
#[derive(Default)]
pub struct Freed<C: Default + IntoIterator>(C);

impl<C: Default + IntoIterator> Freed<C> {
    /// The collection, to be used up.
    pub fn take(&mut self) -> C {
        std::mem::take(&mut self.0)
    }
}

impl<C: Default + IntoIterator> Deref for Freed<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C: Default + IntoIterator> DerefMut for Freed<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.0
    }
}

impl<C: Default + IntoIterator> Drop for Freed<C> {
    fn drop(&mut self) {
        watched(self.take().into_iter()).for_each(drop);
    }
}

/// A value in a tree. Freeing a tree is one call of the tree's library, which looks at no clock; so every value looks at it when
/// it is freed.
#[derive(Clone, Default)]
pub struct Slot(Value);

impl Slot {
    /// A value on its way into a tree.
    pub fn new(value: Value) -> Slot {
        Slot(value)
    }

    /// The value out of its tree.
    pub fn into_value(mut self) -> Value {
        std::mem::take(&mut self.0)
    }
}

impl Deref for Slot {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        clock::goes_on(PART_STEPS);
    }
}

/// Tells the clock of a block that is about to be freed.
#[inline]
pub fn freed() {
    clock::goes_on(BLOCK_STEPS);
}

/// Bytes that a change to a tree copies when its nodes are shared: about those from the root to a leaf.
pub const TREE_PATH_BYTES: usize = 4 * 1024;

/// Values nested deeper than this are dropped through a worklist instead of the native stack.
pub const DROP_DEPTH_MAX: u32 = 128;

/// What a deep value was made of that nobody holds any more. A tree stays whole: it may share nodes with others, and freeing it as a
/// tree reaches no more than what it alone holds, while its items one by one are all of them.
pub enum Remains {
    /// Of a vector or a function.
    Values(Vec<Value>),
    /// Of a map or a set.
    Entries(Vec<(Value, Value)>),
    /// Of a large vector.
    ValueTree(Box<imbl::Vector<Slot>>),
    /// Of a large map or set.
    EntryTree(Box<imbl::OrdMap<Value, Slot>>),
}

thread_local! {
    /// What waits while something deep is freed on this thread. It has no destructor, so that it is there for those of others.
    static WAITING: RefCell<ManuallyDrop<Option<Vec<Remains>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Frees `remains` and what they alone hold without native recursion: what is deep in there comes here again, and waits.
pub fn drop_flat(remains: Remains) {
    let first = WAITING.with_borrow_mut(|waiting| {
        let first = waiting.is_none();
        waiting.get_or_insert_default().push(remains);
        first
    });
    if !first {
        return;
    }
    let _ended = Ended;
    while let Some(remains) = WAITING.with_borrow_mut(|waiting| waiting.as_mut()?.pop()) {
        match remains {
            Remains::Values(values) => drop_each(values, Remains::Values, is_deep),
            Remains::Entries(entries) => drop_each(entries, Remains::Entries, |(key, value)| {
                is_deep(key) || is_deep(value)
            }),
            Remains::ValueTree(tree) => drop(tree),
            Remains::EntryTree(tree) => drop(tree),
        }
    }
}

/// Frees `parts` up to the first that is deep, and that one when the rest waits: so no more waits than there are levels.
fn drop_each<T>(mut parts: Vec<T>, rest: fn(Vec<T>) -> Remains, deep: fn(&T) -> bool) {
    while let Some(part) = parts.pop() {
        clock::goes_on(PART_STEPS);
        if deep(&part) && !parts.is_empty() {
            drop_flat(rest(parts));
            return;
        }
    }
    free(&mut parts);
}

fn is_deep(value: &Value) -> bool {
    value.shape().depth >= DROP_DEPTH_MAX
}

/// Nothing waits any more, and what comes next is the first again.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(waiting) = WAITING.with_borrow_mut(|waiting| waiting.take()) {
            give_back(waiting);
        }
    }
}
