//! A store whose content somebody else modifies: what servers with a key detect, and what they can't. `dist/cluster/README.md`
//! makes the same statements.

use super::*;

const KEY: &str = "0123456789abcdef";
const TOKENS: [&str; 2] = [
    "token-of-one-owner-0123456789abcdef",
    "token-of-another-owner-0123456789ab",
];

/// A Redis with a server for each of two owners, which share a key.
struct ForgedStore {
    store: Store,
    nodes: [Node; 2],
    key_file: PathBuf,
    _directory: tempfile::TempDir,
}

impl ForgedStore {
    fn start() -> Option<ForgedStore> {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::redis(directory.path())?;
        let key_file = directory.path().join("key");
        std::fs::write(&key_file, KEY.repeat(4)).unwrap();
        let nodes = TOKENS.map(|token| ForgedStore::node(&store, &key_file, token));
        Some(ForgedStore {
            store,
            nodes,
            key_file,
            _directory: directory,
        })
    }

    fn node(store: &Store, key_file: &Path, token: &str) -> Node {
        let flags = [
            "--session-store-key-file",
            key_file.to_str().unwrap(),
            "--http-auth-token",
            token,
        ];
        Node::start(&store.url(), &flags, &[])
    }

    /// A server with empty caches.
    fn fresh(&self, owner: usize) -> Node {
        ForgedStore::node(&self.store, &self.key_file, TOKENS[owner])
    }

    fn ask_owner(&self, node: &Node, owner: usize, tool: &str, arguments: &Value) -> Value {
        let fields = format!("\r\nAuthorization: Bearer {}", TOKENS[owner]);
        call_with(node.address, &fields, tool, arguments).unwrap()
    }

    fn eval(&self, node: &Node, owner: usize, session: &str, program: &str) -> Value {
        let arguments = json!({"session_id": session, "program": program});
        self.ask_owner(node, owner, "session_eval", &arguments)
    }

    fn new_session(&self, owner: usize) -> String {
        let started = self.ask_owner(&self.nodes[owner], owner, "session_start", &json!({}));
        started["session_id"].as_str().unwrap().to_owned()
    }

    /// The existing records.
    fn records(&self) -> Vec<Vec<u8>> {
        let keys = self.store.ask(&[b"KEYS", b"{ptc}:programs:session:*"]);
        let Resp::Many(keys) = keys else {
            panic!("{keys:?}")
        };
        keys.iter().map(Resp::bytes).collect()
    }

    fn get(&self, record: &[u8], field: &str) -> Vec<u8> {
        self.store.ask(&[b"HGET", record, field.as_bytes()]).bytes()
    }

    fn set(&self, record: &[u8], field: &str, value: &[u8]) {
        self.store.ask(&[b"HSET", record, field.as_bytes(), value]);
    }
}

/// The fields that a commit writes.
const PARTS: [&str; 4] = ["head", "body", "stamp", "version"];

