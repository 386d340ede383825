//! The size and depth of a value, stored with each collection, and how large values are walked, copied and freed in
//! slices between which the clock is checked. Knows nothing of their contents.
//!
//! Freeing cannot stop half-way: a program that reached a limit still frees the rest, which its memory limit bounds.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::Value;
use crate::clock;
use crate::heap::MAPPED_BYTES;

/// The cost of a walk over a value. Shared parts count each time they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Nodes that a full walk visits, with long text counting as several; saturating.
    pub weight: u64,
    /// Levels of nesting, as an upper bound of the true depth.
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

    /// A value of `bytes` bytes without parts: long values take longer to walk.
    #[inline]
    pub const fn of_bytes(bytes: usize) -> Shape {
        /// The number of bytes that are compared in about the time of one node.
        const NODE_BYTES: usize = 256;
        Shape {
            weight: 1 + (bytes / NODE_BYTES) as u64,
            depth: 0,
        }
    }

    /// The shape of a collection of `parts`.
    pub fn of<'a>(parts: impl Iterator<Item = &'a Value>) -> Shape {
        metered(parts).fold(Shape::EMPTY, |shape, part| shape.with(part.shape()))
    }

    /// The shape of this collection with one more part.
    #[inline]
    pub fn with(self, part: Shape) -> Shape {
        Shape {
            weight: self.weight.saturating_add(part.weight),
            depth: self.depth.max(part.depth.saturating_add(1)),
        }
    }

    /// The shape of this collection with one part less. The depth stays as an upper bound.
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

/// Parts between two checks of the clock, for loops that do almost nothing with each part.
const SLICE_PARTS: usize = 512;
/// Metered steps per part that is read or freed, assuming that it is in no cache.
const PART_STEPS: usize = 8;
/// Metered steps per freed block.
const BLOCK_STEPS: usize = 16;

/// Iterates over `parts` and checks the clock regularly: for loops that can't stop early.
pub fn metered<T>(parts: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let mut left = SLICE_PARTS;
    parts.inspect(move |_| {
        left -= 1;
        if left == 0 {
            left = SLICE_PARTS;
            clock::may_continue(SLICE_PARTS * PART_STEPS);
        }
    })
}

/// [`metered`] for loops that allocate a block per part.
pub fn metered_blocks<T>(parts: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    parts.inspect(|_| {
        clock::may_continue(BLOCK_STEPS);
    })
}

/// Frees `parts` in slices.
pub fn free<T>(parts: &mut Vec<T>) {
    while parts.len() > SLICE_PARTS {
        parts.truncate(parts.len() - SLICE_PARTS);
        clock::may_continue(SLICE_PARTS * PART_STEPS);
    }
    if parts.capacity() * size_of::<T>() > MAPPED_BYTES {
        parts.clear();
        free_flat(std::mem::take(parts));
    }
}

/// Frees `parts`, none of which owns anything, in slices: the system takes pages back one by one.
pub fn free_flat<T>(mut parts: Vec<T>) {
    let slice = MAPPED_BYTES / size_of::<T>().max(1);
    while parts.capacity() > slice {
        let left = parts.capacity() - slice;
        parts.truncate(left);
        parts.shrink_to(left);
        clock::may_continue(MAPPED_BYTES / 64);
    }
}

/// The spare capacity that a buffer may keep in any case.
const SPARE_PARTS: usize = 8;

/// Shrinks `parts` when its capacity exceeds four times its length. Otherwise a long buffer that was shortened in place
/// would keep all of its memory for as long as somebody holds the few parts that are left.
#[inline]
pub fn shrink_if_sparse<T>(parts: &mut Vec<T>) {
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
        clock::may_continue(MAPPED_BYTES / 64);
    }
    parts.shrink_to_fit();
}

/// The most bytes that a tree takes per byte of its parts: its nodes are at least half full.
pub const TREE_OVERHEAD: usize = 2;

/// A stack of pending work, freed in slices when the work ends early: it may be as large as memory allows.
pub struct WorkStack<T>(Vec<T>);

impl<T> Default for WorkStack<T> {
    fn default() -> WorkStack<T> {
        WorkStack(Vec::new())
    }
}

impl<T> Deref for WorkStack<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for WorkStack<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T> Drop for WorkStack<T> {
    fn drop(&mut self) {
        free(&mut self.0);
    }
}

/// A collection that is freed in slices, one part after the other.
#[derive(Default)]
pub struct FreedInSlices<C: Default + IntoIterator>(C);

