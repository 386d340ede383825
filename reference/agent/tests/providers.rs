//! The model adapters against a local provider that speaks each documented wire format, correctly and incorrectly.

use std::time::{Duration, Instant};

use ptc_agent::{
    AbandonCheck, AnthropicMessages, ChatCompletions, Llm, LlmErrorKind, LlmReply, LlmRequest,
    Message, Output, ProviderOptions, RetryPolicy, Tokens, ToolCall, WireCall,
};
use ptc_secrets::{AuthHeaders, Secret};
use serde_json::{Value as Json, json};
use wiremock::matchers::{body_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

ptc_lang::counting_allocator!();

fn provider() -> (tokio::runtime::Runtime, MockServer) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let server = runtime.block_on(MockServer::start());
    (runtime, server)
}

fn options(server: &MockServer, auth: AuthHeaders, attempts_max: u32) -> ProviderOptions {
    ProviderOptions {
        base_url: format!("{}/v1/", server.uri()),
        model: "m".into(),
        auth,
        // Only a late answer is waited for this long; a busy machine needs some time.
        timeout: Duration::from_secs(20),
        retry: RetryPolicy {
            attempts_max,
            base_delay: Duration::from_millis(5),
        },
    }
}

fn bearer() -> AuthHeaders {
    AuthHeaders::bearer(&Secret::new("key-of-the-test".into())).expect("the key is plain text")
}

fn history() -> Vec<Message> {
    vec![
        Message::User("How many?".into()),
        Message::Assistant {
            content: String::new(),
            tool_calls: vec![WireCall {
                id: "a".into(),
                name: "rows".into(),
                arguments: "{\"q\":1}".into(),
            }],
        },
        Message::Tool {
            tool_call_id: "a".into(),
            content: "[1,2]".into(),
        },
    ]
}

fn tools() -> Vec<Json> {
    let parameters = json!({ "type": "object", "properties": {} });
    vec![
        json!({ "type": "function", "function": { "name": "rows", "description": "Rows.", "parameters": parameters } }),
    ]
}

/// An answer with `count` calls, in the formats of both providers.
fn many_calls(count: usize) -> Json {
    let call = json!({ "type": "tool_use", "id": "a", "name": "rows" });
    let calls = vec![call; count];
    json!({ "content": calls, "choices": [{ "message": { "tool_calls": calls } }] })
}

/// A minimal request.
fn request(messages: &[Message]) -> LlmRequest<'_> {
    LlmRequest {
        system: "",
        messages,
        turn: 1,
        output: Output::Text,
        tools: &[],
        cache: false,
        schema: None,
        max_tokens: None,
        timeout: None,
        abandoned: AbandonCheck::NEVER,
    }
}

fn ask(model: &dyn Llm) -> Result<LlmReply, LlmErrorKind> {
    let (messages, tools) = (history(), tools());
    let request = LlmRequest {
        system: "Be exact.",
        turn: 2,
        tools: &tools,
        max_tokens: Some(50),
        ..request(&messages)
    };
    model.complete(&request).map_err(|error| error.kind)
}

#[test]
fn chat_completions_exchange() {
    let (runtime, server) = provider();
    let expected = json!({
        "model": "m", "stream": false, "max_tokens": 50, "tools": tools(),
        "messages": [
            { "role": "system", "content": "Be exact." },
            { "role": "user", "content": "How many?" },
            { "role": "assistant", "content": "", "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "rows", "arguments": "{\"q\":1}" } }] },
            { "role": "tool", "tool_call_id": "a", "content": "[1,2]" },
        ],
    });
    let answer = json!({
        "choices": [{ "message": { "role": "assistant", "content": null, "tool_calls": [
            { "id": "b", "type": "function", "function": { "name": "rows", "arguments": "{\"q\":2}" } },
            { "id": "c", "type": "function", "function": { "name": "rows", "arguments": "{broken" } },
            { "id": "d", "type": "function", "function": { "name": "rows", "arguments": "" } },
        ] } }],
        "usage": { "prompt_tokens": 12, "completion_tokens": 3 },
    });
    let mock = Mock::given(method("POST"))
        .and(path("/v1/chat/completions"))
        .and(header("authorization", "Bearer key-of-the-test"))
        .and(body_json(expected))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer));
    runtime.block_on(mock.mount(&server));
    let model = ChatCompletions::new(options(&server, bearer(), 1)).unwrap();
    let reply = ask(&model).unwrap();
    assert_eq!(
        reply.tokens,
        Some(Tokens {
            input: 12,
            output: 3
        })
    );
    assert_eq!(
        reply.tool_calls[0],
        ToolCall {
            id: Some("b".into()),
            name: "rows".into(),
            args: Some(json!({ "q": 2 })),
            args_error: None
        }
    );
    assert_eq!(reply.tool_calls[1].args, Some(json!("{broken")));
    assert!(
        reply.tool_calls[1]
            .args_error
            .as_deref()
            .unwrap()
            .starts_with("Tool arguments are not valid JSON")
    );
    assert_eq!(
        (&reply.tool_calls[2].args, &reply.tool_calls[2].args_error),
        (&None, &None)
    );
}

