//! Everything that can be called, with operands that are long, large, deep or shared: how much each does without a look at the
//! clock. Knows builtins by their table, so that a new one is measured, too.

mod clock;

use std::collections::BTreeMap;
use std::time::Duration;

use ptc_lang::{Env, fuzz};

/// A test build is about ten times as slow.
const SLOWNESS: u32 = if cfg!(debug_assertions) { 15 } else { 1 };
/// The most work between two looks is a millisecond; processors differ by a factor of two or so.
const GAP_MAX: Duration = Duration::from_millis(2).saturating_mul(SLOWNESS);
/// What giving back ten megabytes takes when a program is stopped, which nobody waits for: so many times as long.
const END_GAPS: u32 = 12;
/// A gap that is too long once is measured again: caches and the system take time now and then.
const TRIES: usize = 3;
/// One call in so many is tried, unless `PTC_AUDIT_EVERY` says otherwise.
const EVERY: usize = 199;
/// What a thread of a server may have at least.
const STACK_BYTES: usize = 512 * 1024;

fn gauge() -> fuzz::Gauge {
    fuzz::Gauge {
        spent: clock::spent,
        passed: clock::passed,
        limit: Duration::from_millis(40),
        gap: GAP_MAX,
        end: GAP_MAX * END_GAPS,
        work: || {},
    }
}

/// The longest gap of each name that was called, and the program that shows it.
type Longest = BTreeMap<&'static str, (Duration, String)>;

/// Measures one call in `every` with the operand `at`.
fn audit(at: usize, every: usize) -> Longest {
    let (gauge, operands) = (gauge(), fuzz::operands());
    let mut definitions = fuzz::Gauge { ..gauge };
    definitions.limit = Duration::from_secs(20);
    let mut env = Env::new();
    for (name, value) in [
        ("v", &operands[at]),
        ("w", &operands[(at + 5) % operands.len()]),
    ] {
        env = fuzz::sighting(&format!("(def {name} {value}) nil"), &env, &definitions).env;
    }
    let mut longest = Longest::new();
    for (number, (name, call)) in fuzz::calls(at).into_iter().enumerate() {
        if !(number + at * 31).is_multiple_of(every) {
            continue;
        }
        let text = format!("(do {call} nil)");
        let gap = (0..TRIES)
            .map(|_| {
                let fuzz::Sighting { gap, end, .. } = fuzz::sighting(&text, &env, &gauge);
                // What takes long to stop is as bad, by another measure.
                gap.max(end / END_GAPS)
            })
            .take_while_inclusive(|gap| *gap > GAP_MAX / 3)
            .min()
            .unwrap_or_default();
        let known = longest.entry(name).or_default();
        if gap > known.0 {
            *known = (
                gap,
                format!(
                    "(let [v {} w {}] {call})",
                    operands[at],
                    operands[(at + 5) % operands.len()]
                ),
            );
        }
    }
    longest
}

trait TakeWhileInclusive: Iterator + Sized {
    /// The items up to the first that does not fit, and that one.
    fn take_while_inclusive(
        self,
        fits: impl Fn(&Self::Item) -> bool,
    ) -> impl Iterator<Item = Self::Item> {
        let mut goes_on = true;
        self.take_while(move |item| std::mem::replace(&mut goes_on, fits(item)))
    }
}

impl<I: Iterator> TakeWhileInclusive for I {}

#[test]
fn no_builtin_works_long_without_a_look_at_the_clock() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test is told how long it may take"
    )]
    let setting = |name: &str| std::env::var(name).ok();
    let every =
        setting("PTC_AUDIT_EVERY").map_or(EVERY, |number| number.parse().expect("a number"));
    // As a server does first of all.
    ptc_lang::heap::tune();
    let mut longest = Longest::new();
    for at in 0..fuzz::operands().len() {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let found = thread
            .spawn(move || audit(at, every))
            .expect("a thread starts");
        for (name, (gap, text)) in found.join().expect("no call panics") {
            let known = longest.entry(name).or_default();
            if gap > known.0 {
                *known = (gap, text);
            }
        }
    }
    let mut rows: Vec<_> = longest.iter().collect();
    rows.sort_by_key(|(_, (gap, _))| std::cmp::Reverse(*gap));
    #[expect(clippy::disallowed_methods, reason = "a test is told where to write")]
    if let Some(path) = setting("PTC_AUDIT_TABLE") {
        let row = |(name, (gap, text)): &(&&str, &(Duration, String))| {
            format!("| `{name}` | {} | `{text}` |\n", gap.as_micros())
        };
        let table: String = rows.iter().map(row).collect();
        std::fs::write(
            path,
            format!("| name | µs | program |\n|---|--:|---|\n{table}"),
        )
        .expect("a table");
    }
    let slow: Vec<_> = rows.iter().filter(|(_, (gap, _))| *gap > GAP_MAX).collect();
    assert!(slow.is_empty(), "without a look for too long: {slow:#?}");
}

/// A measure that finds nothing proves nothing.
#[test]
fn work_without_a_look_is_seen() {
    let found = std::thread::spawn(|| {
        let gauge = fuzz::Gauge {
            work: || {
                let until = clock::spent() + GAP_MAX * 2;
                while clock::spent() < until {}
            },
            ..gauge()
        };
        fuzz::sighting("(tool/work {})", &Env::new(), &gauge).gap
    });
    assert!(found.join().expect("it ends") > GAP_MAX);
}
