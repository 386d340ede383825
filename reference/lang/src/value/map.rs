//! Maps in term order of their keys: one sorted buffer, or a tree after a large map is changed. Knows nothing of
//! flexible keys beyond the one lookup that all accessors share.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::order::{key_cmp, sort_by};
use super::shape::{
    DROP_DEPTH_MAX, FreedInSlices, PendingDrop, Shape, TREE_OVERHEAD, TREE_PATH_BYTES, TreeValue,
    charge_free, drop_iteratively, free, metered, shrink_if_sparse,
};
use super::{Text, Value};
use crate::{clock, heap};

/// Above this length a change turns the buffer into a tree, so that it takes logarithmic time.
const FLAT_LEN_MAX: usize = 64;
/// A tree of at most this length is turned back into a buffer: even for one entry a tree node has its full size.
const TREE_LEN_MIN: usize = FLAT_LEN_MAX / 2;
/// Up to this length a linear scan beats a binary search.
const SCAN_LEN_MAX: usize = 8;

/// A map from values to values.
#[derive(Clone)]
pub struct Map(Arc<Data>);

#[derive(Clone)]
struct Data {
    entries: Store,
    shape: Shape,
}

#[derive(Clone)]
enum Store {
    Flat(Vec<(Value, Value)>),
    Tree(Box<imbl::OrdMap<Value, TreeValue>>),
}

impl Default for Store {
    fn default() -> Store {
        Store::Flat(Vec::new())
    }
}

allocation!(Map);

impl Map {
    /// The empty map.
    pub fn new() -> Map {
        Map(Arc::new(Data {
            entries: Store::Flat(Vec::new()),
            shape: Shape::EMPTY,
        }))
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0.entries {
            Store::Flat(entries) => entries.len(),
            Store::Tree(entries) => entries.len(),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value stored under exactly `key`: 1 and 1.0 are two keys.
    #[inline]
    pub fn get(&self, key: &Value) -> Option<&Value> {
        match &self.0.entries {
            Store::Flat(entries) => find(entries, key).ok().map(|at| &entries[at].1),
            Store::Tree(entries) => entries.get(key).map(|slot| &**slot),
        }
    }

    /// The entry that a flexible read of `key` finds (`keys.precedence`): the exact key, then the other kind (keyword
    /// for string and vice versa), then the name with underscores for hyphens, in the same order of kinds.
    #[inline]
    pub fn find(&self, key: &Value) -> Option<(&Value, &Value)> {
        let Some(text) = key.key_text() else {
            return self.entry(key);
        };
        let keyword = matches!(key, Value::Keyword(_));
        self.find_text(text, keyword).or_else(|| {
            text.contains('-')
                .then(|| with_underscores(text))
                .and_then(|under| self.find_text(&under, keyword))
        })
    }

    /// The entry of the keyword or string `text`; when both exist, `keyword` decides.
    #[inline]
    fn find_text(&self, text: &Text, keyword: bool) -> Option<(&Value, &Value)> {
        let of_kind = |text: &Text, keyword: bool| {
            if keyword {
                Value::Keyword(text.clone())
            } else {
                Value::Str(text.clone())
            }
        };
        match &self.0.entries {
            Store::Flat(entries) if entries.len() <= SCAN_LEN_MAX => {
                let mut found = None;
                for (key, value) in entries {
                    let (Value::Keyword(name) | Value::Str(name)) = key else {
                        continue;
                    };
                    if name == text {
                        if matches!(key, Value::Keyword(_)) == keyword {
                            return Some((key, value));
                        }
                        found = Some((key, value));
                    }
                }
                found
            }
            _ => self
                .entry(&of_kind(text, keyword))
                .or_else(|| self.entry(&of_kind(text, !keyword))),
        }
    }

    /// The stored key that a write to `key` affects: `key` itself if present, else the same name in the other kind
    /// (`keys.writes.there`). `None` when neither is present.
    #[inline]
    pub fn stored_key(&self, key: &Value) -> Option<&Value> {
        let entry = match key.key_text() {
            Some(text) => self.find_text(text, matches!(key, Value::Keyword(_))),
            None => self.entry(key),
        };
        entry.map(|(stored, _)| stored)
    }

    /// Stores `value` under the key that is already stored, else under `key`, and returns the previous value.
    pub fn put(&mut self, key: Value, value: Value) -> Option<Value> {
        match self.stored_key(&key) {
            Some(stored) => {
                let stored = stored.clone();
                self.insert(stored, value)
            }
            None => self.insert(key, value),
        }
    }

    /// A map of entries that are inserted in order: of a name in two kinds, the first stays the key, and the last value
    /// wins.
    pub fn from_writes(mut entries: Vec<(Value, Value)>) -> Map {
        unify_key_kinds(&mut entries, |(key, _)| key);
        Map::from(entries)
    }

    /// The value that a flexible read of `key` finds.
    #[inline]
    pub fn lookup(&self, key: &Value) -> Option<&Value> {
        self.find(key).map(|(_, value)| value)
    }

    /// The entry stored under exactly `key`.
    pub fn entry(&self, key: &Value) -> Option<(&Value, &Value)> {
        match &self.0.entries {
            Store::Flat(entries) => find(entries, key)
                .ok()
                .map(|at| (&entries[at].0, &entries[at].1)),
            Store::Tree(entries) => entries.get_key_value(key).map(|(key, slot)| (key, &**slot)),
        }
    }

    /// Whether exactly `key` is stored.
    pub fn contains(&self, key: &Value) -> bool {
        self.get(key).is_some()
    }

    /// The entries in term order of their keys.
    pub fn iter(&self) -> Entries<'_> {
        match &self.0.entries {
            Store::Flat(entries) => Entries::Flat(entries.iter()),
            Store::Tree(entries) => Entries::Tree(Box::new(entries.iter())),
        }
    }

    /// The keys in term order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.iter().map(|(key, _)| key)
    }

