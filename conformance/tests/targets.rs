//! Targets that misbehave: each fault is reported correctly, within its timeouts, and leaves nothing behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use conformance::report::{Run, Status};

const PAGE: &str = "\
# Sums {#sums}

- {#sums.add} Addition MUST add.

```clj
(+ 1 2) ;=> 3
(+ 2 2) ;=> 4
(+ 3 3) ;=> 6
(+ 4 4) ;=> 8
(+ 5 5) ;=> 10
```
";

/// Far longer than any wait in these tests, far shorter than the targets would hang.
const PROMPT: Duration = Duration::from_secs(60);

/// The result of a run against a target.
struct HarnessRun {
    status: Option<i32>,
    output: String,
    run: Option<Run>,
    took: Duration,
}

impl HarnessRun {
    /// Asserts that nothing was counted, and that one message says why.
    fn assert_unable(&self) {
        assert_eq!(self.status, Some(2), "{}", self.output);
        assert!(self.run.is_none(), "{}", self.output);
        let told = self.output.matches("the target could not be judged");
        assert_eq!(told.count(), 1, "{}", self.output);
    }

    fn assert_output(&self, expected: &str) {
        assert!(self.output.contains(expected), "{}", self.output);
    }

    fn statuses(&self) -> Vec<Status> {
        let run = self.run.as_ref().expect("a report was written");
        run.cases.iter().map(|case| case.status).collect()
    }

    fn causes(&self) -> Vec<&str> {
        let run = self.run.as_ref().expect("a report was written");
        run.cases
            .iter()
            .filter_map(|case| case.cause.as_deref())
            .collect()
    }
}

fn example(name: &str) -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_ptc-conformance"));
    let path = binary.with_file_name("examples").join(name);
    assert!(
        path.is_file(),
        "{} is built by `cargo test -p conformance`",
        path.display()
    );
    path
}

fn scripted(fault: &str) -> String {
    format!("{} {fault}", example("scripted").display())
}

fn harness(directory: &Path, page: &str, target: &str, more: &[&str]) -> Command {
    let suite = directory.join("spec");
    std::fs::create_dir_all(&suite).expect("a directory");
    std::fs::write(suite.join("page.md"), page).expect("a page");
    let launch = directory.join("launch.toml");
    let template = "[observe]\n[patience]\nstart = 3000\nreply = 3000\nexit = 500\n";
    std::fs::write(&launch, template).expect("a template");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptc-conformance"));
    command
        .arg("run")
        .args(["--stdio", target])
        .arg("--suite")
        .arg(&suite)
        .arg("--launch")
        .arg(&launch)
        .arg("--report")
        .arg(format!("json={}", directory.join("report.json").display()))
        .args(more)
        .stdin(Stdio::null());
    command
}

fn check(target: &str, more: &[&str]) -> HarnessRun {
    check_page(PAGE, target, more)
}

fn check_page(page: &str, target: &str, more: &[&str]) -> HarnessRun {
    let directory = tempfile::tempdir().expect("a directory");
    let began = Instant::now();
    let output = harness(directory.path(), page, target, more)
        .output()
        .expect("the harness starts");
    let took = began.elapsed();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    HarnessRun {
        status: output.status.code(),
        output: text,
        run: Run::read(&directory.path().join("report.json")).ok(),
        took,
    }
}

/// A word for the command lines of one test in one run, so that concurrent runs do not see each other's processes.
fn unique_marker(name: &str) -> String {
    format!("{name}-{}-7f31c9", std::process::id())
}

/// Processes whose command line contains `marker`, other than this one.
fn processes_with(marker: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").expect("/proc is there");
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy() != own)
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|line| line.contains(marker))
        .collect()
}

/// Waits until a run, whose own command line contains `marker` as well, has started a target with it.
fn wait_until_started(marker: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while processes_with(marker).len() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn send_signal(child: &std::process::Child, signal: nix::sys::signal::Signal) {
    let id = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    nix::sys::signal::kill(id, signal).expect("it runs");
}

/// Processes with `marker` that remain. One that has just been killed may need processor time to end.
fn survivors(marker: &str) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !processes_with(marker).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    processes_with(marker)
}

