//! Compact canonical text of checked JSON.

use std::borrow::Cow;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::view::{Cursor, Skips, float_of};
use crate::write::{write_float, write_string};
use crate::{Json, JsonKind};

/// Names already written in one object of compact output. Small when there is at most one name, because the sender of the text chooses
/// how many objects are nested.
#[derive(Default)]
enum SeenNames {
    #[default]
    None,
    One(usize, usize),
    Few(Vec<(usize, usize)>),
    Many(Box<NameTable>),
}

/// Positions of names in the output, hashed by name; names are not copied. Only one table grows at a time, and each stays so small
/// that growing takes less than a millisecond.
struct NameTable {
    hasher: RandomState,
    tables: Vec<HashTable<(usize, usize)>>,
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

    /// True when `out[place]` is a name that occurs for the first time.
    fn insert(&mut self, out: &[u8], place: (usize, usize)) -> bool {
        let NameTable { hasher, tables } = self;
        let hash = |&(from, to): &(usize, usize)| hasher.hash_one(&out[from..to]);
        // The table itself uses the highest and the lowest bits of the hash.
        let table_of = |hash: u64, tables: usize| (hash >> 32) as usize % tables;
        if let [only] = &mut tables[..]
            && only.len() >= Self::FIRST_MAX
        {
            let first = std::mem::take(only);
            tables.resize_with(Self::TABLES, HashTable::new);
            for place in first {
                let hashed = hash(&place);
                tables[table_of(hashed, Self::TABLES)].insert_unique(hashed, place, hash);
            }
        }
        let hashed = hash(&place);
        let at = table_of(hashed, tables.len());
        let same = |&(from, to): &(usize, usize)| out[from..to] == out[place.0..place.1];
        if tables[at].find(hashed, same).is_some() {
            return false;
        }
        tables[at].insert_unique(hashed, place, hash);
        true
    }
}

impl SeenNames {
    /// Up to this number of names a linear search is faster than hashing.
    const FEW: usize = 12;

    /// True when `out[start..]` is a name that occurs for the first time.
    fn insert(&mut self, out: &[u8], start: usize) -> bool {
        let name = &out[start..];
        let place = (start, out.len());
        match self {
            SeenNames::None => *self = SeenNames::One(start, out.len()),
            SeenNames::One(from, to) if out[*from..*to] == *name => return false,
            SeenNames::One(from, to) => *self = SeenNames::Few(vec![(*from, *to), place]),
            SeenNames::Few(few) if few.iter().any(|&(from, to)| out[from..to] == *name) => {
                return false;
            }
            SeenNames::Few(few) if few.len() < Self::FEW => few.push(place),
            SeenNames::Few(few) => {
                let mut many = NameTable::new();
                for &earlier in few.iter().chain([&place]) {
                    many.insert(out, earlier);
                }
                *self = SeenNames::Many(Box::new(many));
            }
            SeenNames::Many(many) => return many.insert(out, place),
        }
        true
    }
}

/// Bytes between two calls of `goes_on`.
const LOOK_BYTES: usize = 8 << 10;

/// The open containers of the compact output: a byte for each, and the names of those that are objects.
#[derive(Default)]
struct OpenContainers {
    /// The closing bracket, with the highest bit set while the container is empty.
    brackets: Vec<u8>,
    names: Vec<SeenNames>,
}

impl OpenContainers {
    const EMPTY: u8 = 0x80;

    fn push(&mut self, closing: u8) {
        self.brackets.push(closing | Self::EMPTY);
        if closing == b'}' {
            self.names.push(SeenNames::default());
        }
    }

    fn pop(&mut self) {
        if self.brackets.pop().map(|closing| closing & !Self::EMPTY) == Some(b'}') {
            self.names.pop();
        }
    }
}

/// Appends the compact text of `json` while `goes_on` allows it; `name` receives each name of the top-level object.
pub(crate) fn compact<E>(
    json: Json<'_>,
    out: &mut Vec<u8>,
    skips: &mut Skips,
    mut name: impl FnMut(&str),
    mut goes_on: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let mut scanner = Cursor::new(json, 0);
    let mut open = OpenContainers::default();
    let mut looked = 0;
    loop {
        match scanner.peek() {
            Some(bracket @ (b'{' | b'[')) => {
                scanner.at += 1;
                skips.open(open.brackets.len(), out.len());
                out.push(bracket);
                open.push(bracket + 2);
            }
            _ => write_scalar(scanner.take_value(), out),
        }
        loop {
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
                skips.close(open.brackets.len(), out.len());
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
                let known = open
                    .names
                    .last_mut()
                    .is_some_and(|seen| !seen.insert(out, start));
                if known {
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
