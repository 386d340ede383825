//! Writes the inputs of the specification's cases as seeds for fuzzers. Knows which target takes which input.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use conformance::peer::{self, Action, PeerKind, Script};
use conformance::suite::{
    Captures, Case, CaseBody, HttpAction, HttpRequest, TargetSpec, Text, WireAction,
};
use serde_json::{Value, json};

use anyhow::Result;

/// Output of the seeds.
#[derive(Args)]
pub struct SeedsOptions {
    /// Directory for the inputs, with a subdirectory for each kind
    #[arg(long, value_name = "DIR", default_value = "fuzz/corpus/seeds")]
    out: PathBuf,
}

/// Inputs longer than this, in bytes, slow a fuzzer down more than they help.
const BYTES_MAX: usize = 8 * 1024;

/// Writes one file for each distinct input.
///
/// # Errors
/// When the suite can't be read or a file can't be written.
pub fn run(options: &SeedsOptions) -> Result<()> {
    let suite = crate::suite()?;
    let mut inputs: BTreeSet<(&str, Vec<u8>)> = BTreeSet::new();
    for case in &suite.cases {
        inputs.extend(case_inputs(case));
    }
    for path in crate::guarded_fs::files_below(&crate::root().join("spec"), "md")? {
        let text = crate::guarded_fs::read_to_string(&path)?;
        // A section is treated as a page.
        inputs.extend(
            text.split("\n## ")
                .map(|part| ("fixtures", format!("## {part}").into_bytes())),
        );
    }
    let mut written = 0;
    for (kind, bytes) in &inputs {
        if bytes.is_empty() || bytes.len() > BYTES_MAX {
            continue;
        }
        let directory = options.out.join(kind);
        crate::guarded_fs::create_dir_all(&directory)?;
        crate::guarded_fs::write(&directory.join(format!("{written:05}")), bytes)?;
        written += 1;
    }
    eprintln!("{}: {written} inputs", options.out.display());
    Ok(())
}

/// The inputs in a case, each with its kind.
fn case_inputs(case: &Case) -> Vec<(&'static str, Vec<u8>)> {
    let mut inputs = Vec::new();
    match &case.body {
        CaseBody::Clj(clj) => {
            inputs.extend(bytes(&clj.program).map(|program| ("programs", program)));
            let context = clj.context.as_ref().and_then(bytes);
            inputs.extend(context.map(|context| ("values", context)));
        }
        CaseBody::Wire(wire) => {
            for step in &wire.steps {
                if let WireAction::Send(text) | WireAction::SendRaw(text) = &step.action {
                    inputs
                        .extend(bytes(text).map(|frame| ("frames", [&frame[..], b"\n"].concat())));
                }
            }
        }
        CaseBody::Call(call) => {
            let input = call.input.to_string();
            let kind = match call.op.as_str() {
                op if op.contains("schema") => "schemas",
                op if op.contains("signature") => "signatures",
                _ => "values",
            };
            inputs.push((kind, input.into_bytes()));
        }
        CaseBody::Fixture(fixture) => inputs.push(("fixtures", fixture.page.clone().into_bytes())),
        CaseBody::Http(http) => {
            for step in &http.steps {
                match &step.action {
                    HttpAction::Request(request) => inputs.extend(request_inputs(request)),
                    HttpAction::Raw { bytes: text, .. } => {
                        inputs.extend(bytes(text).map(|request| ("http", request)));
                    }
                    _ => {}
                }
            }
        }
        CaseBody::Cli(cli) => {
            let files = cli.commands().flat_map(|command| command.files.values());
            inputs.extend(files.filter_map(bytes).filter_map(file));
        }
    }
    inputs.extend(target_inputs(&case.target));
    inputs
}

/// Header fields whose values are parsed separately.
const JUDGED_FIELDS: &[&str] = &["authorization", "content-type", "host", "origin"];

/// A request as it is sent, and the values of the fields that are parsed separately.
fn request_inputs(request: &HttpRequest) -> Vec<(&'static str, Vec<u8>)> {
    // Captures stay as they are written: a session id may be any text.
    let written = |text: &Text| bytes(text).unwrap_or_else(|| text.source().into_bytes());
    let body = request.body.as_ref().map(written);
    let mut fields: Vec<(String, Vec<u8>)> = request
        .headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), written(value)))
        .collect();
    let length = body.as_ref().map(|body| body.len().to_string());
    for (name, value) in [
        ("host", Some("127.0.0.1:7332".to_owned())),
        ("content-length", length),
    ] {
        if let Some(value) = value.filter(|_| fields.iter().all(|(known, _)| known != name)) {
            fields.push((name.to_owned(), value.into_bytes()));
        }
    }
    let line = [request.method.as_bytes(), b" ", &written(&request.path)].concat();
    let mut whole = [&line[..], b" HTTP/1.1\r\n"].concat();
    for (name, value) in &fields {
        whole.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    whole.extend(b"\r\n");
    whole.extend(body.unwrap_or_default());
    let judged = fields
        .into_iter()
        .filter(|(name, _)| JUDGED_FIELDS.contains(&name.as_str()))
        .map(|(_, value)| ("http", value));
    judged.chain([("http", whole)]).collect()
}

/// A file of a case with its kind, if the server reads such files.
fn file(text: Vec<u8>) -> Option<(&'static str, Vec<u8>)> {
    let says = |word: &str| text.windows(word.len()).any(|part| part == word.as_bytes());
    let kind = match () {
        () if says("\"paths\"") => "openapi",
        () if says("\"upstreams\"") => "configs",
        () => return None,
    };
    Some((kind, text))
}

/// The inputs in a case's target block: its upstreams configuration, its files, and its peers' answers.
fn target_inputs(target: &TargetSpec) -> Vec<(&'static str, Vec<u8>)> {
    let mut inputs = Vec::new();
    if let Some(upstreams) = &target.upstreams {
        inputs.push(("configs", upstreams.to_string().into_bytes()));
    }
    inputs.extend(
        target
            .files
            .values()
            .filter_map(|text| file(text.clone().into_bytes())),
    );
    for peer in target.peers.values() {
        let Ok(script) = Script::read(&peer.to_string()) else {
            continue;
        };
        if let Some(schema) = &script.schema {
            inputs.push(("openapi", schema.to_string().into_bytes()));
        }
        if let PeerKind::Http = script.kind {
            let does = script.tools.iter().filter_map(|tool| tool.get("does"));
            let actions = does.filter_map(|does| serde_json::from_value(does.clone()).ok());
            inputs.extend(
                actions
                    .chain(script.methods.values().cloned())
                    .map(|action| ("sse", answer_as_stream(&action))),
            );
        }
    }
    inputs
}

/// A peer's answer as a stream of events.
fn answer_as_stream(action: &Action) -> Vec<u8> {
    let answer = match (&action.result, &action.error) {
        (Some(result), _) => json!({"jsonrpc": "2.0", "id": 1, "result": result}),
        (_, Some(error)) => json!({"jsonrpc": "2.0", "id": 1, "error": error}),
        _ => {
            let content: Vec<Value> = action
                .text
                .iter()
                .map(|text| json!({"type": "text", "text": text}))
                .collect();
            json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content, "structuredContent": action.structured}})
        }
    };
    peer::event_stream(action, Some(answer.to_string())).into_bytes()
}

/// The bytes of a text without captures that isn't too long.
fn bytes(text: &Text) -> Option<Vec<u8>> {
    (text.size() <= BYTES_MAX as u64)
        .then(|| text.bytes(&Captures::default()).ok())
        .flatten()
}
