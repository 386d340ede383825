//! Tests the command line against the scripted server: merging shards, repeats, baselines, bundles, and the contents of
//! reports.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use conformance::report::{CaseRecord, Run, Status, Transport};

const PAGE: &str = "\
# Sums {#sums}

What `+` does.

- {#sums.add} Addition MUST add.

```clj
(+ 1 2) ;=> 3
(+ 2 2) ;=> 4
(+ 3 3) ;=> 6
```

- {#sums.more} More sums SHOULD be right.

```clj
(+ 4 4) ;=> 9
(+ 5 5) ;=> 11
```

- {#sums.wrong} This MUST fail.

```clj
;name wrong
(+ 6 6) ;=> 13
```
";

/// A list with its expected failure of a MUST.
const KNOWN: &str = "[[case]]\nid = \"sums.wrong/wrong\"\nreason = \"thirteen is hard\"\n";

/// A directory with the page, and everything that a run writes.
struct Sandbox(tempfile::TempDir);

impl Sandbox {
    fn new() -> Self {
        let sandbox = Self(tempfile::tempdir().expect("a directory"));
        std::fs::create_dir_all(sandbox.path("spec")).expect("a directory");
        std::fs::write(sandbox.path("spec/sums.md"), PAGE).expect("a page");
        std::fs::write(sandbox.path("launch.toml"), "[observe]\n").expect("a template");
        sandbox
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path_text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn call(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_ptc-conformance"))
            .args(arguments)
            .output()
            .expect("the harness starts")
    }

    /// Runs the suite and returns exit status, standard output and the JSON report.
    fn run(&self, more: &[&str]) -> (Option<i32>, String, Run) {
        let server = scripted();
        let report = format!("json={}", self.path_text("report.json"));
        let (suite, launch) = (self.path_text("spec"), self.path_text("launch.toml"));
        let mut arguments = vec![
            "run", "--stdio", &server, "--launch", &launch, "--report", &report,
        ];
        if !more.contains(&"--suite") {
            arguments.extend(["--suite", &suite]);
        }
        arguments.extend(more);
        let output = self.call(&arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let run = Run::read(&self.path("report.json"))
            .unwrap_or_else(|missing| panic!("{missing}\n{text}{error}"));
        (output.status.code(), text, run)
    }
}

fn scripted() -> String {
    let server =
        Path::new(env!("CARGO_BIN_EXE_ptc-conformance")).with_file_name("examples/scripted");
    format!("{} none", server.display())
}

fn statuses(run: &Run) -> Vec<Status> {
    run.cases.iter().map(|case| case.status).collect()
}

#[test]
fn unclaimed_cases_are_not_judged() {
    let sandbox = Sandbox::new();
    let claims = sandbox.path_text("claims.toml");
    let declare = |text: &str| std::fs::write(&claims, text).expect("a declaration");
    declare(
        "implements = [\"lisp_run\"]\ncases = [\"sums.add\", \"sums.wrong/*\"]\nnot_cases = [\"sums.wrong\"]\n",
    );
    let (status, text, run) = sandbox.run(&["--claims", &claims]);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(statuses(&run)[..3], [Status::Pass; 3]);
    assert_eq!(statuses(&run)[3..], [Status::NotClaimed; 3]);
    assert!(
        text.contains(
            "this needs a declaration that claims this case: `cases` or `not_cases` leaves it out"
        ),
        "{text}"
    );
    for member in ["cases", "implements"] {
        declare(&format!("{member} = []\n"));
        let suite = sandbox.path_text("spec");
        let words = [
            "run", "--suite", &suite, "--stdio", "true", "--claims", &claims,
        ];
        let output = sandbox.call(&words);
        let told =
            format!("--claims {claims}: `{member}` is empty, so that nothing would be tested");
        assert_rejected(&output, &[&told, &format!("leave `{member}` out")]);
    }
    declare("lacks = [\"lisp_run\"]\n");
    let (status, text, run) = sandbox.run(&["--claims", &claims]);
    assert_eq!(statuses(&run), [Status::NotClaimed; 6]);
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("nothing is proved") && text.contains("0 of 6 cases were judged (0 %)"),
        "{text}"
    );
    declare("cases = [\"sums.ad\"]\n");
    let output = sandbox.call(&[
        "run",
        "--stdio",
        "true",
        "--suite",
        &sandbox.path_text("spec"),
        "--claims",
        &claims,
    ]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("did you mean `sums.add`?"), "{told}");
    declare("implements = [\"lisp_rum\"]\n");
    let output = sandbox.call(&["run", "--stdio", "true", "--claims", &claims]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("no case needs `lisp_rum`"), "{told}");
    let output = sandbox.call(&["run", "--stdio", "true", "--extension", "lang-9"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("no extension is called `lang-9`"), "{told}");
}

#[test]
fn extensions_must_be_claimed_by_name() {
    let sandbox = Sandbox::new();
    let page = sandbox.path("spec/sums.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let text = text.replace("{#sums.add}", "{#sums.add requires: lang-1.1}");
    std::fs::write(&page, text).expect("the page");
    let (_, _, run) = sandbox.run(&["--filter", "sums.add"]);
    assert!(
        statuses(&run)
            .iter()
            .all(|status| *status == Status::NotClaimed)
    );
    let (_, _, run) = sandbox.run(&["--filter", "sums.add", "--extension", "lang-1.1"]);
    assert!(statuses(&run).iter().all(|status| *status == Status::Pass));
}

#[test]
fn failed_should_warns_unless_strict() {
    let sandbox = Sandbox::new();
    let (status, text, run) = sandbox.run(&[]);
    assert_eq!(status, Some(1), "{text}");
    let passed = [Status::Pass; 3];
    assert_eq!(statuses(&run)[..3], passed);
    assert_eq!(
        statuses(&run)[3..],
        [Status::Warning, Status::Warning, Status::Fail]
    );
    // Nor does it end a run with `--fail-fast`.
    let (status, text, _) = sandbox.run(&["--fail-fast", "--jobs", "1"]);
    assert_eq!(status, Some(1), "{text}");
    let (_, _, strict) = sandbox.run(&["--strict"]);
    assert_eq!(statuses(&strict)[3..], [Status::Fail; 3]);
}

#[test]
fn failure_shows_clause_diff_traffic_and_rerun_command() {
    let (_, text, run) = Sandbox::new().run(&["--filter", "sums.wrong"]);
    for piece in [
        "clause sums.wrong: This MUST fail.",
        "(+ 6 6)",
        "13",
        "12",
        "-> {",
        "<- {",
        "rerun: ",
    ] {
        assert!(text.contains(piece), "no {piece:?} in\n{text}");
    }
    assert!(run.partial);
}

#[test]
fn shards_partition_the_suite_and_merge() {
    let sandbox = Sandbox::new();
    let mut seen = Vec::new();
    let mut parts = Vec::new();
    for part in ["1/2", "2/2"] {
        let (_, _, run) = sandbox.run(&["--shard", part]);
        assert_eq!(run.cases.len(), 3);
        seen.extend(run.cases.iter().map(|case| case.id.clone()));
        let kept = sandbox.path_text(&format!("part-{}.json", seen.len()));
        std::fs::copy(sandbox.path("report.json"), &kept).expect("a copy");
        parts.push(kept);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 6);
    let report = format!("json={}", sandbox.path_text("whole.json"));
    let output = sandbox.call(&["merge", &parts[0], &parts[1], "--report", &report]);
    assert_eq!(output.status.code(), Some(1));
    let whole = Run::read(&sandbox.path("whole.json")).expect("a report");
    assert_eq!((whole.cases.len(), whole.partial), (6, false));
    let twice = sandbox.call(&["merge", &parts[0], &parts[0]]);
    assert_eq!(twice.status.code(), Some(2));
    // A suite with as many cases is another suite all the same.
    let mut other = Run::read(Path::new(&parts[1])).expect("a report");
    assert_eq!(other.suite_digest.as_deref().map(str::len), Some(16));
    other.suite_digest = Some("0123456789abcdef".to_owned());
    let other_part = sandbox.path_text("other.json");
    std::fs::write(&other_part, serde_json::to_string(&other).expect("JSON")).expect("a copy");
    let mixed = sandbox.call(&["merge", &parts[0], &other_part]);
    assert_eq!(mixed.status.code(), Some(2));
    let said = String::from_utf8_lossy(&mixed.stderr);
    assert!(said.contains("different suites"), "{said}");
    // Two processes together reach the same verdicts as one, case by case.
    let (status, _, one) = sandbox.run(&[]);
    let verdicts = |run: &Run| -> Vec<_> {
        let mut verdicts: Vec<_> = run
            .cases
            .iter()
            .map(|case| (case.id.clone(), case.status, case.message.clone()))
            .collect();
        verdicts.sort_by(|a, b| a.0.cmp(&b.0));
        verdicts
    };
    assert_eq!(verdicts(&whole), verdicts(&one));
    assert_eq!(output.status.code(), status);
}

#[test]
fn transport_independent_cases_run_once() {
    let sandbox = Sandbox::new();
    let reference =
        Path::new(env!("CARGO_BIN_EXE_ptc-conformance")).with_file_name("examples/reference");
    let report = format!("json={}", sandbox.path_text("report.json"));
    let output = sandbox.call(&[
        "run",
        "--reference",
        reference.to_str().expect("a path in UTF-8"),
        "--transport",
        "stdio,http",
        "--filter",
        "upstream.repl.display.modes",
        "--filter",
        "mcp.dispatch.methods.ping",
        "--report",
        &report,
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let run = Run::read(&sandbox.path("report.json")).expect("a report");
    let took = |clause: &str, over: Transport| -> Vec<u64> {
        let of = |case: &&CaseRecord| {
            case.clause.as_deref() == Some(clause) && case.transport == Some(over)
        };
        let cases = run.cases.iter().filter(of);
        cases.map(|case| case.duration_us).collect()
    };
    // No two trials have the same duration in microseconds.
    for (clause, once) in [
        ("upstream.repl.display.modes", true),
        ("mcp.dispatch.methods.ping", false),
    ] {
        let (one, other) = (
            took(clause, Transport::Stdio),
            took(clause, Transport::Http),
        );
        assert!(!one.is_empty() && one.len() == other.len(), "{text}");
        assert_eq!(one == other, once, "{clause}: {one:?}, {other:?}");
    }
}

#[test]
fn transports_are_distinguished_merged_and_compared() {
    let sandbox = Sandbox::new();
    let (status, text, run) = sandbox.run(&["--transport", "stdio,http"]);
    // The scripted server has no HTTP, which counts against it there only.
    assert!(text.contains("6 cases over stdio: 3 passed"), "{text}");
    assert!(
        text.contains("complaint: the target could not be judged over HTTP"),
        "{text}"
    );
    assert_eq!(status, Some(2), "{text}");
    // Pretend that the cases had been run there, too.
    let mut run = run;
    let again: Vec<_> = run
        .cases
        .iter()
        .cloned()
        .map(|mut case| {
            case.transport = Some(Transport::Http);
            case
        })
        .collect();
    run.cases.extend(again);
    run.complaints.clear();
    std::fs::write(sandbox.path("report.json"), run.json()).expect("a report");
    let over = |wanted| {
        let cases = run.cases.iter();
        cases.filter(|case| case.transport == wanted).count()
    };
    assert_eq!(
        (over(Some(Transport::Stdio)), over(Some(Transport::Http))),
        (6, 6)
    );
    let both = sandbox.path_text("both.json");
    std::fs::copy(sandbox.path("report.json"), &both).expect("a copy");
    sandbox.run(&[]);
    let alone = sandbox.path_text("report.json");
    let difference = sandbox.call(&["diff", &alone, &both]);
    let said = String::from_utf8_lossy(&difference.stdout);
    assert!(
        said.contains("added: 0\n")
            && said.contains("only the second run has cases over HTTP: 6\n"),
        "{said}"
    );
    let part = sandbox.path_text("part.json");
    let mut http = run.clone();
    http.cases
        .retain(|case| case.transport == Some(Transport::Http));
    std::fs::write(&part, http.json()).expect("a report");
    let whole = format!("json={}", sandbox.path_text("whole.json"));
    sandbox.call(&["merge", &alone, &part, "--report", &whole]);
    let merged = Run::read(&sandbox.path("whole.json")).expect("a report");
    assert_eq!((merged.cases.len(), merged.partial), (12, false));
}

#[test]
fn repeated_runs_of_a_stable_target_are_not_flaky() {
    let (_, text, run) = Sandbox::new().run(&["--repeat", "3"]);
    assert_eq!(run.count(Status::Flaky), 0, "{text}");
    assert_eq!(run.cases.len(), 6);
}

#[test]
fn baseline_excuses_failures_and_reports_stale_entries() {
    let sandbox = Sandbox::new();
    let list = sandbox.path_text("known.toml");
    std::fs::write(&list, KNOWN).expect("a list");
    let (status, text, run) = sandbox.run(&["--baseline", &list]);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(run.count(Status::ExpectedFailure), 1);
    assert!(text.contains("as expected, 1 known failure"), "{text}");
    let (status, text, _) = sandbox.run(&["--baseline", &list, "--filter", "sums.wrong"]);
    assert_eq!(
        status,
        Some(1),
        "all that was run is expected to fail: {text}"
    );
    std::fs::write(
        &list,
        format!("{KNOWN}\n[[case]]\nid = \"sums.add/*\"\nreason = \"no longer\"\n"),
    )
    .expect("a list");
    let (status, text, run) = sandbox.run(&["--baseline", &list]);
    assert_eq!(status, Some(1), "{text}");
    assert_eq!(run.complaints.len(), 1, "{:?}", run.complaints);
}

#[test]
fn expected_failure_does_not_trigger_fail_fast() {
    let sandbox = Sandbox::new();
    let list = sandbox.path_text("known.toml");
    std::fs::write(&list, KNOWN).expect("a list");
    let more: String = (0..3000)
        .map(|n| format!("(+ 1 {n}) ;=> {}\n", n + 1))
        .collect();
    let page = format!("{PAGE}\n- {{#sums.many}} Many MUST be right.\n\n```clj\n{more}```\n");
    std::fs::write(sandbox.path("spec/sums.md"), page).expect("a page");
    let quick = ["--fail-fast", "--jobs", "1"];
    let (status, text, _) = sandbox.run(&quick);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains(" not run"), "{text}");
    let (status, text, _) = sandbox.run(&[&["--baseline", &list], &quick[..]].concat());
    assert_eq!(status, Some(0), "{text}");
    assert!(!text.contains(" not run"), "{text}");
}

#[test]
fn baseline_is_rewritten_only_for_cases_that_ran() {
    let sandbox = Sandbox::new();
    let list = sandbox.path_text("known.toml");
    let entries = "[[case]]\nid = \"sums.add/*\"\nreason = \"no longer\"\n[[case]]\nid = \"sums.wrong/wrong\"\nreason = \"hard\"\n";
    std::fs::write(&list, entries).expect("a list");
    let kept = || std::fs::read_to_string(&list).expect("a list");
    // Entries for cases that were not run are kept.
    let fix = ["--baseline", &list, "--fix-baseline"];
    let (_, text, _) = sandbox.run(&[&fix[..], &["--filter", "sums.add"]].concat());
    assert!(
        kept().contains("\"hard\"") && !kept().contains("sums.add"),
        "{}\n{text}",
        kept()
    );
    std::fs::write(&list, "").expect("a list");
    let (_, text, _) = sandbox.run(&fix);
    assert!(kept().contains("sums.wrong/wrong"), "{}\n{text}", kept());
    let (status, text, _) = sandbox.run(&["--baseline", &list]);
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn recorded_divergences_are_expected_on_request() {
    let sandbox = Sandbox::new();
    let spec = sandbox.path("spec");
    for directory in ["corpus", "divergences"] {
        std::fs::create_dir_all(spec.join(directory)).expect("a directory");
    }
    std::fs::write(
        spec.join("divergences/other-1.md"),
        "# Other {#other}\n\n## Sums {#other.sums}\n\nIt adds badly.\n",
    )
    .expect("a page");
    std::fs::write(
        spec.join("corpus/sums.jsonl"),
        "{\"id\": \"many/1\", \"section\": \"sums\", \"program\": \"(+ 1 1)\", \"expect\": {\"result\": \"user=> 3\"}, \"divergence\": \"other.sums\", \"why\": \"three is more\"}\n",
    )
    .expect("a corpus");
    let only = ["--filter", "many/*", "--filter", "sums.add"];
    let (status, text, run) = sandbox.run(&only);
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("recorded divergence: other.sums") && text.contains("why: three is more"),
        "{text}"
    );
    assert_eq!(run.count(Status::Fail), 1);
    for word in ["other-1", "other.sums", "other"] {
        let (status, text, run) = sandbox.run(&[&only[..], &["--by-divergence", word]].concat());
        assert_eq!(status, Some(0), "{word}: {text}");
        assert_eq!(run.count(Status::ExpectedFailure), 1);
        assert!(text.contains("as expected, 1 known failure"), "{text}");
        assert!(
            text.contains("1 failed as recorded divergences explain"),
            "{text}"
        );
    }
    // An entry about messages explains no wrong sum.
    let messages = "# Other {#other}\n\n## Sums {#other.sums}\n\nIt words it otherwise.\n\nDiffers in: messages.\n";
    std::fs::write(spec.join("divergences/other-1.md"), messages).expect("a page");
    let (status, text, run) = sandbox.run(&[&only[..], &["--by-divergence", "other-1"]].concat());
    assert_eq!(status, Some(1), "{text}");
    assert_eq!(run.count(Status::Fail), 1);
    let output = sandbox.call(&[
        "run",
        "--stdio",
        &scripted(),
        "--suite",
        &sandbox.path_text("spec"),
        "--by-divergence",
        "others",
    ]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn implementations_are_compared_clause_by_clause() {
    let sandbox = Sandbox::new();
    sandbox.run(&[]);
    let (report, page) = (
        sandbox.path_text("report.json"),
        sandbox.path_text("side.html"),
    );
    let output = sandbox.call(&[
        "compare",
        &format!("mine={report}"),
        &format!("theirs={report}"),
        "--html",
        &page,
    ]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("mine") && text.contains("theirs") && text.contains("◐ 3/6"),
        "{text}"
    );
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(
        page.contains("sums.wrong") && page.contains("✗ 0/1"),
        "{page}"
    );
    // A part of the suite that passed is no whole.
    sandbox.run(&["--filter", "sums.add"]);
    let output = sandbox.call(&["compare", &report]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("100 %, part of the suite") && text.contains("in part 3/3"),
        "{text}"
    );
}

#[test]
fn shards_are_balanced_by_earlier_durations() {
    let sandbox = Sandbox::new();
    let (_, _, mut run) = sandbox.run(&[]);
    // One case takes as long as all others together.
    for case in &mut run.cases {
        case.duration_us = match case.id.as_str() {
            "sums.wrong/wrong" => 5_000_000,
            _ => 1_000_000,
        };
    }
    let times = sandbox.path_text("times.json");
    std::fs::write(&times, run.json()).expect("a report");
    let listed = |part: &str| -> Vec<String> {
        let output = sandbox.call(&[
            "list",
            "--suite",
            &sandbox.path_text("spec"),
            "--format",
            "ids",
            "--shard",
            part,
            "--times",
            &times,
        ]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(str::to_owned).collect()
    };
    let (first, second) = (listed("1/2"), listed("2/2"));
    assert_eq!(first, ["sums.wrong/wrong"]);
    assert_eq!(second.len(), 5);
}

#[test]
fn quiet_runs_print_only_the_verdict_and_pipes_get_no_colour() {
    let sandbox = Sandbox::new();
    let (_, text, _) = sandbox.run(&["--quiet"]);
    assert_eq!(text.lines().count(), 2, "{text}");
    let (_, text, _) = sandbox.run(&[]);
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains("failures by page:\n  sums: 1 of 6"), "{text}");
}

#[test]
fn bundle_yields_the_same_ids_and_verdicts() {
    let sandbox = Sandbox::new();
    let bundle = sandbox.path_text("bundle.json");
    let exported = sandbox.call(&[
        "export",
        "--suite",
        &sandbox.path_text("spec"),
        "--output",
        &bundle,
    ]);
    assert!(exported.status.success());
    let (_, _, pages) = sandbox.run(&[]);
    let (_, _, bundled) = sandbox.run(&["--suite", &bundle]);
    let told = |run: &Run| -> Vec<(String, Status, Option<String>)> {
        let cases = run.cases.iter();
        cases
            .map(|case| (case.id.clone(), case.status, case.message.clone()))
            .collect()
    };
    assert_eq!(told(&pages), told(&bundled));
}

/// Unusable files are reported before the suite is loaded, which does not exist here.
#[test]
fn unreadable_inputs_are_reported_immediately() {
    let sandbox = Sandbox::new();
    let (pipe, missing) = (sandbox.path_text("pipe"), sandbox.path_text("missing.toml"));
    nix::unistd::mkfifo(pipe.as_str(), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    for (file, told) in [
        (&pipe, "it is no regular file"),
        (&missing, "No such file or directory"),
    ] {
        for flag in ["--launch", "--claims", "--baseline"] {
            let words = ["run", "--suite", "nowhere", "--stdio", "none", flag, file];
            let named = format!("{flag} {file}: ");
            assert_rejected(&sandbox.call(&words), &[&named, told]);
        }
        assert_rejected(&sandbox.call(&["diff", file, file]), &[file, told]);
    }
    let write = |name: &str, text: &[u8]| {
        std::fs::write(sandbox.path(name), text).expect("a file");
        sandbox.path_text(name)
    };
    let (bytes, later) = (
        write("bytes", b"ab\xff"),
        write(
            "later.json",
            br#"{"cases": {"other": "shape"}, "format": 2}"#,
        ),
    );
    for flag in ["--launch", "--claims", "--baseline"] {
        let words = ["run", "--suite", "nowhere", "--stdio", "none", flag, &bytes];
        assert_rejected(
            &sandbox.call(&words),
            &[&bytes, "expected text in UTF-8", "byte 2"],
        );
    }
    let told = [
        &later,
        "a report of format 2, but this harness reads format 1",
    ];
    assert_rejected(&sandbox.call(&["diff", &later, &later]), &told);
    let words = ["run", "--url", "http://127.0.0.1:1/", "--tool", "x={"];
    assert_rejected(
        &sandbox.call(&words),
        &["`x={`: expected a JSON object behind ="],
    );
    let words = ["run", "--stdio", "none", "--fix-baseline"];
    assert_rejected(&sandbox.call(&words), &["--fix-baseline needs --baseline"]);
}

/// The message says which flag to change, and how.
#[test]
fn unusable_targets_are_rejected_with_advice() {
    let sandbox = Sandbox::new();
    let launch = sandbox.path_text("text.toml");
    std::fs::write(&launch, "command = \"ptc start\"\n").expect("a template");
    let suite = sandbox.path_text("spec");
    for (words, told) in [
        (["--stdio", ""], "--stdio is empty: write the command"),
        (["--testee", " "], "--testee is empty: write the command"),
        (
            ["--stdio", "a 'b"],
            "--stdio a 'b: a closing quote is missing",
        ),
        (["--url", "localhost:1/mcp"], "write http://localhost:1/mcp"),
        (
            ["--url", "tcp://localhost"],
            "write http://localhost or https://localhost",
        ),
        (
            ["--launch", &launch],
            "write command = [\"ptc\", \"start\"]",
        ),
    ] {
        let run = [&["run", "--suite", &suite][..], &words].concat();
        assert_rejected(&sandbox.call(&run), &[told]);
        let show = [&["show", "sums.wrong/wrong", "--suite", &suite][..], &words].concat();
        assert_rejected(&sandbox.call(&show), &[told]);
    }
    let help = String::from_utf8_lossy(&sandbox.call(&["run", "--help"]).stdout).into_owned();
    let help: Vec<&str> = help.split_whitespace().collect();
    assert!(help.join(" ").contains("missing directories are created"));
}

/// A flag that only the harness adds may be unknown to a server.
#[test]
fn complaint_about_an_added_flag_is_explained_once() {
    let sandbox = Sandbox::new();
    let run = |script: &str, more: &[&str]| {
        let stdio = format!("sh -c '{script}'");
        let suite = sandbox.path_text("spec");
        let output =
            sandbox.call(&[&["run", "--suite", &suite, "--stdio", &stdio][..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let complains = "echo unknown option --response-profile >&2; exit 1";
    let said = run(complains, &[]);
    let hint = "the harness added `--response-profile debug`";
    assert_eq!(said.matches(hint).count(), 1, "{said}");
    assert!(said.contains("[observe] of a launch file"), "{said}");
    let launch = sandbox.path_text("launch.toml");
    let said = run(complains, &["--launch", &launch]);
    assert!(!said.contains("the harness added"), "{said}");
    let said = run("echo no such file >&2; exit 1", &[]);
    assert!(!said.contains("the harness added"), "{said}");
}

/// A report that could not be written at the end is rejected before the run begins.
#[test]
fn unwritable_report_path_fails_before_the_run() {
    let sandbox = Sandbox::new();
    let (suite, directory) = (sandbox.path_text("spec"), sandbox.path_text("reports"));
    std::fs::create_dir(&directory).expect("a directory");
    let inside_a_file = sandbox.path_text("spec/sums.md/report.html");
    for (place, told) in [
        (&directory, "found a directory"),
        (&inside_a_file, "spec/sums.md"),
    ] {
        let report = format!("html={place}");
        let words = [
            "run", "--suite", &suite, "--stdio", "false", "--report", &report,
        ];
        let output = sandbox.call(&words);
        assert_rejected(&output, &[place.trim_end_matches("/report.html"), told]);
        assert!(output.stdout.is_empty());
    }
}

/// Otherwise the cases with the intended flag would be judged with the reference's name for it.
#[test]
fn template_flags_must_occur_in_some_case() {
    let sandbox = Sandbox::new();
    let (suite, launch) = (sandbox.path_text("spec"), sandbox.path_text("launch.toml"));
    let template =
        "[flags]\nmax_program_bytes = \"--limit\"\n[values.respond_profile]\ndebug = \"full\"\n";
    std::fs::write(&launch, template).expect("a template");
    let words = [
        "run", "--suite", &suite, "--stdio", "false", "--launch", &launch,
    ];
    let told = "found `respond_profile`, which no case passes; did you mean `response_profile`?";
    assert_rejected(&sandbox.call(&words), &[&launch, told]);
}

/// Asserts that a command could not do its work, and that its message contains these words.
fn assert_rejected(output: &std::process::Output, told: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in told {
        assert!(said.contains(words), "expected {words}, found {said}");
    }
}

#[test]
fn reference_verdict_is_never_given_for_another_server() {
    let sandbox = Sandbox::new();
    let (launch, claims, known) = (
        sandbox.path_text("launch.toml"),
        sandbox.path_text("claims.toml"),
        sandbox.path_text("known.toml"),
    );
    std::fs::write(&claims, "").expect("a declaration");
    std::fs::write(&known, "").expect("a list");
    for (arguments, told) in [
        (["--launch", &launch], "there is no `command` in it"),
        (["--claims", &claims], "none is named"),
        (["--baseline", &known], "none is named"),
    ] {
        let mut all = vec!["run"];
        all.extend(arguments);
        let output = sandbox.call(&all);
        assert_eq!(output.status.code(), Some(2), "{all:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(told) && said.contains("--stdio"), "{said}");
    }
    // Outside of the workspace there is no reference to build.
    let output = Command::new(env!("CARGO_BIN_EXE_ptc-conformance"))
        .arg("run")
        .current_dir(sandbox.path("spec"))
        .output()
        .expect("the harness starts");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no target is named"), "{said}");
}

/// A part of the suite reaches no level, whatever its results.
#[test]
fn partial_runs_reach_no_level() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("spec/lang")).expect("a directory");
    let page = "# Language {#few}\n\n- {#few.one} One MUST be.\n\n```clj\n(+ 1 2) ;=> 3\n```\n\n- {#few.two} Two MUST be.\n\n```clj\n(+ 2 2) ;=> 4\n```\n";
    std::fs::write(sandbox.path("spec/lang/reader.md"), page).expect("a page");
    let formats = ["markdown", "html", "badges"];
    let wanted = formats.map(|name| format!("{name}={}", sandbox.path_text(name)));
    let mut arguments: Vec<&str> = wanted
        .iter()
        .flat_map(|report| ["--report", report])
        .collect();
    arguments.extend(["--filter", "few.one"]);
    let (status, text, _) = sandbox.run(&arguments);
    assert_eq!(status, Some(0), "{text}");
    let read = |name: &str| std::fs::read_to_string(sandbox.path(name)).expect("a report");
    for report in formats {
        let told = read(report);
        assert!(!told.contains("reached, 1/1"), "{told}");
        assert!(
            told.contains("passed in the part that was run, 1/1"),
            "{told}"
        );
    }
    assert!(
        read("badges").contains(
            "\"language core\":{\"color\":\"lightgrey\",\"label\":\"PTC-Lisp language core\""
        ),
        "{}",
        read("badges")
    );
}

/// Badges and reports show how much of the suite was judged, and do not count the harness's tests of itself.
#[test]
fn badges_show_the_judged_share_without_harness_checks() {
    let sandbox = Sandbox::new();
    let page = "# Language {#few}\n\n```clj\n(+ 1 2) ;=> 3\n```\n\n````fixture\n# S {#s}\n```clj\n(f) ;=> 1\n```\n=> s/be1f44aa\n````\n\n\
                - {#few.more requires: lang-1.1} More MUST be there.\n\n```clj\n(+ 2 2) ;=> 4\n```\n";
    std::fs::remove_file(sandbox.path("spec/sums.md")).expect("the page");
    std::fs::create_dir_all(sandbox.path("spec/lang")).expect("a directory");
    std::fs::write(sandbox.path("spec/lang/reader.md"), page).expect("a page");
    let formats = ["junit", "tap", "markdown", "html", "badge", "badges"];
    let wanted = formats.map(|name| format!("{name}={}", sandbox.path_text(name)));
    let arguments: Vec<&str> = wanted
        .iter()
        .flat_map(|report| ["--report", report])
        .collect();
    let (status, text, run) = sandbox.run(&arguments);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(run.count(Status::SelfCheck), 1);
    let read = |name: &str| std::fs::read_to_string(sandbox.path(name)).expect("a report");
    for (report, piece) in [
        ("junit", "checks of the harness itself"),
        ("tap", "# SKIP checks of the harness itself"),
        ("markdown", "1 of 2 cases were judged (50 %)"),
        ("html", "1 of 2 cases were judged (50 %)"),
        ("badge", "\"message\":\"1/1, 50% of the suite\""),
        ("badge", "\"color\":\"yellowgreen\""),
        (
            "badges",
            "\"language core\":{\"color\":\"yellow\",\"label\":\"PTC-Lisp language core\",\"message\":\"reached in part, 1/1, 1 not claimed\"",
        ),
        ("badges", "\"HTTP\":{\"color\":\"lightgrey\""),
    ] {
        assert!(
            read(report).contains(piece),
            "no {piece:?} in {report}: {}",
            read(report)
        );
    }
    assert!(text.contains("1 of 2 cases were judged (50 %)"), "{text}");
    assert!(
        text.contains("conforms; 50 % of the cases judged ("),
        "{text}"
    );
}

/// A mutant that no case catches fails the self-test, and so does a name that matches no mutant.
#[test]
fn selftest_fails_when_it_proves_nothing() {
    let sandbox = Sandbox::new();
    let (spec, server) = (sandbox.path_text("spec"), scripted());
    let mutate = |name: &str| {
        sandbox.call(&[
            "selftest", "--stdio", &server, "--suite", &spec, "--mutant", name,
        ])
    };
    let survived = mutate("wrong-result");
    let text = String::from_utf8_lossy(&survived.stdout).into_owned();
    assert_eq!(survived.status.code(), Some(1), "{text}");
    assert!(text.contains("0 of 1 mutants caught (0.0 %)"), "{text}");
    let unknown = mutate("wrnog-result");
    assert_eq!(unknown.status.code(), Some(2));
    let told = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(told.contains("did you mean `wrong-result`?"), "{told}");
}

#[test]
fn mistyped_globs_are_reported() {
    let sandbox = Sandbox::new();
    for (flag, glob, meant) in [
        ("--filter", "sums.ad", "`sums.add`"),
        ("--filter", "sum.*", "`sums.*`"),
        ("--filter", "smus", "`sums`"),
        ("--skip", "sums.worng", "`sums.wrong`"),
        ("--filter", "sums.wrong.*", "did you mean `sums.wrong`?"),
        ("--filter", "nothing.like.it", "ptc-conformance list"),
    ] {
        let output = sandbox.call(&["list", "--suite", &sandbox.path_text("spec"), flag, glob]);
        assert_eq!(output.status.code(), Some(2), "{glob}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(meant), "{said}");
    }
}

#[test]
fn embedded_suite_works_without_a_source_tree() {
    let directory = tempfile::tempdir().expect("a directory");
    let count = |from: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_ptc-conformance"))
            .args(["list", "--format", "ids"])
            .current_dir(from)
            .output()
            .expect("the harness starts");
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    let here = count(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(here > 10_000);
    assert_eq!(count(directory.path()), here);
}

#[test]
fn every_report_format_is_written() {
    let sandbox = Sandbox::new();
    let formats = ["junit", "tap", "markdown", "html", "badge"];
    let wanted: Vec<String> = formats
        .iter()
        .map(|name| format!("{name}={}", sandbox.path_text(name)))
        .collect();
    let arguments: Vec<&str> = wanted
        .iter()
        .flat_map(|report| ["--report", report])
        .collect();
    sandbox.run(&arguments);
    let read = |name: &str| std::fs::read_to_string(sandbox.path(name)).expect("a report");
    assert!(read("junit").contains("<testsuites") && read("junit").contains("failures=\"1\""));
    assert!(read("tap").starts_with("TAP version 14\n1..6\n"));
    assert!(read("markdown").contains("does not conform"));
    assert!(read("html").starts_with("<!doctype html>"));
    assert!(
        read("badge").contains("\"message\":\"3/6\"") && read("badge").contains("\"red\""),
        "{}",
        read("badge")
    );
}

#[test]
fn show_prints_a_case_its_clause_and_commands() {
    let sandbox = Sandbox::new();
    let page = "# Few {#few}\n\n```toml target\nflags.max_sessions = 2\n```\n\n```clj\n;name one\n1 ;=> 1\n```\n";
    std::fs::write(sandbox.path("spec/few.md"), page).expect("a page");
    let output = sandbox.call(&["show", "few/one", "--suite", &sandbox.path_text("spec")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"max_sessions\": 2"), "no target in\n{text}");
    let output = sandbox.call(&[
        "show",
        "sums.wrong/wrong",
        "--suite",
        &sandbox.path_text("spec"),
    ]);
    let text = String::from_utf8_lossy(&output.stdout);
    for piece in [
        "What `+` does.",
        "This MUST fail.",
        "(+ 6 6)",
        "tools/call",
        "--filter sums.wrong/wrong",
    ] {
        assert!(text.contains(piece), "no {piece:?} in\n{text}");
    }
    // Against the user's own target, over its transport.
    for (flag, target, hand) in [
        ("--stdio", "my-server -x", "| my-server -x"),
        ("--testee", "my-adapter", "\"op\":\"lisp_run\""),
    ] {
        let spec = sandbox.path_text("spec");
        let output = sandbox.call(&["show", "sums.wrong/wrong", "--suite", &spec, flag, target]);
        let text = String::from_utf8_lossy(&output.stdout);
        let through = format!(
            "ptc-conformance run {flag} {} --suite {spec} --filter sums.wrong/wrong",
            shell_words::quote(target)
        );
        for piece in [hand, through.as_str(), target] {
            assert!(text.contains(piece), "no {piece:?} in\n{text}");
        }
        assert!(!text.contains("ptc start"), "{text}");
    }
    let unknown = sandbox.call(&[
        "show",
        "sums.nothing",
        "--suite",
        &sandbox.path_text("spec"),
    ]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn page_filter_selects_its_corpus_cases_too() {
    let suite = tempfile::tempdir().expect("a directory");
    for (file, text) in [
        ("lang/sums.md", PAGE),
        (
            "lib/others.md",
            "# Others {#others}\n\n```clj\n;name one\n1 ;=> 1\n```\n",
        ),
        (
            "corpus/any.jsonl",
            "{\"id\": \"many/1\", \"section\": \"sums\", \"program\": \"2\", \"expect\": {\"result\": \"user=> 2\"}}\n",
        ),
    ] {
        let path = suite.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a fixture");
    }
    let sandbox = Sandbox::new();
    let listed = |glob: &str| {
        let root = suite.path().to_string_lossy();
        let output = sandbox.call(&[
            "list", "--suite", &root, "--filter", glob, "--format", "ids",
        ]);
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    assert_eq!(
        [
            listed("lang.*"),
            listed("lang.sums"),
            listed("lib.*"),
            listed("*")
        ],
        [7, 7, 1, 8]
    );
}

#[test]
fn diff_compares_two_reports() {
    let sandbox = Sandbox::new();
    sandbox.run(&[]);
    let old = sandbox.path_text("old.json");
    std::fs::copy(sandbox.path("report.json"), &old).expect("a copy");
    let same = sandbox.call(&["diff", &old, &sandbox.path_text("report.json")]);
    assert_eq!(same.status.code(), Some(0));
    let broken = std::fs::read_to_string(&old)
        .expect("a report")
        .replacen("\"pass\"", "\"fail\"", 1);
    let new = sandbox.path_text("new.json");
    std::fs::write(&new, broken).expect("a report");
    let worse = sandbox.call(&["diff", &old, &new]);
    assert_eq!(worse.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&worse.stdout).contains("broken: 1"));
    let otherwise = std::fs::read_to_string(&old)
        .expect("a report")
        .replace("expected 13, observed 12", "expected 13, observed 99");
    std::fs::write(&new, otherwise).expect("a report");
    let differs = sandbox.call(&["diff", &old, &new]);
    assert_eq!(differs.status.code(), Some(0));
    let said = String::from_utf8_lossy(&differs.stdout).into_owned();
    for piece in [
        "fails differently: 1",
        "before: result: expected 13, observed 12",
        "observed 99",
    ] {
        assert!(said.contains(piece), "no {piece:?} in\n{said}");
    }
    let silent =
        std::fs::read_to_string(&old)
            .expect("a report")
            .replacen("\"pass\"", "\"not_claimed\"", 1);
    std::fs::write(&new, silent).expect("a report");
    let said = sandbox.call(&["diff", &old, &new]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("no longer passed: 1\n  sums.add/"), "{said}");
    let mut twice = Run::read(Path::new(&old)).expect("a report");
    twice.cases.push(twice.cases[0].clone());
    std::fs::write(&new, twice.json()).expect("a report");
    let told = format!(
        "expected each case once, found {} over stdio twice",
        twice.cases[0].id
    );
    assert_rejected(&sandbox.call(&["diff", &old, &new]), &[&new, &told]);
    assert_rejected(&sandbox.call(&["compare", &old, &new]), &[&new, &told]);
}

/// Runs the script of the action's step without cargo; it ends before it would build.
#[test]
fn the_action_without_a_target_fails() {
    let action = include_str!("../action.yml");
    let script: String = action
        .lines()
        .skip_while(|line| !line.contains("run: |"))
        .skip(1)
        .take_while(|line| line.starts_with("        "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(script.contains("cargo build"), "{script}");
    let step = |stdio: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-ec", &script]).env("ROOT", "/nonexistent");
        for name in [
            "URL",
            "TESTEE",
            "LAUNCH",
            "CLAIMS",
            "BASELINE",
            "TRANSPORT",
            "FILTER",
            "SHARD",
        ] {
            bash.env(name, "");
        }
        bash.env("STDIO", stdio)
            .current_dir(std::env::temp_dir())
            .output()
            .expect("bash starts")
    };
    let none = step("");
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stdout).contains("::error::name a target"));
    // With a target it gets as far as the build.
    let some = step("my-server");
    assert_ne!(some.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&some.stdout).contains("::error::"));
}

#[test]
fn full_disk_preserves_verdict_and_old_reports() {
    use std::process::Stdio;
    let sandbox = Sandbox::new();
    let (suite, launch, server) = (
        sandbox.path_text("spec"),
        sandbox.path_text("launch.toml"),
        scripted(),
    );
    let junit = format!("junit={}", sandbox.path_text("report.xml"));
    let run = [
        "run", "--stdio", &server, "--launch", &launch, "--suite", &suite,
    ];
    let reports = ["--report", "json=/dev/full", "--report", &junit];
    let output = sandbox.call(&[&run[..], &reports].concat());
    assert_rejected(&output, &["/dev/full: No space left on device"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("does not conform"), "{text}");
    assert!(sandbox.path("report.xml").is_file());
    let (good, report) = (
        sandbox.path_text("good.json"),
        format!("json={}", sandbox.path_text("good.json")),
    );
    sandbox.call(&[&run[..], &["--report", &report]].concat());
    let commands: [&[&str]; 5] = [
        &["export", "--suite", &suite],
        &["list", "--suite", &suite],
        &["show", "sums.add", "--suite", &suite],
        &["diff", &good, &good],
        &run,
    ];
    for command in commands {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("a full disk");
        let mut child = Command::new(env!("CARGO_BIN_EXE_ptc-conformance"));
        child
            .args(command)
            .stdout(Stdio::from(full))
            .stderr(Stdio::piped());
        let output = child.output().expect("the harness starts");
        assert_rejected(&output, &["standard output: No space left on device"]);
    }
}

#[test]
fn foreign_reports_cannot_control_or_break_output() {
    let sandbox = Sandbox::new();
    let (_, _, run) = sandbox.run(&[]);
    let write = |name: &str, run: &Run| {
        std::fs::write(sandbox.path(name), run.json()).expect("a report");
        sandbox.path_text(name)
    };
    let good = write("good.json", &run);
    let hostile = |text: &str| {
        let mut hostile = run.clone();
        hostile.target = text.to_owned();
        hostile.server = Some(text.to_owned());
        hostile.cases[0].id = text.to_owned();
        hostile.cases[0].page = text.to_owned();
        hostile.cases[1].message = Some(text.to_owned());
        hostile
    };
    let curses = "\u{1b}[2J\u{9b}31m\n::error::forged\n../../etc/passwd";
    let mut sums = run.clone();
    sums.suite_cases = usize::MAX;
    for case in &mut sums.cases {
        case.duration_us = u64::MAX;
    }
    let sums = write("sums.json", &sums);
    let mut upgraded = run.clone();
    upgraded.server = Some("another".to_owned());
    let upgraded = write("upgraded.json", &upgraded);
    let suite = sandbox.path_text("spec");
    for other in [
        write("curses.json", &hostile(curses)),
        write("long.json", &hostile(&"x".repeat(20 << 20))),
        sums.clone(),
    ] {
        let page = sandbox.path_text("page.html");
        let commands: [&[&str]; 5] = [
            &["diff", &good, &other, "--html", &page],
            &["compare", &good, &other, "--html", &page],
            &["merge", &good, &other],
            &["merge", &other],
            &[
                "list", "--suite", &suite, "--shard", "1/2", "--times", &other,
            ],
        ];
        for command in commands {
            let output = sandbox.call(command);
            let text = [&output.stdout[..], &output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            assert!(
                output.status.code().is_some_and(|status| status <= 2),
                "{command:?}"
            );
            assert!(text.len() < 100 << 10, "{command:?}: {} bytes", text.len());
            let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert_eq!(text.find(obeyed), None, "{command:?}: {text:?}");
            let forged = text.lines().any(|line| line.trim_start().starts_with("::"));
            assert!(!forged, "{command:?}: {text}");
        }
    }
    assert_rejected(
        &sandbox.call(&["merge", &good, &upgraded]),
        &["different servers"],
    );
}