/// Zombies among the children of `parent`.
fn zombies_of(parent: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("/proc is there");
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| {
            let fields: Vec<&str> = stat
                .rsplit(')')
                .next()
                .unwrap_or("")
                .split_whitespace()
                .collect();
            fields.first() == Some(&"Z") && fields.get(1) == Some(&parent.to_string().as_str())
        })
        .collect()
}

#[test]
fn correct_target_passes() {
    let seen = check(&scripted("none"), &[]);
    assert_eq!(seen.status, Some(0), "{}", seen.output);
    assert_eq!(seen.statuses(), [Status::Pass; 5]);
    seen.assert_output("5 cases over stdio: 5 passed");
}

#[test]
fn harness_checks_do_not_count_as_target_passes() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/README.md");
    let text = std::fs::read_to_string(page).expect("the page is there");
    let seen = check_page(&text, &scripted("none"), &[]);
    assert_eq!(seen.status, Some(1), "{}", seen.output);
    seen.assert_output(" 0 passed, ");
    seen.assert_output("nothing is proved");
    let statuses = seen.statuses();
    assert!(!statuses.is_empty());
    assert!(statuses.iter().all(|status| *status == Status::SelfCheck));
}

#[test]
fn non_json_line_is_shown() {
    let seen = check("sh -c 'echo not json'", &[]);
    seen.assert_unable();
    seen.assert_output("not json");
    assert!(seen.took < PROMPT, "{:?}", seen.took);
}

#[test]
fn immediate_exit_is_shown_with_stderr() {
    let seen = check("sh -c 'echo no licence found >&2; exit 3'", &[]);
    seen.assert_unable();
    seen.assert_output("exit status 3");
    seen.assert_output("no licence found");
    assert!(seen.took < PROMPT, "{:?}", seen.took);
}

#[test]
fn missing_command_is_reported_once() {
    let seen = check("/nonexistent/server --fast", &[]);
    seen.assert_unable();
    seen.assert_output("/nonexistent/server");
}

#[test]
fn hanging_target_costs_one_timeout() {
    let marker = &unique_marker("hang");
    let seen = check(
        &format!("sh -c 'trap \"\" TERM HUP; sleep 300; : \"$0\"' {marker}"),
        &[],
    );
    seen.assert_unable();
    seen.assert_output("no answer within 3000 ms");
    assert!(seen.took < PROMPT, "{:?}", seen.took);
    assert_eq!(survivors(marker), Vec::<String>::new());
}

#[test]
fn wrong_ids_are_reported_as_stray_replies() {
    let seen = check(&scripted("wrong-ids"), &[]);
    assert_eq!(seen.status, Some(1), "{}", seen.output);
    assert_eq!(seen.causes(), ["stray-reply"; 5]);
    seen.assert_output("answers no open request");
    // The harness does not wait the full time for an answer that arrived under another id.
    assert!(!seen.output.contains("within 3000 ms"), "{}", seen.output);
    assert!(seen.took < PROMPT, "{:?}", seen.took);
}

#[test]
fn duplicate_reply_does_not_shorten_the_next_wait() {
    let page = "# Sums {#sums}\n\n```clj\n(+ 1 2) ;=> 3\n(+ 2 2) ;=> 4\n```\n";
    let seen = check_page(page, &scripted("repeats"), &["--jobs", "1"]);
    // A freshly started server does not do it, but the target must not pass because of that.
    assert_eq!(seen.causes(), ["stray-reply"], "{}", seen.output);
    assert!(!seen.output.contains("no reply"), "{}", seen.output);
}