#[test]
fn forged_content_is_rejected_with_a_key() {
    let Some(all) = ForgedStore::start() else {
        return;
    };
    let victim = all.new_session(0);
    all.eval(&all.nodes[0], 0, &victim, "(def secret 42)");
    let record = all.records().remove(0);
    let told = |cause: &str, owner: usize, session: &str| {
        let fresh = all.fresh(owner);
        let reply = all.eval(&fresh, owner, session, "secret");
        assert_eq!(
            reply["reason"],
            json!("session_unreadable"),
            "{cause}: {reply}"
        );
        // Others are not affected, and the server stays ready.
        let listed = all.ask_owner(&fresh, owner, "session_list", &json!({}));
        assert_eq!(listed["status"], json!("ok"), "{cause}: {listed}");
        assert_eq!(fresh.request("GET /ready HTTP/1.1", "").unwrap().0, 200);
    };
    // Empty or replaced values of sealed fields, and invalid values of clear-text fields that decide how the record is treated.
    for (field, forged) in [
        ("head", vec![]),
        ("head", b"\x00\xa0".to_vec()),
        ("body", vec![]),
        ("body", b"\x00\xa0".to_vec()),
        ("expires", b"nan".to_vec()),
        ("until", b"inf".to_vec()),
        ("fence", b"-1".to_vec()),
        ("version", b"123456789012345678901234567890".to_vec()),
        ("used", vec![]),
        ("stamp", b"\xff".to_vec()),
    ] {
        let kept = all.get(&record, field);
        all.set(&record, field, &forged);
        told(&format!("{field} {forged:?}"), 0, &victim);
        all.set(&record, field, &kept);
    }
    for field in ["head", "body"] {
        let kept = all.get(&record, field);
        let mut changed = kept.clone();
        changed[kept.len() / 2] ^= 1;
        all.set(&record, field, &changed);
        told(&format!("a bit of {field}"), 0, &victim);
        all.store.ask(&[b"HDEL", &record, field.as_bytes()]);
        told(&format!("no {field}"), 0, &victim);
        all.set(&record, field, &kept);
    }
    assert_eq!(
        all.eval(&all.fresh(0), 0, &victim, "secret")["text"],
        shown("42")
    );

    // Under another id.
    let other = all.new_session(1);
    all.eval(&all.nodes[1], 1, &other, "(def mine 1)");
    let of_other = all
        .records()
        .into_iter()
        .find(|key| *key != record)
        .unwrap();
    let kept = PARTS.map(|field| all.get(&of_other, field));
    for field in PARTS {
        all.set(&of_other, field, &all.get(&record, field));
    }
    told("another's content", 1, &other);
    for (field, bytes) in PARTS.iter().zip(&kept) {
        all.set(&of_other, field, bytes);
    }
    assert_eq!(
        all.eval(&all.fresh(1), 1, &other, "mine")["text"],
        shown("1")
    );

    // For another owner: neither its id nor its content.
    let owner = all.get(&of_other, "owner");
    let key = record.rsplit(|byte| *byte == b':').next().unwrap().to_vec();
    let list = [b"{ptc}:programs:owner:".as_slice(), &owner].concat();
    all.store.ask(&[b"SADD", &list, &key]);
    let listed = |owner| {
        let listed = all.ask_owner(&all.fresh(owner), owner, "session_list", &json!({}));
        assert_eq!(listed["count"], json!(1), "{listed}");
        assert!(!listed.to_string().contains(&victim), "{listed}");
    };
    listed(1);
    let rightful = all.get(&record, "owner");
    all.set(&record, "owner", &owner);
    listed(1);
    told("another's session", 1, &victim);
    all.set(&record, "owner", &rightful);
    assert_eq!(
        all.eval(&all.fresh(0), 0, &victim, "secret")["text"],
        shown("42")
    );
}

#[test]
fn mixed_turns_are_rejected_but_an_older_whole_turn_opens() {
    let Some(all) = ForgedStore::start() else {
        return;
    };
    let session = all.new_session(0);
    all.eval(&all.nodes[0], 0, &session, "(def n 1)");
    let record = all.records().remove(0);
    let before = PARTS.map(|field| all.get(&record, field));
    all.eval(&all.nodes[0], 0, &session, "(def n 2)");
    let after = PARTS.map(|field| all.get(&record, field));
    // All but the last fields of the earlier turn: only the version is not sealed.
    for count in 1..3 {
        for (field, bytes) in PARTS.iter().zip(&before).take(count) {
            all.set(&record, field, bytes);
        }
        let reply = all.eval(&all.fresh(0), 0, &session, "n");
        assert_eq!(
            reply["reason"],
            json!("session_unreadable"),
            "{count}: {reply}"
        );
        for (field, bytes) in PARTS.iter().zip(&after) {
            all.set(&record, field, bytes);
        }
    }
    assert_eq!(
        all.eval(&all.fresh(0), 0, &session, "n")["text"],
        shown("2")
    );
    // Nothing outside of the store shows which turn was the last.
    for (field, bytes) in PARTS.iter().zip(&before) {
        all.set(&record, field, bytes);
    }
    assert_eq!(
        all.eval(&all.fresh(0), 0, &session, "n")["text"],
        shown("1")
    );
}

