//! The bytes that values actually take, code and regexes included; shared parts count once. Iterative, with checks of
//! the clock: counting ends when a limit is reached. Knows nothing of limits.

use std::collections::HashSet;
use std::sync::Arc;

use super::shape::metered;
use super::{Map, Text, Value};
use crate::analyze::ir::Lambda;
use crate::clock;
use crate::function::{Closure, Combined};
use crate::regex::Regex;

/// The size of the reference counts of a shared allocation.
const SHARED_BYTES: usize = 16;
/// The size of the fields of a collection or a text besides its parts.
const HEAD_BYTES: usize = 40;

/// Metered steps per value that is counted.
const VISIT_STEPS: usize = 16;

/// The bytes that several values take together.
#[derive(Default)]
pub struct HeapSize<'v> {
    bytes: usize,
    /// The addresses of shared allocations that were counted.
    seen: HashSet<usize, foldhash::fast::FixedState>,
    pending: Vec<&'v Value>,
}

impl<'v> HeapSize<'v> {
    /// Counts `value` and everything that it holds.
    pub fn add(&mut self, value: &'v Value) {
        self.pending.push(value);
        while let Some(value) = self.pending.pop() {
            if !clock::may_continue(VISIT_STEPS) {
                self.pending.clear();
                break;
            }
            self.visit(value);
        }
    }

    /// Counts `bytes` that belong to no value.
    pub fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The sum of all counted bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn visit(&mut self, value: &'v Value) {
        match value {
            Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) | Value::Var(text) => {
                self.text(text);
            }
            Value::BigInt(int) => {
                let bytes = SHARED_BYTES + HEAD_BYTES + (int.bits() / 8) as usize;
                self.once(Arc::as_ptr(int).addr(), bytes);
            }
            Value::Vector(items) => {
                if self.collection(items.shared_address(), items.buffer_bytes()) {
                    self.pending.extend(metered(items.iter()));
                }
            }
            Value::Map(map) => self.map(map),
            Value::Set(set) => {
                if self.collection(set.shared_address(), set.buffer_bytes()) {
                    self.pending.extend(metered(set.iter()));
                }
            }
            Value::Fn(closure) => {
                let own = SHARED_BYTES
                    + size_of::<Closure>()
                    + closure.captures.len() * size_of::<Value>();
                if self.once(Arc::as_ptr(closure).addr(), own) {
                    self.pending.extend(&closure.captures);
                    self.code(&closure.lambda);
                }
            }
            Value::Combined(combined) => {
                let own = SHARED_BYTES
                    + size_of::<Combined>()
                    + combined.parts.len() * size_of::<Value>();
                if self.once(Arc::as_ptr(combined).addr(), own) {
                    self.pending.extend(&combined.parts);
                }
            }
            Value::Regex(regex) => self.regex(regex),
            Value::Nil
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Builtin(_)
            | Value::Date(_)
            | Value::Instant(_)
            | Value::Duration(_) => {}
        }
    }

    fn text(&mut self, text: &Text) {
        let bytes = SHARED_BYTES + HEAD_BYTES + text.len();
        match text.shared_address() {
            Some(address) => {
                self.once(address, bytes);
            }
            None => self.add_bytes(bytes),
        }
    }

    fn map(&mut self, map: &'v Map) {
        if self.collection(map.shared_address(), map.buffer_bytes()) {
            for (key, value) in metered(map.iter()) {
                self.pending.push(key);
                self.pending.push(value);
            }
        }
    }

    /// Counts the code of a function, with the text that it can be made from again.
    fn code(&mut self, lambda: &Arc<Lambda>) {
        if !self.once(Arc::as_ptr(lambda).addr(), lambda.code_bytes) {
            return;
        }
        let (source, _) = &lambda.source;
        self.once(Arc::as_ptr(source).addr(), HEAD_BYTES + source.text.len());
        for regex in &lambda.regexes {
            self.regex(regex);
        }
    }

    fn regex(&mut self, regex: &Arc<Regex>) {
        self.once(Arc::as_ptr(regex).addr(), regex.heap_bytes());
    }

    /// Counts a collection; returns true when its parts are still to be counted.
    fn collection(&mut self, address: Option<usize>, parts: usize) -> bool {
        let bytes = SHARED_BYTES + HEAD_BYTES + parts;
        match address {
            Some(address) => self.once(address, bytes),
            None => {
                self.add_bytes(bytes);
                true
            }
        }
    }

    /// Counts `bytes` for the allocation at `address` when it is first reached.
    fn once(&mut self, address: usize, bytes: usize) -> bool {
        let first = self.seen.insert(address);
        if first {
            self.add_bytes(bytes);
        }
        first
    }
}
