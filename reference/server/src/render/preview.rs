//! The bounded preview of a `validated` value that is too large to show: JSON in, text in the language's notation out.
//!
//! Knows nothing of profiles; the budget is passed in (`mcp.profiles.validated.over`).

use ptc_lang::error::Limit;
use ptc_lang::meter::Watch;
use ptc_protocol::Preview;
use ptc_rpc::{Document, Json, JsonKind};
use unicode_segmentation::UnicodeSegmentation;

/// The space for JSON text.
#[derive(Clone, Copy, Debug)]
pub struct PreviewBudget {
    /// Bytes up to which the text is shown unchanged.
    pub whole_bytes: usize,
    /// Characters of a preview's top-level string.
    pub chars: usize,
    /// Bytes of the longest preview that fits anywhere.
    pub preview_bytes: usize,
}

impl PreviewBudget {
    /// The preview of JSON text that is too long to be shown unchanged.
    ///
    /// # Errors
    /// The limit that was reached: counting the characters of long texts is a part of the call.
    pub fn preview(&self, json: &str, watch: &dyn Watch) -> Result<Option<Preview>, Limit> {
        (json.len() > self.whole_bytes)
            .then(|| preview_json(json, self.chars, self.preview_bytes, watch))
            .transpose()
    }
}

/// Items shown of one collection.
const ITEMS_MAX: usize = 20;
/// Characters of the budget that one map entry is estimated to need.
const ENTRY_CHARS: usize = 30;
/// Minimum number of characters shown of a string.
const STRING_CHARS_MIN: usize = 10;
/// Deeper values are left out.
const DEPTH_MAX: usize = 32;

/// The preview of JSON text; `budget` is the characters of a top-level string. A preview of more than `most` bytes fits nowhere, so
/// anything beyond them may be left out.
fn preview_json(
    json: &str,
    budget: usize,
    most: usize,
    watch: &dyn Watch,
) -> Result<Preview, Limit> {
    let mut preview = Preview {
        text: String::new(),
        truncated: false,
    };
    // A nested container would be scanned once for each container around it; with a parsed document the walk skips over it.
    if let Ok(document) = Document::read(json.as_bytes()) {
        let mut writer = Writer {
            out: &mut preview,
            most,
            watch,
        };
        writer.value(document.json(), budget, 0)?;
    }
    Ok(preview)
}

/// Characters that are counted before the limits are checked again.
const COUNTED_AT_ONCE: usize = 4096;

/// The characters of a text, as a reader counts them.
fn count_characters(text: &str, watch: &dyn Watch) -> Result<usize, Limit> {
    // Of ASCII only a line end has two bytes.
    if text.is_ascii() {
        return Ok(text.len() - text.matches("\r\n").count());
    }
    let mut characters = text.graphemes(true);
    let mut total = 0;
    loop {
        let counted = characters.by_ref().take(COUNTED_AT_ONCE).count();
        total += counted;
        if counted < COUNTED_AT_ONCE {
            return Ok(total);
        }
        watch.check_limits()?;
    }
}

struct Writer<'p> {
    out: &'p mut Preview,
    most: usize,
    watch: &'p dyn Watch,
}

