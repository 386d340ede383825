//! Checks baselines against the verdicts of a run.

use super::*;
use crate::fixture;

const PAGE: &str = "# A {#a}\n```clj\n;name one\n1 ;=> 1\n;name two\n2 ;=> 2\n```\n# B {#b}\n```clj\n;name one\n1 ;=> 1\n```\n";

fn failed(message: &str) -> Verdict {
    Verdict::HarnessError {
        message: message.to_owned(),
    }
}

/// The standings of `a/one a/two b/one`, and the stale entries.
fn check(list: &str, verdicts: [Option<Verdict>; 3], whole: bool) -> String {
    let suite: Suite = fixture::page("p.md", PAGE.as_bytes()).unwrap();
    let list = match ExpectedFailures::read(list) {
        Ok(list) => list,
        Err(error) => return format!("error: {}", error.lines().next().unwrap_or_default()),
    };
    let judged: Vec<(&Case, &Verdict)> = suite
        .cases
        .iter()
        .zip(&verdicts)
        .filter_map(|(case, verdict)| Some((case, verdict.as_ref()?)))
        .collect();
    let mut lines: Vec<String> = judged
        .iter()
        .map(|(case, verdict)| format!("{} {:?}", case.id, list.compare(case, verdict)))
        .collect();
    lines.extend(list.stale_entries(judged, whole));
    lines.join("\n")
}

#[test]
fn listed_failures_are_expected_and_nothing_else() {
    let list = "[[case]]\nid = \"a/*\"\nreason = \"later\"\nmessage = \"boom\"\n";
    insta::assert_snapshot!(
        check(list, [Some(failed("boom: x")), Some(failed("crash")), Some(failed("boom"))], true),
        @r#"
        a/one Expected("later")
        a/two Plain
        b/one Plain
        "#
    );
}

#[test]
fn unneeded_entry_fails_the_run() {
    let list = "[[case]]\nid = \"a/one\"\nreason = \"later\"\n[[case]]\nid = \"b\"\nreason = \"later\"\n[[case]]\nid = \"c.*\"\nreason = \"later\"\n";
    let passed = || Some(Verdict::pass());
    insta::assert_snapshot!(check(list, [passed(), passed(), passed()], true), @r#"
        a/one Plain
        a/two Plain
        b/one Plain
        a/one passes now: remove its entry
        b/one passes now: narrow or remove the entry b
        the entry c.* names no case: correct or remove it
        "#);
    insta::assert_snapshot!(check("[[case]]\nid = \"a\"\nreason = \"later\"\n", [passed(), Some(failed("x")), None], false), @r#"
        a/one Plain
        a/two Expected("later")
        a/one passes now: narrow or remove the entry a
        "#);
    insta::assert_snapshot!(check(list, [None, None, None], false), @"");
    let unseen = || {
        Some(Verdict::Unobservable {
            reason: "x".to_owned(),
        })
    };
    insta::assert_snapshot!(check("[[case]]\nid = \"b/one\"\nreason = \"later\"\n", [None, None, unseen()], false), @r#"b/one Plain"#);
}

#[test]
fn malformed_lists_are_rejected() {
    let none = || [None, None, None];
    let told = [
        check("[[case]]\nid = \"a\"\n", none(), true),
        check("[[case]]\nid = \"a\"\nreason = \" \"\n", none(), true),
        check(
            "[[case]]\nid = \"a\"\nreason = \"x\"\n[[case]]\nid = \"a\"\nreason = \"y\"\n",
            none(),
            true,
        ),
        check("[[case]]\nid = \"a[\"\nreason = \"x\"\n", none(), true),
        check("[[cases]]\nid = \"a\"\nreason = \"x\"\n", none(), true),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
        error: TOML parse error at line 1, column 1
        error: expected a reason for a, found none
        error: expected a once, found it again
        error: a[: error parsing glob 'a[': unclosed character class; missing ']'
        error: TOML parse error at line 1, column 3
        "#);
}
