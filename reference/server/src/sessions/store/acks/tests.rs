//! Which nodes are waited for, and how long.

use super::*;

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(1);

fn listening() -> Acks {
    let acks = Acks::new();
    assert_eq!(acks.question(), None, "it would hear no answer");
    acks.set_listening(true);
    acks
}

#[test]
fn wait_includes_every_listener() {
    let acks = listening();
    let question = acks.question().unwrap();
    assert_eq!(Acks::asker(&question), Some(acks.node()));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| acks.wait(&question, 2, LONG));
        acks.answer(&question, "a");
        // A second answer of the same node does not count.
        acks.answer(&question, "a");
        acks.answer("another question", "b");
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        acks.answer(&question, "b");
    });
    assert!(acks.state().answered.is_empty());
}

#[test]
fn silent_listeners_are_waited_for_only_once() {
    let acks = listening();
    let (first, second) = (acks.question().unwrap(), acks.question().unwrap());
    acks.answer(&first, "a");
    acks.wait(&first, 2, SHORT);
    acks.answer(&second, "a");
    acks.wait(&second, 2, LONG);
    // With another number of listeners, the silent nodes may be different ones.
    let third = acks.question().unwrap();
    acks.answer(&third, "a");
    acks.wait(&third, 3, SHORT);
    assert_eq!(acks.state().silent, (3, 2));
    acks.answer(&first, "b");
    assert_eq!(acks.state().silent, (0, 0));
}

#[test]
fn untrusted_names_and_questions_are_bounded() {
    let acks = listening();
    let question = acks.question().unwrap();
    acks.answer(&question, &"x".repeat(TEXT_BYTES_MAX + 1));
    assert!(acks.state().answered[&question].is_empty());
    assert_eq!(
        Acks::asker(&format!("a.{}", "x".repeat(TEXT_BYTES_MAX))),
        None
    );
    assert_eq!(Acks::asker("nobody"), None);
    acks.forget(&question);
    assert!(acks.state().answered.is_empty());
}