impl Writer<'_> {
    fn push(&mut self, text: &str) {
        if self.out.text.len() <= self.most {
            self.out.text.push_str(text);
        }
    }

    fn value(&mut self, value: Json<'_>, budget: usize, depth: usize) -> Result<(), Limit> {
        self.watch.check_limits()?;
        match value.kind() {
            JsonKind::Null => self.push("nil"),
            JsonKind::Bool | JsonKind::Integer | JsonKind::Float => self.push(value.text()),
            JsonKind::String => self.text(&value.as_str().unwrap_or_default(), budget)?,
            JsonKind::Array | JsonKind::Object if depth == DEPTH_MAX => {
                self.push("...");
                self.out.truncated = true;
            }
            JsonKind::Array => {
                self.push("[");
                let mut total = 0;
                for item in value.elements() {
                    if total < ITEMS_MAX {
                        self.push(if total > 0 { " " } else { "" });
                        self.value(item, budget, depth + 1)?;
                    }
                    total += 1;
                }
                self.close("]", ITEMS_MAX, total);
            }
            JsonKind::Object => {
                let total = value.members().count();
                let shown = ITEMS_MAX
                    .min((budget / ENTRY_CHARS).max(1))
                    .min(total.max(1));
                let each = budget.saturating_sub(10 * shown) / shown;
                self.push("{");
                for (at, (name, item)) in value.members().take(shown).enumerate() {
                    self.push(if at > 0 { " " } else { "" });
                    self.quote(&name.as_str().unwrap_or_default());
                    self.push(" ");
                    self.value(item, each.max(STRING_CHARS_MIN), depth + 1)?;
                }
                self.close("}", shown, total);
            }
        }
        Ok(())
    }

    fn close(&mut self, bracket: &str, shown: usize, total: usize) {
        if total > shown {
            self.push(&format!(" ...{bracket} ({shown}/{total})"));
            self.out.truncated = true;
        } else {
            self.push(bracket);
        }
    }

    fn text(&mut self, text: &str, budget: usize) -> Result<(), Limit> {
        let cut = text.grapheme_indices(true).nth(budget).map(|(at, _)| at);
        match cut {
            None => self.quote(text),
            Some(at) => {
                self.quote(&format!("{}...", &text[..at]));
                let total = count_characters(text, self.watch)?;
                self.push(&format!(" ({budget}/{total} chars)"));
                self.out.truncated = true;
            }
        }
        Ok(())
    }

    /// A string in the language's notation, with escapes that its reader accepts.
    fn quote(&mut self, text: &str) {
        self.push("\"");
        for letter in text.chars() {
            match letter {
                '"' => self.push("\\\""),
                '\\' => self.push("\\\\"),
                '\n' => self.push("\\n"),
                '\t' => self.push("\\t"),
                '\r' => self.push("\\r"),
                '\u{8}' => self.push("\\b"),
                '\u{C}' => self.push("\\f"),
                control if control.is_control() => {
                    self.push(&format!("\\u{:04X}", u32::from(control)));
                }
                other => self.push(other.encode_utf8(&mut [0; 4])),
            }
        }
        self.push("\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptc_lang::meter::Unwatched;

    fn check(json: &str, budget: usize) -> String {
        let preview = preview_json(json, budget, usize::MAX, &Unwatched).expect("no limit");
        format!(
            "{}{}",
            preview.text,
            if preview.truncated { " !" } else { "" }
        )
    }

    #[test]
    fn small_values_are_shown_whole() {
        assert_eq!(
            check(r#"{"a":[1,2.5,null,true],"b":{}}"#, 512),
            r#"{"a" [1 2.5 nil true] "b" {}}"#
        );
        assert_eq!(check(r#""x\ny""#, 512), r#""x\ny""#);
    }

    #[test]
    fn long_values_are_truncated_at_the_documented_limits() {
        let list = format!(
            "[{}]",
            (0..3000)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(",")
        );
        assert!(check(&list, 1024).ends_with(" 18 19 ...] (20/3000) !"));
        let text = format!("\"{}\"", "x".repeat(32767));
        assert!(check(&text, 1024).ends_with("x...\" (1024/32767 chars) !"));
        let map = format!(
            "{{\"note\":\"{}\",\"rows\":[],\"total\":2000}}",
            "n".repeat(3000)
        );
        assert_eq!(
            check(&map, 1024),
            format!(
                "{{\"note\" \"{}...\" (331/3000 chars) \"rows\" [] \"total\" 2000}} !",
                "n".repeat(331)
            )
        );
    }

    #[test]
    fn characters_are_counted_as_readers_see_them() {
        for text in [
            "",
            "abc",
            "a\r\nb",
            "e\u{301}\r\n🦀",
            &"é".repeat(2 * COUNTED_AT_ONCE),
        ] {
            let counted = count_characters(text, &Unwatched).expect("no limit");
            assert_eq!(counted, text.graphemes(true).count(), "{text:.20}");
        }
    }

    #[test]
    fn counting_long_texts_ends_at_the_limit() {
        struct Over;
        impl Watch for Over {
            fn check_limits(&self) -> Result<(), Limit> {
                Err(Limit::Time)
            }
        }
        assert_eq!(
            count_characters(&"é".repeat(COUNTED_AT_ONCE), &Over),
            Err(Limit::Time)
        );
        let json = format!("[\"{}\"]", "é".repeat(COUNTED_AT_ONCE));
        assert!(preview_json(&json, 10, 100, &Over).is_err());
    }

    #[test]
    fn deep_values_are_truncated() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(check(&deep, 512).ends_with(" !"));
    }
}
