//! Runs the checks on seeded input.

use super::*;

#[test]
fn promises_hold_for_random_input() {
    const JSON: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"type\"",
        "\"string\"",
        "\"enum\"",
        "\"const\"",
        "\"properties\"",
        "\"items\"",
        "\"required\"",
        "null",
        "true",
        "1",
        "1.5",
        "\"canary-0123456789\"",
        "\"\\u0063anary-0123456789\"",
        "\"name\"",
        "\"upstreams\"",
        "\"credentials\"",
        "\"transport\"",
        "\"mcp_stdio\"",
        "\"content\"",
        "\"text\"",
        "\"structuredContent\"",
        "\"isError\"",
        "\"paths\"",
        "\"get\"",
        "\"operationId\"",
        "\"$ref\"",
        "\"#/components/a\"",
        "\n",
        " ",
    ];
    const LINES: &[&str] = &[
        "data",
        ":",
        " ",
        "\n",
        "\r",
        "x",
        "event: y\n",
        "data: z\n\n",
        "é",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut text = |pieces: &[&str]| -> String {
        let length = random.usize(..14);
        (0..length)
            .filter_map(|_| random.choice(pieces))
            .copied()
            .collect()
    };
    for _ in 0..4000 {
        let json = text(JSON);
        config(&json);
        labels(&json);
        tools(&format!("[{json}]"));
        answer(&json);
        openapi(&json);
        sse(text(LINES).as_bytes());
    }
}

#[test]
fn promises_hold_for_well_formed_input() {
    for text in [
        r#"{"upstreams":{"a":{"transport":"mcp_stdio","command":"x","env":{"A":"${SET}"}},"b":{"transport":"stdio"}}}"#,
        r#"{"credentials":{"c":{"source":"literal","value":"v"}},"upstreams":{}}"#,
    ] {
        config(text);
    }
    tools(
        r#"[{"name":"canary-0123456789","inputSchema":{"properties":{"canary-0123456789":{}}}},{"name":"a"},{"name":"a"},{},5]"#,
    );
    answer(
        r#"{"structuredContent":{"\u0063anary-0123456789":["canary-0123456789",1e3, -0]},"content":[]}"#,
    );
    labels(r#"{"type":"object","properties":{"a":{"const":"x\ny"}},"required":["a","b"]}"#);
}

/// One response that 100,000 statuses share and that is not JSON: copying or examining it for each would take forever.
#[test]
fn shared_response_is_examined_once() {
    let many =
        |each: &dyn Fn(usize) -> String| (0..100_000).map(each).collect::<Vec<_>>().join(",");
    for content in [
        String::new(),
        many(&|kind| format!(r#""text/{kind}":{{}}"#)),
    ] {
        let statuses =
            many(&|status| format!(r##""20{status}":{{"$ref":"#/components/responses/a"}}"##));
        openapi(&format!(
            r#"{{"paths":{{"/a":{{"get":{{"operationId":"op","responses":{{{statuses}}}}}}}}},
                "components":{{"responses":{{"a":{{"content":{{{content}}},"x-a":[{}]}}}}}}}}"#,
            many(&|_| "0".to_owned())
        ));
    }
}
