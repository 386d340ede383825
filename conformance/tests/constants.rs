//! A target with one constant answer satisfies no clause on programs or library operations: at least one case of each clause fails for it.

use std::collections::BTreeMap;
use std::path::Path;

use conformance::fixture;
use conformance::json::Json;
use conformance::judge;
use conformance::observed::{CallAnswer, ProgramOutcome, ProgramRun};
use conformance::suite::{Captures, Case, CaseBody, Level, Suite};
use conformance::verdict::Verdict;

/// Clauses that such a target satisfies nevertheless, and why.
const ACCEPTED: &[(&str, &str)] = &[(
    "errors.words.host",
    "every message of every case is looked into for it",
)];

/// The same answer to every program.
fn program(reason: Option<&str>) -> ProgramRun {
    ProgramRun {
        outcome: match reason {
            Some(reason) => ProgramOutcome::Raised {
                reason: reason.to_owned(),
                message: Some("no".to_owned()),
                value: None,
            },
            None => ProgramOutcome::Returned {
                text: Some(None),
                json: None,
            },
        },
        prints: Some(Vec::new()),
        prints_cut: false,
        truncated: Some(false),
    }
}

/// The verdict on a case with a program or an operation; `None` for an operation that fails, and for other kinds of cases.
fn verdict(case: &Case, run: &ProgramRun, answer: &CallAnswer) -> Option<Verdict> {
    match &case.body {
        CaseBody::Clj(body) => Some(judge::program(&body.expect, run)),
        CaseBody::Call(body) => judge::call(&body.expect, answer, &mut Captures::new())
            .is_ok()
            .then(Verdict::pass),
        _ => None,
    }
}

/// Whether such a target satisfies a clause: at least one of its cases passes, and none fails.
fn is_satisfied(cases: &[&Case], run: &ProgramRun, answer: &CallAnswer) -> bool {
    let mut passed = false;
    for case in cases {
        match verdict(case, run, answer) {
            Some(Verdict::Fail(_)) | None => return false,
            Some(verdict) => passed |= verdict.is_pass(),
        }
    }
    passed
}

#[test]
fn constant_answers_satisfy_no_clause() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec");
    let suite: Suite = fixture::load(&root).expect("the specification");
    let mut of_clause: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
    for case in &suite.cases {
        for clause in &case.clauses {
            of_clause.entry(clause).or_default().push(case);
        }
    }
    let reasons = [
        "parse_error",
        "runtime_error",
        "timeout",
        "memory_limit",
        "args_error",
        "validation_error",
    ];
    let answers = [None]
        .into_iter()
        .chain(reasons.map(Some))
        .map(|reason| (reason, program(reason)));
    let null = Json::parse("null").expect("JSON");
    let mut shown = Vec::new();
    for (reason, run) in answers {
        let answer = match reason {
            None => CallAnswer::Returned(null.clone()),
            Some(_) => CallAnswer::Refused(null.clone()),
        };
        for (id, cases) in &of_clause {
            let is_must = suite
                .clause(id)
                .is_some_and(|clause| clause.level == Level::Must);
            if is_must
                && is_satisfied(cases, &run, &answer)
                && !ACCEPTED.iter().any(|(kept, _)| kept == id)
            {
                shown.push(format!("{id}: {}", reason.unwrap_or("nil")));
            }
        }
    }
    assert!(
        shown.is_empty(),
        "each needs a case in which another answer is right:\n{}",
        shown.join("\n")
    );
}
