//! What happens around a directory: other users, other programs, its clock.

use super::super::owner_digest;
use super::*;
use std::os::unix::fs::chown;
use std::time::SystemTime;

const CONTENT: SealedContent<'static> = SealedContent {
    head: b"h",
    body: b"b",
};

struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new() -> Self {
        TestDirectory(tempfile::tempdir().unwrap())
    }

    fn open(&self, namespace: Namespace) -> Directory {
        Directory::open(&self.0.path().join("store"), namespace).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join("store/programs").join(name)
    }

    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.file("")).unwrap();
        let mut names: Vec<_> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn start(store: &Directory, id: &str, owner: &str) -> SessionKey {
    let key = SessionKey::of(id);
    let new = NewSession {
        key: &key,
        owner,
        ttl: Duration::from_secs(600),
        idle: Duration::from_secs(300),
        count_max: 9,
        per_owner_max: 9,
        stamp: "s",
        content: CONTENT,
    };
    store.create(&new).unwrap();
    key
}

fn lease(
    store: &Directory,
    key: &SessionKey,
    owner: &str,
    holder: &str,
) -> StoreResult<(SessionRecord, Lease)> {
    store.acquire(&LeaseRequest {
        key,
        owner,
        known: None,
        holder,
        term: Duration::from_secs(5),
    })
}

fn failed(store: &Directory) -> LoginFailure {
    let failed = FailedLogin {
        source: "source",
        window: Duration::from_secs(60),
        failures_max: 2,
        block: Duration::from_secs(60),
    };
    store.login_failed(&failed).unwrap()
}

#[test]
fn files_made_by_root_belong_to_the_stores_owner() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not asked: only root can do it");
        return;
    }
    const SERVICE: u32 = 65_534;
    let place = TestDirectory::new();
    let operators = place.0.path().join("store");
    std::fs::create_dir(&operators).unwrap();
    chown(&operators, Some(SERVICE), Some(SERVICE)).unwrap();
    let store = place.open(Namespace::Programs);
    let owner = owner_digest("a");
    let [kept, closed] = ["kept", "closed"].map(|id| start(&store, id, &owner));
    let (_, lease) = lease(&store, &kept, &owner, "one").unwrap();
    store.commit(&lease, CONTENT).unwrap();
    store.close(&closed, &owner).unwrap();
    store.mark(b"mark", None).unwrap();
    failed(&store);
    let names = place.names();
    assert_eq!(names.len(), 6, "{names:?}");
    for name in names.iter().map(String::as_str).chain([""]) {
        let data = std::fs::metadata(place.file(name)).unwrap();
        assert_eq!((data.uid(), data.gid()), (SERVICE, SERVICE), "{name:?}");
    }
    // Root does not write to what others created: their link may lead to a file of root's.
    let roots = place.0.path().join("roots");
    std::fs::write(&roots, b"precious").unwrap();
    for name in ["lock", "logins", "closed", "fresh", "tried"] {
        let _ = std::fs::remove_file(place.file(name));
        std::fs::hard_link(&roots, place.file(name)).unwrap();
    }
    failed(&store);
    store.close(&kept, &owner).unwrap();
    place.open(Namespace::Programs);
    assert_eq!(std::fs::read(&roots).unwrap(), b"precious");
    assert_eq!(std::fs::metadata(&roots).unwrap().uid(), 0);
}

#[test]
fn unexpected_files_do_not_block_sessions() {
    let place = TestDirectory::new();
    let store = place.open(Namespace::Programs);
    let owner = owner_digest("a");
    let key = start(&store, "a", &owner);
    for name in ["closed", "logins", "fresh", "tried"] {
        std::fs::create_dir_all(place.file(name).join("x")).unwrap();
    }
    let unknown = store.read(&SessionKey::of("nobody"), &owner, None).err();
    assert_eq!(unknown, Some(SessionError::NotFound.into()));
    let (_, lease) = lease(&store, &key, &owner, "one").unwrap();
    store.commit(&lease, CONTENT).unwrap();
    start(&store, "b", &owner);
    assert_eq!(store.close(&key, &owner), Ok(()));
    assert_eq!(place.open(Namespace::Programs).sweep(), Ok(1));
    std::fs::remove_dir_all(place.file("closed")).unwrap();
    std::fs::write(place.file("closed"), b"\xff").unwrap();
    let unknown = store.read(&SessionKey::of("nobody"), &owner, None).err();
    assert_eq!(unknown, Some(SessionError::NotFound.into()));
    store.close(&SessionKey::of("b"), &owner).unwrap();
    let closed = store.read(&SessionKey::of("b"), &owner, None).err();
    assert_eq!(closed, Some(SessionError::Closed.into()));
}

