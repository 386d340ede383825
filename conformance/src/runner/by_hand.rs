//! Writes a case as shell commands that show a person what a server does with it: the files, peers, variables and flags
//! that it needs, and what is sent. Knows what the harness would do; starts nothing, and knows nothing of verdicts.

use std::path::Path;

use crate::json::Json;
use crate::judge;
use crate::suite::{
    CallCase, Captures, Case, CaseBody, CliCase, CljCase, Control, HttpAction, HttpCase,
    HttpRequest, TargetSpec, Text, Transport, WireAction, WireCase,
};
use crate::target::capability::LISP_RUN;
use crate::target::frame;
use crate::target::launch::Launch;
use crate::target::link::{self, Evaluation};
use crate::target::reference;

use super::exchange::{ACCEPT, USUAL_HEADERS};
use super::start::{self, UPSTREAMS_FILE};
use super::wire;

/// Scripts longer than this, in bytes, are not worth pasting.
const SCRIPT_BYTES_MAX: usize = 8 << 10;
/// The file with the scripts of the peers.
const PEERS_FILE: &str = "peers.json";
/// Seconds to wait for an answer, and to wait in cases that deliberately let time pass.
const ANSWER_SECONDS: &str = "1";
const SLOW_ANSWER_SECONDS: &str = "3";

/// The server that a case is shown against.
#[derive(Debug, Clone)]
pub struct ShownServer {
    /// The command that starts it, without flags; `None` for a server that is already running.
    pub command: Option<Vec<String>>,
    /// The adapter for operations of its library.
    pub testee: Vec<String>,
    /// Whether the adapter is the whole target, so that programs go to it, too.
    pub is_library: bool,
    /// How flags and variables are passed to it.
    pub launch: Launch,
    /// Its URL over HTTP.
    pub url: String,
}

impl Default for ShownServer {
    fn default() -> Self {
        let word = |word: &str| word.to_owned();
        Self {
            command: Some(reference::command(Path::new(reference::BINARY))),
            testee: vec![word(reference::BINARY), word(reference::TESTEE)],
            is_library: false,
            launch: Launch::default(),
            url: format!("http://127.0.0.1:{SHOWN_PORT}/mcp"),
        }
    }
}

/// The port in commands that start a server over HTTP.
const SHOWN_PORT: u16 = 7332;

/// The commands; `None` for what a few commands cannot do: signals, values from an answer that a later request over standard
/// streams needs, bytes that are not a request, long texts.
pub fn commands(case: &Case, subject: &ShownServer) -> Option<String> {
    let pause = match case.waits() {
        true => SLOW_ANSWER_SECONDS,
        false => ANSWER_SECONDS,
    };
    let mut lines = Vec::new();
    match &case.body {
        // What open cases send is known only after a survey of the server.
        _ if case.is_open() => return None,
        CaseBody::Http(body) => exchange(body, case, subject, &mut lines)?,
        _ if case.target.transport == Transport::Http => return None,
        CaseBody::Clj(body) if subject.is_library => {
            let input = evaluation(body)?.json();
            lines.push(piped_into(
                &[InputStep::Write(line(link::operation(1, LISP_RUN, &input)))],
                &shell_words::join(&subject.testee),
            ));
        }
        CaseBody::Clj(body) => {
            // After the end of input a call gets only a moment more.
            let lasts = case.waits() || !case.target.peers.is_empty();
            let mut input = with_handshake(vec![InputStep::Write(program(body)?)]);
            if subject.command.is_none() {
                curl_posts(&input, &subject.url, &mut lines)?;
            } else {
                input.extend(lasts.then_some(InputStep::Sleep(pause.to_owned())));
                write_setup(&case.target, &mut lines)?;
                lines.push(piped_into(&input, &server(&case.target, subject, true)?));
            }
        }
        CaseBody::Wire(body) if subject.command.is_none() => {
            curl_posts(&input_steps(body, pause)?, &subject.url, &mut lines)?;
        }
        CaseBody::Wire(body) => {
            write_setup(&case.target, &mut lines)?;
            lines.push(piped_into(
                &input_steps(body, pause)?,
                &server(&case.target, subject, false)?,
            ));
        }
        CaseBody::Call(body) => {
            lines.push(piped_into(
                &[InputStep::Write(operation(body))],
                &shell_words::join(&subject.testee),
            ));
        }
        CaseBody::Cli(body) => command(body, &case.target, &mut lines)?,
        CaseBody::Fixture(_) => return None,
    }
    // No files are written for a server that is already running.
    let writes = subject.command.is_some() || matches!(case.body, CaseBody::Cli(_));
    if lines.len() > 1 && writes {
        lines.insert(0, "cd \"$(mktemp -d)\"".to_owned());
    }
    if !case.target.peers.is_empty() {
        lines.push("exec 3>&-".to_owned());
    }
    let script = lines.join("\n");
    (script.len() <= SCRIPT_BYTES_MAX).then_some(script)
}

