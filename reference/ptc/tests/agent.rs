//! `ptc agent run` on the example that the README tells people to run, and the processes that its tools leave.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn example_agent_runs_and_prints_its_transcript() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/examples/error_count");
    let words = "agent run agent.toml --context context.json --replay replay.jsonl --transcript";
    let output = Command::new(env!("CARGO_BIN_EXE_ptc"))
        .args(words.split(' '))
        .current_dir(example)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let transcript = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said, "There were 1842 errors with code 42 in the queried window.\n",
        "{transcript}"
    );
    assert!(
        transcript.contains("result: user=> {:total 1842}"),
        "{transcript}"
    );
}

/// Three processes that only an uncatchable signal ends: the command, a child, and one that left its process group.
const FAMILY: &str = r#"
stubborn='trap "" TERM HUP INT; echo $$ >> pids; while :; do sleep 1000; done'
sh -c "$stubborn" &
setsid sh -c "$stubborn" &
eval "$stubborn"
"#;

/// Starts an agent whose only tool is that family, and waits until all its processes run.
fn start_family(home: &Path) -> std::process::Child {
    let words = serde_json::to_string(&["sh", "-c", FAMILY]).unwrap();
    let agent = format!("prompt = \"Go\"\n[[tools]]\nname = \"go\"\ncommand = {words}\n");
    std::fs::write(home.join("agent.toml"), agent).unwrap();
    let replay = concat!(
        r#"{"content":null,"tool_calls":[{"id":"c1","name":"go","args":{}}]}"#,
        "\n\"Done.\"\n"
    );
    std::fs::write(home.join("replay.jsonl"), replay).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_ptc"))
        .args("agent run agent.toml --replay replay.jsonl --transcript".split(' '))
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the family is there", || pids(home).len() == 3);
    run
}

fn pids(home: &Path) -> Vec<String> {
    let pids = std::fs::read_to_string(home.join("pids")).unwrap_or_default();
    pids.lines().map(str::to_owned).collect()
}

