//! Prints the redactor's throughput and memory: `cargo run --release -p ptc-secrets --example throughput`.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::time::Instant;

use ptc_secrets::{Redactor, Secret};

fn main() {
    let text: String = (0..200_000u32)
        .map(|n| format!("{{\"id\":{n},\"name\":\"item number {n}\",\"url\":\"https://host.example/api/items/{n}?q=a%20b\",\"sha\":\"{:08x}\"}}\n", n.wrapping_mul(2_654_435_761)))
        .collect();
    for count in [0usize, 1, 8, 64, 1000] {
        let mut builder = Redactor::builder();
        for n in 0..count as u128 {
            builder.add(&Secret::new(format!(
                "ghp_{:036x}",
                (n + 1) * 0x9E37_79B9_7F4A_7C15_F39C
            )));
        }
        let redactor = builder.build();
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            let clean = redactor.scrub_str(&text);
            assert_eq!(clean.len(), text.len());
            best = best.min(start.elapsed().as_secs_f64());
        }
        let megabytes = text.len() as f64 / 1e6;
        println!(
            "{count:>5} secrets: {:>9.0} MB/s, automaton {} KiB ({redactor:?})",
            megabytes / best,
            redactor.memory_bytes() / 1024
        );
    }
}
