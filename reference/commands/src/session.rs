//! `ptc session`: lists, shows, exports and deletes sessions of the store that is given by the flags of `ptc start`.
//!
//! [`Settings::read`] reads these flags, because rows of its own would be a second list of the settings; only `--unscrubbed` is new.

use crate::start::{refusal_message, secrets_named_in};
use crate::{environment, fail, open_private_file, print, replace_private_file, wants_help};
use ptc_lang::visible::is_nonprinting;
use ptc_secrets::{ConfigFault, Redactor, SCRUB_TIME_MAX, Secret};
use ptc_server::clock;
use ptc_server::redact;
use ptc_server::settings::{Level, Settings, flags};
use ptc_server::start;
use ptc_server::upstreams;
use ptc_server::{ListedSession, SessionError, SharedSessions};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
Usage: ptc session list --session-store URL
       ptc session show ID --session-store URL
       ptc session export ID [FILE] --session-store URL
       ptc session delete ID --session-store URL

list prints the live sessions of a store; show prints the definitions of one session. export writes its definitions as a snapshot for
`ptc repl --session FILE`, to standard output without FILE. delete closes a session; the result of a program running in it is lost.
Reading a session counts as use and restarts its idle timeout.

Takes --session-store, --session-store-key-file and --upstreams-config, and their environment variables, as `ptc start` does.
list and show scrub the credentials in these settings, and refuse to run if the upstreams config can't be read. With --unscrubbed they
run all the same, and may show credentials. A snapshot is not scrubbed: protect it like a credential.
";

/// Runs the command with the arguments after `session`.
pub fn main(arguments: &[String]) -> ExitCode {
    if wants_help(arguments) {
        return print(USAGE);
    }
    match run(arguments) {
        Ok(bytes) => print(bytes),
        Err(message) => fail(message),
    }
}

/// The requested operation.
enum SessionRequest<'a> {
    List,
    Show(&'a str),
    Export(&'a str, Option<&'a str>),
    Delete(&'a str),
}

/// Why the command fails.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(
        "{usage}\nERROR: expected list, show ID, export ID [FILE] or delete ID, found: {found}",
        usage = USAGE
    )]
    Request { found: String },
    #[error(
        "{0}\nSo credentials of upstream servers can't be kept out of what is shown; --unscrubbed shows it all the same"
    )]
    UnknownSecrets(ConfigFault),
    #[error("{}", .0.message())]
    Session(SessionError),
    #[error("the store has no live session {id}")]
    NoSession { id: String },
    #[error("cannot write {path}: {error}")]
    Write { path: String, error: std::io::Error },
}

impl From<SessionError> for CommandError {
    fn from(refused: SessionError) -> Self {
        CommandError::Session(refused)
    }
}

fn parse_arguments<'a>(words: &[&'a str]) -> Result<SessionRequest<'a>, CommandError> {
    Ok(match *words {
        ["list"] => SessionRequest::List,
        ["show", id] => SessionRequest::Show(id),
        ["export", id] => SessionRequest::Export(id, None),
        ["export", id, file] => SessionRequest::Export(id, Some(file)),
        ["delete", id] => SessionRequest::Delete(id),
        _ => {
            let found = match words.is_empty() {
                true => "none before the flags".to_owned(),
                false => words.join(" "),
            };
            return Err(CommandError::Request { found });
        }
    })
}

