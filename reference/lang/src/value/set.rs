//! Sets in term order: a map whose values are ignored. Knows nothing of set algebra.

use super::shape::{Shape, metered};
use super::{Map, Value};

/// A set of values. 1 and 1.0 are two members; all NaNs are one member.
#[derive(Clone, Default)]
pub struct Set(Map);

impl Set {
    /// The empty set.
    pub fn new() -> Set {
        Set(Map::new())
    }

    /// A set of members that the caller guarantees to be distinct and in term order.
    pub(crate) fn of_sorted(members: impl Iterator<Item = Value>) -> Set {
        let entries = metered(members).map(|member| (member, Value::Nil));
        Set(Map::of_sorted(entries.collect()))
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether exactly `member` is in the set.
    pub fn contains(&self, member: &Value) -> bool {
        self.0.contains(member)
    }

    /// The member as stored.
    pub fn get(&self, member: &Value) -> Option<&Value> {
        self.0.entry(member).map(|(member, _)| member)
    }

    /// The address of the allocation, if anybody else holds it too.
    pub(crate) fn shared_address(&self) -> Option<usize> {
        self.0.shared_address()
    }

    /// The bytes of its buffer, or the most that its tree can take.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.0.buffer_bytes()
    }

    /// The bytes that a change may copy: 0 when this is the only holder, unless the change turns a buffer into a tree.
    pub fn copy_bytes(&self) -> usize {
        self.0.copy_bytes()
    }

    /// Adds `member`, unless it is already there.
    pub fn insert(&mut self, member: Value) {
        if !self.contains(&member) {
            self.0.insert(member, Value::Nil);
        }
    }

    /// Removes `member`; returns false when it was not there.
    pub fn remove(&mut self, member: &Value) -> bool {
        self.0.remove(member).is_some()
    }

    /// The members in term order.
    pub fn iter(&self) -> Members<'_> {
        Members(self.0.iter())
    }

    /// The number of nodes in a full walk, and the depth.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.0.shape()
    }

    /// The address of the allocation.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.address()
    }

    /// Whether both are the same allocation.
    pub fn ptr_eq(&self, other: &Set) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl FromIterator<Value> for Set {
    fn from_iter<T: IntoIterator<Item = Value>>(iter: T) -> Self {
        Set(iter
            .into_iter()
            .map(|member| (member, Value::Nil))
            .collect())
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = &'a Value;
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Members<'a> {
        self.iter()
    }
}

/// The members of a set in term order.
pub struct Members<'a>(super::Entries<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = &'a Value;

    #[inline]
    fn next(&mut self) -> Option<&'a Value> {
        self.0.next().map(|(member, _)| member)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Members<'_> {}
