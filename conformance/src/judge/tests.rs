//! Every judging rule, met and violated: data in, text out.

use super::*;
use crate::fixture;
use crate::json::Json;
use crate::observed::{CallAnswer, CommandRun, HttpMessage, ProgramOutcome, ProgramRun};
use crate::suite::{
    CallExpect, Captures, CaseBody, Control, FixtureCase, FixtureExpect, HttpAction, LineMatch,
    Pattern, ProgramExpect, WireAction,
};

/// The body of the only case in a block.
fn body(kind: &str, content: &str) -> CaseBody {
    let page = format!("# S {{#s}}\n```{kind}\n{content}\n```\n");
    let suite = fixture::page("p.md", page.as_bytes()).expect(content);
    suite.cases.into_iter().next().expect("one case").body
}

fn expectation(marks: &str) -> ProgramExpect {
    match body("clj", &format!("(p)\n{marks}")) {
        CaseBody::Clj(case) => case.expect,
        _ => unreachable!(),
    }
}

fn pattern(source: &str) -> Pattern {
    match body("wire", &format!("<- {source}")) {
        CaseBody::Wire(case) => match case.steps.into_iter().next().map(|step| step.action) {
            Some(WireAction::Expect(expect)) => expect.pattern,
            _ => unreachable!(),
        },
        _ => unreachable!(),
    }
}

fn describe(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Pass { unobserved } if unobserved.is_empty() => "pass".to_owned(),
        Verdict::Pass { unobserved } => format!("pass, unseen {}", unobserved.join("; ")),
        other => format!("{}: {}", other.word(), other.message()),
    }
}

fn judged(judged: Judged) -> String {
    match judged {
        Ok(()) => "ok".to_owned(),
        Err(wrong) => format!(
            "{}: expected {}, observed {}",
            wrong.what, wrong.expected, wrong.observed
        ),
    }
}

