//! Writes a case in the notation of fixtures. Knows the model; knows nothing of targets.

use crate::suite::{
    BodyExpect, CallExpect, Case, CaseBody, CliCase, CljCase, Control, FileExpect, FixtureExpect,
    HttpAction, HttpCase, LineMatch, MessageExpect, Outcome, WireAction, WireCase,
};

/// The source of the case, for display.
pub fn render(case: &Case) -> String {
    let mut lines = Vec::new();
    match &case.body {
        CaseBody::Clj(body) => clj(body, &mut lines),
        CaseBody::Wire(body) => wire(body, &mut lines),
        CaseBody::Http(body) => http(body, &mut lines),
        CaseBody::Call(body) => {
            lines.push(format!("{} {}", body.op, body.input));
            lines.push(match &body.expect {
                CallExpect::Returns(pattern) => format!("=> {}", pattern.source()),
                CallExpect::Refuses(pattern) => format!("!! {}", pattern.source()),
            });
        }
        CaseBody::Cli(body) => cli(body, &mut lines),
        CaseBody::Fixture(body) => {
            lines.push(body.page.clone());
            match &body.expect {
                FixtureExpect::Cases(ids) => lines.extend(ids.iter().map(|id| format!("=> {id}"))),
                FixtureExpect::Errors(texts) => {
                    lines.extend(texts.iter().map(|text| format!("!! {text}")));
                }
            }
        }
    }
    lines.join("\n")
}

fn clj(body: &CljCase, lines: &mut Vec<String>) {
    if let Some(context) = &body.context {
        lines.push(format!(";context {}", context.source()));
    }
    lines.push(body.program.source());
    match &body.expect.outcome {
        Outcome::Returns(returned) => {
            if let Some(data) = &returned.data {
                lines.push(format!(";=> {data}"));
            }
            if let Some(text) = &returned.text {
                lines.push(format!(";== {}", text.source()));
            }
            if returned.nothing {
                lines.push(";== (no result)".to_owned());
            }
            if let Some(shape) = &returned.shape {
                lines.push(format!(";~ {shape}"));
            }
            if let Some(json) = &returned.json {
                lines.push(format!(";json {json}"));
            }
        }
        Outcome::Raises(raised) => {
            let kind = raised
                .kind
                .as_ref()
                .map(|kind| format!(" {kind}"))
                .unwrap_or_default();
            let message = match &raised.message {
                Some(MessageExpect::Exact(text)) => format!(": {} (whole message)", text.source()),
                Some(MessageExpect::Prefix(text)) => format!(": {}", text.source()),
                None => String::new(),
            };
            lines.push(format!(";!! {}{kind}{message}", raised.reason.word()));
            let failed = raised.value_text.as_ref().map(crate::suite::Text::source);
            lines.extend(failed.map(|text| format!(";== {text}")));
            lines.extend(raised.value_data.as_ref().map(|data| format!(";=> {data}")));
        }
    }
    if let Some(prints) = &body.expect.prints {
        lines.extend(prints.iter().map(|entry| format!(";>> {}", entry.source())));
    }
    if body.expect.truncated {
        lines.push(";truncated".to_owned());
    }
}

fn wire(body: &WireCase, lines: &mut Vec<String>) {
    if body.handshake {
        lines.push("(after initialize)".to_owned());
    }
    for step in &body.steps {
        match &step.action {
            WireAction::Send(text) => lines.push(format!("-> {}", text.source())),
            WireAction::SendRaw(text) => lines.push(format!("->raw {}", text.source())),
            WireAction::Expect(expect) => lines.push(format!("<- {}", expect.pattern.source())),
            WireAction::ExpectUnordered { patterns, .. } => {
                lines.extend(
                    patterns
                        .iter()
                        .map(|pattern| format!("<~ {}", pattern.source())),
                );
            }
            WireAction::ExpectRaw { text, .. } => lines.push(format!("<-raw {}", text.source())),
            WireAction::Control(step) => lines.push(control(step)),
        }
    }
}

