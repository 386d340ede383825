//! Measures, and prints medians against targets. Knows how results are laid out; what is measured stand in
//! the tables of its modules.

// The table stands with what it measures, so that measuring builds the language alone.
#[path = "../../../reference/lang/benches/figures/mod.rs"]
mod figures;
mod process;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

/// What is measured.
#[derive(Args)]
pub struct Options {
    /// Only what happens inside one process
    #[arg(long)]
    in_process: bool,
    /// Only what happens between processes
    #[arg(long, conflicts_with = "in_process")]
    processes: bool,
}

/// A median, in the unit that its row says.
struct Row {
    what: &'static str,
    median: String,
    target: String,
    met: bool,
}

/// Measures and prints. Missing a target is told, and is no error: figures depend on the machine.
///
/// # Errors
/// When something can't be built, run or read.
pub fn run(options: &Options) -> Result<(), String> {
    let mut rows = Vec::new();
    if !options.processes {
        rows.extend(in_process()?);
    }
    if !options.in_process {
        rows.extend(process::measure()?);
    }
    let width = rows.iter().map(|row| row.what.chars().count()).max();
    let width = width.unwrap_or(0);
    for row in rows {
        let mark = if row.met {
            ""
        } else {
            "  <- misses its target"
        };
        crate::say(&format!(
            "{:width$}  {:>10}  {:>10}{mark}\n",
            row.what, row.median, row.target
        ));
    }
    Ok(())
}

/// Lets criterion measure, and reads what it kept.
fn in_process() -> Result<Vec<Row>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = target_directory()?;
    let status = Command::new(cargo)
        .args(["bench", "--quiet", "-p", "ptc-lang", "--bench", "programs"])
        .current_dir(crate::root())
        .status()
        .map_err(|error| format!("cargo bench: {error}"))?;
    if !status.success() {
        return Err(format!("cargo bench: {status}"));
    }
    let kept = target.join("criterion").join(figures::GROUP);
    figures::FIGURES
        .iter()
        .map(|figure| {
            let median = median(&kept.join(figure.id).join("new/estimates.json"))?;
            Ok(row(figure.what, median, figure.target))
        })
        .collect()
}

fn target_directory() -> Result<std::path::PathBuf, String> {
    let tool = std::env::current_exe().map_err(|error| error.to_string())?;
    // target/PROFILE/tools
    let target = tool.ancestors().nth(2);
    target
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("{}: expected target/ around it", tool.display()))
}

fn median(path: &Path) -> Result<Duration, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
    let kept: Value = serde_json::from_str(&text).map_err(|error| told(&error))?;
    let nanos = kept["median"]["point_estimate"]
        .as_f64()
        .ok_or_else(|| told(&"expected median.point_estimate"))?;
    Ok(Duration::from_secs_f64(nanos / 1e9))
}

fn row(what: &'static str, median: Duration, target: Duration) -> Row {
    Row {
        what,
        median: format!("{median:.2?}"),
        target: format!("{target:?}"),
        met: median <= target,
    }
}
