//! One case: its place in the suite, what it requires, what it does, and what is expected. Pure data.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Pattern, TargetSpec, Text, Transport};
use crate::json::Json;

/// One judged unit of the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// Unique and stable: the anchor, `/`, and a name or a digest of what the case does. It does not
    /// depend on the order of cases or on what is expected. Corpus cases carry their own id.
    pub id: String,
    /// Ids of the clauses that the case tests; the first one is quoted when it fails. Empty for a case that
    /// belongs to its section only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clauses: Vec<String>,
    /// Id of the section that contains it.
    pub section: String,
    /// The page of that section, such as `lang/reader.md`, even for a case in a corpus file.
    pub page: String,
    /// Path of the file that contains the case, relative to the suite's root, with forward slashes.
    pub file: String,
    /// Line of the case's first action, from 1.
    pub line: u32,
    /// How the target must be started for this case.
    #[serde(default, skip_serializing_if = "TargetSpec::is_default")]
    pub target: TargetSpec,
    /// What it does and expects.
    pub body: CaseBody,
    /// Numbers of the rulings that the expectation is based on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rulings: Vec<u32>,
    /// Id of the recorded divergence that the case demonstrates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<String>,
    /// The rationale for the expectation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Flags that imply a capability. Some imply it only when they are true; the others configure something that no document requires of
/// older servers, so they imply it whatever their value.
const FLAGS: &[(&str, &str, FlagCondition)] = &[
    ("sessions", "sessions", FlagCondition::WhenTrue),
    ("debug_tool", "debug", FlagCondition::WhenTrue),
    ("agentic", "agentic", FlagCondition::WhenTrue),
    ("http_metrics", "metrics", FlagCondition::WhenTrue),
    (
        "http_max_connections",
        "crowd_control",
        FlagCondition::Always,
    ),
    (
        "http_max_connections_per_address",
        "crowd_control",
        FlagCondition::Always,
    ),
    (
        "http_max_unfinished_body_bytes",
        "crowd_control",
        FlagCondition::Always,
    ),
    (
        "http_trusted_proxy",
        "trusted_proxies",
        FlagCondition::Always,
    ),
    ("isolation", "isolation", FlagCondition::Always),
    (
        "memory_watermark_percent",
        "memory_watermark",
        FlagCondition::Always,
    ),
    ("session_store", "session_store", FlagCondition::Always),
];

/// Which values of a flag imply its capability.
#[derive(Clone, Copy, PartialEq)]
enum FlagCondition {
    WhenTrue,
    Always,
}

/// The call argument that requests a JSON result.
const SCHEMA_ARGUMENT: &str = "\"output_schema\"";

impl Case {
    /// The capabilities that the target needs for this case: those of its target block, and those implied by its flags and its body.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        let asked = self.target.requires.iter().map(String::as_str);
        let flagged = FLAGS.iter().filter_map(|(flag, capability, asks)| {
            let value = self.target.flags.get(*flag)?;
            let needed = *asks == FlagCondition::Always || *value == Json::Bool(true);
            needed.then_some(*capability)
        });
        let peers = !self.target.peers.is_empty() || self.target.upstreams.is_some();
        asked
            .chain(flagged)
            .chain(peers.then_some("aggregator"))
            .chain(self.body.kind().capability())
            .chain(self.body.implied_capability())
    }
}

impl Case {
    /// Whether the case runs the same way over every transport of a run, because it fixes its own transport or needs no server.
    pub fn is_transport_independent(&self) -> bool {
        match self.body {
            CaseBody::Clj(_) => false,
            CaseBody::Wire(_) => self.target.transport != Transport::Any,
            CaseBody::Http(_) | CaseBody::Call(_) | CaseBody::Cli(_) | CaseBody::Fixture(_) => true,
        }
    }

    /// Whether the case can be run against any MCP server: it ignores unrelated messages between replies, and server-specific
    /// values are filled in from a survey of the server.
    pub fn is_open(&self) -> bool {
        match &self.body {
            CaseBody::Wire(wire) => wire.open,
            CaseBody::Http(http) => http.open,
            _ => false,
        }
    }
}

/// What a case does, by kind.
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

/// The kinds of fenced blocks that hold cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// `clj`: programs and their outcomes.
    Clj,
    /// `wire`: lines over standard input and output.
    Wire,
    /// `http`: HTTP messages.
    Http,
    /// `call`: operations of the library.
    Call,
    /// `cli`: commands.
    Cli,
    /// `fixture`: fixture pages.
    Fixture,
}