/// A step in feeding a command's standard input.
enum InputStep {
    Write(Vec<u8>),
    /// Pauses for this many seconds.
    Sleep(String),
}

fn evaluation(case: &CljCase) -> Option<Evaluation> {
    let text = |text: &Text| text.string(&Captures::new()).ok();
    Some(Evaluation {
        program: text(&case.program)?,
        context: match &case.context {
            Some(context) => Some(text(context)?),
            None => None,
        },
        output_schema: judge::output_schema(&case.expect)
            .ok()
            .map(|schema| schema.to_string()),
        limits: None,
    })
}

fn program(case: &CljCase) -> Option<Vec<u8>> {
    let (method, params) = evaluation(case)?.request();
    Some(line(link::frame(1, method, Some(&params))))
}

fn operation(case: &CallCase) -> Vec<u8> {
    line(link::operation(1, &case.op, &case.input.to_string()))
}

fn input_steps(case: &WireCase, pause: &str) -> Option<Vec<InputStep>> {
    let mut acts = match case.handshake {
        true => with_handshake(Vec::new()),
        false => Vec::new(),
    };
    for step in &case.steps {
        match &step.action {
            WireAction::Send(text) => {
                let mut bytes = text.bytes(&Captures::new()).ok()?;
                bytes.push(b'\n');
                acts.push(InputStep::Write(bytes));
            }
            WireAction::SendRaw(text) => {
                acts.push(InputStep::Write(text.bytes(&Captures::new()).ok()?));
            }
            WireAction::Expect(_)
            | WireAction::ExpectUnordered { .. }
            | WireAction::ExpectRaw { .. } => {
                // Consecutive answers need only one wait.
                if !matches!(acts.last(), Some(InputStep::Sleep(_))) {
                    acts.push(InputStep::Sleep(pause.to_owned()));
                }
            }
            WireAction::Control(Control::Wait { ms } | Control::Silence { ms }) => {
                let seconds = std::time::Duration::from_millis(*ms).as_secs_f64();
                acts.push(InputStep::Sleep(seconds.to_string()));
            }
            WireAction::Control(Control::Eof) => return Some(acts),
            WireAction::Control(Control::Signal { .. } | Control::KillPeer { .. }) => return None,
            // These steps only check results.
            WireAction::Control(
                Control::Exit { .. }
                | Control::PeerReceived { .. }
                | Control::Log { .. }
                | Control::Never { .. }
                | Control::Trace { .. },
            ) => {}
        }
    }
    Some(acts)
}

/// The acts, preceded by the handshake.
fn with_handshake(acts: Vec<InputStep>) -> Vec<InputStep> {
    let mut all = vec![
        InputStep::Write(line(wire::initialize())),
        InputStep::Sleep(ANSWER_SECONDS.to_owned()),
        InputStep::Write(line(link::INITIALIZED.to_owned())),
    ];
    all.extend(acts);
    all
}

