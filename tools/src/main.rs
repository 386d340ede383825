//! The project's own tools: `cargo tool VERB`. Knows the verbs; each has its module.

mod bench;
mod bless;
mod check;
mod clojure_check;
mod clojure_suite;
mod coverage;
mod documents;
mod echo;
mod export;
mod golden;
mod guarded_fs;
mod matrix;
mod mutants;
mod seeds;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use conformance::{fixture, suite::Suite};

use anyhow::{Error, Result};

ptc_lang::counting_allocator!();

/// Tools for working on the project.
#[derive(Parser)]
#[command(name = "cargo tool")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check that tables, functions, specification, boundaries and golden/ agree.
    Check,
    /// Rewrite golden/, the recorded facts about our implementation.
    Bless,
    /// Join source documents, clauses, cases, implementation and runs; fail if a row is unproven, or a clause untested or never judged.
    Matrix(matrix::MatrixOptions),
    /// Plant faults into the reference, one at a time, and judge them by the suite alone; resumes where the last run ended.
    Mutants(mutants::MutantsOptions),
    /// Measure, and print medians against targets.
    Bench(bench::BenchOptions),
    /// Answer every JSON-RPC request with an empty result: the baseline that `bench` compares servers with.
    #[command(hide = true)]
    Echo,
    /// Write the inputs of the cases as seeds for the fuzzers.
    Seeds(seeds::SeedsOptions),
    /// Run the corpus in JVM Clojure and list the differences, each with its divergence.
    ClojureCheck(clojure_check::ClojureCheckOptions),
    /// Evaluate the assertions of a suite of clojure.test files that hold in JVM Clojure, and list those that fail here.
    ClojureSuite(clojure_suite::ClojureSuiteOptions),
    /// Write the suite as one JSON bundle, checked against its JSON Schema.
    Export(export::ExportOptions),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Check => check::run(),
        Verb::Bless => bless::run(),
        Verb::Matrix(options) => matrix::run(&options),
        Verb::Mutants(options) => mutants::run(&options),
        Verb::Bench(options) => bench::run(&options),
        Verb::Echo => echo::run(),
        Verb::Seeds(options) => seeds::run(&options),
        Verb::ClojureCheck(options) => clojure_check::run(&options),
        Verb::ClojureSuite(options) => clojure_suite::run(&options),
        Verb::Export(options) => export::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With the places that it passed as context.
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the workspace.
fn root() -> PathBuf {
    let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    tools.parent().map(PathBuf::from).unwrap_or(tools)
}

/// The specification of the workspace.
fn suite() -> Result<Suite> {
    fixture::load(&root().join("spec")).map_err(Error::from)
}

/// Writes to standard output. An error means that the reader has closed its end, and is ignored.
fn write_stdout(text: &str) {
    let mut out = std::io::stdout();
    let _reader_gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
