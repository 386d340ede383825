//! Makes the texts of a record safe to display. Targets choose many of them, and the author of a report that is read back all of them:
//! none may control a terminal, imitate the harness's own lines, break a document, or fill a page. Knows only the record.

use std::fmt::{self, Write as _};

use super::{CaseRecord, Finding, Run};
use crate::cut;
use crate::traffic::Traffic;

/// Longest single-line text that is shown, in bytes.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Longest multi-line text that is shown, in bytes.
const BLOCK_BYTES_MAX: usize = 64 << 10;
/// Maximum number of combining marks on one character; more would be drawn over the lines around it.
const MARKS_MAX: usize = 4;
/// Prefixes of lines that a runner of CI workflows interprets as commands, even after blanks.
const CI_COMMANDS: &[&str] = &["::", "##["];

/// Whether a terminal or an editor interprets a character instead of showing it: C0 and C1 control characters, line and paragraph
/// separators, and characters that change the direction of text.
pub fn is_interpreted(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is written as its number: one that is interpreted, that is invisible on its own, or that is not permitted in
/// XML.
pub fn needs_escape(character: char) -> bool {
    is_interpreted(character)
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        )
        || matches!(character, '\u{fffe}' | '\u{ffff}')
}

/// Whether a character is a combining mark, drawn above, below or through the one before it.
fn is_mark(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
    )
}

/// A text for a terminal or a log, with interpreted characters made visible. Line breaks are kept.
#[derive(Debug, Clone, Copy)]
pub struct Visible<'a>(pub &'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.0.split('\n').enumerate() {
            if number > 0 {
                f.write_char('\n')?;
            }
            let begun = line.trim_start();
            let command = CI_COMMANDS.iter().any(|command| begun.starts_with(command));
            let at = line.len() - begun.len();
            let mut marks = 0;
            for (index, character) in line.char_indices() {
                let forged = command && index == at;
                marks = if is_mark(character) { marks + 1 } else { 0 };
                if forged || marks > MARKS_MAX || character != '\t' && needs_escape(character) {
                    write!(f, "{}", character.escape_unicode())?;
                } else {
                    f.write_char(character)?;
                }
            }
        }
        Ok(())
    }
}

/// A text on one line.
fn line(text: &str) -> String {
    let mut out = String::new();
    for character in cut::to_bytes(text, LINE_BYTES_MAX).chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push(' '),
            plain => out.push(plain),
        }
    }
    Visible(&out).to_string()
}

/// A text of several lines.
pub fn block(text: &str) -> String {
    Visible(&cut::to_bytes(text, BLOCK_BYTES_MAX)).to_string()
}

fn sanitize_option(show: fn(&str) -> String, text: Option<&String>) -> Option<String> {
    text.map(|text| show(text))
}

fn sanitize_all(show: fn(&str) -> String, texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| show(text)).collect()
}

impl Run {
    /// The run with all its texts made safe to display. Only the JSON report keeps them unchanged.
    #[must_use]
    pub fn sanitized(&self) -> Self {
        // Without `..`, so that no new member is forgotten here.
        let Self {
            format,
            harness,
            target,
            server,
            suite_cases,
            suite_digest,
            partial,
            interrupted,
            strict,
            duration_ms,
            cases,
            complaints,
        } = self;
        Self {
            format: *format,
            harness: line(harness),
            target: line(target),
            server: sanitize_option(line, server.as_ref()),
            suite_cases: *suite_cases,
            suite_digest: sanitize_option(line, suite_digest.as_ref()),
            partial: *partial,
            interrupted: *interrupted,
            strict: *strict,
            duration_ms: *duration_ms,
            cases: cases.iter().map(CaseRecord::sanitized).collect(),
            complaints: sanitize_all(block, complaints),
        }
    }
}

