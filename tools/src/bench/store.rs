//! Measures the extra cost of a turn in a session that is stored in Redis on the same machine, compared with one in memory: over standard
//! streams, and over HTTP in a session of the protocol. The two servers answer alternately, so that other load on the machine affects both.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use conformance::target::link::free_port;

use super::http;
use super::row::{Row, median_of};
use super::stdio::{INITIALIZE, INITIALIZED, StdioServer};
use anyhow::{Context, Error, Result, bail};

/// Number of turns with each store, after a tenth as many for warm-up.
const TURNS: usize = 2_000;
/// Target for the extra time of the median turn.
const EXTRA: Duration = Duration::from_micros(300);
const START: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"lisp_session_start","arguments":{}}}"#;

/// Measures the server that `command` starts; returns no rows if redis-server is not installed.
pub(super) fn measure(command: &[String]) -> Result<Vec<Row>> {
    let Some((_redis, url)) = redis()? else {
        crate::write_stdout("sessions in Redis: not measured, redis-server is not installed\n");
        return Ok(Vec::new());
    };
    let with = |flags: &[&str], store: &str| {
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let store = ["--sessions", "--session-store", store].map(str::to_owned);
        [command.to_vec(), flags.collect(), store.to_vec()].concat()
    };
    let stdio = |store: &str| {
        let mut peer = StdioServer::start(&with(&[], store))?;
        peer.ask(INITIALIZE)?;
        peer.send(INITIALIZED)?;
        let turn = turn(peer.ask(START)?)?;
        Ok::<_, Error>((peer, turn))
    };
    let (mut near, mut far) = (stdio("memory:")?, stdio(&url)?);
    let over_stdio = paired_medians(
        || check_answer(near.0.ask(&near.1)?),
        || check_answer(far.0.ask(&far.1)?),
    )?;
    let listening = |store: &str| {
        let (server, port) = http::start_http(&with(&[], store), "thread")?;
        let mut session = http::HttpClient::open(port)?;
        let turn = turn(session.ask(START)?)?;
        Ok::<_, Error>((server, session, turn))
    };
    let (mut near, mut far) = (listening("memory:")?, listening(&url)?);
    let over_http = paired_medians(
        || check_answer(near.1.ask(&near.2)?),
        || check_answer(far.1.ask(&far.2)?),
    )?;
    Ok([("stdio", over_stdio), ("http", over_http)]
        .map(|(way, (near, far))| {
            Row::time(
                format!("{way}: (+ 1 2) in a session in Redis, beyond {near:.0?} in memory"),
                far.saturating_sub(near),
                EXTRA,
            )
        })
        .into())
}

/// The request for a turn in the session that an answer names.
fn turn(answer: &str) -> Result<String> {
    let named = answer.split_once("\"session_id\":\"");
    let id = named.and_then(|(_, rest)| rest.split('"').next());
    let id = id.with_context(|| format!("no session: {answer}"))?;
    Ok(format!(
        r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"lisp_session_eval","arguments":{{"session_id":"{id}","program":"(+ 1 2)"}}}}}}"#
    ))
}

fn check_answer(answer: &str) -> Result<()> {
    match answer.contains("user=> 3") {
        true => Ok(()),
        false => bail!("no answer to (+ 1 2): {answer}"),
    }
}

/// The medians of both, which are called alternately.
fn paired_medians(
    mut near: impl FnMut() -> Result<()>,
    mut far: impl FnMut() -> Result<()>,
) -> Result<(Duration, Duration)> {
    let mut times = [Vec::with_capacity(TURNS), Vec::with_capacity(TURNS)];
    for at in 0..TURNS + TURNS / 10 {
        let began = Instant::now();
        near()?;
        let between = Instant::now();
        far()?;
        if at >= TURNS / 10 {
            times[0].push(between - began);
            times[1].push(between.elapsed());
        }
    }
    let [near, far] = times;
    Ok((median_of(near), median_of(far)))
}

/// A process that is killed when dropped.
struct Redis(Child);

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have exited already.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Starts a Redis that answers, and returns it with its URL; `None` if it is not installed.
fn redis() -> Result<Option<(Redis, String)>> {
    let number = free_port().context("no port is free")?;
    let port = number.to_string();
    let started = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port, "--save", ""])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else {
        return Ok(None);
    };
    let mut redis = Redis(child);
    drop(http::connect(number)?);
    if let Ok(Some(status)) = redis.0.try_wait() {
        bail!("redis-server ended ({status}); another answers on port {port}");
    }
    Ok(Some((redis, format!("redis://127.0.0.1:{port}"))))
}
