//! Scrubs language values before they are previewed, and a client's JSON before it is made compact: both lose characters, and half a
//! secret would no longer be recognised.
//!
//! Knows nothing of payloads. What programs keep is not changed, only what is shown.

use ptc_lang::error::Limit;
use ptc_lang::meter::{Unwatched, Watch};
use ptc_lang::{Value, print};
use ptc_rpc::{Json, JsonText};
use ptc_secrets::Redactor;
use ptc_upstream::scrubbed_compact;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Deeper parts of a value that contains a secret are replaced by a marker.
const DEPTH_MAX: u32 = 64;
/// The marker for parts that are too deep to scrub, and for a secret that is not a text.
const MARKER: &str = "[REDACTED]";
/// Parts, or blocks of text, that are visited between two checks of the clock.
const PARTS_BETWEEN_LOOKS: usize = 256;
/// Bytes of text that take about as long to search as one part.
const BLOCK_BYTES: usize = 256;

/// The value with secrets redacted.
pub fn value<'a>(value: &'a Value, redactor: &Redactor) -> Cow<'a, Value> {
    // Without a watch nothing stops the walk.
    value_within(value, redactor, &Unwatched).unwrap_or_else(|_| Cow::Owned(Value::str(MARKER)))
}

/// JSON that a client sent as compact text, with secrets redacted first: compacting it drops digits of numbers.
pub fn compact(json: Json<'_>, redactor: &Redactor) -> JsonText {
    // Without a watch nothing stops the search.
    scrubbed_compact(json, redactor, &Unwatched).unwrap_or_else(|_| JsonText::string(MARKER))
}

/// [`value`] under the memory limit and clock of a program.
///
/// # Errors
/// The limit that ends the program.
pub fn value_within<'a>(
    value: &'a Value,
    redactor: &Redactor,
    watch: &dyn Watch,
) -> Result<Cow<'a, Value>, Limit> {
    let mut walk = Walk {
        redactor,
        watch,
        until_look: PARTS_BETWEEN_LOOKS,
    };
    if redactor.is_empty() || !walk.holds_secret(value)? {
        return Ok(Cow::Borrowed(value));
    }
    let mut copies = HashMap::new();
    walk.scrub(value, 0, &mut copies).map(Cow::Owned)
}

/// Scrubbed copies of shared collections, by address, so that what is shared stays shared.
type ScrubbedCopies = HashMap<usize, Value>;

struct Walk<'w> {
    redactor: &'w Redactor,
    watch: &'w dyn Watch,
    until_look: usize,
}

impl Walk<'_> {
    fn holds_secret(&mut self, value: &Value) -> Result<bool, Limit> {
        let mut seen = HashSet::new();
        let mut pending = vec![value];
        while let Some(value) = pending.pop() {
            self.visit(value)?;
            if value.shared_address().is_some_and(|at| !seen.insert(at)) {
                continue;
            }
            match value {
                Value::Str(text) | Value::Keyword(text) | Value::Symbol(text)
                    if matches!(self.text(text.as_str())?, Cow::Owned(_)) =>
                {
                    return Ok(true);
                }
                number if spells_secret(number, self.redactor) => return Ok(true),
                named if self.scrub_printed(named)?.is_some() => return Ok(true),
                Value::Vector(items) => pending.extend(items.iter()),
                Value::Set(items) => pending.extend(items.iter()),
                Value::Map(map) => {
                    for (key, value) in map.iter() {
                        pending.push(key);
                        pending.push(value);
                    }
                }
                _ => {}
            }
        }
        Ok(false)
    }

    fn scrub(
        &mut self,
        value: &Value,
        depth: u32,
        copies: &mut ScrubbedCopies,
    ) -> Result<Value, Limit> {
        if depth > DEPTH_MAX {
            return Ok(Value::str(MARKER));
        }
        let address = value.shared_address();
        if let Some(known) = address.and_then(|at| copies.get(&at)) {
            return Ok(known.clone());
        }
        self.visit(value)?;
        let redactor = self.redactor;
        let clean = match value {
            Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => {
                match (self.text(text.as_str())?, value) {
                    (Cow::Borrowed(_), _) => value.clone(),
                    (Cow::Owned(text), Value::Str(_)) => Value::str(text),
                    (Cow::Owned(text), Value::Keyword(_)) => Value::keyword(&*text),
                    (Cow::Owned(_), _) => Value::str(MARKER),
                }
            }
            number if spells_secret(number, redactor) => Value::str(MARKER),
            Value::Vector(items) => {
                let mut clean = Vec::new();
                for item in items.iter() {
                    clean.push(self.scrub(item, depth + 1, copies)?);
                }
                Value::vector(clean)
            }
            Value::Set(items) => {
                let mut clean = Vec::new();
                for item in items.iter() {
                    clean.push(self.scrub(item, depth + 1, copies)?);
                }
                Value::Set(clean.into_iter().collect())
            }
            Value::Map(map) => {
                let mut clean = Vec::new();
                for (key, value) in map.iter() {
                    let key = self.scrub(key, depth + 1, copies)?;
                    clean.push((key, self.scrub(value, depth + 1, copies)?));
                }
                Value::Map(clean.into_iter().collect())
            }
            other => self.scrub_printed(other)?.unwrap_or_else(|| other.clone()),
        };
        if let Some(address) = address {
            copies.insert(address, clean.clone());
        }
        Ok(clean)
    }

    /// The text with secrets redacted.
    fn text<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, Limit> {
        // The caller counts short texts.
        let mut short = text.len() < BLOCK_BYTES;
        self.redactor
            .scrub_str_within(text, &mut || match std::mem::replace(&mut short, false) {
                true => Ok(()),
                false => self.watch.check_limits(),
            })
    }

    /// The replacement for a value whose printed form (a name or a source) contains a credential: that form, scrubbed.
    fn scrub_printed(&self, value: &Value) -> Result<Option<Value>, Limit> {
        let (Value::Regex(_) | Value::Fn(_) | Value::Combined(_) | Value::Var(_)) = value else {
            return Ok(None);
        };
        Ok(match self.text(&print::readable(value))? {
            Cow::Borrowed(_) => None,
            Cow::Owned(clean) => Some(Value::Symbol(clean.into())),
        })
    }

    /// Counts a part; long text counts as several.
    fn visit(&mut self, value: &Value) -> Result<(), Limit> {
        let blocks = match value {
            Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => {
                text.len() / BLOCK_BYTES
            }
            Value::BigInt(int) => (int.bits() / BITS_PER_PART) as usize,
            _ => 0,
        };
        if 1 + blocks < self.until_look {
            self.until_look -= 1 + blocks;
            return Ok(());
        }
        self.until_look = PARTS_BETWEEN_LOOKS;
        self.watch.check_limits()
    }
}

/// Bits of an integer that take about as long to print as one part.
const BITS_PER_PART: u64 = 64;

/// Whether `value` is a number whose digits are those of a credential.
fn spells_secret(value: &Value, redactor: &Redactor) -> bool {
    let number = matches!(value, Value::Int(_) | Value::Float(_) | Value::BigInt(_));
    number
        && redactor.has_numeric_secret()
        && redactor.finds_secret_in_number(&print::readable(value))
}

#[cfg(test)]
mod tests;
