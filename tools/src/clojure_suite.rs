//! `cargo tool clojure-suite DIR`: evaluates in this language the assertions of a suite of clojure.test files that hold in JVM
//! Clojure, and compares the list of those that fail here with a table that gives the divergence for each. Knows nothing of how
//! the suite's files are parsed: a script does that in a JVM.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use ptc_lang::{Ended, Env, Error, Host, Limits, Program, Pulse, Reason, Value, run as evaluate};

use crate::clojure_check::unrecorded;
use anyhow::{Context, Result, bail};

/// Splits the files into assertions, and prints those that hold in its JVM.
const SCRIPT: &str = include_str!("clojure_suite.clj");

/// The assertions that differ: file, divergence, the clause of revision 1.0 by which a seed, a fact or a ruling requires the
/// answer given here (or `-` if none does), and program, separated by tabs.
const DIFFERENCES: &str = include_str!("clojure_suite.tsv");

/// Time limit of an assertion.
const PATIENCE: Duration = Duration::from_secs(2);

/// The location of the suite.
#[derive(Args)]
pub struct ClojureSuiteOptions {
    /// Directory on the class path of its files, such as `clojure-test-suite/test`
    dir: PathBuf,
    /// Print the differences as rows of the table, without a divergence where the table has none
    #[arg(long)]
    rows: bool,
}

/// An assertion that holds in the JVM.
struct Assertion<'a> {
    file: &'a str,
    fails: bool,
    program: &'a str,
}

/// The result of an assertion here.
enum AssertionResult {
    Agrees,
    /// It is not in this language: it can't be parsed, or uses an unknown name.
    Outside(&'static str),
    Differs(String),
}

/// Runs the suite and reports the differences.
///
/// Errors: Clojure is not installed, or did not answer; a difference is missing from the table, a row of the table matches no difference,
/// or its divergence is not on the page.
pub fn run(options: &ClojureSuiteOptions) -> Result<()> {
    let dir = options
        .dir
        .canonicalize()
        .with_context(|| options.dir.display().to_string())?;
    let answers = crate::clojure_check::run_in_jvm("ptc-clojure-suite.clj", SCRIPT, &dir)?;
    let mut table = table()?;
    let (mut seen, mut agree, mut outside) = (0usize, 0usize, BTreeMap::new());
    let (mut list, mut unexplained, mut causes) = (String::new(), 0usize, BTreeMap::new());
    let mut decided = BTreeMap::new();
    let mut reported = BTreeSet::new();
    for line in answers.lines() {
        let assertion = Assertion::parse(line)?;
        seen += 1;
        let answer = match assertion.verdict() {
            AssertionResult::Agrees => {
                agree += 1;
                continue;
            }
            AssertionResult::Outside(why) => {
                *outside.entry(why).or_insert(0usize) += 1;
                continue;
            }
            AssertionResult::Differs(answer) => answer,
        };
        let key = (assertion.file, assertion.program);
        let Row { why, clause } = table.get(&key).copied().unwrap_or(UNKNOWN);
        *causes.entry(why).or_insert(0usize) += 1;
        *decided.entry(clause).or_insert(0usize) += 1;
        unexplained += usize::from(why == "-");
        if !options.rows {
            list += &format!(
                "{why}\t{clause}\t{}\t{}\t{answer}\n",
                assertion.file, assertion.program
            );
        } else if reported.insert(key) {
            list += &format!(
                "{}\t{why}\t{clause}\t{}\n",
                assertion.file, assertion.program
            );
        }
        reported.insert(key);
    }
    table.retain(|key, _| !reported.contains(key));
    if options.rows {
        crate::write_stdout(&list);
        return Ok(());
    }
    for (why, count) in &causes {
        list += &format!("{count:5} {why}\n");
    }
    for (why, count) in &outside {
        list += &format!("{count:5} outside: {why}\n");
    }
    let written = seen - outside.values().sum::<usize>();
    let own = decided.remove("-").unwrap_or_default();
    for (clause, count) in &decided {
        list += &format!("{count:5} asked for by {clause}\n");
    }
    let decided = decided.into_values().sum::<usize>();
    let percent = |of: usize| agree as f64 * 100.0 / of.max(1) as f64;
    let inside = written - decided;
    list += &format!(
        "{seen} assertions hold in the JVM, {written} of them are written in the language: {agree} agree ({:.2} %)\n\
         {decided} of these are outside the subset, since revision 1.0 answers otherwise; of the {inside} inside it {agree} agree ({:.2} %) and {own} differ\n",
        percent(written),
        percent(inside),
    );
    crate::write_stdout(&list);
    verdict(unexplained, &table)
}

/// The faults of the table.
fn verdict(unexplained: usize, stale: &BTreeMap<(&str, &str), Row>) -> Result<()> {
    let mut faults = Vec::new();
    if unexplained > 0 {
        faults.push(format!(
            "{unexplained} differences (marked -) are in no row"
        ));
    }
    for (file, program) in stale.keys() {
        faults.push(format!("no difference any more: {file}\t{program}"));
    }
    let rows: Vec<_> = table()?.into_values().collect();
    let ids: BTreeSet<_> = rows.iter().map(|row| row.why).collect();
    faults.extend(unrecorded(ids.into_iter()));
    let path = crate::root().join("spec/revisions/1.0.toml");
    let revision = crate::guarded_fs::read_to_string(&path)?;
    let clauses: BTreeSet<_> = rows.iter().map(|row| row.clause).collect();
    let unknown = clauses
        .into_iter()
        .filter(|clause| *clause != "-" && !revision.contains(&format!("\"{clause}\" =")));
    faults.extend(unknown.map(|clause| format!("revision 1.0 has no {clause}")));
    match faults.is_empty() {
        true => Ok(()),
        false => bail!("{}", faults.join("\n")),
    }
}

/// Why an assertion differs.
#[derive(Clone, Copy)]
struct Row {
    /// The divergence that records it.
    why: &'static str,
    /// The clause of revision 1.0 that requires it; `-` if the language could also do what Clojure does.
    clause: &'static str,
}

const UNKNOWN: Row = Row {
    why: "-",
    clause: "-",
};

/// The rows, by file and program.
fn table() -> Result<BTreeMap<(&'static str, &'static str), Row>> {
    let row = |line: &'static str| {
        let columns: Vec<_> = line.splitn(4, '\t').collect();
        match columns[..] {
            [file, why, clause, program] => Ok(((file, program), Row { why, clause })),
            _ => bail!("a row without columns: {line}"),
        }
    };
    DIFFERENCES.lines().map(row).collect()
}