#[test]
fn credential_in_a_shared_log_fails_its_own_case() {
    let target = r#"```toml target
[upstreams.credentials.key]
source = "literal"
value = "canary-abcdef-123"
```

```clj
"#;
    let page = PAGE.replacen("```clj\n", target, 1);
    let seen = check_page(&page, &scripted("blabs"), &["--jobs", "1"]);
    assert_eq!(seen.status, Some(1), "{}", seen.output);
    let failed: Vec<_> = seen
        .statuses()
        .iter()
        .map(|status| *status == Status::Fail)
        .collect();
    assert_eq!(
        failed,
        [false, false, true, false, false],
        "{}",
        seen.output
    );
    assert!(
        seen.output
            .contains("nothing that holds the credential key"),
        "{}",
        seen.output
    );
}

#[test]
fn extra_lines_fail_the_case_in_progress() {
    let seen = check(&scripted("chatty"), &[]);
    assert_eq!(seen.status, Some(1), "{}", seen.output);
    assert_eq!(seen.causes(), ["junk"; 5]);
    seen.assert_output("evaluating, please wait");
}

#[test]
fn pings_are_answered_and_are_not_faults() {
    let page = r#"# Sums {#sums}

```clj
(+ 1 2) ;=> 3
(+ 2 2) ;=> 4
```

```wire
-> {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "lisp_eval", "arguments": {"program": "(+ 1 2)"}}}
<- {"jsonrpc": "2.0", "id": 1, "result": {"...": "..."}}
```
"#;
    let seen = check_page(page, &scripted("pings"), &[]);
    assert_eq!(seen.status, Some(0), "{}", seen.output);
    assert_eq!(seen.causes(), Vec::<String>::new());
}

#[test]
fn stray_replies_fail() {
    let seen = check(&scripted("twice"), &[]);
    assert_eq!(seen.causes(), ["stray-reply"; 5], "{}", seen.output);
}

#[test]
fn stray_reply_after_the_last_answer_fails_the_last_case() {
    let page = "# Sums {#sums}\n\n```clj\n(+ 1 2) ;=> 3\n```\n";
    let seen = check_page(page, &scripted("repeats-late"), &[]);
    assert_eq!(seen.causes(), ["stray-reply"], "{}", seen.output);
}

#[test]
fn a_slow_target_passes() {
    let seen = check(&scripted("slow"), &[]);
    assert_eq!(seen.status, Some(0), "{}", seen.output);
}

#[test]
fn silent_target_is_given_up_after_three_timeouts() {
    let seen = check(&scripted("silent"), &[]);
    assert_eq!(seen.status, Some(1), "{}", seen.output);
    assert_eq!(seen.causes(), ["no-reply"; 5]);
    assert!(seen.took < PROMPT, "{:?}", seen.took);
}

#[test]
fn timed_out_case_is_retried_alone_and_noted() {
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("stalled");
    let target = scripted(&format!("stalls-once {}", mark.display()));
    let seen = check(&target, &["--jobs", "1"]);
    assert!(mark.is_file(), "no call stalled: {}", seen.output);
    assert_eq!(seen.statuses(), [Status::Pass; 5], "{}", seen.output);
    let run = seen.run.as_ref().expect("a report was written");
    let notes = run.cases.iter().flat_map(|case| &case.unobserved);
    let notes: Vec<&String> = notes.filter(|note| note.contains("again")).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    let says = ["tried again alone", "no answer within 3000 ms"];
    assert!(says.iter().all(|says| notes[0].contains(says)), "{notes:?}");
}

#[test]
fn call_that_is_busy_at_first_passes_and_is_noted() {
    let check = check(&scripted("busy"), &["--jobs", "1"]);
    let run = check.run.as_ref().expect("a report was written");
    assert!(
        check
            .statuses()
            .iter()
            .all(|status| *status == Status::Pass)
    );
    let note = "refused as `busy` with no other call in flight (once)";
    let noted = |text: &String| text.contains(note);
    let noted = run
        .cases
        .iter()
        .filter(|case| case.unobserved.iter().any(noted));
    assert!(noted.count() > 0, "{}", check.output);
    check.assert_output("of them when tried again alone");
}

#[test]
fn server_that_is_always_busy_fails() {
    let check = check(&scripted("always-busy"), &["--jobs", "1"]);
    assert!(check.statuses().iter().all(|status| status.is_failure()));
    check.assert_output("beyond its concurrency (51 times)");
}

