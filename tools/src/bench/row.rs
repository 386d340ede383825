//! A row of the table of measurements: what, how much, and the target. Written here and read here, so that a
//! program that measures one crate need only print its rows. Knows nothing of what is measured.
#![allow(dead_code)] // The programs that write rows read none.

use std::time::{Duration, Instant};

/// A figure below it is told with its fraction.
const FEW: f64 = 10.0;

pub struct Row {
    pub what: String,
    /// The figure with its unit.
    pub figure: String,
    /// The target with its unit.
    pub target: String,
    /// Whether the figure reaches it.
    pub met: bool,
}

impl Row {
    /// A time that may be `target` at the most.
    pub fn time(what: impl Into<String>, figure: Duration, target: Duration) -> Row {
        Row {
            what: what.into(),
            figure: format!("{figure:.2?}"),
            target: format!("{target:?}"),
            met: figure <= target,
        }
    }

    /// A figure that may be `most` at the most.
    pub fn at_most(what: impl Into<String>, figure: f64, most: f64, unit: &str) -> Row {
        Row {
            what: what.into(),
            figure: format!("{figure:.5}")
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned()
                + unit,
            target: format!("{most}{unit}"),
            met: figure <= most,
        }
    }

    /// A figure that must be `least` at the least.
    pub fn at_least(what: impl Into<String>, figure: f64, least: f64, unit: &str) -> Row {
        Row {
            what: what.into(),
            figure: match figure < FEW {
                true => format!("{figure:.2}{unit}"),
                false => format!("{figure:.0}{unit}"),
            },
            target: format!("> {least}{unit}"),
            met: figure >= least,
        }
    }

    /// The row as a line of text.
    pub fn line(&self) -> String {
        let Row {
            what,
            figure,
            target,
            met,
        } = self;
        format!("{what}\t{figure}\t{target}\t{met}")
    }

    /// The row that a line stands for.
    pub fn read(line: &str) -> Option<Row> {
        let mut parts = line.split('\t').map(str::to_owned);
        Some(Row {
            what: parts.next()?,
            figure: parts.next()?,
            target: parts.next()?,
            met: parts.next()? == "true",
        })
    }
}

/// How long `work` takes, the median of `rounds`, after as many to warm up as a tenth of them.
pub fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    for _ in 0..rounds / 10 {
        work();
    }
    let times = (0..rounds).map(|_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    });
    middle(times.collect())
}

/// The median of `times`; zero when there are none.
pub fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
