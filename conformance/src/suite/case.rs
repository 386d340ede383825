//! One case: where it stands, what it needs, what it does and what must come of it. Pure data.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Pattern, TargetSpec, Text, Transport};
use crate::json::Json;

/// One judged unit of the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// Unique and stable: the anchor, `/`, and a name or a digest of what the case does. It never
    /// depends on the order of cases or on what is expected. Corpus cases carry their own id.
    pub id: String,
    /// The clauses that it tests; the first one is quoted when it fails. Empty for a case that
    /// hangs on its section alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clauses: Vec<String>,
    /// Id of the section that it stands in.
    pub section: String,
    /// The page of that section: `lang/reader.md`, also for a case of a corpus file.
    pub page: String,
    /// Path below the suite's root, with forward slashes.
    pub file: String,
    /// Line of the first thing it does, from 1.
    pub line: u32,
    /// How the target must be started for it.
    #[serde(default, skip_serializing_if = "TargetSpec::is_default")]
    pub target: TargetSpec,
    /// What it does and expects.
    pub body: CaseBody,
    /// Numbers of the rulings that decided it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rulings: Vec<u32>,
    /// Id of the recorded divergence that it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<String>,
    /// Why it expects what it expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Flags by which a case needs a capability: some switch it on and ask for it when they are true; the others set what no
/// document asks of an earlier server, and ask for it whatever their value is.
const FLAGS: &[(&str, &str, Asks)] = &[
    ("sessions", "sessions", Asks::WhenTrue),
    ("debug_tool", "debug", Asks::WhenTrue),
    ("agentic", "agentic", Asks::WhenTrue),
    ("http_metrics", "metrics", Asks::WhenTrue),
    ("http_max_connections", "crowd_control", Asks::Always),
    (
        "http_max_connections_per_address",
        "crowd_control",
        Asks::Always,
    ),
    (
        "http_max_unfinished_body_bytes",
        "crowd_control",
        Asks::Always,
    ),
    ("http_trusted_proxy", "trusted_proxies", Asks::Always),
    ("isolation", "isolation", Asks::Always),
    ("memory_watermark_percent", "memory_watermark", Asks::Always),
    ("session_store", "session_store", Asks::Always),
];

/// When a flag asks for its capability.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    WhenTrue,
    Always,
}

/// The member of a call by which a result is asked for as JSON.
const SCHEMA_ARGUMENT: &str = "\"output_schema\"";

impl Case {
    /// The capabilities that the case needs of a target: those of its block, and those of what it does.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let asked = self.target.requires.iter().map(String::as_str);
        let flagged = FLAGS.iter().filter_map(|(flag, capability, asks)| {
            let value = self.target.flags.get(*flag)?;
            let needed = *asks == Asks::Always || *value == Json::Bool(true);
            needed.then_some(*capability)
        });
        let peers = !self.target.peers.is_empty() || self.target.upstreams.is_some();
        asked
            .chain(flagged)
            .chain(peers.then_some("aggregator"))
            .chain(self.body.kind().capability())
            .chain(self.body.also())
    }
}

impl Case {
    /// Whether it is played in the same way over whichever transport a run is: it names its own, or no server is spoken to.
    pub fn goes_one_way(&self) -> bool {
        match self.body {
            CaseBody::Clj(_) => false,
            CaseBody::Wire(_) => self.target.transport != Transport::Any,
            CaseBody::Http(_) | CaseBody::Call(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => true,
        }
    }

    /// Whether it can be played with any MCP server: replies are found among what else comes, and what depends on the server is
    /// filled in from a survey of it.
    pub fn is_open(&self) -> bool {
        match &self.body {
            CaseBody::Wire(wire) => wire.open,
            CaseBody::Http(http) => http.open,
            _ => false,
        }
    }
}

/// What a case does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaseBody {
    /// Runs one program.
    Clj(CljCase),
    /// Exchanges lines over stdio.
    Wire(WireCase),
    /// Exchanges HTTP messages.
    Http(HttpCase),
    /// Calls one operation of the library, through the testee protocol.
    Call(CallCase),
    /// Runs one command to its end.
    Cli(CliCase),
    /// Parses a fixture page: judged by the harness itself, without a target.
    Fixture(FixtureCase),
}