#[test]
fn anthropic_exchange() {
    let (runtime, server) = provider();
    let expected = json!({
        "model": "m", "system": "Be exact.", "max_tokens": 50,
        "tools": [{ "name": "rows", "description": "Rows.", "input_schema": { "type": "object", "properties": {} } }],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "How many?" }] },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "rows", "input": { "q": 1 } }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "a", "content": "[1,2]" }] },
        ],
    });
    let answer = json!({
        "content": [{ "type": "text", "text": "Two" }, { "type": "text", "text": "." },
                    { "type": "tool_use", "id": "b", "name": "rows", "input": {} }],
        "usage": { "input_tokens": 7, "output_tokens": 2 },
    });
    let mock = Mock::given(method("POST"))
        .and(path("/v1/messages"))
        .and(header("x-api-key", "key-of-the-test"))
        .and(header("anthropic-version", "2023-06-01"))
        .and(body_json(expected))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer));
    runtime.block_on(mock.mount(&server));
    let key = reqwest::header::HeaderName::from_static("x-api-key");
    let auth = AuthHeaders::custom(key, &Secret::new("key-of-the-test".into())).unwrap();
    let model = AnthropicMessages::new(options(&server, auth, 1)).unwrap();
    let reply = ask(&model).unwrap();
    assert_eq!(reply.content.as_deref(), Some("Two."));
    assert_eq!(reply.tool_calls[0].id.as_deref(), Some("b"));
    assert_eq!(
        reply.tokens,
        Some(Tokens {
            input: 7,
            output: 2
        })
    );
}

#[test]
fn provider_faults_are_classified() {
    let error = json!({ "error": { "message": "slow down" } });
    let cases: Vec<(ResponseTemplate, LlmErrorKind)> = vec![
        (
            ResponseTemplate::new(429).set_body_json(&error),
            LlmErrorKind::RateLimited,
        ),
        (ResponseTemplate::new(500), LlmErrorKind::Unavailable),
        (
            ResponseTemplate::new(401).set_body_json(&error),
            LlmErrorKind::Auth,
        ),
        (
            ResponseTemplate::new(400).set_body_json(&error),
            LlmErrorKind::Refused,
        ),
        (
            ResponseTemplate::new(200).set_body_string("{\"choices\":["),
            LlmErrorKind::Malformed,
        ),
        (
            ResponseTemplate::new(200).set_body_json(json!({ "choices": [], "content": "none" })),
            LlmErrorKind::Malformed,
        ),
        (
            ResponseTemplate::new(200).set_body_string("<html>Bad gateway</html>"),
            LlmErrorKind::Malformed,
        ),
        (
            ResponseTemplate::new(200).set_body_json(json!([1])),
            LlmErrorKind::Malformed,
        ),
        (
            ResponseTemplate::new(200).set_body_json(many_calls(257)),
            LlmErrorKind::Malformed,
        ),
        (
            ResponseTemplate::new(200).set_delay(Duration::from_secs(60)),
            LlmErrorKind::Timeout,
        ),
    ];
    for (answer, expected) in cases {
        let (runtime, server) = provider();
        runtime.block_on(
            Mock::given(method("POST"))
                .respond_with(answer)
                .mount(&server),
        );
        let options = || {
            let usual = options(&server, bearer(), 1);
            match expected {
                LlmErrorKind::Timeout => ProviderOptions {
                    timeout: Duration::from_millis(500),
                    ..usual
                },
                _ => usual,
            }
        };
        let models: [Box<dyn Llm>; 2] = [
            Box::new(ChatCompletions::new(options()).unwrap()),
            Box::new(AnthropicMessages::new(options()).unwrap()),
        ];
        for model in models {
            assert_eq!(ask(&*model), Err(expected));
        }
    }
}

#[test]
fn rate_limits_are_retried() {
    let (runtime, server) = provider();
    let limited = Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(429))
        .up_to_n_times(2);
    let answer = json!({ "choices": [{ "message": { "content": "ok" } }] });
    runtime.block_on(async {
        limited.mount(&server).await;
        Mock::given(method("POST"))
            .respond_with(ResponseTemplate::new(200).set_body_json(answer))
            .mount(&server)
            .await;
    });
    let model = ChatCompletions::new(options(&server, bearer(), 3)).unwrap();
    assert_eq!(ask(&model).unwrap().content.as_deref(), Some("ok"));
    let refused = ChatCompletions::new(options(&server, bearer(), 1)).unwrap();
    assert_eq!(ask(&refused).unwrap().content.as_deref(), Some("ok"));
}

