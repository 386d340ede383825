//! Values in, schemas out, and what else these schemas accept.

use super::*;
use crate::suite::Text;

fn check(text: &str) -> String {
    judged(text, None)
}

fn judged(json: &str, text: Option<&str>) -> String {
    let expect = ProgramExpect {
        outcome: Outcome::Returns(Returned {
            json: Some(Json::parse(json).unwrap()),
            text: text.map(Text::plain),
            ..Returned::default()
        }),
        prints: None,
        truncated: false,
        otherwise: None,
    };
    match output_schema(&expect) {
        Ok(schema) => format!("{json} -> {schema}"),
        Err(reason) => format!("{json} -> {reason}"),
    }
}

#[test]
fn schema_accepts_its_value_and_is_permissive() {
    insta::assert_snapshot!(
        [
            "1", "1.0", "123456789012345678901234567890", "\"x\"", "true", "null", "{\"a\":null,\"b\":[1,\"x\"]}", "[]", "[1,2.5]",
            "[[],[1]]", "[[1],[\"x\"]]", "[1,\"x\"]", "[null]", "[{\"a\":1},{}]", "[[[]]]", "[[1],2]",
        ]
        .map(check)
        .join("\n"),
        @r#"
            1 -> {"type":"integer"}
            1.0 -> {"type":"number"}
            123456789012345678901234567890 -> {"type":"integer"}
            "x" -> {"type":"string"}
            true -> {"type":"boolean"}
            null -> no output_schema accepts nil here
            {"a":null,"b":[1,"x"]} -> {"type":"object"}
            [] -> {"type":"array","items":{"type":"string"}}
            [1,2.5] -> {"type":"array","items":{"type":"number"}}
            [[],[1]] -> {"type":"array","items":{"type":"array","items":{"type":"integer"}}}
            [[1],["x"]] -> no output_schema accepts an array of unlike kinds
            [1,"x"] -> no output_schema accepts an array of unlike kinds
            [null] -> no output_schema accepts nil here
            [{"a":1},{}] -> {"type":"array","items":{"type":"object"}}
            [[[]]] -> {"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"string"}}}}
            [[1],2] -> no output_schema accepts an array of unlike kinds
            "#
    );
}

#[test]
fn values_of_another_schema_type_get_no_schema() {
    let told = [
        judged("\"red\"", Some("\"red\"")),
        judged("\"red\"", Some(":red")),
        judged("[\"red\"]", Some("[:red]")),
        judged("\"red\"", Some(":red ... (truncated")),
        judged("{\"a\":\"red\"}", Some("{:a :red}")),
        check("\"2025-01-31\""),
        check("[\"2025-01-31T08:30:00Z\"]"),
        check("\"PT1H\""),
        check("\"PTC\""),
        check("{\"a\":\"2025-01-31\"}"),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
        "red" -> {"type":"string"}
        "red" -> no output_schema calls a keyword or a time what its JSON form is
        ["red"] -> no output_schema calls a keyword or a time what its JSON form is
        "red" -> no output_schema calls a keyword or a time what its JSON form is
        {"a":"red"} -> {"type":"object"}
        "2025-01-31" -> no output_schema calls a keyword or a time what its JSON form is
        ["2025-01-31T08:30:00Z"] -> no output_schema calls a keyword or a time what its JSON form is
        "PT1H" -> no output_schema calls a keyword or a time what its JSON form is
        "PTC" -> {"type":"string"}
        {"a":"2025-01-31"} -> {"type":"object"}
        "#);
}
