//! Arguments of a call: from a map of the program to the text of a JSON object, keys as the tool's schema declares them.
//! Iterative: a program chooses the depth.

use std::collections::HashSet;

use ptc_lang::error::{Words, quoting};
use ptc_lang::value::{Entries, Items, Map};
use ptc_lang::{Value, print};
use ptc_rpc::{write_float, write_string};
use serde_json::Value as Schema;

enum Open<'a> {
    Map {
        rest: Entries<'a>,
        schema: &'a Schema,
        seen: HashSet<String>,
        path: String,
        first: bool,
    },
    List {
        rest: Items<'a>,
        schema: &'a Schema,
        path: String,
        index: usize,
    },
}

/// The arguments as compact JSON. A key that the schema declares is sent as written, in another its hyphens become
/// underscores; keys that become one, and values without a JSON form, are refused with their path.
pub(crate) fn encode(args: &Map, schema: &Schema) -> Result<String, Words> {
    let mut out = Vec::with_capacity(64);
    let mut open = vec![open_map(args, schema, "args".into())];
    out.push(b'{');
    while let Some(top) = open.last_mut() {
        let (value, schema, path) = match top {
            Open::Map {
                rest,
                schema,
                seen,
                path,
                first,
            } => {
                let Some((key, value)) = rest.next() else {
                    out.push(b'}');
                    open.pop();
                    continue;
                };
                let key = sent_key(key, schema).ok_or_else(|| {
                    quoting(
                        format!("not JSON-encodable (a key at {path} has no JSON form: "),
                        key,
                    )
                    .then(")")
                })?;
                if !seen.insert(key.clone()) {
                    return Err(format!("two keys at {path} become \"{key}\"").into());
                }
                if !std::mem::take(first) {
                    out.push(b',');
                }
                write_string(&mut out, &key);
                out.push(b':');
                let inner = property(schema, &key);
                (value, inner, format!("{path}.{key}"))
            }
            Open::List {
                rest,
                schema,
                path,
                index,
            } => {
                let Some(value) = rest.next() else {
                    out.push(b']');
                    open.pop();
                    continue;
                };
                if *index > 0 {
                    out.push(b',');
                }
                *index += 1;
                (
                    value,
                    schema.get("items").unwrap_or(&Schema::Null),
                    format!("{path}[{}]", *index - 1),
                )
            }
        };
        match value {
            Value::Map(map) => {
                out.push(b'{');
                open.push(open_map(map, schema, path));
            }
            Value::Vector(items) => {
                out.push(b'[');
                open.push(Open::List {
                    rest: items.iter(),
                    schema,
                    path,
                    index: 0,
                });
            }
            scalar => write_scalar(&mut out, scalar)
                .map_err(|why| format!("not JSON-encodable ({why} at {path})"))?,
        }
    }
    String::from_utf8(out).map_err(|_| "not JSON-encodable (not UTF-8)".into())
}

/// Names that the schema requires and the arguments (JSON text) lack. A null counts as given.
pub(crate) fn missing<'a>(arguments: &str, schema: &'a Schema) -> Vec<&'a str> {
    let required = crate::label::required_keys(schema);
    if required.is_empty() {
        return required;
    }
    let Ok(arguments) = ptc_rpc::parse(arguments.as_bytes()) else {
        return required;
    };
    required
        .into_iter()
        .filter(|key| arguments.get(key).is_none())
        .collect()
}

fn open_map<'a>(map: &'a Map, schema: &'a Schema, path: String) -> Open<'a> {
    Open::Map {
        rest: map.iter(),
        schema,
        seen: HashSet::new(),
        path,
        first: true,
    }
}

fn property<'a>(schema: &'a Schema, key: &str) -> &'a Schema {
    schema
        .get("properties")
        .and_then(|properties| properties.get(key))
        .unwrap_or(&Schema::Null)
}

fn sent_key(key: &Value, schema: &Schema) -> Option<String> {
    let text = match key {
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => text.as_str().to_owned(),
        Value::Nil
        | Value::Bool(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Float(_)
        | Value::Vector(_) => print::readable(key),
        Value::Date(_) | Value::Instant(_) => print::display(key),
        _ => return None,
    };
    let declared = schema
        .get("properties")
        .is_some_and(|properties| properties.get(&text).is_some());
    Some(if declared {
        text
    } else {
        text.replace('-', "_")
    })
}

fn write_scalar(out: &mut Vec<u8>, value: &Value) -> Result<(), String> {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(int) => out.extend_from_slice(int.to_string().as_bytes()),
        Value::BigInt(int) => out.extend_from_slice(int.to_string().as_bytes()),
        Value::Float(float) if float.is_finite() => write_float(out, *float),
        Value::Float(_) => return Err(format!("{} has no JSON form", print::readable(value))),
        Value::Str(text) | Value::Keyword(text) => write_string(out, text.as_str()),
        Value::Date(_) | Value::Instant(_) | Value::Duration(_) => {
            write_string(out, &print::display(value))
        }
        other => return Err(format!("a {} has no JSON form", other.kind().word())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Nowhere;
    impl ptc_lang::Host for Nowhere {
        fn now_micros(&self) -> i64 {
            0
        }
    }

    fn check(program: &str, schema: Schema) -> String {
        let (outcome, _) = ptc_lang::run(
            &ptc_lang::Program::new(program),
            &ptc_lang::Env::new(),
            &ptc_lang::Limits::default(),
            &Nowhere,
        );
        let ptc_lang::Ended::Value(Value::Map(args)) = outcome.ended else {
            panic!("{program} gave no map")
        };
        encode(&args, &schema).unwrap_or_else(|problem| problem.to_string())
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
        let schema = json!({"required": ["x", "y", "x"]});
        assert_eq!(missing(r#"{"y":null}"#, &schema), ["x"]);
        assert!(missing("{}", &json!({})).is_empty());
    }
}