#[test]
fn opening_removes_own_stray_files_only() {
    let place = TestDirectory::new();
    let store = place.open(Namespace::Programs);
    let owner = owner_digest("a");
    let key = start(&store, "a", &owner);
    let body = |number| file_name(&key, number);
    let left = [
        body(7),
        file_name(&SessionKey::of("gone"), 0),
        format!("{}.new", "a".repeat(24)),
    ];
    let others = ["backup.1".to_owned(), "notes.new".to_owned(), body(8)];
    for name in left.iter().chain(&others) {
        std::fs::write(place.file(name), b"x").unwrap();
    }
    let long_ago = SystemTime::now() - STRAY_AGE * 2;
    for name in left.iter().chain(&others[..2]).chain([&body(0)]) {
        let file = OpenOptions::new().write(true).open(place.file(name));
        file.unwrap().set_modified(long_ago).unwrap();
    }
    // Works even while the directory is locked.
    let held = store.acquire_lock().unwrap();
    store.remove_strays().unwrap();
    drop(held);
    for name in &left {
        assert!(!place.file(name).exists(), "{name}");
    }
    for name in others.iter().chain([&body(0)]) {
        assert!(place.file(name).exists(), "{name}");
    }
}

#[test]
fn removed_lock_file_neither_blocks_nor_admits() {
    let place = TestDirectory::new();
    let store = place.open(Namespace::Programs);
    let removed = store.open_lock().unwrap();
    std::fs::remove_file(place.file("lock")).unwrap();
    removed.lock().unwrap();
    assert!(!store.is_current_lock(&removed).unwrap());
    let held = store.acquire_lock().unwrap();
    assert!(!store.is_current_lock(&removed).unwrap());
    let other = store.open_lock().unwrap();
    assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));

    // A waiter whose lock file is removed meanwhile waits for the next one.
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let waits = &store;
        scope.spawn(move || {
            let _held = waits.acquire_lock().unwrap();
            tell.send(()).unwrap();
        });
        let a_while = Duration::from_millis(50);
        std::thread::sleep(a_while);
        // Atomically: between a removal and our next lock, the other could create it.
        let next = File::create(place.file("next")).unwrap();
        next.lock().unwrap();
        std::fs::rename(place.file("next"), place.file("lock")).unwrap();
        assert!(store.is_current_lock(&next).unwrap());
        drop(held);
        assert!(told.recv_timeout(a_while).is_err());
        drop(next);
        told.recv().unwrap();
    });
}

#[test]
fn owned_sessions_are_removed_before_their_owner() {
    let place = TestDirectory::new();
    let store = place.open(Namespace::Protocol);
    let owner = owner_digest("a");
    let protocol = start(&store, "protocol", &owner);
    let programs = place.open(Namespace::Programs);
    let own = start(&programs, "own", protocol.as_str());
    // If they cannot be closed, a retry finds both.
    let lock = programs.open_lock().unwrap();
    lock.lock().unwrap();
    let away = store.close(&protocol, &owner);
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    drop(lock);
    assert!(programs.read(&own, protocol.as_str(), None).is_ok());
    assert_eq!(store.close(&protocol, &owner), Ok(()));
    assert_eq!(programs.sweep(), Ok(0));
}

/// Moves the clock back by a day, as seen from the directory's content.
fn set_clock_back(place: &TestDirectory, store: &Directory) {
    const DAY: i64 = 86_400_000_000;
    let held = store.acquire_lock().unwrap();
    for key in held.keys().unwrap() {
        let entry = held.entry(&key).unwrap().unwrap();
        let later = LockedDirectory {
            now: held.now + DAY,
            _lock: None,
            ..held
        };
        let mut moved = Entry {
            created: entry.created + DAY,
            expires: entry.expires + DAY,
            used: entry.used + DAY,
            until: if entry.until > 0 {
                entry.until + DAY
            } else {
                0
            },
            ..entry
        };
        later.put(&key, &mut moved, false).unwrap();
    }
    drop(held);
    let path = place.file(LOGINS);
    if let Some(bytes) = read(&path, FACTS_BYTES_MAX).unwrap() {
        let mut failures: BTreeMap<String, SourceFailures> = minicbor::decode(&bytes).unwrap();
        for of in failures.values_mut() {
            of.since += DAY;
            of.over += DAY;
            of.until += DAY;
        }
        std::fs::write(path, minicbor::to_vec(&failures).unwrap()).unwrap();
    }
}

#[test]
fn setting_the_clock_back_extends_no_lifetime() {
    let place = TestDirectory::new();
    let store = place.open(Namespace::Programs);
    let owner = owner_digest("a");
    let key = start(&store, "a", &owner);
    lease(&store, &key, &owner, "dead").unwrap();
    assert_eq!(failed(&store), LoginFailure::Counted);
    assert_eq!(failed(&store), LoginFailure::Blocks);
    set_clock_back(&place, &store);
    let listed = &store.list(None).unwrap()[0];
    let times = listed.times;
    assert!(listed.running);
    assert!(times.expires - times.now <= 600_000_000, "{times:?}");
    assert!(times.used <= times.now, "{times:?}");
    let held = store.acquire_lock().unwrap();
    let entry = held.entry(&key).unwrap().unwrap();
    assert!(entry.until - held.now <= 5_000_000, "{entry:?}");
    drop(held);
    // A source blocked for a day longer than intended is counted anew.
    assert_eq!(failed(&store), LoginFailure::Counted);
}