    /// The values in term order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.iter().map(|(_, value)| value)
    }

    /// The bytes of its buffer, or the most that its tree can take.
    pub(crate) fn buffer_bytes(&self) -> usize {
        size_of::<(Value, Value)>()
            * match &self.0.entries {
                Store::Flat(entries) => entries.capacity(),
                Store::Tree(entries) => entries.len() * TREE_OVERHEAD,
            }
    }

    /// The number of nodes in a full walk, and the depth.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.0.shape
    }

    /// The bytes that a change may copy: 0 when this is the only holder, unless the change turns a buffer into a tree.
    pub fn copy_bytes(&self) -> usize {
        let shared = Arc::strong_count(&self.0) > 1;
        match &self.0.entries {
            // A large buffer is copied into a tree.
            Store::Flat(entries) if shared || entries.len() > FLAT_LEN_MAX => {
                entries.len() * size_of::<(Value, Value)>()
            }
            Store::Tree(_) if shared => TREE_PATH_BYTES,
            _ => 0,
        }
    }

    /// Stores `value` under exactly `key` and returns the previous value.
    pub fn insert(&mut self, key: Value, value: Value) -> Option<Value> {
        let data = self.change();
        let (key_shape, value_shape) = (key.shape(), value.shape());
        let old = match &mut data.entries {
            Store::Flat(entries) => match find(entries, &key) {
                Ok(at) => Some(std::mem::replace(&mut entries[at].1, value)),
                Err(at) => {
                    entries.insert(at, (key, value));
                    None
                }
            },
            Store::Tree(entries) => entries
                .insert(key, TreeValue::new(value))
                .map(TreeValue::into_value),
        };
        data.shape = match &old {
            Some(old) => data.shape.without(old.shape()).with(value_shape),
            None => data.shape.with(key_shape).with(value_shape),
        };
        old
    }

    /// Removes the entry of exactly `key`, and returns its value.
    pub fn remove(&mut self, key: &Value) -> Option<Value> {
        if !self.contains(key) {
            return None;
        }
        let data = self.change();
        let removed = match &mut data.entries {
            Store::Flat(entries) => find(entries, key).ok().map(|at| entries.remove(at)),
            Store::Tree(entries) => {
                let removed = entries.remove_with_key(key);
                if entries.len() <= TREE_LEN_MIN {
                    let left = entries
                        .iter()
                        .map(|(key, slot)| (key.clone(), Value::clone(slot)))
                        .collect();
                    data.entries = Store::Flat(left);
                }
                removed.map(|(key, slot)| (key, slot.into_value()))
            }
        };
        removed.map(|(key, value)| {
            data.shape = data.shape.without(key.shape()).without(value.shape());
            value
        })
    }

    /// Takes the value under `key` out for an update in place; the entry holds `nil` until it is stored again.
    pub fn take(&mut self, key: &Value) -> Option<Value> {
        if !self.contains(key) {
            return None;
        }
        let data = self.change();
        let slot = match &mut data.entries {
            Store::Flat(entries) => find(entries, key).ok().map(|at| &mut entries[at].1),
            Store::Tree(entries) => entries.get_mut(key).map(|slot| &mut **slot),
        }?;
        let value = std::mem::take(slot);
        data.shape = data.shape.without(value.shape()).with(Shape::LEAF);
        Some(value)
    }

    fn change(&mut self) -> &mut Data {
        if self.len() > FLAT_LEN_MAX
            && let Store::Flat(entries) = &self.0.entries
        {
            let tree = metered(entries.iter())
                .map(|(key, value)| (key.clone(), TreeValue::new(value.clone())))
                .collect();
            self.0 = Arc::new(Data {
                entries: Store::Tree(Box::new(tree)),
                shape: self.0.shape,
            });
        }
        Arc::make_mut(&mut self.0)
    }
}

/// The name with underscores in place of hyphens.
#[inline(never)]
fn with_underscores(name: &str) -> Text {
    const SLICE_BYTES: usize = 16 * 1024;
    let (mut under, mut rest) = (String::with_capacity(name.len()), name);
    while !rest.is_empty() {
        clock::may_continue(SLICE_BYTES / 4);
        let (slice, more) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES));
        under.push_str(&slice.replace('-', "_"));
        rest = more;
    }
    Text::from(under)
}

