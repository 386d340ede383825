//! Valid and invalid results of each shape.

use super::*;

#[test]
fn shapes_accept_valid_and_reject_invalid_values() {
    let rows = [
        (
            "InitializeResult",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}"#,
            true,
        ),
        (
            "InitializeResult",
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"x":{}},"serverInfo":{"name":"a"}}"#,
            false,
        ),
        (
            "InitializeResult",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1","icons":[{"src":"data:image/png;base64,AA"}]}}"#,
            true,
        ),
        (
            "InitializeResult",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1","icons":[{"src":"./a.png"}]}}"#,
            false,
        ),
        (
            "InitializeResult",
            r#"{"protocolVersion":"2025-11-25","serverInfo":{"name":"a","version":"1"}}"#,
            false,
        ),
        (
            "ListToolsResult",
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#,
            true,
        ),
        ("ListToolsResult", r#"{"tools":[{"name":"a"}]}"#, false),
        (
            "ListToolsResult",
            r#"{"tools":[],"nextCursor":null}"#,
            false,
        ),
        (
            "CallToolResult",
            r#"{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}"#,
            true,
        ),
        (
            "CallToolResult",
            r#"{"content":[{"type":"image","data":"not base64!","mimeType":"image/png"}]}"#,
            false,
        ),
        ("CallToolResult", r#"{"content":[{"type":"text"}]}"#, false),
        ("CallToolResult", r#"{"content":[{"type":"movie"}]}"#, false),
        (
            "CallToolResult",
            r#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":""}}]}"#,
            true,
        ),
        ("CallToolResult", r#"{"content":"text"}"#, false),
        (
            "ReadResourceResult",
            r#"{"contents":[{"uri":"a:b","blob":"AA=="}]}"#,
            true,
        ),
        (
            "ReadResourceResult",
            r#"{"contents":[{"uri":"a:b"}]}"#,
            false,
        ),
        (
            "GetPromptResult",
            r#"{"messages":[{"role":"user","content":{"type":"text","text":""}}]}"#,
            true,
        ),
        (
            "GetPromptResult",
            r#"{"messages":[{"role":"system","content":{"type":"text","text":""}}]}"#,
            false,
        ),
        (
            "CompleteResult",
            r#"{"completion":{"values":["a"],"total":1,"hasMore":false}}"#,
            true,
        ),
        ("CompleteResult", r#"{"completion":{"values":[1]}}"#, false),
        (
            "ProgressParams",
            r#"{"progressToken":1,"progress":0.5}"#,
            true,
        ),
        ("LoggingParams", r#"{"level":"loud","data":1}"#, false),
    ];
    for (shape, text, right) in rows {
        let value = serde_json::from_str(text).expect("JSON");
        assert_eq!(
            shape_fault(shape, &value).is_none(),
            right,
            "{shape}: {text}"
        );
    }
    let many: Vec<Value> = (0..101).map(|n| Value::from(n.to_string())).collect();
    assert!(shape_fault("CompleteResult", &json!({"completion": {"values": many}})).is_some());
}