/// Every kind, with the word that opens its blocks and the capability that its cases always need.
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
    /// The word that opens blocks of this kind.
    pub const fn word(self) -> &'static str {
        BLOCK_KINDS[self as usize].1
    }

    /// The capability that cases of this kind always need, if any.
    pub const fn capability(self) -> Option<&'static str> {
        BLOCK_KINDS[self as usize].2
    }

    /// The kind of a block that `word` opens.
    pub fn from_word(word: &str) -> Option<BlockKind> {
        let row = BLOCK_KINDS.iter().find(|(_, known, _)| *known == word);
        row.map(|(kind, ..)| *kind)
    }
}

impl CaseBody {
    /// The kind of the block that this case came from.
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
    /// The capability that the body itself implies, through what it sends or runs.
    fn implied_capability(&self) -> Option<&'static str> {
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
            // The second word of a `ptc` command line is its subcommand. Every server has `start`; these need a capability.
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

/// One program and its outcome. Its limits are settings of the target: see [`TargetSpec::flags`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CljCase {
    /// The program text.
    pub program: Text,
    /// The value bound under `data/`: JSON text of an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Text>,
    /// The expected outcome.
    pub expect: ProgramExpect,
}

/// The expected result of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramExpect {
    /// How the program ends.
    pub outcome: Outcome,
    /// The printed entries, exactly and in order; absent when they are not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prints: Option<Vec<Text>>,
    /// Whether the outcome reports that something was truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// An alternative outcome that is equally acceptable, where only the machine's speed decides which one occurs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Box<ProgramExpect>>,
}

/// How a program ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The program returns a value.
    Returns(Returned),
    /// The program ends with an error.
    Raises(Raised),
}

/// What is expected of a value. Every member that is present must hold; at least one is present.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// PTC-Lisp text; the printed value must be equal to it as data (`;=>`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The exact printed text, without `user=> ` (`;==`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// Whether there must be no result text at all, as for nil or a definition.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nothing: bool,
    /// A regex that must match the whole printed text (`;~`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// The exact JSON value (`;json`). `null` is a value; `None` means that JSON is not checked.
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
    /// The error reason, one of a closed set.
    pub reason: Reason,
    /// The more specific kind: the message starts with it, followed by `: `.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The expected message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageExpect>,
    /// With reason `fail`: the exact printed text of the failed value (`;==`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_text: Option<Text>,
    /// With reason `fail`: the failed value as data (`;=>`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_data: Option<String>,
}

/// How an error message is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageExpect {
    /// The message equals this text.
    Exact(Text),
    /// The message starts with this text.
    Prefix(Text),
}

/// The closed set of a program's error reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The program text could not be parsed.
    ParseError,
    /// Analysis or evaluation failed.
    RuntimeError,
    /// The time limit was exceeded.
    Timeout,
    /// The memory limit was exceeded.
    MemoryLimit,
    /// The arguments of the call are malformed.
    ArgsError,
    /// The program called `(fail v)`.
    Fail,
    /// The value doesn't match the requested schema.
    ValidationError,
}

impl Reason {
    /// Every reason with its name on the wire.
    pub const ALL: &'static [(Reason, &'static str)] = &[
        (Reason::ParseError, "parse_error"),
        (Reason::RuntimeError, "runtime_error"),
        (Reason::Timeout, "timeout"),
        (Reason::MemoryLimit, "memory_limit"),
        (Reason::ArgsError, "args_error"),
        (Reason::Fail, "fail"),
        (Reason::ValidationError, "validation_error"),
    ];

    /// The name on the wire.
    pub fn word(self) -> &'static str {
        Reason::ALL
            .iter()
            .find(|(reason, _)| *reason == self)
            .map_or("", |(_, word)| word)
    }

    /// The reason with this name on the wire.
    pub fn from_word(word: &str) -> Option<Reason> {
        Reason::ALL
            .iter()
            .find(|(_, known)| *known == word)
            .map(|(reason, _)| *reason)
    }
}

// ---------------------------------------------------------------------------------------------
// wire

/// An exchange over stdio with a server process started for the case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireCase {
    /// Whether the runner first performs `initialize` and `notifications/initialized` (not with
    /// `wire bare`). These frames are not part of the steps.
    pub handshake: bool,
    /// Whether other messages that the server sends between the expected replies are ignored (`wire open`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// The steps, in order. Output lines that no step expects fail the case, at the latest after
    /// the last step.
    pub steps: Vec<WireStep>,
}

/// One step, with its line for reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WireStep {
    /// Line in the fixture, from 1.
    pub line: u32,
    /// The action or expectation.
    pub action: WireAction,
}