#[test]
fn content_of_another_session_is_detected_without_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::Directory(directory.path().join("store"));
    let node = Node::start(&store.url(), &[], &[]);
    let sessions = [node.new_session(), node.new_session()];
    for (number, session) in sessions.iter().enumerate() {
        node.eval(session, &format!("(def mine {number})"));
    }
    drop(node);
    let programs = directory.path().join("store/programs");
    let mut bodies: Vec<_> = std::fs::read_dir(&programs)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|part| part == "1"))
        .collect();
    bodies.sort();
    let [one, other] = &bodies[..] else {
        panic!("a body for each session: {bodies:?}")
    };
    let aside = programs.join("aside");
    std::fs::rename(one, &aside).unwrap();
    std::fs::rename(other, one).unwrap();
    std::fs::rename(&aside, other).unwrap();
    let node = Node::start(&store.url(), &[], &[]);
    for session in &sessions {
        let reply = node.eval(session, "mine");
        assert_eq!(reply["reason"], json!("session_unreadable"), "{reply}");
    }
}

#[test]
fn unsigned_content_is_read_as_untrusted() {
    let directory = tempfile::tempdir().unwrap();
    let Some(store) = Store::redis(directory.path()) else {
        return;
    };
    let node = Node::start(&store.url(), &[], &[]);
    let session = node.new_session();
    node.eval(&session, "(def f (let [n 40] (fn [x] (+ n x))))");
    let Resp::Many(keys) = store.ask(&[b"KEYS", b"{ptc}:programs:session:*"]) else {
        panic!("no keys")
    };
    let record = keys[0].bytes();
    // In the form without a checksum, or nothing that was changed would be read.
    let unchecked = |field: &[u8]| {
        let sealed = store.ask(&[b"HGET", &record, field]).bytes();
        [&[0], &sealed[5..]].concat()
    };
    let (head, body) = (unchecked(b"head"), unchecked(b"body"));
    drop(node);
    let node = Node::start(&store.url(), &[], &[]);
    // A number of turns that no other can follow: the last part of the head.
    let forged = [&head[..head.len() - 1], &[0x1b], &[0xff; 8]].concat();
    store.ask(&[b"HSET", &record, b"head", &forged]);
    let reply = node.eval(&session, "(f 1)");
    assert_eq!(reply["reason"], json!("session_unreadable"), "{reply}");
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..200 {
        let mut forged = body.clone();
        for _ in 0..random.usize(..4) {
            let at = random.usize(1..forged.len());
            match random.u8(..3) {
                0 => forged[at] = random.u8(..),
                1 => forged.truncate(at.max(2)),
                _ => forged.insert(at, random.u8(..)),
            }
        }
        store.ask(&[b"HSET", &record, b"head", &head, b"body", &forged]);
        // Each stamp is new, or the server would use its cached state.
        store.ask(&[b"HSET", &record, b"stamp", round.to_string().as_bytes()]);
        let reply = node.eval(&session, "(+ 1 (f 1))");
        let refused = reply["reason"] == json!("session_unreadable");
        assert!(refused || reply["status"].is_string(), "{round}: {reply}");
        assert!(forged != body || !refused, "{round}: {reply}");
    }
    // Whatever was read, the server still works.
    let alone = node.call("eval", &json!({"program": "(+ 1 2)"})).unwrap();
    assert_eq!(alone["text"], shown("3"));
    // Messages from a party that is not a server end no calls except those that they name, and break nothing.
    for message in [
        "",
        "closed",
        "closed x",
        "cancel x",
        "cancel x {",
        "blocked x -1",
        "blocked x 99999999999999999999",
        "failed",
    ] {
        store.ask(&[b"PUBLISH", b"{ptc}:programs:told", message.as_bytes()]);
    }
    store.ask(&[b"PUBLISH", b"{ptc}:programs:told", &[0xff, 0xfe]]);
    let other = node.new_session();
    assert_eq!(node.eval(&other, "(+ 1 2)")["text"], shown("3"));
}
