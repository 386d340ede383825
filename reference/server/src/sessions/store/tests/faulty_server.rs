//! Servers that are broken or not a store at all: they send nothing, nonsense, or errors. Whatever they reply, each operation ends within
//! a bounded time, and none panics.

use crate::sessions::SharedSessions;
use crate::sessions::store::*;
use crate::settings::Settings;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Replies to commands in place of a Redis server. Its threads end with the connections.
struct FakeRedis {
    port: u16,
    connections: Arc<AtomicUsize>,
}

/// A reply that stands for closing the connection.
const HANG_UP: &[u8] = b"hangs up";

/// The reply to a command; `None` is silence.
type Respond = dyn Fn(&[String]) -> Option<Vec<u8>> + Send + Sync;

impl FakeRedis {
    fn start(respond: impl Fn(&[String]) -> Option<Vec<u8>> + Send + Sync + 'static) -> FakeRedis {
        FakeRedis::start_with(respond, None)
    }

    /// A server that, once it gets a script, sends the same bytes after each pause, forever.
    fn endless(begin: &str, bytes: Vec<u8>, pause: Duration) -> FakeRedis {
        let begin = begin.as_bytes().to_vec();
        let respond =
            move |command: &[String]| standard_reply(command).or_else(|| Some(begin.clone()));
        FakeRedis::start_with(respond, Some((bytes, pause)))
    }

    fn start_with(
        respond: impl Fn(&[String]) -> Option<Vec<u8>> + Send + Sync + 'static,
        endless: Option<(Vec<u8>, Duration)>,
    ) -> FakeRedis {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (respond, counted): (Arc<Respond>, _) = (Arc::new(respond), connections.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::AcqRel);
                let (respond, endless) = (respond.clone(), endless.clone());
                std::thread::spawn(move || serve_client(stream, &*respond, endless));
            }
        });
        FakeRedis { port, connections }
    }

    /// A server that accepts connections and sends nothing.
    fn silent() -> FakeRedis {
        FakeRedis::start(|_| None)
    }

    /// A server that works except for its scripts.
    fn scripts(answer: Vec<u8>) -> FakeRedis {
        FakeRedis::start(move |command| {
            Some(standard_reply(command).unwrap_or_else(|| answer.clone()))
        })
    }

    fn open(&self, scheme: &str, path: &str) -> Box<dyn SessionStore> {
        self::open_at(&format!("{scheme}://127.0.0.1:{}{path}", self.port))
    }
}

fn open_at(url: &str) -> Box<dyn SessionStore> {
    open(&Address::read(url).unwrap().unwrap(), Namespace::Programs).unwrap()
}

/// The replies of any working server, except to scripts.
fn standard_reply(command: &[String]) -> Option<Vec<u8>> {
    let answer: &[u8] = match command.first()?.as_str() {
        "PING" => b"+PONG\r\n",
        "ROLE" => b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",
        "EVALSHA" | "EVAL" => return None,
        _ => b"+OK\r\n",
    };
    Some(answer.to_vec())
}

fn serve_client(stream: TcpStream, respond: &Respond, endless: Option<(Vec<u8>, Duration)>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(command) = read_command(&mut reader) {
        if let Some(answer) = respond(&command)
            && (answer == HANG_UP || stream.write_all(&answer).is_err())
        {
            return;
        }
        if let Some((bytes, pause)) = &endless
            && standard_reply(&command).is_none()
        {
            loop {
                std::thread::sleep(*pause);
                if stream.write_all(bytes).is_err() {
                    return;
                }
            }
        }
    }
}

fn read_command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let number = |reader: &mut dyn BufRead| -> Option<usize> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.get(1..)?.trim().parse().ok()
    };
    let count = number(reader)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(reader)? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}

/// Far more than [`STORE_TIMEOUT`], for a busy machine, yet bounded.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

fn assert_unavailable<T: std::fmt::Debug>(answer: StoreResult<T>, what: &str) {
    assert!(
        matches!(answer, Err(StoreError::Unavailable(_))),
        "{what}: {answer:?}"
    );
}