#[test]
fn crash_after_a_timeout_is_not_excused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("died");
    let cases: String = (1..=10)
        .map(|n| format!("(+ {n} {n}) ;=> {}\n", 2 * n))
        .collect();
    let page = format!("# Sums {{#sums}}\n\n```clj\n{cases}```\n");
    let target = scripted(&format!("stalls-and-dies {}", mark.display()));
    let seen = check_page(&page, &target, &["--jobs", "1"]);
    assert!(mark.is_file(), "it did not die: {}", seen.output);
    assert_eq!(seen.causes(), ["crash"], "{}", seen.output);
}

/// A value that is requested as text and as JSON.
const SCHEMA_PAGE: &str = "# Sums {#sums}\n\n```clj\n(+ 50 5)\n;=> 55\n;json 55\n```\n";

#[test]
fn server_without_output_schemas_is_judged_by_text() {
    let seen = check_page(SCHEMA_PAGE, &scripted("right"), &[]);
    assert_eq!(seen.statuses(), [Status::Pass], "{}", seen.output);
    assert!(
        seen.output.contains("1 passed (1 of them in part"),
        "{}",
        seen.output
    );
}

#[test]
fn ignored_output_schema_is_reported() {
    let seen = check_page(SCHEMA_PAGE, &scripted("ignores-schemas"), &[]);
    assert_eq!(seen.statuses(), [Status::Fail], "{}", seen.output);
    let asked = "no `validated`, though the call asked for it with the output_schema {\"type\":\"integer\"}";
    seen.assert_output(asked);
}

#[test]
fn run_continues_after_a_crash() {
    // Every server dies at its third call, whichever that is.
    let seen = check(&scripted("crashes"), &["--jobs", "1"]);
    assert_eq!(seen.status, Some(1), "{}", seen.output);
    assert_eq!(seen.statuses().len(), 5, "{}", seen.output);
    let crashed = seen.causes();
    assert!(
        (1..=3).contains(&crashed.len()) && crashed.iter().all(|cause| *cause == "crash"),
        "{crashed:?}"
    );
    seen.assert_output("the third call is my undoing");
}

#[test]
fn endless_line_is_truncated() {
    let seen = check(&scripted("floods"), &[]);
    assert_eq!(seen.status, Some(1), "{}", seen.output);
    assert!(
        seen.causes().iter().all(|cause| *cause == "no-reply"),
        "{:?}",
        seen.causes()
    );
    assert!(seen.took < PROMPT, "{:?}", seen.took);
}

#[test]
fn target_that_ignores_end_of_input_is_killed() {
    let seen = check(&scripted("ignores-eof"), &[]);
    assert_eq!(seen.status, Some(0), "{}", seen.output);
    assert!(seen.took < PROMPT, "{:?}", seen.took);
}

#[test]
fn target_that_never_reads_pongs_is_killed() {
    let page = "# Sums {#sums}\n\n```clj\n(+ 1 2) ;=> 3\n```\n";
    let seen = check_page(page, &scripted("pings-unread"), &[]);
    assert_eq!(seen.status, Some(0), "{}", seen.output);
    assert!(seen.took < PROMPT, "{:?}", seen.took);
}

#[test]
fn grandchildren_do_not_outlive_the_run() {
    let marker = &unique_marker("grandchild");
    let seen = check(&scripted(&format!("spawns {marker}")), &[]);
    assert_eq!(seen.status, Some(0), "{}", seen.output);
    assert_eq!(survivors(marker), Vec::<String>::new());
}

#[test]
fn processes_that_leave_the_group_are_killed() {
    let marker = unique_marker("escaped");
    let seen = check(&scripted(&format!("escapes {marker}")), &[]);
    assert_eq!(seen.statuses(), [Status::Pass; 5], "{}", seen.output);
    assert_eq!(survivors(&marker), [""; 0]);
}

#[test]
fn a_target_that_moves_to_another_group_is_killed() {
    let marker = unique_marker("regrouped");
    let seen = check(&scripted(&format!("regroups {marker}")), &[]);
    assert_eq!(seen.statuses(), [Status::Pass; 5], "{}", seen.output);
    assert!(seen.took < PROMPT, "{:?}", seen.took);
    assert_eq!(survivors(&marker), [""; 0]);
}

