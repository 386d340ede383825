//! The same rules for every store: both reply alike to a random history. Redis is tested where `redis-server` is installed.

mod faulty_server;
#[path = "../../../tests/support/ports.rs"]
mod ports;

use super::*;
use ports::free_port;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A redis-server of its own, killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn redis(directory: &Path) -> Option<(Server, String)> {
    let port = free_port();
    let child = Command::new("redis-server")
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ])
        .arg("--dir")
        .arg(directory)
        .stdout(Stdio::null())
        .spawn()
        .inspect_err(|error| eprintln!("not asked: redis-server: {error}"))
        .ok()?;
    let server = Server(child);
    let url = format!("redis://127.0.0.1:{port}");
    for _ in 0..500 {
        let address = Address::read(&url).unwrap().unwrap();
        let store = open(&address, Namespace::Programs).unwrap();
        if store.sweep().is_ok() {
            return Some((server, url));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("redis-server does not answer");
}

/// A store's reply without its clock times.
fn describe(answer: StoreResult<SessionRecord>) -> String {
    match answer {
        Ok(record) => format!(
            "{} {} {} {} {:?} {:?}",
            record.version,
            record.stamp,
            record.running,
            record.times.expires - record.times.created,
            record.head,
            record.body,
        ),
        Err(failure) => failure.to_string(),
    }
}

/// Runs a random history that does not depend on the clock.
fn run_history(store: &dyn SessionStore, seed: u64) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let keys: Vec<SessionKey> = (0..4)
        .map(|number| SessionKey::of(&format!("{seed}/{number}")))
        .collect();
    let owners = [owner_digest("a"), owner_digest("b")];
    let mut leases: Vec<Lease> = Vec::new();
    let mut said = Vec::new();
    for step in 0..60 {
        let key = &keys[random.usize(..keys.len())];
        let owner = &owners[usize::from(random.u8(..10) == 0)];
        let content = [step];
        let content = SealedContent {
            head: &content,
            body: &content,
        };
        let known = random.bool().then(|| format!("{}", random.u8(..60)));
        said.push(match random.u8(..12) {
            0..3 => {
                let new = NewSession {
                    key,
                    owner,
                    ttl: Duration::from_secs(1_000),
                    idle: Duration::from_secs(100),
                    count_max: 3,
                    per_owner_max: 2,
                    stamp: "new",
                    content,
                };
                // Created again, it stays as it is; otherwise an id is never used twice.
                match store.create(&new) {
                    Ok(times) => format!("made {}", times.expires - times.created),
                    Err(failure) => failure.to_string(),
                }
            }
            3..5 => describe(store.read(key, owner, known.as_deref())),
            5..8 => {
                let holder = step.to_string();
                let acquire = LeaseRequest {
                    key,
                    owner,
                    known: known.as_deref(),
                    holder: &holder,
                    term: Duration::from_secs(100),
                };
                match store.acquire(&acquire) {
                    Ok((record, lease)) => {
                        let again = store.acquire(&LeaseRequest {
                            known: None,
                            ..acquire
                        });
                        assert_eq!(again.unwrap().1.fence, lease.fence);
                        let said = format!("{} {}", lease.fence, describe(Ok(record)));
                        leases.push(lease);
                        said
                    }
                    Err(failure) => failure.to_string(),
                }
            }
            8..10 if !leases.is_empty() => {
                // Old leases are tried as well.
                let lease = &leases[random.usize(..leases.len())];
                format!(
                    "{:?} {:?}",
                    store.commit(lease, content),
                    store.commit(lease, content)
                )
            }
            10 if !leases.is_empty() => {
                let lease = &leases[random.usize(..leases.len())];
                format!("{:?}", store.release(lease))
            }
            11 if random.u8(..3) == 0 => format!("{:?}", store.close(key, owner)),
            _ => {
                let mut records = store.list(Some(owner)).unwrap();
                records.sort_by(|left, right| left.key.cmp(&right.key));
                let records: Vec<String> = records
                    .into_iter()
                    .map(|record| describe(Ok(record)))
                    .collect();
                format!("{} of {:?}: {records:?}", records.len(), store.sweep())
            }
        });
    }
    for owner in &owners {
        store.close_owner(owner).unwrap();
    }
    assert_eq!(store.sweep(), Ok(0));
    said
}

