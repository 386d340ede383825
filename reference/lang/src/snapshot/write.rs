//! Writes snapshots: one non-recursive walk, in which each distinct value is written once.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use minicbor::Encoder;
use minicbor::data::Tag;
use num_bigint::{BigInt, Sign};

use super::{Error, FUEL, NAME, SLICE_BYTES, VERSION, checksum, steps, tag};
use crate::analyze::ir::{SourcePosition, SourceText};
use crate::env::{Definition, Env};
use crate::host::{Host, Pulse};
use crate::value::{Entries, Items, Members, Text, Value};

type Out = Encoder<Vec<u8>>;

/// The size of the encoded checksum: one byte for its type, and four.
const CHECKSUM_BYTES_MAX: usize = 5;

/// Writes a session, together with values that may share structure with it.
///
/// # Errors
/// [`Error::TooLarge`] for more than `bytes_max` bytes, and [`Error::Stopped`] when the host's pulse ends the work.
pub fn write(
    env: &Env,
    values: &[&Value],
    bytes_max: usize,
    host: &dyn Host,
) -> Result<Vec<u8>, Error> {
    // A definition takes at least one node, and usually one more.
    let mut nodes = NodeWriter::new(2 * env.globals.len(), bytes_max, host);
    let mut rest = Encoder::new(Vec::new());
    session(env, &mut nodes, &mut rest)?;
    array(&mut rest, values.len());
    for value in values {
        part(value, &mut nodes, &mut rest)?;
    }
    // The look-up tables are freed before the whole is assembled.
    let (out, starts, mut compared) = nodes.into_parts();
    compared.sort_unstable();
    let mut front = Encoder::new(Vec::new());
    array(&mut front, 5);
    array(&mut front, env.names.count());
    for name in env.names.all() {
        if front.writer().len() + name.len() > bytes_max {
            return Err(Error::TooLarge { bytes_max });
        }
        infallible(front.str(name));
    }
    array(&mut front, compared.len());
    for (_, node) in compared {
        infallible(front.u32(node));
    }
    array(&mut front, starts.len());
    let (front, nodes, rest) = (front.into_writer(), out.into_writer(), rest.into_writer());
    if front.len() + nodes.len() + rest.len() > bytes_max {
        return Err(Error::TooLarge { bytes_max });
    }
    seal(&front, nodes, &rest, &mut || check_limits(host))
}

/// Checks whether the host ends the work.
fn check_limits(host: &dyn Host) -> Result<(), Error> {
    match host.pulse() {
        Pulse::Continue => Ok(()),
        stopped => Err(Error::Stopped(stopped)),
    }
}

/// Wraps a body, given in three pieces, in its envelope; `check_limits` is called regularly and may end the work. The
/// second piece, which can be as large as the value itself, stays in its allocation: there may be no room for it twice.
pub fn seal(
    front: &[u8],
    mut nodes: Vec<u8>,
    rest: &[u8],
    check_limits: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let length = front.len() + nodes.len() + rest.len();
    let mut head = Encoder::new(Vec::with_capacity(front.len() + 40));
    infallible(head.tag(Tag::new(tag::CBOR)));
    array(&mut head, 4);
    infallible(head.str(NAME));
    infallible(head.u32(VERSION));
    infallible(head.bytes_len(length as u64));
    head.writer_mut().extend_from_slice(front);
    nodes.reserve_exact(head.writer().len() + rest.len() + CHECKSUM_BYTES_MAX);
    let mut whole = prepend(nodes, head.writer(), check_limits)?;
    for piece in rest.chunks(SLICE_BYTES) {
        check_limits()?;
        whole.extend_from_slice(piece);
    }
    let checksum = checksum(&whole, check_limits)?;
    let mut whole = Encoder::new(whole);
    infallible(whole.u32(checksum));
    Ok(whole.into_writer())
}

