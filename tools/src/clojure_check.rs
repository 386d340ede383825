//! `cargo tool clojure-check`: runs the corpus programs in JVM Clojure, and compares the list of those whose result differs
//! with a table that gives the divergence for each. Knows nothing of how programs are evaluated.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::{Value, json};

use anyhow::{Context, Error, Result, bail};

/// Corpus files of programs; the others need a server, or test the wording of errors and descriptions.
const AREAS: &[&str] = &[
    "aggregates-order",
    "clojure",
    "maps-sets",
    "natural",
    "numbers",
    "printing",
    "programs",
    "reader",
    "seqs",
    "special-forms",
    "strings",
    "time",
];

/// Error reasons that are worth comparing with Clojure; limits are implementation-specific.
const REASONS: &[&str] = &["parse_error", "runtime_error"];

/// Evaluates its input in one JVM.
const SCRIPT: &str = include_str!("clojure_check.clj");

/// The JVM omits the message of an exception that is thrown often, and threads of the default size occasionally overflow
/// at depths that other runs reach.
const JVM_OPTIONS: &str = "-XX:-OmitStackTraceInFastThrow -Xss64m";

/// The page that records the divergences.
const PAGE: &str = "spec/divergences/clojure.md";

/// The programs that differ: case, divergence, expected and actual answer, separated by tabs.
const DIFFERENCES: &str = include_str!("clojure_check.tsv");

/// Options of the check.
#[derive(Args)]
pub struct ClojureCheckOptions {
    /// Print the differences as rows of the table, without a divergence where the table has none
    #[arg(long)]
    rows: bool,
}

/// Runs the check and prints the differences, with a count for each divergence.
///
/// Errors: Clojure is not installed, or did not answer; a difference is missing from the table, a row matches no difference, or its
/// divergence is not on the page.
pub fn run(options: &ClojureCheckOptions) -> Result<()> {
    let programs = programs()?;
    let answers = clojure(&programs)?;
    let mut table = table()?;
    let (mut compared, mut differ, mut unexplained) = (None, 0usize, 0usize);
    let (mut list, mut counts) = (String::new(), BTreeMap::new());
    for line in answers.lines() {
        let (id, said) = line.split_once('\t').context("a line without columns")?;
        if id == "compared" {
            compared = Some(said);
            continue;
        }
        differ += 1;
        let row = table.remove(id);
        let known = row.filter(|row| row.said == said);
        let divergence = known.map_or("-", |row| row.divergence);
        *counts.entry(divergence).or_insert(0usize) += 1;
        unexplained += usize::from(known.is_none());
        list += &format!("{id}\t{divergence}\t{said}\n");
    }
    if options.rows {
        crate::write_stdout(&list);
        return Ok(());
    }
    let compared = compared.context("clojure ended before its last program")?;
    for (divergence, count) in &counts {
        list += &format!("{count:5} {divergence}\n");
    }
    list += &format!("{compared} programs compared, {differ} differ\n");
    crate::write_stdout(&list);
    let mut faults = Vec::new();
    if unexplained > 0 {
        faults.push(format!(
            "{unexplained} differences (marked -) are in no row"
        ));
    }
    faults.extend(
        table
            .keys()
            .map(|id| format!("no difference any more: {id}")),
    );
    faults.extend(unrecorded(counts.into_keys().filter(|id| *id != "-")));
    match faults.is_empty() {
        true => Ok(()),
        false => bail!("{}", faults.join("\n")),
    }
}

/// A row of the table.
#[derive(Clone, Copy)]
struct Row {
    divergence: &'static str,
    /// `likeness\texpected\tanswer`
    said: &'static str,
}

/// The rows, by case.
fn table() -> Result<BTreeMap<&'static str, Row>> {
    let row = |line: &'static str| {
        let mut columns = line.splitn(3, '\t');
        match (columns.next(), columns.next(), columns.next()) {
            (Some(id), Some(divergence), Some(said)) => Ok((id, Row { divergence, said })),
            _ => bail!("a row without columns: {line}"),
        }
    };
    DIFFERENCES.lines().map(row).collect()
}

/// The divergences of a table that are missing from the page.
pub fn unrecorded<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    let page = std::fs::read_to_string(crate::root().join(PAGE)).unwrap_or_default();
    let missing = ids.filter(|id| !page.contains(&format!("{{#{id}}}")));
    missing.map(|id| format!("{PAGE} has no {id}")).collect()
}

/// A program of the corpus.
struct Program {
    text: String,
    /// The texts of its permitted results; null if it may have to fail.
    answers: Vec<Value>,
    /// The lines that it prints, if the case checks them.
    prints: Value,
}

/// Programs by the id of their case.
fn programs() -> Result<BTreeMap<String, Program>> {
    let mut all = BTreeMap::new();
    for area in AREAS {
        let path = crate::root().join(format!("spec/corpus/{area}.jsonl"));
        let text = crate::guarded_fs::read_to_string(&path)?;
        for line in text.lines() {
            let case: Value =
                serde_json::from_str(line).with_context(|| path.display().to_string())?;
            let Some(id) = case["id"].as_str() else {
                continue;
            };
            all.extend(turns(id, &case));
            all.extend(as_clojure_program(&case).map(|program| (id.to_owned(), program)));
        }
    }
    Ok(all)
}

