//! A check function for hostile input, driven by fuzzers and by seeded tests. It panics when a promise is broken.

use super::{settings, threadless_server};
use crate::settings::Origin;
use crate::transport::http::accept::{ConnectionLimits, Peer, serve_connection};
use crate::transport::http::endpoint::Endpoint;
use crate::transport::http::permits::ConnectionPermits;
use crate::transport::http::router::router;
use axum::extract::Request;
use axum::response::Response;
use ptc_secrets::Redactor;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::util::BoxCloneService;

use crate::transport::http::bearer::{Bearer, bearer};
use crate::transport::http::body::is_json;
use crate::transport::http::host::is_loopback_authority;
use crate::transport::http::origin::OriginRule;
use ptc_secrets::Secret;

/// Checks any bytes as an HTTP request: see [`check_guards`] for the claims of its fields, and [`requests`] for its framing.
pub fn http(bytes: &[u8]) {
    requests(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    check_guards(text);
    for line in text.split("\r\n") {
        if let Some((_, value)) = line.split_once(':') {
            check_guards(value.trim());
        }
    }
}

/// Checks any text as an authority, an origin, a media type or a token: nothing that a client would resolve elsewhere counts as this
/// machine, an allow-list admits nothing else, and only the token is the token.
fn check_guards(text: &str) {
    if is_loopback_authority(text) {
        let host = text.strip_prefix('[').map_or_else(
            || text.split(':').next().unwrap_or_default(),
            |rest| rest.split(']').next().unwrap_or_default(),
        );
        let numbers = host.split('.').all(|part| part.parse::<u8>().is_ok());
        let here = match host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            // Short forms such as `127.1` are numbers, too.
            Err(_) => host == "localhost" || (numbers && host.starts_with("127.")),
        };
        assert!(here, "{text:?} counts as this machine");
    }
    let rule = OriginRule::new(
        &[Origin::listed("https://app.example").expect("it is one")],
        true,
    );
    if rule.permits(text) {
        let lower = text.trim().to_lowercase();
        let rest = lower
            .strip_prefix("https://app.example")
            .expect("only the listed origin is permitted");
        let rest = rest.strip_prefix(":443").unwrap_or(rest);
        assert!(
            rest.is_empty() || rest.starts_with(['/', '?', '#']),
            "{text:?} is permitted"
        );
    }
    if OriginRule::new(&[], true).permits(text) {
        // Nothing after the authority names a host.
        let authority = text.split("//").nth(1).unwrap_or_default();
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        assert!(!authority.contains('@'), "{text:?} hides its host");
    }
    if is_json(text) {
        let kind = text.split(';').next().unwrap_or_default().to_lowercase();
        assert!(kind.contains("json"), "{text:?} counts as JSON");
    }
    let token = Secret::new("token-of-this-server".to_owned());
    let right = matches!(bearer(&token, [text.as_bytes()].into_iter()), Bearer::Right);
    let said = text.split_whitespace().last().unwrap_or_default();
    assert!(
        !right || said == "token-of-this-server",
        "{text:?} counts as the token"
    );
}

/// Checks the real router behind the real HTTP library: how requests are split into packets does not change the answers, only how many
/// there are; where two parsers would disagree on the framing, nothing more is answered; and without the token nobody is admitted.
fn requests(bytes: &[u8]) {
    let whole = answers(bytes, usize::MAX);
    for pieces_of in [1, 7] {
        let cut = answers(bytes, pieces_of);
        // An unwanted body is skipped if it has arrived already; otherwise the connection ends.
        let same = whole.starts_with(&cut) || cut.starts_with(&whole);
        assert!(same, "{whole:?}, and {cut:?} in pieces of {pieces_of}");
    }
    let [lax, odd] = [FramingRules::LAX_RULES, FramingRules::ODD_RULES]
        .map(|reading| reading.request_ends(bytes));
    let agreed = lax.iter().zip(&odd).take_while(|(lax, odd)| lax == odd);
    let agreed = agreed.count();
    assert!(
        whole.len() <= agreed + 1,
        "{whole:?}, though two parsers agree on {agreed} only"
    );
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(TOKEN) && !text.contains("/health") && !text.contains("/ready") {
        // Browsers send preflights without credentials. The answer only lists what a page may send.
        let is_preflight = |status: u16| status == 204 && text.contains("OPTIONS");
        let let_in = whole
            .iter()
            .find(|status| **status < 400 && !is_preflight(**status));
        assert_eq!(let_in, None, "without the token");
    }
}

const TOKEN: &str = "token-of-the-fuzzed-http-server-0";

/// A router with a runtime whose clock advances when nothing else happens.
struct FuzzedServer {
    executor: tokio::runtime::Runtime,
    router: BoxCloneService<Request, Response, Infallible>,
    limits: Arc<ConnectionLimits>,
}

