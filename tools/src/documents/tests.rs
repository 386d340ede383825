//! Small tables in, faults and counts out.

use super::*;
use conformance::fixture;

const PAGE: &str = "# A {#a}\n\n- {#a.busy} It MUST be busy.\n\n```clj\n(str \"busy\") ;=> \"busy\"\n```\n\n\
                        - {#a.hour untested: takes an hour} It MUST end.\n\n- {#a.bare} It MUST be.\n";

fn faults(rows: &str) -> Vec<String> {
    let suite = fixture::page("a.md", PAGE.as_bytes()).expect("a page");
    let text = format!("[\"000 a\".Limits]\n{rows}\n");
    let documents = Documents::parse(&text).expect("a table");
    documents.faults(&suite)
}

#[test]
fn proven_rows_are_not_faults() {
    for row in [
        r#""`busy`" = "a.busy""#,
        r#""it ends" = ["a.busy", "a.hour"]"#,
        r#"prose = { excluded = "says nothing that could be seen" }"#,
    ] {
        assert_eq!(faults(row), [""; 0], "{row}");
    }
}

#[test]
fn rows_with_unknown_references_are_rejected() {
    for (row, fault) in [
        (r#"r = "a.gone""#, "there is no clause a.gone"),
        (r#"r = "a""#, "there is no clause a"),
        (r#"r = ["a.busy", "a.gone"]"#, "there is no clause a.gone"),
        (r#"r = "a.bare""#, "no case tests a.bare"),
        (
            r#"r = []"#,
            "expected a clause, or `excluded` with a reason",
        ),
        (
            r#"r = { excluded = " " }"#,
            "expected a reason for the exclusion",
        ),
    ] {
        assert_eq!(faults(row), [format!("{FILE}: 000 a: Limits: r: {fault}")]);
    }
    let unused = faults(r#""`busy` and `idle`" = "a.busy""#);
    assert_eq!(
        unused,
        [format!(
            "{FILE}: 000 a: Limits: `busy` and `idle`: no case of its clauses uses `idle`"
        )]
    );
}

#[test]
fn duplicate_rows_are_rejected() {
    assert!(Documents::parse("[\"000 a\".Limits]\nr = \"a.b\"\nr = \"a.c\"\n").is_err());
    assert!(Documents::parse("[\"000 a\".Limits]\nr = { skipped = \"x\" }\n").is_err());
}

#[test]
fn rows_are_counted_by_document() {
    let text = "[\"000 a\".One]\nr = \"a.b\"\nq = { excluded = \"prose\" }\n[\"000 a\".Two]\nr = \"a.b\"\n";
    let counted = Documents::parse(text).expect("a table").render();
    assert!(counted.ends_with("| 000 a | 2 | 3 | 1 |\n"), "{counted}");
}