/// A step over stdio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WireAction {
    /// `-> JSON`: writes the text and a newline.
    Send(Text),
    /// `->raw BYTES`: writes the bytes without adding a newline.
    SendRaw(Text),
    /// `<- PATTERN`: the next output line must be JSON that matches.
    Expect(ExpectLine),
    /// Consecutive `<~ PATTERN` lines: each of the next output lines must match one of the patterns, in any
    /// order.
    ExpectUnordered {
        /// The patterns; never empty.
        patterns: Vec<Pattern>,
        /// Time limit for all of them together, in milliseconds; absent: the runner's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// `<-raw TEXT`: the next output line must be exactly this text, compared before JSON is parsed.
    ExpectRaw {
        /// The line without its newline.
        text: Text,
        /// Time limit in milliseconds; absent: the runner's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// A step that every transport supports.
    Control(Control),
}

/// One expected line of output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectLine {
    /// What the line's JSON must match.
    pub pattern: Pattern,
    /// Time limit in milliseconds; absent: the runner's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

/// Steps that every transport supports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// `wait 200ms`: pauses; output that arrives meanwhile stays available to later steps.
    Wait {
        /// The pause in milliseconds.
        ms: u64,
    },
    /// `silence 300ms`: no output may arrive during this time.
    Silence {
        /// The time in milliseconds.
        ms: u64,
    },
    /// `eof`: closes the target's standard input.
    Eof,
    /// `signal TERM`: sends a signal to the target.
    Signal {
        /// `TERM`, `INT`, `HUP`, `KILL`, `USR1`, `USR2`, `STOP` or `CONT`.
        name: String,
    },
    /// `exit 0 within 500ms`: the target's process must exit with this status. Unread output
    /// fails the case.
    Exit {
        /// The exit status; absent: any (`exit any`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<i32>,
        /// Time limit in milliseconds; absent: the runner's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// `kill peer NAME`: kills an upstream peer, as a crash would.
    KillPeer {
        /// The peer's name in the target block.
        peer: String,
    },
    /// `peer NAME received PATTERN` / `peer NAME not received PATTERN`: at least one, or none, of the messages that
    /// the peer has received so far matches.
    PeerReceived {
        /// The peer's name in the target block.
        peer: String,
        /// `true` requires a matching message, `false` that there is none.
        present: bool,
        /// The pattern of the message.
        pattern: Pattern,
    },
    /// `log MATCH` / `log not MATCH`: at least one, or none, of the lines written to standard error so far matches.
    /// The runner may wait for a line to appear; absence is judged at once.
    Log {
        /// `true` requires a matching line, `false` that there is none.
        present: bool,
        /// What a line is matched against.
        line: LineMatch,
    },
    /// `never FINDING`: no such finding was made in anything that the server has sent so far, in this case or an earlier one.
    /// Only in open exchanges.
    Never {
        /// The word of the finding.
        finding: String,
    },
    /// `trace MATCH` / `trace not MATCH`: as `log`, for the lines of the files in the trace
    /// directory.
    Trace {
        /// `true` requires a matching line, `false` that there is none.
        present: bool,
        /// What a line is matched against.
        line: LineMatch,
    },
}

/// How a log or trace line is matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineMatch {
    /// The line is JSON that matches the pattern.
    Json(Pattern),
    /// The regex matches somewhere in the line.
    Regex(String),
}

// ---------------------------------------------------------------------------------------------
// http

/// An exchange of HTTP messages with a server started for the case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpCase {
    /// Whether the case runs in a session that the runner opened, and replies may be event streams (`http open`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Whether an open exchange runs without a session (`http open bare`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare: bool,
    /// The steps, in order.
    pub steps: Vec<HttpStep>,
}

/// One step, with its line for reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpStep {
    /// Line in the fixture, from 1.
    pub line: u32,
    /// The action or expectation.
    pub action: HttpAction,
}

/// A step over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HttpAction {
    /// `-> METHOD PATH`: sends a request. With a tag (`-> [a] POST /mcp`) the following steps run before
    /// the response arrives.
    Request(HttpRequest),
    /// `->raw BYTES`: opens a connection and writes the bytes unchanged.
    Raw {
        /// The tag that later steps use for this exchange.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
        /// The bytes to send.
        bytes: Text,
    },
    /// `<- STATUS`: the response to the last request, or to the tagged one.
    Response(HttpResponse),
    /// `<- dropped`: the server closes the connection without a response. After `or`: statuses of a response that are also accepted.
    Dropped {
        /// The tag of the exchange; absent: the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
        /// Statuses of a response that is also accepted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        or_status: Vec<u16>,
        /// Time limit in milliseconds; absent: the runner's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// `<- nothing`: after the responses checked so far, no more bytes arrive on this connection: the server closes it or stays silent
    /// for the given time.
    Nothing {
        /// The tag of the exchange; absent: the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
        /// The time in milliseconds; absent: 300.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ms: Option<u64>,
    },
    /// `hang up [a]`: closes the connection of a tagged exchange without waiting for its response.
    HangUp {
        /// The tag of the exchange.
        tag: String,
    },
    /// `half close [a]`: shuts down the sending side of a tagged exchange's connection; its response is still awaited.
    HalfClose {
        /// The tag of the exchange.
        tag: String,
    },
    /// A step that every transport supports.
    Control(Control),
}