impl<C: Default + IntoIterator> FreedInSlices<C> {
    /// The collection, to be consumed.
    pub fn take(&mut self) -> C {
        std::mem::take(&mut self.0)
    }
}

impl<C: Default + IntoIterator> Deref for FreedInSlices<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C: Default + IntoIterator> DerefMut for FreedInSlices<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.0
    }
}

impl<C: Default + IntoIterator> Drop for FreedInSlices<C> {
    fn drop(&mut self) {
        metered(self.take().into_iter()).for_each(drop);
    }
}

/// A value in a tree. A tree is freed by one call of its library, which checks no clock; so each value checks it when
/// it is dropped.
#[derive(Clone, Default)]
pub struct TreeValue(Value);

impl TreeValue {
    /// Wraps a value for a tree.
    pub fn new(value: Value) -> TreeValue {
        TreeValue(value)
    }

    /// Unwraps the value.
    pub fn into_value(mut self) -> Value {
        std::mem::take(&mut self.0)
    }
}

impl Deref for TreeValue {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl DerefMut for TreeValue {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.0
    }
}

impl Drop for TreeValue {
    fn drop(&mut self) {
        clock::may_continue(PART_STEPS);
    }
}

/// Meters a block that is about to be freed.
#[inline]
pub fn charge_free() {
    clock::may_continue(BLOCK_STEPS);
}

/// The approximate number of bytes that a change to a tree with shared nodes copies: the path from the root to a leaf.
pub const TREE_PATH_BYTES: usize = 4 * 1024;

/// Values nested deeper than this are dropped through a worklist instead of the native stack.
pub const DROP_DEPTH_MAX: u32 = 128;

/// The contents of a deep value that nobody holds any more. A tree is kept whole: it may share nodes with other trees,
/// so freeing it as a tree visits only the nodes that it alone holds, while taking out its items would visit all of
/// them.
pub enum PendingDrop {
    /// The parts of a vector or a function.
    Values(Vec<Value>),
    /// The entries of a map or a set.
    Entries(Vec<(Value, Value)>),
    /// A large vector.
    ValueTree(Box<imbl::Vector<TreeValue>>),
    /// A large map or set.
    EntryTree(Box<imbl::OrdMap<Value, TreeValue>>),
}

thread_local! {
    /// The worklist while something deep is freed on this thread. It has no destructor, so that the destructors of
    /// other thread-locals can use it.
    static WORKLIST: RefCell<ManuallyDrop<Option<Vec<PendingDrop>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Frees `pending` and what they alone hold without native recursion: deep values inside call this function again,
/// which puts them on the worklist.
pub fn drop_iteratively(pending: PendingDrop) {
    let first = WORKLIST.with_borrow_mut(|worklist| {
        let first = worklist.is_none();
        worklist.get_or_insert_default().push(pending);
        first
    });
    if !first {
        return;
    }
    let _ended = ClearWorklist;
    while let Some(pending) = WORKLIST.with_borrow_mut(|worklist| worklist.as_mut()?.pop()) {
        match pending {
            PendingDrop::Values(values) => drop_each(values, PendingDrop::Values, is_deep),
            PendingDrop::Entries(entries) => {
                drop_each(entries, PendingDrop::Entries, |(key, value)| {
                    is_deep(key) || is_deep(value)
                })
            }
            PendingDrop::ValueTree(tree) => drop(tree),
            PendingDrop::EntryTree(tree) => drop(tree),
        }
    }
}

/// Frees `parts` up to the first deep one, and puts the rest on the worklist before that one is freed. So the worklist
/// is never longer than the nesting is deep.
fn drop_each<T>(mut parts: Vec<T>, rest: fn(Vec<T>) -> PendingDrop, deep: fn(&T) -> bool) {
    while let Some(part) = parts.pop() {
        clock::may_continue(PART_STEPS);
        if deep(&part) && !parts.is_empty() {
            drop_iteratively(rest(parts));
            return;
        }
    }
    free(&mut parts);
}

fn is_deep(value: &Value) -> bool {
    value.shape().depth >= DROP_DEPTH_MAX
}

/// Removes the worklist when the outermost call ends, so that the next call is the outermost again.
struct ClearWorklist;

impl Drop for ClearWorklist {
    fn drop(&mut self) {
        if let Some(worklist) = WORKLIST.with_borrow_mut(|worklist| worklist.take()) {
            free_flat(worklist);
        }
    }
}
