//! Random values for property tests. Knows nothing of the properties.

use proptest::prelude::*;
use ptc_lang::Value;
use ptc_lang::value::{BigInt, Map, Set};

/// Text with many special characters: marks, joiners, controls, quotes.
pub fn rich_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-c ,.]{0,4}",
        "\\PC{0,3}",
        Just("e\u{301}".to_owned()),
        Just("👩\u{200d}🚀".to_owned()),
        Just("🇨🇭".to_owned()),
        Just("\r\n".to_owned()),
        Just("\"\\\u{0}\u{1b}\u{7f}\u{85}".to_owned()),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// A value without parts.
pub fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::Int),
        "-?[1-9][0-9]{19,60}".prop_map(|digits| Value::integer(
            digits.parse::<BigInt>().expect("digits are an integer")
        )),
        any::<f64>()
            .prop_filter("NaN does not equal itself", |float| !float.is_nan())
            .prop_map(Value::Float),
        rich_text().prop_map(Value::from),
        "[a-z*!_?<>=-][a-zA-Z0-9*+!_?<>=-]{0,6}".prop_map(Value::keyword),
    ]
}

/// Any value that can be read back: no NaN, no functions.
pub fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|members| Value::Set(members.into_iter().collect::<Set>())),
            prop::collection::vec((inner.clone(), inner), 0..6)
                .prop_map(|entries| Value::Map(entries.into_iter().collect::<Map>())),
        ]
    })
}
