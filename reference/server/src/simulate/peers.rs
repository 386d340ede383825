//! Upstream servers that live in memory and misbehave as they are told. Knows MCP as far as an echoing tool needs it; knows
//! nothing of the server that is under simulation.

use nix::sys::signal::Signal;
use ptc_upstream::{Child, End, Group, Launcher, Life, Reason, StdioConfig, WorldFault};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{mpsc, watch};

/// What must never reach a client, though upstreams say it.
pub const CANARY: &str = "canary-of-the-simulation";
/// The names of the upstreams.
pub const NAMES: [&str; 2] = ["alpha", "beta"];
/// Bytes of an oversize answer.
const OVERSIZE_BYTES: usize = 8 << 10;
/// Bytes that a pipe holds.
const PIPE_BYTES: usize = 32 << 10;

/// How a peer treats one call of its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// Answers at once.
    Prompt,
    /// Answers, but only after so many milliseconds.
    Slow(u64),
    /// Never answers.
    Silent,
    /// Says something that is no JSON, then answers.
    Junk,
    /// Answers under an id that nobody asked with.
    OtherId,
    /// Answers twice.
    Twice,
    /// Ends without an answer.
    Dies,
    /// Answers with a JSON-RPC error that holds a secret.
    Error,
    /// Answers that the tool failed.
    ToolError,
    /// Answers with more bytes than it may.
    Oversize,
    /// Answers with a secret beside the value.
    Secret,
    /// Says that its tools changed, then answers.
    ListChanged,
}

impl Manner {
    /// Whether the call gets the value that it asks for, if nothing else goes wrong and time allows.
    pub fn is_good(self) -> bool {
        matches!(
            self,
            Manner::Prompt | Manner::Slow(_) | Manner::Twice | Manner::Secret | Manner::ListChanged
        )
    }
}

/// How a peer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// As it should.
    Well,
    /// Not at all.
    Fails,
    /// It starts, but answers no handshake.
    Mute,
}

/// All peers.
#[derive(Clone)]
pub struct Peers {
    shared: Arc<Mutex<BTreeMap<String, Peer>>>,
    /// Whether values are what was asked for; a liar shows that the simulation notices.
    honest: bool,
}

/// One peer, over all its lives.
#[derive(Default)]
struct Peer {
    manners: VecDeque<Manner>,
    starts: VecDeque<Start>,
    alive: Option<watch::Sender<bool>>,
    /// How each call was treated, by the number that it asked for.
    served: BTreeMap<i64, Manner>,
    /// Whether anything was ever wrong with it.
    faulty: bool,
}

impl Peers {
    /// Peers that nothing is wrong with yet.
    pub fn new(honest: bool) -> Self {
        Peers {
            shared: Arc::default(),
            honest,
        }
    }

    /// Queues how the next call of a peer is treated.
    pub fn treat_next(&self, name: &str, manner: Manner) {
        let mut peers = self.lock();
        let peer = peers.entry(name.to_owned()).or_default();
        peer.faulty |= manner != Manner::Prompt;
        peer.manners.push_back(manner);
    }

    /// Queues how a peer starts the next time.
    pub fn start_next(&self, name: &str, start: Start) {
        let mut peers = self.lock();
        let peer = peers.entry(name.to_owned()).or_default();
        peer.faulty |= start != Start::Well;
        peer.starts.push_back(start);
    }

    /// Ends a peer's process, if it runs.
    pub fn kill(&self, name: &str) {
        let mut peers = self.lock();
        let peer = peers.entry(name.to_owned()).or_default();
        peer.faulty = true;
        if let Some(alive) = &peer.alive {
            alive.send_replace(false);
        }
    }

    /// How the call for `number` was treated, when it arrived.
    pub fn served(&self, name: &str, number: i64) -> Option<Manner> {
        self.lock().get(name)?.served.get(&number).copied()
    }

    /// Whether a peer was treated so badly that any of its calls may have suffered.
    pub fn is_faulty(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|peer| peer.faulty)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Peer>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launcher for Peers {
    fn launch(&self, config: &StdioConfig) -> Result<Child, WorldFault> {
        let name = config.command.clone();
        let (alive, watching) = watch::channel(true);
        let start = {
            let mut peers = self.lock();
            let peer = peers.entry(name.clone()).or_default();
            peer.alive = Some(alive.clone());
            peer.starts.pop_front().unwrap_or(Start::Well)
        };
        if start == Start::Fails {
            let message = format!("command not found: {name}");
            return Err(WorldFault::new(Reason::UpstreamUnavailable, message));
        }
        let (stdin, requests) = tokio::io::duplex(PIPE_BYTES);
        let (answers, stdout) = tokio::io::duplex(PIPE_BYTES);
        let (say, said) = mpsc::unbounded_channel();
        let life = LifeOfPeer {
            peers: self.clone(),
            name,
            mute: start == Start::Mute,
            say,
            alive: alive.clone(),
        };
        tokio::spawn(write(answers, said, watching.clone()));
        tokio::spawn(life.live(requests, watching.clone()));
        Ok(Child {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(tokio::io::empty()),
            life: Box::new(Watched(watching)),
            group: Box::new(Switch(alive)),
        })
    }
}

/// Sees when a peer ends.
struct Watched(watch::Receiver<bool>);

impl Life for Watched {
    fn wait(&mut self) -> End<'_> {
        Box::pin(async {
            let _everybody_left = self.0.wait_for(|alive| !alive).await;
            Ok(ExitStatus::from_raw(0))
        })
    }
}

