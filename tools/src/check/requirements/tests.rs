//! Small tables in, faults or the page out.

use super::*;
use conformance::fixture;

const SPEC: &str = "# B {#base.a}\n\n- {#base.a.one} It MUST. (S; 2025-06-18)\n\n```wire open\nnever junk\n```\n\n\
                        - {#base.a.two} It SHOULD. (S; RFC 1)\n\n```wire open\nnever junk\n```\n";

fn check(rows: &str) -> String {
    let suite = fixture::page("base/a.md", SPEC.as_bytes()).expect("a page");
    let requirements = parse(rows).expect("a table");
    let wrong = faults(&requirements, &suite);
    let plain = wrong.iter().map(|line| line.trim_start_matches(FILE));
    Vec::from_iter(plain).join("\n")
}

fn row(revision: &str, level: &str, more: &str) -> String {
    format!(
        "[[requirement]]\nrevisions = [\"{revision}\"]\nsection = \"S\"\nlevel = \"{level}\"\nsays = \"x\"\n{more}\n"
    )
}

#[test]
fn rows_and_clauses_are_linked() {
    let one = row("2025-06-18", "MUST", "clauses = [\"base.a.one\"]");
    let two = row("2026-07-28", "SHOULD", "clauses = [\"base.a.two\"]");
    let unseen = row("2025-06-18", "MUST", "unseen = \"y\"");
    assert_eq!(check(&format!("{one}{two}{unseen}")), "");
    assert_eq!(check(&one), ": no requirement names base.a.two");
}

#[test]
fn unlinked_rows_and_clauses_are_reported() {
    let both = "[\"base.a.one\", \"base.a.two\"]";
    let whole = row("2025-06-18", "MUST", &format!("clauses = {both}"));
    let rows = [
        (
            row("2025-06-18", "MUST", "clauses = [\"base.a.gone\"]"),
            ": S: x: there is no clause base.a.gone",
        ),
        (
            row("2024-01-01", "MUST", "unseen = \"y\""),
            ": S: x: there is no revision 2024-01-01",
        ),
        (
            row(
                "2025-06-18",
                "MUST",
                "unseen = \"y\"\nclauses = [\"base.a.one\"]",
            ),
            ": S: x: expected either clauses, or `unseen` with a reason",
        ),
        (
            row("2025-06-18", "MUST", "unseen = \" \""),
            ": S: x: expected either clauses, or `unseen` with a reason",
        ),
        (
            row("2026-07-28", "MUST", "clauses = [\"base.a.one\"]"),
            ": S: x: no clause of it is of 2026-07-28",
        ),
        (
            row("2025-11-25", "MUST", ""),
            ": 2025-11-25: 0 of 1 are tried",
        ),
    ];
    for (row, fault) in rows {
        let told = check(&format!("{whole}{row}"));
        assert!(told.contains(fault), "{row}: {told}");
    }
    assert!(parse(&row("2025-06-18", "MAY", "")).is_err());
    let advice = row("2025-06-18", "SHOULD", &format!("clauses = {both}"));
    assert_eq!(check(&advice), ": S: x: is advice, and base.a.one a duty");
    assert_eq!(check(&format!("{whole}{advice}")), "");
}

#[test]
fn the_page_counts_the_rows() {
    let rows = [
        row(
            "2025-06-18",
            "MUST",
            "clauses = [\"base.a.one\"]\nofficial = \"s\"",
        ),
        row("2025-06-18", "MUST", "unseen = \"y\""),
        row("2025-06-18", "MUST", ""),
    ];
    let requirements = parse(&rows.concat()).expect("a table");
    assert_eq!(
        counts_row(&requirements, "2025-06-18"),
        "| 2025-06-18 | 3 | 2 | 1 | 1 |"
    );
}
