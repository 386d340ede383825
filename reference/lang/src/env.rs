//! The state that outlives a program: definitions, the last results, the journal, and the context that it was
//! given. Knows nothing of sessions' rules.

use std::collections::{BTreeSet, HashMap, hash_map::Entry};
use std::sync::Arc;

use crate::value::{Held, Map, Text, Type, Value};

/// Bytes that a name takes beside its text.
const NAME_BYTES: usize = 64;

/// The surroundings of a program. Opaque to hosts, cheap to clone.
#[derive(Clone, Default)]
pub struct Env {
    pub(crate) context: Map,
    pub(crate) names: Arc<Names>,
    /// By position of the name; none where it was never defined or was forgotten.
    pub(crate) globals: Arc<Vec<Option<Definition>>>,
    /// `*1`, `*2`, `*3`
    pub(crate) history: [Value; 3],
    /// Results of `task` by id, where it looks its result up and keeps it.
    pub(crate) journal: Option<Map>,
    /// Summaries of `step-done` by id, once there is one.
    pub(crate) steps: Option<Map>,
    /// Whether it is kept what defined functions last gave.
    pub(crate) notes_results: bool,
    /// The turn that programs are; 0 where turns are not counted.
    pub(crate) turn: u64,
}

#[derive(Clone)]
pub(crate) struct Definition {
    pub value: Value,
    pub doc: Option<Text>,
    /// What the last call by its name gave.
    pub gave: Option<Brief>,
}

/// What a value is, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief {
    /// Its type.
    pub kind: Type,
    /// Its items or entries, when it is a collection.
    pub count: usize,
}

impl Brief {
    /// Of `value`.
    pub fn of(value: &Value) -> Brief {
        let count = match value {
            Value::Vector(items) => items.len(),
            Value::Map(map) => map.len(),
            Value::Set(set) => set.len(),
            _ => 0,
        };
        Brief {
            kind: value.kind(),
            count,
        }
    }
}

impl Env {
    /// Empty surroundings.
    pub fn new() -> Env {
        Env::default()
    }

    /// These surroundings with the context that `data/NAME` reads.
    pub fn with_context(mut self, context: Map) -> Env {
        self.context = context;
        self
    }

    /// The context that `data/NAME` reads.
    pub fn context(&self) -> &Map {
        &self.context
    }

    /// These surroundings with a journal: `task` finds what is in it, and keeps what it evaluates.
    pub fn with_journal(mut self, journal: Map) -> Env {
        self.journal = Some(journal);
        self
    }

    /// These surroundings, which keep what the functions defined in them last gave.
    pub fn noting_results(mut self) -> Env {
        self.notes_results = true;
        self
    }

    /// These surroundings, whose next program is turn `turn`, from 1: an error in a function that it defines names the turn
    /// later.
    pub fn in_turn(mut self, turn: u64) -> Env {
        self.turn = turn;
        self
    }

    /// What the last call of the function defined as `name`, by that name, gave. Only surroundings that note results know.
    pub fn last_result(&self, name: &str) -> Option<Brief> {
        let id = self.names.get(name)?;
        self.globals.get(id as usize)?.as_ref()?.gave
    }

    /// Puts what calls gave with the definitions, by position.
    pub(crate) fn note_results(&mut self, gave: &[Option<Brief>]) {
        let noted = |(at, gave): (usize, &Option<Brief>)| Some((at, (*gave)?));
        for (at, gave) in gave.iter().enumerate().filter_map(noted) {
            let globals = Arc::make_mut(&mut self.globals);
            if let Some(Some(definition)) = globals.get_mut(at) {
                definition.gave = Some(gave);
            }
        }
    }

    /// The definitions in order of their names, each with its docstring.
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

    /// The value that `name` is defined as.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let id = self.names.get(name)?;
        self.globals
            .get(id as usize)?
            .as_ref()
            .map(|definition| &definition.value)
    }

    /// Defines `name`.
    pub fn define(&mut self, name: &str, value: Value) {
        let id = Arc::make_mut(&mut self.names).intern(name) as usize;
        let globals = Arc::make_mut(&mut self.globals);
        if globals.len() <= id {
            globals.resize(id + 1, None);
        }
        globals[id] = Some(Definition {
            value,
            doc: None,
            gave: None,
        });
    }

    /// `before`, which a program made these surroundings of, with what it left alone held as it is here: after a journey
    /// functions are others than those that set out. `changed` names what it did not leave alone.
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

    /// Removes the definition of `name`; false when there is none.
    pub fn forget(&mut self, name: &str) -> bool {
        let Some(id) = self.names.get(name) else {
            return false;
        };
        let globals = Arc::make_mut(&mut self.globals);
        globals
            .get_mut(id as usize)
            .is_some_and(|definition| definition.take().is_some())
    }

    /// The last three results, the latest first.
    pub fn history(&self) -> &[Value; 3] {
        &self.history
    }

    /// Makes `value` the latest result.
    pub fn remember(&mut self, value: Value) {
        self.history.rotate_right(1);
        self.history[0] = value;
    }

    /// Forgets the last results.
    pub fn clear_history(&mut self) {
        self.history = Default::default();
    }

    /// Bytes that definitions, results and names really hold; what is shared counts once.
    pub fn held_bytes(&self) -> u64 {
        let mut held = Held::default();
        for definition in self.globals.iter().flatten() {
            held.add(&definition.value);
        }
        for value in &self.history {
            held.add(value);
        }
        for (key, value) in [&self.journal, &self.steps].into_iter().flatten().flatten() {
            held.add(key);
            held.add(value);
        }
        held.add_bytes(self.globals.len() * size_of::<Option<Definition>>());
        // A name that was forgotten keeps its place.
        held.add_bytes(self.names.all().map(|name| NAME_BYTES + name.len()).sum());
        held.bytes()
    }

    /// Results of `task` by id; none when no journal is kept.
    pub fn journal(&self) -> Option<&Map> {
        self.journal.as_ref()
    }

    /// Summaries of `step-done` by id.
    pub fn steps(&self) -> Map {
        self.steps.clone().unwrap_or_default()
    }
}

/// Names of globals and their positions. A position never changes, so that code compiled earlier
/// stays right.
#[derive(Clone, Default)]
pub(crate) struct Names {
    positions: HashMap<Arc<str>, u32, foldhash::fast::RandomState>,
    names: Vec<Arc<str>>,
    /// Those that a `def` inside of another expression defines: they may change while that one is evaluated.
    shifting: BTreeSet<u32>,
}

impl Names {
    pub fn note_shifting(&mut self, id: u32) {
        self.shifting.insert(id);
    }

    pub fn is_shifting(&self, id: u32) -> bool {
        self.shifting.contains(&id)
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

    /// No names, and room for `count`.
    pub fn with_room(count: usize) -> Names {
        Names {
            positions: HashMap::with_capacity_and_hasher(count, Default::default()),
            names: Vec::with_capacity(count),
            shifting: BTreeSet::new(),
        }
    }

    /// Adds `name`; false when it is there already.
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

    /// How many there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The name at a position, as it is held.
    pub fn shared(&self, id: u32) -> Arc<str> {
        Arc::clone(&self.names[id as usize])
    }

    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}
