//! A peer on standard input and output. Each call is answered on a thread of its own, so that slow ones overlap.

use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::PeerFiles;
use super::barriers::CallBarriers;
use super::mcp::{Reaction, react};
use super::script::{Action, Script};

/// Runs until standard input ends.
pub(super) fn play(mut script: Script, files: PeerFiles) {
    let out = Arc::new(Mutex::new(std::io::stdout()));
    let barriers = CallBarriers::default();
    for line in &script.stderr {
        eprintln!("{line}");
    }
    for line in &script.banner {
        write(&out, line);
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        files.received(&line);
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let Reaction::Do { action, answer } = react(&mut script, &message, None) else {
            continue;
        };
        if action.close_input {
            std::thread::park();
        }
        let (out, barriers) = (Arc::clone(&out), barriers.clone());
        let work = move || {
            barriers.wait(action.together);
            run_action(&action, answer.as_ref(), &out);
        };
        std::thread::spawn(work);
    }
}

fn run_action(action: &Action, answer: Option<&Value>, out: &Mutex<std::io::Stdout>) {
    std::thread::sleep(Duration::from_millis(action.delay_ms));
    for line in &action.before {
        write(out, line);
    }
    if let Some(status) = action.exit {
        std::process::exit(status);
    }
    if let Some(raw) = &action.raw {
        write(out, raw);
    }
    if let Some(answer) = answer {
        let line = answer.to_string();
        write(out, &line);
        if action.twice {
            write(out, &line);
        }
    }
}

fn write(out: &Mutex<std::io::Stdout>, line: &str) {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    // If the reader is gone, this process ends through its standard input.
    let _ = out
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| out.flush());
}