#[test]
fn stores_agree_on_random_histories() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(
        &Address::Directory(directory.path().join("store")),
        Namespace::Programs,
    )
    .unwrap();
    let Some((_server, url)) = redis(directory.path()) else {
        // The rules alone: an acknowledged commit is what is read next.
        run_history(&*file, 1);
        return;
    };
    let redis = open(&Address::read(&url).unwrap().unwrap(), Namespace::Programs).unwrap();
    for seed in 0..25 {
        let (left, right) = (run_history(&*file, seed), run_history(&*redis, seed));
        for (step, (left, right)) in left.iter().zip(&right).enumerate() {
            assert_eq!(left, right, "seed {seed}, step {step}");
        }
    }
}

/// Failed logins and marks, for every store.
fn check_logins_and_marks(store: &dyn SessionStore, name: &str) {
    let failed = |source, window, block| {
        let failed = FailedLogin {
            source,
            window: Duration::from_millis(window),
            failures_max: 3,
            block: Duration::from_millis(block),
        };
        store.login_failed(&failed).unwrap()
    };
    const LONG: u64 = 60_000;
    let thrice = |source, window, block| {
        (0..3)
            .map(|_| failed(source, window, block))
            .collect::<Vec<_>>()
    };
    let counted = LoginFailure::Counted;
    assert_eq!(
        thrice("a", LONG, LONG),
        [counted, counted, LoginFailure::Blocks],
        "{name}"
    );
    assert!(
        matches!(failed("a", LONG, LONG), LoginFailure::Blocked(left) if left > Duration::from_secs(50)),
        "{name}"
    );
    // A success ends neither a block nor another source's count.
    store.login_succeeded("a").unwrap();
    assert!(matches!(failed("a", LONG, LONG), LoginFailure::Blocked(_)));
    assert_eq!(
        [failed("b", LONG, LONG), failed("b", LONG, LONG)],
        [counted; 2]
    );
    store.login_succeeded("b").unwrap();
    assert_eq!(
        [failed("b", LONG, LONG), failed("b", LONG, LONG)],
        [counted; 2]
    );
    // The end of a block keeps the count, the end of a window does not.
    assert_eq!(thrice("c", LONG, 20)[2], LoginFailure::Blocks, "{name}");
    assert_eq!(thrice("d", 20, 20)[0], counted, "{name}");
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(failed("c", LONG, 20), LoginFailure::Blocks, "{name}");
    assert_eq!(failed("d", 20, 20), counted, "{name}");

    assert_eq!(store.mark(b"one", None).unwrap(), b"one", "{name}");
    assert_eq!(store.mark(b"two", None).unwrap(), b"one", "{name}");
    assert_eq!(store.mark(b"two", Some(b"other")).unwrap(), b"one");
    assert_eq!(store.mark(b"two", Some(b"one")).unwrap(), b"two", "{name}");
    assert_eq!(store.mark(b"one", None).unwrap(), b"two", "{name}");
}

/// Lifetimes and leases, for every store.
fn check_lifetimes(store: &dyn SessionStore, name: &str) {
    let wait = |ms| std::thread::sleep(Duration::from_millis(ms));
    let (owner, content) = (
        owner_digest("a"),
        SealedContent {
            head: b"h",
            body: b"b",
        },
    );
    let start = |name: &str, ttl, idle| {
        let key = SessionKey::of(name);
        let new = NewSession {
            key: &key,
            owner: &owner,
            ttl: Duration::from_millis(ttl),
            idle: Duration::from_millis(idle),
            count_max: 9,
            per_owner_max: 9,
            stamp: "s",
            content,
        };
        store.create(&new).unwrap();
        key
    };
    let lease = |key: &SessionKey, term| {
        store.acquire(&LeaseRequest {
            key,
            owner: &owner,
            known: None,
            holder: name,
            term: Duration::from_millis(term),
        })
    };

    // An expired lease commits nothing, even if nobody else took the session.
    let key = start("term", 60_000, 60_000);
    let (_, late) = lease(&key, 30).unwrap();
    wait(60);
    assert_eq!(
        store.commit(&late, content),
        Err(SessionError::LeaseLost.into()),
        "{name}"
    );
    let (_, next) = lease(&key, 10_000).unwrap();
    assert!(next.fence > late.fence);
    assert_eq!(
        store.commit(&late, content),
        Err(SessionError::LeaseLost.into()),
        "{name}"
    );
    assert_eq!(store.commit(&next, content), Ok(()), "{name}");
    assert_eq!(store.read(&key, &owner, None).unwrap().version, 1, "{name}");

    // A running program prevents the idle timeout.
    let key = start("idle", 60_000, 80);
    let (_, running) = lease(&key, 10_000).unwrap();
    wait(120);
    assert_eq!(store.commit(&running, content), Ok(()), "{name}");
    assert!(store.read(&key, &owner, None).is_ok(), "{name}");
    wait(120);
    assert_eq!(
        store.read(&key, &owner, None).err(),
        Some(SessionError::Closed.into()),
        "{name}"
    );

    // A lease with the same fencing token from before the store was restored is a different lease.
    let key = start("number", 60_000, 60_000);
    let (_, now) = lease(&key, 10_000).unwrap();
    let before = Lease {
        holder: "another".into(),
        ..now.clone()
    };
    let lost = Err(SessionError::LeaseLost.into());
    assert_eq!(store.commit(&before, content), lost, "{name}");
    store.release(&before).unwrap();
    assert!(store.read(&key, &owner, None).unwrap().running, "{name}");
    assert_eq!(store.commit(&now, content), Ok(()), "{name}");
    assert_eq!(store.commit(&before, content), lost, "{name}");
    assert_eq!(store.commit(&now, content), Ok(()), "{name}");

    // No session outlives its lifetime, even while a program runs in it.
    let key = start("ttl", 80, 60_000);
    let (_, running) = lease(&key, 10_000).unwrap();
    wait(120);
    assert_eq!(
        store.commit(&running, content),
        Err(SessionError::Closed.into()),
        "{name}"
    );
    assert_eq!(
        store.read(&key, &owner, None).err(),
        Some(SessionError::Closed.into()),
        "{name}"
    );

    // Closed by another client meanwhile.
    let key = start("closed", 60_000, 60_000);
    let (_, running) = lease(&key, 10_000).unwrap();
    store.close(&key, &owner).unwrap();
    assert_eq!(
        store.commit(&running, content),
        Err(SessionError::Closed.into()),
        "{name}"
    );
    assert_eq!(store.release(&running), Ok(()), "{name}");
}