impl CaseBody {
    /// The exchange of lines, when it is one.
    pub fn wire(&self) -> Option<&WireCase> {
        match self {
            CaseBody::Wire(wire) => Some(wire),
            CaseBody::Clj(_)
            | CaseBody::Http(_)
            | CaseBody::Call(_)
            | CaseBody::Cli(_)
            | CaseBody::Fixture(_) => None,
        }
    }
}

/// A kind of block that holds cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Programs and their outcomes.
    Clj,
    /// Lines over standard streams.
    Wire,
    /// HTTP messages.
    Http,
    /// Operations of the library.
    Call,
    /// Commands.
    Cli,
    /// Fixture pages.
    Fixture,
}

/// Every kind, with the word that opens its blocks and the capability that its cases need whatever else they ask for.
pub const BLOCK_KINDS: &[(BlockKind, &str, Option<&str>)] = &[
    (BlockKind::Clj, "clj", Some("lisp_run")),
    (BlockKind::Wire, "wire", Some("stdio")),
    (BlockKind::Http, "http", Some("http")),
    (BlockKind::Call, "call", Some("testee")),
    (BlockKind::Cli, "cli", Some("cli")),
    (BlockKind::Fixture, "fixture", None),
];

const _: () = {
    let mut at = 0;
    while at < BLOCK_KINDS.len() {
        assert!(
            BLOCK_KINDS[at].0 as usize == at,
            "a row stands where its kind says"
        );
        at += 1;
    }
};

impl BlockKind {
    /// The word that opens its blocks.
    pub const fn word(self) -> &'static str {
        BLOCK_KINDS[self as usize].1
    }

    /// The capability that its cases need.
    pub const fn capability(self) -> Option<&'static str> {
        BLOCK_KINDS[self as usize].2
    }

    /// The kind of a block that this word opens.
    pub fn from_word(word: &str) -> Option<BlockKind> {
        let row = BLOCK_KINDS.iter().find(|(_, known, _)| *known == word);
        row.map(|(kind, ..)| *kind)
    }
}

impl CaseBody {
    /// The kind of its block.
    pub const fn kind(&self) -> BlockKind {
        match self {
            CaseBody::Clj(_) => BlockKind::Clj,
            CaseBody::Wire(_) => BlockKind::Wire,
            CaseBody::Http(_) => BlockKind::Http,
            CaseBody::Call(_) => BlockKind::Call,
            CaseBody::Cli(_) => BlockKind::Cli,
            CaseBody::Fixture(_) => BlockKind::Fixture,
        }
    }
}

impl CaseBody {
    /// What the case needs by what it sends or runs.
    fn also(&self) -> Option<&'static str> {
        let asks = |text: &Text| text.source().contains(SCHEMA_ARGUMENT);
        match self {
            CaseBody::Wire(wire) => wire
                .steps
                .iter()
                .any(|step| matches!(&step.action, WireAction::Send(text) if asks(text)))
                .then_some("output_schema"),
            CaseBody::Http(http) => http
                .steps
                .iter()
                .any(|step| {
                    matches!(&step.action, HttpAction::Request(request) if request.body.as_ref().is_some_and(asks))
                })
                .then_some("output_schema"),
            // A command of `ptc` is its second word; only `start` is every server's.
            CaseBody::Cli(cli) => cli.commands().find_map(|command| {
                match command.argv.get(1).and_then(Text::as_plain) {
                    Some("repl" | "eval") => Some("repl"),
                    Some("doctor") => Some("doctor"),
                    Some("agent") => Some("agent_run"),
                    _ => None,
                }
            }),
            CaseBody::Clj(_) | CaseBody::Call(_) | CaseBody::Fixture(_) => None,
        }
    }
}

// ---------------------------------------------------------------------------------------------
// clj

/// One program and its outcome. Limits are the target's: see [`TargetSpec::flags`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CljCase {
    /// The program text.
    pub program: Text,
    /// The context bound under `data/`, as JSON text; an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Text>,
    /// What must come of it.
    pub expect: ProgramExpect,
}

