//! The files in `dist/` start a server: the client snippets, the commands of their README, the unit, the image. Knows
//! no client; does what a client would do with each file.
#![allow(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

mod support;

use serde_json::Value;
use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

const PTC: &str = env!("CARGO_BIN_EXE_ptc");
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"dist","version":"1"}}}"#;

#[test]
fn snippets_for_stdio_start_the_server() {
    for (file, servers) in [("stdio.json", "mcpServers"), ("vscode.json", "servers")] {
        let server = &snippet(file)[servers]["ptc"];
        assert_eq!(server["command"], "ptc", "{file}");
        let arguments = server["args"].as_array().unwrap();
        let mut command = Command::new(PTC);
        command.args(arguments.iter().map(|word| word.as_str().unwrap()));
        for (name, value) in server["env"].as_object().into_iter().flatten() {
            command.env(name, value.as_str().unwrap());
        }
        assert_eq!(server_name(command), "ptc_lisp", "{file}");
    }
}

#[test]
fn commands_of_the_readme_start_the_server() {
    let readme = text("clients/README.md");
    let spans = readme.split('`').skip(1).step_by(2);
    let commands: Vec<&str> = spans
        .filter_map(|span| span.split_once("ptc start"))
        .map(|(_, flags)| flags)
        .collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for flags in commands.iter().filter(|flags| !flags.contains("--http")) {
        let mut command = Command::new(PTC);
        command.arg("start").args(flags.split_whitespace());
        assert_eq!(server_name(command), "ptc_lisp", "{flags}");
    }
}

#[test]
fn the_snippet_for_http_reaches_the_server() {
    let server = &snippet("http.json")["mcpServers"]["ptc"];
    let url = server["url"].as_str().unwrap();
    let path = url.strip_prefix("http://127.0.0.1:7332").unwrap();
    let authorization = server["headers"]["Authorization"].as_str().unwrap();
    let authorization = authorization.replace("${PTC_TOKEN}", TOKEN);
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{INITIALIZE}",
        INITIALIZE.len()
    );
    let reply = request_over_http("start --http", &request);
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    assert!(reply.contains("\"name\":\"ptc_lisp\""), "{reply}");
}

#[test]
fn the_unit_and_the_image_serve() {
    let unit = text("ptc.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/ptc "));
    let image = text("Dockerfile");
    let serving = image
        .lines()
        .find_map(|line| line.strip_prefix("#   docker run --rm -p 7332:7332 "))
        .and_then(|line| line.split_once(" ptc "));
    let (start, (_, serving)) = (start.unwrap(), serving.unwrap());
    for flags in [start, serving] {
        let request = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        let reply = request_over_http(flags, request);
        assert!(reply.ends_with("{\"status\":\"ok\"}"), "{flags}: {reply}");
    }
    assert!(image.ends_with("ENTRYPOINT [\"/ptc\"]\nCMD [\"start\"]\n"));
    let mut command = Command::new(PTC);
    command.arg("start");
    assert_eq!(server_name(command), "ptc_lisp");
}

/// The files that build the image repeat the compiler version and the packages' directories, so both are compared
/// here.
#[test]
fn the_image_is_built_of_this_workspace_with_its_compiler() {
    let toolchain: toml::Table = text("../../../rust-toolchain.toml").parse().unwrap();
    let compiler = toolchain["toolchain"]["channel"].as_str().unwrap();
    let base = format!("\nFROM rust:{compiler}-bookworm AS build\n");
    assert!(text("Dockerfile").contains(&base), "{base}");

    let workspace: toml::Table = text("../../../Cargo.toml").parse().unwrap();
    let sent = text("../../../.dockerignore");
    for member in workspace["workspace"]["members"].as_array().unwrap() {
        let directory = member.as_str().unwrap().split('/').next().unwrap();
        let lets_through = format!("!{directory}");
        assert!(sent.lines().any(|line| line == lets_through), "{member}");
    }
}

/// The text of `file`, a path relative to `dist/`.
fn text(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../server/dist")
        .join(file);
    std::fs::read_to_string(path).unwrap()
}

fn snippet(file: &str) -> Value {
    serde_json::from_str(&text(&format!("clients/{file}"))).unwrap()
}

/// The name of the server that `command` starts on standard streams.
fn server_name(mut command: Command) -> String {
    let (mut child, mut output) = support::spawn_piped(&mut command);
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{INITIALIZE}").unwrap();
    drop(input);
    let mut reply = String::new();
    output.read_line(&mut reply).unwrap();
    assert!(child.wait().unwrap().success());
    let reply: Value = serde_json::from_str(&reply).unwrap();
    reply["result"]["serverInfo"]["name"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The response to a request by an HTTP server with these arguments.
fn request_over_http(arguments: &str, request: &str) -> String {
    let (_server, port) = support::listening(|port| {
        let mut command = Command::new(PTC);
        command
            .args(arguments.split_whitespace())
            .env("PTC_RUNNER_MCP_HTTP_PORT", port)
            .env("PTC_RUNNER_MCP_HTTP_AUTH_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    });
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
