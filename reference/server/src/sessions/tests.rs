//! The life of a session in memory: turns, caps, history, its end.

use super::*;
use crate::settings::Settings;
use ptc_lang::Value;
use ptc_lang::meter::Unwatched;

fn sessions(arguments: &[&str]) -> Sessions {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    Sessions::new(Settings::read(&arguments, |_| None).unwrap().sessions, None)
}

fn effects(env: Env, value: Value) -> TurnEffects {
    TurnEffects {
        env,
        shown: value.clone(),
        value,
        prints: Vec::new(),
        tool_calls: Vec::new(),
        upstream_calls: Vec::new(),
    }
}

#[test]
fn session_runs_one_turn_at_a_time() {
    let sessions = sessions(&[]);
    let session = sessions.start("a", None, None).ok().unwrap();
    let turn = session.begin().ok().unwrap();
    assert_eq!(session.begin().err(), Some(SessionError::Busy));
    assert_eq!(session.forget(&[], &[]).err(), Some(SessionError::Busy));
    drop(turn);
    assert!(session.begin().is_ok());
}

#[test]
fn sessions_enforce_owners_caps_and_closing() {
    let sessions = sessions(&["--max-sessions=2", "--max-sessions-per-owner=1"]);
    let session = sessions.start("a", None, None).ok().unwrap();
    assert_eq!(
        sessions.start("a", None, None).err(),
        Some(SessionError::OwnerFull)
    );
    assert!(sessions.start("b", None, None).is_ok());
    assert_eq!(
        sessions.start("c", None, None).err(),
        Some(SessionError::Full)
    );
    assert_eq!(
        sessions.find(&session.id, "b").err(),
        Some(SessionError::Foreign)
    );
    assert_eq!(
        sessions.find("ptcs_x", "a").err(),
        Some(SessionError::NotFound)
    );
    sessions.close(&session.id, "a").ok().unwrap();
    assert_eq!(
        sessions.find(&session.id, "b").err(),
        Some(SessionError::Closed)
    );
    assert!(sessions.start("a", None, None).is_ok());
    sessions.forget_owner("a");
    assert_eq!(sessions.list("a").ok().unwrap().len(), 0);
}

#[test]
fn closing_a_session_ends_a_call_admitted_later() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let sessions = sessions(&[]);
    for is_taken_in in [false, true] {
        let session = sessions.start("a", None, None).ok().unwrap();
        let turn = sessions.begin(&session.id, "a", None).ok().unwrap();
        let ends = Arc::new(AtomicUsize::new(0));
        let end = {
            let ends = ends.clone();
            move || {
                ends.fetch_add(1, Ordering::Relaxed);
            }
        };
        if is_taken_in {
            turn.on_close(end);
            sessions.close(&session.id, "a").ok().unwrap();
        } else {
            sessions.close(&session.id, "a").ok().unwrap();
            turn.on_close(end);
        }
        assert_eq!(ends.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn limits_reject_turns_and_large_history_is_previewed() {
    let sessions = sessions(&[
        "--max-session-bindings=1",
        "--max-session-history-entry-bytes=60",
    ]);
    let session = sessions.start("a", None, None).ok().unwrap();
    let turn = session.begin().ok().unwrap();
    let mut env = session.env();
    env.define("a", Value::Int(1));
    let judged = |effects| {
        sessions
            .check_limits(&turn, effects, &Unwatched)
            .ok()
            .unwrap()
    };
    let checked = judged(effects(env.clone(), Value::str("x".repeat(100))))
        .ok()
        .unwrap();
    assert_eq!(checked.notices.len(), 1);
    turn.commit(turn.encode(checked).ok().unwrap())
        .ok()
        .unwrap();
    assert_eq!(
        ptc_lang::print::readable(&session.env().history()[0]),
        "{:lisp_session_preview true}"
    );
    env.define("b", Value::Int(1));
    let exceeded = judged(effects(env, Value::Nil)).err().unwrap();
    assert_eq!(
        Payload::from(exceeded).to_json(),
        r#"{"actual":2,"field":"memory","limit":"max_bindings","max":1}"#
    );
    drop(turn);
    assert_eq!(
        session.forget(&["a".into(), "zz".into()], &[]).ok(),
        Some(vec!["a".into()])
    );
}

#[test]
fn sessions_expire() {
    let sessions = sessions(&["--session-idle-timeout-ms=40"]);
    let session = sessions.start("a", None, Some(30)).ok().unwrap();
    assert!(sessions.find(&session.id, "a").is_ok());
    std::thread::sleep(Duration::from_millis(35));
    assert_eq!(
        sessions.find(&session.id, "a").err(),
        Some(SessionError::Closed)
    );
    let idle = sessions.start("a", None, None).ok().unwrap();
    std::thread::sleep(Duration::from_millis(45));
    assert_eq!(
        sessions.find(&idle.id, "a").err(),
        Some(SessionError::Closed)
    );
}