#[test]
fn silent_store_is_reported_unavailable_promptly() {
    let silent = FakeRedis::silent();
    for (scheme, path) in [
        ("redis", ""),
        ("rediss", ""),
        ("redis+sentinel", "/main"),
        ("redis+cluster", ""),
    ] {
        let store = silent.open(scheme, path);
        let since = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_unavailable(store.sweep(), scheme));
            }
        });
        assert!(
            since.elapsed() < TEST_TIMEOUT,
            "{scheme}: {:?}",
            since.elapsed()
        );
        // From then on requests fail without being sent.
        let refused = Err(StoreError::Unavailable(
            "it did not answer a moment ago".into(),
        ));
        (0..50).for_each(|_| assert_eq!(store.sweep(), refused, "{scheme}"));
    }
}

#[test]
fn endless_reply_is_abandoned() {
    let tenth = Duration::from_millis(100);
    // One byte at a time, each long before a read times out; and more elements than are allowed.
    for (begin, bytes, pause) in [
        ("$1000000\r\n", b"x".to_vec(), tenth),
        ("+", b"x".to_vec(), tenth),
        ("*1000000\r\n", b":1\r\n".to_vec(), tenth),
    ] {
        let endless = FakeRedis::endless(begin, bytes, pause);
        let store = endless.open("redis", "");
        let since = Instant::now();
        assert_unavailable(store.sweep(), begin);
        assert!(
            since.elapsed() < TEST_TIMEOUT,
            "{begin:?}: {:?}",
            since.elapsed()
        );
    }
}

#[test]
fn oversized_reply_fails_only_its_own_request() {
    let endless = FakeRedis::endless("$400000000\r\n", vec![b'x'; 1 << 20], Duration::ZERO);
    let store = endless.open("redis", "");
    for asked in 1..=2 {
        let answer = store.sweep();
        assert!(
            matches!(answer, Err(StoreError::UnknownOutcome(_))),
            "{answer:?}"
        );
        // Each request is sent, on one connection: no thread probes a store that is reachable.
        assert_eq!(endless.connections.load(Ordering::Acquire), asked);
    }
}

/// Each element becomes a value, and a line is re-read for each chunk of it: hundreds of times as much work and memory as their bytes.
#[test]
fn replies_with_too_many_elements_are_abandoned_early() {
    for (begin, bytes) in [
        ("*2000000000\r\n", "_\r\n"),
        ("*2000000000\r\n", "*0\r\n"),
        ("*2000000000\r\n", "*1\r\n$1\r\n\n\r\n"),
        ("*2000000000\r\n", "$-1\r\n"),
        ("%2000000000\r\n", ":1\r\n"),
        ("+", "x"),
        ("-ERR ", "x"),
        ("(", "9"),
    ] {
        let many = bytes.repeat(1 << 10).into_bytes();
        let store = FakeRedis::endless(begin, many, Duration::ZERO).open("redis", "");
        let since = Instant::now();
        let answer = store.sweep();
        let told = format!("{answer:?}");
        assert!(told.contains("too large"), "{begin:?} {bytes:?}: {told}");
        // Its bytes alone would get 32 s.
        let took = since.elapsed();
        assert!(took < TEST_TIMEOUT / 2, "{begin:?} {bytes:?}: {took:?}");
    }
    // As many bulk strings as a list of thousands of sessions has, some of them long, are accepted.
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let texts = text("ok") + &text(&"\r\n$9:".repeat(100)).repeat(30_000);
    let many = FakeRedis::scripts(format!("*30001\r\n{texts}").into_bytes());
    let store = many.open("redis", "");
    for _ in 0..2 {
        // The reply is not a number, and so is refused, but it was read to its end.
        assert_unavailable(store.sweep(), "texts");
    }
    assert_eq!(many.connections.load(Ordering::Acquire), 1);
}