#[test]
fn errors_never_show_the_key() {
    let options = ProviderOptions {
        base_url: "http://127.0.0.1:1/v1?key=key-of-the-test".into(),
        model: "m".into(),
        auth: bearer(),
        timeout: Duration::from_millis(500),
        retry: RetryPolicy::default(),
    };
    let model = ChatCompletions::new(options).unwrap();
    let messages = history();
    let request = request(&messages);
    let error = model.complete(&request).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Unavailable);
    assert!(!error.to_string().contains("key-of-the-test"), "{error}");
}

#[test]
fn answer_with_many_calls_is_accepted() {
    let (runtime, server) = provider();
    let answer = ResponseTemplate::new(200).set_body_json(many_calls(256));
    let mock = Mock::given(method("POST")).respond_with(answer);
    runtime.block_on(mock.mount(&server));
    let models: [Box<dyn Llm>; 2] = [
        Box::new(ChatCompletions::new(options(&server, bearer(), 1)).unwrap()),
        Box::new(AnthropicMessages::new(options(&server, bearer(), 1)).unwrap()),
    ];
    for model in models {
        assert_eq!(ask(&*model).unwrap().tool_calls.len(), 256);
    }
}

/// Content besides the reply is not built into values, which would take a hundred times its bytes.
#[test]
fn unknown_reply_members_are_skipped() {
    let beside = "{\"a\":1},".repeat(400_000);
    let usage =
        "\"usage\":{\"prompt_tokens\":18446744073709551615,\"completion_tokens\":1099511627777}";
    let answer = format!(
        "{{\"z\":[{beside}0],{usage},\"content\":[{{\"type\":\"text\",\"text\":\"four\"}}],\"choices\":[{{\"z\":{}{},\"message\":{{\"content\":\"four\"}}}}]}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let (runtime, server) = provider();
    let mock = Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(200).set_body_raw(answer, "application/json"));
    runtime.block_on(mock.mount(&server));
    let models: [Box<dyn Llm>; 2] = [
        Box::new(ChatCompletions::new(options(&server, bearer(), 1)).unwrap()),
        Box::new(AnthropicMessages::new(options(&server, bearer(), 1)).unwrap()),
    ];
    for model in models {
        assert_eq!(ask(&*model), Ok(LlmReply::text("four")));
    }
}

/// Arguments of all calls are parsed up to a total size; the others stay text.
#[test]
fn oversize_arguments_stay_text() {
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(300_000));
    let call = |id: &str| json!({ "id": id, "function": { "name": "rows", "arguments": long } });
    let answer = json!({ "choices": [{ "message": { "tool_calls": [call("a"), call("b")] } }] });
    let (runtime, server) = provider();
    let mock =
        Mock::given(method("POST")).respond_with(ResponseTemplate::new(200).set_body_json(answer));
    runtime.block_on(mock.mount(&server));
    let reply = ask(&ChatCompletions::new(options(&server, bearer(), 1)).unwrap()).unwrap();
    let [first, second] = &reply.tool_calls[..] else {
        panic!("{reply:?}");
    };
    assert!(first.args_error.is_none() && first.args.as_ref().is_some_and(Json::is_object));
    assert!(second.args_error.is_some() && second.args == Some(Json::from(long)));
}

#[test]
fn abandoned_request_returns_promptly() {
    let (runtime, server) = provider();
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    runtime.block_on(
        Mock::given(method("POST"))
            .respond_with(slow)
            .mount(&server),
    );
    let options = ProviderOptions {
        timeout: Duration::from_secs(60),
        ..options(&server, bearer(), 1)
    };
    let model = ChatCompletions::new(options).unwrap();
    let (began, messages) = (Instant::now(), history());
    let told = model.complete(&LlmRequest {
        abandoned: AbandonCheck(&|| began.elapsed() > Duration::from_millis(100)),
        ..request(&messages)
    });
    assert_eq!(
        told.map_err(|error| error.kind),
        Err(LlmErrorKind::Abandoned)
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A provider that answers the first request on each connection, and closes it when the second has begun. To a client that has
/// already sent its request, this looks like a connection that was closed before.
fn close_after_answer(listener: std::net::TcpListener, answer: String) {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection is taken");
        let mut reader = BufReader::new(stream.try_clone().expect("a second handle is made"));
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("it is a number");
            }
            line.clear();
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_ok() {
            let length = answer.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all((head + &answer).as_bytes());
        }
        let _ = reader.read(&mut [0]);
    }
}

#[test]
fn request_survives_a_closed_idle_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let base_url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
    let answer = json!({ "choices": [{ "message": { "content": "yes" } }] }).to_string();
    std::thread::spawn(|| close_after_answer(listener, answer));
    let options = ProviderOptions {
        base_url,
        model: "m".into(),
        auth: bearer(),
        timeout: Duration::from_secs(5),
        retry: RetryPolicy::default(),
    };
    let model = ChatCompletions::new(options).unwrap();
    for turn in 0..5 {
        let said = ask(&model).map(|reply| reply.content);
        assert_eq!(said, Ok(Some("yes".into())), "turn {turn}");
    }
}
