//! The project's own tools: `cargo tool VERB`. Knows which verbs there are; each verb has its module.

mod export;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tools for working on the project.
#[derive(Parser)]
#[command(name = "cargo tool")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Write the suite as one JSON bundle, checked against its JSON Schema.
    Export(export::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Export(options) => export::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the workspace.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
