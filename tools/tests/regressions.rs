//! Runs the inputs with which fuzzers once found something on stable: `fuzz/regressions/TARGET/INPUT`. Knows the function that checks
//! each target's inputs; `fuzz/fuzz_targets/` has the same table for the fuzzers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ptc_server::checks::simulate::{self, Choices};

ptc_lang::counting_allocator!();

/// The check for inputs of a target.
enum Check {
    Bytes(fn(&[u8])),
    Text(fn(&str)),
}

const CHECKS: &[(&str, Check)] = &[
    ("answer", Check::Text(ptc_upstream::fuzz::answer)),
    ("config", Check::Text(ptc_upstream::fuzz::config)),
    ("eval", Check::Bytes(ptc_lang::fuzz::generated_program)),
    ("fixture", Check::Bytes(conformance::fuzz::check_fixture)),
    ("frames", Check::Bytes(ptc_rpc::fuzz::frames)),
    ("hostile", Check::Bytes(hostile)),
    ("http", Check::Bytes(ptc_server::checks::fuzz::http)),
    ("json", Check::Text(ptc_lang::fuzz::json)),
    ("judge", Check::Bytes(conformance::fuzz::check_values)),
    ("labels", Check::Text(ptc_upstream::fuzz::labels)),
    ("openapi", Check::Text(ptc_upstream::fuzz::openapi)),
    ("print_read", Check::Bytes(ptc_lang::fuzz::print_read)),
    ("program", Check::Text(ptc_lang::fuzz::eval)),
    ("reader", Check::Text(ptc_lang::fuzz::reader)),
    ("redactor", Check::Text(ptc_secrets::fuzz::lines)),
    ("schema", Check::Text(ptc_protocol::fuzz::schema)),
    ("sessions", Check::Bytes(sessions)),
    ("signature", Check::Text(ptc_protocol::fuzz::signature)),
    ("snapshot", Check::Bytes(ptc_lang::fuzz::snapshot)),
    ("snapshots", Check::Bytes(ptc_lang::fuzz::snapshot_bytes)),
    ("sse", Check::Bytes(ptc_upstream::fuzz::sse)),
    ("tools", Check::Text(ptc_upstream::fuzz::tools)),
];

/// Uses wall-clock time, which other threads affect, so it finds only a program that never checks the clock.
fn hostile(data: &[u8]) {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    let gauge = ptc_lang::fuzz::Gauge {
        cpu_time: || START.elapsed(),
        wall_time: || START.elapsed(),
        limit: std::time::Duration::from_millis(60),
        gap: std::time::Duration::from_secs(10),
        end: std::time::Duration::from_secs(10),
        work: || {},
    };
    ptc_lang::fuzz::hostile(data, &gauge);
}

fn sessions(data: &[u8]) {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    simulate::run(executor, Choices::Bytes(Vec::from(data).into_iter()), true);
}

fn fuzz() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The names in a directory.
fn names(directory: &PathBuf) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).expect("the directory is there");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry can be read");
        entry.file_name().to_string_lossy().into_owned()
    };
    entries.map(name).collect()
}

#[test]
fn regressions_stay_fixed() {
    let kept = fuzz().join("regressions");
    let mut tried = 0;
    for target in names(&kept) {
        let (_, check) = CHECKS
            .iter()
            .find(|(name, _)| *name == target)
            .unwrap_or_else(|| panic!("fuzz/regressions/{target}: no such target"));
        for input in names(&kept.join(&target)) {
            eprintln!("fuzz/regressions/{target}/{input}");
            let data =
                std::fs::read(kept.join(&target).join(&input)).expect("the input can be read");
            match check {
                Check::Bytes(check) => check(&data),
                // A target that takes text ignores anything else.
                Check::Text(check) => std::str::from_utf8(&data).map_or((), check),
            }
            tried += 1;
        }
    }
    assert!(tried > 0, "there are inputs to try");
}

#[test]
fn every_fuzz_target_is_known_and_runs_nightly() {
    let known: BTreeSet<String> = CHECKS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut targets: BTreeSet<String> = names(&fuzz().join("fuzz_targets"))
        .iter()
        .filter_map(|name| Some(name.strip_suffix(".rs")?.to_owned()))
        .collect();
    assert!(targets.remove("canary"), "a fuzzer must be seen to fail");
    assert_eq!(known, targets);
    let script = std::fs::read_to_string(fuzz().join("nightly.sh")).expect("the script is there");
    let table = script
        .split("table=\"\n")
        .nth(1)
        .and_then(|rest| rest.split("\n\"").next());
    let rows = table.expect("the script has a table").lines();
    let nightly: BTreeSet<String> = rows
        .filter_map(|row| Some(row.split_whitespace().next()?.to_owned()))
        .collect();
    assert_eq!(known, nightly);
}
