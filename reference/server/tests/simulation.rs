//! Seeded simulations of the whole server: thousands of them, each on its own virtual clock, and each the same whenever it is run
//! again. Knows how many; what must hold is the simulation's business.
//!
//!     PTC_SIMULATION_SEEDS=10000 cargo test --release -p ptc-server --test simulation -- --nocapture
//!     PTC_SIMULATION_SEED=4711 PTC_SIMULATION_SEEDS=1 cargo test …        tells one seed's story

use ptc_server::simulate::{self, Choices, Story};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds of a run that nobody asked more of.
const SEEDS: u64 = 1000;
/// Answers that a simulation must reach to be worth anything.
const MUST_OCCUR: &[&str] = &[
    "ok",
    "busy",
    "cancelled",
    "duplicate",
    "fail",
    "lisp_session_close",
    "lisp_session_forget",
    "lisp_session_inspect",
    "lisp_session_list",
    "lisp_session_start",
    "over",
    "session_busy",
    "session_closed",
    "session_limit_exceeded",
    "session_not_found",
    "session_owner_mismatch",
    "shutting_down",
    "timeout",
    "unknown_tool",
    "alpha",
    "alpha by a worker",
    "beta",
    "gamma",
    "gamma by a worker",
    "delta",
    "delta by a worker",
    "call ok",
    "call response_too_large",
    "call timeout",
    "call tool_error",
    "call upstream_error",
    "call upstream_unavailable",
];

fn simulate(seed: u64, honest: bool) -> Result<Story, String> {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let run = || simulate::run(executor, Choices::Seed(seed), honest);
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without words")
            .to_owned()
    })
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: expected a number")),
    )
}

#[test]
fn every_promise_holds_whatever_happens_in_whatever_order() {
    let first = variable("PTC_SIMULATION_SEED").unwrap_or(0);
    let count = variable("PTC_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for seed in first..first + count {
        match simulate(seed, true) {
            Err(what) => panic!(
                "{what}\nseed {seed} fails; again: PTC_SIMULATION_SEED={seed} PTC_SIMULATION_SEEDS=1 \
                 cargo test -p ptc-server --test simulation -- --nocapture"
            ),
            Ok(story) => {
                if count == 1 {
                    eprintln!("{}", story.text);
                }
                for (outcome, times) in story.outcomes {
                    *outcomes.entry(outcome).or_default() += times;
                }
            }
        }
    }
    eprintln!("{count} seeds from {first}: {outcomes:?}");
    if count >= SEEDS {
        let missing: Vec<_> = MUST_OCCUR
            .iter()
            .filter(|outcome| !outcomes.contains_key(**outcome))
            .collect();
        assert!(missing.is_empty(), "never seen: {missing:?}");
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..50 {
        let [one, two] = [(); 2].map(|()| simulate(seed, true).map(|story| story.text));
        assert_eq!(one, two, "seed {seed}");
    }
}

#[test]
fn an_upstream_that_lies_is_noticed() {
    let noticed = (0..50).filter(|seed| simulate(*seed, false).is_err());
    assert!(noticed.count() > 25);
}
