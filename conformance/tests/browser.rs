//! Tests the report's page in a real browser, wide and narrow, light and dark: it fits, it is readable, its filters work, and it loads
//! nothing. Also tests that the comparison page fits, and that a page from a permitted origin can call the reference
//! while one from another origin cannot. Needs Chromium: if `TOUCHSTONE_CHROMIUM` names one, it must exist; if nothing names one and none
//! is installed, the tests report that and prove nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use conformance::report::compare::difference;
use conformance::report::{CaseRecord, FORMAT, Finding, Run, Status, Transport, html, matrix};
use conformance::traffic::{Direction, Traffic};
use serde_json::Value;

/// The script that probes the loaded page. It posts its results to the surrounding page.
const PROBE: &str = r##"<script>
addEventListener("load", () => {
  const all = q => [...document.querySelectorAll(q)], rows = () => all("#cases details").length;
  const over = () => document.documentElement.scrollWidth - innerWidth;
  const told = { width: innerWidth, dark: matchMedia("(prefers-color-scheme: dark)").matches, failedFirst: rows(), overClosed: over() };
  all("details").forEach(d => { d.open = true; });
  setTimeout(() => {
    told.overOpen = over();
    told.shown = document.body.innerText;
    told.squares = all("[data-section]").length;
    const light = c => { const v = c.match(/[\d.]+/g).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const contrast = e => { const ink = light(getComputedStyle(e).color); return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05); };
    told.contrast = Math.min(...["body", ".soft", ".pass", ".fail", ".warning"].map(q => contrast(document.querySelector(q))));
    const chips = text => all("#chips button").find(b => b.textContent.includes(text));
    const search = text => { const box = document.getElementById("search"); box.value = text; box.dispatchEvent(new Event("input")); };
    chips("failed").click(); chips("flaky").click(); told.everything = rows();
    search("needle"); told.searched = rows(); search("");
    chips("over HTTP").click(); told.overHttp = rows(); chips("over HTTP").click();
    document.querySelector("[data-section='area-3.section-1']").click(); told.ofSection = rows();
    document.querySelector("[data-area='area-3']").click(); told.ofArea = rows();
    all("#compared .ids button").find(b => !b.disabled).click(); told.ofDifference = rows();
    told.asked = performance.getEntriesByType("resource").length;
    parent.postMessage(JSON.stringify(told), "*");
  }, 50);
});
addEventListener("error", e => { document.title = "broken: " + e.message; });
</script></body>"##;

/// A page with the tested page in a frame, because the browser's window cannot be as narrow as a phone. It keeps the probe's results.
const FRAME: &str = r#"<!doctype html><script>
addEventListener("message", e => { const out = document.createElement("pre"); out.id = "told"; out.textContent = btoa(unescape(encodeURIComponent(e.data))); document.body.append(out); });
</script><body><iframe src="probed.html" width="WIDTH" height="1000" style="border:0"></iframe></body>"#;

/// The browser, or `None` with a remark that there is none.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TOUCHSTONE_CHROMIUM").filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        assert!(
            path.is_file(),
            "TOUCHSTONE_CHROMIUM: no such file: {}",
            path.display()
        );
        return Some(path);
    }
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join("chromium"))
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!("CANNOT RUN: chromium is not installed, so nobody looked at the page");
    }
    found
}

/// Loads a page from a file with these switches, and returns what the browser prints.
fn visit(browser: &Path, page: &Path, switches: &[String]) -> String {
    open(browser, &format!("file://{}", page.display()), switches)
}