/// What must come of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramExpect {
    /// How it ends.
    pub outcome: Outcome,
    /// The entries printed, exactly and in order; absent when it doesn't matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prints: Option<Vec<Text>>,
    /// Whether the outcome says that something was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Another end that is as good, where only the speed of the machine decides which one comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Box<ProgramExpect>>,
}

/// How a program ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With a value.
    Returns(Returned),
    /// With an error.
    Raises(Raised),
}

/// What is expected of a value. Every member that is present must hold; at least one is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// PTC-Lisp text that the printed value must equal as data (`;=>`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The exact printed text, without `user=> ` (`;==`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// There is no result text at all: nil, or a definition.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nothing: bool,
    /// A regex that matches the whole printed text (`;~`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// The exact JSON value (`;json`). `null` is a value: absence is absence of the member.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub json: Option<Json>,
}

/// What is expected of an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Raised {
    /// The closed reason.
    pub reason: Reason,
    /// The finer kind: the message starts with it and `: `.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What the message says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageExpect>,
    /// With reason `fail`: the printed text of the failed value, exactly (`;==`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_text: Option<Text>,
    /// With reason `fail`: the failed value as data (`;=>`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_data: Option<String>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageExpect {
    /// The whole message.
    Exact(Text),
    /// Its beginning.
    Prefix(Text),
}

/// The closed union of a program's error reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The text could not be read.
    ParseError,
    /// Analysis or evaluation failed.
    RuntimeError,
    /// The wall clock ran out.
    Timeout,
    /// The memory ran out.
    MemoryLimit,
    /// The arguments of the call are malformed.
    ArgsError,
    /// The program called `(fail v)`.
    Fail,
    /// The value doesn't match the schema asked for.
    ValidationError,
}

impl Reason {
    /// Every reason with its word on the wire.
    pub const ALL: &'static [(Reason, &'static str)] = &[
        (Reason::ParseError, "parse_error"),
        (Reason::RuntimeError, "runtime_error"),
        (Reason::Timeout, "timeout"),
        (Reason::MemoryLimit, "memory_limit"),
        (Reason::ArgsError, "args_error"),
        (Reason::Fail, "fail"),
        (Reason::ValidationError, "validation_error"),
    ];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        Reason::ALL
            .iter()
            .find(|(reason, _)| *reason == self)
            .map_or("", |(_, word)| word)
    }

    /// The reason of a word.
    pub fn from_word(word: &str) -> Option<Reason> {
        Reason::ALL
            .iter()
            .find(|(_, known)| *known == word)
            .map(|(reason, _)| *reason)
    }
}

// ---------------------------------------------------------------------------------------------
// wire

/// An exchange over stdio with a process of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireCase {
    /// Whether the runner first does `initialize` and `notifications/initialized` (not with
    /// `wire bare`). Its frames are not part of the steps.
    pub handshake: bool,
    /// Whether replies are looked for among whatever else the server may send (`wire open`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// What happens, in order. Output lines that no step expects fail the case, at the latest when
    /// the steps are over.
    pub steps: Vec<WireStep>,
}

/// One step, with its place for reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireStep {
    /// Line in the fixture, from 1.
    pub line: u32,
    /// What is done or expected.
    pub action: WireAction,
}