/// The turns of a session that need only earlier definitions, each preceded by the turns before it: `ID/2` is the second.
fn turns(id: &str, case: &Value) -> Vec<(String, Program)> {
    let mut before = String::new();
    let mut all = Vec::new();
    for (turn, number) in case["turns"].as_array().into_iter().flatten().zip(1..) {
        let expect = match turn["text"].as_str() {
            Some(text) => {
                json!({"result": text.lines().find(|line| line.starts_with("user=> "))})
            }
            None => json!({"error": turn["error"]}),
        };
        let text = turn["program"].as_str().unwrap_or_default();
        let program = format!("{before}{text}");
        if turn.get("text").is_some() {
            before = format!("{program}\n");
        }
        let found = as_clojure_program(&json!({"program": program, "expect": expect}));
        // The session's history of results is not part of the programs.
        let history = ["*1", "*2", "*3"].iter().any(|name| program.contains(name));
        let alone = turn.get("context").is_none() && !history;
        all.extend(
            found
                .filter(|_| alone)
                .map(|program| (format!("{id}/{number}"), program)),
        );
    }
    all
}

/// A case whose program uses nothing specific to our language.
fn as_clojure_program(case: &Value) -> Option<Program> {
    let text = case["program"].as_str()?;
    let expect = &case["expect"];
    let ours = case.get("context").is_some()
        || expect.get("truncated").is_some()
        || ["data/", "tool/"].iter().any(|name| text.contains(name));
    let parallel = ["(pmap ", "(pcalls "]
        .iter()
        .any(|form| text.contains(form));
    // The time, and which thread defines a name last, differ from run to run.
    let random = text.contains("util.Date)")
        || text.contains("Date.)")
        || text.contains("/now)")
        || parallel && text.contains("(def ");
    if ours || random {
        return None;
    }
    let parallel = ["(pmap ", "(pcalls "]
        .iter()
        .any(|form| text.contains(form));
    let mut answers = vec![answer(expect)?];
    answers.extend(expect.get("or").and_then(answer));
    Some(Program {
        text: text.to_owned(),
        answers,
        // The order in which threads print is not defined.
        prints: match parallel {
            true => Value::Null,
            false => expect.get("prints").cloned().unwrap_or_default(),
        },
    })
}

/// The expected answer, unless there is nothing to compare with Clojure.
fn answer(expect: &Value) -> Option<Value> {
    match expect.get("error").and_then(Value::as_str) {
        Some(reason) => REASONS.contains(&reason).then_some(Value::Null),
        None => value(expect.get("result")?).map(Value::from),
    }
}

/// The text of a result in Clojure's syntax; `None` for functions and vars.
fn value(result: &Value) -> Option<String> {
    let Some(text) = result.as_str() else {
        return Some("nil".to_owned());
    };
    let text = text.strip_prefix("user=> ").unwrap_or(text);
    let printed = ["#fn[", "#'"].iter().any(|mark| text.contains(mark));
    (!printed).then(|| text.to_owned())
}

/// The script's output for `programs`.
fn clojure(programs: &BTreeMap<String, Program>) -> Result<String> {
    // The script reads everything before it prints anything.
    run_clojure(
        "ptc-clojure-check.clj",
        SCRIPT,
        None,
        &as_clojure_data(programs),
    )
}

/// The output of `script`, which is saved as `name`, when it gets a directory, which is also on its class path.
pub fn run_in_jvm(name: &str, script: &str, dir: &Path) -> Result<String> {
    run_clojure(name, script, Some(dir), "")
}

fn run_clojure(name: &str, script: &str, dir: Option<&Path>, input: &str) -> Result<String> {
    let path = std::env::temp_dir().join(name);
    crate::guarded_fs::write(&path, script)?;
    let mut command = Command::new("clojure");
    command.arg(&path).env("JDK_JAVA_OPTIONS", JVM_OPTIONS);
    if let Some(dir) = dir {
        command.arg(dir).env("CLASSPATH", dir);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::msg("clojure is not installed; on Debian: apt-get install clojure")
            }
            _ => error.into(),
        })?;
    let mut stdin = child.stdin.take().context("clojure takes no input")?;
    stdin.write_all(input.as_bytes()).context("clojure")?;
    drop(stdin);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("clojure ended with {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Ids, programs, results and prints in Clojure's syntax. JSON strings are read as Clojure strings; null becomes nil.
fn as_clojure_data(programs: &BTreeMap<String, Program>) -> String {
    let mut all = "[".to_owned();
    for (id, program) in programs {
        let answers = program.answers.iter().map(|answer| match answer {
            Value::Null => "nil".to_owned(),
            text => text.to_string(),
        });
        let answers = answers.collect::<Vec<_>>().join(" ");
        let prints = match program.prints.is_null() {
            true => "nil".to_owned(),
            false => program.prints.to_string(),
        };
        all += &format!(
            "[{} {} [{answers}] {prints}]\n",
            Value::from(id.as_str()),
            Value::from(program.text.as_str())
        );
    }
    all.push(']');
    all
}
