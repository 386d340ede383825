//! Values as text with limits: for items, for the length of a string, and for the whole text. The
//! language's printer writes single values; only the elisions are added here.

use ptc_lang::Value;
use ptc_lang::error::Limit;
use ptc_lang::meter::{Unwatched, Watch};
use ptc_lang::sink::{Sink, SinkError};

use crate::stack;

/// Maximum bytes of a text, whatever the options: shared structure can describe gigabytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Maximum nesting of what is shown: each level takes a part of the native stack, which is a thousand times what it adds to the text.
const DEPTH_MAX: usize = 10_000;

/// The limits of one rendering; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// Maximum items shown of each list, map and set, at every level.
    pub items: Option<usize>,
    /// Maximum characters shown of a string; maps divide it among their entries.
    pub printable: Option<usize>,
    /// Maximum characters of the whole text, which is cut there.
    pub chars: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formatted {
    pub text: String,
    /// Whether a limit for items or strings left something out.
    pub truncated: bool,
    /// Whether the text was cut at the end.
    pub cut: bool,
}

/// Renders a value: `[1 2 ...] (2/5)`, `"very long ..." (10/21 chars)`.
#[must_use]
pub fn format_value(value: &Value, options: FormatOptions) -> Formatted {
    // Without a watch nothing stops it.
    format_value_within(value, options, &Unwatched).unwrap_or(Formatted {
        text: String::new(),
        truncated: true,
        cut: true,
    })
}

/// [`format_value`] within a program's memory and time.
///
/// # Errors
/// The limit that stopped the program.
pub fn format_value_within(
    value: &Value,
    options: FormatOptions,
    watch: &dyn Watch,
) -> Result<Formatted, Limit> {
    let mut writer = Writer {
        out: Sink::new(String::new(), TEXT_BYTES_MAX, watch),
        watch,
        stopped: None,
        room: options.chars.unwrap_or(usize::MAX),
        items: options.items,
        depth: 0,
        truncated: false,
        cut: false,
    };
    writer.value(value, options.printable);
    if let Some(limit) = writer.stopped {
        return Err(limit);
    }
    Ok(Formatted {
        text: writer.out.into_text(),
        truncated: writer.truncated,
        cut: writer.cut,
    })
}

