//! A context is scanned once, copied once and built once, whatever its shape and wherever it stands in its frame.
//!
//! The bytes are counted for the whole process, so this file has only one test.
#![allow(clippy::unwrap_used)]

use ptc_server::checks::passes::of_frames;
use serde_json::{Value, json};

ptc_lang::counting_allocator!();

/// Bytes of the frame around its context, and of the server's other input.
const REST_BYTES: u64 = 4096;

#[test]
fn context_is_scanned_once_and_built_once() {
    let rows: Vec<Value> = (0..2_000)
        .map(|n| json!({"id": n, "name": format!("row \"{n}\""), "open": n % 3 == 0, "sum": n as f64 / 8.0}))
        .collect();
    let wide: serde_json::Map<String, Value> =
        (0..5_000).map(|n| (format!("k{n}"), n.into())).collect();
    let deep = (0..200).fold(
        json!("x".repeat(10_000)),
        |inner, n| json!({"n": n, "in": [inner]}),
    );
    let contexts = [
        json!({ "rows": rows }),
        Value::Object(wide),
        json!({ "text": "word \n".repeat(20_000) }),
        json!({ "plain": "x".repeat(100_000) }),
        json!({ "deep": deep }),
    ];
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    for flags in [&[][..], &["--debug-tool"][..]] {
        for context in &contexts {
            let compact = context.to_string().len() as u64;
            for context in [
                context.to_string(),
                serde_json::to_string_pretty(context)
                    .unwrap()
                    .replace('\n', " "),
            ] {
                // The context precedes the members that are looked up first.
                let call = format!(
                    r#"{{"params":{{"arguments":{{"context":{context},"program":"(count data/rows)"}},"name":"lisp_eval"}},"method":"tools/call","id":1,"jsonrpc":"2.0"}}"#
                );
                let (passes, answer) = of_frames(flags, &[hello.to_owned(), call]);
                let length = context.len() as u64;
                let said = format!("{passes:?} for {length} bytes, {flags:?}: {answer}");
                assert!(answer.contains("\"result\""), "{said}");
                assert!(
                    (length..length + REST_BYTES).contains(&passes.scanned),
                    "{said}"
                );
                // The ring keeps its own copy, and counts its members.
                let kept = flags.len() as u64 * length;
                assert!(passes.walked < kept + REST_BYTES, "{said}");
                assert!(passes.copied < length + kept + REST_BYTES, "{said}");
                assert!(passes.built.abs_diff(compact) < REST_BYTES, "{said}");
            }
        }
    }
}
