//! JSON text to values of the language. Iterative: an upstream chooses the depth.

use ptc_lang::Value;
use ptc_lang::value::{BigInt, Map};
use ptc_rpc::{Json, Kind};

enum Open {
    Array(Vec<Value>),
    /// Entries so far, and the key whose value comes next.
    Object(Vec<(Value, Value)>, Option<Value>),
}

/// The value of compact JSON text: string keys, integers of any size, null as nil. One pass, whatever the nesting.
pub(crate) fn from_json(json: Json<'_>) -> Value {
    let text = json.text();
    let bytes = text.as_bytes();
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let done = match byte {
            b'{' | b'[' => {
                open.push(if byte == b'[' {
                    Open::Array(Vec::new())
                } else {
                    Open::Object(Vec::new(), None)
                });
                at += 1;
                continue;
            }
            b'}' | b']' => {
                at += 1;
                match open.pop() {
                    Some(Open::Array(items)) => Value::vector(items),
                    Some(Open::Object(entries, _)) => {
                        Value::Map(entries.into_iter().collect::<Map>())
                    }
                    None => return Value::Nil,
                }
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            _ => {
                let end = token_end(bytes, at);
                let value = ptc_rpc::parse(&bytes[at..end]).map_or(Value::Nil, scalar);
                at = end;
                value
            }
        };
        match open.last_mut() {
            None => return done,
            Some(Open::Array(items)) => items.push(done),
            Some(Open::Object(entries, key)) => match key.take() {
                None => *key = Some(done),
                Some(key) => entries.push((key, done)),
            },
        }
    }
    Value::Nil
}

/// Where the string, number or word that starts at `at` ends.
pub(crate) fn token_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if rest.first() != Some(&b'"') {
        let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r');
        return rest
            .iter()
            .position(ends)
            .map_or(bytes.len(), |length| at + length);
    }
    let mut end = at + 1;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    bytes.len()
}

fn scalar(json: Json<'_>) -> Value {
    match json.kind() {
        Kind::Bool => Value::Bool(json.as_bool() == Some(true)),
        Kind::String => Value::str(json.as_str().unwrap_or_default().into_owned()),
        Kind::Integer => match json.as_i64() {
            Some(int) => Value::Int(int),
            None => json
                .text()
                .parse::<BigInt>()
                .map_or(Value::Nil, Value::integer),
        },
        Kind::Float => json.text().parse().map_or(Value::Nil, Value::Float),
        _ => Value::Nil,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (json, text) in [
            (
                r#"{"b":[1,2.5,null,true],"a":{"c":"x"}}"#,
                r#"{"a" {"c" "x"} "b" [1 2.5 nil true]}"#,
            ),
            ("[]", "[]"),
            ("[[],{}]", "[[] {}]"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            ("\"a\\nb\"", "\"a\\nb\""),
        ] {
            assert_eq!(
                ptc_lang::print::readable(&from_json(ptc_rpc::parse(json.as_bytes()).unwrap())),
                text
            );
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        drop(from_json(ptc_rpc::parse(deep.as_bytes()).unwrap()));
    }
}
