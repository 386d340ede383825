//! Answers a result that requests input (2026-07-28, Multi Round-Trip Requests), both as a client can and as none should.
//! Knows these results and JSON Schema; knows nothing of cases or connections.

use serde_json::{Map, Value, json};

use super::arguments;
use crate::json::Json;
use crate::suite::Captures;

/// A key under which no server requests input.
const UNASKED: &str = "touchstone-not-asked-for";

/// The state of the last result that requested input.
#[derive(Debug, Default)]
pub struct RequestedInput {
    state: Option<String>,
}

impl RequestedInput {
    /// Inspects a response. If it requests input, captures the possible answers as values for cases.
    pub fn inspect(&mut self, message: &Value, captures: &mut Captures) {
        let at = |path: &str| message.pointer(path);
        if at("/result/resultType").and_then(Value::as_str) != Some("input_required") {
            return;
        }
        let state = at("/result/requestState").and_then(Value::as_str);
        self.state = state.map(str::to_owned);
        let asked = at("/result/inputRequests").and_then(Value::as_object);
        let (mut right, mut broken) = (Map::new(), Map::new());
        for (key, request) in asked.into_iter().flatten() {
            right.insert(key.clone(), answer(request));
            broken.insert(key.clone(), Value::from(7));
        }
        let mut more = right.clone();
        more.insert(
            UNASKED.to_owned(),
            json!({"action": "accept", "content": {"a": "b"}}),
        );
        let values = [
            ("mcp.inputs", Value::Object(right)),
            ("mcp.more_inputs", Value::Object(more)),
            ("mcp.broken_inputs", Value::Object(broken)),
            ("mcp.tampered_state", Value::from(state.map(tampered))),
        ];
        for (name, value) in values {
            if let Ok(value) = Json::parse(&value.to_string()) {
                captures.insert(name.to_owned(), value);
            }
        }
    }

    /// Adds the server's last `requestState` to a request that contains answers, unless the request has a state of its own.
    pub fn with_state(&self, bytes: Vec<u8>) -> Vec<u8> {
        let Some(state) = &self.state else {
            return bytes;
        };
        let Ok(mut message) = serde_json::from_slice::<Value>(&bytes) else {
            return bytes;
        };
        match message
            .pointer_mut("/params")
            .and_then(Value::as_object_mut)
        {
            Some(params) if params.contains_key("inputResponses") => {
                let own = params.entry("requestState");
                own.or_insert_with(|| Value::from(state.as_str()));
                message.to_string().into_bytes()
            }
            _ => bytes,
        }
    }
}

/// A client's answer to one request for input.
fn answer(request: &Value) -> Value {
    match request.get("method").and_then(Value::as_str) {
        Some("sampling/createMessage") => json!({
            "role": "assistant",
            "content": {"type": "text", "text": "a"},
            "model": "touchstone",
            "stopReason": "endTurn",
        }),
        Some("roots/list") => json!({"roots": [{"uri": "file:///tmp", "name": "a"}]}),
        _ => {
            let schema = request.pointer("/params/requestedSchema");
            let content = schema.and_then(arguments::sample);
            json!({"action": "accept", "content": content.unwrap_or_else(|| json!({}))})
        }
    }
}

/// The state with its middle character changed.
fn tampered(state: &str) -> String {
    let letters: Vec<char> = state.chars().collect();
    let middle = letters.len() / 2;
    let other = |at: usize, letter: &char| match (at == middle, letter) {
        (true, 'A') => 'B',
        (true, _) => 'A',
        (false, letter) => *letter,
    };
    let mut other: String = letters
        .iter()
        .enumerate()
        .map(|(at, letter)| other(at, letter))
        .collect();
    if letters.is_empty() {
        other.push('A');
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_requests_are_answered() {
        let mut wanted = RequestedInput::default();
        let mut captures = Captures::new();
        let asks: Value = serde_json::from_str(
            r#"{"id":1,"result":{"resultType":"input_required","requestState":"abc","inputRequests":{
                "who":{"method":"elicitation/create","params":{"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}},
                "say":{"method":"sampling/createMessage","params":{}}}}}"#,
        )
        .expect("JSON");
        wanted.inspect(&asks, &mut captures);
        let of =
            |name: &str| serde_json::from_str::<Value>(&captures[name].to_string()).expect("JSON");
        assert_eq!(
            of("mcp.inputs")["who"],
            json!({"action": "accept", "content": {"name": "a"}})
        );
        assert_eq!(of("mcp.inputs")["say"]["role"], "assistant");
        assert_eq!(of("mcp.more_inputs").as_object().map(Map::len), Some(3));
        assert_eq!(of("mcp.broken_inputs")["who"], 7);
        assert_eq!(of("mcp.tampered_state"), "aAc");
        let retried = wanted.with_state(br#"{"params":{"inputResponses":{}}}"#.to_vec());
        let retried: Value = serde_json::from_slice(&retried).expect("JSON");
        assert_eq!(retried["params"]["requestState"], "abc");
        let own = br#"{"params":{"inputResponses":{},"requestState":"x"}}"#.to_vec();
        assert!(String::from_utf8_lossy(&wanted.with_state(own)).contains("\"x\""));
        let other = br#"{"params":{}}"#.to_vec();
        assert_eq!(wanted.with_state(other.clone()), other);
    }

    #[test]
    fn tampered_state_differs() {
        for state in ["", "A", "AAAA", "ä€"] {
            assert_ne!(tampered(state), state);
        }
    }
}
