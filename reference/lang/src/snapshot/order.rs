//! Checks that keys are in term order, at a cost that is bounded by the bytes of the snapshot: shared structure is
//! compared once, however often it is reached. Knows nothing of the encoding.

use std::cmp::Ordering;
use std::collections::HashSet;

use foldhash::fast::RandomState;

use crate::value::{Value, key_cmp};

/// The remaining budget for comparisons.
pub struct CompareBudget {
    steps: usize,
}

/// The budget is used up: no valid snapshot of this length needs so many comparisons.
pub struct BudgetSpent;

impl CompareBudget {
    /// The budget for a snapshot of `bytes` bytes.
    pub fn of(bytes: usize) -> CompareBudget {
        CompareBudget {
            steps: bytes.saturating_mul(64).saturating_add(1 << 16),
        }
    }

    /// Whether `a` comes before `b`.
    pub fn is_before(&mut self, a: &Value, b: &Value) -> Result<bool, BudgetSpent> {
        // The largest number of nodes that a comparison visits without sharing.
        let weight = a.shape().weight.min(b.shape().weight);
        if let Some(rest) = usize::try_from(weight)
            .ok()
            .and_then(|weight| self.steps.checked_sub(weight))
        {
            self.steps = rest;
            return Ok(key_cmp(a, b) == Ordering::Less);
        }
        Ok(self.compare(a, b)? == Ordering::Less)
    }

    /// [`key_cmp`], which visits no pair of collections twice: unless they were equal the first time, the comparison
    /// has ended.
    fn compare(&mut self, a: &Value, b: &Value) -> Result<Ordering, BudgetSpent> {
        let mut level: HashSet<(usize, usize), RandomState> = HashSet::default();
        let mut pending = vec![(a, b)];
        while let Some((a, b)) = pending.pop() {
            self.steps = self.steps.checked_sub(1).ok_or(BudgetSpent)?;
            let by_length = match (a, b) {
                (Value::Vector(left), Value::Vector(right)) => {
                    if left.ptr_eq(right) || !new_pair(&mut level, a, b) {
                        continue;
                    }
                    // The common items decide first, then the length.
                    let shared = left.len().min(right.len());
                    self.steps = self.steps.checked_sub(shared).ok_or(BudgetSpent)?;
                    if left.len() != right.len() {
                        // Different lengths decide when nothing before them does.
                        pending.push((length_stand_in(left.len() < right.len()), REFERENCE));
                    }
                    let at = pending.len();
                    pending.extend(left.iter().zip(right.iter()));
                    pending[at..].reverse();
                    continue;
                }
                (Value::Map(left), Value::Map(right)) => {
                    if left.ptr_eq(right) || !new_pair(&mut level, a, b) {
                        continue;
                    }
                    let by_length = left.len().cmp(&right.len());
                    if by_length == Ordering::Equal {
                        self.steps = self.steps.checked_sub(2 * left.len()).ok_or(BudgetSpent)?;
                        let at = pending.len();
                        pending.extend(left.keys().zip(right.keys()));
                        pending.extend(left.values().zip(right.values()));
                        pending[at..].reverse();
                    }
                    by_length
                }
                (Value::Set(left), Value::Set(right)) => {
                    if !new_pair(&mut level, a, b) {
                        continue;
                    }
                    let by_length = left.len().cmp(&right.len());
                    if by_length == Ordering::Equal {
                        self.steps = self.steps.checked_sub(left.len()).ok_or(BudgetSpent)?;
                        let at = pending.len();
                        pending.extend(left.iter().zip(right.iter()));
                        pending[at..].reverse();
                    }
                    by_length
                }
                // Values of different kinds, or without parts.
                _ => key_cmp(a, b),
            };
            if by_length != Ordering::Equal {
                return Ok(by_length);
            }
        }
        Ok(Ordering::Equal)
    }
}

static LOW: Value = Value::Int(0);
static HIGH: Value = Value::Int(2);
static MIDDLE: Value = Value::Int(1);
const REFERENCE: &Value = &MIDDLE;

/// A value that comes before [`REFERENCE`], or one that comes after it.
fn length_stand_in(left: bool) -> &'static Value {
    if left { &LOW } else { &HIGH }
}

fn new_pair(level: &mut HashSet<(usize, usize), RandomState>, a: &Value, b: &Value) -> bool {
    fn address(value: &Value) -> Option<usize> {
        match value {
            Value::Vector(items) => items.shared_address(),
            Value::Map(map) => map.shared_address(),
            Value::Set(set) => set.shared_address(),
            _ => None,
        }
    }
    match (address(a), address(b)) {
        // Values that are not shared are reached only once.
        (Some(a), Some(b)) => level.insert((a, b)),
        _ => true,
    }
}