/// Ends a peer at any signal.
struct Switch(watch::Sender<bool>);

impl Group for Switch {
    fn signal(&self, _: Signal) {
        self.0.send_replace(false);
    }
}

/// Writes what the peer says, until it ends.
async fn write(
    mut out: DuplexStream,
    mut said: mpsc::UnboundedReceiver<String>,
    mut alive: watch::Receiver<bool>,
) {
    loop {
        let line = tokio::select! {
            biased;
            _ = alive.wait_for(|alive| !alive) => return,
            line = said.recv() => line,
        };
        let Some(mut line) = line else { return };
        line.push('\n');
        let written = tokio::select! {
            biased;
            _ = alive.wait_for(|alive| !alive) => return,
            written = out.write_all(line.as_bytes()) => written,
        };
        if written.is_err() {
            return;
        }
    }
}

struct LifeOfPeer {
    peers: Peers,
    name: String,
    mute: bool,
    say: mpsc::UnboundedSender<String>,
    alive: watch::Sender<bool>,
}

impl LifeOfPeer {
    async fn live(self, requests: DuplexStream, mut alive: watch::Receiver<bool>) {
        let mut lines = BufReader::new(requests).lines();
        loop {
            let line = tokio::select! {
                biased;
                _ = alive.wait_for(|alive| !alive) => return,
                line = lines.next_line() => line,
            };
            let Ok(Some(line)) = line else { break };
            let request: Value = serde_json::from_str(&line).expect("the client sends JSON");
            if !request["id"].is_null() && !self.mute {
                self.answer(&request);
            }
        }
        // Its input ended, and so does it.
        self.alive.send_replace(false);
    }

    fn answer(&self, request: &Value) {
        let id = &request["id"];
        let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match request["method"].as_str().unwrap_or_default() {
            "initialize" => self.say(&result(json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": self.name, "version": "1"},
            }))),
            "tools/list" => {
                let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
                let tool =
                    json!({"name": "echo", "description": "Gives back n.", "inputSchema": schema});
                self.say(&result(json!({"tools": [tool]})));
            }
            "tools/call" => self.serve(request),
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        }
    }

    fn serve(&self, request: &Value) {
        let number = request["params"]["arguments"]["n"].as_i64();
        let number = number.expect("the client sends the argument that the schema asks for");
        let manner = {
            let mut peers = self.peers.lock();
            let peer = peers.entry(self.name.clone()).or_default();
            let manner = peer.manners.pop_front().unwrap_or(Manner::Prompt);
            peer.served.insert(number, manner);
            manner
        };
        let said = if self.peers.honest {
            number
        } else {
            number + 1
        };
        let mut content = json!({"n": said});
        let reply = |id: &Value, content: &Value, is_error: bool| {
            let result = json!({"content": [], "structuredContent": content, "isError": is_error});
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        };
        let id = &request["id"];
        match manner {
            Manner::Prompt => self.say(&reply(id, &content, false)),
            Manner::Slow(ms) => {
                let (say, line) = (self.say.clone(), reply(id, &content, false).to_string());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    let _nobody_listens = say.send(line);
                });
            }
            Manner::Silent => {}
            Manner::Junk => {
                let _nobody_listens = self.say.send(format!("<{CANARY}>"));
                self.say(&reply(id, &content, false));
            }
            Manner::OtherId => self.say(&reply(&json!(1_000_000 + number), &content, false)),
            Manner::Twice => {
                self.say(&reply(id, &content, false));
                self.say(&reply(id, &content, false));
            }
            Manner::Dies => {
                self.alive.send_replace(false);
            }
            Manner::Error => {
                let error = json!({"code": -32000, "message": format!("no: {CANARY}")});
                self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Manner::ToolError => self.say(&reply(id, &json!({"why": CANARY}), true)),
            Manner::Oversize => {
                content["filler"] = json!("x".repeat(OVERSIZE_BYTES));
                self.say(&reply(id, &content, false));
            }
            Manner::Secret => {
                content["key"] = json!(CANARY);
                self.say(&reply(id, &content, false));
            }
            Manner::ListChanged => {
                let method = "notifications/tools/list_changed";
                self.say(&json!({"jsonrpc": "2.0", "method": method}));
                self.say(&reply(id, &content, false));
            }
        }
    }

    fn say(&self, frame: &Value) {
        let _nobody_listens = self.say.send(frame.to_string());
    }
}
