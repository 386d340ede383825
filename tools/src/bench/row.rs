//! A row of the table of measurements: subject, figure, and target. Both written and parsed here, so that a
//! program that measures one crate only needs to print its rows. Knows nothing of what is measured.
#![allow(dead_code)] // The programs that write rows read none.

use std::time::{Duration, Instant};

/// Figures below this are printed with a fraction.
const FEW: f64 = 10.0;

pub struct Row {
    pub what: String,
    /// The figure with its unit.
    pub figure: String,
    /// The target with its unit.
    pub target: String,
    /// Whether the figure meets the target.
    pub met: bool,
}

impl Row {
    /// A time that should be at most `target`.
    pub fn time(what: impl Into<String>, figure: Duration, target: Duration) -> Row {
        Row {
            what: what.into(),
            figure: format!("{figure:.2?}"),
            target: format!("{target:?}"),
            met: figure <= target,
        }
    }

    /// A figure that should be at most `most`.
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

    /// A figure that should be at least `least`.
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

    /// Parses a row from a line of text.
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

/// The duration of `work`, as the median of `rounds` runs, after a tenth as many for warm-up.
pub fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    for _ in 0..rounds / 10 {
        work();
    }
    let times = (0..rounds).map(|_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    });
    median_of(times.collect())
}

/// The median of `times`; zero when there are none.
pub fn median_of(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
