//! Measures programs inside one process. Knows how a figure is measured; the figures are in the table.
#![allow(missing_docs)] // The macros of criterion make undocumented functions.

mod figures;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use figures::{Context, FIGURES, Figure, GROUP, SNAPSHOT_GROUP, SNAPSHOTS};
use ptc_lang::{Ended, Env, Host, Limits, Program, Value, json, run};

ptc_lang::counting_allocator!();

/// The number of maps in the context.
const ORDERS: usize = 5_000;
/// The number of strings in the context.
const NAMES: usize = 2_000;

struct NullHost;

impl Host for NullHost {
    fn now_micros(&self) -> i64 {
        0
    }
}

fn programs(criterion: &mut Criterion) {
    let text = context();
    let given = read(&text);
    let mut group = criterion.benchmark_group(GROUP);
    for figure in FIGURES {
        group.bench_function(figure.id, |bencher| {
            bencher.iter(|| {
                let env = match figure.context {
                    Context::None => Env::new(),
                    Context::Given => given.clone(),
                    Context::Read => read(&text),
                };
                once(figure, &env)
            });
        });
    }
    group.finish();
}

/// The smallest size of the session's snapshot, in bytes.
const SESSION_BYTES: usize = 1_000_000;

/// Measures writing and reading a session of one megabyte.
fn snapshots(criterion: &mut Criterion) {
    let mut program: String = (0..15_000)
        .map(|id| {
            let total = id * 7;
            format!("(def row{id} {{:id {id} :name \"customer number {id}\" :open true :total {total}.5}})\n")
        })
        .collect();
    program.push_str("(defn total [x] (:total x)) (def f (let [k 2] (fn [x] (* k (total x)))))");
    let limits = Limits {
        memory_bytes: 1 << 30,
        symbols: u32::MAX,
        ..Limits::default()
    };
    let (outcome, env) = run(&Program::new(program), &Env::new(), &limits, &NullHost);
    assert!(
        matches!(outcome.ended, Ended::Value(_)),
        "{:?}",
        outcome.ended
    );
    let bytes = env.snapshot(usize::MAX, &NullHost).expect("written");
    assert!(bytes.len() >= SESSION_BYTES, "{} bytes", bytes.len());
    let [write, read] = SNAPSHOTS;
    let mut group = criterion.benchmark_group(SNAPSHOT_GROUP);
    group.bench_function(write.id, |bencher| {
        bencher.iter(|| env.snapshot(usize::MAX, &NullHost));
    });
    group.bench_function(read.id, |bencher| {
        bencher.iter(|| Env::restore(&bytes, &limits, &NullHost).expect("read"));
    });
    group.finish();
}

fn once(figure: &Figure, env: &Env) -> Value {
    // A measured program must fit in the default memory limit.
    let (outcome, _) = run(
        &Program::new(black_box(figure.program)),
        env,
        &Limits::default(),
        &NullHost,
    );
    match outcome.ended {
        Ended::Value(value) => value,
        other => panic!("{}: {other:?}", figure.id),
    }
}

fn read(text: &str) -> Env {
    match json::from_str(black_box(text)) {
        Ok(Value::Map(map)) => Env::new().with_context(map),
        other => panic!("the context is an object: {other:?}"),
    }
}

/// Orders and names as JSON text.
fn context() -> String {
    let mut text = String::from("{\"orders\":[");
    for id in 0..ORDERS {
        let comma = if id > 0 { "," } else { "" };
        let (region, total, open) = (id % 7, id * 7919 % 10_007, id % 3 == 0);
        let _infallible = write!(
            text,
            "{comma}{{\"id\":{id},\"customer\":\"customer {}\",\"region\":\"r{region}\",\"total\":{total},\"open\":{open}}}",
            id % 411
        );
    }
    text.push_str("],\"names\":[");
    for id in 0..NAMES {
        let comma = if id > 0 { "," } else { "" };
        let _infallible = write!(text, "{comma}\"name number {id}\"");
    }
    text.push_str("]}");
    text
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = programs, snapshots
}
criterion_main!(benches);
