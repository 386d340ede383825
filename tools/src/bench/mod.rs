//! Measures, and prints medians against targets. Knows who measures what and the layout of rows; the targets are
//! next to the measurements.

// The table is next to the benchmark that uses it, so that benchmarking builds only the language.
#[path = "../../../reference/lang/benches/figures/mod.rs"]
mod figures;
mod http;
mod row;
mod stdio;
mod store;
mod suite;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use conformance::target::reference;
use serde_json::Value;

use row::Row;

use anyhow::{Context, Result, bail};

/// What to measure.
#[derive(Args)]
pub struct BenchOptions {
    /// Only what happens inside one process
    #[arg(long)]
    in_process: bool,
    /// Only what happens between processes
    #[arg(long, conflicts_with = "in_process")]
    processes: bool,
    /// Only what the suite itself costs
    #[arg(long, conflicts_with_all = ["in_process", "processes"])]
    suite: bool,
}

/// Packages that measure themselves, and the example that prints their rows.
const MEASURED: &[(&str, &str)] = &[
    ("ptc-secrets", "measure_redactor"),
    ("ptc-agent", "measure_turns"),
    ("ptc-upstream", "measure_upstreams"),
    ("ptc-server", "measure_server"),
];

/// Measures and prints. A missed target is reported but is not an error, because figures depend on the machine.
///
/// # Errors
/// When something can't be built, run or read.
pub fn run(options: &BenchOptions) -> Result<()> {
    let mut rows = Vec::new();
    if !options.processes && !options.suite {
        rows.extend(programs()?);
        for (package, example) in MEASURED {
            rows.extend(printed(package, example)?);
        }
    }
    if !options.in_process {
        let binary = reference::release()?;
        if !options.suite {
            let command = reference::command(&binary);
            rows.extend(stdio::measure(&command)?);
            rows.extend(http::measure(&command)?);
            rows.extend(store::measure(&command)?);
        }
        if !options.processes {
            let harness =
                reference::executable("conformance", "ptc-conformance", reference::RELEASE);
            rows.extend(suite::measure(&harness?, &binary)?);
        }
    }
    let width = |part: fn(&Row) -> &str| {
        let widths = rows.iter().map(|row| part(row).chars().count());
        widths.max().unwrap_or(0)
    };
    let (what, figure, target) = (
        width(|row| &row.what),
        width(|row| &row.figure),
        width(|row| &row.target),
    );
    for row in &rows {
        let mark = if row.met {
            ""
        } else {
            "  <- misses its target"
        };
        crate::write_stdout(&format!(
            "{:what$}  {:>figure$}  {:>target$}{mark}\n",
            row.what, row.figure, row.target
        ));
    }
    Ok(())
}

/// Runs criterion on programs, and reads the results that it saved.
fn programs() -> Result<Vec<Row>> {
    let target = target_directory()?;
    let status = cargo(&["bench", "--quiet", "-p", "ptc-lang", "--bench", "programs"])
        .stdout(Stdio::null())
        .status()
        .context("cargo bench")?;
    if !status.success() {
        bail!("cargo bench: {status}");
    }
    let kept = target.join("criterion");
    let programs = figures::FIGURES
        .iter()
        .map(|figure| (figures::GROUP, figure.id, figure.what, figure.target));
    let snapshots = figures::SNAPSHOTS.iter().map(|snapshot| {
        let figures::Snapshot { id, what, target } = snapshot;
        (figures::SNAPSHOT_GROUP, *id, *what, *target)
    });
    programs
        .chain(snapshots)
        .map(|(group, id, what, target)| {
            let median = median(&kept.join(group).join(id).join("new/estimates.json"))?;
            Ok(Row::time(what, median, target))
        })
        .collect()
}

/// The rows that an example of a package prints.
fn printed(package: &str, example: &str) -> Result<Vec<Row>> {
    let output = cargo(&[
        "run",
        "--quiet",
        "--release",
        "-p",
        package,
        "--example",
        example,
    ])
    .stderr(Stdio::inherit())
    .output()
    .with_context(|| package.to_string())?;
    if !output.status.success() {
        bail!("{package}: {}", output.status);
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| Row::read(line).with_context(|| format!("{package} printed no row: {line}")))
        .collect()
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = conformance::target::reference::cargo();
    command
        .args(arguments)
        .current_dir(crate::root())
        .stdin(Stdio::null());
    command
}

fn target_directory() -> Result<std::path::PathBuf> {
    let tool = std::env::current_exe()?;
    // target/PROFILE/tools
    let target = tool.ancestors().nth(2);
    target
        .map(Path::to_path_buf)
        .with_context(|| format!("{}: expected target/ around it", tool.display()))
}

fn median(path: &Path) -> Result<Duration> {
    let text = crate::guarded_fs::read_to_string(path)?;
    let kept: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let nanos = kept["median"]["point_estimate"]
        .as_f64()
        .with_context(|| format!("{}: expected median.point_estimate", path.display()))?;
    Ok(Duration::from_secs_f64(nanos / 1e9))
}