impl CaseRecord {
    fn sanitized(&self) -> Self {
        let Self {
            id,
            page,
            section,
            clause,
            sentence,
            place,
            divergence,
            expected_by,
            rulings,
            why,
            transport,
            status,
            cause,
            message,
            findings,
            unobserved,
            source,
            traffic,
            stderr,
            duration_us,
            by_hand,
            rerun,
        } = self;
        let finding = |finding: &Finding| {
            let Finding {
                at,
                expected,
                observed,
                diff,
            } = finding;
            Finding {
                at: line(at),
                expected: block(expected),
                observed: block(observed),
                diff: block(diff),
            }
        };
        let frame = |frame: &Traffic| Traffic {
            direction: frame.direction,
            text: block(&frame.text),
        };
        Self {
            id: line(id),
            page: line(page),
            section: line(section),
            clause: sanitize_option(line, clause.as_ref()),
            sentence: sanitize_option(line, sentence.as_ref()),
            place: line(place),
            divergence: sanitize_option(line, divergence.as_ref()),
            expected_by: *expected_by,
            rulings: rulings.clone(),
            why: sanitize_option(line, why.as_ref()),
            transport: *transport,
            status: *status,
            cause: sanitize_option(line, cause.as_ref()),
            message: sanitize_option(line, message.as_ref()),
            findings: findings.iter().map(finding).collect(),
            unobserved: sanitize_all(line, unobserved),
            source: sanitize_option(block, source.as_ref()),
            traffic: traffic.iter().map(frame).collect(),
            stderr: sanitize_option(block, stderr.as_ref()),
            duration_us: *duration_us,
            by_hand: sanitize_option(block, by_hand.as_ref()),
            rerun: sanitize_option(line, rerun.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::difference;
    use crate::report::tests::{record, run};
    use crate::report::{Format, Status, matrix, terminal};
    use crate::traffic::Direction;

    /// Terminal commands, markup of every document format, lines that imitate the harness's own.
    const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{7}\u{0}\u{7f}\u{202e}\u{2028}\u{200b}\u{e0041}\u{feff}\u{fffe}\u{ffff}</script><blink>]]>&amp; # TODO | \\| `x` ![a](http://e/a.png)\r\nok 99 - forged\n  ::error::forged\nconforms\n";

    fn hostile() -> Run {
        let text = HOSTILE.to_owned();
        let case = |number: usize, status| CaseRecord {
            id: format!("{text}{number}"),
            page: text.clone(),
            section: text.clone(),
            clause: Some(text.clone()),
            sentence: Some(text.clone()),
            place: text.clone(),
            divergence: Some(text.clone()),
            why: Some(text.clone()),
            cause: Some(text.clone()),
            message: Some(text.clone()),
            findings: vec![Finding {
                at: text.clone(),
                expected: text.clone(),
                observed: text.clone(),
                diff: String::new(),
            }],
            unobserved: vec![text.clone()],
            source: Some(text.clone()),
            traffic: vec![Traffic::new(Direction::Received, &text)],
            stderr: Some(text.clone()),
            by_hand: Some(text.clone()),
            rerun: Some(text.clone()),
            ..record("x", status)
        };
        let cases = Status::ALL.into_iter().enumerate();
        let mut run = run(
            &text,
            cases.map(|(number, status)| case(number, status)).collect(),
        );
        run.server = Some(text.clone());
        run.harness.clone_from(&text);
        run.complaints = vec![text];
        run
    }

    /// Checks that `document` contains nothing unsafe, apart from the harness's own colours.
    fn check(document: &str) -> String {
        let plain = anstream::adapter::strip_str(document).to_string();
        let numbered = |c: char| !matches!(c, '\n' | '\t') && needs_escape(c);
        assert_eq!(plain.find(numbered), None, "{plain}");
        let command = |line: &str| line.trim_start().starts_with("::");
        assert!(!plain.lines().any(command), "{plain}");
        plain
    }

    /// As `check`, for a text that is read line by line: no line may imitate the harness's own.
    fn check_lines(document: &str) {
        let plain = check(document);
        let forged = |line: &str| line.starts_with("ok 99") || line == "conforms";
        assert!(!plain.lines().any(forged), "{plain}");
    }

    #[test]
    fn target_text_cannot_control_forge_or_break_reports() {
        let hostile = hostile();
        for format in [
            Format::Junit,
            Format::Tap,
            Format::Markdown,
            Format::Html,
            Format::Badge,
            Format::Badges,
        ] {
            let document = format.render(&hostile).expect("a document");
            match format {
                Format::Tap | Format::Markdown => check_lines(&document),
                _ => {
                    check(&document);
                    let is_markup = document.contains("<blink>");
                    assert!(!is_markup, "{document}");
                }
            }
        }
        let shown = hostile.sanitized();
        check_lines(&terminal::render(&shown));
        check_lines(&terminal::verdict(&shown));
        let other = run("other", vec![record("x/1", Status::Pass)]);
        check_lines(&difference(&other, &shown).render());
        let matrix = matrix::join(&[(shown.target.clone(), shown)]);
        check_lines(&matrix.render());
        check(&matrix.html().expect("a page"));
    }

    #[test]
    fn markdown_report_contains_no_target_markup() {
        let document = Format::Markdown.render(&hostile()).expect("a document");
        // After an odd number of backticks the text is code, in which only the row's own bars have a meaning.
        for line in document.lines().filter(|line| line.contains("![a]")) {
            let at = line.find("![a]").unwrap_or_default();
            let is_code = line[..at].contains('`') || line.starts_with("<details>");
            assert!(is_code, "{line}");
        }
        let rows = document.lines().filter(|line| line.starts_with('|'));
        for row in rows.filter(|row| row.contains("![a]") && !row.contains("---")) {
            let bars = row.replace("\\|", "").matches('|').count();
            assert!(bars == 4 || bars == 5, "{bars} bars: {row}");
        }
    }

    #[test]
    fn combining_marks_are_limited() {
        let shown = block(&format!("e{}x\u{301}", "\u{301}".repeat(300)));
        let most = shown
            .split(|c| !is_mark(c))
            .map(|marks| marks.chars().count())
            .max();
        assert_eq!(most, Some(MARKS_MAX), "{shown}");
        assert!(shown.ends_with("\\u{301}x\u{301}"), "{shown}");
    }

    #[test]
    fn long_text_is_truncated_with_its_length() {
        let mut long = run("t", vec![record("x/1", Status::Fail)]);
        long.cases[0].message = Some("é".repeat(1 << 20));
        long.cases[0].source = Some("x".repeat(1 << 20));
        let shown = long.sanitized();
        let message = shown.cases[0].message.as_deref().unwrap_or_default();
        assert!(
            message.len() < 5000 && message.ends_with("… (2097152 bytes)"),
            "{message}"
        );
        let source = shown.cases[0].source.as_deref().unwrap_or_default();
        assert!(source.len() < 70_000 && source.ends_with("… (1048576 bytes)"));
    }
}
