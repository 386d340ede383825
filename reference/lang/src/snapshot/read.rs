//! Reads snapshots. Nothing in the bytes is trusted: a length allocates no more than the bytes that are left,
//! references point backwards, code is analysed anew, keys must be in order, and every other invariant of a value is
//! checked.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use minicbor::data::Type as Cbor;
use minicbor::{Decoder, decode};
use num_bigint::{BigInt, Sign};

use super::order::{BudgetSpent, CompareBudget};
use super::{Error, FUEL, NAME, VERSION, VERSION_WITHOUT_TURNS, checksum, steps, tag};
use crate::analyze::{
    self,
    ir::{Lambda, SourcePosition},
};
use crate::builtins;
use crate::env::{Definition, Env, Names, ValueSummary};
use crate::error::{Kind, Limit};
use crate::function::{Closure, Combinator, Combined, Identity};
use crate::host::{Host, Pulse};
use crate::limits::Limits;
use crate::meter::{Meter, Watch};
use crate::reader::{self, ReadLimits};
use crate::regex::Regex;
use crate::time;
use crate::value::{Instant, Map, Set, Text, Type, Value};

/// The deepest nesting of brackets in code. The code in a snapshot was analysed before, under whatever limit.
const NESTING_MAX: u32 = 500;
/// The largest initial capacity for names, whatever count is claimed.
const NAMES_ROOM: usize = 1 << 16;
/// The encodings of values that take one byte.
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;
const SHORT_INT_MAX: u8 = 0x17;
/// The largest number of fraction digits of an instant.
const DIGITS_MAX: u8 = 6;

/// Reads what [`write`](super::write()) wrote. Time and memory are proportional to the length of `bytes`, except for regexes
/// and code: for these, `limits` and the host's pulse apply as they do to programs.
///
/// # Errors
/// Any fault of the bytes, or [`Error::Stopped`]; never a panic, even on forged bytes.
pub fn read(bytes: &[u8], limits: &Limits, host: &dyn Host) -> Result<(Env, Vec<Value>), Error> {
    let meter = Meter::new(limits, host);
    meter.within(|| read_body(&open(bytes, &meter)?, &meter))
}

/// A snapshot whose name, version and checksum are valid.
pub struct Envelope<'b> {
    pub version: u64,
    pub body: &'b [u8],
}

pub fn read_body(envelope: &Envelope<'_>, watch: &dyn Watch) -> Result<(Env, Vec<Value>), Error> {
    let Envelope { version, body } = *envelope;
    let mut reader = SnapshotReader {
        has_turns: version > VERSION_WITHOUT_TURNS,
        input: Decoder::new(body),
        length: body.len(),
        nodes: Vec::new(),
        functions_of_code: Vec::new(),
        names: Arc::new(Names::default()),
        places: HashMap::default(),
        functions: 0,
        compare_budget: CompareBudget::of(body.len()),
        watch,
        fuel: FUEL,
    };
    let read = reader.contents().map_err(|error| *error)?;
    match reader.input.position() == body.len() {
        true => Ok(read),
        false => Err(*reader.malformed("something follows its end")),
    }
}

/// Checks the envelope of a snapshot.
pub fn open<'b>(bytes: &'b [u8], watch: &dyn Watch) -> Result<Envelope<'b>, Error> {
    let mut input = Decoder::new(bytes);
    let foreign = |_| Error::Foreign;
    if input.tag().map_err(foreign)?.as_u64() != tag::CBOR
        || input.array().map_err(foreign)? != Some(4)
        || input.str().map_err(foreign)? != NAME
    {
        return Err(Error::Foreign);
    }
    let version = input.u64().map_err(foreign)?;
    if !(1..=u64::from(VERSION)).contains(&version) {
        return Err(Error::Version(version));
    }
    let damaged = |_| Error::Damaged;
    let body = input.bytes().map_err(damaged)?;
    let signed = input.position();
    let stored = input.u32().map_err(damaged)?;
    if input.position() != bytes.len() {
        return Err(Error::Damaged);
    }
    match checksum(&bytes[..signed], &mut || watch.check_limits()) {
        Err(limit) => Err(stopped(limit)),
        Ok(found) if found == stored => Ok(Envelope { version, body }),
        Ok(_) => Err(Error::Damaged),
    }
}

