//! Reports how well the specification is covered.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use conformance::report::{Run, Status};
use conformance::suite::Suite;

use crate::check;
use crate::coverage::Coverage;
use anyhow::{Result, bail};

/// Options of the report.
#[derive(Args)]
pub struct MatrixOptions {
    /// A JSON report of a run; if any are given, one of them must have judged every tested clause. Repeatable
    #[arg(long = "run", value_name = "FILE")]
    runs: Vec<PathBuf>,
    /// Print the clauses that this revision adds to the earlier ones, for its file in spec/revisions/, instead of the summary
    #[arg(long, value_name = "VERSION")]
    revision: Option<String>,
    /// Write the whole matrix to a file
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

/// Maximum number of clauses in a message.
const NAMED_MAX: usize = 60;

/// Prints the summary, and what is missing.
///
/// # Errors
/// When a clause has neither case nor reason, no run judged any of its cases, or nothing proves a row of the source documents.
pub fn run(options: &MatrixOptions) -> Result<()> {
    let suite = crate::suite()?;
    if let Some(version) = &options.revision {
        crate::write_stdout(&clauses_added(&suite, version)?);
        return Ok(());
    }
    let coverage = Coverage::of(&suite)?;
    if let Some(path) = &options.table {
        crate::guarded_fs::write(path, coverage.matrix())?;
    }
    crate::write_stdout(&format!("{}\n", coverage.summary()));
    let mut missing: Vec<String> = coverage
        .untested()
        .iter()
        .map(|clause| format!("{}:{}: {} has no case", clause.file, clause.line, clause.id))
        .chain(coverage.unproven())
        .collect();
    if !options.runs.is_empty() {
        let runs: Result<Vec<Run>, _> = options.runs.iter().map(|path| Run::read(path)).collect();
        missing.extend(unjudged_clauses(&suite, &runs?));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let hidden = missing.len().saturating_sub(NAMED_MAX);
    missing.truncate(NAMED_MAX);
    if hidden > 0 {
        missing.push(format!("… and {hidden} more"));
    }
    bail!("{}", missing.join("\n"))
}

/// Clauses with cases of which no run judged any.
fn unjudged_clauses(suite: &Suite, runs: &[Run]) -> Vec<String> {
    let mut judged: HashMap<&str, bool> = HashMap::new();
    let records = runs.iter().flat_map(|run| &run.cases);
    let seen: std::collections::HashSet<&str> = records
        .filter(|record| is_judged(record.status))
        .map(|record| record.id.as_str())
        .collect();
    // The reference need not offer everything that an MCP server may, such as resources and prompts. Those cases are for other servers.
    for case in suite.cases.iter().filter(|case| !case.is_open()) {
        for clause in &case.clauses {
            *judged.entry(clause).or_default() |= seen.contains(case.id.as_str());
        }
    }
    suite
        .clauses
        .iter()
        .filter(|clause| judged.get(clause.id.as_str()) == Some(&false))
        .map(|clause| {
            let (file, line, id) = (&clause.file, clause.line, &clause.id);
            format!("{file}:{line}: no run judged a case of {id}")
        })
        .collect()
}

fn is_judged(status: Status) -> bool {
    !matches!(
        status,
        Status::Unobservable | Status::NotClaimed | Status::NotRun
    )
}

/// The clauses that no earlier revision lists, with their levels, as TOML.
fn clauses_added(suite: &Suite, version: &str) -> Result<String> {
    let earlier = check::revisions::clauses_before(&crate::root(), version)?;
    let mut text = String::from("[added]\n");
    let mut clauses: Vec<_> = suite.clauses.iter().collect();
    clauses.retain(|clause| !earlier.contains(&clause.id));
    clauses.sort_by(|a, b| a.id.cmp(&b.id));
    for clause in clauses {
        let _infallible = writeln!(text, "\"{}\" = \"{}\"", clause.id, clause.level.word());
    }
    Ok(text)
}
