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
        Err(error) => {
            return format!(
                "error: {}",
                error.to_string().lines().next().unwrap_or_default()
            );
        }
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

/// A suite with a case for each of these entries.
fn diverging(entries: &str) -> Suite {
    let mut suite = fixture::page("divergences/other.md", entries.as_bytes()).unwrap();
    let ids: Vec<String> = suite
        .sections
        .iter()
        .map(|entry| entry.id.clone())
        .collect();
    let page = fixture::page("p.md", b"# A {#a}\n```clj\n;name one\n1 ;=> 1\n```\n").unwrap();
    let case = &page.cases[0];
    suite.cases = ids
        .into_iter()
        .map(|id| Case {
            divergence: Some(id),
            ..case.clone()
        })
        .collect();
    suite
}

fn wrong(what: &str) -> Verdict {
    Verdict::Fail(Mismatch {
        what: what.to_owned(),
        expected: "a".to_owned(),
        observed: "b".to_owned(),
        diff: String::new(),
        clause: None,
        line: None,
    })
}

#[test]
fn divergence_explains_only_its_kinds_of_difference() {
    let suite = diverging(
        "# Words {#o.words}\nIt shows others.\n\nDiffers in: messages.\n# Sums {#o.sums}\nIt adds badly.\n# Ends {#o.ends}\nIt dies.\n\nDiffers in: values, crashes\n",
    );
    let mut list = ExpectedFailures::default();
    list.expect_divergences(&["other".to_owned()], &suite)
        .unwrap();
    let detail = || "x".to_owned();
    let verdicts = [
        ("result", wrong("result")),
        ("reason", wrong("reason")),
        ("message", wrong("message")),
        ("crash", Verdict::Crashed { detail: detail() }),
        ("timeout", Verdict::TimedOut { detail: detail() }),
        ("silence", Verdict::Silent { detail: detail() }),
        ("junk", Verdict::Junk { detail: detail() }),
        ("harness", failed("x")),
    ];
    let told: Vec<String> = suite
        .cases
        .iter()
        .map(|case| {
            let explained = verdicts
                .iter()
                .filter(|(_, verdict)| list.compare(case, verdict) != BaselineMatch::Plain);
            let words: Vec<&str> = explained.map(|(word, _)| *word).collect();
            format!(
                "{}: {}",
                case.divergence.as_deref().unwrap(),
                words.join(" ")
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "o.words: message",
            "o.sums: result reason message",
            "o.ends: result crash"
        ]
    );
}

#[test]
fn unknown_kind_of_difference_is_rejected() {
    let suite = diverging("# Words {#o.words}\nDiffers in: wording.\n");
    let error = ExpectedFailures::default()
        .expect_divergences(&["o.words".to_owned()], &suite)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "o.words: `Differs in:` lists values, reasons, messages, crashes, silence, junk, and not `wording`"
    );
}