#[test]
fn startup_output_cannot_control_or_forge_anything() {
    let seen = check(&scripted("curses"), &[]);
    seen.assert_unable();
    let obeyed = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert_eq!(seen.output.find(obeyed), None, "{:?}", seen.output);
    seen.assert_output("\\u{1b}[2J");
    for line in seen.output.lines() {
        assert!(
            line != "conforms" && !line.trim_start().starts_with("::"),
            "{line}"
        );
    }
}

/// The peak memory of a run in kilobytes, and the size of its report in bytes.
fn memory_and_report_size(fault: &str, page: &str) -> (u64, u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = harness(directory.path(), page, &scripted(fault), &[])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the harness starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("its state").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        peak = peak.max(kilobytes.unwrap_or_default());
        std::thread::sleep(Duration::from_millis(20));
    }
    let report = std::fs::metadata(directory.path().join("report.json")).expect("a report");
    (peak, report.len())
}

#[test]
fn target_output_is_bounded_in_memory_and_reports() {
    for (fault, kilobytes_max) in [("junk", 200 << 10), ("verbose", 200 << 10)] {
        let (peak, report) = memory_and_report_size(fault, PAGE);
        assert!(peak > 0 && peak < kilobytes_max, "{fault}: {peak} kB");
        // 64 lines of 4 KiB are kept per process, and each of five cases may have its own.
        assert!(report < 2 << 20, "{fault}: a report of {report} bytes");
    }
}

#[test]
fn endless_output_of_survivors_is_not_kept() {
    let case = |id: u32| {
        format!(
            "```wire\n-> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n<- {{\"id\": {id}, \"...\": \"...\"}}\n```\n\n"
        )
    };
    let cases: String = (1..=20).map(case).collect();
    // The last case waits, to give the processes that outlived the others time.
    let page = format!("{PAGE}\n{cases}{}", case(21).replace("-> ", "wait 4s\n-> "));
    let (peak, _) = memory_and_report_size("floods-behind", &page);
    assert!(peak > 0 && peak < 300 << 10, "{peak} kB");
}

/// An HTTP server that is correct except for the way it sends the answer to a sum: status, content type, and what surrounds the answer.
fn serve(
    status: &'static str,
    kind: &'static str,
    around: fn(&str) -> String,
    ends: bool,
) -> String {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let negative = Arc::new(AtomicBool::new(false));
    let stalled = Arc::new(AtomicBool::new(false));
    let answer = move |mut stream: std::net::TcpStream| -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
                let line = line.trim_end().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().ok()?;
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let request: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let text = request.pointer("/params/arguments/program");
            let sum = text.and_then(|text| text.as_str()).unwrap_or_default();
            let result = match request["method"].as_str() {
                Some("initialize") => serde_json::json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "served", "version": "1"}
                }),
                Some("tools/list") => {
                    serde_json::json!({"tools": [{"name": "lisp_eval", "inputSchema": {"type": "object"}}]})
                }
                Some("notifications/negative") => {
                    std::thread::sleep(OVERTAKEN);
                    negative.store(true, Ordering::SeqCst);
                    serde_json::Value::Null
                }
                _ => {
                    if sum.contains("slow") && !stalled.swap(true, Ordering::SeqCst) {
                        std::thread::sleep(OVERTAKEN);
                    }
                    let words = sum.trim_matches(['(', ')', '+', ' ']).split(' ');
                    let sum: i64 = words.filter_map(|word| word.parse::<i64>().ok()).sum();
                    let sum = if negative.load(Ordering::SeqCst) {
                        -sum
                    } else {
                        sum
                    };
                    serde_json::json!({"content": [{"type": "text", "text": format!("user=> {sum}")}], "isError": false})
                }
            };
            let frame =
                serde_json::json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            let (status, kind, frame, ends) = match (&request["id"], sum.starts_with("(+")) {
                (serde_json::Value::Null, _) => {
                    ("202 Accepted", "application/json", String::new(), true)
                }
                (_, false) => ("200 OK", "application/json", frame.to_string(), true),
                (_, true) => (status, kind, around(&frame.to_string()), ends),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n");
            if !ends {
                write!(stream, "{head}\r\n{frame}").ok()?;
                std::thread::sleep(Duration::from_secs(60));
                return None;
            }
            let length = match kind.contains("Transfer-Encoding") {
                true => String::new(),
                false => format!("Content-Length: {}\r\n", frame.len()),
            };
            // In one write: a second one would wait until the first is acknowledged.
            let answer = format!("{head}{length}\r\n{frame}");
            stream.write_all(answer.as_bytes()).ok()?;
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    url
}

