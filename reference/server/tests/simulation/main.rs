//! Seeded simulations of the whole server: thousands of them, each on its own virtual clock, and each exactly reproducible. Knows how
//! many to run; the invariants belong to the simulations.
//!
//!     PTC_SIMULATION_SEEDS=10000 cargo test --release -p ptc-server --test simulation -- --nocapture
//!     PTC_SIMULATION_SEED=4711 PTC_SIMULATION_SEEDS=1 cargo test …        tells one seed's story

mod store;

use ptc_server::checks::simulate::{self, Choices, SimulationReport, http};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

ptc_lang::counting_allocator!();

/// Default number of seeds.
const SEEDS: u64 = 500;
/// Outcomes that the simulations must reach to be meaningful.
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
    "a thread yields",
    "beta by a worker",
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

/// Outcomes that the simulations of the HTTP endpoint must reach.
const MUST_OCCUR_OVER_HTTP: &[&str] = &[
    "ok",
    "accepted",
    "busy",
    "cancelled",
    "counters compared",
    "duplicate",
    "gone",
    "half-closed",
    "malformed",
    "request timed out",
    "server draining",
    "server saturated",
    "session owner limit exceeded",
    "session_busy",
    "session_limit_exceeded",
    "session_owner_mismatch",
    "the server ends a connection",
    "told to end with calls in flight",
    "too slow",
    "vanished",
    "vanished while it waited",
];

/// Outcomes that the simulations of nodes and their store must reach.
const MUST_OCCUR_WITH_A_STORE: &[&str] = &[
    "arrived",
    "asked twice, refused",
    "begun",
    "closed",
    "committed",
    "failed",
    "it arrives late",
    "it fails",
    "it is asked twice",
    "it is slow to arrive",
    "its answer is lost",
    "its answer is slow",
    "killed",
    "listed",
    "session_busy",
    "session_closed",
    "session_lease_lost",
    "session_limit_exceeded",
    "session_store_unavailable",
    "started",
    "unconfirmed",
];

fn simulate(seed: u64, honest: bool) -> Result<SimulationReport, String> {
    catch_panic(|executor| simulate::run(executor, Choices::Seed(seed), honest))
}

fn simulate_store(seed: u64, careful: bool) -> Result<SimulationReport, String> {
    catch_panic(|_| store::run(seed, careful))
}

fn simulate_http(seed: u64) -> Result<SimulationReport, String> {
    catch_panic(|executor| http::run(executor, Choices::Seed(seed)))
}

/// Runs a simulation on its own clock; returns the message of a panic.
fn catch_panic(
    run: impl FnOnce(tokio::runtime::Runtime) -> SimulationReport,
) -> Result<SimulationReport, String> {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let run = || run(executor);
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
fn server_keeps_its_invariants_under_any_schedule() {
    run_seeds("server_keeps", MUST_OCCUR, |seed| simulate(seed, true));
}

#[test]
fn http_endpoint_keeps_its_invariants_under_any_clients() {
    run_seeds("http_endpoint", MUST_OCCUR_OVER_HTTP, simulate_http);
}

#[test]
fn nodes_report_a_faulty_store_truthfully() {
    run_seeds("nodes_report", MUST_OCCUR_WITH_A_STORE, |seed| {
        simulate_store(seed, true)
    });
}

/// Runs seed after seed; a failure says how to reproduce it.
fn run_seeds(
    test: &str,
    must_occur: &[&str],
    simulate: impl Fn(u64) -> Result<SimulationReport, String>,
) {
    let first = variable("PTC_SIMULATION_SEED").unwrap_or(0);
    let count = variable("PTC_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for seed in first..first + count {
        match simulate(seed) {
            Err(what) => panic!(
                "{what}\nseed {seed} fails; again: PTC_SIMULATION_SEED={seed} PTC_SIMULATION_SEEDS=1 \
                 cargo test -p ptc-server --test simulation {test} -- --nocapture"
            ),
            Ok(report) => {
                if count == 1 {
                    eprintln!("{}", report.text);
                }
                for (outcome, times) in report.outcomes {
                    *outcomes.entry(outcome).or_default() += times;
                }
            }
        }
    }
    eprintln!("{test}: {count} seeds from {first}: {outcomes:?}");
    if count >= SEEDS {
        let missing: Vec<_> = must_occur
            .iter()
            .filter(|outcome| !outcomes.contains_key(**outcome))
            .collect();
        assert!(missing.is_empty(), "never seen: {missing:?}");
    }
}

#[test]
fn seed_replays_exactly() {
    for seed in 0..50 {
        let [one, two] = [(); 2].map(|()| simulate(seed, true).map(|report| report.text));
        assert_eq!(one, two, "seed {seed}");
        let [one, two] = [(); 2].map(|()| simulate_http(seed).map(|report| report.text));
        assert_eq!(one, two, "seed {seed} over HTTP");
        let [one, two] = [(); 2].map(|()| simulate_store(seed, true).map(|report| report.text));
        assert_eq!(one, two, "seed {seed} with a store");
    }
}

#[test]
fn store_that_accepts_every_commit_is_detected() {
    let noticed = (0..200).filter(|seed| simulate_store(*seed, false).is_err());
    assert!(noticed.count() > 10);
}

#[test]
fn lying_upstream_is_detected() {
    let noticed = (0..50).filter(|seed| simulate(*seed, false).is_err());
    assert!(noticed.count() > 25);
}
