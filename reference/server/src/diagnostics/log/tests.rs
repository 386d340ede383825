//! Events in, lines out; waiting, dropped and scrubbed lines.

use super::*;
use ptc_secrets::Secret;
use std::process::Command;

/// Set in the process that panics.
const PANICS: &str = "TOUCHSTONE_PANICS";

fn queue() -> Queue {
    Queue {
        waiting: Mutex::default(),
        filled: Condvar::new(),
        written: Condvar::new(),
    }
}

#[test]
fn queue_is_bounded_and_dropped_lines_are_counted() {
    let queue = queue();
    let line = [b'x'; 1000];
    (0..1000).for_each(|_| queue.put(&line));
    let mut batch = Vec::new();
    let lost = queue.take(&mut batch);
    assert!((QUEUE_BYTES_MAX..QUEUE_BYTES_MAX + line.len()).contains(&batch.len()));
    assert_eq!(
        batch.len() + usize::try_from(lost).unwrap() * line.len(),
        1_000_000
    );
}

#[test]
fn long_line_is_kept_whole_and_its_memory_released() {
    let queue = queue();
    queue.put(b"short\n");
    queue.put(&[b'x'; 3 << 20]);
    let mut batch = Vec::new();
    assert_eq!(queue.take(&mut batch), 0);
    assert_eq!(batch.len(), 6 + (3 << 20));
    queue.put(b"next\n");
    assert_eq!(queue.take(&mut batch), 0);
    assert_eq!(batch, b"next\n");
    queue.put(b"last\n");
    assert_eq!(queue.take(&mut batch), 0);
    let held = batch.capacity() + queue.waiting().bytes.capacity();
    assert!(held <= 2 * QUEUE_BYTES_MAX, "{held}");
}

#[test]
fn empty_fields_object_adds_nothing() {
    let redactor = Redactor::builder().build();
    for (objects, line) in [
        (
            &["{}"][..],
            r#"{"event":"library_event","level":"info","ts":"#,
        ),
        (
            &["{}", "{\"a\":1}", "{}"],
            r#"{"event":"library_event","fields":{"a":1},"level":"info","ts":"#,
        ),
    ] {
        let mut said = LineWriter::new(&redactor);
        objects.iter().for_each(|json| said.json(FIELDS, json));
        let told = String::from_utf8(said.line(Level::Info)).unwrap();
        assert!(told.starts_with(line), "{told}");
    }
}

/// Each text of a context may be slow to scrub; what is left when the time is over is not logged.
#[test]
fn texts_of_an_argument_share_one_scrub_budget() {
    let mut secrets = Redactor::builder();
    secrets.add(&Secret::new("canary-of-the-log-0".into()));
    let redactor = secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX);
    let slow = format!("\"{}\"", r"\\134".repeat(50));
    let json = format!("[{}]", vec![slow.as_str(); 80_000].join(","));
    let mut said = LineWriter::new(&redactor);
    said.json("context", &json);
    let told = String::from_utf8(said.fields).unwrap();
    assert!(told.starts_with(&format!("\"context\":[{slow},{slow},")));
    assert!(told.ends_with(",\"[REDACTED]\",\"[REDACTED]\"]"));
}

#[test]
fn control_characters_are_escaped_everywhere() {
    let redactor = Redactor::empty();
    let mut said = LineWriter::new(&redactor);
    said.json(FIELDS, "{\"k\u{9b}\":\"\u{202e}a\u{7f}\"}");
    said.request_id = Some(scrubbed_string("r\u{85}\u{2028}é", said.redactor));
    let told = String::from_utf8(said.line(Level::Info)).unwrap();
    assert!(told.contains(r#"{"k\u009b":"\u202ea\u007f"}"#), "{told}");
    assert!(told.contains(r#""request_id":"r\u0085\u2028é""#), "{told}");
    assert!(told.ends_with("}\n"), "{told}");
}

#[test]
fn panics_are_scrubbed() {
    if std::env::var_os(PANICS).is_some() {
        let mut secrets = Redactor::builder();
        secrets.add(&Secret::new("canary-7f3a".to_owned()));
        crate::diagnostics::install(Level::Error, &secrets.build());
        panic!("token canary-7f3a is wrong");
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "diagnostics::log::tests::panics_are_scrubbed",
            "--nocapture",
        ])
        .env(PANICS, "1")
        .output()
        .unwrap();
    let told = String::from_utf8(child.stderr).unwrap();
    assert!(!child.status.success());
    assert!(told.contains("\"event\":\"panic\""), "{told}");
    assert!(told.contains("token [REDACTED] is wrong"), "{told}");
    assert!(!told.contains("canary"), "{told}");
}
