//! What a survey selects from a server's offers.

use super::*;

#[test]
fn tool_names_uris_and_templates_are_recognised() {
    assert!(
        is_recommended_name("get.user_name-2")
            && !is_recommended_name("get user")
            && !is_recommended_name("")
            && !is_recommended_name(&"a".repeat(129))
    );
    assert!(is_uri("file:///a%20b") && is_uri("demo://x/1") && is_uri("urn:a:b"));
    assert!(!is_uri("/a/b") && !is_uri("file:///a b") && !is_uri("1a:b") && !is_uri("x:ä"));
    assert_eq!(template_variable("a://{+path}/x"), Some("path"));
    assert_eq!(template_variable("a://{?q,r}"), Some("q"));
    assert_eq!(template_variable("a://b"), None);
}

#[test]
fn misplaced_header_annotations_are_reported() {
    let rows = [
        (
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "Region"}}}),
            "",
        ),
        (
            json!({"properties": {"o": {"type": "object", "properties": {"a": {"type": "boolean", "x-mcp-header": "A"}}}}}),
            "",
        ),
        (
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}),
            "\"a b\" is no name of a header field",
        ),
        (
            json!({"properties": {"a": {"type": "string", "x-mcp-header": ""}}}),
            "\"\" is no name of a header field",
        ),
        (
            json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
            "\"A\" is no integer, string or boolean",
        ),
        (
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}}),
            "\"a\" stands twice",
        ),
        (
            json!({"properties": {"l": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}}),
            "\"A\" is not reached through `properties` alone",
        ),
    ];
    for (schema, wrong) in rows {
        assert_eq!(header_annotations(&schema).1.join("; "), wrong, "{schema}");
    }
}

#[test]
fn annotated_parameters_are_found_by_pointer() {
    let schema = json!({"properties": {"a/b": {"type": "object", "properties": {
        "c": {"type": "string", "x-mcp-header": "C"}}}}});
    let (places, wrong) = header_annotations(&schema);
    assert_eq!(places, [("/a~1b/c".to_owned(), "C".to_owned())]);
    assert!(wrong.is_empty());
}

#[test]
fn tools_are_allowed_by_name() {
    let named = ["a".to_owned(), "b={\"n\":1}".to_owned()];
    assert_eq!(allowed(&named, "a"), [None]);
    let twice = [named[1].clone(), "b={\"n\":2}".to_owned()];
    let both = [Some(json!({"n": 1})), Some(json!({"n": 2}))];
    assert_eq!(allowed(&twice, "b"), both);
    assert_eq!(allowed(&named, "c"), []);
}