fn all_ended(home: &Path) -> bool {
    pids(home).iter().all(|id| {
        std::fs::read_to_string(format!("/proc/{id}/stat"))
            .is_ok_and(|stat| stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
            || !Path::new(&format!("/proc/{id}")).exists()
    })
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "not seen in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn slow_command_is_ended_with_its_descendants() {
    let home = tempfile::tempdir().unwrap();
    let run = start_family(home.path()).wait_with_output().unwrap();
    let told = String::from_utf8(run.stderr).unwrap();
    assert!(told.contains("the command took longer than 30 s"), "{told}");
    assert!(run.status.success(), "{told}");
    assert!(all_ended(home.path()), "{:?}", pids(home.path()));
}

#[test]
#[cfg(target_os = "linux")]
fn command_does_not_outlive_a_killed_run() {
    let home = tempfile::tempdir().unwrap();
    let mut run = start_family(home.path());
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("none of the family is left", || all_ended(home.path()));
}

/// The transcript of an agent that calls one tool, a command, once.
fn transcript_of_command(words: &[&str]) -> String {
    let words = serde_json::to_string(words).unwrap();
    let agent = format!("prompt = \"Go\"\n[[tools]]\nname = \"go\"\ncommand = {words}\n");
    let replay = concat!(
        r#"{"content":null,"tool_calls":[{"id":"c1","name":"go","args":{}}]}"#,
        "\n\"Done.\"\n"
    );
    transcript(&agent, replay)
}

fn transcript(agent: &str, replay: &str) -> String {
    let held = tempfile::tempdir().unwrap();
    std::fs::write(held.path().join("agent.toml"), agent).unwrap();
    std::fs::write(held.path().join("replay.jsonl"), replay).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ptc"))
        .args("agent run agent.toml --replay replay.jsonl --transcript".split(' '))
        .current_dir(held.path())
        .output()
        .unwrap();
    String::from_utf8(output.stderr).unwrap()
}

/// A command must receive signals that ask it to end. The mask is read from the kernel, because a shell would unblock blocked
/// signals itself.
#[test]
#[cfg(target_os = "linux")]
fn command_starts_with_no_blocked_signal() {
    let transcript = transcript_of_command(&["grep", "SigBlk", "/proc/self/status"]);
    // Eight bytes in hexadecimal.
    assert!(transcript.contains(&"0".repeat(16)), "{transcript}");
}

#[test]
fn command_with_too_much_output_is_an_error() {
    for command in ["head -c 70000000 /dev/zero; exit 0", "yes"] {
        let transcript = transcript_of_command(&["sh", "-c", command]);
        let (_, result) = transcript.split_once("result of c1").unwrap();
        assert!(result.contains("more than 67108864 bytes"), "{command}");
    }
    // The reason for the failure is at the beginning.
    let transcript = transcript_of_command(&["sh", "-c", "echo broken >&2; yes >&2; exit 1"]);
    assert!(transcript.contains("error: broken"), "{transcript}");
}

/// A model may write control characters, and names that look like other lines of the transcript.
#[test]
fn transcript_escapes_control_characters_of_the_model() {
    let replies = [
        serde_json::json!({"content": "\u{1b}[31mred\u{9b}1m\u{202e}\r", "tool_calls": [
            {"id": "c\nuser", "name": "go\nassistant\u{1b}[2J", "args": {}}]}),
        serde_json::json!("Done."),
    ];
    let replay: String = replies.iter().map(|reply| format!("{reply}\n")).collect();
    let transcript = transcript("prompt = \"Go\"\n", &replay);
    let obeyed = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
    assert!(!transcript.contains(obeyed), "{transcript:?}");
    assert!(transcript.contains("\\u{1b}[31mred"), "{transcript}");
    let speaks = |who: &str| transcript.lines().filter(|line| *line == who).count();
    assert_eq!(
        (speaks("user"), speaks("assistant")),
        (1, 2),
        "{transcript}"
    );
}

/// The peak memory of an agent whose model calls a tool `calls` times, with the answer `answer`.
#[cfg(target_os = "linux")]
fn most_held(answer: &str, calls: usize) -> u64 {
    let held = tempfile::tempdir().unwrap();
    std::fs::write(held.path().join("answer.json"), answer).unwrap();
    let agent = "prompt = \"Go\"\n[[tools]]\nname = \"go\"\ncommand = [\"cat\", \"answer.json\"]\n";
    std::fs::write(held.path().join("agent.toml"), agent).unwrap();
    let call = |id| serde_json::json!({"id": format!("c{id}"), "name": "go", "args": {}});
    let calls: Vec<_> = (0..calls).map(call).collect();
    let asked = serde_json::json!({"content": null, "tool_calls": calls});
    let replay = format!("{asked}\n\"Done.\"\n");
    std::fs::write(held.path().join("replay.jsonl"), replay).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptc"));
    command
        .args("agent run agent.toml --replay replay.jsonl".split(' '))
        .current_dir(held.path());
    let (mut run, _output) = support::spawn_piped(&mut command);
    let mut most = 0;
    while run.try_wait().unwrap().is_none() {
        most = most.max(support::memory(run.id(), "VmHWM").unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    most
}

/// Tools that the model calls are outside of programs, so no program's memory limit bounds their answers.
#[test]
#[cfg(target_os = "linux")]
fn native_tool_answers_take_bounded_memory() {
    const MOST_BYTES: u64 = 600 << 20;
    // Small as text, large as values, and larger as JSON again.
    let bytes = most_held(&format!("[{}1]", "[],".repeat(20_000_000)), 1);
    assert!(bytes < MOST_BYTES, "{bytes} bytes");
    // A run keeps all answers.
    let bytes = most_held(&"x".repeat(20_000_000), 40);
    assert!(bytes < MOST_BYTES, "{bytes} bytes");
}

/// A million brackets from a command, or in the arguments of a program's call, must not take a native stack of gigabytes.
#[test]
#[cfg(target_os = "linux")]
fn deep_results_and_arguments_take_bounded_memory() {
    let held = tempfile::tempdir().unwrap();
    let command = [
        "sh",
        "-c",
        "head -c 1000000 /dev/zero | tr '\\0' '['; head -c 1000000 /dev/zero | tr '\\0' ']'",
    ];
    let words = serde_json::to_string(&command).unwrap();
    let agent = format!("prompt = \"Go\"\n[[tools]]\nname = \"go\"\ncommand = {words}\n");
    std::fs::write(held.path().join("agent.toml"), agent).unwrap();
    let replay = "{\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"name\":\"go\",\"args\":{}}]}\n\"Done.\"\n";
    std::fs::write(held.path().join("replay.jsonl"), replay).unwrap();
    // Address space: the server's memory, and hundreds of megabytes that its threads reserve.
    let limit = "ulimit -v 1000000; exec \"$0\" agent run agent.toml --replay replay.jsonl";
    let output = Command::new("sh")
        .args(["-c", limit, env!("CARGO_BIN_EXE_ptc")])
        .current_dir(held.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Done.\n");
    let agent = "prompt = \"Go\"\nmax_heap_bytes = 100000000\n[[tools]]\nname = \"t\"\nexpose = \"both\"\nlisp = \"(fn [a] 1)\"\n";
    let call = |depth: u32| {
        let program = format!("(tool/t {{:x (reduce (fn [a _] [a]) 1 (range {depth}))}})");
        let args = serde_json::json!({ "program": program });
        let called = serde_json::json!({"content": null, "tool_calls": [{"id": "a", "name": "lisp_eval", "args": args}]});
        transcript(agent, &format!("{called}\n\"Done.\"\n"))
    };
    assert!(call(9_000).contains("user=> 1"));
    let told = call(50_000);
    let wanted = "its arguments are nested deeper than 10000 levels";
    assert!(told.contains(wanted), "{told}");
}
