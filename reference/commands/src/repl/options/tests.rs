//! The help, and arguments parsed as flags.

use super::*;

fn check(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    match read(&words, |_| None) {
        Ok(ReplRequest::Help(_)) => "help".into(),
        Ok(ReplRequest::Run(options)) => format!(
            "{:?} {:?} {:?} {}ms {:?}",
            options.expressions,
            options.script,
            options.display,
            options.timeout.as_millis(),
            options.snapshot
        ),
        Err(message) => message,
    }
}

#[test]
fn help_describes_each_flag() {
    let text = help();
    for flag in FLAGS {
        let (_, doc) = flag.texts();
        assert!(!doc.is_empty() && text.contains(doc), "{}", flag.name);
    }
    assert!(text.contains("--max-tool-calls N\n"), "{text}");
    assert!(
        text.contains("Default: 1000; 10000 with upstreams\n"),
        "{text}"
    );
}

#[test]
fn command_lines() {
    for (words, expected) in [
        (
            &["-e", "1", "--eval=2"][..],
            "[\"1\", \"2\"] None Value 1000ms Live",
        ),
        (&["-"], "[] Some(\"-\") Value 1000ms Live"),
        (
            &["--display", "json", "--program-timeout-ms", "7", "f.clj"],
            "[] Some(\"f.clj\") Json 7ms Live",
        ),
        (
            &[
                "--upstreams-config",
                "u.json",
                "--catalog-snapshot-mode=frozen",
            ],
            "[] None Value 10000ms Frozen",
        ),
        (&["-h"], "help"),
        (
            &["--max-tool-calls", "0"],
            "--max-tool-calls must be a positive integer, got: \"0\"",
        ),
        (
            &["--max-tool-cals", "3"],
            "unknown flag --max-tool-cals; did you mean --max-tool-calls?",
        ),
        (
            &["--display", "xml"],
            "--display must be one of value, envelope, json, got: \"xml\"",
        ),
        (&["a", "b"], "one FILE at most, found b too"),
    ] {
        assert_eq!(check(words), expected, "{words:?}");
    }
}