/// A step over stdio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WireAction {
    /// `-> JSON`: writes the text and a newline.
    Send(Text),
    /// `->raw BYTES`: writes the bytes, and no newline.
    SendRaw(Text),
    /// `<- PATTERN`: the next line of output is JSON that matches.
    Expect(ExpectLine),
    /// Consecutive `<~ PATTERN` lines: the next lines of output match one pattern each, in any
    /// order.
    ExpectUnordered {
        /// The patterns; never empty.
        patterns: Vec<Pattern>,
        /// Milliseconds for all of them; absent: the runner's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// `<-raw TEXT`: the next line of output is exactly this text, before any JSON is read.
    ExpectRaw {
        /// The line without its newline.
        text: Text,
        /// Milliseconds; absent: the runner's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// What all transports share.
    Control(Control),
}

/// One expected line of output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectLine {
    /// What the line's JSON must match.
    pub pattern: Pattern,
    /// Milliseconds; absent: the runner's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

/// Steps that all transports share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// `wait 200ms`: does nothing; output that arrives meanwhile stays for later steps.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// `silence 300ms`: no output arrives for so long.
    Silence {
        /// Milliseconds.
        ms: u64,
    },
    /// `eof`: closes the target's standard input.
    Eof,
    /// `signal TERM`: sends a signal.
    Signal {
        /// `TERM`, `INT`, `HUP`, `KILL`, `USR1`, `USR2`, `STOP` or `CONT`.
        name: String,
    },
    /// `exit 0 within 500ms`: the target's process ends, with this status. Output that is left
    /// over fails the case.
    Exit {
        /// The status; absent: any (`exit any`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<i32>,
        /// Milliseconds; absent: the runner's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// `kill peer NAME`: kills an upstream peer as a crash would.
    KillPeer {
        /// Its name in the target block.
        peer: String,
    },
    /// `peer NAME received PATTERN` / `peer NAME not received PATTERN`: among the messages that the
    /// peer received so far, one matches, or none.
    PeerReceived {
        /// Its name in the target block.
        peer: String,
        /// `false` asserts absence.
        present: bool,
        /// The message.
        pattern: Pattern,
    },
    /// `log MATCH` / `log not MATCH`: among the lines of standard error so far, one matches, or
    /// none. Presence may be waited for; absence is judged at once.
    Log {
        /// `false` asserts absence.
        present: bool,
        /// The line.
        line: LineMatch,
    },
    /// `never FINDING`: nothing of this kind was found in anything that the server sent so far, in this case or another.
    /// Only in open exchanges.
    Never {
        /// The word of the finding.
        finding: String,
    },
    /// `trace MATCH` / `trace not MATCH`: the same among the lines of the files in the trace
    /// directory.
    Trace {
        /// `false` asserts absence.
        present: bool,
        /// The line.
        line: LineMatch,
    },
}

/// How a log or trace line is recognised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineMatch {
    /// The line is JSON that matches.
    Json(Pattern),
    /// The regex is found somewhere in the line.
    Regex(String),
}

// ---------------------------------------------------------------------------------------------
// http

/// An exchange of HTTP messages with a server of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpCase {
    /// Whether it is played within a session that the runner opened before, and replies may come as event streams (`http open`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Whether an open exchange is played without a session of its own (`http open bare`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare: bool,
    /// What happens, in order.
    pub steps: Vec<HttpStep>,
}

/// One step, with its place for reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpStep {
    /// Line in the fixture, from 1.
    pub line: u32,
    /// What is done or expected.
    pub action: HttpAction,
}

/// A step over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HttpAction {
    /// `-> METHOD PATH`: sends a request. With a tag (`-> [a] POST /mcp`) the steps go on without
    /// the answer.
    Request(HttpRequest),
    /// `->raw BYTES`: opens a connection and writes the bytes as they are.
    Raw {
        /// Names the exchange.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
        /// The bytes.
        bytes: Text,
    },
    /// `<- STATUS`: the answer to the last request, or to the tagged one.
    Response(HttpResponse),
    /// `<- dropped`: the server closes the connection without a response, or, behind `or`, with one of these statuses.
    Dropped {
        /// The exchange; absent: the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
        /// Statuses of a response that does as well.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        or_status: Vec<u16>,
        /// Milliseconds; absent: the runner's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// `<- nothing`: behind the answers that were looked at no more comes on that connection: the server closes it, or is silent
    /// for so long.
    Nothing {
        /// The exchange; absent: the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
        /// Milliseconds; absent: 300.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// `hang up [a]`: closes the connection of a tagged exchange, whose answer nobody waits for any more.
    HangUp {
        /// The exchange.
        tag: String,
    },
    /// `half close [a]`: says on the connection of a tagged exchange that no more will be sent; its answer is waited for.
    HalfClose {
        /// The exchange.
        tag: String,
    },
    /// What all transports share.
    Control(Control),
}

/// A request. `Host` and `Content-Length` are added by the runner unless they are given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpRequest {
    /// Names the exchange, so that others can start before its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The method, upper case.
    pub method: String,
    /// Path and query.
    pub path: Text,
    /// Header fields in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, Text)>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Text>,
}

