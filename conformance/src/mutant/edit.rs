//! Rewrites programs and frames. Knows the shapes of `tools/call` and of the response profiles.

use crate::json::Json;

/// Prefix of a printed result.
const RESULT_PREFIX: &str = "user=> ";

/// `program` with the symbol `from` replaced by `to`, outside strings and comments.
pub fn symbol(program: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(program.len());
    let mut token = String::new();
    let mut characters = program.chars().peekable();
    let flush = |token: &mut String, out: &mut String| {
        // The namespace is kept: `str/trim` becomes `str/triml`.
        let (space, name) = match token.rfind('/') {
            Some(slash) if token.len() > slash + 1 => token.split_at(slash + 1),
            _ => ("", token.as_str()),
        };
        out.push_str(space);
        out.push_str(if name == from { to } else { name });
        token.clear();
    };
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                flush(&mut token, &mut out);
                out.push('"');
                while let Some(inner) = characters.next() {
                    out.push(inner);
                    match inner {
                        '\\' => out.extend(characters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ';' => {
                flush(&mut token, &mut out);
                out.push(';');
                for inner in characters.by_ref() {
                    out.push(inner);
                    if inner == '\n' {
                        break;
                    }
                }
            }
            '\\' => {
                token.push('\\');
                token.extend(characters.next());
            }
            boundary if boundary.is_whitespace() || "()[]{}'@,".contains(boundary) => {
                // A quote may end a symbol: `inc'` and `inc` are different functions.
                if boundary == '\'' && !token.is_empty() {
                    token.push('\'');
                    continue;
                }
                flush(&mut token, &mut out);
                out.push(boundary);
            }
            other => token.push(other),
        }
    }
    flush(&mut token, &mut out);
    out
}

/// Edits the program in a call's arguments.
pub fn program(frame: &mut Json, edit: impl FnOnce(&str) -> String) {
    let is_call = frame.get("method").and_then(Json::as_str) == Some("tools/call");
    let Some(Json::String(text)) =
        member_at(frame, &["params", "arguments", "program"]).filter(|_| is_call)
    else {
        return;
    };
    *text = edit(text);
}

/// Edits the structured payload of a tool result, and the text that mirrors it.
pub fn payload(frame: &mut Json, edit: impl FnOnce(&mut Json)) {
    let Some(structured) = member_at(frame, &["result", "structuredContent"]) else {
        return;
    };
    let before = structured.clone();
    edit(structured);
    let after = structured.clone();
    if let Some(Json::String(text)) = text_block(frame)
        && Json::parse(text).is_ok_and(|mirror| mirror == before)
    {
        *text = after.to_string();
    }
}

/// Edits the printed result wherever a reply contains it.
pub fn printed(frame: &mut Json, edit: impl Fn(&str) -> String) {
    let changed = |text: &str| {
        text.strip_prefix(RESULT_PREFIX)
            .map(|printed| format!("{RESULT_PREFIX}{}", edit(printed)))
    };
    payload(frame, |payload| {
        if let Some(Json::String(result)) = member_at(payload, &["result"])
            && let Some(text) = changed(result)
        {
            *result = text;
        }
    });
    if let Some(Json::String(text)) = text_block(frame)
        && let Some(found) = text.find(RESULT_PREFIX)
        && !text.starts_with('{')
    {
        let printed = text.split_off(found + RESULT_PREFIX.len());
        text.push_str(&edit(&printed));
    }
}

/// Edits the texts of an error reply: its feedback, message and text blocks.
pub fn errors(frame: &mut Json, edit: impl Fn(&str) -> String) {
    let is_error =
        member_at(frame, &["result", "isError"]).is_some_and(|flag| *flag == Json::from(true));
    if !is_error {
        return;
    }
    for path in [
        &["result", "structuredContent", "feedback"],
        &["result", "structuredContent", "message"],
    ] {
        if let Some(Json::String(text)) = member_at(frame, path) {
            *text = edit(text);
        }
    }
    if let Some(Json::Array(blocks)) = member_at(frame, &["result", "content"]) {
        for block in blocks {
            if let Some(Json::String(text)) = member_at(block, &["text"]) {
                *text = edit(text);
            }
        }
    }
}

/// The text of the first content block of a tool result.
pub fn text_block(frame: &mut Json) -> Option<&mut Json> {
    match member_at(frame, &["result", "content"])? {
        Json::Array(blocks) => member_at(blocks.first_mut()?, &["text"]),
        _ => None,
    }
}

/// The member at a path.
pub fn member_at<'j>(json: &'j mut Json, path: &[&str]) -> Option<&'j mut Json> {
    path.iter().try_fold(json, |json, name| match json {
        Json::Object(members) => members.get_mut(*name),
        _ => None,
    })
}

/// Sets a member of the object at a path, if there is such an object.
pub fn set(json: &mut Json, path: &[&str], name: &str, value: Json) {
    if let Some(Json::Object(members)) = member_at(json, path) {
        members.insert(name.to_owned(), value);
    }
}

/// Removes a member of the object at a path, and returns it if it was there.
pub fn remove(json: &mut Json, path: &[&str], name: &str) -> Option<Json> {
    match member_at(json, path) {
        Some(Json::Object(members)) => members.shift_remove(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_symbols_in_code_are_replaced() {
        let program = "(first [\"first\" first-x 'first \\f]) ; first\n(inc' (ns/first x))";
        assert_eq!(
            symbol(program, "first", "last"),
            "(last [\"first\" first-x 'last \\f]) ; first\n(inc' (ns/last x))"
        );
    }

    #[test]
    fn mirrored_text_follows_the_payload() {
        let mut frame = Json::parse(
            r#"{"id":1,"result":{"content":[{"type":"text","text":"{\"result\":\"user=> 1\"}"}],"structuredContent":{"result":"user=> 1"}}}"#,
        )
        .expect("JSON");
        printed(&mut frame, |_| "2".to_owned());
        assert_eq!(
            frame.to_string(),
            r#"{"id":1,"result":{"content":[{"type":"text","text":"{\"result\":\"user=> 2\"}"}],"structuredContent":{"result":"user=> 2"}}}"#
        );
    }
}
