//! Measures the upstream runtime against its targets: `cargo run --release -p ptc-upstream --example measure_upstreams`.
//!
//! Started with `peer`, it acts as the upstream for the measurements.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "../../../tools/src/bench/row.rs"]
mod row;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ptc_lang::{Discovery, Value};
use ptc_secrets::ConfigDocument;
use ptc_upstream::{Cancel, ConfiguredUpstreams, Limits, ProgramCalls, Runtime, UpstreamOptions};
use row::{Row, median};
use serde_json::{Value as Json, json};

ptc_lang::counting_allocator!();

const ROUNDS: usize = 2000;
const BATCH: usize = 50;
const IN_FLIGHT: usize = 8;
const NAP_MS: u64 = 10;
/// Maximum overhead of a call compared with a direct one.
const OVERHEAD: Duration = Duration::from_micros(150);
/// Maximum duration of a batch relative to its naps.
const BATCH_MAX: f64 = 1.2;
const APROPOS: Duration = Duration::from_millis(2);
const START: Duration = Duration::from_millis(600);

fn main() {
    if std::env::args().nth(1).as_deref() == Some("peer") {
        return peer();
    }
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let direct = direct();
    let runtime = executor.block_on(start(&[("fx", json!({}))]));
    let overhead = round_trips(&runtime).saturating_sub(direct);
    print_row(&Row::time(
        "upstream: tool/call beyond a direct call",
        overhead,
        OVERHEAD,
    ));
    let ideal = Duration::from_millis(NAP_MS * BATCH.div_ceil(IN_FLIGHT) as u64);
    let against = batch(&runtime).as_secs_f64() / ideal.as_secs_f64();
    let what = "upstream: 50 calls, 8 in flight, against a direct client";
    print_row(&Row::at_most(
        what,
        (against * 100.0).round() / 100.0,
        BATCH_MAX,
        "x",
    ));
    print_row(&Row::time(
        "upstream: apropos over 2,000 tools",
        apropos(&runtime),
        APROPOS,
    ));
    for row in passes(&runtime) {
        print_row(&row);
    }
    executor.block_on(runtime.shutdown());
    let names: Vec<String> = (0..20).map(|n| format!("u{n:02}")).collect();
    let slow: Vec<(&str, Json)> = names
        .iter()
        .map(|name| (name.as_str(), json!({"SLEEP_MS": 300})))
        .collect();
    let begun = Instant::now();
    let runtime = executor.block_on(start(&slow));
    print_row(&Row::time(
        "upstream: 20 frozen ones that sleep 300 ms start",
        begun.elapsed(),
        START,
    ));
    executor.block_on(runtime.shutdown());
}

fn print_row(row: &Row) {
    println!("{}", row.line());
}

async fn start(upstreams: &[(&str, Json)]) -> Arc<Runtime> {
    let own = std::env::current_exe().unwrap();
    let entries: serde_json::Map<String, Json> = upstreams
        .iter()
        .map(|(name, env)| {
            (
                name.to_string(),
                json!({"transport": "mcp_stdio", "command": own, "args": ["peer"], "env": env}),
            )
        })
        .collect();
    let config = json!({ "upstreams": entries }).to_string();
    let document =
        ConfigDocument::parse(std::path::Path::new("measure.json"), config, &|_| None).unwrap();
    let limits = Limits {
        calls_per_program: usize::MAX,
        catalog_ops_per_program: usize::MAX,
        ..Limits::default()
    };
    let options = UpstreamOptions {
        limits,
        ..UpstreamOptions::default()
    };
    let mut secrets = ptc_secrets::Redactor::builder();
    let configured =
        ConfiguredUpstreams::read(&document, options, &mut secrets, &|_| None).unwrap();
    configured.start(secrets.build()).await.unwrap()
}

fn program(runtime: &Arc<Runtime>) -> ProgramCalls {
    ProgramCalls::new(
        runtime.clone(),
        Some(tokio::time::Instant::now() + Duration::from_secs(60)),
        Cancel::default(),
    )
}

fn request(tool: &str) -> Value {
    let args = Value::Map([(Value::str("n"), Value::Int(5))].into_iter().collect());
    let entries = [
        ("server", Value::str("fx")),
        ("tool", Value::str(tool)),
        ("args", args),
    ];
    Value::Map(
        entries
            .into_iter()
            .map(|(key, value)| (Value::keyword(key), value))
            .collect(),
    )
}

