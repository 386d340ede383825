//! Judges a completed command.

use super::{Judged, line, mismatch, text};
use crate::observed::CommandRun;
use crate::suite::{Captures, CliExpect, FileExpect, LineMatch, Received, Text};

/// Judges exit status, output, files, and what peers received. Keeps the captures of holes.
///
/// # Errors
/// The first difference.
pub fn command(expect: &CliExpect, run: &CommandRun, captures: &mut Captures) -> Judged {
    if run.status != Some(expect.status) {
        let status = run
            .status
            .map_or_else(|| "a signal".to_owned(), |status| status.to_string());
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        return Err(mismatch(
            "exit status",
            expect.status.to_string(),
            format!("{status} {said}").trim_end(),
        ));
    }
    let streams = [
        ("stdout", &expect.stdout, &run.stdout),
        ("stderr", &expect.stderr, &run.stderr),
    ];
    for (what, expected, observed) in streams {
        if let Some(expected) = expected {
            bytes(what, expected, observed, captures)?;
        }
    }
    for (path, expected) in &expect.files {
        let what = format!("file {path}");
        match (expected, run.files.get(path)) {
            (FileExpect::Absent, None) => {}
            (FileExpect::Absent, Some(_)) => return Err(mismatch(what, "no such file", "a file")),
            (FileExpect::Text(expected), None) => {
                return Err(mismatch(what, expected.source(), "no such file"));
            }
            (FileExpect::Text(expected), Some(observed)) => {
                bytes(&what, expected, observed, captures)?;
            }
        }
    }
    expect
        .received
        .iter()
        .try_for_each(|wanted| received(wanted, run, captures))
}

fn received(wanted: &Received, run: &CommandRun, captures: &Captures) -> Judged {
    let what = format!("peer {}", wanted.peer);
    let lines = run.received.get(&wanted.peer).map_or("", String::as_str);
    let shown = wanted.pattern.source();
    let pattern = LineMatch::Json(wanted.pattern.clone());
    let mut found = None;
    for candidate in lines.lines() {
        match line(&pattern, candidate, &mut captures.clone()) {
            Ok(true) => found = Some(candidate),
            Ok(false) => {}
            Err(error) => return Err(mismatch(what, shown, error.to_string())),
        }
    }
    match (found, wanted.present) {
        (Some(_), true) | (None, false) => Ok(()),
        (Some(candidate), false) => Err(mismatch(
            what,
            format!("no message like {shown}"),
            candidate,
        )),
        (None, true) => {
            let last: Vec<&str> = lines.lines().rev().take(5).collect();
            let count = lines.lines().count();
            let observed = format!(
                "none of {count} messages; the last ones: {}",
                last.join(" | ")
            );
            Err(mismatch(what, format!("a message like {shown}"), observed))
        }
    }
}

fn bytes(what: &str, expected: &Text, observed: &[u8], captures: &mut Captures) -> Judged {
    match std::str::from_utf8(observed) {
        Ok(observed) => text(what, expected, observed, captures),
        Err(_) => {
            let exact = expected.bytes(captures).ok();
            if exact.as_deref() == Some(observed) {
                return Ok(());
            }
            Err(mismatch(
                what,
                expected.source(),
                format!("{} (not UTF-8)", String::from_utf8_lossy(observed)),
            ))
        }
    }
}