impl FuzzedServer {
    fn new() -> Self {
        let executor = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let flags = [
            "--http",
            "--http-metrics",
            "--http-auth-rate-limit=false",
            &format!("--http-auth-token={TOKEN}"),
        ];
        let settings = settings(&flags.map(str::to_owned));
        let http = settings.http.clone().expect("it serves HTTP");
        let server = threadless_server(settings, Redactor::empty(), None);
        let endpoint = Arc::new(Endpoint::new(server, http));
        FuzzedServer {
            executor,
            limits: Arc::new(endpoint.limits()),
            router: BoxCloneService::new(router(endpoint)),
        }
    }
}

/// The statuses of all answers to bytes that arrive in pieces of this size.
fn answers(bytes: &[u8], pieces_of: usize) -> Vec<u16> {
    thread_local! {
        static FUZZED: FuzzedServer = FuzzedServer::new();
    }
    FUZZED.with(|fuzzed| {
        fuzzed.executor.block_on(async {
            let room = 1 << 20;
            let (mut ours, theirs) = tokio::io::duplex(room);
            let peer = Arc::new(Peer {
                address: ([127, 0, 0, 1], 1).into(),
                permit: ConnectionPermits::new(1, 1).enter(None),
                activity: Arc::default(),
            });
            let (_serving, end) = tokio::sync::watch::channel(false);
            let served = serve_connection(
                fuzzed.router.clone(),
                theirs,
                peer,
                fuzzed.limits.clone(),
                end,
            );
            let asking = async {
                for piece in bytes.chunks(pieces_of) {
                    if ours.write_all(piece).await.is_err() {
                        break;
                    }
                    run_until_idle().await;
                }
                run_until_idle().await;
                // The connection may have ended before.
                let _ = ours.shutdown().await;
                let mut answered = Vec::new();
                let _ = ours.read_to_end(&mut answered).await;
                answered
            };
            let ((), answered) = tokio::join!(served, asking);
            let text = String::from_utf8_lossy(&answered);
            let heads = text.split("HTTP/1.").skip(1);
            let statuses = heads.filter_map(|head| head.get(2..5)?.parse().ok());
            statuses.filter(|status| *status != 100).collect()
        })
    })
}

/// Lets the other side do everything that it can.
async fn run_until_idle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

/// How a careless parser frames requests. Request smuggling exploits the differences between such parsers.
struct FramingRules {
    /// Whether the first of several lengths counts, or the last.
    first_length: bool,
    /// Whether chunked coding takes precedence over a length.
    chunks_first: bool,
    /// Whether any transfer coding that mentions chunks means chunks, or only that exact word.
    any_coding: bool,
}

impl FramingRules {
    const LAX_RULES: FramingRules = FramingRules {
        first_length: true,
        chunks_first: true,
        any_coding: true,
    };
    const ODD_RULES: FramingRules = FramingRules {
        first_length: false,
        chunks_first: false,
        any_coding: false,
    };

    /// Where each complete request ends.
    fn request_ends(&self, bytes: &[u8]) -> Vec<usize> {
        let (mut at, mut ends) = (0, Vec::new());
        while let Some(end) = self.request(bytes, at) {
            ends.push(end);
            at = end;
        }
        ends
    }

    fn request(&self, bytes: &[u8], mut at: usize) -> Option<usize> {
        while bytes.get(at..)?.starts_with(b"\r\n") {
            at += 2;
        }
        let fields = self.lines(bytes, &mut at)?;
        let values = |wanted: &str| {
            let named = |line: &String| {
                let (name, value) = line.split_once(':')?;
                let same = name.trim().eq_ignore_ascii_case(wanted);
                same.then(|| value.trim().to_ascii_lowercase())
            };
            // The first line is the request line, whatever it contains.
            fields.iter().skip(1).filter_map(named).collect::<Vec<_>>()
        };
        let lengths = values("content-length");
        let length = match self.first_length {
            true => lengths.first(),
            false => lengths.last(),
        };
        let codings = values("transfer-encoding");
        let chunked = codings.iter().any(|coding| match self.any_coding {
            true => coding.contains("chunked"),
            false => coding == "chunked",
        });
        if chunked && (self.chunks_first || length.is_none()) {
            return self.chunks(bytes, at);
        }
        let length: u64 = length.map_or(Some(0), |length| length.parse().ok())?;
        let end = at.checked_add(usize::try_from(length).ok()?)?;
        (end <= bytes.len()).then_some(end)
    }

    fn chunks(&self, bytes: &[u8], mut at: usize) -> Option<usize> {
        loop {
            let line = self.line(bytes, &mut at)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).ok()?;
            if size == 0 {
                self.lines(bytes, &mut at)?;
                return Some(at);
            }
            at = at.checked_add(size)?;
            self.line(bytes, &mut at)?;
        }
    }

    /// The lines before an empty one.
    fn lines(&self, bytes: &[u8], at: &mut usize) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let line = self.line(bytes, at)?;
            if line.is_empty() {
                return Some(lines);
            }
            lines.push(line);
        }
    }

    fn line(&self, bytes: &[u8], at: &mut usize) -> Option<String> {
        let rest = bytes.get(*at..)?;
        // A recipient may accept a single line feed as a line end (RFC 9112, 2.2), so this does not count as a difference.
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        *at += end + 1;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        Some(line.strip_suffix('\r').unwrap_or(&line).to_owned())
    }
}

#[cfg(test)]
mod tests;
