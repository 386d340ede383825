//! JSON text to values of the language. Iterative: an upstream chooses the depth.

use ptc_lang::Value;
use ptc_rpc::Json;

/// The value of JSON text: string keys, integers of any size, null as nil. One pass, whatever the nesting.
pub(crate) fn from_json(json: Json<'_>) -> Value {
    ptc_lang::json::from_str(json.text()).unwrap_or_default()
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