const LEASE_FENCE: u64 = 7;

fn lease() -> Lease {
    Lease {
        key: SessionKey::of("k"),
        fence: LEASE_FENCE,
        version: 0,
        holder: "h".into(),
    }
}

/// Whether a command is EVAL with the text of this file.
fn is_script(command: &[String], text: &str) -> bool {
    command[0] == "EVAL" && command[1].ends_with(text)
}

macro_rules! is {
    ($command:expr, $name:literal) => {
        is_script(
            $command,
            include_str!(concat!("../scripts/", $name, ".lua")),
        )
    };
}

const OK_SEVEN: &[u8] = b"*2\r\n$2\r\nok\r\n:7\r\n";
const FULL: &[u8] = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n";
const UNKNOWN_SCRIPT: &[u8] = b"-NOSCRIPT No matching script.\r\n";

#[test]
fn rejection_after_a_lost_reply_leaves_commit_unknown() {
    let content = SealedContent {
        head: b"h",
        body: b"b",
    };
    // Commits get these replies in turn; everything else succeeds.
    let commits = |answers: &'static [&'static [u8]]| {
        let asked = AtomicUsize::new(0);
        FakeRedis::start(move |command| {
            Some(standard_reply(command).unwrap_or_else(|| {
                match command.iter().any(|word| word == "b") {
                    true => answers[asked.fetch_add(1, Ordering::AcqRel)].to_vec(),
                    false => OK_SEVEN.to_vec(),
                }
            }))
        })
    };
    let commit = |fake: &FakeRedis| {
        let store = fake.open("redis", "");
        // Leaves an idle connection.
        assert_eq!(store.sweep(), Ok(7));
        store.commit(&lease(), content)
    };
    assert_eq!(
        commit(&commits(&[FULL])),
        Err(SessionError::StoreFull.into())
    );
    for second in [FULL, b"*1\r\n$4\r\nlost\r\n", b"*1\r\n$6\r\nclosed\r\n"] {
        let answers: &[&[u8]] = Vec::leak(vec![HANG_UP, second]);
        let told = commit(&commits(answers));
        assert!(
            matches!(told, Err(StoreError::UnknownOutcome(_))),
            "{told:?}"
        );
    }
    assert_eq!(commit(&commits(&[HANG_UP, OK_SEVEN])), Ok(()));
}

#[test]
fn cluster_redirects_are_followed() {
    let content = SealedContent {
        head: b"",
        body: b"",
    };
    // Both have the keys in turn, and redirect requests when they don't have them.
    let keys_at = Arc::new(AtomicUsize::new(0));
    let places = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let servers = [0, 1].map(|own| {
        let (keys_at, places) = (keys_at.clone(), places.clone());
        FakeRedis::start(move |command| {
            let at = keys_at.load(Ordering::Acquire);
            if at == own {
                return standard_reply(command).or(Some(FULL.to_vec()));
            }
            let other = places.get(at).map_or(1, |at| at.load(Ordering::Acquire));
            match command[0].as_str() {
                "EXISTS" | "EVALSHA" => Some(format!("-MOVED 1 :{other}\r\n").into_bytes()),
                _ => standard_reply(command),
            }
        })
    });
    for (place, server) in places.iter().zip(&servers) {
        place.store(server.port.into(), Ordering::Release);
    }
    let store = servers[0].open("redis+cluster", "");
    for at in [0, 1, 0, 1] {
        keys_at.store(at, Ordering::Release);
        // A server that redirects has done nothing, so a refusal after a redirect means that nothing was kept.
        let refused = Err(SessionError::StoreFull.into());
        assert_eq!(store.commit(&lease(), content), refused);
    }
    assert!(
        servers
            .iter()
            .all(|server| server.connections.load(Ordering::Acquire) > 1)
    );
    // Servers that only redirect to each other are given up.
    keys_at.store(0, Ordering::Release);
    places[0].store(servers[1].port.into(), Ordering::Release);
    assert_unavailable(servers[1].open("redis+cluster", "").sweep(), "a circle");
    keys_at.store(9, Ordering::Release);
    assert_unavailable(store.sweep(), "nobody");
}

