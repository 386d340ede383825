//! Words and variables in, values or messages out.

use super::*;

fn values(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Values, String> {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let (values, fault) = Values::read(&arguments, |name| {
        let found = environment.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    });
    fault.map_or(Ok(values), |fault| Err(fault.to_string()))
}

const PROGRAM_ENV: &str = "PTC_RUNNER_MCP_MAX_PROGRAM_BYTES";

fn draft(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Draft, String> {
    let values = values(arguments, environment)?;
    let mut draft = Draft::default();
    for flag in FLAGS {
        let warning = values
            .take(flag, &mut draft)
            .map_err(|fault| fault.to_string())?;
        draft.settings.warnings.extend(warning);
    }
    Ok(draft)
}

#[test]
fn flag_overrides_environment_and_last_flag_wins() {
    let program_bytes = |arguments: &[&str], environment: &[(&str, &str)]| {
        draft(arguments, environment).map(|draft| draft.settings.program_bytes)
    };
    let twice = ["--max-program-bytes", "5", "--max-program-bytes=6"];
    assert_eq!(program_bytes(&twice, &[(PROGRAM_ENV, "bad")]), Ok(6));
    let empty = ["--max-program-bytes="];
    assert_eq!(program_bytes(&empty, &[(PROGRAM_ENV, " +50 ")]), Ok(50));
    assert_eq!(program_bytes(&[], &[]), Ok(64 << 10));
}

#[test]
fn bad_integer_names_flag_variable_and_value() {
    for bad in ["abc", "0", "-5", "1.5", "10abc", "5_000", "0x10", "  "] {
        let error = draft(&["--max-program-bytes", bad], &[]).err();
        assert_eq!(
            error.unwrap(),
            format!("--max-program-bytes / {PROGRAM_ENV} must be a positive integer, got: {bad:?}")
        );
    }
}

#[test]
fn booleans_are_parsed() {
    for (arguments, expected) in [
        (vec!["--sessions"], true),
        (vec!["--sessions", "--no-sessions"], false),
        (vec!["--sessions= ON "], true),
        (vec!["--sessions=0"], false),
        (vec!["--sessions=maybe"], false),
        (vec![], false),
    ] {
        let draft = draft(&arguments, &[]).unwrap();
        assert_eq!(draft.settings.sessions.enabled, expected);
    }
}

#[test]
fn unknown_flag_is_rejected_with_a_hint() {
    let refused = |arguments: &[&str]| values(arguments, &[]).err().unwrap();
    assert_eq!(
        refused(&["--max-frame-byte", "5"]),
        "unknown flag --max-frame-byte. Did you mean --max-frame-bytes?"
    );
    assert!(refused(&["stray"]).starts_with("unexpected argument \"stray\""));
    assert!(refused(&["--"]).starts_with("unexpected argument"));
    assert!(refused(&["--log-level"]).contains("needs a value"));
    assert!(refused(&["--no-log-level"]).contains("unknown flag"));
}

#[test]
fn numbers_are_clamped_and_lists_are_split() {
    let read = draft(
        &[
            "--debug-ring-size=20x",
            "--http-allowed-origin",
            "a, b",
            "--http-allowed-origin=c",
        ],
        &[("PTC_RUNNER_MCP_HTTP_ALLOWED_ORIGIN", "d,,")],
    )
    .unwrap();
    assert_eq!(read.settings.diagnostics.ring_size, 20);
    assert_eq!(read.origins, ["a", "b", "c", "d"]);
    let read = draft(&["--debug-ring-size=1"], &[]).unwrap();
    assert_eq!(read.settings.diagnostics.ring_size, 10);
    assert!(matches!(
        read.settings.warnings[..],
        [Warning::Clamped {
            requested: 1,
            used: 10,
            ..
        }]
    ));
}

#[test]
fn http_numbers_are_checked_only_with_http() {
    let port = |arguments: &[&str]| draft(arguments, &[]).map(|draft| draft.http.port);
    assert_eq!(port(&["--http-port=x"]), Ok(7332));
    assert!(port(&["--http", "--http-port=x"]).is_err());
    assert_eq!(port(&["--http", "--http-port="]), Ok(7332));
    assert!(draft(&["--http", "--http-max-sessions="], &[]).is_err());
}

#[test]
fn env_file_lines_are_parsed() {
    let lines = env_lines("# c\nA=1\n B = \"two words\" \nnot a line\nC='x'\n");
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (
            lines["A"].as_str(),
            lines["B"].as_str(),
            lines["C"].as_str()
        ),
        ("1", "two words", "x")
    );
}