/// The same for a URL.
fn open(browser: &Path, url: &str, switches: &[String]) -> String {
    let profile = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--virtual-time-budget=4000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(switches)
        .arg(url)
        .output()
        .expect("the browser starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The results of the probe in a page that is shown `width` pixels wide.
fn ask(browser: &Path, page: &Path, width: u32, dark: bool) -> Value {
    let frame = page.with_file_name("frame.html");
    std::fs::write(&frame, FRAME.replace("WIDTH", &width.to_string())).expect("a file");
    let mut switches = vec![
        "--window-size=1400,1100".to_owned(),
        "--dump-dom".to_owned(),
    ];
    if dark {
        switches.push("--blink-settings=preferredColorScheme=0".to_owned());
    }
    let document = visit(browser, &frame, &switches);
    let told = document
        .split("<pre id=\"told\">")
        .nth(1)
        .and_then(|rest| rest.split('<').next())
        .unwrap_or_else(|| {
            panic!(
                "the page told nothing: {}",
                &document[..document.len().min(3000)]
            )
        });
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(told);
    serde_json::from_slice(&bytes.expect("what the probe encoded")).expect("JSON")
}

/// A run with every status, long words, and traffic.
fn run(broken: bool) -> Run {
    let mut cases = Vec::new();
    for transport in [Transport::Stdio, Transport::Http] {
        for number in 0..120 {
            let status = match number {
                7 if broken => Status::Fail,
                7 => Status::Pass,
                8 => Status::Fail,
                9 => Status::Flaky,
                10 => Status::Warning,
                11 => Status::ExpectedFailure,
                12 => Status::Unobservable,
                13 => Status::NotClaimed,
                14 => Status::NotRun,
                _ => Status::Pass,
            };
            cases.push(case(number, transport, status));
        }
    }
    Run {
        format: FORMAT,
        harness: "ptc-conformance 0.0.0".to_owned(),
        target: "/a/path/that/is/rather/long/and/has/no/spaces/anywhere/bin/server start"
            .to_owned(),
        server: Some("ptc_lisp".repeat(100)),
        suite_cases: 120,
        suite_digest: None,
        partial: false,
        interrupted: false,
        strict: false,
        duration_ms: 4321,
        cases,
        complaints: vec!["a/case passes now: remove its entry".to_owned()],
    }
}

fn case(number: usize, transport: Transport, status: Status) -> CaseRecord {
    let section = format!("area-{}.section-{}", number / 12, number / 6 % 2);
    let wrong = status != Status::Pass;
    let word = if number == 42 { "needle" } else { "straw" };
    let frame = |direction, text: &str| Traffic::new(direction, text);
    CaseRecord {
        id: format!("{section}/{word}-{number}"),
        clause: Some(format!("{section}.clause")),
        section,
        sentence: wrong.then(|| "Something MUST be so & not <otherwise>.".to_owned()),
        place: format!("page.md:{number}"),
        transport: Some(transport),
        status,
        cause: wrong.then(|| "mismatch".to_owned()),
        message: wrong.then(|| format!("result: expected {}, observed 2", "1".repeat(200))),
        findings: if wrong {
            vec![Finding {
                at: "result".to_owned(),
                expected: "1".repeat(200),
                observed: "2".to_owned(),
                diff: String::new(),
            }]
        } else {
            Vec::new()
        },
        source: wrong.then(|| "(+ 1 1) ;=> 1".to_owned()),
        traffic: if wrong {
            vec![
                frame(
                    Direction::Sent,
                    &format!("{{\"program\":\"{}\"}}", "x".repeat(900)),
                ),
                frame(Direction::Received, "{\"result\":\"what-came-back\"}"),
            ]
        } else {
            Vec::new()
        },
        page: "lang.page".to_owned(),
        duration_us: 1500,
        rerun: wrong.then(|| "ptc-conformance run --filter x".to_owned()),
        ..CaseRecord::default()
    }
}

/// Writes the page, and a copy with the probe; returns the paths of both.
fn pages() -> [PathBuf; 2] {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&directory).expect("a directory");
    let (old, new) = (run(false), run(true));
    let page = html::render(&new, Some(("old.json", &difference(&old, &new)))).expect("a page");
    let probed = page.replace("</body>", PROBE);
    [("report.html", page), ("probed.html", probed)].map(|(name, text)| {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    })
}

#[test]
fn report_page_fits_filters_and_makes_no_requests() {
    let Some(browser) = browser() else { return };
    let [_, probed] = pages();
    for (width, dark) in [(1280, false), (390, false), (390, true)] {
        let told = ask(&browser, &probed, width, dark);
        let number = |name: &str| told[name].as_i64().unwrap_or(i64::MIN);
        let context = format!("{width} pixels, dark: {dark}: {told}");
        assert_eq!(told["dark"], dark, "{context}");
        assert_eq!(number("width"), i64::from(width), "{context}");
        // Nothing overflows to the right, neither with all cases closed nor with all open.
        assert!(
            number("overClosed") <= 0 && number("overOpen") <= 0,
            "{context}"
        );
        assert!(told["contrast"].as_f64() >= Some(4.5), "{context}");
        let shown = told["shown"].as_str().unwrap_or_default();
        for text in [
            "Does not conform",
            "120 cases over stdio",
            "120 cases over HTTP",
            "Something MUST be so & not <otherwise>.",
            "what-came-back",
            "Compared with old.json",
            "2 broken",
        ] {
            assert!(shown.contains(text), "no {text:?} in {context}");
        }
        let counts = [
            ("failedFirst", 6),
            ("squares", 20),
            // The first two hundred, and a button for the rest.
            ("everything", 200),
            ("searched", 2),
            ("overHttp", 120),
            ("ofSection", 12),
            ("ofArea", 24),
            ("ofDifference", 1),
            ("asked", 0),
        ];
        for (name, expected) in counts {
            assert_eq!(number(name), expected, "{name}: {context}");
        }
    }
}

#[test]
fn screenshots_are_not_blank() {
    let Some(browser) = browser() else { return };
    let [page, _] = pages();
    for (name, width, height) in [("wide", 1280, 1400), ("narrow", 390, 1600)] {
        let picture = page.with_file_name(format!("{name}.png"));
        let switches = [
            format!("--window-size={width},{height}"),
            format!("--screenshot={}", picture.display()),
        ];
        visit(&browser, &page, &switches);
        let bytes = std::fs::read(&picture).expect("a screenshot");
        let size =
            |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(
            (size(16), size(20)),
            (width, height),
            "{}",
            picture.display()
        );
        // An empty page of that size compresses to a few kilobytes.
        assert!(
            bytes.len() > 20_000,
            "{}: {} bytes",
            picture.display(),
            bytes.len()
        );
    }
}

/// A page that opens a session with the reference, calls a tool in it, and shows the answer.
const CALLER: &str = r#"<!doctype html><body><pre id="told">nothing</pre><script>
const url = "URL", headers = { "Authorization": "Bearer TOKEN", "Content-Type": "application/json", "MCP-Protocol-Version": "2025-11-25" };
const post = (body, more) => fetch(url, { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify({ jsonrpc: "2.0", ...body }) });
(async () => {
  const opened = await post({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "page", version: "1" } } });
  const session = { "Mcp-Session-Id": opened.headers.get("Mcp-Session-Id") };
  await post({ method: "notifications/initialized" }, session);
  const called = await post({ id: 2, method: "tools/call", params: { name: "lisp_eval", arguments: { program: "(+ 40 2)" } } }, session);
  return (await called.json()).result.content[0].text;
})().then(text => text, error => "refused: " + error.message).then(text => { document.getElementById("told").textContent = text; });
</script></body>"#;