fn http(body: &HttpCase, lines: &mut Vec<String>) {
    let tag = |tag: &Option<String>| {
        tag.as_ref()
            .map(|tag| format!("[{tag}] "))
            .unwrap_or_default()
    };
    for step in &body.steps {
        match &step.action {
            HttpAction::Request(request) => {
                lines.push(format!(
                    "-> {}{} {}",
                    tag(&request.tag),
                    request.method,
                    request.path.source()
                ));
                let fields = request.headers.iter();
                lines.extend(fields.map(|(name, value)| format!("   {name}: {}", value.source())));
                lines.extend(
                    request
                        .body
                        .iter()
                        .map(|body| format!("   {}", body.source())),
                );
            }
            HttpAction::Raw { tag: named, bytes } => {
                lines.push(format!("->raw {}{}", tag(named), bytes.source()));
            }
            HttpAction::Response(response) => {
                let statuses = response.statuses();
                lines.push(format!("<- {}{statuses}", tag(&response.tag)));
                lines.extend(response.headers.iter().map(|header| {
                    let value = header.value.as_ref();
                    let value = value.map_or("<absent>".to_owned(), crate::suite::Text::source);
                    format!("   {}: {value}", header.name)
                }));
                match &response.body {
                    BodyExpect::Any => {}
                    BodyExpect::Empty => lines.push("   <empty>".to_owned()),
                    BodyExpect::Json(pattern) => lines.push(format!("   {}", pattern.source())),
                    BodyExpect::Text(text) => lines.push(format!("   | {}", text.source())),
                }
            }
            HttpAction::Dropped {
                tag: named,
                or_status,
                ..
            } => {
                let others = or_status.iter().map(|status| format!(" or {status}"));
                let others: String = others.collect();
                lines.push(format!("<- {}dropped{others}", tag(named)));
            }
            HttpAction::Nothing { tag: named, .. } => {
                lines.push(format!("<- {}nothing", tag(named)));
            }
            HttpAction::HangUp { tag } => lines.push(format!("hang up [{tag}]")),
            HttpAction::HalfClose { tag } => lines.push(format!("half close [{tag}]")),
            HttpAction::Control(step) => lines.push(control(step)),
        }
    }
}

fn cli(body: &CliCase, lines: &mut Vec<String>) {
    for (at, command) in body.commands().enumerate() {
        if at > 0 {
            lines.push("then".to_owned());
        }
        one_command(command, lines);
    }
}

fn one_command(body: &CliCase, lines: &mut Vec<String>) {
    for (name, value) in &body.env {
        lines.push(format!("{name}={}", value.source()));
    }
    let words: Vec<String> = body.argv.iter().map(crate::suite::Text::source).collect();
    lines.push(format!("$ {}", shell_words::join(&words)));
    lines.extend(
        body.stdin
            .iter()
            .map(|text| format!("stdin: {}", text.source())),
    );
    lines.push(format!("exit status {}", body.expect.status));
    lines.extend(
        body.expect
            .stdout
            .iter()
            .map(|text| format!("stdout: {}", text.source())),
    );
    lines.extend(
        body.expect
            .stderr
            .iter()
            .map(|text| format!("stderr: {}", text.source())),
    );
    for (name, file) in &body.expect.files {
        lines.push(match file {
            FileExpect::Absent => format!("no file {name}"),
            FileExpect::Text(text) => format!("file {name}: {}", text.source()),
        });
    }
    for wanted in &body.expect.received {
        let not = if wanted.present { "" } else { "not " };
        lines.push(format!(
            "peer {} {not}received {}",
            wanted.peer,
            wanted.pattern.source()
        ));
    }
}

/// The source of a step that every transport supports.
pub(super) fn control(step: &Control) -> String {
    let not = |present: bool| if present { "" } else { "not " };
    let line = |wanted: &LineMatch| match wanted {
        LineMatch::Json(pattern) => pattern.source(),
        LineMatch::Regex(regex) => format!("/{regex}/"),
    };
    match step {
        Control::Wait { ms } => format!("wait {ms}ms"),
        Control::Silence { ms } => format!("silence {ms}ms"),
        Control::Eof => "eof".to_owned(),
        Control::Signal { name } => format!("signal {name}"),
        Control::Exit { status, .. } => match status {
            Some(status) => format!("exit {status}"),
            None => "exit any".to_owned(),
        },
        Control::KillPeer { peer } => format!("kill peer {peer}"),
        Control::PeerReceived {
            peer,
            present,
            pattern,
        } => {
            format!("peer {peer} {}received {}", not(*present), pattern.source())
        }
        Control::Log {
            present,
            line: wanted,
        } => format!("log {}{}", not(*present), line(wanted)),
        Control::Never { finding } => format!("never {finding}"),
        Control::Trace {
            present,
            line: wanted,
        } => format!("trace {}{}", not(*present), line(wanted)),
    }
}