/// Returns the output, or why the command fails, with secrets scrubbed.
fn run(arguments: &[String]) -> Result<Vec<u8>, String> {
    let flags = arguments.iter().position(|word| word.starts_with("--"));
    let (words, flags) = arguments.split_at(flags.unwrap_or(arguments.len()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let wanted = parse_arguments(&words).map_err(|error| {
        let read = Settings::read(flags, environment);
        let settings = read.unwrap_or_else(|refused| *refused.settings);
        let told = secrets_named_in(&settings).scrub(error.to_string());
        told.into_inner()
    })?;
    let shows = matches!(wanted, SessionRequest::List | SessionRequest::Show(_));
    let (unscrubbed, flags): (Vec<String>, Vec<String>) = flags
        .iter()
        .cloned()
        .partition(|word| shows && word == "--unscrubbed");
    let settings = Settings::read(&flags, environment).map_err(refusal_message)?;
    let redactor =
        redactor(&settings, shows && unscrubbed.is_empty()).map_err(|error| error.to_string())?;
    ptc_server::install_diagnostics(Level::Error, &redactor);
    let clean = |message: String| redactor.scrub(message).into_inner();
    // A look at a store does not make it.
    if SharedSessions::is_unmade(&settings.sessions) {
        return match wanted {
            SessionRequest::List => Ok(list_head().into_bytes()),
            SessionRequest::Show(id)
            | SessionRequest::Export(id, _)
            | SessionRequest::Delete(id) => {
                let id = id.to_owned();
                Err(clean(CommandError::NoSession { id }.to_string()))
            }
        };
    }
    let opened = SharedSessions::open(&settings.sessions, Duration::ZERO)
        .map_err(|fault| clean(fault.to_string()))?;
    let store = opened.ok_or("which store: --session-store file:DIR or redis://HOST:PORT")?;
    serve(&wanted, &store, &redactor).map_err(|error| clean(error.to_string()))
}

/// The output of the requested operation.
fn serve(
    wanted: &SessionRequest<'_>,
    store: &SharedSessions,
    redactor: &Redactor,
) -> Result<Vec<u8>, CommandError> {
    let shown = |text: String| redactor.scrub(text).into_inner().into_bytes();
    let find = |id: &str| {
        let all = store.list_all()?;
        let found = all.into_iter().find(|listed| listed.head.id == id);
        found.ok_or_else(|| CommandError::NoSession { id: id.to_owned() })
    };
    match *wanted {
        SessionRequest::List => {
            let all = store.list_all()?;
            let mut text = list_head();
            text.extend(all.iter().map(|listed| row(listed, redactor)));
            Ok(shown(text))
        }
        SessionRequest::Show(id) => {
            let listed = find(id)?;
            let env = store.env_of(&listed)?;
            let mut text = row(&listed, redactor);
            for (name, value, _) in env.definitions() {
                let redactor = redactor.with_time_limit(SCRUB_TIME_MAX);
                let value = redact::value(value, &redactor);
                let value = ptc_lang::print::preview(&value, SHOWN_ITEMS, SHOWN_CHARS);
                text.push_str(&format!("{name} = {value}\n"));
            }
            Ok(shown(text))
        }
        SessionRequest::Export(id, file) => {
            let listed = find(id)?;
            let bytes = store.export(&listed)?;
            match file {
                None => Ok(bytes),
                Some(path) => write_snapshot(path, &bytes)
                    .map(|()| Vec::new())
                    .map_err(|error| CommandError::Write {
                        path: path.to_owned(),
                        error,
                    }),
            }
        }
        SessionRequest::Delete(id) => {
            let listed = find(id)?;
            store.delete(&listed)?;
            Ok(format!("closed {id}\n").into_bytes())
        }
    }
}

/// Writes a snapshot to a file, or to an existing device or pipe.
fn write_snapshot(path: &str, bytes: &[u8]) -> std::io::Result<()> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => open_private_file(path)?.write_all(bytes),
        _ => replace_private_file(path, bytes),
    }
}

/// A redactor for what a server with these settings would not show, as far as it is known here; with `whole`, all of it
/// must be known.
fn redactor(settings: &Settings, whole: bool) -> Result<Redactor, CommandError> {
    let mut secrets = start::secrets(settings);
    let token = flags::find("http-auth-token").and_then(|flag| environment(&flag.env()));
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        secrets.add(&Secret::new(token));
    }
    let Some(path) = upstreams::config_path(settings) else {
        return Ok(secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX));
    };
    match upstreams::read(&path, settings, &mut secrets) {
        Ok(_) => Ok(secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX)),
        Err(fault) if whole => Err(CommandError::UnknownSecrets(fault)),
        // The secrets that were read before the fault are known.
        Err(_) => Ok(secrets.build().with_time_limit_per_text(SCRUB_TIME_MAX)),
    }
}

/// Maximum items and characters shown of a value.
const SHOWN_ITEMS: usize = 10;
const SHOWN_CHARS: usize = 200;

fn list_head() -> String {
    format!(
        "{:<29} {:>5} {:>8} {:>10} {:<8} {:<27} title\n",
        "id", "turn", "bindings", "bytes", "status", "last used"
    )
}

fn row(listed: &ListedSession, redactor: &Redactor) -> String {
    let head = &listed.head;
    format!(
        "{:<29} {:>5} {:>8} {:>10} {:<8} {:<27} {}\n",
        head.id,
        head.turn,
        head.bindings,
        head.memory_bytes,
        if listed.record.running {
            "running"
        } else {
            "idle"
        },
        clock::text(listed.record.times.used),
        printable(&redactor.scrub_str(head.title.as_deref().unwrap_or_default())),
    )
}

/// A client chooses the title: it must not move the cursor or add lines. It was scrubbed before, since a secret may contain
/// line ends.
fn printable(title: &str) -> String {
    title
        .chars()
        .map(|c| if is_nonprinting(c) { ' ' } else { c })
        .collect()
}