/// Prepends `head` to `bytes` in the same allocation.
fn prepend(
    mut bytes: Vec<u8>,
    head: &[u8],
    check_limits: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Vec<u8>, Error> {
    let mut end = bytes.len();
    bytes.resize(end + head.len(), 0);
    // From the end, so that nothing is overwritten before it is moved.
    while end > 0 {
        check_limits()?;
        let start = end.saturating_sub(SLICE_BYTES);
        bytes.copy_within(start..end, start + head.len());
        end = start;
    }
    bytes[..head.len()].copy_from_slice(head);
    Ok(bytes)
}

fn session(env: &Env, nodes: &mut NodeWriter<'_>, rest: &mut Out) -> Result<(), Error> {
    array(rest, 7);
    part(&Value::Map(env.context.clone()), nodes, rest)?;
    array(rest, env.globals.len());
    for definition in env.globals.iter() {
        let Some(Definition {
            value,
            doc,
            last_result,
        }) = definition
        else {
            infallible(rest.null());
            continue;
        };
        array(rest, 3);
        part(value, nodes, rest)?;
        match doc {
            None => infallible(rest.null()),
            Some(doc) => part(&Value::Str(doc.clone()), nodes, rest)?,
        }
        match last_result {
            None => infallible(rest.null()),
            Some(last_result) => {
                array(rest, 2);
                infallible(rest.str(last_result.kind.word()));
                infallible(rest.u64(last_result.count as u64));
            }
        }
    }
    array(rest, env.history.len());
    for value in &env.history {
        part(value, nodes, rest)?;
    }
    match &env.journal {
        Some(journal) => part(&Value::Map(journal.clone()), nodes, rest)?,
        None => infallible(rest.null()),
    }
    part(&Value::Map(env.steps()), nodes, rest)?;
    infallible(rest.bool(env.records_results));
    infallible(rest.u64(env.turn));
    Ok(())
}

/// Writes a value as a part, after writing the nodes that it needs.
fn part(value: &Value, nodes: &mut NodeWriter<'_>, out: &mut Out) -> Result<(), Error> {
    let node = nodes.add(value)?;
    inline(value, node, out);
    Ok(())
}

/// The nodes written so far, with tables to find them again.
struct NodeWriter<'h> {
    out: Out,
    /// The start of each node's bytes; they end where the next node begins.
    starts: Vec<usize>,
    /// The nodes by their bytes.
    by_content: HashTable<WrittenNode>,
    hasher: RandomState,
    /// The nodes of shared allocations, by address and form.
    by_address: HashMap<(usize, AllocationRole), u32, RandomState>,
    /// Functions that have a place in the order of values: the place, and the node.
    compared: Vec<(u64, u32)>,
    bytes_max: usize,
    host: &'h dyn Host,
    fuel: u32,
}

/// The role of an allocation: one text may be both a string and a keyword.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum AllocationRole {
    Str,
    Keyword,
    Symbol,
    Var,
    Other,
    Code,
}

/// A node with the hash of its bytes.
struct WrittenNode {
    hash: u64,
    node: u32,
}

/// A value whose parts are being written.
struct OpenValue<'a> {
    value: &'a Value,
    parts: Parts<'a>,
    /// The number of node indices on the stack before those of its parts.
    base: usize,
}

enum Parts<'a> {
    Items(Items<'a>),
    Entries(Entries<'a>, Option<&'a Value>),
    Members(Members<'a>),
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a Value;

    fn next(&mut self) -> Option<&'a Value> {
        match self {
            Parts::Items(items) => items.next(),
            Parts::Members(members) => members.next(),
            Parts::Entries(entries, second) => second.take().or_else(|| {
                let (key, value) = entries.next()?;
                *second = Some(value);
                Some(key)
            }),
        }
    }
}

impl<'a> Parts<'a> {
    /// Whether `value` is of a kind that has parts.
    fn has_parts(value: &Value) -> bool {
        matches!(
            value,
            Value::Vector(_) | Value::Map(_) | Value::Set(_) | Value::Fn(_) | Value::Combined(_)
        )
    }

    fn of(value: &'a Value) -> Parts<'a> {
        match value {
            Value::Vector(items) => Parts::Items(items.iter()),
            Value::Map(map) => Parts::Entries(map.iter(), None),
            Value::Set(set) => Parts::Members(set.iter()),
            Value::Fn(closure) => Parts::Items(closure.captures.iter().into()),
            Value::Combined(combined) if combined.tool().is_none() => {
                Parts::Items(combined.parts.iter().into())
            }
            _ => Parts::Items([].iter().into()),
        }
    }
}

impl<'h> NodeWriter<'h> {
    /// The nodes, their starts, and the compared functions.
    fn into_parts(self) -> (Out, Vec<usize>, Vec<(u64, u32)>) {
        (self.out, self.starts, self.compared)
    }

