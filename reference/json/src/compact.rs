//! Compact canonical text of checked JSON.

use std::borrow::Cow;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::view::{Cursor, Skips, float_of};
use crate::write::{write_float, write_string};
use crate::{Json, JsonKind};

/// Where names begin in the output, hashed by name; names are not copied. Only one table grows at a time, and each stays so small
/// that growing takes less than a millisecond.
struct NameTable {
    hasher: RandomState,
    tables: Vec<HashTable<usize>>,
}

impl NameTable {
    /// Maximum names in the first table before there are more tables.
    const FIRST_MAX: usize = 4_096;
    const TABLES: usize = 64;

    fn new() -> NameTable {
        NameTable {
            hasher: RandomState::default(),
            tables: vec![HashTable::new()],
        }
    }

    /// True when the name at `out[start..]` occurs for the first time.
    fn insert(&mut self, out: &[u8], start: usize) -> bool {
        let NameTable { hasher, tables } = self;
        let hash = |&from: &usize| hasher.hash_one(name_at(out, from));
        // The table itself uses the highest and the lowest bits of the hash.
        let table_of = |hash: u64, tables: usize| (hash >> 32) as usize % tables;
        if let [only] = &mut tables[..]
            && only.len() >= Self::FIRST_MAX
        {
            let first = std::mem::take(only);
            tables.resize_with(Self::TABLES, HashTable::new);
            for start in first {
                let hashed = hash(&start);
                tables[table_of(hashed, Self::TABLES)].insert_unique(hashed, start, hash);
            }
        }
        let hashed = hash(&start);
        let at = table_of(hashed, tables.len());
        let name = name_at(out, start);
        if tables[at]
            .find(hashed, |&from| out[from..].starts_with(name))
            .is_some()
        {
            return false;
        }
        tables[at].insert_unique(hashed, start, hash);
        true
    }
}

/// The name that begins at `out[start]`, with its quotes.
fn name_at(out: &[u8], start: usize) -> &[u8] {
    let mut end = start + 1;
    loop {
        match out.get(end) {
            Some(b'\\') => end += 2,
            Some(b'"') => return &out[start..=end],
            Some(_) => end += 1,
            None => return &out[start..],
        }
    }
}

/// Bytes between two calls of `goes_on`.
const LOOK_BYTES: usize = 8 << 10;

/// The open containers of the compact output. The sender of the text chooses how many objects are open, so each takes few bytes.
#[derive(Default)]
struct OpenContainers {
    /// The closing brackets, with the highest bit set while the container is empty.
    brackets: Vec<u8>,
    /// Where names begin in the output: those of each open object behind those of the objects around it.
    names: Vec<usize>,
    /// For each open object, the index in `names` of its first.
    firsts: Vec<usize>,
    /// The names of objects that have many, with the number of open objects up to this one.
    tables: Vec<(usize, NameTable)>,
}

impl OpenContainers {
    const EMPTY: u8 = 0x80;
    /// Up to this number of names a linear search is faster than hashing.
    const FEW: usize = 12;

    fn push(&mut self, closing: u8) {
        self.brackets.push(closing | Self::EMPTY);
        if closing == b'}' {
            self.firsts.push(self.names.len());
        }
    }

    fn pop(&mut self) {
        if self.brackets.pop().map(|closing| closing & !Self::EMPTY) == Some(b'}') {
            let objects = self.firsts.len();
            self.tables.pop_if(|(object, _)| *object == objects);
            self.names.truncate(self.firsts.pop().unwrap_or_default());
        }
    }

    /// True when `out[start..]` is a name that occurs for the first time in the innermost object.
    fn insert(&mut self, out: &[u8], start: usize) -> bool {
        let objects = self.firsts.len();
        if let Some((object, table)) = self.tables.last_mut()
            && *object == objects
        {
            return table.insert(out, start);
        }
        let first = self.firsts.last().copied().unwrap_or_default();
        let (own, name) = (&self.names[first..], &out[start..]);
        // No text of a string begins with the whole text of another.
        if own.iter().any(|&from| out[from..].starts_with(name)) {
            return false;
        }
        if own.len() < Self::FEW {
            self.names.push(start);
            return true;
        }
        let mut table = NameTable::new();
        for &earlier in own.iter().chain([&start]) {
            table.insert(out, earlier);
        }
        self.names.truncate(first);
        self.tables.push((objects, table));
        true
    }

