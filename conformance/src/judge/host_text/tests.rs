//! Messages in, text of a host out.

use super::*;

#[test]
fn host_text_is_found_but_program_text_is_not() {
    let hosts = [
        "expected a name, got %PtcRunner.Lisp.Env.Builtin{name: :filter}",
        "got %{a: 1}",
        "cannot iterate MapSet.new([\"sort\"])",
        "no function clause matching in Enum.take/2",
        "{:unsupported_pattern, [1]}",
        "#Function<3.12/1 in Lisp.run>",
        "** (ArgumentError) oops",
        "got Some(1)",
        "thread 'main' panicked at src/main.rs:3",
        "no method ptc_lang::eval::call",
        "Traceback (most recent call last):",
        "'int' and 'NoneType'",
        "KeyError: 'a'",
        "got [object Object]",
        "Cannot read properties of undefined",
        "java.lang.ClassCastException: x",
        "undefined method `+' for nil",
        "goroutine 1 [running]",
        "<main.f object at 0x7f00deadbeef>",
        "badarg",
        "{badmatch,nil}",
        "attempt to add with overflow",
        "index out of bounds: the len is 2 but the index is 2",
        "invalid digit found in string",
        "expected Vec<Value>",
        "unsupported operand type(s) for +: 'int' and 'str'",
        "invalid literal for int() with base 10: 'x'",
        "Maximum call stack size exceeded",
        "stack level too deep",
        "runtime error: index out of range [2] with length 2",
        "got <nil>",
        "Object reference not set to an instance of an object",
        "got Optional(1)",
    ];
    for message in hosts {
        assert!(host_text(message, "").is_some(), "{message}");
    }
    let own = [
        "type_error: + expects numbers, got nil and string \"a\"",
        "Unsupported method '.foo'. There are .length, .indexOf, .toUpperCase",
        "expected one of LocalDate/parse, Instant/now, java.util.Date., Math/floor",
        "Undefined variable: x. Did you mean y?",
        "{:a 1 :b 2} and {\"k\" [1 2]}",
        "not callable: 42",
        "#fn[map], #'x, #\"a+\"",
        "Unsupported type at result.at, see data/items or 2025-03-09T10:00:00Z",
        "JSON.parse is called json/parse-string here",
        "runtime error: + expects numbers",
        "index 5 is out of bounds: the vector has 2 items",
        "optional arguments (see :opts) must be < 5 and > 1",
        "id 7 is already in flight (%{percent})",
    ];
    for (index, message) in own.iter().enumerate() {
        // The last one quotes the program.
        let said = if index + 1 == own.len() {
            "%{percent}"
        } else {
            ""
        };
        assert_eq!(host_text(message, said), None, "{message}");
    }
}

#[test]
fn error_messages_are_found_in_every_form() {
    let written = [
        r#"{"id":1,"error":{"code":-1,"message":"a"}}"#,
        r#"{"id":1,"result":{"isError":true,"content":[{"type":"text","text":"b"}]}}"#,
        r#"{"id":1,"result":{"isError":true,"content":[{"type":"text","text":"{}"}],"structuredContent":{"message":"c","feedback":"d"}}}"#,
        r#"{"id":1,"result":{"isError":false,"content":[{"type":"text","text":"no"}]}}"#,
        r#"{"id":1,"error":"e"}"#,
        "HTTP 200\na: b\n\n{\"error\":{\"message\":\"f\"}}",
        "HTTP 200\na: b\n\ndata: {\"error\":{\"message\":\"g\"}}\n\n",
        "HTTP 400\n\nplain",
    ];
    let found: Vec<String> = written
        .iter()
        .flat_map(|text| error_messages(text))
        .collect();
    assert_eq!(found, ["a", "b", "c", "d", "e", "f", "g"]);
}