    /// No nodes, with capacity for `room` of them.
    fn new(room: usize, bytes_max: usize, host: &'h dyn Host) -> NodeWriter<'h> {
        NodeWriter {
            out: Encoder::new(Vec::new()),
            starts: Vec::with_capacity(room),
            by_content: HashTable::with_capacity(room),
            hasher: RandomState::default(),
            by_address: HashMap::default(),
            compared: Vec::new(),
            bytes_max,
            host,
            fuel: FUEL,
        }
    }

    /// The node of `value`, written now if necessary; `None` for a value that is written inline.
    fn add(&mut self, value: &Value) -> Result<Option<u32>, Error> {
        if is_inline(value) {
            return Ok(None);
        }
        if let Some(node) = self.existing_node(value) {
            return Ok(Some(node));
        }
        if !Parts::has_parts(value) {
            return self.close(value, &[]).map(Some);
        }
        let mut open = vec![OpenValue {
            value,
            parts: Parts::of(value),
            base: 0,
        }];
        // The nodes of the parts that were written, those of the innermost value last.
        let mut indices: Vec<u32> = Vec::new();
        loop {
            let Some(innermost) = open.last_mut() else {
                return Ok(indices.pop());
            };
            match innermost.parts.next() {
                Some(part) => {
                    self.charge(1, 0)?;
                    if is_inline(part) {
                        continue;
                    }
                    match self.existing_node(part) {
                        Some(node) => indices.push(node),
                        None if !Parts::has_parts(part) => indices.push(self.close(part, &[])?),
                        None => open.push(OpenValue {
                            value: part,
                            parts: Parts::of(part),
                            base: indices.len(),
                        }),
                    }
                }
                None => {
                    let Some(OpenValue { value, base, .. }) = open.pop() else {
                        continue;
                    };
                    let node = self.close(value, &indices[base..])?;
                    indices.truncate(base);
                    indices.push(node);
                }
            }
        }
    }

    /// Meters parts and bytes that are written.
    fn charge(&mut self, parts: usize, bytes: usize) -> Result<(), Error> {
        self.fuel = self.fuel.saturating_sub(steps(parts, bytes));
        if self.fuel == 0 {
            self.fuel = FUEL;
            check_limits(self.host)?;
        }
        Ok(())
    }

    /// Writes text in slices, since it may be as long as memory allows.
    fn text(&mut self, text: &str) -> Result<(), Error> {
        infallible(self.out.str_len(text.len() as u64));
        for slice in text.as_bytes().chunks(SLICE_BYTES) {
            self.charge(0, slice.len())?;
            self.out.writer_mut().extend_from_slice(slice);
        }
        Ok(())
    }

    fn named(&mut self, kind: &str, name: &str) -> Result<(), Error> {
        object(&mut self.out, kind, 2);
        self.text(name)
    }

    /// Refuses `more` bytes when they exceed the limit.
    fn check_size(&self, more: usize) -> Result<(), Error> {
        match self.out.writer().len().saturating_add(more) > self.bytes_max {
            true => Err(Error::TooLarge {
                bytes_max: self.bytes_max,
            }),
            false => Ok(()),
        }
    }

    /// The node of a shared value that was already written.
    fn existing_node(&self, value: &Value) -> Option<u32> {
        self.by_address.get(&address(value)?).copied()
    }

    /// Writes the node of `value`; `indices` are the nodes of its parts.
    fn close(&mut self, value: &Value, indices: &[u32]) -> Result<u32, Error> {
        const PART_BYTES: usize = 24;
        let size = match value {
            Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) | Value::Var(text) => {
                text.len()
            }
            Value::BigInt(int) => (int.bits() / 8) as usize,
            Value::Vector(items) => items.len(),
            Value::Map(map) => 2 * map.len(),
            Value::Set(set) => set.len(),
            _ => 0,
        };
        self.check_size(size)?;
        self.charge(1, size)?;
        let code = match value {
            Value::Fn(closure) => Some(self.code(&closure.lambda.source.0)?),
            _ => None,
        };
        let start = self.out.writer().len();
        let mut indices = indices.iter().copied();
        let mut parts = |out: &mut Out, parts: Parts<'_>| {
            for part in parts {
                let node = match is_inline(part) {
                    true => None,
                    false => indices.next(),
                };
                inline(part, node, out);
            }
        };
        let out = &mut self.out;
        match value {
            Value::Str(text) => self.text(text)?,
            Value::Keyword(name) => self.named("keyword", name)?,
            Value::Symbol(name) => self.named("symbol", name)?,
            Value::Var(name) => self.named("var", name)?,
            Value::Builtin(builtin) => named(out, "builtin", builtin.name),
            Value::BigInt(int) => big(out, int),
            Value::Regex(regex) => {
                infallible(out.tag(Tag::new(tag::REGEX)));
                infallible(out.str(regex.source()));
            }
            Value::Vector(items) => {
                array(out, items.len());
                parts(out, Parts::of(value));
            }
            Value::Map(map) => {
                infallible(out.map(map.len() as u64));
                parts(out, Parts::of(value));
            }
            Value::Set(set) => {
                infallible(out.tag(Tag::new(tag::SET)));
                array(out, set.len());
                parts(out, Parts::of(value));
            }
            Value::Fn(closure) => {
                object(out, "fn", 4);
                infallible(out.u32(code.unwrap_or_default()));
                infallible(out.u32(closure.lambda.source.1));
                array(out, closure.captures.len());
                parts(out, Parts::of(value));
            }
            Value::Combined(combined) => match combined.tool() {
                Some(Value::Str(name)) => named(out, "tool", name),
                _ => {
                    object(out, "made", 3);
                    infallible(out.str(combined.kind.name()));
                    array(out, combined.parts.len());
                    parts(out, Parts::of(value));
                }
            },
            // Written as parts.
            _ => infallible(out.null()),
        }
        self.check_size(PART_BYTES)?;
        let identity = match value {
            Value::Fn(closure) => Some(&closure.identity),
            Value::Combined(combined) if combined.tool().is_none() => Some(&combined.identity),
            _ => None,
        };
        let node = match identity {
            Some(identity) => {
                let node = self.push_node(start)?;
                self.compared
                    .extend(identity.assigned().map(|place| (place, node)));
                node
            }
            None => self.deduplicate(start)?,
        };
        if let Some(address) = address(value) {
            self.by_address.insert(address, node);
        }
        Ok(node)
    }

