//! Writes a case as the shell commands that show a person what the reference does with it: the files, peers, variables and flags
//! that it needs, and what is sent. Knows what the harness would do; starts nothing, and knows nothing of verdicts.

use std::path::Path;

use crate::json::Json;
use crate::judge;
use crate::suite::{
    CallCase, Captures, Case, CaseBody, CliCase, CljCase, Control, TargetSpec, Text, Transport,
    WireAction, WireCase,
};
use crate::target::launch::Launch;
use crate::target::link::{self, Evaluation};
use crate::target::reference;

use super::start::{self, UPSTREAMS_FILE};
use super::wire;

/// Bytes of commands that are not worth pasting any more.
const SCRIPT_BYTES_MAX: usize = 8 << 10;
/// The file that says what the peers do.
const PEERS_FILE: &str = "peers.json";
/// Seconds that an answer is waited for, and those where time passes on purpose.
const ANSWER_SECONDS: &str = "1";
const SLOW_ANSWER_SECONDS: &str = "3";

/// The commands; none for what a few commands cannot do: exchanges over HTTP, signals, values that only an answer gives, long texts.
pub fn commands(case: &Case) -> Option<String> {
    let pause = match case.waits() {
        true => SLOW_ANSWER_SECONDS,
        false => ANSWER_SECONDS,
    };
    let mut lines = Vec::new();
    match &case.body {
        _ if case.target.transport == Transport::Http => return None,
        CaseBody::Clj(body) => {
            // The end of input gives a call only a moment more.
            let lasts = case.waits() || !case.target.peers.is_empty();
            let mut input = vec![Act::Write(program(body)?)];
            input.extend(lasts.then_some(Act::Sleep(pause.to_owned())));
            stage(&case.target, &mut lines)?;
            lines.push(fed(&input, &server(&case.target, true)?));
        }
        CaseBody::Wire(body) => {
            stage(&case.target, &mut lines)?;
            lines.push(fed(&sends(body, pause)?, &server(&case.target, false)?));
        }
        CaseBody::Call(body) => {
            let testee = [reference::BINARY, reference::TESTEE];
            lines.push(fed(
                &[Act::Write(operation(body))],
                &shell_words::join(testee),
            ));
        }
        CaseBody::Cli(body) => command(body, &case.target, &mut lines)?,
        CaseBody::Http(_) | CaseBody::Fixture(_) => return None,
    }
    if lines.len() > 1 {
        lines.insert(0, "cd \"$(mktemp -d)\"".to_owned());
    }
    if !case.target.peers.is_empty() {
        lines.push("exec 3>&-".to_owned());
    }
    let script = lines.join("\n");
    (script.len() <= SCRIPT_BYTES_MAX).then_some(script)
}

/// What happens at the input of a command.
enum Act {
    Write(Vec<u8>),
    /// Nothing, for so many seconds.
    Sleep(String),
}

fn program(case: &CljCase) -> Option<Vec<u8>> {
    let text = |text: &Text| text.string(&Captures::new()).ok();
    let evaluation = Evaluation {
        program: text(&case.program)?,
        context: match &case.context {
            Some(context) => Some(text(context)?),
            None => None,
        },
        output_schema: judge::output_schema(&case.expect)
            .ok()
            .map(|schema| schema.to_string()),
        limits: None,
    };
    let (method, params) = evaluation.request();
    Some(line(link::frame(1, method, Some(&params))))
}

fn operation(case: &CallCase) -> Vec<u8> {
    line(link::operation(1, &case.op, &case.input.to_string()))
}

fn sends(case: &WireCase, pause: &str) -> Option<Vec<Act>> {
    let mut acts = Vec::new();
    if case.handshake {
        acts.push(Act::Write(line(wire::initialize())));
        acts.push(Act::Sleep(ANSWER_SECONDS.to_owned()));
        acts.push(Act::Write(line(link::INITIALIZED.to_owned())));
    }
    for step in &case.steps {
        match &step.action {
            WireAction::Send(text) => {
                let mut bytes = text.bytes(&Captures::new()).ok()?;
                bytes.push(b'\n');
                acts.push(Act::Write(bytes));
            }
            WireAction::SendRaw(text) => {
                acts.push(Act::Write(text.bytes(&Captures::new()).ok()?));
            }
            WireAction::Expect(_)
            | WireAction::ExpectUnordered { .. }
            | WireAction::ExpectRaw { .. } => {
                // One wait is enough for neighbouring answers.
                if !matches!(acts.last(), Some(Act::Sleep(_))) {
                    acts.push(Act::Sleep(pause.to_owned()));
                }
            }
            WireAction::Control(Control::Wait { ms } | Control::Silence { ms }) => {
                let seconds = std::time::Duration::from_millis(*ms).as_secs_f64();
                acts.push(Act::Sleep(seconds.to_string()));
            }
            WireAction::Control(Control::Eof) => return Some(acts),
            WireAction::Control(Control::Signal { .. } | Control::KillPeer { .. }) => return None,
            // These look at what came of it.
            WireAction::Control(
                Control::Exit { .. }
                | Control::PeerReceived { .. }
                | Control::Log { .. }
                | Control::Trace { .. },
            ) => {}
        }
    }
    Some(acts)
}

fn line(text: String) -> Vec<u8> {
    (text + "\n").into_bytes()
}