/// Replaces each key by the first key of the same name, when it occurs in two kinds. `items` are in the order of
/// writing.
pub fn unify_key_kinds<T>(items: &mut [T], key: fn(&mut T) -> &mut Value) {
    let (mut keywords, mut strings) = (false, false);
    for item in metered(items.iter_mut()) {
        match key(item) {
            Value::Keyword(_) => keywords = true,
            Value::Str(_) => strings = true,
            _ => {}
        }
    }
    if !(keywords && strings) {
        return;
    }
    let mut firsts = FreedInSlices::<BTreeMap<Value, bool>>::default();
    for item in items {
        let key = key(item);
        let Some(text) = key.key_text() else { continue };
        let keyword = matches!(key, Value::Keyword(_));
        let first = *firsts.entry(Value::Str(text.clone())).or_insert(keyword);
        if first != keyword {
            let text = text.clone();
            *key = if first {
                Value::Keyword(text)
            } else {
                Value::Str(text)
            };
        }
    }
}

/// The index of `key`, or the index to insert it at.
#[inline]
fn find(entries: &[(Value, Value)], key: &Value) -> Result<usize, usize> {
    if entries.len() <= SCAN_LEN_MAX {
        // Most maps are small records with text keys: a test for equality suffices to find a hit.
        if let Some(text) = key.key_text() {
            let keyword = matches!(key, Value::Keyword(_));
            for (at, (candidate, _)) in entries.iter().enumerate() {
                match candidate {
                    Value::Keyword(name) if keyword && name == text => return Ok(at),
                    Value::Str(name) if !keyword && name == text => return Ok(at),
                    _ => {}
                }
            }
        }
    }
    entries.binary_search_by(|(candidate, _)| key_cmp(candidate, key))
}

impl Drop for Data {
    fn drop(&mut self) {
        if self.shape.depth >= DROP_DEPTH_MAX {
            drop_iteratively(match std::mem::take(&mut self.entries) {
                Store::Flat(entries) => PendingDrop::Entries(entries),
                Store::Tree(entries) => PendingDrop::EntryTree(entries),
            });
        } else if let Store::Flat(entries) = &mut self.entries {
            free(entries);
        }
        charge_free();
    }
}

impl Default for Map {
    fn default() -> Self {
        Map::new()
    }
}

impl Map {
    /// A map of `entries`, which the caller guarantees to be in term order of distinct keys.
    pub(crate) fn of_sorted(mut entries: Vec<(Value, Value)>) -> Map {
        shrink_if_sparse(&mut entries);
        let mut shape = Shape::EMPTY;
        for (key, value) in metered(entries.iter()) {
            shape = shape.with(key.shape()).with(value.shape());
        }
        Map(Arc::new(Data {
            entries: Store::Flat(entries),
            shape,
        }))
    }
}

/// Metered steps per entry that is examined.
pub(crate) const ENTRY_STEPS: usize = 8;

impl From<Vec<(Value, Value)>> for Map {
    /// Of equal keys the last one wins.
    fn from(mut entries: Vec<(Value, Value)>) -> Self {
        let mut sorted = true;
        for pair in entries.windows(2) {
            // When a limit was reached, nobody sees the result.
            clock::may_continue(ENTRY_STEPS);
            if key_cmp(&pair[0].0, &pair[1].0) != Ordering::Less {
                sorted = false;
                break;
            }
        }
        if !sorted {
            sort_by(&mut entries, |(key, _)| key, key_cmp);
            // Of two equal neighbours the later one is kept: swap the values, drop the second.
            entries.dedup_by(|later, earlier| {
                clock::may_continue(ENTRY_STEPS);
                let same = key_cmp(&later.0, &earlier.0) == Ordering::Equal;
                if same {
                    std::mem::swap(&mut later.1, &mut earlier.1);
                }
                same
            });
        }
        Map::of_sorted(entries)
    }
}

impl FromIterator<(Value, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (Value, Value)>>(iter: T) -> Self {
        let entries = iter.into_iter();
        let bytes = entries
            .size_hint()
            .0
            .saturating_mul(size_of::<(Value, Value)>());
        if !heap::reserve_or_overdraw(bytes) {
            return Map::new();
        }
        Map::from(metered(entries).collect::<Vec<_>>())
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Value, &'a Value);
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

/// The entries of a map in term order of their keys.
pub enum Entries<'a> {
    /// From a single buffer.
    Flat(std::slice::Iter<'a, (Value, Value)>),
    /// From a tree.
    Tree(Box<imbl::ordmap::Iter<'a, Value, TreeValue, imbl::shared_ptr::DefaultSharedPtr>>),
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a Value, &'a Value);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Entries::Flat(entries) => entries.next().map(|(key, value)| (key, value)),
            Entries::Tree(entries) => entries.next().map(|(key, slot)| (key, &**slot)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Entries::Flat(entries) => entries.size_hint(),
            Entries::Tree(entries) => entries.size_hint(),
        }
    }
}

impl ExactSizeIterator for Entries<'_> {}