    fn code(&mut self, source: &Arc<SourceText>) -> Result<u32, Error> {
        let address = (Arc::as_ptr(source).addr(), AllocationRole::Code);
        if let Some(node) = self.by_address.get(&address) {
            return Ok(*node);
        }
        let globals: &[Arc<str>] = source.globals.get().map_or(&[], |globals| globals);
        let bytes = globals.iter().map(|name| name.len() + 5).sum::<usize>();
        self.check_size(source.text.len().saturating_add(bytes))?;
        let start = self.out.writer().len();
        object(&mut self.out, "code", 6);
        infallible(self.out.str(&source.text));
        array(&mut self.out, globals.len());
        for name in globals {
            infallible(self.out.str(name));
        }
        let SourcePosition { turn, line, column } = source.written;
        infallible(self.out.u64(turn));
        infallible(self.out.u32(line));
        infallible(self.out.u32(column));
        let node = self.deduplicate(start)?;
        self.by_address.insert(address, node);
        Ok(node)
    }

    /// The node whose bytes begin at `start`, or an earlier identical one.
    fn deduplicate(&mut self, start: usize) -> Result<u32, Error> {
        let bytes = self.out.writer();
        let hash = self.hasher.hash_one(&bytes[start..]);
        let starts = &self.starts;
        let found = self.by_content.find(hash, |known| {
            let at = known.node as usize;
            let end = starts.get(at + 1).copied().unwrap_or(start);
            known.hash == hash && bytes[starts[at]..end] == bytes[start..]
        });
        if let Some(known) = found {
            let node = known.node;
            self.out.writer_mut().truncate(start);
            return Ok(node);
        }
        let node = self.push_node(start)?;
        let known = WrittenNode { hash, node };
        self.by_content
            .insert_unique(hash, known, |known| known.hash);
        Ok(node)
    }