/// Files and peers that a server needs.
fn stage(spec: &TargetSpec, lines: &mut Vec<String>) -> Option<()> {
    for (name, content) in &spec.files {
        lines.push(written(name, placed(content)?.as_bytes()));
    }
    upstreams(spec, lines)
}

/// The upstreams config, and the peers that it reaches.
fn upstreams(spec: &TargetSpec, lines: &mut Vec<String>) -> Option<()> {
    if let Some(own) = &spec.upstreams {
        lines.push(written(
            UPSTREAMS_FILE,
            placed(&own.to_string())?.as_bytes(),
        ));
    } else if !spec.peers.is_empty() {
        let scripts = Json::Object(spec.peers.clone().into_iter().collect());
        lines.push(written(
            PEERS_FILE,
            placed(&scripts.to_string())?.as_bytes(),
        ));
        // Peers play until their input ends: when the shell closes it, or ends.
        lines.push("mkfifo held".to_owned());
        lines.push(format!(
            "ptc-conformance peers {PEERS_FILE} < held > {UPSTREAMS_FILE} &"
        ));
        lines.push("exec 3> held".to_owned());
        lines.push(format!(
            "until [ -s {UPSTREAMS_FILE} ] || ! kill -0 $!; do sleep 0.1; done"
        ));
    }
    Some(())
}

/// The server's command with the variables and flags of `spec`; `observing` adds the flags that make results visible.
fn server(spec: &TargetSpec, observing: bool) -> Option<String> {
    let launch = Launch::default();
    let place = |text: &str| start::in_place(text, Path::new("."));
    let flags = start::flags(&launch, spec, observing, place).ok()?;
    let named = flags.iter().map(|(name, value)| (name.as_str(), value));
    let mut words = Vec::new();
    for (name, value) in &spec.env {
        words.push(format!("{name}={}", placed(value)?));
    }
    words = with_variables(words, reference::command(Path::new(reference::BINARY)));
    words.extend(launch.words(named).ok()?);
    if spec.upstreams.is_some() || !spec.peers.is_empty() {
        words.extend(launch.upstreams_words(Path::new(UPSTREAMS_FILE))?);
    }
    Some(shell_words::join(&words))
}

fn command(case: &CliCase, spec: &TargetSpec, lines: &mut Vec<String>) -> Option<()> {
    upstreams(spec, lines)?;
    let text = |text: &Text| text.string(&Captures::new()).ok();
    for (name, content) in &case.files {
        lines.push(written(name, &content.bytes(&Captures::new()).ok()?));
    }
    let mut variables = Vec::new();
    for (name, value) in &case.env {
        variables.push(format!("{name}={}", text(value)?));
    }
    let words: Option<Vec<String>> = case.argv.iter().map(text).collect();
    let command = shell_words::join(with_variables(variables, words?));
    lines.push(match &case.stdin {
        Some(stdin) => fed(&[Act::Write(stdin.bytes(&Captures::new()).ok()?)], &command),
        None => fed(&[], &command),
    });
    Some(())
}

fn with_variables(variables: Vec<String>, command: Vec<String>) -> Vec<String> {
    let env = (!variables.is_empty()).then(|| "env".to_owned());
    env.into_iter().chain(variables).chain(command).collect()
}

/// `text` with the case's directory as the working directory; none when it names a peer, which has no address yet.
fn placed(text: &str) -> Option<String> {
    let placed = start::in_place(text, Path::new("."));
    (!placed.contains("{{peer.")).then_some(placed)
}

/// A command whose input is fed so.
fn fed(acts: &[Act], command: &str) -> String {
    let mut feeding: Vec<String> = Vec::new();
    let writes = |act: &Act| matches!(act, Act::Write(_));
    for run in acts.chunk_by(|a, b| writes(a) && writes(b)) {
        let mut bytes = Vec::new();
        for act in run {
            match act {
                Act::Write(more) => bytes.extend_from_slice(more),
                Act::Sleep(seconds) => feeding.push(format!("sleep {seconds}")),
            }
        }
        if !bytes.is_empty() {
            feeding.push(print(&bytes));
        }
    }
    match feeding.as_slice() {
        [] => format!("{command} < /dev/null"),
        [one] => format!("{one} | {command}"),
        several => format!("{{ {}; }} | {command}", several.join("; ")),
    }
}

fn written(name: &str, content: &[u8]) -> String {
    let file = shell_words::quote(name);
    let directory = Path::new(name).parent().filter(|up| *up != Path::new(""));
    let made = directory.map(|up| {
        let up = up.to_string_lossy();
        format!("mkdir -p {} && ", shell_words::quote(&up))
    });
    format!("{}{} > {file}", made.unwrap_or_default(), print(content))
}

/// The command that prints these bytes: text as it is, all else with escapes.
fn print(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains(|c: char| c.is_control() && c != '\n'));
    match text.map(|text| (text, text.strip_suffix('\n'))) {
        Some((_, Some(lines))) => {
            format!("printf '%s\\n' {}", shell_words::join(lines.split('\n')))
        }
        Some((line, None)) if !line.contains('\n') => {
            format!("printf %s {}", shell_words::quote(line))
        }
        _ => format!("printf %b {}", shell_words::quote(&escaped(bytes))),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\0{byte:03o}")),
        }
    }
    text
}
