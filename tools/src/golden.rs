//! The golden files: recorded facts about our implementation, so that changes are noticed.
//! Knows how each is rendered, not when; they prove only that nothing changed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use conformance::suite::Suite;
use conformance::target::reference::cargo;
use serde_json::Value;

use crate::coverage::Coverage;
use anyhow::{Context, Error, Result, bail};

/// The variable that names the server's executable if it is already built; otherwise cargo builds one.
const BINARY: &str = "TOUCHSTONE_PTC";

/// One file below `golden/`.
pub struct Golden {
    pub name: &'static str,
    pub render: fn(&Suite) -> Result<String>,
}

/// Files that take too long to be rendered each time: `cargo tool mutants --table` writes them.
pub const RARELY_RENDERED: &[&str] = &["mutants.md"];

pub const FILES: &[Golden] = &[
    Golden {
        name: "builtins.md",
        render: builtins,
    },
    Golden {
        name: "coverage.md",
        render: |suite| Ok(Coverage::of(suite)?.counts()),
    },
    Golden {
        name: "help.txt",
        render: |_| ptc(&["help"], ""),
    },
    Golden {
        name: "settings.md",
        render: |_| ptc(&["docs"], ""),
    },
    Golden {
        name: "start-help.txt",
        render: |_| ptc(&["start", "--help"], ""),
    },
    Golden {
        name: "tools-list.json",
        render: |_| tools_list(&[]),
    },
    Golden {
        name: "tools-list-sessions-debug.json",
        render: |_| tools_list(&["--sessions", "--debug-tool"]),
    },
];

fn builtins(_: &Suite) -> Result<String> {
    let mut text = String::from(
        "# Builtins and special forms\n\nWritten by `cargo tool bless`.\n\n\
         | Name | Id | Called | What it does |\n|---|---|---|---|\n",
    );
    let cell = |text: &str| text.replace('|', "\\|");
    for form in ptc_lang::special_forms() {
        let (name, id, doc) = (cell(form.name), form.id, cell(form.doc));
        let _infallible = writeln!(text, "| `{name}` | {id} | `{}` | {doc} |", form.signature);
    }
    for builtin in ptc_lang::builtins() {
        let (name, id, doc) = (cell(builtin.name), builtin.id, cell(builtin.doc));
        let called = cell(builtin.signatures);
        let _infallible = writeln!(text, "| `{name}` | {id} | `{called}` | {doc} |");
    }
    Ok(text)
}

/// The server's tools when it is started with `flags`.
fn tools_list(flags: &[&str]) -> Result<String> {
    let mut arguments = vec!["start", "--log-level", "error"];
    arguments.extend(flags);
    let answered = ptc(
        &arguments,
        concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"golden","version":"1"}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
            "\n",
        ),
    )?;
    let list = answered
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|frame| frame["id"] == 2)
        .with_context(|| format!("ptc {arguments:?} did not answer tools/list: {answered}"))?;
    serde_json::to_string_pretty(&list["result"])
        .map(|text| text + "\n")
        .map_err(Error::from)
}

/// The standard output of `ptc`, run without settings in its environment.
fn ptc(arguments: &[&str], input: &str) -> Result<String> {
    let place = format!("ptc {}", arguments.join(" "));
    let mut command = match std::env::var_os(BINARY) {
        Some(binary) => Command::new(binary),
        None => {
            let mut command = cargo();
            command.args(["run", "--quiet", "-p", "ptc", "--"]);
            command
        }
    };
    command
        .args(arguments)
        .current_dir(crate::root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PTC_RUNNER_MCP_") {
            command.env_remove(name);
        }
    }
    let mut child = command.spawn().with_context(|| place.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(input.as_bytes())
            .with_context(|| place.to_string())?;
    }
    let output = child
        .wait_with_output()
        .with_context(|| place.to_string())?;
    if !output.status.success() {
        bail!("ptc {}: {}", arguments.join(" "), output.status);
    }
    String::from_utf8(output.stdout).map_err(Error::from)
}
