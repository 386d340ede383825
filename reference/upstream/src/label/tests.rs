//! Schemas in, labels out.

use super::*;

fn check(rows: &[(&str, &str, &str)]) {
    for (schema, argument, result) in rows {
        let schema: Value = serde_json::from_str(schema).unwrap();
        assert_eq!(argument_label(&schema), *argument, "argument {schema}");
        assert_eq!(result_label(&schema), *result, "result {schema}");
    }
}

#[test]
fn labels() {
    check(&[
        (r#"{"type":"string"}"#, "string", "string"),
        (
            r#"{"type":"array","items":{"type":"string"}}"#,
            "array",
            "[string]",
        ),
        (r#"{"properties":{"x":{}}}"#, "object", "{:x any?}"),
        (
            r#"{"type":["string","null","boolean"]}"#,
            "string|null|boolean",
            "string|bool",
        ),
        (r#"{"type":["null"]}"#, "null", "nil"),
        (
            r#"{"type":"string","enum":["open","closed"]}"#,
            "enum<string>",
            "\"open\"|\"closed\"",
        ),
        (r#"{"enum":[1,2.5]}"#, "enum", "1|2.5"),
        (r#"{"enum":[]}"#, "any", "enum"),
        (r#"{"const":1.0}"#, "const<1.0>", "1.0"),
        (r#"{"const":null}"#, "const<null>", "nil"),
        (r#"{"const":["a",1]}"#, "const<[\"a\",1]>", "[\"a\" 1]"),
        (
            r#"{"type":"object","properties":{"a":{"type":"number"},"b_c":{"type":"string"}},"required":["b_c"]}"#,
            "object",
            "{:b-c string :a float?}",
        ),
        (r#"{"$ref":"x"}"#, "any", "any"),
        (r#"{"type":"date"}"#, "date", "date"),
        (r#"{"type":"line\nbreak"}"#, "any", "any"),
    ]);
}

#[test]
fn order_and_display_of_arguments() {
    let schema = serde_json::json!({
        "properties": {"a": {}, "b": {}, "max_results": {}, "zz": {}, "odd name": {}, "x-y": {}, "x_y": {}},
        "required": ["zz", "a", "ghost", "zz"],
    });
    let shown: Vec<String> = arguments(&schema)
        .into_iter()
        .map(|a| a.shown + if a.required { "" } else { "?" })
        .collect();
    assert_eq!(
        shown,
        [
            ":zz",
            ":a",
            ":b?",
            ":max-results?",
            "\"odd name\"?",
            ":x-y?",
            ":x_y?"
        ]
    );
}