/// Longer than the time that a message over HTTP gets before the next one is sent.
const OVERTAKEN: Duration = Duration::from_millis(300);

fn judged_over_http(url: &str) -> HarnessRun {
    page_over_http(PAGE, url)
}

fn page_over_http(page: &str, url: &str) -> HarnessRun {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("page.md"), page).expect("a page");
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_ptc-conformance"))
        .args(["run", "--url", url, "--suite"])
        .arg(directory.path())
        // Plain HTTP needs no certificates.
        .env("SSL_CERT_FILE", "/nothing/there")
        .env("SSL_CERT_DIR", "/nothing/there")
        .arg("--report")
        .arg(format!(
            "json={}",
            directory.path().join("report.json").display()
        ))
        .output()
        .expect("the harness starts");
    HarnessRun {
        status: output.status.code(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        run: Run::read(&directory.path().join("report.json")).ok(),
        took: began.elapsed(),
    }
}

#[test]
fn http_replies_that_overtake_each_other_fail_no_case() {
    let call = |id: u32, program: &str| {
        format!(
            r#"-> {{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"{program}"}}}}}}"#
        )
    };
    let answer = |id: u32, sum: i64| {
        format!(
            r#"<- {{"id":{id},"result":{{"content":[{{"type":"text","text":"user=> {sum}"}}],"...":"..."}},"...":"..."}}"#
        )
    };
    let told = r#"-> {"jsonrpc":"2.0","method":"notifications/negative"}"#;
    let serve = || serve("200 OK", "application/json", str::to_owned, true);
    let page = |steps: &[&str]| {
        format!(
            "# Sums {{#sums}}\n\n- {{#sums.add}} Addition MUST add.\n\n```wire\n{}\n```\n",
            steps.join("\n")
        )
    };

    // A notification has been received when the next message arrives.
    let steps = [told, &call(1, "(+ 1 2)"), &answer(1, -3)];
    let seen = page_over_http(&page(&steps), &serve());
    assert_eq!(seen.statuses(), [Status::Pass], "{}", seen.output);
    assert!(!seen.output.contains("tried again"), "{}", seen.output);

    // When an answer arrived late once, after the next one, the case is retried.
    let steps = [
        &call(1, "(+ 1 2 slow)")[..],
        &call(2, "(+ 2 2)"),
        &answer(1, 3),
        &answer(2, 4),
    ];
    let seen = page_over_http(&page(&steps), &serve());
    assert_eq!(seen.statuses(), [Status::Pass], "{}", seen.output);
    seen.assert_output("tried again");
}

