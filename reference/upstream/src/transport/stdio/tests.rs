//! A child that sends over-long ids, or hangs, is ended.

use super::*;

struct NullGroup;

impl ProcessGroup for NullGroup {
    fn signal(&self, _: Signal) {}
}

fn idle_child() -> (ChildLink, mpsc::UnboundedReceiver<Queued>) {
    let (outbox, frames) = Outbox::new();
    let shared = ChildLink {
        server: "s".into(),
        redactor: Redactor::empty(),
        next_id: AtomicU64::new(1),
        waiting: Mutex::default(),
        outbox,
        list_changed: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        output_bytes: AtomicU64::new(0),
        request_abandoned: Notify::new(),
        group: Box::new(NullGroup),
    };
    (shared, frames)
}

/// Whether a child that sends this line is ended for it.
fn ends_child(line: &str) -> bool {
    let (shared, _frames) = idle_child();
    shared.handle_line(line.as_bytes());
    shared.lock().ended.is_some()
}

#[test]
fn too_long_request_id_always_ends_the_child() {
    let request = |bytes: usize| {
        let id = "i".repeat(bytes - 2);
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#)
    };
    let most = REQUEST_ID_BYTES_MAX;
    // Beyond this length an object is no valid frame.
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
                ends_child(&line),
                ended,
                "{bytes} bytes in {before:?}, {behind:?}"
            );
        }
    }
    for other in ["", " ", "1", "[]", " [[{}]]", "null"] {
        assert!(!ends_child(other), "{other:?}");
    }
}

/// Makes a call and gives it up.
async fn give_up(shared: &ChildLink, id: u64) {
    let (reply, _answer) = oneshot::channel();
    let bytes_max = 1;
    shared
        .lock()
        .calls
        .insert(id, PendingRequest { reply, bytes_max });
    drop(PendingGuard {
        shared,
        id,
        queued: true,
    });
}

#[tokio::test]
async fn only_a_hung_child_is_ended() {
    let patience = Duration::from_millis(30);
    let (shared, mut frames) = idle_child();
    let shared = Arc::new(shared);
    let (over, ending) = watch::channel(false);
    let watching = tokio::spawn(kill_if_hung(Arc::clone(&shared), ending, patience));
    let mut said = async || {
        let queued = frames.recv().await.unwrap();
        String::from_utf8(queued.frame).unwrap()
    };

    // A child with any output is alive.
    give_up(&shared, 0).await;
    assert!(said().await.contains("notifications/cancelled"));
    assert!(said().await.contains(r#""method":"ping""#));
    shared.output_bytes.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(patience * 4).await;
    assert!(shared.lock().ended.is_none());

    // So is one that may be busy with an earlier call.
    let (reply, answer) = oneshot::channel();
    let bytes_max = 1;
    shared
        .lock()
        .calls
        .insert(1, PendingRequest { reply, bytes_max });
    shared.next_id.store(3, Ordering::Relaxed);
    give_up(&shared, 2).await;
    assert!(said().await.contains("notifications/cancelled"));
    assert!(said().await.contains(r#""method":"ping""#));
    tokio::time::sleep(patience * 4).await;
    assert!(shared.lock().ended.is_none());

    // A later call doesn't keep the child alive, and it fails with the child.
    shared.lock().calls.remove(&1);
    drop(answer);
    let (reply, answer) = oneshot::channel();
    shared
        .lock()
        .calls
        .insert(9, PendingRequest { reply, bytes_max });
    let fault = answer.await.unwrap().unwrap_err();
    assert_eq!(fault.reason, Reason::UpstreamUnavailable);
    watching.await.unwrap();
    assert!(shared.lock().ended.is_some());
    drop(over);
}