/// Messages to a server that is already running, each as a `curl` command; those after the handshake use the session that it opens. `None`
/// if the input is not a message.
fn curl_posts(acts: &[InputStep], url: &str, lines: &mut Vec<String>) -> Option<()> {
    let mut all = acts.iter().peekable();
    while let Some(act) = all.next() {
        let message = match act {
            InputStep::Write(bytes) => std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?,
            InputStep::Sleep(seconds) => {
                lines.push(format!("sleep {seconds}"));
                continue;
            }
        };
        let mut words = vec!["curl".to_owned(), "-s".to_owned()];
        for (name, value) in USUAL_HEADERS {
            words.extend(["-H".to_owned(), format!("{name}: {value}")]);
        }
        words.extend([
            "--data-binary".to_owned(),
            message.to_owned(),
            url.to_owned(),
        ]);
        let curl = shell_words::join(&words);
        if message == wire::initialize() {
            lines.push(format!(
                "session=$({curl} -D - -o /dev/null | tr -d '\\r' | sed -n 's/^mcp-session-id: */Mcp-Session-Id: /Ip')"
            ));
            all.next_if(|next| matches!(next, InputStep::Sleep(_)));
            continue;
        }
        let revision = format!("'MCP-Protocol-Version: {}'", link::PROTOCOL_VERSION);
        let mut post = format!("{curl} -H {revision} -H \"$session\"");
        // A request that is not waited for runs in the background.
        let waited_for =
            frame::is_notification(message) || !matches!(all.peek(), Some(InputStep::Write(_)));
        post.push_str(if waited_for { "; echo" } else { " &" });
        lines.push(post);
        if waited_for {
            all.next_if(|next| matches!(next, InputStep::Sleep(_)));
        }
    }
    Some(())
}

fn line(text: String) -> Vec<u8> {
    (text + "\n").into_bytes()
}

/// HTTP requests, each as a `curl` command, to a server that is started for them.
fn exchange(
    case: &HttpCase,
    of: &Case,
    subject: &ShownServer,
    lines: &mut Vec<String>,
) -> Option<()> {
    let origin = subject.url.split('/').take(3).collect::<Vec<_>>().join("/");
    if subject.command.is_some() {
        write_setup(&of.target, lines)?;
        let mut server = server(&of.target, subject, false)?;
        server.push(' ');
        server.push_str(&shell_words::join(subject.launch.http_words(SHOWN_PORT)?));
        lines.push(format!("{server} &"));
        lines.push(format!(
            "until curl -sf -o ready {origin}{}; do sleep 0.1; done",
            subject.launch.http_ready
        ));
    }
    for step in &case.steps {
        match &step.action {
            HttpAction::Request(request) => lines.push(curl(request, &origin)?),
            HttpAction::Raw { tag, bytes } => {
                let line = raw_request(&bytes.bytes(&Captures::new()).ok()?, &origin)?;
                lines.push(in_background(line, tag.is_some()));
            }
            HttpAction::HangUp { .. } | HttpAction::HalfClose { .. } => return None,
            HttpAction::Control(Control::Wait { ms } | Control::Silence { ms }) => {
                let seconds = std::time::Duration::from_millis(*ms).as_secs_f64();
                lines.push(format!("sleep {seconds}"));
            }
            HttpAction::Control(
                Control::Signal { .. } | Control::KillPeer { .. } | Control::Eof,
            ) => return None,
            // These steps only check results.
            HttpAction::Response(_)
            | HttpAction::Dropped { .. }
            | HttpAction::Nothing { .. }
            | HttpAction::Control(
                Control::Exit { .. }
                | Control::PeerReceived { .. }
                | Control::Log { .. }
                | Control::Never { .. }
                | Control::Trace { .. },
            ) => {}
        }
    }
    if subject.command.is_some() {
        lines.push("kill $!".to_owned());
    }
    Some(())
}

/// One request. A value from an earlier answer is shown as `{{name}}`, to be filled in by hand. An untagged request runs in the foreground.
fn curl(request: &HttpRequest, origin: &str) -> Option<String> {
    let mut words = vec!["curl".to_owned(), "-si".to_owned()];
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    add("-X", request.method.clone());
    for (name, value) in &request.headers {
        add("-H", format!("{name}: {}", display_text(value)?));
    }
    let accepts = |(name, _): &(String, Text)| name.eq_ignore_ascii_case(ACCEPT.0);
    if !request.headers.iter().any(accepts) {
        add("-H", format!("{}: {}", ACCEPT.0, ACCEPT.1));
    }
    if let Some(body) = &request.body {
        add("--data-binary", display_text(body)?);
    }
    words.push(format!("{origin}{}", display_text(&request.path)?));
    Some(in_background(
        shell_words::join(words),
        request.tag.is_some(),
    ))
}