/// An expected response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpResponse {
    /// The exchange; absent: the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The status code.
    pub status: u16,
    /// Others that are as good (`200 or 400`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_status: Vec<u16>,
    /// Header fields that must be as said; others don't matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderExpect>,
    /// The body.
    #[serde(default, skip_serializing_if = "BodyExpect::is_any")]
    pub body: BodyExpect,
    /// Milliseconds; absent: the runner's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

impl HttpResponse {
    /// The status codes as they are written.
    pub fn statuses(&self) -> String {
        let all = std::iter::once(&self.status).chain(&self.or_status);
        let all: Vec<String> = all.map(u16::to_string).collect();
        all.join(" or ")
    }
}

/// An expected header field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeaderExpect {
    /// Its name, compared without case.
    pub name: String,
    /// Its value; absent: the field must not be there (`<absent>`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Text>,
}

/// An expected body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyExpect {
    /// Nothing is asserted.
    #[default]
    Any,
    /// No byte (`<empty>`).
    Empty,
    /// JSON that matches.
    Json(Pattern),
    /// The text, exactly (lines that start with `| `).
    Text(Text),
}

impl BodyExpect {
    fn is_any(&self) -> bool {
        *self == BodyExpect::Any
    }
}

// ---------------------------------------------------------------------------------------------
// call

/// One operation of the library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallCase {
    /// The operation's name in the testee protocol.
    pub op: String,
    /// Its input.
    pub input: Json,
    /// What must come of it.
    pub expect: CallExpect,
}

/// What must come of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallExpect {
    /// `=> PATTERN`: it answers this.
    Returns(Pattern),
    /// `!! PATTERN`: it refuses, with this error.
    Refuses(Pattern),
}

// ---------------------------------------------------------------------------------------------
// cli

/// A run of a command in an empty directory of its own, and of those that follow it there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CliCase {
    /// The command line; the first word names a program that the launch template knows (`ptc`).
    pub argv: Vec<Text>,
    /// Environment variables besides the runner's base set.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, Text>,
    /// Files that are there at the start, by relative path.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub files: IndexMap<String, Text>,
    /// Standard input; absent: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Text>,
    /// Whether the input stays open until standard output has as many lines as are expected of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin_open: bool,
    /// What must come of it.
    pub expect: CliExpect,
    /// The command that follows in the same directory, if this one did what it must. It may use what holes in what came of this one kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Box<CliCase>>,
}

impl CliCase {
    /// This command and those behind it, in order.
    pub fn commands(&self) -> impl Iterator<Item = &CliCase> {
        std::iter::successors(Some(self), |case| case.then.as_deref())
    }
}

/// What must come of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CliExpect {
    /// Exit status.
    pub status: i32,
    /// All of standard output; absent: doesn't matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Text>,
    /// All of standard error; absent: doesn't matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Text>,
    /// Files afterwards, by relative path.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub files: IndexMap<String, FileExpect>,
    /// What peers have received by then, or have not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received: Vec<Received>,
    /// Milliseconds; absent: the runner's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

/// A message that a peer got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Received {
    /// Its name in the target block.
    pub peer: String,
    /// `false` asserts absence.
    pub present: bool,
    /// The message.
    pub pattern: Pattern,
}

/// A file after a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileExpect {
    /// It isn't there.
    Absent,
    /// It has this content.
    Text(Text),
}

// ---------------------------------------------------------------------------------------------
// fixture

/// A fixture page and what the parser must make of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FixtureCase {
    /// The page.
    pub page: String,
    /// What the parser must make of it.
    pub expect: FixtureExpect,
}

/// What the fixture parser must make of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixtureExpect {
    /// `=> ID`, one line each: exactly these cases, in order.
    Cases(Vec<String>),
    /// `!! LINE:COLUMN message`, one line each: exactly these errors, in order. The texts are exact.
    Errors(Vec<String>),
}

/// Tells `null` from an absent member.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