/// Takes this many bytes of its first commit, then pauses, and resumes until it has all; replies at once to everything else.
fn slow(bytes: usize, pause: Duration) -> u16 {
    // A commit ends with the argument that turns off its checks; every other command is less than half as long as the smallest piece of a
    // commit.
    const END: &[u8] = b"$1\r\n0\r\n";
    const SMALL: usize = 4 << 10;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut chunk, mut end, mut taken) = (vec![0; 64 << 10], Vec::new(), 0);
                let mut paused = false;
                while let Ok(count @ 1..) = stream.read(&mut chunk) {
                    let is_small = taken == 0 && count < SMALL;
                    taken += count;
                    end.extend_from_slice(&chunk[count - count.min(END.len())..count]);
                    end.drain(..end.len().saturating_sub(END.len()));
                    if !is_small && taken > bytes && !paused {
                        paused = true;
                        std::thread::sleep(pause);
                    }
                    if is_small || end == END {
                        taken = 0;
                        if stream.write_all(OK_SEVEN).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    port
}

#[test]
fn large_sessions_get_extra_transfer_time() {
    let body = vec![b'x'; 48 << 20];
    let content = SealedContent {
        head: b"h",
        body: &body,
    };
    let open = |port| open_at(&format!("redis://127.0.0.1:{port}"));
    // Longer than any small exchange may take; 48 MiB get twelve seconds more.
    let store = open(slow(1 << 20, Duration::from_secs(3)));
    assert_eq!(store.sweep(), Ok(7));
    assert_eq!(store.commit(&lease(), content), Ok(()));
    // An exchange that never ends is no reason to refuse others.
    let store = open(slow(1 << 20, Duration::from_secs(600)));
    let content = SealedContent {
        body: &body[..4 << 20],
        ..content
    };
    for _ in 0..2 {
        assert_eq!(store.sweep(), Ok(7));
        let told = store.commit(&lease(), content);
        assert!(
            matches!(told, Err(StoreError::UnknownOutcome(_))),
            "{told:?}"
        );
    }
    assert_eq!(store.sweep(), Ok(7));
}

#[test]
fn lease_on_another_owners_session_is_released() {
    let released = Arc::new(AtomicUsize::new(0));
    let noted = released.clone();
    let fake = FakeRedis::start(move |command| {
        let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let record = |owner: &str| {
            let times = ":1\r\n".repeat(4);
            let version = ":0\r\n";
            [
                text("ok"),
                text(owner),
                times,
                version.into(),
                text("s"),
                version.into(),
                text("h"),
            ]
            .concat()
        };
        Some(match command[0].as_str() {
            "EVALSHA" => UNKNOWN_SCRIPT.to_vec(),
            // A server that was changed by hand: the protocol session belongs to another owner.
            "EVAL" if is!(command, "acquire") => {
                let (outer, inner) = (record("somebody else"), record(&command[6]));
                let body = text("b");
                format!("*11\r\n{outer}*12\r\n{inner}{body}:{LEASE_FENCE}\r\n").into_bytes()
            }
            "EVAL" if is!(command, "release") => {
                assert_eq!(command[6], LEASE_FENCE.to_string());
                noted.fetch_add(1, Ordering::AcqRel);
                b"*1\r\n$2\r\nok\r\n".to_vec()
            }
            // The mark in the format from before checksums were introduced.
            "EVAL" if is!(command, "mark") => {
                format!("*2\r\n{}{}", text("ok"), text("\0ptc session store")).into_bytes()
            }
            _ => standard_reply(command)?,
        })
    });
    let address = format!("--session-store=redis://127.0.0.1:{}", fake.port);
    let settings = Settings::read(&[address], |_| None).unwrap().sessions;
    let shared = SharedSessions::open(&settings, Duration::from_secs(1))
        .unwrap()
        .unwrap();
    let begun = shared.begin("ptcs_x", "session", Some("owner"));
    assert_eq!(begun.err(), Some(SessionError::Foreign));
    assert_eq!(released.load(Ordering::Acquire), 1);
}

/// A sentinel that names this master, or none.
fn sentinel(master: Option<u16>) -> FakeRedis {
    FakeRedis::start(move |command| match (command[0].as_str(), master) {
        ("SENTINEL", Some(port)) => {
            assert_eq!(command[2], "main");
            let port = port.to_string();
            let length = port.len();
            Some(format!("*2\r\n$9\r\n127.0.0.1\r\n${length}\r\n{port}\r\n").into_bytes())
        }
        ("SENTINEL", None) => Some(b"*-1\r\n".to_vec()),
        _ => standard_reply(command),
    })
}

#[test]
fn sentinels_are_tried_until_one_knows_the_master() {
    let well = || FakeRedis::scripts(b"*2\r\n$2\r\nok\r\n:7\r\n".to_vec());
    let master = well();
    let (silent, knows, none) = (
        FakeRedis::silent(),
        sentinel(Some(master.port)),
        sentinel(None),
    );
    let at = |sentinels: &[&FakeRedis]| {
        let servers: Vec<String> = sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port))
            .collect();
        open_at(&format!("redis+sentinel://{}/main", servers.join(",")))
    };
    let store = at(&[&silent, &none, &knows]);
    // A busy machine may take longer than one sentinel is given.
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !holds() {
            assert!(since.elapsed() < 2 * TEST_TIMEOUT, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until("no master is found", &|| store.sweep() == Ok(7));
    until("the one that knew is not asked first", &|| {
        let before = silent.connections.load(Ordering::Acquire);
        let found = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| store.sweep())).collect();
            asked
                .into_iter()
                .all(|asked| asked.join().unwrap() == Ok(7))
        });
        found && silent.connections.load(Ordering::Acquire) == before
    });
    assert_unavailable(at(&[&none]).sweep(), "no master");
    let replica = FakeRedis::start(|command| match command[0].as_str() {
        "ROLE" => Some(b"*1\r\n$5\r\nslave\r\n".to_vec()),
        _ => standard_reply(command),
    });
    assert_unavailable(at(&[&sentinel(Some(replica.port))]).sweep(), "a replica");
    assert_unavailable(
        at(&[&sentinel(Some(silent.port))]).sweep(),
        "a silent master",
    );
}