#[test]
fn http_result_is_one_frame_with_status_200() {
    const STREAM: &str = "text/event-stream";
    let plain: fn(&str) -> String = str::to_owned;
    let event: fn(&str) -> String = |frame| format!(": hello\n\ndata: {frame}\n\n");
    let twice: fn(&str) -> String = |frame| format!("data: {frame}\n\ndata: {frame}\n\n");
    for (status, kind, around, ends, told) in [
        ("200 OK", "application/json", plain, true, None),
        (
            "200 OK",
            "Application/JSON; charset=utf-8",
            plain,
            true,
            None,
        ),
        ("200 OK", STREAM, event, true, None),
        // A stream should end after the answer; one that does not has delivered it nevertheless.
        ("200 OK", STREAM, event, false, None),
        (
            "500 Oops",
            "application/json",
            plain,
            true,
            Some("got: HTTP 500"),
        ),
        (
            "200 OK",
            "text/html",
            plain,
            true,
            Some("Content-Type: text/html"),
        ),
        (
            "200 OK",
            STREAM,
            twice,
            true,
            Some("answers no open request"),
        ),
        (
            "200 OK",
            STREAM,
            twice,
            false,
            Some("answers no open request"),
        ),
    ] {
        let seen = judged_over_http(&serve(status, kind, around, ends));
        let what = format!("{status} {kind} {ends}: {}", seen.output);
        assert!(seen.took < PROMPT, "{what}");
        match told {
            None => assert_eq!(seen.statuses(), [Status::Pass; 5], "{what}"),
            Some(told) => {
                assert_eq!(seen.statuses(), [Status::Fail; 5], "{what}");
                assert!(seen.output.contains(told), "{what}");
            }
        }
    }
}