/// Serves [`CALLER`] on a port of its own; returns the origin.
fn origin(listener: TcpListener, page: String) -> String {
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _gone = answer(stream, &page);
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, page: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let length = page.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
    )
}

/// A server that is killed at the end of the test.
struct ReferenceServer(Child);

impl Drop for ReferenceServer {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// The reference over HTTP on `port`, which permits pages from one origin.
fn reference(port: u16, allowed: &str, token: &str) -> ReferenceServer {
    let path =
        Path::new(env!("CARGO_BIN_EXE_ptc-conformance")).with_file_name("examples/reference");
    let child = Command::new(path)
        .args(["start", "--http", "--http-allowed-origin", allowed])
        .args(["--http-auth-token", token, "--http-port", &port.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the reference starts");
    let served = ReferenceServer(child);
    let began = Instant::now();
    while !is_ready(port) {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the reference never got ready"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    served
}

fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let asked =
        stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut text = String::new();
    asked.is_ok() && stream.read_to_string(&mut text).is_ok() && text.starts_with("HTTP/1.1 200")
}

#[test]
fn only_pages_of_allowed_origins_can_call_the_server() {
    let Some(browser) = browser() else { return };
    const TOKEN: &str = "abcdefghijklmnopqrstuvwxyz012345";
    let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = {
        let free = listen();
        free.local_addr().expect("an address").port()
    };
    let page = CALLER
        .replace("URL", &format!("http://127.0.0.1:{port}/mcp"))
        .replace("TOKEN", TOKEN);
    let (allowed, other) = (origin(listen(), page.clone()), origin(listen(), page));
    let _served = reference(port, &allowed, TOKEN);
    let told = |origin: &str| {
        let document = open(&browser, &format!("{origin}/"), &["--dump-dom".to_owned()]);
        let told = document.split("<pre id=\"told\">").nth(1);
        let told = told.and_then(|rest| rest.split('<').next());
        told.unwrap_or_default().to_owned()
    };
    assert_eq!(told(&allowed), "user=&gt; 42");
    assert_eq!(told(&other), "refused: Failed to fetch");
}

/// The script that probes the comparison page: whether anything overflows, and what is shown.
const COMPARED: &str = r#"<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(d => { d.open = true; });
  setTimeout(() => parent.postMessage(JSON.stringify({ width: innerWidth, over: document.documentElement.scrollWidth - innerWidth, shown: document.body.innerText,
    asked: performance.getEntriesByType("resource").length }), "*"), 50);
});
</script></body>"#;

#[test]
fn comparison_page_fits_wide_and_narrow_windows() {
    let Some(browser) = browser() else { return };
    let runs = [
        ("mine".to_owned(), run(false)),
        ("theirs".to_owned(), run(true)),
    ];
    let page = matrix::join(&runs).html().expect("a page");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compared");
    std::fs::create_dir_all(&directory).expect("a directory");
    let probed = directory.join("probed.html");
    std::fs::write(&probed, page.replace("</body>", COMPARED)).expect("a file");
    for width in [1280, 400] {
        let told = ask(&browser, &probed, width, false);
        let context = format!("{width} pixels: {told}");
        assert_eq!(told["width"], width, "{context}");
        assert!(told["over"].as_i64() <= Some(0), "{context}");
        assert_eq!(told["asked"], 0, "{context}");
        let shown = told["shown"].as_str().unwrap_or_default();
        for text in ["mine", "theirs", "lang.page"] {
            assert!(shown.contains(text), "no {text:?} in {context}");
        }
    }
}