/// A request. The runner adds `Host`, `Accept` and `Content-Length` unless they are given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpRequest {
    /// A tag for the exchange, so that others can start before its response arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The method, in upper case.
    pub method: String,
    /// Path and query.
    pub path: Text,
    /// Header fields in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, Text)>,
    /// The body; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Text>,
}

/// An expected response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HttpResponse {
    /// The tag of the exchange; absent: the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The status code.
    pub status: u16,
    /// Other accepted status codes (`200 or 400`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_status: Vec<u16>,
    /// The header fields that are checked; others are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderExpect>,
    /// The expected body.
    #[serde(default, skip_serializing_if = "BodyExpect::is_any")]
    pub body: BodyExpect,
    /// Time limit in milliseconds; absent: the runner's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

impl HttpResponse {
    /// The accepted status codes, as a fixture writes them.
    pub fn statuses(&self) -> String {
        let all = std::iter::once(&self.status).chain(&self.or_status);
        let all: Vec<String> = all.map(u16::to_string).collect();
        all.join(" or ")
    }
}

/// An expected header field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeaderExpect {
    /// The name, compared without regard to case.
    pub name: String,
    /// The value; absent: the field must be missing (`<absent>`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Text>,
}

/// An expected body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyExpect {
    /// The body is not checked.
    #[default]
    Any,
    /// The body is empty (`<empty>`).
    Empty,
    /// The body is JSON that matches.
    Json(Pattern),
    /// The body is exactly this text (lines that start with `| `).
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
    /// The operation's input.
    pub input: Json,
    /// The expected answer.
    pub expect: CallExpect,
}

/// The expected answer of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallExpect {
    /// `=> PATTERN`: the operation returns a value that matches.
    Returns(Pattern),
    /// `!! PATTERN`: the operation is refused with an error that matches.
    Refuses(Pattern),
}

// ---------------------------------------------------------------------------------------------
// cli

/// A command that runs in a fresh empty directory, and the commands that follow it there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CliCase {
    /// The command line; the first word is the name of a program in the launch template (`ptc`).
    pub argv: Vec<Text>,
    /// Environment variables in addition to the runner's base set.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, Text>,
    /// Files that exist when the command starts, by relative path.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub files: IndexMap<String, Text>,
    /// Standard input; absent: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Text>,
    /// Whether standard input stays open until standard output has as many lines as expected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin_open: bool,
    /// The expected result.
    pub expect: CliExpect,
    /// The command that runs next in the same directory, if this one passed. It may use values that this one's holes captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Box<CliCase>>,
}

impl CliCase {
    /// This command and those that follow it, in order.
    pub fn commands(&self) -> impl Iterator<Item = &CliCase> {
        std::iter::successors(Some(self), |case| case.then.as_deref())
    }
}

/// The expected result of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CliExpect {
    /// The exit status.
    pub status: i32,
    /// The whole of standard output; absent: not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Text>,
    /// The whole of standard error; absent: not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Text>,
    /// The files expected afterwards, by relative path.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub files: IndexMap<String, FileExpect>,
    /// Messages that peers must have received by then, or must not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub received: Vec<Received>,
    /// Time limit in milliseconds; absent: the runner's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

/// A message that a peer must, or must not, have received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Received {
    /// The peer's name in the target block.
    pub peer: String,
    /// `true` requires a matching message, `false` that there is none.
    pub present: bool,
    /// The pattern of the message.
    pub pattern: Pattern,
}

/// The expected state of a file after a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileExpect {
    /// The file does not exist.
    Absent,
    /// The file has this content.
    Text(Text),
}

// ---------------------------------------------------------------------------------------------
// fixture

/// A fixture page and the expected result of parsing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FixtureCase {
    /// The Markdown text of the page.
    pub page: String,
    /// The expected result.
    pub expect: FixtureExpect,
}

/// The expected result of parsing a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FixtureExpect {
    /// `=> ID`, one per line: exactly these cases, in order.
    Cases(Vec<String>),
    /// `!! LINE:COLUMN message`, one per line: exactly these errors, in order. The texts are exact.
    Errors(Vec<String>),
}

/// Deserializes a member so that `null` is distinguished from an absent one.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