fn in_background(line: String, wanted: bool) -> String {
    match wanted {
        true => format!("{line} &"),
        false => line,
    }
}

/// The command that sends these bytes over a connection of their own: `curl` if it would send nothing different for them that matters, else `nc`.
fn raw_request(bytes: &[u8], origin: &str) -> Option<String> {
    if let Some(request) = ordinary_request(bytes) {
        return curl(&request, origin);
    }
    let address = origin.strip_prefix("http://")?;
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (address, "80"),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let command = ["nc", "-w", SLOW_ANSWER_SECONDS, host, port];
    Some(format!(
        "{} | {}",
        printf_command(bytes),
        shell_words::join(command)
    ))
}

/// The request that these bytes are, if `curl` sends it with the same target, fields and body.
fn ordinary_request(bytes: &[u8]) -> Option<HttpRequest> {
    let (head, body) = std::str::from_utf8(bytes).ok()?.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let [method, path, "HTTP/1.1"] = lines.next()?.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    // `curl` expands brackets and removes dot segments.
    let plain = |c: char| c.is_ascii_graphic() && !"[]{}#".contains(c);
    let is_usual = method.chars().all(|c| c.is_ascii_uppercase())
        && path.starts_with('/')
        && path.chars().all(plain)
        && !path.contains("/.");
    if !is_usual {
        return None;
    }
    let mut headers: Vec<(String, Text)> = Vec::new();
    let mut length = None;
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_value = |c: char| c == ' ' || c.is_ascii_graphic();
        let is_plain = !name.is_empty()
            && name.chars().all(is_name)
            && !value.is_empty()
            && value.trim() == value
            && value.chars().all(is_value);
        let again = |known: &str| {
            headers
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(known))
        };
        match name.to_ascii_lowercase().as_str() {
            _ if !is_plain => return None,
            "transfer-encoding" | "expect" => return None,
            "content-length" if length.is_some() => return None,
            // `+2` is a number to Rust, and none here.
            "content-length" if !value.bytes().all(|byte| byte.is_ascii_digit()) => return None,
            // `curl` counts itself.
            "content-length" => length = Some(value.parse::<usize>().ok()?),
            "host" | "content-type" if again(name) => return None,
            _ => headers.push((name.to_owned(), Text::plain(value))),
        }
    }
    let has = |wanted: &str| {
        headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    let body_is_usual = match length {
        None => body.is_empty(),
        // `@` names a file, and a body without a type gets that of a form.
        Some(length) => {
            length > 0 && length == body.len() && !body.starts_with('@') && has("content-type")
        }
    };
    (has("host") && body_is_usual).then(|| HttpRequest {
        tag: None,
        method: method.to_owned(),
        path: Text::plain(path),
        headers,
        body: length.map(|_| Text::plain(body)),
    })
}

/// The expanded text; its source if it needs an earlier answer.
fn display_text(text: &Text) -> Option<String> {
    let filled = text.string(&Captures::new());
    Some(filled.unwrap_or_else(|_| text.source()))
}

/// The commands that create the files and peers that a server needs.
fn write_setup(spec: &TargetSpec, lines: &mut Vec<String>) -> Option<()> {
    for (name, content) in &spec.files {
        lines.push(write_file_command(name, expand_dir(content)?.as_bytes()));
    }
    upstreams(spec, lines)
}

