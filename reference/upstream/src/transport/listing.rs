//! `tools/list` over any MCP transport: paging, and the required form of a page. Knows nothing of the wire.

use std::collections::HashSet;
use std::future::Future;

use ptc_rpc::JsonText;
use serde_json::Value;

use crate::fault::WorldFault;
use crate::limits::{LIST_BYTES_MAX, LIST_PAGES_MAX, TOOLS_MAX};
use crate::tool::RawTool;

/// Reads every page. `page` sends one `tools/list` with the given params and returns the JSON text of the
/// result.
pub(crate) async fn list_all<F>(
    mut page: impl FnMut(String) -> F,
) -> Result<Vec<RawTool>, WorldFault>
where
    F: Future<Output = Result<JsonText, WorldFault>>,
{
    let mut tools = Vec::new();
    let mut names = HashSet::new();
    let mut cursors = HashSet::new();
    let mut params = "{}".to_owned();
    let mut bytes = 0;
    for _ in 0..LIST_PAGES_MAX {
        let text = page(params).await?;
        bytes += text.len();
        if bytes > LIST_BYTES_MAX {
            return Err(WorldFault::unavailable(format!(
                "tools/list exceeded {LIST_BYTES_MAX} bytes"
            )));
        }
        let Page { entries, next } = read_page(&text)?;
        for entry in entries {
            let Some(tool) = RawTool::read(entry) else {
                continue;
            };
            // Of two tools with the same name only the first is reachable; the second would only confuse.
            if names.insert(tool.name.clone()) {
                tools.push(tool);
            }
        }
        if tools.len() > TOOLS_MAX {
            return Err(WorldFault::unavailable(format!(
                "tools/list named more than {TOOLS_MAX} tools"
            )));
        }
        let Some(cursor) = next else { return Ok(tools) };
        if !cursors.insert(cursor.clone()) {
            return Err(WorldFault::unavailable(
                "tools/list repeats a cursor and would never end",
            ));
        }
        params = serde_json::json!({ "cursor": cursor }).to_string();
    }
    Err(WorldFault::unavailable(format!(
        "tools/list has more than {LIST_PAGES_MAX} pages"
    )))
}

struct Page {
    entries: Vec<Value>,
    next: Option<String>,
}

fn read_page(text: &str) -> Result<Page, WorldFault> {
    let unexpected =
        || WorldFault::unavailable("tools/list returned unexpected payload ").quoting(text);
    let Ok(Value::Object(mut result)) = serde_json::from_str::<Value>(text) else {
        return Err(unexpected());
    };
    let Some(Value::Array(entries)) = result.remove("tools") else {
        return Err(unexpected());
    };
    let next = match result.remove("nextCursor") {
        Some(Value::String(cursor)) => Some(cursor),
        _ => None,
    };
    Ok(Page { entries, next })
}