#[test]
fn http_transcript_replies_need_a_success_status() {
    let page = r#"# Sums {#sums}

- {#sums.add} Addition MUST add.

```wire
-> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(+ 1 2)"}}}
<- {"id":1,"result":{"...":"..."},"...":"..."}
```
"#;
    for (status, expected) in [("200 OK", Status::Pass), ("500 Oops", Status::Fail)] {
        let url = serve(status, "application/json", str::to_owned, true);
        let seen = page_over_http(page, &url);
        assert_eq!(seen.statuses(), [expected], "{}", seen.output);
    }
}

#[test]
fn http_request_has_exactly_one_reply() {
    let page = r#"# Sums {#sums}

- {#sums.add} Addition MUST add.

```http
-> POST /mcp
Content-Type: application/json

{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(+ 1 2)"}}}

<- 200

{"id":1,"...":"..."}
```
"#;
    const CHUNKED: &str = "application/json\r\nTransfer-Encoding: chunked";
    type Body = fn(&str) -> String;
    fn chunk(frame: &str) -> String {
        format!("{:x}\r\n{frame}\r\n0\r\n\r\n", frame.len())
    }
    let twice: Body = |frame| format!("{}HTTP/1.1 204 No Content\r\n\r\n", chunk(frame));
    let event: Body = |frame| format!("data: {frame}\n\n: more\n\n");
    let answers: [(&str, Body, bool, Status); 3] = [
        (CHUNKED, chunk, true, Status::Pass),
        (CHUNKED, twice, true, Status::Fail),
        // A stream should end after the answer; one that does not has delivered it nevertheless.
        ("text/event-stream", event, false, Status::Pass),
    ];
    for (kind, body, ends, expected) in answers {
        let seen = page_over_http(page, &serve("200 OK", kind, body, ends));
        assert_eq!(seen.statuses(), [expected], "{}", seen.output);
        let told = seen.output.contains("nothing behind the answer");
        assert_eq!(told, expected == Status::Fail, "{}", seen.output);
    }
}

#[test]
fn interrupted_run_kills_its_targets() {
    let marker = &unique_marker("interrupt");
    let directory = tempfile::tempdir().expect("a directory");
    let target = format!("sh -c 'trap \"\" TERM HUP INT; sleep 300; : \"$0\"' {marker}");
    let mut child = harness(directory.path(), PAGE, &target, &[])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the harness starts");
    wait_until_started(marker);
    assert_eq!(zombies_of(child.id()), Vec::<String>::new());
    send_signal(&child, nix::sys::signal::Signal::SIGINT);
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(survivors(marker), Vec::<String>::new());
}

/// The cases that have run by then are reported.
#[test]
fn interrupted_run_writes_its_results() {
    for signal in [
        nix::sys::signal::Signal::SIGINT,
        nix::sys::signal::Signal::SIGTERM,
    ] {
        let marker = &unique_marker("stopped");
        let directory = tempfile::tempdir().expect("a directory");
        let page = PAGE.replace(
            "(+ 2 2) ;=> 4",
            "(+ 2 2) ;=> 4\n```\n\n```wire\n-> {\"jsonrpc\": \"2.0\", \"method\": \"notifications/nothing\"}\n<- within 60s {\"jsonrpc\": \"2.0\", \"id\": 7, \"result\": {}}\n```\n\n```clj",
        );
        let mut child = harness(
            directory.path(),
            &page,
            &scripted(&format!("spawns {marker}")),
            &[],
        )
        .stdout(Stdio::null())
        .spawn()
        .expect("the harness starts");
        wait_until_started(marker);
        std::thread::sleep(Duration::from_millis(500));
        send_signal(&child, signal);
        assert_eq!(child.wait().expect("it ends").code(), Some(130));
        let run = Run::read(&directory.path().join("report.json")).expect("a report");
        assert!(run.interrupted && run.partial);
        let of = |status| run.count(status);
        assert!(of(Status::NotRun) > 0, "{run:?}");
        assert_eq!(survivors(marker), Vec::<String>::new());
    }
}

/// Cases that were about to run when the signal arrived are no longer started.
#[test]
fn interrupted_run_starts_no_more_targets() {
    let marker = &unique_marker("starting");
    let directory = tempfile::tempdir().expect("a directory");
    let asks = (0..2_000).map(|id| {
        format!(
            "```wire\n-> {{\"jsonrpc\": \"2.0\", \"id\": {id}, \"method\": \"ping\"}}\n<- within 60s {{\"id\": {id}}}\n```\n\n"
        )
    });
    let page = format!("{PAGE}\n{}", asks.collect::<String>());
    let mut child = harness(
        directory.path(),
        &page,
        &scripted(&format!("spawns {marker}")),
        &[],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .expect("the harness starts");
    wait_until_started(marker);
    std::thread::sleep(Duration::from_millis(200));
    send_signal(&child, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let run = Run::read(&directory.path().join("report.json")).expect("a report");
    assert!(run.count(Status::NotRun) > 100, "{run:?}");
    assert_eq!(survivors(marker), Vec::<String>::new());
}

#[test]
fn unreachable_url_is_reported_once() {
    // Bound and closed again, so that nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("page.md"), PAGE).expect("a page");
    let output = Command::new(env!("CARGO_BIN_EXE_ptc-conformance"))
        .args(["run", "--url", &format!("http://127.0.0.1:{port}/mcp")])
        .arg("--suite")
        .arg(directory.path())
        .output()
        .expect("the harness starts");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(told.matches("could not be judged").count(), 1, "{told}");
}

#[test]
fn url_of_no_mcp_server_is_reported_with_its_answer() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in listener.incoming().flatten() {
            let _request = stream.read(&mut [0; 4096]);
            let _gone = stream.write_all(
                b"HTTP/1.0 501 Unsupported method\r\nContent-Type: text/html;charset=utf-8\r\nContent-Length: 3\r\n\r\n<p>",
            );
        }
    });
    for profile in ["ptc", "mcp"] {
        let output = Command::new(env!("CARGO_BIN_EXE_ptc-conformance"))
            .args([
                "run",
                "--profile",
                profile,
                "--url",
                &format!("http://{address}/here"),
            ])
            .output()
            .expect("the harness starts");
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!(
            "POST http://{address}/here answered 501 text/html;charset=utf-8; expected 200 with application/json or text/event-stream; is /here the right path?"
        );
        assert_eq!(told.matches(&expected).count(), 1, "{told}");
    }
}

#[test]
fn run_without_cases_reports_that_it_cannot_run() {
    let seen = check(&scripted("none"), &["--filter", "nothing.*"]);
    assert_eq!(seen.status, Some(2), "{}", seen.output);
}

#[test]
fn rerun_command_of_a_report_works() {
    let seen = check(&scripted("chatty"), &[]);
    let run = seen.run.expect("a report was written");
    let rerun = run.cases[0]
        .rerun
        .as_deref()
        .expect("a failed case can be rerun");
    assert!(rerun.contains(&run.cases[0].id), "{rerun}");
    assert!(rerun.contains("--stdio"), "{rerun}");
}