/// The commands that write the upstreams configuration and start the peers in it.
fn upstreams(spec: &TargetSpec, lines: &mut Vec<String>) -> Option<()> {
    if let Some(own) = &spec.upstreams {
        lines.push(write_file_command(
            UPSTREAMS_FILE,
            expand_dir(&own.to_string())?.as_bytes(),
        ));
    } else if !spec.peers.is_empty() {
        let scripts = Json::Object(spec.peers.clone().into_iter().collect());
        lines.push(write_file_command(
            PEERS_FILE,
            expand_dir(&scripts.to_string())?.as_bytes(),
        ));
        // Peers run until their input ends, which happens when the shell closes it or exits.
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
fn server(spec: &TargetSpec, subject: &ShownServer, observing: bool) -> Option<String> {
    let launch = &subject.launch;
    let place = |text: &str| start::expand_dir(text, Path::new("."));
    let flags = start::flags(launch, spec, observing, place).ok()?;
    let named = flags.iter().map(|(name, value)| (name.as_str(), value));
    let mut words = Vec::new();
    for (name, value) in &spec.env {
        words.push(format!("{}={}", launch.variable(name), expand_dir(value)?));
    }
    let command = subject.command.iter().flatten().chain(&launch.arguments);
    words = with_variables(words, command.cloned().collect());
    words.extend(launch.words(named).ok()?);
    if spec.upstreams.is_some() || !spec.peers.is_empty() {
        words.extend(launch.upstreams_words(Path::new(UPSTREAMS_FILE))?);
    }
    Some(shell_words::join(&words))
}

fn command(case: &CliCase, spec: &TargetSpec, lines: &mut Vec<String>) -> Option<()> {
    upstreams(spec, lines)?;
    // Values that come from another command's output are not known yet.
    let text = |text: &Text| text.string(&Captures::new()).ok();
    for case in case.commands() {
        for (name, content) in &case.files {
            lines.push(write_file_command(
                name,
                &content.bytes(&Captures::new()).ok()?,
            ));
        }
        let mut variables = Vec::new();
        for (name, value) in &case.env {
            variables.push(format!("{name}={}", text(value)?));
        }
        let words: Option<Vec<String>> = case.argv.iter().map(text).collect();
        let command = shell_words::join(with_variables(variables, words?));
        lines.push(match &case.stdin {
            Some(stdin) => {
                let mut acts = vec![InputStep::Write(stdin.bytes(&Captures::new()).ok()?)];
                if case.stdin_open {
                    acts.push(InputStep::Sleep(ANSWER_SECONDS.to_owned()));
                }
                piped_into(&acts, &command)
            }
            None => piped_into(&[], &command),
        });
    }
    Some(())
}

fn with_variables(variables: Vec<String>, command: Vec<String>) -> Vec<String> {
    let env = (!variables.is_empty()).then(|| "env".to_owned());
    env.into_iter().chain(variables).chain(command).collect()
}

/// `text` with the working directory as the case's directory; `None` when it names a peer, which has no address yet.
fn expand_dir(text: &str) -> Option<String> {
    let placed = start::expand_dir(text, Path::new("."));
    (!placed.contains("{{peer.")).then_some(placed)
}

/// A command whose standard input is fed by these acts.
fn piped_into(acts: &[InputStep], command: &str) -> String {
    let mut feeding: Vec<String> = Vec::new();
    let writes = |act: &InputStep| matches!(act, InputStep::Write(_));
    for run in acts.chunk_by(|a, b| writes(a) && writes(b)) {
        let mut bytes = Vec::new();
        for act in run {
            match act {
                InputStep::Write(more) => bytes.extend_from_slice(more),
                InputStep::Sleep(seconds) => feeding.push(format!("sleep {seconds}")),
            }
        }
        if !bytes.is_empty() {
            feeding.push(printf_command(&bytes));
        }
    }
    match feeding.as_slice() {
        [] => format!("{command} < /dev/null"),
        [one] => format!("{one} | {command}"),
        several => format!("{{ {}; }} | {command}", several.join("; ")),
    }
}

fn write_file_command(name: &str, content: &[u8]) -> String {
    let file = shell_words::quote(name);
    let directory = Path::new(name).parent().filter(|up| *up != Path::new(""));
    let made = directory.map(|up| {
        let up = up.to_string_lossy();
        format!("mkdir -p {} && ", shell_words::quote(&up))
    });
    format!(
        "{}{} > {file}",
        made.unwrap_or_default(),
        printf_command(content)
    )
}

/// The command that prints these bytes: text literally, anything else with escapes.
fn printf_command(bytes: &[u8]) -> String {
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
