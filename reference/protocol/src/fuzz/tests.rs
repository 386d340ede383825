//! Runs the checks on seeded input.

use super::{schema, signature};

#[test]
fn arbitrary_text_keeps_the_promises() {
    let mut random = fastrand::Rng::with_seed(3);
    let signatures = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":int",
        ":string",
        ":boolean",
        ":bool",
        ":any",
        ":datetime",
        "?",
        " ",
        ",",
        "->",
        "a ",
        "b_c ",
        "é ",
        "\n",
        "x :int",
        "[:int]",
        "{a :int}",
        "() -> ",
    ];
    let schemas = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"type\":",
        "\"object\"",
        "\"array\"",
        "\"integer\"",
        "{\"type\":\"string\"}",
        "\"properties\":",
        "\"a\":",
        "\"items\":",
        "\"required\":[\"a\"]",
        "\"additionalProperties\":false",
        "\"enum\":[1]",
        "null",
        "\"format\":\"date-time\"",
    ];
    for _ in 0..5_000 {
        let mut pick = |words: &[&str]| -> String {
            let length = random.usize(..12);
            (0..length)
                .filter_map(|_| random.choice(words))
                .copied()
                .collect()
        };
        signature(&pick(&signatures));
        let members = pick(&schemas);
        schema(&members);
        schema(&format!(
            "{{\"type\":\"object\",\"properties\":{{\"a\":{{{members}}}}}}}"
        ));
    }
}
