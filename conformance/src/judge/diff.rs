//! Shows the difference of two texts, or two values, line by line. Knows nothing of what they mean.

use similar::{Algorithm, ChangeTag, TextDiff};

use crate::json::Json;

/// Up to this many characters, two single lines are readable side by side.
const LINE_CHARS_MAX: usize = 100;

/// Maximum number of lines shown; a target may write without end.
const LINES_MAX: usize = 400;

/// Maximum number of bytes compared.
const BYTES_MAX: usize = 256 << 10;

/// The difference of two values, in the form of [`lines`].
pub(super) fn values(expected: &Json, observed: &Json) -> String {
    lines(&expected.pretty(BYTES_MAX), &observed.pretty(BYTES_MAX))
}

/// `-` expected, `+` observed, three lines around each change. Empty when both are one short line.
pub(super) fn lines(expected: &str, observed: &str) -> String {
    let short = |text: &str| !text.contains('\n') && text.chars().count() <= LINE_CHARS_MAX;
    if short(expected) && short(observed) {
        return String::new();
    }
    let (expected, observed) = (cut(expected), cut(observed));
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(std::time::Duration::from_millis(200))
        .diff_lines(expected, observed);
    let mut out = String::new();
    let mut shown = 0;
    for group in diff.grouped_ops(3) {
        if shown > 0 {
            out.push_str("  …\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            if shown == LINES_MAX {
                out.push_str("  … (more)\n");
                return out;
            }
            shown += 1;
            out.push_str(match change.tag() {
                ChangeTag::Delete => "- ",
                ChangeTag::Insert => "+ ",
                ChangeTag::Equal => "  ",
            });
            out.push_str(change.value().trim_end_matches('\n'));
            out.push('\n');
        }
    }
    out
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
