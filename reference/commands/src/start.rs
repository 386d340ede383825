//! `ptc start`: reads the settings and runs the server. Its help and `ptc docs` are generated from the table of flags.

use crate::{environment, fail, print, wants_help};
use ptc_secrets::{Redactor, RedactorBuilder, SCRUB_TIME_MAX};
use ptc_server::settings::flags::{FLAGS, FlagKind, Group};
use ptc_server::settings::{Settings, SettingsError};
use ptc_server::{start, upstreams};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the command with the arguments after `start`.
pub fn main(arguments: &[String]) -> ExitCode {
    if wants_help(arguments) {
        return print(help());
    }
    let settings = match Settings::read(arguments, environment) {
        Ok(settings) => settings,
        Err(refused) => return fail(refusal_message(refused)),
    };
    match start::serve(settings) {
        // Threads of cancelled programs need not be waited for.
        Ok(()) => std::process::exit(0),
        Err(error) => fail(error),
    }
}

/// Why settings are refused, with secrets scrubbed.
pub fn refusal_message(refused: SettingsError) -> String {
    let secrets = secrets_named_in(&refused.settings);
    secrets.scrub(refused.to_string()).into_inner()
}

/// The secrets in refused settings and in the upstreams config that they name; messages about them must not show these.
pub fn secrets_named_in(settings: &Settings) -> Redactor {
    secrets_with_config(
        start::secrets(settings),
        upstreams::config_path(settings),
        settings,
    )
}

/// `secrets`, and those in the upstreams config that refused arguments name; messages about them must not show these.
pub fn secrets_with_config(
    mut secrets: RedactorBuilder,
    config: Option<PathBuf>,
    settings: &Settings,
) -> Redactor {
    if let Some(path) = config {
        // Problems in the config are reported once the arguments are accepted.
        upstreams::read(&path, settings, &mut secrets).ok();
    }
    secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX)
}

fn help() -> String {
    let mut text = String::from(
        "Usage: ptc start [FLAGS]\n\nServes MCP over stdio, or over HTTP with --http. A flag overrides its environment variable.\n\
         Booleans: --NAME, --no-NAME or --NAME=true.\n",
    );
    for group in Group::ALL {
        let _ = writeln!(text, "\n{}:", group.title());
        for flag in FLAGS.iter().filter(|flag| flag.group == group) {
            let _ = writeln!(text, "  --{}{}", flag.name, flag.kind.placeholder());
            let _ = writeln!(text, "      {}", flag.doc);
            if let FlagKind::OneOf(..)
            | FlagKind::OneOfOrDefault(..)
            | FlagKind::Clamped { .. }
            | FlagKind::Within { .. } = flag.kind
            {
                let _ = writeln!(text, "      Takes {}.", flag.kind.expected());
            }
            let mut default = flag.default_text();
            if default.is_empty() {
                default = "unset".into();
            }
            let _ = writeln!(
                text,
                "      Default: {default}. Environment: {}",
                flag.env()
            );
        }
    }
    text
}

/// Prints every setting as a Markdown table.
pub fn docs(_: &[String]) -> ExitCode {
    let mut text = String::new();
    for group in Group::ALL {
        let _ = writeln!(
            text,
            "### {}\n\n| Flag | Environment | Default | Meaning |\n|---|---|---|---|",
            group.title()
        );
        for flag in FLAGS.iter().filter(|flag| flag.group == group) {
            let _ = writeln!(
                text,
                "| `--{}` | `{}` | {} | {} |",
                flag.name,
                flag.env(),
                flag.default_text().replace('|', "\\|"),
                flag.doc.replace('|', "\\|")
            );
        }
        text.push('\n');
    }
    print(text)
}
