//! Measures the suite itself: all of it against the reference over stdio, the cases that do not deliberately let real time pass,
//! and the corpus against a corpus of twice its size. These are complete runs of the harness, as users start it. Knows nothing of cases.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use conformance::suite::{Suite, bundle};

use super::row::{Row, median_of};
use anyhow::{Context, Result, bail};

/// Target for the whole suite.
const ALL: Duration = Duration::from_secs(30);
/// Target for the cases that do not deliberately let real time pass.
const NOT_WAITING: Duration = Duration::from_secs(5);
/// Target for a corpus of twice the size, as a multiple of the corpus's time.
const DOUBLED_MAX: f64 = 2.2;
/// Number of runs for a median; the whole suite runs once.
const RUNS: usize = 5;
/// Extension of the corpus files, which hold the bulk of the cases.
const BULK: &str = ".jsonl";

/// Measures `harness` with the reference `binary`.
pub(super) fn measure(harness: &Path, binary: &Path) -> Result<Vec<Row>> {
    let suite = crate::suite()?;
    let still = suite.cases.iter().filter(|case| !case.waits()).count();
    let all = run(harness, binary, &[])?;
    let not_waiting = median_run(harness, binary, &["--skip-waiting"])?;
    let scratch = Scratch::new()?;
    let mut bulk = suite.clone();
    bulk.cases.retain(|case| case.file.ends_with(BULK));
    let again = bulk.cases.clone().into_iter().map(|mut case| {
        case.id.push_str("/again");
        case
    });
    let mut twice = bulk.clone();
    twice.cases.extend(again);
    let [once, twice] =
        [("once", &bulk), ("twice", &twice)].map(|(name, suite)| -> Result<Duration> {
            let path = scratch.write_suite(name, suite)?;
            // The filter selects everything, but makes the run partial, so that expected failures outside this suite are not missed.
            let selected = ["--filter", "*", "--suite", &path.to_string_lossy()];
            median_run(harness, binary, &selected)
        });
    let ratio = twice?.as_secs_f64() / once?.as_secs_f64();
    Ok(vec![
        Row::time(
            format!("suite: all {} cases over stdio", suite.cases.len()),
            all,
            ALL,
        ),
        Row::time(
            format!("suite: the {still} cases in which no time passes on purpose"),
            not_waiting,
            NOT_WAITING,
        ),
        Row::at_most(
            format!(
                "suite: {} cases of the corpus twice, of once",
                bulk.cases.len()
            ),
            (ratio * 1e3).round() / 1e3,
            DOUBLED_MAX,
            "x",
        ),
    ])
}

fn median_run(harness: &Path, binary: &Path, selection: &[&str]) -> Result<Duration> {
    let times: Result<Vec<Duration>> = (0..RUNS).map(|_| run(harness, binary, selection)).collect();
    times.map(median_of)
}

/// The duration of a run, from exec to exit. A failed run is an error.
fn run(harness: &Path, binary: &Path, selection: &[&str]) -> Result<Duration> {
    let mut command = Command::new(harness);
    command
        .args(["run", "--transport", "stdio", "--reference"])
        .arg(binary)
        .args(selection)
        .current_dir(crate::root())
        .stdin(Stdio::null());
    let began = Instant::now();
    let output = command
        .output()
        .with_context(|| harness.display().to_string())?;
    let took = began.elapsed();
    match output.status.success() {
        true => Ok(took),
        false => bail!(
            "the suite fails ({}):\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// A temporary directory for this run, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("ptc-bench-{}", std::process::id()));
        crate::guarded_fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    fn write_suite(&self, name: &str, suite: &Suite) -> Result<PathBuf> {
        let path = self.0.join(name).with_extension("json");
        let text = bundle::write(suite)?;
        crate::guarded_fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it can't be removed, it stays in the system's temporary directory.
        let _left = crate::guarded_fs::remove(&self.0);
    }
}
