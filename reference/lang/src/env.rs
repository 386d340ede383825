//! The state that outlives a program: definitions, the last results, the journal, and the context that the program was
//! given. Knows nothing of the rules of sessions.

use std::collections::{BTreeSet, HashMap, hash_map::Entry};
use std::sync::Arc;

use crate::value::{HeapSize, Map, Text, Type, Value};

/// Bytes that a name takes besides its text.
const NAME_BYTES: usize = 64;

/// The environment of a program. Opaque to hosts, cheap to clone.
#[derive(Clone, Default)]
pub struct Env {
    pub(crate) context: Map,
    pub(crate) names: Arc<Names>,
    /// Definitions by the index of their name; `None` for a name that was never defined or was forgotten.
    pub(crate) globals: Arc<Vec<Option<Definition>>>,
    /// `*1`, `*2`, `*3`
    pub(crate) history: [Value; 3],
    /// Results of `task` by id; `task` looks its result up here and stores it.
    pub(crate) journal: Option<Map>,
    /// Summaries of `step-done` by id; `None` until the first.
    pub(crate) steps: Option<Map>,
    /// Whether the last results of defined functions are recorded.
    pub(crate) records_results: bool,
    /// The turn of the next program; 0 where turns are not counted.
    pub(crate) turn: u64,
}

#[derive(Clone)]
pub(crate) struct Definition {
    pub value: Value,
    pub doc: Option<Text>,
    /// A summary of the result of the last call by this name.
    pub last_result: Option<ValueSummary>,
}

/// A short description of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSummary {
    /// The kind of the value.
    pub kind: Type,
    /// The number of items or entries of a collection; 0 for any other value.
    pub count: usize,
}

impl ValueSummary {
    /// Describes `value`.
    pub fn of(value: &Value) -> ValueSummary {
        let count = match value {
            Value::Vector(items) => items.len(),
            Value::Map(map) => map.len(),
            Value::Set(set) => set.len(),
            _ => 0,
        };
        ValueSummary {
            kind: value.kind(),
            count,
        }
    }
}

impl Env {
    /// An empty environment.
    pub fn new() -> Env {
        Env::default()
    }

    /// This environment with the context that `data/NAME` reads.
    pub fn with_context(mut self, context: Map) -> Env {
        self.context = context;
        self
    }

    /// The context that `data/NAME` reads.
    pub fn context(&self) -> &Map {
        &self.context
    }

    /// This environment with a journal: `task` looks up results in it, and stores new ones.
    pub fn with_journal(mut self, journal: Map) -> Env {
        self.journal = Some(journal);
        self
    }

    /// This environment, which from now on records the last results of the functions defined in it.
    pub fn recording_results(mut self) -> Env {
        self.records_results = true;
        self
    }

    /// This environment, whose next program is turn `turn`, from 1. Errors in functions that the program defines name
    /// this turn later.
    pub fn in_turn(mut self, turn: u64) -> Env {
        self.turn = turn;
        self
    }

    /// A summary of the result of the last call of the function `name` by that name. `None` unless the environment
    /// records results.
    pub fn last_result(&self, name: &str) -> Option<ValueSummary> {
        let id = self.names.get(name)?;
        self.globals.get(id as usize)?.as_ref()?.last_result
    }

    /// Stores summaries of call results with the definitions, by index.
    pub(crate) fn record_results(&mut self, results: &[Option<ValueSummary>]) {
        let recorded =
            |(at, last_result): (usize, &Option<ValueSummary>)| Some((at, (*last_result)?));
        for (at, last_result) in results.iter().enumerate().filter_map(recorded) {
            let globals = Arc::make_mut(&mut self.globals);
            if let Some(Some(definition)) = globals.get_mut(at) {
                definition.last_result = Some(last_result);
            }
        }
    }

    /// The definitions sorted by name, each with its docstring.
    pub fn definitions(&self) -> Vec<(&str, &Value, Option<&str>)> {
        let mut all: Vec<_> = self
            .names
            .names
            .iter()
            .zip(self.globals.iter())
            .filter_map(|(name, definition)| {
                let definition = definition.as_ref()?;
                Some((&**name, &definition.value, definition.doc.as_deref()))
            })
            .collect();
        all.sort_by_key(|(name, ..)| *name);
        all
    }

