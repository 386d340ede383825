//! Ids, caps and expiry, with times passed in.

use super::*;
use crate::settings::Settings;

fn sessions(arguments: &[&str]) -> ProtocolSessions {
    let arguments: Vec<String> = std::iter::once("--http")
        .chain(arguments.iter().copied())
        .map(str::to_owned)
        .collect();
    let settings = Settings::read(&arguments, |_| None).unwrap().http.unwrap();
    ProtocolSessions::new(&settings, None)
}

fn finds(sessions: &ProtocolSessions, id: &str, owner: &str, now: Instant) -> bool {
    let named = sessions.name(id, owner, now);
    named.is_ok_and(|session| sessions.check(&session, now).is_ok())
}

#[test]
fn global_cap_is_checked_first_and_closing_frees_it() {
    let (sessions, now) = (
        sessions(&["--http-max-sessions=3", "--http-max-sessions-per-owner=2"]),
        Instant::now(),
    );
    let first = sessions.open("a", now).ok().unwrap();
    assert!(first.id.starts_with("mcp_") && first.id.len() == 36);
    assert!(sessions.open("a", now).is_ok());
    assert_eq!(sessions.open("a", now).err(), Some(SessionCap::Owner));
    assert!(sessions.open("b", now).is_ok());
    assert_eq!(sessions.open("a", now).err(), Some(SessionCap::Server));
    assert!(sessions.close(&first) && !sessions.close(&first));
    assert!(sessions.open("a", now).is_ok());
}

#[test]
fn foreign_session_is_not_found() {
    let (sessions, now) = (sessions(&[]), Instant::now());
    let session = sessions.open("a", now).ok().unwrap();
    assert!(finds(&sessions, &session.id, "a", now));
    assert!(!finds(&sessions, &session.id, "b", now));
    assert!(!finds(&sessions, "mcp_x", "a", now));
}

#[test]
fn sessions_expire_by_ttl_and_idle_time() {
    let arguments = [
        "--http-session-ttl-ms=1000",
        "--http-session-idle-timeout-ms=300",
    ];
    let (sessions, start) = (sessions(&arguments), Instant::now());
    let after = |ms| start + Duration::from_millis(ms);
    let session = sessions.open("a", start).ok().unwrap();
    for ms in [200, 400, 600, 800] {
        assert!(finds(&sessions, &session.id, "a", after(ms)));
    }
    assert!(!finds(&sessions, &session.id, "a", after(1000)));
    assert_eq!(sessions.take_expired(after(1000))[0].1, ExpiryReason::Ttl);
    let other = sessions.open("a", start).ok().unwrap();
    assert!(!finds(&sessions, &other.id, "a", after(300)));
    assert_eq!(sessions.take_expired(after(300))[0].1, ExpiryReason::Idle);
    assert_eq!(sessions.count(after(1000)), 0);
}
