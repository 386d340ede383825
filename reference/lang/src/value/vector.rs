//! Vectors: one flat buffer, or a tree after a large shared vector is changed. Knows nothing of meters.

use std::sync::Arc;

use super::Value;
use super::shape::{
    DROP_DEPTH_MAX, PendingDrop, Shape, TREE_OVERHEAD, TREE_PATH_BYTES, TreeValue, charge_free,
    drop_iteratively, free, metered, shrink_if_sparse,
};

/// Above this length a change to a shared vector makes a tree that shares structure.
const FLAT_LEN_MAX: usize = 64;
/// A tree of at most this length is turned back into a buffer: even for one item a tree node has its full size.
const TREE_LEN_MIN: usize = FLAT_LEN_MAX / 2;

/// A vector of values.
#[derive(Clone)]
pub struct Vector(Arc<Data>);

#[derive(Clone)]
struct Data {
    items: Store,
    shape: Shape,
}

#[derive(Clone)]
enum Store {
    Flat(Vec<Value>),
    Tree(Box<imbl::Vector<TreeValue>>),
}

impl Default for Store {
    fn default() -> Store {
        Store::Flat(Vec::new())
    }
}

allocation!(Vector);

impl Vector {
    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0.items {
            Store::Flat(items) => items.len(),
            Store::Tree(items) => items.len(),
        }
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Value> {
        match &self.0.items {
            Store::Flat(items) => items.get(index),
            Store::Tree(items) => items.get(index).map(|slot| &**slot),
        }
    }

    /// The items in order.
    pub fn iter(&self) -> Items<'_> {
        match &self.0.items {
            Store::Flat(items) => Items::Flat(items.iter()),
            Store::Tree(items) => Items::Tree(Box::new(items.iter())),
        }
    }

    /// Whether [`Vector::into_vec`] would copy nothing.
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && matches!(self.0.items, Store::Flat(_))
    }

    /// The items as an owned buffer; moved out when nobody else holds this vector.
    pub fn into_vec(mut self) -> Vec<Value> {
        if let Some(data) = Arc::get_mut(&mut self.0)
            && let Store::Flat(items) = &mut data.items
        {
            data.shape = Shape::EMPTY;
            return std::mem::take(items);
        }
        metered(self.iter()).cloned().collect()
    }

    /// The bytes of its buffer, or the most that its tree can take.
    pub(crate) fn buffer_bytes(&self) -> usize {
        size_of::<Value>()
            * match &self.0.items {
                Store::Flat(items) => items.capacity(),
                Store::Tree(items) => items.len() * TREE_OVERHEAD,
            }
    }

    /// The number of nodes in a full walk, and the depth.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.0.shape
    }

    /// The bytes that a change may copy: 0 when this is the only holder.
    pub fn copy_bytes(&self) -> usize {
        if Arc::strong_count(&self.0) == 1 {
            return 0;
        }
        match &self.0.items {
            Store::Flat(items) => items.len() * size_of::<Value>(),
            Store::Tree(_) => TREE_PATH_BYTES,
        }
    }

    /// Appends `item`.
    pub fn push(&mut self, item: Value) {
        let data = self.change();
        data.shape = data.shape.with(item.shape());
        match &mut data.items {
            Store::Flat(items) => items.push(item),
            Store::Tree(items) => items.push_back(TreeValue::new(item)),
        }
    }

    /// Removes and returns the last item.
    pub fn pop(&mut self) -> Option<Value> {
        if self.is_empty() {
            return None;
        }
        let data = self.change();
        let item = match &mut data.items {
            Store::Flat(items) => {
                let item = items.pop();
                shrink_if_sparse(items);
                item
            }
            Store::Tree(items) => {
                let item = items.pop_back().map(TreeValue::into_value);
                if items.len() <= TREE_LEN_MIN {
                    let left = items.iter().map(|slot| Value::clone(slot)).collect();
                    data.items = Store::Flat(left);
                }
                item
            }
        };
        if let Some(item) = &item {
            data.shape = data.shape.without(item.shape());
        }
        item
    }

    /// Replaces the item at `index` and returns the old one; does nothing when there is none.
    pub fn set(&mut self, index: usize, item: Value) -> Option<Value> {
        if index >= self.len() {
            return None;
        }
        let data = self.change();
        let slot = match &mut data.items {
            Store::Flat(items) => items.get_mut(index)?,
            Store::Tree(items) => &mut **items.get_mut(index)?,
        };
        let shape = item.shape();
        let old = std::mem::replace(slot, item);
        data.shape = data.shape.without(old.shape()).with(shape);
        Some(old)
    }

    /// Takes the item at `index` out for an update in place; `nil` is in its place until [`Vector::set`].
    pub fn take(&mut self, index: usize) -> Option<Value> {
        self.set(index, Value::Nil)
    }

    fn change(&mut self) -> &mut Data {
        if self.len() > FLAT_LEN_MAX
            && Arc::get_mut(&mut self.0).is_none()
            && let Store::Flat(items) = &self.0.items
        {
            let slots = metered(items.iter()).map(|item| TreeValue::new(item.clone()));
            let tree = Store::Tree(Box::new(slots.collect()));
            self.0 = Arc::new(Data {
                items: tree,
                shape: self.0.shape,
            });
        }
        Arc::make_mut(&mut self.0)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if self.shape.depth >= DROP_DEPTH_MAX {
            drop_iteratively(match std::mem::take(&mut self.items) {
                Store::Flat(items) => PendingDrop::Values(items),
                Store::Tree(items) => PendingDrop::ValueTree(items),
            });
        } else if let Store::Flat(items) = &mut self.items {
            free(items);
        }
        charge_free();
    }
}