fn round_trips(runtime: &Arc<Runtime>) -> Duration {
    let program = program(runtime);
    let request = request("echo");
    median(ROUNDS, || {
        program.call(&request).unwrap();
    })
}

fn batch(runtime: &Arc<Runtime>) -> Duration {
    let program = program(runtime);
    let request = request("nap");
    let next = std::sync::atomic::AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT {
            scope.spawn(|| {
                while next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < BATCH {
                    program.call(&request).unwrap();
                }
            });
        }
    });
    begun.elapsed()
}

fn apropos(runtime: &Arc<Runtime>) -> Duration {
    let program = program(runtime);
    median(ROUNDS, || {
        let request = Discovery::Apropos {
            query: "search repository file",
            limit: 8,
            load: false,
            local: &[],
        };
        program.discover(&request).unwrap();
    })
}

/// How often each byte of a large answer is processed, in each direction. One pass counts the names for its summary.
fn passes(runtime: &Arc<Runtime>) -> Vec<Row> {
    use ptc_rpc::passes::{Pass, bytes_counted};
    let program = program(runtime);
    let request = request("rows");
    let length = rows().to_string().len() as f64;
    [
        ("scanned", Pass::Scanned),
        ("copied", Pass::Copied),
        ("built of", Pass::Built),
        ("walked over", Pass::Walked),
    ]
    .map(|(what, pass)| {
        let before = bytes_counted(pass);
        program.call(&request).unwrap();
        let times = (bytes_counted(pass) - before) as f64 / length;
        Row::at_most(
            format!("upstream: an answer of 1 MB, times {what}"),
            (times * 100.0).round() / 100.0,
            1.01,
            "x",
        )
    })
    .into()
}

fn rows() -> Json {
    let row = |n: usize| json!({"id": n, "name": format!("name {n}"), "open": n.is_multiple_of(3)});
    (0..25_000).map(row).collect()
}

/// The same round trip without the runtime.
fn direct() -> Duration {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("peer")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let time = median(ROUNDS, || {
        let call = br#"{"id":3,"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"n":5},"name":"echo"}}"#;
        input.write_all(call).unwrap();
        input.write_all(b"\n").unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
    });
    drop(input);
    let _ = child.wait();
    time
}

fn peer() {
    let sleep = std::env::var("SLEEP_MS")
        .ok()
        .and_then(|ms| ms.parse().ok())
        .unwrap_or(0);
    std::thread::sleep(Duration::from_millis(sleep));
    for line in std::io::stdin().lock().lines() {
        let message: Json = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = message.get("id").cloned() else {
            continue;
        };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {}}),
            Some("tools/list") if sleep > 0 => json!({ "tools": [{"name": "echo"}] }),
            Some("tools/list") => json!({ "tools": tools() }),
            _ if message["params"]["name"] == "nap" => {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(NAP_MS));
                    reply(
                        &id,
                        &json!({"content": [{"type": "text", "text": "rested"}]}),
                    );
                });
                continue;
            }
            _ if message["params"]["name"] == "rows" => {
                json!({"content": [], "structuredContent": {"rows": rows()}})
            }
            _ => json!({"content": [{"type": "text", "text": "ok"}]}),
        };
        reply(&id, &result);
    }
}

fn reply(id: &Json, result: &Json) {
    let line = format!(
        "{}\n",
        json!({"id": id, "jsonrpc": "2.0", "result": result})
    );
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

fn tools() -> Vec<Json> {
    let words = [
        "search", "read", "write", "list", "create", "delete", "merge", "fetch", "update", "count",
    ];
    let things = [
        "repository",
        "file",
        "issue",
        "pull_request",
        "branch",
        "user",
        "comment",
        "label",
        "release",
        "commit",
    ];
    let mut tools = ["echo", "nap", "rows"]
        .map(|name| json!({"name": name}))
        .to_vec();
    for n in 0..1997usize {
        let (word, thing) = (words[n % 10], things[(n / 10) % 10]);
        tools.push(json!({
            "name": format!("{word}_{thing}_{n}"),
            "description": format!("Use this to {word} one {thing} of the given kind, with options for paging and order."),
            "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}, "page": {"type": "integer"}}},
        }));
    }
    tools
}
