//! Hostile programs under the clock: seeded, as many as `PTC_HOSTILE_PROGRAMS` says. The checked function documents
//! what must hold.

mod clock;

use std::time::Duration;

use ptc_lang::{Env, fuzz};

ptc_lang::counting_allocator!();

/// A test build is ten times as slow.
const SLOWNESS: u32 = if cfg!(debug_assertions) { 10 } else { 1 };
/// The number of seeds by default. Each gives a session of two programs.
const PROGRAMS: u64 = 150;
/// The number of bytes that a session is generated from.
const BYTES: usize = 160;
/// How often a failing seed is tried.
const TRIES: u32 = 3;
/// The number of seeds between two progress reports of a long run.
const PROGRESS_EVERY: u64 = 1_000;
/// The smallest stack of a server thread.
const STACK_BYTES: usize = 512 * 1024;

fn gauge() -> fuzz::Gauge {
    fuzz::Gauge {
        cpu_time: clock::cpu_time,
        wall_time: clock::wall_time,
        limit: Duration::from_millis(60),
        gap: Duration::from_millis(10) * SLOWNESS,
        end: Duration::from_millis(50) * SLOWNESS,
        work: || {},
    }
}

/// The bytes for a seed, the same each time.
fn seeded(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..BYTES)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

fn on_small_stack(job: impl FnOnce() + Send + 'static) -> std::thread::Result<()> {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(job)
        .expect("a thread starts")
        .join()
}

#[test]
fn hostile_programs_stay_within_their_bounds() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test is told how long it may take"
    )]
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
    };
    let from = number("PTC_HOSTILE_FROM", 0);
    let programs = number("PTC_HOSTILE_PROGRAMS", PROGRAMS);
    // As a server does at its start: otherwise freed small blocks are joined all at once, from time to time.
    ptc_lang::heap::tune();
    let holds = |seed| on_small_stack(move || fuzz::hostile(&seeded(seed), &gauge())).is_ok();
    let mut failed = Vec::new();
    for seed in from..from + programs {
        // A busy machine may delay a run, so a seed fails only if it fails each time.
        if !(0..TRIES).any(|_| holds(seed)) {
            failed.push(seed);
        }
        if (seed + 1 - from).is_multiple_of(PROGRESS_EVERY) {
            eprintln!("{} seeds, failed: {failed:?}", seed + 1 - from);
        }
    }
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
}

#[test]
fn work_without_clock_checks_is_detected() {
    let found = on_small_stack(|| {
        let gauge = fuzz::Gauge {
            work: || {
                let until = clock::cpu_time() + Duration::from_millis(100) * SLOWNESS;
                while clock::cpu_time() < until {}
            },
            ..gauge()
        };
        fuzz::measure_within_bounds("(tool/work {})", &Env::new(), &gauge);
    });
    assert!(found.is_err(), "a tool that works without a clock is found");
}

#[test]
fn leaked_memory_is_detected() {
    let found = on_small_stack(|| {
        let gauge = fuzz::Gauge {
            work: || {
                Box::leak(vec![1u8; 64 << 20].into_boxed_slice());
            },
            ..gauge()
        };
        fuzz::measure_within_bounds("(tool/work {})", &Env::new(), &gauge);
    });
    assert!(found.is_err(), "a tool that holds what it takes is found");
}
