//! The bounded preview of a `validated` value that is too large to show: JSON in, text in the language's notation out.
//!
//! Knows nothing of profiles; the budget is handed in (`mcp.profiles.validated.over`).

use ptc_rpc::{Json, JsonKind};
use unicode_segmentation::UnicodeSegmentation;

/// A preview and whether anything was left out.
#[derive(Debug, PartialEq, Eq)]
pub struct Preview {
    pub text: String,
    /// Something was left out.
    pub truncated: bool,
}

/// Items shown of one collection.
const ITEMS_MAX: usize = 20;
/// Characters of the budget that one map entry is reckoned to need.
const ENTRY_CHARS: usize = 30;
/// Least characters shown of a string.
const STRING_CHARS_MIN: usize = 10;
/// Deeper values are left out.
const DEPTH_MAX: usize = 32;

/// The preview of JSON text; `budget` is the characters of a top-level string.
pub fn of_json(json: &str, budget: usize) -> Preview {
    let mut preview = Preview {
        text: String::new(),
        truncated: false,
    };
    if let Ok(value) = ptc_rpc::parse(json.as_bytes()) {
        write(value, budget, 0, &mut preview);
    }
    preview
}

fn write(value: Json<'_>, budget: usize, depth: usize, out: &mut Preview) {
    match value.kind() {
        JsonKind::Null => out.text.push_str("nil"),
        JsonKind::Bool | JsonKind::Integer | JsonKind::Float => out.text.push_str(value.text()),
        JsonKind::String => write_text(&value.as_str().unwrap_or_default(), budget, out),
        JsonKind::Array | JsonKind::Object if depth == DEPTH_MAX => {
            out.text.push_str("...");
            out.truncated = true;
        }
        JsonKind::Array => {
            let total = value.elements().count();
            out.text.push('[');
            for (at, item) in value.elements().take(ITEMS_MAX).enumerate() {
                if at > 0 {
                    out.text.push(' ');
                }
                write(item, budget, depth + 1, out);
            }
            close(']', ITEMS_MAX, total, out);
        }
        JsonKind::Object => {
            let total = value.members().count();
            let shown = ITEMS_MAX
                .min((budget / ENTRY_CHARS).max(1))
                .min(total.max(1));
            let each = budget.saturating_sub(10 * shown) / shown;
            out.text.push('{');
            for (at, (name, item)) in value.members().take(shown).enumerate() {
                if at > 0 {
                    out.text.push(' ');
                }
                quote(&name.as_str().unwrap_or_default(), &mut out.text);
                out.text.push(' ');
                write(item, each.max(STRING_CHARS_MIN), depth + 1, out);
            }
            close('}', shown, total, out);
        }
    }
}

fn close(bracket: char, shown: usize, total: usize, out: &mut Preview) {
    match total > shown {
        true => {
            out.text
                .push_str(&format!(" ...{bracket} ({shown}/{total})"));
            out.truncated = true;
        }
        false => out.text.push(bracket),
    }
}

fn write_text(text: &str, budget: usize, out: &mut Preview) {
    let cut = text.grapheme_indices(true).nth(budget).map(|(at, _)| at);
    match cut {
        None => quote(text, &mut out.text),
        Some(at) => {
            let mut kept = text[..at].to_owned();
            kept.push_str("...");
            quote(&kept, &mut out.text);
            let total = text.graphemes(true).count();
            out.text.push_str(&format!(" ({budget}/{total} chars)"));
            out.truncated = true;
        }
    }
}

/// A string in the language's notation: escapes that its reader takes.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{C}' => out.push_str("\\f"),
            control if control.is_control() => {
                out.push_str(&format!("\\u{:04X}", u32::from(control)))
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, budget: usize) -> String {
        let preview = of_json(json, budget);
        format!(
            "{}{}",
            preview.text,
            if preview.truncated { " !" } else { "" }
        )
    }

    #[test]
    fn small_values_are_whole() {
        assert_eq!(
            check(r#"{"a":[1,2.5,null,true],"b":{}}"#, 512),
            r#"{"a" [1 2.5 nil true] "b" {}}"#
        );
        assert_eq!(check(r#""x\ny""#, 512), r#""x\ny""#);
    }

    #[test]
    fn long_values_are_cut_where_the_facts_say() {
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
    fn deep_values_end() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(check(&deep, 512).ends_with(" !"));
    }
}