struct Writer<'w> {
    out: Sink<'w>,
    watch: &'w dyn Watch,
    /// The limit that stopped the rendering; the text is then cut, too.
    stopped: Option<Limit>,
    /// Characters that may still be written.
    room: usize,
    items: Option<usize>,
    /// Number of collections around what is written.
    depth: usize,
    truncated: bool,
    cut: bool,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, printable: Option<usize>) {
        if self.cut {
            return;
        }
        let visited = self.out.charge_steps(1);
        self.end_on_error(visited);
        match value {
            Value::Str(text) => self.string(text, printable),
            Value::Vector(items) => {
                let shown = self.items.unwrap_or(usize::MAX);
                self.collection(
                    "[",
                    "]",
                    items.len(),
                    shown,
                    items.iter(),
                    |writer, item| {
                        writer.value(item, printable);
                    },
                );
            }
            Value::Set(members) => {
                let shown = self.items.unwrap_or(usize::MAX);
                self.collection(
                    "#{",
                    "}",
                    members.len(),
                    shown,
                    members.iter(),
                    |writer, member| {
                        writer.value(member, printable);
                    },
                );
            }
            Value::Map(map) => {
                let (shown, each) = share(map.len(), self.items, printable);
                self.collection(
                    "{",
                    "}",
                    map.len(),
                    shown,
                    map.iter(),
                    |writer, (key, value)| {
                        writer.value(key, printable);
                        writer.write(" ");
                        writer.value(value, each);
                    },
                );
            }
            leaf => self.readable(leaf),
        }
    }

    /// A value without parts, or as much of it as fits.
    fn readable(&mut self, value: &Value) {
        let bytes_max = self.room.saturating_mul(4).min(TEXT_BYTES_MAX) + 1;
        let mut leaf = Sink::new(String::new(), bytes_max, self.watch);
        let whole = ptc_lang::print::write_readable(&mut leaf, value);
        if !matches!(whole, Err(SinkError::Limit(_))) {
            self.write(&leaf.into_text());
        }
        self.end_on_error(whole);
    }

    /// A failed write ends the text.
    fn end_on_error(&mut self, written: Result<(), SinkError>) {
        if let Err(over) = written {
            self.cut = true;
            if let SinkError::Limit(limit) = over {
                self.stopped = Some(limit);
            }
        }
    }

    fn string(&mut self, text: &ptc_lang::value::Text, printable: Option<usize>) {
        let total = match printable {
            Some(limit) if text.as_str().len() > limit => text.count(),
            _ => 0,
        };
        match printable {
            Some(limit) if total > limit => {
                let head: String = text.graphemes().take(limit).collect();
                self.truncated = true;
                let quoted = ptc_lang::print::readable(&Value::str(format!("{head}...")));
                self.write(&format!("{quoted} ({limit}/{total} chars)"));
            }
            _ if self.overflows(text.as_str()) => {
                // Escaping never shortens a text, so no more characters than `room` can be shown.
                let head: String = text
                    .as_str()
                    .chars()
                    .take(self.room.min(TEXT_BYTES_MAX))
                    .collect();
                let quoted = ptc_lang::print::readable(&Value::str(head));
                self.write(quoted.strip_suffix('"').unwrap_or(&quoted));
                self.cut = true;
            }
            _ => self.readable(&Value::Str(text.clone())),
        }
    }

    /// Whether `text` has more characters than fit. Its bytes are an upper bound of its characters.
    fn overflows(&self, text: &str) -> bool {
        text.len() > TEXT_BYTES_MAX
            || (text.len() > self.room && text.chars().nth(self.room).is_some())
    }

    fn collection<T>(
        &mut self,
        open: &str,
        close: &str,
        total: usize,
        shown: usize,
        parts: impl Iterator<Item = T>,
        mut part: impl FnMut(&mut Self, T),
    ) {
        if self.depth == DEPTH_MAX {
            self.cut = true;
            return;
        }
        self.depth += 1;
        stack::with_room(|| {
            self.write(open);
            for (i, item) in parts.take(shown).enumerate() {
                if self.cut {
                    return;
                }
                if i > 0 {
                    self.write(" ");
                }
                part(self, item);
            }
            if total > shown {
                self.truncated = true;
                self.write(&format!(" ...{close} ({shown}/{total})"));
            } else {
                self.write(close);
            }
        });
        self.depth -= 1;
    }

    fn write(&mut self, text: &str) {
        if self.cut {
            return;
        }
        if text.len() > self.out.room() {
            self.cut = true;
            return;
        }
        if text.len() <= self.room {
            let written = self.out.push_str(text);
            self.end_on_error(written);
            // Exact counting is needed only when there is a limit.
            self.room -= if self.room == usize::MAX {
                0
            } else {
                text.chars().count()
            };
            return;
        }
        let end = text.char_indices().nth(self.room).map(|(end, _)| end);
        let written = self.out.push_str(&text[..end.unwrap_or(text.len())]);
        self.end_on_error(written);
        match end {
            Some(_) => self.cut = true,
            None => self.room -= text.chars().count(),
        }
    }
}

/// The number of entries of a map that are shown, and the string limit for each value.
fn share(len: usize, items: Option<usize>, printable: Option<usize>) -> (usize, Option<usize>) {
    let Some(limit) = printable else {
        return (items.unwrap_or(usize::MAX), None);
    };
    let shown = (limit / 30).max(1).min(items.unwrap_or(usize::MAX));
    let entries = shown.min(len).max(1);
    let each = limit.saturating_sub(10 * entries) / entries;
    (shown, Some(each.max(10)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A megabyte of brackets must not take a gigabyte of native stack.
    #[test]
    fn deep_values_are_cut() {
        let deep = |levels| (0..levels).fold(Value::Nil, |inner, _| Value::vector(vec![inner]));
        let whole = format_value(&deep(DEPTH_MAX), FormatOptions::default());
        assert_eq!((whole.text.len(), whole.cut), (2 * DEPTH_MAX + 3, false));
        let cut = format_value(&deep(DEPTH_MAX + 1), FormatOptions::default());
        assert_eq!((cut.text.len(), cut.cut), (DEPTH_MAX, true));
    }
}