    /// From now on nothing is compared with the names so far.
    fn forget_names(&mut self) {
        (self.names, self.tables) = (Vec::new(), Vec::new());
        self.firsts.fill(0);
    }
}

/// Compact text, of which no more than a limit is kept.
pub(crate) struct CompactText {
    pub kept: Vec<u8>,
    bytes_max: usize,
    /// Bytes that were not kept.
    dropped: usize,
}

impl CompactText {
    /// Room for the compact form of `json`, of which `bytes_max` bytes are kept.
    pub(crate) fn of(json: Json<'_>, bytes_max: usize) -> CompactText {
        CompactText {
            kept: Vec::with_capacity(json.text().len().min(bytes_max)),
            bytes_max,
            dropped: 0,
        }
    }

    /// Bytes in all.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.len() + self.dropped
    }

    /// Drops what exceeds the limit. True when that happens for the first time.
    fn cut(&mut self) -> bool {
        let excess = self.kept.len().saturating_sub(self.bytes_max);
        let first = excess > 0 && self.dropped == 0;
        self.kept.truncate(self.bytes_max);
        self.dropped += excess;
        first
    }
}

/// Appends the compact text of `json` while `goes_on` allows it; `name` receives each name of the top-level object. Behind the limit of
/// `text`, repeated members count like others.
pub(crate) fn compact<E>(
    json: Json<'_>,
    text: &mut CompactText,
    skips: &mut Skips,
    mut name: impl FnMut(&str),
    mut goes_on: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let mut scanner = Cursor::new(json, 0);
    let mut open = OpenContainers::default();
    let mut looked = 0;
    loop {
        let out = &mut text.kept;
        match scanner.peek() {
            Some(bracket @ (b'{' | b'[')) => {
                scanner.at += 1;
                if text.dropped == 0 {
                    skips.open(open.brackets.len(), out.len());
                }
                out.push(bracket);
                open.push(bracket + 2);
            }
            _ => write_scalar(scanner.take_value(), out),
        }
        loop {
            if text.cut() {
                open.forget_names();
            }
            let out = &mut text.kept;
            let Some(&top) = open.brackets.last() else {
                return Ok(());
            };
            if scanner.at - looked >= LOOK_BYTES {
                goes_on()?;
                looked = scanner.at;
            }
            let (closing, empty) = (
                top & !OpenContainers::EMPTY,
                top & OpenContainers::EMPTY != 0,
            );
            scanner.skip_space();
            if scanner.peek() == Some(b',') {
                scanner.at += 1;
                scanner.skip_space();
            }
            if scanner.peek().is_none_or(|byte| byte == closing) {
                scanner.at += 1;
                out.push(closing);
                open.pop();
                if text.dropped == 0 {
                    skips.close(open.brackets.len(), out.len());
                }
                continue;
            }
            let before = out.len();
            if !empty {
                out.push(b',');
            }
            if closing == b'}' {
                let start = out.len();
                let quoted = scanner.take_value();
                if open.brackets.len() == 1 {
                    name(&quoted.as_str().unwrap_or_default());
                }
                write_scalar(quoted, out);
                scanner.skip_space();
                scanner.at += 1;
                scanner.skip_space();
                if text.dropped == 0 && !open.insert(out, start) {
                    out.truncate(before);
                    scanner.take_value();
                    continue;
                }
                out.push(b':');
            }
            if let Some(top) = open.brackets.last_mut() {
                *top = closing;
            }
            break;
        }
    }
}

fn write_scalar(value: Json<'_>, out: &mut Vec<u8>) {
    match value.kind() {
        JsonKind::String => match value.as_str() {
            Some(Cow::Owned(content)) => write_string(out, &content),
            _ => out.extend_from_slice(value.text().as_bytes()),
        },
        JsonKind::Float => write_float(out, float_of(value.text())),
        _ if value.text() == "-0" => out.push(b'0'),
        _ => out.extend_from_slice(value.text().as_bytes()),
    }
}