#[test]
fn connection_steps_share_one_timeout() {
    let pause = |part: u32| std::thread::sleep(STORE_TIMEOUT * part / 10);
    // Together longer than the time limit of a reply, though each part is shorter.
    let forgetful = FakeRedis::start(move |command| match command[0].as_str() {
        "EVALSHA" => {
            pause(5);
            Some(UNKNOWN_SCRIPT.to_vec())
        }
        "EVAL" => {
            pause(5);
            Some(OK_SEVEN.to_vec())
        }
        _ => standard_reply(command),
    });
    assert_unavailable(forgetful.open("redis", "").sweep(), "a text after a digest");
    // The check of the role belongs to connecting.
    let hesitant = FakeRedis::start(move |command| match command[0].as_str() {
        "ROLE" => {
            pause(4);
            standard_reply(command)
        }
        _ => Some(standard_reply(command).unwrap_or_else(|| OK_SEVEN.to_vec())),
    });
    let sentinel = sentinel(Some(hesitant.port));
    assert_unavailable(sentinel.open("redis+sentinel", "/main").sweep(), "a role");
}

/// The reply of a script with this number.
fn count_reply(count: u8) -> Vec<u8> {
    format!("*2\r\n$2\r\nok\r\n:{count}\r\n").into_bytes()
}

