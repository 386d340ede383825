//! Measures what happens between a frame and its program: `cargo run --release -p ptc-server --example measure_server`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "../../../tools/src/bench/row.rs"]
mod row;

use ptc_lang::{Env, Host, Limits, Program, run};
use ptc_server::checks::intake::{Runner, round_trips};
use ptc_server::checks::passes::of_frames;
use row::{Row, median_of};
use serde_json::{Value, json};

ptc_lang::counting_allocator!();

const ROUNDS: usize = 20_000;
/// How much faster a round trip must be when the thread that read a call runs it, for two threads to share one input.
const GAIN_MIN: f64 = 1.2;
/// A context is read once, but for the bytes of the frame around it.
const PASSES_MAX: f64 = 1.01;

fn main() {
    println!("{}", gain().line());
    for row in passes() {
        println!("{}", row.line());
    }
}

/// How much longer a client waits when every call is handed to another thread.
fn gain() -> Row {
    let [reader, pool] = [Runner::Reader, Runner::Pool].map(|runner| {
        round_trips(runner, ROUNDS / 10, program);
        median_of(round_trips(runner, ROUNDS, program))
    });
    Row::at_least(
        "stdio: (+ 1 2) handed to a thread, against run where it was read",
        pool.as_secs_f64() / reader.as_secs_f64(),
        GAIN_MIN,
        "x",
    )
}

/// The work of a short call.
fn program() {
    struct Alone;
    impl Host for Alone {
        fn now_micros(&self) -> i64 {
            0
        }
    }
    let program = Program::new("(+ 1 2)");
    std::hint::black_box(run(&program, &Env::new(), &Limits::DEFAULT, &Alone));
}

/// How often each byte of a large context is processed.
fn passes() -> Vec<Row> {
    let row = |n: usize| json!({"id": n, "name": format!("name {n}"), "open": n.is_multiple_of(3)});
    let rows: Vec<Value> = (0..25_000).map(row).collect();
    let context = json!({ "rows": rows }).to_string();
    let frames = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#.to_owned(),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"(count data/rows)","context":{context}}}}}}}"#
        ),
    ];
    let (passes, answer) = of_frames(&[], &frames);
    assert!(answer.contains("25000"), "{answer}");
    [
        ("scanned", passes.scanned),
        ("copied", passes.copied),
        ("built of", passes.built),
        ("walked over", passes.walked),
    ]
    .map(|(what, bytes)| {
        let times = bytes as f64 / context.len() as f64;
        Row::at_most(
            format!("stdio: a context of 1 MB, times {what}"),
            (times * 100.0).round() / 100.0,
            PASSES_MAX,
            "x",
        )
    })
    .into()
}