    /// The value of the definition of `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let id = self.names.get(name)?;
        self.globals
            .get(id as usize)?
            .as_ref()
            .map(|definition| &definition.value)
    }

    /// Defines `name` as `value`, without a docstring.
    pub fn define(&mut self, name: &str, value: Value) {
        let id = Arc::make_mut(&mut self.names).intern(name) as usize;
        let globals = Arc::make_mut(&mut self.globals);
        if globals.len() <= id {
            globals.resize(id + 1, None);
        }
        globals[id] = Some(Definition {
            value,
            doc: None,
            last_result: None,
        });
    }

    /// The environment `before`, which a program turned into this one, but with all unchanged definitions taken from
    /// this one: a function that went through a snapshot is no longer the same function. `changed` names the
    /// definitions that the program changed.
    pub fn with_unchanged(&self, before: &Env, changed: &[String]) -> Env {
        let mut seen = self.clone();
        for name in changed {
            match before.get(name) {
                Some(value) => seen.define(name, value.clone()),
                None => {
                    seen.forget(name);
                }
            }
        }
        seen
    }

    /// Removes the definition of `name`; returns false when there is none.
    pub fn forget(&mut self, name: &str) -> bool {
        let Some(id) = self.names.get(name) else {
            return false;
        };
        let globals = Arc::make_mut(&mut self.globals);
        globals
            .get_mut(id as usize)
            .is_some_and(|definition| definition.take().is_some())
    }

    /// The last three results, latest first.
    pub fn history(&self) -> &[Value; 3] {
        &self.history
    }

    /// Adds `value` to the history as the latest result.
    pub fn remember(&mut self, value: Value) {
        self.history.rotate_right(1);
        self.history[0] = value;
    }

    /// Clears the history.
    pub fn clear_history(&mut self) {
        self.history = Default::default();
    }

    /// Bytes of memory that definitions, results and names actually take; shared parts count once.
    pub fn held_bytes(&self) -> u64 {
        let mut size = HeapSize::default();
        for definition in self.globals.iter().flatten() {
            size.add(&definition.value);
        }
        for value in &self.history {
            size.add(value);
        }
        for (key, value) in [&self.journal, &self.steps].into_iter().flatten().flatten() {
            size.add(key);
            size.add(value);
        }
        size.add_bytes(self.globals.len() * size_of::<Option<Definition>>());
        // A forgotten name keeps its index.
        size.add_bytes(self.names.all().map(|name| NAME_BYTES + name.len()).sum());
        size.bytes()
    }

    /// Results of `task` by id; `None` when no journal is kept.
    pub fn journal(&self) -> Option<&Map> {
        self.journal.as_ref()
    }

    /// Summaries of `step-done` by id.
    pub fn steps(&self) -> Map {
        self.steps.clone().unwrap_or_default()
    }
}

/// Names of globals and their indices. An index never changes, so that code compiled earlier stays valid.
#[derive(Clone, Default)]
pub(crate) struct Names {
    positions: HashMap<Arc<str>, u32, foldhash::fast::RandomState>,
    names: Vec<Arc<str>>,
    /// Globals that a `def` inside another expression defines: they may change while that expression is evaluated.
    redefinable: BTreeSet<u32>,
}

impl Names {
    pub fn note_redefinable(&mut self, id: u32) {
        self.redefinable.insert(id);
    }

    pub fn is_redefinable(&self, id: u32) -> bool {
        self.redefinable.contains(&id)
    }

    pub fn get(&self, name: &str) -> Option<u32> {
        if self.names.is_empty() {
            return None;
        }
        self.positions.get(name).copied()
    }

    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(id) = self.get(name) {
            return id;
        }
        let id = self.names.len() as u32;
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.positions.insert(name, id);
        id
    }

    /// No names, with capacity for `count`.
    pub fn with_capacity(count: usize) -> Names {
        Names {
            positions: HashMap::with_capacity_and_hasher(count, Default::default()),
            names: Vec::with_capacity(count),
            redefinable: BTreeSet::new(),
        }
    }

    /// Adds `name`; returns false when it is already there.
    pub fn add(&mut self, name: &str) -> bool {
        let name: Arc<str> = name.into();
        match self.positions.entry(Arc::clone(&name)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(self.names.len() as u32);
                self.names.push(name);
                true
            }
        }
    }

    /// The number of names.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The name with the index `id`.
    pub fn shared(&self, id: u32) -> Arc<str> {
        Arc::clone(&self.names[id as usize])
    }

    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}