impl<'a> Assertion<'a> {
    fn parse(line: &'a str) -> Result<Self> {
        let mut columns = line.splitn(3, '\t');
        match (columns.next(), columns.next(), columns.next()) {
            (Some(file), Some(kind), Some(program)) => Ok(Assertion {
                file,
                fails: kind == "fails",
                program,
            }),
            _ => bail!("an assertion without columns: {line}"),
        }
    }

    fn verdict(&self) -> AssertionResult {
        let host = ClockHost(Instant::now());
        let program = Program::new(self.program);
        let (outcome, _) = evaluate(&program, &Env::new(), &Limits::default(), &host);
        match outcome.ended {
            Ended::Error(error) if error.reason() == Reason::ParseError => {
                AssertionResult::Outside("what the language does not read")
            }
            Ended::Error(error) if is_unknown_name(&error) => {
                AssertionResult::Outside("names that are not there")
            }
            Ended::Error(error) if self.fails && error.reason() == Reason::RuntimeError => {
                AssertionResult::Agrees
            }
            Ended::Error(error) => {
                let message = error.message();
                AssertionResult::Differs(message.replace(['\t', '\n', '\r'], " "))
            }
            Ended::Value(value) if !self.fails && is_true(&value) => AssertionResult::Agrees,
            Ended::Value(value) | Ended::Return(value) | Ended::Fail(value) => {
                let shown = ptc_lang::print::readable(&value);
                AssertionResult::Differs(shown.chars().take(200).collect())
            }
        }
    }
}

/// Whether the error is about an unknown name or member.
fn is_unknown_name(error: &Error) -> bool {
    ["unbound_var", "unsupported_method"].contains(&error.code())
        || ["unknown namespace ", " is not available in "]
            .iter()
            .any(|words| error.code() == "invalid_form" && error.message().contains(words))
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Nil | Value::Bool(false))
}

/// A host with nothing but a clock.
struct ClockHost(Instant);

impl Host for ClockHost {
    fn now_micros(&self) -> i64 {
        0
    }

    fn pulse(&self) -> Pulse {
        match self.0.elapsed() > PATIENCE {
            true => Pulse::TimedOut,
            false => Pulse::Continue,
        }
    }
}
