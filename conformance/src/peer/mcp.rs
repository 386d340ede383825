//! The MCP part of a peer, independent of the transport: decides how a message is answered.

use serde_json::{Map, Value, json};

use super::script::{Action, Script, complete};

/// The reaction to a message.
pub(super) enum Reaction {
    Ignore,
    /// Perform the action, then send the answer, if there is one.
    Do {
        action: Box<Action>,
        answer: Option<Value>,
    },
}

/// Decides on one message, which is an object. `elsewhere` is the path at which it arrived, unless that is the peer's own.
pub(super) fn react(script: &mut Script, message: &Value, elsewhere: Option<&str>) -> Reaction {
    let Some(method) = message["method"].as_str() else {
        return Reaction::Ignore;
    };
    let (id, params) = (message.get("id"), &message["params"]);
    let there = elsewhere.and_then(|path| script.methods.get(&format!("{method} {path}")));
    if let Some(action) = there.or_else(|| script.methods.get(method)) {
        let mut action = action.clone();
        let answer = id.and_then(|id| answer(&mut action, id, &Value::Null, params));
        return Reaction::Do {
            action: Box::new(action),
            answer,
        };
    }
    let Some(id) = id else {
        return Reaction::Ignore;
    };
    let result = match method {
        "initialize" if !script.modern => {
            let version = params["protocolVersion"].clone();
            json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "peer", "version": "1"}})
        }
        "server/discover" if script.modern => json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"},
        }),
        "ping" => json!({}),
        "tools/list" => list(script, params),
        "tools/call" => return call(script, id, params, elsewhere.is_some()),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return reply(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    reply(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn reply(message: Value) -> Reaction {
    Reaction::Do {
        action: Box::default(),
        answer: Some(message),
    }
}

fn list(script: &Script, params: &Value) -> Value {
    let shown: Vec<Value> = script.tools.iter().map(public_tool).collect();
    let start = params["cursor"]
        .as_str()
        .and_then(|cursor| cursor.parse::<usize>().ok())
        .unwrap_or(0);
    if script.endless_pages {
        return json!({"tools": [], "nextCursor": (start + 1).to_string()});
    }
    let Some(page) = script.page.filter(|page| *page > 0) else {
        return json!({"tools": shown});
    };
    let end = (start + page).min(shown.len());
    let mut result = json!({"tools": shown[start.min(end)..end]});
    if end < shown.len() {
        result["nextCursor"] = end.to_string().into();
    }
    result
}

fn public_tool(tool: &Value) -> Value {
    let mut tool = tool.clone();
    if let Some(tool) = tool.as_object_mut() {
        tool.remove("does");
    }
    tool
}

fn call(script: &mut Script, id: &Value, params: &Value, redirected: bool) -> Reaction {
    let tool = script
        .tools
        .iter()
        .find(|tool| tool["name"] == params["name"]);
    let does = tool.and_then(|tool| tool.get("does")).cloned();
    let mut action: Action = match does.map(serde_json::from_value).transpose() {
        Ok(action) => action.unwrap_or(Action {
            echo: true,
            ..Action::default()
        }),
        Err(error) => Action {
            text: Some(format!("bad script: {error}")),
            is_error: true,
            ..Action::default()
        },
    };
    if tool.is_none() {
        action = Action {
            error: Some(json!({"code": -32602, "message": "Unknown tool"})),
            ..Action::default()
        };
    }
    if redirected {
        action.status = None;
    }
    if let Some(mut tool) = action.add_tool.take() {
        complete(&mut tool);
        script.tools.push(tool);
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        action.before.push(changed.to_string());
    }
    let answer = answer(&mut action, id, &params["arguments"], params);
    Reaction::Do {
        action: Box::new(action),
        answer,
    }
}

fn answer(action: &mut Action, id: &Value, arguments: &Value, params: &Value) -> Option<Value> {
    if action.silent {
        return None;
    }
    for line in action.before.iter_mut().chain(&mut action.events) {
        *line = line.replace("{{id}}", &id.to_string());
    }
    if let Some(raw) = &mut action.raw {
        *raw = raw.replace("{{id}}", &id.to_string());
        return None;
    }
    let id = if action.wrong_id {
        json!(987_654_321)
    } else {
        id.clone()
    };
    if let Some(error) = &action.error {
        return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }
    let result = match &action.result {
        Some(result) => result.clone(),
        None => tool_result(action, arguments, params),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn tool_result(action: &Action, arguments: &Value, params: &Value) -> Value {
    let mut content = Vec::new();
    if let Some(text) = &action.text {
        content.push(json!({"type": "text", "text": fill_arguments(text, arguments)}));
    }
    if let Some(bytes) = action.fill {
        content.push(json!({"type": "text", "text": "x".repeat(bytes)}));
    }
    let mut result = Map::new();
    result.insert("content".into(), Value::Array(content));
    if let Some(structured) = &action.structured {
        result.insert("structuredContent".into(), structured.clone());
    }
    if action.echo {
        let _ = params;
        result.insert("structuredContent".into(), arguments.clone());
    }
    if action.is_error {
        result.insert("isError".into(), true.into());
    }
    Value::Object(result)
}

fn fill_arguments(text: &str, arguments: &Value) -> String {
    let mut text = text.to_owned();
    for (name, value) in arguments.as_object().into_iter().flatten() {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        text = text.replace(&format!("{{{{arg.{name}}}}}"), &value);
    }
    text
}