#[test]
fn sessions_and_leases_expire() {
    let directory = tempfile::tempdir().unwrap();
    let file = open(
        &Address::Directory(directory.path().join("store")),
        Namespace::Programs,
    )
    .unwrap();
    check_lifetimes(&*file, "file");
    check_logins_and_marks(&*file, "file");
    if let Some((_server, url)) = redis(directory.path()) {
        let redis = open(&Address::read(&url).unwrap().unwrap(), Namespace::Programs).unwrap();
        check_lifetimes(&*redis, "redis");
        check_logins_and_marks(&*redis, "redis");
    }
}

#[test]
fn restarted_store_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let Some((server, url)) = redis(directory.path()) else {
        return;
    };
    let store = open(&Address::read(&url).unwrap().unwrap(), Namespace::Programs).unwrap();
    assert_eq!(store.sweep(), Ok(0));
    drop(server);
    assert!(matches!(store.sweep(), Err(StoreError::Unavailable(_))));
    let port = url.rsplit_once(':').unwrap().1;
    let child = Command::new("redis-server")
        .args(["--port", port, "--bind", "127.0.0.1", "--save", ""])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Server(child);
    let found = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        store.sweep() == Ok(0)
    });
    assert!(found);
}

#[test]
fn directory_survives_a_restart_and_reports_damage() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Directory(directory.path().join("store"));
    let (key, owner) = (SessionKey::of("k"), owner_digest("a"));
    let first = open(&address, Namespace::Programs).unwrap();
    let new = NewSession {
        key: &key,
        owner: &owner,
        ttl: Duration::from_secs(60),
        idle: Duration::from_secs(60),
        count_max: 1,
        per_owner_max: 1,
        stamp: "s",
        content: SealedContent {
            head: b"h",
            body: b"b",
        },
    };
    first.create(&new).unwrap();
    drop(first);
    let second = open(&address, Namespace::Programs).unwrap();
    assert_eq!(
        second.read(&key, &owner, None).unwrap().body.as_deref(),
        Some(&b"b"[..])
    );
    // A flipped bit must not turn a session into another session, life or owner.
    let head = directory
        .path()
        .join(format!("store/programs/{}.head", key.as_str()));
    let sound = std::fs::read(&head).unwrap();
    for at in 0..sound.len() * 8 {
        let mut flipped = sound.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        std::fs::write(&head, flipped).unwrap();
        let told = second.read(&key, &owner, None).err();
        assert_eq!(told, Some(SessionError::Unreadable.into()), "bit {at}");
    }
    std::fs::write(&head, &sound).unwrap();
    assert!(second.read(&key, &owner, None).is_ok());
    // The same holds for the entry of another session, a link, or a socket; and none of them affects other sessions.
    let foreign = SessionKey::of("foreign");
    let place = directory.path().join("store/programs");
    let place = place.join(format!("{}.head", foreign.as_str()));
    std::fs::write(&place, &sound).unwrap();
    let told = second.read(&foreign, &owner, None).err();
    assert_eq!(told, Some(SessionError::Unreadable.into()));
    std::fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink(&place, &place).unwrap();
    let told = second.read(&foreign, &owner, None).err();
    assert_eq!(told, Some(SessionError::Unreadable.into()));
    assert_eq!(second.list(Some(&owner)).unwrap().len(), 1);
    std::fs::remove_file(&place).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&place).unwrap();
    let told = second.read(&foreign, &owner, None).err();
    assert_eq!(told, Some(SessionError::Unreadable.into()));
    assert_eq!(second.list(Some(&owner)).unwrap().len(), 1);
    std::fs::remove_file(&place).unwrap();
    // A truncated file does not count as a session that never existed, and does not affect others.
    std::fs::write(&head, b"\x8a").unwrap();
    assert_eq!(
        second.read(&key, &owner, None).err(),
        Some(SessionError::Unreadable.into())
    );
    assert_eq!(second.sweep(), Ok(0));
    let other = SessionKey::of("other");
    assert!(second.create(&NewSession { key: &other, ..new }).is_ok());
    assert_eq!(second.list(Some(&owner)).unwrap().len(), 1);
    // However large a file is made, it is not read into memory, and does not affect others.
    let large = |name: &str| {
        let path = directory.path().join("store/programs").join(name);
        let file = std::fs::File::create(path).unwrap();
        file.set_len(1 << 40).unwrap();
    };
    large(&format!("{}.0", other.as_str()));
    let unreadable = Some(SessionError::Unreadable.into());
    assert_eq!(second.read(&other, &owner, None).err(), unreadable);
    assert_eq!(second.list(Some(&owner)).unwrap().len(), 1);
    large(&format!("{}.head", other.as_str()));
    assert_eq!(second.read(&other, &owner, None).err(), unreadable);
    assert_eq!(second.list(Some(&owner)).unwrap().len(), 0);
    large("logins");
    assert_eq!(second.login_succeeded("source"), Ok(()));
    large("closed");
    let unknown = Some(SessionError::NotFound.into());
    let told = second.read(&SessionKey::of("nobody"), &owner, None).err();
    assert_eq!(told, unknown);
    // A pipe in place of a file, which nobody writes to, is not a file either.
    let pipe = |name: &str| {
        let path = directory.path().join("store/programs").join(name);
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    for name in [format!("{}.head", other.as_str()), "logins".into()] {
        pipe(&name);
    }
    assert_eq!(second.read(&other, &owner, None).err(), unreadable);
    assert_eq!(second.login_succeeded("source"), Ok(()));
    pipe("closed");
    let told = second.read(&SessionKey::of("nobody"), &owner, None).err();
    assert_eq!(told, unknown);
    pipe("lock");
    let told = second.read(&SessionKey::of("nobody"), &owner, None).err();
    assert!(matches!(told, Some(StoreError::Unavailable(_))), "{told:?}");
    // No link redirects writes elsewhere.
    let elsewhere = directory.path().join("elsewhere");
    let failed = FailedLogin {
        source: "source",
        window: Duration::from_secs(1),
        failures_max: 1,
        block: Duration::from_secs(1),
    };
    let place = directory.path().join("store/programs/lock");
    std::fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
    let told = second.login_failed(&failed);
    let away = Some(StoreError::Unavailable("it is a link".into()));
    assert_eq!((told.err(), elsewhere.exists()), (away, false));
    std::fs::remove_file(&place).unwrap();
    // Removed sessions are gone, and new sessions are kept; while the directory itself is missing, nothing is.
    let store = directory.path().join("store");
    std::fs::remove_dir_all(store.join("programs")).unwrap();
    assert_eq!(second.list(Some(&owner)).unwrap().len(), 0);
    std::fs::remove_dir_all(&store).unwrap();
    let told = second.list(Some(&owner)).err();
    assert!(matches!(told, Some(StoreError::Unavailable(_))), "{told:?}");
    std::fs::create_dir(&store).unwrap();
    assert!(second.create(&new).is_ok());
    assert!(second.read(&key, &owner, None).is_ok());
    std::fs::write(directory.path().join("file"), b"").unwrap();
    assert!(
        open(
            &Address::Directory(directory.path().join("file")),
            Namespace::Programs
        )
        .is_err()
    );
}
