//! Writes what the specification's cases send, as first inputs for fuzzers. Knows which target eats what.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use conformance::suite::{Captures, Case, CaseBody, Text, WireAction};

/// Where the inputs go.
#[derive(Args)]
pub struct Options {
    /// Directory for the inputs, one below it for each kind
    #[arg(long, value_name = "DIR", default_value = "fuzz/corpus/seeds")]
    out: PathBuf,
}

/// Longer inputs than this slow a fuzzer down more than they help, in bytes.
const BYTES_MAX: usize = 8 * 1024;

/// Writes one file for each distinct input.
///
/// # Errors
/// When the suite can't be read or a file can't be written.
pub fn run(options: &Options) -> Result<(), String> {
    let suite = crate::suite()?;
    let mut inputs: BTreeSet<(&str, Vec<u8>)> = BTreeSet::new();
    for case in &suite.cases {
        inputs.extend(sent(case));
    }
    for path in pages(&crate::root().join("spec"))? {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        // A section is a page.
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
        let told = |error| format!("{}: {error}", directory.display());
        std::fs::create_dir_all(&directory).map_err(told)?;
        std::fs::write(directory.join(format!("{written:05}")), bytes).map_err(told)?;
        written += 1;
    }
    eprintln!("{}: {written} inputs", options.out.display());
    Ok(())
}

/// What a case sends, with the kind of input that it is.
fn sent(case: &Case) -> Vec<(&'static str, Vec<u8>)> {
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
        CaseBody::Http(_) | CaseBody::Cli(_) => {}
    }
    if let Some(upstreams) = &case.target.upstreams {
        inputs.push(("configs", upstreams.to_string().into_bytes()));
    }
    for text in case.target.files.values() {
        if text.contains("\"paths\"") {
            inputs.push(("openapi", text.clone().into_bytes()));
        }
    }
    inputs
}

/// The bytes of a text that no capture changes and that isn't huge.
fn bytes(text: &Text) -> Option<Vec<u8>> {
    (text.size() <= BYTES_MAX as u64)
        .then(|| text.bytes(&Captures::default()).ok())
        .flatten()
}

fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        let told = |error| format!("{}: {error}", directory.display());
        for entry in std::fs::read_dir(&directory).map_err(told)? {
            let path = entry.map_err(told)?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