    /// Adds a node whose bytes begin at `start`, and returns its index.
    fn push_node(&mut self, start: usize) -> Result<u32, Error> {
        let bytes_max = self.bytes_max;
        let node = u32::try_from(self.starts.len()).map_err(|_| Error::TooLarge { bytes_max })?;
        self.starts.push(start);
        Ok(node)
    }
}

/// The address and form of a value that others hold too.
fn address(value: &Value) -> Option<(usize, AllocationRole)> {
    fn arc<T>(held: &Arc<T>) -> Option<usize> {
        (Arc::strong_count(held) > 1).then(|| Arc::as_ptr(held).addr())
    }
    let text = |text: &Text, form| Some((text.shared_address()?, form));
    match value {
        Value::Str(name) => text(name, AllocationRole::Str),
        Value::Keyword(name) => text(name, AllocationRole::Keyword),
        Value::Symbol(name) => text(name, AllocationRole::Symbol),
        Value::Var(name) => text(name, AllocationRole::Var),
        _ => {
            let address = match value {
                Value::Vector(items) => items.shared_address(),
                Value::Map(map) => map.shared_address(),
                Value::Set(set) => set.shared_address(),
                Value::BigInt(int) => arc(int),
                Value::Fn(closure) => arc(closure),
                Value::Combined(combined) => arc(combined),
                Value::Regex(regex) => arc(regex),
                Value::Builtin(builtin) => Some(std::ptr::from_ref(*builtin).addr()),
                _ => None,
            };
            Some((address?, AllocationRole::Other))
        }
    }
}

/// Whether a value is written inline: the kinds that a [`Value`] stores in place.
fn is_inline(value: &Value) -> bool {
    matches!(
        value,
        Value::Nil
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Date(_)
            | Value::Instant(_)
            | Value::Duration(_)
    )
}

/// Writes a part: a small value itself, else a reference to its node.
fn inline(value: &Value, node: Option<u32>, out: &mut Out) {
    match value {
        Value::Nil => infallible(out.null()),
        Value::Bool(bool) => infallible(out.bool(*bool)),
        Value::Int(int) => infallible(out.i64(*int)),
        // All NaNs are written alike.
        Value::Float(float) if float.is_nan() => infallible(out.f64(f64::NAN)),
        Value::Float(float) => infallible(out.f64(*float)),
        Value::Date(days) => {
            infallible(out.tag(Tag::new(tag::DATE)));
            infallible(out.i32(*days));
        }
        Value::Instant(instant) => {
            object(out, "instant", 3);
            infallible(out.i64(instant.micros()));
            infallible(out.u8(instant.digits));
        }
        Value::Duration(micros) => {
            object(out, "duration", 2);
            infallible(out.i64(*micros));
        }
        _ => {
            infallible(out.tag(Tag::new(tag::REF)));
            infallible(out.u32(node.unwrap_or_default()));
        }
    }
}

fn big(out: &mut Out, int: &BigInt) {
    let negative = int.sign() == Sign::Minus;
    // For a negative integer the bytes encode -1 minus the integer.
    let bytes = match negative {
        true => (-(int + 1_i32)).magnitude().to_bytes_be(),
        false => int.magnitude().to_bytes_be(),
    };
    let kind = match negative {
        true => tag::NEGATIVE,
        false => tag::POSITIVE,
    };
    infallible(out.tag(Tag::new(kind)));
    infallible(out.bytes(&bytes));
}

fn named(out: &mut Out, kind: &str, name: &str) {
    object(out, kind, 2);
    infallible(out.str(name));
}

/// Begins an array of `length` items, the first of which names its kind.
fn object(out: &mut Out, kind: &str, length: usize) {
    infallible(out.tag(Tag::new(tag::OBJECT)));
    array(out, length);
    infallible(out.str(kind));
}

fn array(out: &mut Out, length: usize) {
    infallible(out.array(length as u64));
}

/// Writing to memory does not fail.
fn infallible<T>(written: Result<T, minicbor::encode::Error<Infallible>>) {
    written
        .map(drop)
        .expect("writing to a buffer does not fail");
}