impl From<Vec<Value>> for Vector {
    fn from(mut items: Vec<Value>) -> Self {
        shrink_if_sparse(&mut items);
        let shape = Shape::of(items.iter());
        Vector(Arc::new(Data {
            items: Store::Flat(items),
            shape,
        }))
    }
}

impl FromIterator<Value> for Vector {
    fn from_iter<T: IntoIterator<Item = Value>>(iter: T) -> Self {
        Vector::from(metered(iter.into_iter()).collect::<Vec<_>>())
    }
}

impl Default for Vector {
    fn default() -> Self {
        Vector::from(Vec::new())
    }
}

impl<'a> IntoIterator for &'a Vector {
    type Item = &'a Value;
    type IntoIter = Items<'a>;

    fn into_iter(self) -> Items<'a> {
        self.iter()
    }
}

/// The items of a vector in order.
pub enum Items<'a> {
    /// From a single buffer.
    Flat(std::slice::Iter<'a, Value>),
    /// From a tree.
    Tree(Box<TreeItems<'a>>),
}

type TreeItems<'a> = imbl::vector::Iter<'a, TreeValue, imbl::shared_ptr::DefaultSharedPtr>;

/// Separate, so that iteration over a buffer is small enough to be inlined into loops.
#[inline(never)]
fn next_of_tree<'a>(items: &mut TreeItems<'a>) -> Option<&'a Value> {
    items.next().map(|slot| &**slot)
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a Value;

    #[inline]
    fn next(&mut self) -> Option<&'a Value> {
        match self {
            Items::Flat(items) => items.next(),
            Items::Tree(items) => next_of_tree(items),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Items::Flat(items) => items.size_hint(),
            Items::Tree(items) => items.size_hint(),
        }
    }
}

impl DoubleEndedIterator for Items<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Items::Flat(items) => items.next_back(),
            Items::Tree(items) => items.next_back().map(|slot| &**slot),
        }
    }
}

impl ExactSizeIterator for Items<'_> {}

impl<'a> From<std::slice::Iter<'a, Value>> for Items<'a> {
    fn from(items: std::slice::Iter<'a, Value>) -> Self {
        Items::Flat(items)
    }
}