/// The error for a limit that was reached.
fn stopped(limit: Limit) -> Error {
    match limit {
        Limit::Memory => Error::Memory,
        Limit::Cancelled => Error::Stopped(Pulse::Cancelled),
        Limit::Time => Error::Stopped(Pulse::TimedOut),
    }
}

struct SnapshotReader<'b> {
    /// Whether the version has turns.
    has_turns: bool,
    input: Decoder<'b>,
    length: usize,
    nodes: Vec<DecodedNode>,
    /// The functions of each piece of code.
    functions_of_code: Vec<Vec<(Arc<Lambda>, usize)>>,
    names: Arc<Names>,
    /// The places of functions in the order of values, by node.
    places: HashMap<u32, u64, RandomState>,
    /// The number of these functions that were made.
    functions: usize,
    compare_budget: CompareBudget,
    watch: &'b dyn Watch,
    fuel: u32,
}

enum DecodedNode {
    Value(Value),
    /// The index of its functions in `functions_of_code`.
    Code(usize),
}

/// The error is boxed, so that values are moved without room for an error.
type Read<T> = Result<T, Box<Error>>;

impl<'b> SnapshotReader<'b> {
    fn contents(&mut self) -> Read<(Env, Vec<Value>)> {
        self.array_of(5)?;
        let count = self.array()?;
        let mut names = Names::with_capacity(count.min(NAMES_ROOM));
        for _ in 0..count {
            self.tick()?;
            let name = self.str()?;
            if !names.add(name) {
                return Err(self.malformed("a name is listed twice"));
            }
        }
        self.names = Arc::new(names);
        let compared = self.array()?;
        let place = Identity::reserve_block(compared as u64);
        for at in 0..compared {
            self.tick()?;
            let node = self.index()?;
            if self.places.insert(node, place + at as u64).is_some() {
                return Err(self.malformed("a function is compared twice"));
            }
        }
        let nodes = self.array()?;
        self.nodes.reserve(nodes);
        for _ in 0..nodes {
            self.tick()?;
            let node = self.node()?;
            self.nodes.push(node);
        }
        if self.functions != compared {
            return Err(self.malformed("what was compared is no function"));
        }
        let env = self.session()?;
        let count = self.array()?;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(self.part()?);
        }
        Ok((env, values))
    }

    fn session(&mut self) -> Read<Env> {
        self.array_of(6 + usize::from(self.has_turns))?;
        let context = self.map()?;
        let count = self.array()?;
        let mut globals = Vec::with_capacity(count);
        for _ in 0..count {
            globals.push(self.definition()?);
        }
        if globals.len() > self.names.count() {
            return Err(self.malformed("a definition has no name"));
        }
        self.array_of(3)?;
        let history = [self.part()?, self.part()?, self.part()?];
        let journal = match self.null()? {
            true => None,
            false => Some(self.map()?),
        };
        let steps = Some(self.map()?).filter(|steps| !steps.is_empty());
        let records_results = self
            .input
            .bool()
            .map_err(|error| self.decode_error(&error))?;
        let turn = match self.has_turns {
            true => self
                .input
                .u64()
                .map_err(|error| self.decode_error(&error))?,
            false => 0,
        };
        Ok(Env {
            context,
            names: Arc::clone(&self.names),
            globals: Arc::new(globals),
            history,
            journal,
            steps,
            records_results,
            turn,
        })
    }

    fn definition(&mut self) -> Read<Option<Definition>> {
        self.tick()?;
        if self.null()? {
            return Ok(None);
        }
        self.array_of(3)?;
        let value = self.part()?;
        let doc = match self.part()? {
            Value::Nil => None,
            Value::Str(doc) => Some(doc),
            _ => return Err(self.malformed("a docstring is no string")),
        };
        let last_result = match self.null()? {
            true => None,
            false => {
                self.array_of(2)?;
                let word = self.str()?;
                let kind = Type::ALL
                    .into_iter()
                    .find(|kind| kind.word() == word)
                    .ok_or_else(|| self.malformed("a kind of value is unknown"))?;
                let count = self
                    .input
                    .u64()
                    .map_err(|error| self.decode_error(&error))?;
                Some(ValueSummary {
                    kind,
                    count: usize::try_from(count).unwrap_or(usize::MAX),
                })
            }
        };
        Ok(Some(Definition {
            value,
            doc,
            last_result,
        }))
    }

    fn node(&mut self) -> Read<DecodedNode> {
        let value = match self.kind()? {
            Cbor::String => Value::str(self.str()?),
            Cbor::Array => {
                let count = self.array()?;
                Value::vector(self.parts(count)?)
            }
            Cbor::Map => {
                let count = self
                    .input
                    .map()
                    .map_err(|error| self.decode_error(&error))?
                    .ok_or_else(|| self.malformed("a map has no length"))?;
                let count = self.bounded(count)?;
                let mut entries: Vec<(Value, Value)> = Vec::with_capacity(count);
                for _ in 0..count {
                    let (key, value) = (self.part()?, self.part()?);
                    if let Some((last, _)) = entries.last() {
                        self.check_order(last, &key)?;
                    }
                    entries.push((key, value));
                }
                Value::Map(Map::of_sorted(entries))
            }
            Cbor::Tag => match self.tag()? {
                tag::SET => {
                    let count = self.array()?;
                    let mut members: Vec<Value> = Vec::with_capacity(count);
                    for _ in 0..count {
                        let member = self.part()?;
                        if let Some(last) = members.last() {
                            self.check_order(last, &member)?;
                        }
                        members.push(member);
                    }
                    Value::Set(Set::of_sorted(members.into_iter()))
                }
                tag::POSITIVE => Value::integer(self.magnitude()?),
                tag::NEGATIVE => Value::integer(-self.magnitude()? - 1_i32),
                tag::REGEX => {
                    let source = self.str()?;
                    self.check_limits()?;
                    let regex = Regex::new(source).map_err(|error| {
                        unsupported(format!("regex #\"{source}\""), error.to_string())
                    })?;
                    Value::Regex(Arc::new(regex))
                }
                tag::OBJECT => return self.object(),
                _ => return Err(self.malformed("a tag is unknown")),
            },
            _ => return Err(self.malformed("a node is neither text nor a collection")),
        };
        Ok(DecodedNode::Value(value))
    }

    fn object(&mut self) -> Read<DecodedNode> {
        let count = self.array()?;
        let kind = self.str()?;
        let named: Option<fn(Text) -> Value> = match kind {
            "keyword" => Some(Value::Keyword),
            "symbol" => Some(Value::Symbol),
            "var" => Some(Value::Var),
            _ => None,
        };
        let value = match (kind, count) {
            (_, 2) if let Some(named) = named => named(Text::from(self.str()?)),
            ("tool", 2) => builtins::tool_value(self.str()?),
            ("builtin", 2) => {
                let name = self.str()?;
                let builtin = builtins::all().find(|builtin| builtin.name == name);
                builtin
                    .ok_or_else(|| {
                        unsupported(name.to_owned(), "there is no such function".into())
                    })?
                    .value()
            }
            ("code", 6) if self.has_turns => return self.code().map(DecodedNode::Code),
            ("code", 3) if !self.has_turns => return self.code().map(DecodedNode::Code),
            ("fn", 4) => {
                let identity = self.identity();
                let code = self.index()?;
                let Some(DecodedNode::Code(code)) = self.nodes.get(code as usize) else {
                    return Err(self.malformed("a function has no code"));
                };
                let code = *code;
                let number = self.index()? as usize;
                let count = self.array()?;
                let captures = self.parts(count)?;
                let Some((lambda, captured)) = self.functions_of_code[code].get(number) else {
                    return Err(self.malformed("code has fewer functions"));
                };
                if *captured != captures.len() {
                    return Err(self.malformed("a function captures another number of values"));
                }
                let mut closure = Closure::new(Arc::clone(lambda), captures);
                closure.identity = identity;
                Value::Fn(Arc::new(closure))
            }
            ("made", 3) => {
                let identity = self.identity();
                let word = self.str()?;
                let kind = Combinator::FUNCTION_MAKERS
                    .into_iter()
                    .find(|kind| kind.name() == word)
                    .ok_or_else(|| {
                        unsupported(word.to_owned(), "there is no such function".into())
                    })?;
                let count = self.array()?;
                let parts = self.parts(count)?;
                if !kind.takes(parts.len()) {
                    return Err(self.malformed("a function is made of too few or too many parts"));
                }
                let mut combined = Combined::new(kind, parts);
                combined.identity = identity;
                Value::Combined(Arc::new(combined))
            }
            _ => return Err(self.malformed("a kind of node is unknown")),
        };
        Ok(DecodedNode::Value(value))
    }

    /// The identity of the function in the next node.
    fn identity(&mut self) -> Identity {
        let place = u32::try_from(self.nodes.len())
            .ok()
            .and_then(|node| self.places.get(&node));
        match place {
            Some(place) => {
                self.functions += 1;
                Identity::from_place(*place)
            }
            None => Identity::default(),
        }
    }

    fn code(&mut self) -> Read<usize> {
        let text = self.str()?;
        let count = self.array()?;
        let mut globals: Vec<Arc<str>> = Vec::with_capacity(count);
        for _ in 0..count {
            self.tick()?;
            globals.push(self.str()?.into());
        }
        let written = match self.has_turns {
            true => SourcePosition {
                turn: self
                    .input
                    .u64()
                    .map_err(|error| self.decode_error(&error))?,
                line: self.index()?,
                column: self.index()?,
            },
            false => SourcePosition::start_of_turn(0),
        };
        self.check_limits()?;
        let limits = ReadLimits {
            nesting: NESTING_MAX,
            symbols: u32::MAX,
            ..ReadLimits::default()
        };
        let what = || excerpt(text);
        let forms =
            reader::read(text, &limits).map_err(|error| unsupported(what(), error.to_string()))?;
        if forms.len() != 1 {
            return Err(self.malformed("code is not one expression"));
        }
        let names = &mut self.names;
        let functions = analyze::functions(text, &forms, written, &globals, names, self.watch)
            .map_err(|error| match error.kind {
                Kind::Timeout => Error::Stopped(Pulse::TimedOut).into(),
                Kind::Cancelled => Error::Stopped(Pulse::Cancelled).into(),
                Kind::Memory => Error::Memory.into(),
                _ => unsupported(what(), error.message()),
            })?;
        self.functions_of_code.push(functions);
        Ok(self.functions_of_code.len() - 1)
    }

    fn parts(&mut self, count: usize) -> Read<Vec<Value>> {
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            parts.push(self.part()?);
        }
        Ok(parts)
    }

    fn part(&mut self) -> Read<Value> {
        /// The first bytes of a reference, the most frequent kind of part.
        const REF: [u8; 2] = [0xd8, tag::REF as u8];
        self.tick()?;
        let at = self.input.position();
        let rest = self.input.input().get(at..).unwrap_or_default();
        if rest.starts_with(&REF) {
            self.input.set_position(at + REF.len());
            return self.referenced_value();
        }
        // Nearly as frequent, and only one byte long.
        let short = match rest.first() {
            Some(&NULL) => Some(Value::Nil),
            Some(&FALSE) => Some(Value::Bool(false)),
            Some(&TRUE) => Some(Value::Bool(true)),
            Some(&int) if int <= SHORT_INT_MAX => Some(Value::Int(int.into())),
            _ => None,
        };
        if let Some(value) = short {
            self.input.set_position(at + 1);
            return Ok(value);
        }
        let decode_error =
            |error: decode::Error| malformed(error.position().unwrap_or_default(), EXPECTED);
        Ok(match self.kind()? {
            Cbor::F64 => Value::Float(self.input.f64().map_err(decode_error)?),
            Cbor::Tag => match self.tag()? {
                tag::REF => self.referenced_value()?,
                tag::DATE => {
                    let days = self.input.i32().map_err(decode_error)?;
                    if time::civil(days).is_none() {
                        return Err(self.malformed("a date lies outside the years 0 to 9999"));
                    }
                    Value::Date(days)
                }
                tag::OBJECT => {
                    let count = self.array()?;
                    match (self.str()?, count) {
                        ("instant", 3) => {
                            let micros = self.input.i64().map_err(decode_error)?;
                            let digits = self.input.u8().map_err(decode_error)?;
                            if !time::within_years(micros) || digits > DIGITS_MAX {
                                return Err(
                                    self.malformed("an instant lies outside the years 0 to 9999")
                                );
                            }
                            Value::Instant(Instant::new(micros, digits))
                        }
                        ("duration", 2) => Value::Duration(self.input.i64().map_err(decode_error)?),
                        _ => return Err(self.malformed("a kind of part is unknown")),
                    }
                }
                _ => return Err(self.malformed("a tag is unknown")),
            },
            _ => Value::Int(self.input.i64().map_err(decode_error)?),
        })
    }

    /// The value of the earlier node whose index comes next.
    fn referenced_value(&mut self) -> Read<Value> {
        let node = self.index()?;
        match self.nodes.get(node as usize) {
            Some(DecodedNode::Value(value)) => Ok(value.clone()),
            Some(DecodedNode::Code(_)) => Err(self.malformed("code is no value")),
            None => Err(self.malformed("a reference does not point back")),
        }
    }

    fn map(&mut self) -> Read<Map> {
        match self.part()? {
            Value::Map(map) => Ok(map),
            _ => Err(self.malformed("a map is none")),
        }
    }

    fn check_order(&mut self, before: &Value, after: &Value) -> Read<()> {
        match self.compare_budget.is_before(before, after) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.malformed("keys do not stand in term order")),
            Err(BudgetSpent) => Err(self.malformed("its keys take too long to compare")),
        }
    }

    fn magnitude(&mut self) -> Read<BigInt> {
        let bytes = self
            .input
            .bytes()
            .map_err(|error| self.decode_error(&error))?;
        Ok(BigInt::from_bytes_be(Sign::Plus, bytes))
    }

    fn kind(&self) -> Read<Cbor> {
        self.input
            .datatype()
            .map_err(|error| self.decode_error(&error))
    }

    fn tag(&mut self) -> Read<u64> {
        let tag = self
            .input
            .tag()
            .map_err(|error| self.decode_error(&error))?;
        Ok(tag.as_u64())
    }

    fn str(&mut self) -> Read<&'b str> {
        let text = self
            .input
            .str()
            .map_err(|error| self.decode_error(&error))?;
        self.charge(0, text.len())?;
        Ok(text)
    }

    /// Whether null comes next; if so it is consumed.
    fn null(&mut self) -> Read<bool> {
        let at = self.input.position();
        let next = self.input.input().get(at);
        let null = *next.ok_or_else(|| self.malformed(EXPECTED))? == NULL;
        if null {
            self.input.set_position(at + 1);
        }
        Ok(null)
    }

    fn index(&mut self) -> Read<u32> {
        self.input.u32().map_err(|error| self.decode_error(&error))
    }

    /// Reads the length of an array.
    fn array(&mut self) -> Read<usize> {
        let length = self
            .input
            .array()
            .map_err(|error| self.decode_error(&error))?;
        let length = length.ok_or_else(|| self.malformed("an array has no length"))?;
        self.bounded(length)
    }

    fn array_of(&mut self, length: usize) -> Read<()> {
        match self.array()? == length {
            true => Ok(()),
            false => Err(self.malformed("an array has another length")),
        }
    }

    /// Checks a number of items, each of which takes at least one byte.
    fn bounded(&self, count: u64) -> Read<usize> {
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.length - self.input.position())
            .ok_or_else(|| self.malformed("it ends too early"))
    }

    fn tick(&mut self) -> Read<()> {
        self.charge(1, 0)
    }

    /// Meters parts and bytes that are read.
    fn charge(&mut self, parts: usize, bytes: usize) -> Read<()> {
        self.fuel = self.fuel.saturating_sub(steps(parts, bytes));
        if self.fuel == 0 {
            self.fuel = FUEL;
            self.check_limits()?;
        }
        Ok(())
    }

    /// Checks the clock and memory.
    fn check_limits(&self) -> Read<()> {
        self.watch
            .check_limits()
            .map_err(|limit| Box::new(stopped(limit)))
    }

    fn decode_error(&self, error: &decode::Error) -> Box<Error> {
        malformed(error.position().unwrap_or(self.input.position()), EXPECTED)
    }

    fn malformed(&self, problem: &'static str) -> Box<Error> {
        malformed(self.input.position(), problem)
    }
}

/// The problem when another CBOR type, or nothing, comes next.
const EXPECTED: &str = "something else was expected";

fn malformed(at: usize, problem: &'static str) -> Box<Error> {
    Error::Malformed { at, problem }.into()
}

fn unsupported(what: String, problem: String) -> Box<Error> {
    Error::Unsupported { what, problem }.into()
}

/// The beginning of a text.
fn excerpt(text: &str) -> String {
    const CHARS: usize = 60;
    let mut excerpt: String = text.chars().take(CHARS).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt
}
