//! Maps in, JSON text or refusals out.

use super::*;
use ptc_lang::meter::Unwatched;
use serde_json::{Value as Schema, json};

struct NullHost;
impl ptc_lang::Host for NullHost {
    fn now_micros(&self) -> i64 {
        0
    }
}

fn check(program: &str, schema: Schema) -> String {
    let (outcome, _) = ptc_lang::run(
        &ptc_lang::Program::new(program),
        &ptc_lang::Env::new(),
        &ptc_lang::Limits::default(),
        &NullHost,
    );
    let ptc_lang::Ended::Value(Value::Map(args)) = outcome.ended else {
        panic!("{program} gave no map")
    };
    match encode(&args, SchemaKeys::of(&schema).declared(), &Unwatched) {
        Ok(text) => text,
        Err(EncodeError::Problem(problem)) => problem.to_string(),
        Err(EncodeError::Limit(limit)) => panic!("{program}: {limit:?}"),
    }
}

#[test]
fn keys_and_values() {
    let declared =
        json!({"properties": {"a-b": {}, "list": {"items": {"properties": {"c-d": {}}}}}});
    for (program, schema, expected) in [
        (
            r#"{:max-results 5 :nested-map {:a-b [{:c-d 1}]} "str-key" "v-w"}"#,
            Schema::Null,
            r#"{"max_results":5,"nested_map":{"a_b":[{"c_d":1}]},"str_key":"v-w"}"#,
        ),
        (
            r#"{:a-b 1 :x-y 2 :list [{:c-d 1 :e-f 2}]}"#,
            declared,
            r#"{"a-b":1,"list":[{"c-d":1,"e_f":2}],"x_y":2}"#,
        ),
        (
            r#"{:a-b 1 :a_b 2}"#,
            Schema::Null,
            "two keys at args become \"a_b\"",
        ),
        (
            r#"{1 :k nil nil true 2.5}"#,
            Schema::Null,
            r#"{"1":"k","nil":null,"true":2.5}"#,
        ),
        (
            r#"{:s #{1}}"#,
            Schema::Null,
            "not JSON-encodable (a set has no JSON form at args.s)",
        ),
        (
            r#"{:f [(fn [x] x)]}"#,
            Schema::Null,
            "not JSON-encodable (a function has no JSON form at args.f[0])",
        ),
    ] {
        assert_eq!(check(program, schema), expected, "{program}");
    }
}

#[test]
fn required_names() {
    let schema_keys = |schema| SchemaKeys::of(&schema);
    let schema = schema_keys(json!({"required": ["x", "y", "x"]}));
    assert_eq!(missing_names(r#"{"y":null}"#, &schema), ["x"]);
    assert!(missing_names("{}", &schema_keys(json!({}))).is_empty());
}