/// A line per row: the marks below a program, and the verdict on its run.
fn verdicts(rows: &[(&str, ProgramRun)]) -> String {
    let line = |(marks, run): &(&str, ProgramRun)| {
        let verdict = describe(&program(&expectation(marks), run));
        format!("{} | {verdict}", marks.replace('\n', " "))
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A run in which everything is observable.
fn value(text: &str, json: &str) -> ProgramRun {
    ProgramRun {
        outcome: ProgramOutcome::Returned {
            text: Some((!text.is_empty()).then(|| text.to_owned())),
            json: Some((!json.is_empty()).then(|| Json::parse(json).unwrap())),
        },
        prints: Some(Vec::new()),
        prints_cut: false,
        truncated: Some(false),
    }
}

fn error(reason: &str, message: &str) -> ProgramRun {
    ProgramRun {
        outcome: ProgramOutcome::Raised {
            reason: reason.to_owned(),
            message: Some(message.to_owned()),
            value: Some((reason == "fail").then(|| "{:a 1 :b 2}".to_owned())),
        },
        prints: Some(Vec::new()),
        prints_cut: false,
        truncated: Some(false),
    }
}

/// The run with nothing observable but the kind of outcome.
fn unobservable(run: ProgramRun) -> ProgramRun {
    let outcome = match run.outcome {
        ProgramOutcome::Returned { .. } => ProgramOutcome::Returned {
            text: None,
            json: None,
        },
        ProgramOutcome::Raised { reason, .. } => ProgramOutcome::Raised {
            reason,
            message: None,
            value: None,
        },
    };
    ProgramRun {
        outcome,
        prints: None,
        prints_cut: false,
        truncated: None,
    }
}

#[test]
fn values_are_judged() {
    let rows = [
        (";=> {:b 2 :a 1}", value("{:a 1 :b 2}", "")),
        (";=> {:b 2 :a 1}", value("{:a 1 :b 3}", "")),
        (";=> 1", value("1.0", "")),
        (";=> [1]", value("(1)", "")),
        (";=> [1]", value("[1", "")),
        (";=> nil", value("", "")),
        (";=> 1", value("", "")),
        (";=> nil", value("nil", "")),
        (";=> <any>", value("", "")),
        (";=> <int>", value("", "")),
        (";== {:b 2 :a 1}", value("{:a 1 :b 2}", "")),
        (";== {{repeat:3:ab}}", value("ababab", "")),
        (";== {{repeat:3:ab}}", value("abab", "")),
        (";== x", value("", "")),
        (";nothing", value("", "")),
        (";nothing", value("1", "")),
        (";~ #fn\\[.*\\]", value("#fn[x]", "")),
        (";~ #fn\\[.*\\]", value("#fn[x] ", "")),
        (";~ x", value("", "")),
        (";json 1", value("1", "1")),
        (";json 1", value("1", "1.0")),
        (
            ";json 12345678901234567890123",
            value("1", "12345678901234567890124"),
        ),
        (";json {\"a\": [1, null]}", value("1", "{\"a\":[1,null]}")),
        (";json {\"a\": [1, null]}", value("1", "{\"a\":[1]}")),
        (";json 1", value("1", "")),
        (";=> 1", error("runtime_error", "type_error: no")),
        (";=> 1\n;json 2", value("1", "1")),
    ];
    insta::assert_snapshot!(verdicts(&rows), @r#"
    ;=> {:b 2 :a 1} | pass
    ;=> {:b 2 :a 1} | fail: result: expected {:a 1 :b 2}, observed {:a 1 :b 3}
    ;=> 1 | fail: result: expected 1, observed 1.0
    ;=> [1] | fail: result: expected [1], observed (1)
    ;=> [1] | fail: result: expected [1], observed [1 (unreadable at 2: expected a value or ']', found the end)
    ;=> nil | pass
    ;=> 1 | fail: result: expected 1, observed no result text
    ;=> nil | pass
    ;=> <any> | pass
    ;=> <int> | fail: result: expected <int>, observed no result text
    ;== {:b 2 :a 1} | fail: result: expected {:b 2 :a 1}, observed {:a 1 :b 2}
    ;== {{repeat:3:ab}} | pass
    ;== {{repeat:3:ab}} | fail: result: expected ababab, observed abab
    ;== x | fail: result: expected x, observed no result text
    ;nothing | pass
    ;nothing | fail: result: expected no result text, observed 1
    ;~ #fn\[.*\] | pass
    ;~ #fn\[.*\] | fail: result: expected text of the shape #fn\[.*\], observed #fn[x] 
    ;~ x | fail: result: expected text of the shape x, observed no result text
    ;json 1 | pass
    ;json 1 | fail: json: expected 1, observed 1.0
    ;json 12345678901234567890123 | fail: json: expected 12345678901234567890123, observed 12345678901234567890124
    ;json {"a": [1, null]} | pass
    ;json {"a": [1, null]} | fail: json: expected {"a":[1,null]}, observed {"a":[1]}
    ;json 1 | fail: json: expected 1, observed no `validated`, though the call asked for it with the output_schema {"type":"integer"}
    ;=> 1 | fail: outcome: expected the value 1, observed runtime_error: type_error: no
    ;=> 1 ;json 2 | fail: json: expected 2, observed 1
    "#);
}

#[test]
fn unobservable_parts_never_pass() {
    let cut = |text: &str, flag: Option<bool>| ProgramRun {
        truncated: flag,
        ..value(text, "")
    };
    let no_json = |text: &str| ProgramRun {
        outcome: ProgramOutcome::Returned {
            text: Some(Some(text.to_owned())),
            json: None,
        },
        ..value("", "")
    };
    let rows = [
        (";=> 1", unobservable(value("1", ""))),
        (";== 1", unobservable(value("1", ""))),
        (";~ 1", unobservable(value("1", ""))),
        (";nothing", unobservable(value("", ""))),
        (";json 1", unobservable(value("1", "1"))),
        (";json [1, \"a\"]", no_json("[1 \"a\"]")),
        (";=> [1 \"a\"]\n;json [1, \"a\"]", no_json("[1 \"a\"]")),
        (
            ";=> 1\n;>> x",
            ProgramRun {
                prints: None,
                ..value("1", "")
            },
        ),
        // A truncated preview never matches, whatever it shows.
        (";=> [1 2]", cut("[1 2]", Some(true))),
        (";=> [1 2]\n;truncated", cut("[1 2]", Some(true))),
        (";=> [1 2]\n;truncated", cut("[1 2]", None)),
        (";=> [1 2]", cut("[1 ... (1/2)]", None)),
        (
            ";== [1 ... (1/2)]\n;truncated",
            cut("[1 ... (1/2)]", Some(true)),
        ),
        (
            ";== [1 ... (1/2)]\n;truncated",
            cut("[1 ... (1/2)]", Some(false)),
        ),
        (";== [1 ... (1/2)]\n;truncated", cut("[1 ... (1/2)]", None)),
        // The reason is always shown; the rest may not be.
        (";!! timeout", unobservable(error("timeout", ""))),
        (
            ";!! runtime_error: type_error",
            unobservable(error("runtime_error", "type_error: x")),
        ),
        (";!! fail\n;=> {:a 1}", unobservable(error("fail", ""))),
    ];
    insta::assert_snapshot!(verdicts(&rows), @r#"
    ;=> 1 | unobservable: result: the target doesn't show it
    ;== 1 | unobservable: result: the target doesn't show it
    ;~ 1 | unobservable: result: the target doesn't show it
    ;nothing | unobservable: result: the target doesn't show it
    ;json 1 | unobservable: json: the target shows no JSON value
    ;json [1, "a"] | unobservable: json: no output_schema accepts an array of unlike kinds
    ;=> [1 "a"] ;json [1, "a"] | pass, unseen json: no output_schema accepts an array of unlike kinds
    ;=> 1 ;>> x | pass, unseen prints: the target doesn't show it
    ;=> [1 2] | fail: truncated: expected an outcome that is not truncated, observed a truncated outcome
    ;=> [1 2] ;truncated | unobservable: result: the preview is truncated, so it can't be compared
    ;=> [1 2] ;truncated | unobservable: result: the preview is truncated, so it can't be compared; truncated: the target doesn't show it
    ;=> [1 2] | unobservable: result: the preview is truncated, so it can't be compared
    ;== [1 ... (1/2)] ;truncated | pass
    ;== [1 ... (1/2)] ;truncated | fail: truncated: expected a truncated outcome, observed an outcome that is not truncated
    ;== [1 ... (1/2)] ;truncated | pass, unseen truncated: the target doesn't show it
    ;!! timeout | pass
    ;!! runtime_error: type_error | pass, unseen message: the target doesn't show it
    ;!! fail ;=> {:a 1} | pass, unseen failed value: the target doesn't show it
    "#);
}

#[test]
fn errors_and_prints_are_judged() {
    let printed = |entries: &[&str]| ProgramRun {
        prints: Some(entries.iter().map(|&entry| entry.to_owned()).collect()),
        ..value("1", "")
    };
    let rows = [
        (
            ";!! runtime_error",
            error("runtime_error", "type_error: no"),
        ),
        (";!! runtime_error", error("parse_error", "no")),
        (";!! runtime_error", value("1", "")),
        (";!! runtime_error", value("", "")),
        (
            ";!! runtime_error: type_error: ",
            error("runtime_error", "type_error: no"),
        ),
        (
            ";!! runtime_error: type_error: ",
            error("runtime_error", "arity_error: no"),
        ),
        (";!! runtime_error = no", error("runtime_error", "no")),
        (";!! runtime_error = no", error("runtime_error", "no!")),
        (";!! fail\n;=> {:b 2 :a 1}", error("fail", "x")),
        (";!! fail\n;=> {:b 2 :a 2}", error("fail", "x")),
        (";!! fail\n;== {:b 2 :a 1}", error("fail", "x")),
        (";=> 1\n;>> a\n;>> b", printed(&["a", "b"])),
        (";=> 1\n;>> a\n;>> b", printed(&["b", "a"])),
        (";=> 1\n;>> a\n;>> b", printed(&["a\nb"])),
        (";=> 1\n;>> a", printed(&["a", "b"])),
        (";=> 1\n;>> a", printed(&["a "])),
        (";=> 1\n;prints-nothing", printed(&[])),
        (";=> 1\n;prints-nothing", printed(&["a"])),
        (";=> 1", printed(&["doesn't matter"])),
        (
            ";=> 1\n;>> a\n;>> b",
            ProgramRun {
                prints_cut: true,
                ..printed(&["a"])
            },
        ),
        (
            ";=> 1\n;>> a\n;>> b",
            ProgramRun {
                prints_cut: true,
                ..printed(&["b"])
            },
        ),
        (
            ";=> 1\n;>> a\n;>> b",
            ProgramRun {
                prints_cut: true,
                ..printed(&["a", "b"])
            },
        ),
        (
            ";!! parse_error: no <string~.> at <int>",
            error("parse_error", "no x at 12, column 1"),
        ),
        (
            ";!! parse_error: no <string~.> at <int>",
            error("parse_error", "no xy at 12"),
        ),
        (
            ";!! parse_error = no at <int>",
            error("parse_error", "no at 12!"),
        ),
        (";!! timeout\n;>> a", error("timeout", "x")),
    ];
    insta::assert_snapshot!(verdicts(&rows), @r#"
    ;!! runtime_error | pass
    ;!! runtime_error | fail: reason: expected runtime_error, observed parse_error: no
    ;!! runtime_error | fail: outcome: expected runtime_error, observed the value 1
    ;!! runtime_error | fail: outcome: expected runtime_error, observed no result text
    ;!! runtime_error: type_error:  | pass
    ;!! runtime_error: type_error:  | fail: message: expected type_error:…, observed arity_error: no
    ;!! runtime_error = no | pass
    ;!! runtime_error = no | fail: message: expected no, observed no!
    ;!! fail ;=> {:b 2 :a 1} | pass
    ;!! fail ;=> {:b 2 :a 2} | fail: failed value: expected {:a 2 :b 2}, observed {:a 1 :b 2}
    ;!! fail ;== {:b 2 :a 1} | fail: failed value: expected {:b 2 :a 1}, observed {:a 1 :b 2}
    ;=> 1 ;>> a ;>> b | pass
    ;=> 1 ;>> a ;>> b | fail: prints: expected "a"\n"b", observed "b"\n"a"
    ;=> 1 ;>> a ;>> b | fail: prints: expected "a"\n"b", observed "a\nb"
    ;=> 1 ;>> a | fail: prints: expected "a", observed "a"\n"b"
    ;=> 1 ;>> a | fail: prints: expected "a", observed "a "
    ;=> 1 ;prints-nothing | pass
    ;=> 1 ;prints-nothing | fail: prints: expected nothing printed, observed "a"
    ;=> 1 | pass
    ;=> 1 ;>> a ;>> b | pass, unseen prints: the target leaves out the end
    ;=> 1 ;>> a ;>> b | fail: prints: expected "a"\n"b", observed "b"
    ;=> 1 ;>> a ;>> b | fail: prints: expected "a"\n"b", observed "a"\n"b"
    ;!! parse_error: no <string~.> at <int> | pass
    ;!! parse_error: no <string~.> at <int> | fail: message: expected no <string~.> at <int>…, observed no xy at 12
    ;!! parse_error = no at <int> | fail: message: expected no at <int>, observed no at 12!
    ;!! timeout ;>> a | fail: prints: expected "a", observed nothing printed
    "#);
    let kind = ProgramExpect {
        outcome: crate::suite::Outcome::Raises(crate::suite::Raised {
            reason: crate::suite::Reason::RuntimeError,
            kind: Some("type_error".to_owned()),
            message: None,
            value_text: None,
            value_data: None,
        }),
        prints: None,
        truncated: false,
        otherwise: Some(Box::new(expectation(";!! timeout"))),
    };
    assert_eq!(
        describe(&program(&kind, &error("runtime_error", "type_error: x"))),
        "pass"
    );
    assert_eq!(
        describe(&program(&kind, &error("timeout", "too long"))),
        "pass"
    );
    assert_eq!(
        describe(&program(&kind, &error("runtime_error", "type error: x"))),
        "pass"
    );
    assert_eq!(
        describe(&program(&kind, &error("runtime_error", "type_error"))),
        "fail: message: expected type_error: …, observed type_error"
    );
}

#[test]
fn message_kind_spelling_is_normalised() {
    let rows = [
        (
            ";!! runtime_error: arity_error: inc",
            "arity error: inc expects",
        ),
        (";!! runtime_error: arity_error", "arity error: inc expects"),
        (";!! runtime_error: arity_error", "arity error of inc"),
        (";!! runtime_error: arity_error", "argument error: inc"),
        (";!! runtime_error = arity_error: x_y", "arity error: x_y"),
        (";!! runtime_error = arity_error: x_y", "arity error: x y"),
        (";!! runtime_error: my_name", "my name"),
    ];
    let describe: Vec<String> = rows
        .iter()
        .map(|(marks, message)| {
            describe(&program(
                &expectation(marks),
                &error("runtime_error", message),
            ))
        })
        .collect();
    insta::assert_snapshot!(describe.join("\n"), @r"
    pass
    pass
    fail: message: expected arity_error…, observed arity error of inc
    fail: message: expected arity_error…, observed argument error: inc
    pass
    fail: message: expected arity_error: x_y, observed arity error: x y
    fail: message: expected my_name…, observed my name
    ");
}

#[test]
fn any_alternative_outcome_suffices() {
    let marks = ";!! timeout\n;or !! memory_limit\n;or => 1\n;>> a";
    let printed = |run: ProgramRun| ProgramRun {
        prints: Some(vec!["a".to_owned()]),
        ..run
    };
    let rows = [
        error("timeout", "x"),
        error("memory_limit", "x"),
        printed(value("1", "")),
        value("1", ""),
        printed(value("2", "")),
        error("runtime_error", "x"),
    ];
    let describe: Vec<String> = rows
        .iter()
        .map(|run| describe(&program(&expectation(marks), run)))
        .collect();
    insta::assert_snapshot!(describe.join("\n"), @r#"
    pass
    pass
    pass
    fail: outcome: expected timeout, observed the value 1
    fail: outcome: expected timeout, observed the value 2
    fail: reason: expected timeout, observed runtime_error: x
    "#);
}

#[test]
fn json_is_judged() {
    let rows = [
        (
            r#"{"a": 1, "b": [true, null]}"#,
            r#"{"b":[true,null],"a":1}"#,
        ),
        (r#"{"a": 1}"#, r#"{"a":1,"b":2}"#),
        (r#"{"a": 1, "...": "..."}"#, r#"{"a":1,"b":2}"#),
        (r#"{"a": 1, "...": "..."}"#, r#"{"b":2}"#),
        (
            r#"{"a": {"b": [1, {"c": "x"}]}}"#,
            r#"{"a":{"b":[1,{"c":"y"}]}}"#,
        ),
        ("[1, 2]", "[2,1]"),
        ("[1, 2]", "[1,2,3]"),
        (r#"[1, "..."]"#, "[1,2,3]"),
        (r#"[1, 2, "..."]"#, "[1]"),
        ("1", "1.0"),
        ("1.0", "1.00"),
        ("null", "false"),
        (r#""1""#, "1"),
        ("<any>", "null"),
        ("<bool>", "0"),
        ("<int>", "1.0"),
        ("<int 1..3>", "3"),
        ("<int 1..3>", "4"),
        ("<int 1..>", "123456789012345678901234567890"),
        ("<int>", "123456789012345678901234567890"),
        ("<float>", "1"),
        ("<number>", r#""1""#),
        ("<string>", "null"),
        ("<string~[a-c]+>", r#""abc""#),
        ("<string~[a-c]+>", r#""abcd""#),
        ("<array>", "{}"),
        ("<object>", "[]"),
        (r#"{"a": <absent>}"#, "{}"),
        (r#"{"a": <absent>}"#, r#"{"a":null}"#),
        (r#"{"a": <int?>}"#, "{}"),
        (r#"{"a": <int?>}"#, r#"{"a":null}"#),
        (r#"{"a": <any>}"#, "{}"),
        (r#""took <n:int> ms""#, r#""took 12 ms""#),
        (r#""took <int> ms""#, r#""took 1.5 ms""#),
        (r#""took <int 1..9> ms""#, r#""took 10 ms""#),
        (r#""<lt>int>""#, r#""<int>""#),
        (r#""<lt>int>""#, r#""5""#),
        (r#"<json {"a": <x:int>}>"#, r#""{\"a\": 1}""#),
        (r#"<json {"a": <int>}>"#, r#""{\"a\": null}""#),
        (r#"<json {"a": 1}>"#, r#""{a: 1}""#),
        (r#"<json {"a": 1}>"#, r#"{"a":1}"#),
        ("<unordered [1, <int>, 2]>", "[2,3,1]"),
        ("<unordered [1, <int>, 2]>", "[2,3,2]"),
        ("<unordered [1, 2]>", "[1,2,3]"),
        ("<unordered [3, 1, \"...\"]>", "[1,2,3]"),
        ("<unordered [3, 1, \"...\"]>", "[1,3]"),
        (
            "<unordered [{\"name\": \"b\", \"n\": {\"x\": 2}, \"...\": \"...\"}, \"...\"]>",
            "[{\"name\":\"a\",\"n\":{\"x\":1}},{\"name\":\"b\",\"n\":{\"x\":3}}]",
        ),
        ("<unordered [3, 4, \"...\"]>", "[1,2,3]"),
        ("<unordered [3, 3, \"...\"]>", "[1,2,3]"),
        (r#"[<x:int>, {{x}}]"#, "[1,1]"),
        (r#"[<x:int>, {{x}}]"#, "[1,1.0]"),
        (r#"[<x:string>, "a{{x}}"]"#, r#"["b","ab"]"#),
        (r#"[<x:string>, "a{{x}}"]"#, r#"["b","abb"]"#),
    ];
    let lines: Vec<String> = rows
        .iter()
        .map(|(source, observed)| {
            let mut captures = Captures::new();
            let outcome = judged(json(
                "body",
                &pattern(source),
                &Json::parse(observed).unwrap(),
                &mut captures,
            ));
            let mut kept: Vec<String> = captures
                .iter()
                .map(|(name, value)| format!(" {name}={value}"))
                .collect();
            kept.sort();
            format!("{source} | {observed} | {outcome}{}", kept.concat())
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"a": 1, "b": [true, null]} | {"b":[true,null],"a":1} | ok
    {"a": 1} | {"a":1,"b":2} | body.b: expected no such member, observed 2
    {"a": 1, "...": "..."} | {"a":1,"b":2} | ok
    {"a": 1, "...": "..."} | {"b":2} | body.a: expected 1, observed no such member
    {"a": {"b": [1, {"c": "x"}]}} | {"a":{"b":[1,{"c":"y"}]}} | body.a.b[1].c: expected "x", observed "y"
    [1, 2] | [2,1] | body[0]: expected 1, observed 2
    [1, 2] | [1,2,3] | body: expected 2 elements, observed 3 elements
    [1, "..."] | [1,2,3] | ok
    [1, 2, "..."] | [1] | body: expected 2 elements or more, observed 1 elements
    1 | 1.0 | body: expected 1, observed 1.0
    1.0 | 1.00 | ok
    null | false | body: expected null, observed false
    "1" | 1 | body: expected "1", observed 1
    <any> | null | ok
    <bool> | 0 | body: expected <bool>, observed 0
    <int> | 1.0 | body: expected <int>, observed 1.0
    <int 1..3> | 3 | ok
    <int 1..3> | 4 | body: expected <int 1..3>, observed 4
    <int 1..> | 123456789012345678901234567890 | body: expected <int 1..>, observed 123456789012345678901234567890
    <int> | 123456789012345678901234567890 | ok
    <float> | 1 | body: expected <float>, observed 1
    <number> | "1" | body: expected <number>, observed "1"
    <string> | null | body: expected <string>, observed null
    <string~[a-c]+> | "abc" | ok
    <string~[a-c]+> | "abcd" | body: expected <string~[a-c]+>, observed "abcd"
    <array> | {} | body: expected <array>, observed {}
    <object> | [] | body: expected <object>, observed []
    {"a": <absent>} | {} | ok
    {"a": <absent>} | {"a":null} | body.a: expected <absent>, observed null
    {"a": <int?>} | {} | ok
    {"a": <int?>} | {"a":null} | body.a: expected <int?>, observed null
    {"a": <any>} | {} | body.a: expected <any>, observed no such member
    "took <n:int> ms" | "took 12 ms" | ok n="12"
    "took <int> ms" | "took 1.5 ms" | body: expected took <int> ms, observed "took 1.5 ms"
    "took <int 1..9> ms" | "took 10 ms" | body: expected took <int 1..9> ms, observed "took 10 ms"
    "<lt>int>" | "<int>" | ok
    "<lt>int>" | "5" | body: expected "<int>", observed "5"
    <json {"a": <x:int>}> | "{\"a\": 1}" | ok x=1
    <json {"a": <int>}> | "{\"a\": null}" | body(json).a: expected <int>, observed null
    <json {"a": 1}> | "{a: 1}" | body: expected a string that holds JSON, observed "{a: 1}" (expected a key in double quotes, found 'a' at byte 1)
    <json {"a": 1}> | {"a":1} | body: expected <json {"a":1}>, observed {"a":1}
    <unordered [1, <int>, 2]> | [2,3,1] | ok
    <unordered [1, <int>, 2]> | [2,3,2] | body: expected <unordered [1, <int>, 2]>, observed [2,3,2]
    <unordered [1, 2]> | [1,2,3] | body: expected <unordered [1, 2]>, observed [1,2,3]
    <unordered [3, 1, "..."]> | [1,2,3] | ok
    <unordered [3, 1, "..."]> | [1,3] | ok
    <unordered [{"name": "b", "n": {"x": 2}, "...": "..."}, "..."]> | [{"name":"a","n":{"x":1}},{"name":"b","n":{"x":3}}] | body[1].n.x: expected 2, observed 3
    <unordered [3, 4, "..."]> | [1,2,3] | body: expected <unordered [3, 4, "..."]>, observed [1,2,3]
    <unordered [3, 3, "..."]> | [1,2,3] | body: expected <unordered [3, 3, "..."]>, observed [1,2,3]
    [<x:int>, {{x}}] | [1,1] | ok x=1
    [<x:int>, {{x}}] | [1,1.0] | body[1]: expected 1, observed 1.0
    [<x:string>, "a{{x}}"] | ["b","ab"] | ok x="b"
    [<x:string>, "a{{x}}"] | ["b","abb"] | body[1]: expected ab, observed "abb"
    "#);
}

#[test]
fn permitted_members_count_only_when_expected() {
    let error = r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}"#;
    let asks_data =
        r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no", "data": 1}}"#;
    let no_data = r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no", "data": <absent>}}"#;
    let list = r#"{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "t"}]}}"#;
    let describe = |source: &str, observed: &str| {
        let observed = Json::parse(observed).unwrap();
        let mut captures = Captures::new();
        judged(json("reply", &pattern(source), &observed, &mut captures))
    };
    let rows = [
        (
            error,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":[2]}}"#,
        ),
        (
            asks_data,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":1}}"#,
        ),
        (
            asks_data,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":2}}"#,
        ),
        (
            no_data,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","data":2}}"#,
        ),
        (
            error,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no","more":2}}"#,
        ),
        (
            list,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","_meta":{"a":1}}],"_meta":{}}}"#,
        ),
        (
            list,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","_meta":5}]}}"#,
        ),
        (
            list,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t"}]},"_meta":{}}"#,
        ),
        (r#"{"result": {}}"#, r#"{"result":{"_meta":{}}}"#),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": false}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": <array>, "isError": false}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": <array>, "isError": true}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"content": <array>, "isError": <bool>}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"isError": false}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ),
    ];
    let lines = rows.map(|(source, observed)| describe(source, observed));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ok
    ok
    reply.error.data: expected 1, observed 2
    reply.error.data: expected <absent>, observed 2
    reply.error.more: expected no such member, observed 2
    ok
    reply.result.tools[0]._meta: expected no such member, observed 5
    reply._meta: expected no such member, observed {}
    reply.result._meta: expected no such member, observed {}
    ok
    reply.result.isError: expected false, observed true
    reply.result.isError: expected true, observed no such member
    reply.result.isError: expected <bool>, observed no such member
    reply.result.isError: expected false, observed no such member
    "#);
}

#[test]
fn captures_are_kept_only_if_everything_matches() {
    let mut captures = Captures::new();
    let wrong = json(
        "body",
        &pattern(r#"{"a": <x:int>, "b": 2}"#),
        &Json::parse(r#"{"a":1,"b":3}"#).unwrap(),
        &mut captures,
    );
    assert!(wrong.is_err() && captures.is_empty());
}

#[test]
fn replies_in_any_order_are_judged() {
    let check = |patterns: &[&str], observed: &[&str]| {
        let patterns: Vec<Pattern> = patterns.iter().map(|source| pattern(source)).collect();
        let observed: Vec<Json> = observed
            .iter()
            .map(|text| Json::parse(text).unwrap())
            .collect();
        judged(unordered(
            "replies",
            &patterns,
            &observed,
            &mut Captures::new(),
        ))
    };
    assert_eq!(
        check(
            &[r#"{"id": 1}"#, r#"{"id": 2}"#],
            &[r#"{"id":2}"#, r#"{"id":1}"#]
        ),
        "ok"
    );
    // A greedy assignment would use up the only matching value.
    assert_eq!(check(&["<int>", "1", "<any>"], &["1", "\"x\"", "2"]), "ok");
    assert!(
        check(
            &[r#"{"id": 1}"#, r#"{"id": 1}"#],
            &[r#"{"id":1}"#, r#"{"id":2}"#]
        )
        .starts_with("replies: nothing matches {\"id\":1}")
    );
    assert!(check(&["1"], &["1", "1"]).starts_with("replies: "));
    let many: Vec<String> = (0..200).map(|id| id.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let wide = vec!["<int>"; 200];
    assert_eq!(check(&wide, &many), "ok");
}

#[test]
fn responses_are_judged() {
    let message = |status, headers: &[(&str, &str)], body: &[u8]| HttpMessage {
        status,
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: body.to_vec(),
    };
    let check = |source: &str, observed: &HttpMessage| {
        let CaseBody::Http(case) = body("http", source) else {
            unreachable!()
        };
        let Some(HttpAction::Response(expect)) =
            case.steps.into_iter().next().map(|step| step.action)
        else {
            unreachable!()
        };
        judged(http(&expect, observed, &mut Captures::new()))
    };
    let plain = message(
        200,
        &[
            ("content-type", "application/json"),
            ("X-A", "1"),
            ("x-a", "2"),
        ],
        b"{\"a\":1}",
    );
    let twice = message(
        200,
        &[
            ("Content-Type", "application/json"),
            ("content-type", "text/html"),
        ],
        b"",
    );
    let lines = [
        check("<- 200", &plain),
        check("<- 404", &plain),
        check("<- 200\nContent-Type: application/json\nX-A: 2", &plain),
        check("<- 200\nContent-Type: text/plain", &plain),
        check("<- 200\nX-A: 1, 2", &plain),
        check("<- 200\nX-A: 2, 1", &plain),
        check("<- 200\nX-B: <any>", &plain),
        check("<- 200\nX-B: <absent>", &plain),
        check("<- 200\nX-A: <absent>", &plain),
        check("<- 200\nContent-Type: application/json", &twice),
        check("<- 200\n\n{\"a\": <int>}", &plain),
        check("<- 200\n\n{\"a\": 2}", &plain),
        check("<- 200\n\n<empty>", &plain),
        check("<- 204\n\n<empty>", &message(204, &[], b"")),
        check("<- 200\n\n| {\"a\":1}", &plain),
        check("<- 200\n\n| {\"a\": 1}", &plain),
        check("<- 200\n\n{\"a\": 1}", &message(200, &[], b"nope")),
        check("<- 200\n\n{\"a\": 1}", &message(200, &[], b"\xFF")),
        check("<- 200\n\n| <any>", &message(200, &[], b"\xFF")),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ok
    status: expected 404, observed 200 {"a":1}
    ok
    header Content-Type: expected text/plain, observed application/json
    ok
    header X-A: expected 2, 1, observed 1, 2
    header X-B: expected <any>, observed no such field
    ok
    header X-A: expected no such field, observed 1, 2
    header Content-Type: expected application/json, in one field, observed application/json, text/html
    ok
    body.a: expected 2, observed 1
    body: expected no byte, observed {"a":1}
    ok
    ok
    body: expected {"a": 1}, observed {"a":1}
    body: expected {"a":1}, observed nope (no JSON: expected a JSON value, found 'n' at byte 0)
    body: expected UTF-8 text, observed �
    body: expected <any>, observed �
    "#);
}

#[test]
fn answers_are_judged() {
    use CallAnswer::{Refused, Returned};
    use CallExpect::{Refuses, Returns};
    let (expects_1, one) = (|| pattern("1"), || Json::from(1));
    for (expect, answer, verdict) in [
        (Returns(expects_1()), Returned(one()), "ok"),
        (Refuses(expects_1()), Refused(one()), "ok"),
        (
            Returns(pattern("2")),
            Returned(one()),
            "value: expected 2, observed 1",
        ),
        (
            Returns(expects_1()),
            Refused(one()),
            "answer: expected 1, observed the error 1",
        ),
        (
            Refuses(expects_1()),
            Returned(one()),
            "answer: expected the error 1, observed the value 1",
        ),
    ] {
        let judged = judged(call(&expect, &answer, &mut Captures::new()));
        assert_eq!(judged, verdict);
    }
}

#[test]
fn lines_are_judged() {
    let check = |source: &str, observed: &str| {
        let CaseBody::Wire(case) = body("wire", source) else {
            unreachable!()
        };
        match case.steps.into_iter().next().map(|step| step.action) {
            Some(WireAction::Control(Control::Log { line: wanted, .. })) => {
                line(&wanted, observed, &mut Captures::new()).unwrap()
            }
            Some(WireAction::ExpectRaw { text, .. }) => {
                raw_line(&text, observed, &mut Captures::new()).is_ok()
            }
            _ => unreachable!(),
        }
    };
    assert!(check("log ~ wa..ing", "a warning!"));
    assert!(!check("log ~ ^wa..ing$", "a warning!"));
    assert!(check(
        "log {\"level\": \"warn\", \"...\": \"...\"}",
        "{\"level\":\"warn\",\"x\":1}"
    ));
    assert!(!check(
        "log {\"level\": \"warn\", \"...\": \"...\"}",
        "{\"level\":\"info\"}"
    ));
    assert!(!check(
        "log {\"level\": \"warn\", \"...\": \"...\"}",
        "level=warn"
    ));
    assert!(check("<-raw {\"a\":<int>}", "{\"a\":1}"));
    assert!(!check("<-raw {\"a\":<int>}", "{\"a\": 1}"));
    assert!(line(&LineMatch::Regex("(".to_owned()), "x", &mut Captures::new()).is_err());
}

#[test]
fn commands_are_judged() {
    let CaseBody::Cli(case) = body(
        "cli",
        "$ ptc\nexit 0\nstdout\n| a <int>\nstderr\nfile x\n| y\nno-file z",
    ) else {
        unreachable!()
    };
    let right = CommandRun {
        status: Some(0),
        stdout: b"a 1\n".to_vec(),
        stderr: Vec::new(),
        files: [("x".to_owned(), b"y\n".to_vec())].into_iter().collect(),
        ..CommandRun::default()
    };
    let wrong = [
        right.clone(),
        CommandRun {
            status: Some(2),
            stderr: b"bad flag\n".to_vec(),
            ..right.clone()
        },
        CommandRun {
            status: None,
            ..right.clone()
        },
        CommandRun {
            stdout: b"a 1".to_vec(),
            ..right.clone()
        },
        CommandRun {
            stdout: b"\xFF".to_vec(),
            ..right.clone()
        },
        CommandRun {
            stderr: b"warning\n".to_vec(),
            ..right.clone()
        },
        CommandRun {
            files: Default::default(),
            ..right.clone()
        },
        CommandRun {
            files: [("x".to_owned(), b"z\n".to_vec())].into_iter().collect(),
            ..right.clone()
        },
        CommandRun {
            files: [
                ("x".to_owned(), b"y\n".to_vec()),
                ("z".to_owned(), Vec::new()),
            ]
            .into_iter()
            .collect(),
            ..right
        },
    ];
    let lines: Vec<String> = wrong
        .iter()
        .map(|run| judged(command(&case.expect, run, &mut Captures::new())))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ok
    exit status: expected 0, observed 2 bad flag
    exit status: expected 0, observed a signal
    stdout: expected a <int>
    , observed a 1
    stdout: expected a <int>
    , observed � (not UTF-8)
    stderr: expected nothing, observed warning

    file x: expected y
    , observed no such file
    file x: expected y
    , observed z

    file z: expected no such file, observed a file
    "#);
}

#[test]
fn fixture_parser_results_are_judged() {
    let page = "# S {#s}\n```clj\n1 ;=> 1\n```".to_owned();
    let check = |expect| {
        describe(&super::fixture(&FixtureCase {
            page: page.clone(),
            expect,
        }))
    };
    assert_eq!(
        check(FixtureExpect::Cases(vec!["s/e5f9ffef".to_owned()])),
        "self-check: "
    );
    assert!(check(FixtureExpect::Cases(vec!["s/other".to_owned()])).starts_with("fail: page"));
    assert!(check(FixtureExpect::Errors(vec!["1:1 no".to_owned()])).starts_with("fail: page"));
}

#[test]
fn differences_are_readable() {
    let mut captures = Captures::new();
    let wrong = json(
        "result",
        &pattern(r#"{"id": <int>, "items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "...": "..."}"#),
        &Json::parse(r#"{"extra":true,"id":7,"items":[{"name":"a","n":1},{"name":"b","n":2.0}]}"#).unwrap(),
        &mut captures,
    )
    .unwrap_err();
    insta::assert_snapshot!(format!("{} | {} | {}\n{}", wrong.what, wrong.expected, wrong.observed, wrong.diff), @r#"
    result.items[1].n | 2 | 2.0
            "name": "a"
          },
          {
    -       "n": 2,
    +       "n": 2.0,
            "name": "b"
          }
        ]
    "#);
}
