//! Measures the redactor against its targets: `cargo run --release -p ptc-secrets --example measure_redactor`.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

#[path = "../../../tools/src/bench/row.rs"]
mod row;

use ptc_secrets::{Redactor, Secret};
use row::{Row, median};

/// How often each text is scrubbed.
const ROUNDS: usize = 10;
/// What an automaton may take, in MiB.
const AUTOMATON_MIB_MAX: f64 = 16.0;
/// How many secrets, and how many MB a second must be scrubbed of them.
const TARGETS: &[(u128, f64)] = &[(1, 1_000.0), (8, 1_000.0), (64, 1_000.0), (1_000, 100.0)];

fn main() {
    let text: String = (0..200_000u32)
        .map(|n| format!("{{\"id\":{n},\"name\":\"item number {n}\",\"url\":\"https://host.example/api/items/{n}?q=a%20b\",\"sha\":\"{:08x}\"}}\n", n.wrapping_mul(2_654_435_761)))
        .collect();
    for &(count, least) in TARGETS {
        let redactor = redactor(count);
        let took = median(ROUNDS, || {
            assert_eq!(redactor.scrub_str(&text).len(), text.len())
        });
        let speed = text.len() as f64 / 1e6 / took.as_secs_f64();
        let what = format!("redaction, {count} secrets in every form");
        println!("{}", Row::at_least(what, speed, least, " MB/s").line());
    }
    let mebibytes = redactor(1_000).memory_bytes() as f64 / 1024.0 / 1024.0;
    let what = "redaction, automaton of 1000 secrets";
    println!(
        "{}",
        Row::at_most(
            what,
            (mebibytes * 100.0).round() / 100.0,
            AUTOMATON_MIB_MAX,
            " MiB"
        )
        .line()
    );
}

fn redactor(count: u128) -> Redactor {
    let mut builder = Redactor::builder();
    for n in 1..=count {
        builder.add(&Secret::new(format!(
            "ghp_{:036x}",
            n * 0x9E37_79B9_7F4A_7C15_F39C
        )));
    }
    builder.build()
}
