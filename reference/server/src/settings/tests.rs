//! Flags in, typed settings, warnings or refusals out.

use super::*;

fn read(arguments: &[&str]) -> Result<Settings, String> {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    Settings::read(&arguments, |_| None).map_err(|refused| refused.to_string())
}

#[test]
fn every_flag_is_read() {
    // A value that every kind accepts except the integers, which get their own.
    for flag in flags::FLAGS {
        let value = match flag.kind {
            flags::FlagKind::OneOf(words, _) | flags::FlagKind::OneOfOrDefault(words, ..) => {
                words[0]
            }
            flags::FlagKind::Within { .. } => "100",
            flags::FlagKind::Bool => "false",
            _ if flag.name == "http-host" => "127.0.0.1",
            _ if flag.name == "env-file" => "",
            _ if flag.name == "session-store" => "memory:",
            _ if flag.name == "session-store-key-file" => "",
            _ => "5000",
        };
        assert!(
            read(&[&format!("--{}={value}", flag.name)]).is_ok(),
            "{}",
            flag.name
        );
    }
}

#[test]
fn debug_tool_changes_the_default_profile() {
    assert_eq!(read(&[]).unwrap().profile, ResponseProfile::Slim);
    assert_eq!(
        read(&["--debug-tool"]).unwrap().profile,
        ResponseProfile::Debug
    );
    let slim = read(&["--debug-tool", "--response-profile", "slim"]).unwrap();
    assert_eq!(slim.profile, ResponseProfile::Slim);
    assert_eq!(
        read(&["--response-profile", "Debug"]).unwrap_err(),
        "invalid MCP response profile: \"Debug\""
    );
}

#[test]
fn invalid_http_settings_are_rejected() {
    let long = "x".repeat(32);
    let token = format!("--http-auth-token={long}");
    for (arguments, message) in [
        (
            vec!["--http-host=mcp.example"],
            "HTTP host must be an IP address or localhost",
        ),
        (
            vec!["--http-host=[::1]"],
            "HTTP host must be an IP address or localhost",
        ),
        (vec!["--http-path=/health"], "HTTP paths must be distinct"),
        (vec!["--http-path=metrics"], "HTTP paths must be distinct"),
        (
            vec!["--http-auth-token=short", "--http-disable-auth"],
            "HTTP auth token must be at least 32 characters",
        ),
        (
            vec!["--http-disable-auth", "--http-allow-unsafe-network"],
            "--http-disable-auth cannot be combined with --http-allow-unsafe-network",
        ),
        (
            vec![token.as_str(), "--http-disable-auth", "--http-host=0.0.0.0"],
            "--http-disable-auth is only permitted on loopback binds",
        ),
        (
            vec!["--http-host=0.0.0.0", "--http-allow-unsafe-network"],
            "HTTP auth token is required for non-loopback binds",
        ),
        (
            vec!["--http-port=70000"],
            "--http-port / PTC_RUNNER_MCP_HTTP_PORT must be at most 65535, got: \"70000\"",
        ),
    ] {
        let arguments: Vec<&str> = std::iter::once("--http").chain(arguments).collect();
        assert_eq!(read(&arguments).unwrap_err(), message, "{arguments:?}");
    }
    assert!(read(&["--http-path=/health"]).unwrap().http.is_none());
    assert!(
        read(&["--http", "--http-host=::1", "--http-path=rpc/v1"])
            .unwrap()
            .http
            .unwrap()
            .path
            == "/rpc/v1"
    );
}

#[test]
fn warnings_name_ignored_settings() {
    let settings = read(&["--trace-payloads=bogus", "--debug-ring-size=1"]).unwrap();
    assert_eq!(settings.warnings.len(), 2);
}
