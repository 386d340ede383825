//! A child whose ids grow too long is given up.

use super::*;

struct Nobody;

impl Group for Nobody {
    fn signal(&self, _: Signal) {}
}

/// Whether a child that says this line is ended for it.
fn ends(line: &str) -> bool {
    let (outbox, _frames) = Outbox::new();
    let shared = Shared {
        server: "s".into(),
        redactor: Redactor::empty(),
        next_id: AtomicU64::new(1),
        waiting: Mutex::default(),
        outbox,
        list_changed: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        group: Box::new(Nobody),
    };
    shared.take_line(line.as_bytes());
    shared.lock().ended.is_some()
}

#[test]
fn no_way_to_write_a_request_keeps_a_child_with_too_long_an_id() {
    let request = |bytes: usize| {
        let id = "i".repeat(bytes - 2);
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#)
    };
    let most = REQUEST_ID_BYTES_MAX;
    // Beyond it an object is no frame any more.
    const FRAME_ID_BYTES_MAX: usize = 4096;
    for (before, behind) in [
        ("", ""),
        (" ", ""),
        ("\t", " "),
        ("\r\n  ", "\r"),
        ("[", "]"),
        (" [ 1, ", "\t]"),
        (r#"[{"jsonrpc":"2.0","method":"m"},"#, "]"),
    ] {
        for (bytes, ended) in [
            (most, false),
            (most + 1, true),
            (FRAME_ID_BYTES_MAX, true),
            (FRAME_ID_BYTES_MAX + 1, true),
            (1_000_000, true),
        ] {
            let line = format!("{before}{}{behind}", request(bytes));
            assert_eq!(
                ends(&line),
                ended,
                "{bytes} bytes in {before:?}, {behind:?}"
            );
        }
    }
    for other in ["", " ", "1", "[]", " [[{}]]", "null"] {
        assert!(!ends(other), "{other:?}");
    }
}