#[test]
fn reply_with_trailing_data_is_rejected() {
    // Either may belong to another request, so neither the first nor the second is returned to anybody.
    let twice = [count_reply(1), count_reply(2)].concat();
    let store = FakeRedis::scripts(twice).open("redis", "");
    let swept = store.sweep();
    assert!(swept.is_err(), "{swept:?}");
    let texts = |count: usize| {
        let texts = "$3\r\na\nb\r\n".repeat(count);
        format!("*3\r\n$2\r\nok\r\n:7\r\n*{count}\r\n{texts}").into_bytes()
    };
    for nested in [texts(0), texts(1), texts(5_000)] {
        let store = FakeRedis::scripts(nested).open("redis", "");
        assert!((0..3).all(|_| matches!(store.sweep(), Ok(7))));
    }
}

#[test]
fn unsolicited_reply_is_not_used() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let fake = FakeRedis::start_with(
        move |command| {
            let answer = standard_reply(command);
            answer.or_else(|| Some(count_reply(counted.fetch_add(1, Ordering::AcqRel) as u8)))
        },
        Some((count_reply(99), Duration::from_millis(30))),
    );
    let store = fake.open("redis", "");
    for count in 0..4 {
        let swept = store.sweep();
        assert!(matches!(swept, Ok(told) if told == count), "{swept:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn listener_reconnects_after_a_dead_connection() {
    // It confirms each subscription, sends one message, and then nothing any more.
    let told = b"*3\r\n$9\r\nsubscribe\r\n$19\r\n{ptc}:programs:told\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$19\r\n{ptc}:programs:told\r\n$5\r\nhello\r\n";
    let dead = FakeRedis::start(move |command| match command[0].as_str() {
        "SUBSCRIBE" => Some(told.to_vec()),
        "PING" | "UNSUBSCRIBE" => None,
        _ => standard_reply(command),
    });
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let store = dead.open("redis", "");
    store.subscribe(Box::new(move |word| {
        counted.fetch_add(
            usize::from(word == StoreEvent::Message("hello")),
            Ordering::AcqRel,
        );
        counted.load(Ordering::Acquire) < 2
    }));
    let since = Instant::now();
    while count.load(Ordering::Acquire) < 2 {
        assert!(since.elapsed() < 4 * TEST_TIMEOUT, "it stays deaf");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn subscribe_returns_once_subscribed() {
    let subscribed = Arc::new(AtomicUsize::new(0));
    let counted = subscribed.clone();
    let slow = FakeRedis::start(move |command| {
        if command[0] == "SUBSCRIBE" {
            std::thread::sleep(Duration::from_millis(100));
            counted.fetch_add(1, Ordering::AcqRel);
        }
        standard_reply(command)
    });
    slow.open("redis", "").subscribe(Box::new(|_| false));
    assert_eq!(subscribed.load(Ordering::Acquire), 1);
    // A node that cannot subscribe does not wait forever.
    let since = Instant::now();
    FakeRedis::silent()
        .open("redis", "")
        .subscribe(Box::new(|_| false));
    assert!(since.elapsed() < 2 * TEST_TIMEOUT);
}

/// Replies that a server may send to scripts.
fn nonsense() -> Vec<Vec<u8>> {
    let texts = [
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "-ASK 1 127.0.0.1:1\r\n",
        "-CLUSTERDOWN Hash slot not served\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-MISCONF Redis is configured to save RDB snapshots\r\n",
        "-NOSCRIPT No matching script.\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-NOPERM this user has no permissions\r\n",
        "-ERR unknown command\r\n",
        "-\r\n",
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n$2\r\nok\r\n",
        "*1\r\n$7\r\nnothing\r\n",
        "*2\r\n$2\r\nok\r\n$-1\r\n",
        "*2\r\n$2\r\nok\r\n:-1\r\n",
        "*2\r\n$2\r\nok\r\n:9223372036854775807\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$-9\r\n",
        "*9223372036854775807\r\n",
        "%9223372036854775807\r\n",
        "%4611686018427387903\r\n",
        "$9223372036854775807\r\n",
        "$18446744073709551615\r\n",
        "=-1\r\n",
        ">9223372036854775807\r\n",
        "|4611686018427387904\r\n",
        "\0\0\0\0\r\n",
        "",
    ];
    let mut all: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    all.push("*1\r\n".repeat(5_000).into_bytes());
    all.push(vec![0xff; 5_000]);
    // A part of a valid reply.
    all.push(b"*12\r\n$2\r\nok\r\n$1\r\na\r\n:1\r\n".to_vec());
    all
}

/// What the server sends appears in a log line for each failure.
#[test]
fn long_server_errors_are_not_quoted() {
    let long = "x".repeat(100_000);
    let word = format!("*1\r\n${}\r\n{long}\r\n", long.len());
    let error = format!("-ERR {}\r\n", &long[..10_000]);
    for answer in [word, error] {
        let store = FakeRedis::scripts(answer.into_bytes()).open("redis", "");
        let told = store.sweep().unwrap_err().to_string();
        assert!(told.len() < 600, "{told:.300}");
    }
    let store = FakeRedis::scripts(b"-ERR a word\r\n".to_vec()).open("redis", "");
    let told = store.sweep().unwrap_err().to_string();
    assert!(told.contains("a word"), "{told}");
}

#[test]
fn nonsense_replies_cause_no_panic_or_delay() {
    let (key, content) = (
        SessionKey::of("k"),
        SealedContent {
            head: b"h",
            body: b"b",
        },
    );
    let new = NewSession {
        key: &key,
        owner: "o",
        ttl: Duration::from_secs(60),
        idle: Duration::from_secs(60),
        count_max: 1,
        per_owner_max: 1,
        stamp: "s",
        content,
    };
    let acquire = LeaseRequest {
        key: &key,
        owner: "o",
        known: None,
        holder: "h",
        term: Duration::from_secs(1),
    };
    let lease = lease();
    let failed = FailedLogin {
        source: "s",
        window: Duration::from_secs(1),
        failures_max: 1,
        block: Duration::from_secs(1),
    };
    type Asks<'a> = &'a (dyn Fn(&dyn SessionStore) -> bool + Sync);
    // Whether the operation succeeded as if the reply were valid.
    let operations: [(&str, Asks<'_>); 14] = [
        ("mark", &|store| store.mark(b"m", None).is_ok()),
        ("create", &|store| store.create(&new).is_ok()),
        ("read", &|store| store.read(&key, "o", None).is_ok()),
        ("acquire", &|store| store.acquire(&acquire).is_ok()),
        ("acquire_within", &|store| {
            store.acquire_within(store, "p", &acquire).is_ok()
        }),
        ("commit", &|store| store.commit(&lease, content).is_ok()),
        ("release", &|store| store.release(&lease).is_ok()),
        ("close", &|store| store.close(&key, "o").is_ok()),
        ("close_owner", &|store| store.close_owner("o").is_ok()),
        ("list", &|store| store.list(None).is_ok()),
        ("sweep", &|store| store.sweep().is_ok()),
        ("login_failed", &|store| store.login_failed(&failed).is_ok()),
        ("login_succeeded", &|store| {
            store.login_succeeded("s").is_ok()
        }),
        ("broadcast", &|store| store.broadcast("t").is_ok()),
    ];
    std::thread::scope(|scope| {
        for answer in nonsense() {
            let shown = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
            let is_right = ["*1\r\n$2\r\nok", "*2\r\n$2\r\nok"]
                .iter()
                .any(|begin| answer.starts_with(begin.as_bytes()));
            let fake = FakeRedis::scripts(answer);
            for (name, ask) in &operations {
                let (store, shown) = (fake.open("redis", ""), shown.clone());
                scope.spawn(move || {
                    let since = Instant::now();
                    let did = ask(&*store);
                    assert!(!did || is_right, "{name} takes {shown:?} for an answer");
                    assert!(since.elapsed() < TEST_TIMEOUT, "{name}, {shown:?}");
                });
            }
        }
    });
}
