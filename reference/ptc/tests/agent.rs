//! `ptc agent run` on the example that the README tells people to run.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

use std::process::Command;

#[test]
fn the_example_plays_and_shows_its_transcript() {
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
