//! The discovery forms over upstreams: servers, apropos, dir, doc, meta. World faults give nil; a wrong name ends the
//! program.

use std::sync::Arc;

use ptc_lang::value::Map;
use ptc_lang::{Discovery, HostFault, Value};
use serde_json::Value as Json;

use crate::docs;
use crate::program::ProgramCalls;
use crate::prose::listed;
use crate::runtime::{Runtime, Upstream};
use crate::schema_keys::Declared;
use crate::tool::{PackedJson, Tool, Toolset};
use ptc_lang::rank::{Query, tokens};

type DiscoveryResult = Result<Value, HostFault>;

/// Answers one form. Its cost was already taken from the budget.
pub(crate) fn answer(program: &ProgramCalls, request: &Discovery<'_>) -> DiscoveryResult {
    match request {
        Discovery::Servers => Ok(servers(program)),
        Discovery::Apropos {
            query,
            limit,
            load,
            local,
        } => apropos(program, query, *limit, *load, local),
        Discovery::Dir {
            server,
            limit,
            offset,
        } => dir(program, server, *limit, *offset),
        Discovery::Doc { reference } => describe_tool(program, "doc", reference, doc),
        Discovery::Meta { reference } => describe_tool(program, "meta", reference, meta),
    }
}

fn servers(program: &ProgramCalls) -> Value {
    let rows = program.runtime().upstreams().map(|upstream| {
        let tools = upstream.tools();
        let count = tools
            .as_ref()
            .map_or(Value::Nil, |tools| Value::from(tools.tools().len()));
        map([
            ("name", program.scrubbed(&upstream.config.name).into()),
            ("description", upstream.config.description.as_str().into()),
            ("tool_count", count),
            ("catalog_loaded", tools.is_some().into()),
        ])
    });
    let rows = Value::vector(rows.collect());
    if json_bytes(&rows) > program.runtime().limits().catalog_result_bytes_max {
        Value::Nil
    } else {
        rows
    }
}

/// Loaded tools by score, then placeholders of upstreams that are not loaded, then local names.
fn apropos(
    program: &ProgramCalls,
    query: &str,
    limit: usize,
    load: bool,
    local: &[Value],
) -> DiscoveryResult {
    let runtime = program.runtime();
    if load {
        program.wait(load_all(runtime))?;
    }
    let query = tokens(query);
    let query = Query::new(&query);
    let toolsets: Vec<(&Upstream, Option<Arc<Toolset>>)> = runtime
        .upstreams()
        .map(|upstream| (upstream, upstream.tools()))
        .collect();
    let mut found: Vec<(u32, &str, &Tool)> = Vec::new();
    let mut cold: Vec<(u32, &Upstream)> = Vec::new();
    for (upstream, tools) in &toolsets {
        match tools {
            Some(tools) => found.extend(tools.indexed().filter_map(|(tool, indexed)| {
                let score = indexed.score(&query);
                (score > 0).then_some((score, upstream.config.name.as_str(), tool))
            })),
            None if !load => {
                let score = upstream.indexed.score(&query);
                if score > 0 {
                    cold.push((score, upstream));
                }
            }
            None => {}
        }
    }
    found.sort_by(|a, b| {
        b.0.cmp(&a.0)
            .then_with(|| (a.1, &a.2.name).cmp(&(b.1, &b.2.name)))
    });
    cold.sort_by(|a, b| {
        b.0.cmp(&a.0)
            .then_with(|| a.1.config.name.cmp(&b.1.config.name))
    });
    let tools = found.into_iter().map(|(_, server, tool)| {
        listed(
            &format!("{}/{}", program.scrubbed(server), tool.name),
            &tool.description,
        )
    });
    let hints = cold.into_iter().map(|(_, upstream)| {
        let name = program.scrubbed(&upstream.config.name);
        let about = if upstream.config.description.is_empty() {
            &name
        } else {
            &upstream.config.description
        };
        let about = crate::prose::one_line(about, crate::prose::LISTED_GRAPHEMES_MAX);
        let about = about.trim_end_matches('.');
        format!("{name}: {about}. Catalog not loaded. Use (dir \"{name}\" {{:limit 20}}).")
    });
    let lines: Vec<String> = tools.chain(hints).take(limit).collect();
    let total = lines.len();
    let mut items =
        cap_lines(lines, total, runtime.limits().catalog_result_bytes_max).unwrap_or_default();
    let room = limit.saturating_sub(items.len());
    items.extend(local.iter().take(room).cloned());
    Ok(Value::vector(items))
}

/// Loads every upstream that is not loaded yet; those that fail contribute nothing.
async fn load_all(runtime: &Arc<Runtime>) {
    let mut loading = tokio::task::JoinSet::new();
    for name in runtime.names().map(str::to_owned).collect::<Vec<_>>() {
        let runtime = Arc::clone(runtime);
        loading.spawn(async move {
            if let Some(upstream) = runtime.upstream(&name) {
                let _ = upstream.ensure_tools(runtime.is_live()).await;
            }
        });
    }
    while loading.join_next().await.is_some() {}
}

fn dir(program: &ProgramCalls, server: &str, limit: usize, offset: usize) -> DiscoveryResult {
    let Some(tools) = load_tools(program, server)? else {
        return Ok(Value::Nil);
    };
    let all: Vec<&Tool> = tools.sorted().skip(offset).take(limit).collect();
    let total = all.len();
    let lines = all
        .into_iter()
        .map(|tool| listed(&tool.name, &tool.description))
        .collect();
    let kept = cap_lines(
        lines,
        total,
        program.runtime().limits().catalog_result_bytes_max,
    );
    Ok(kept.map_or(Value::Nil, Value::vector))
}

/// `doc` and `meta`: look up one tool by `server/tool`.
fn describe_tool(
    program: &ProgramCalls,
    form: &str,
    reference: &str,
    tell: impl Fn(&ProgramCalls, &str, &Tool) -> DiscoveryResult,
) -> DiscoveryResult {
    let parts = reference
        .split_once('/')
        .filter(|(server, tool)| !server.is_empty() && !tool.is_empty());
    let Some((server, name)) = parts else {
        return program.raise(
            format!(
                "{form} requires upstream/tool ref, got {}",
                Json::from(&*program.shown_name(reference))
            ),
            None,
        );
    };
    let Some(tools) = load_tools(program, server)? else {
        return Ok(Value::Nil);
    };
    let Some(tool) = tools.get(name) else {
        return program.no_tool(server, name, &tools);
    };
    tell(program, &program.scrubbed(server), tool)
}

/// Built once per tool, and for one tool at a time: however many programs ask, only one schema is parsed at once.
fn doc(program: &ProgramCalls, server: &str, tool: &Tool) -> DiscoveryResult {
    if tool.doc.get().is_none() {
        let runtime = program.runtime();
        let _alone = program.wait(runtime.exclusive())?;
        tool.doc.get_or_init(|| {
            let most = runtime.limits().catalog_result_bytes_max;
            let text = docs::render(server, tool, most)?;
            (string_bytes(&text) <= most).then(|| text.into())
        });
    }
    let text = tool.doc.get().and_then(Option::as_ref);
    Ok(text.map_or(Value::Nil, |text| Value::str(&**text)))
}

fn meta(program: &ProgramCalls, server: &str, tool: &Tool) -> DiscoveryResult {
    let most = program.runtime().limits().catalog_result_bytes_max;
    let parts = [
        &tool.input_schema,
        &tool.output_schema,
        &tool.annotations,
        &tool.ptc,
    ];
    // Text that is far too long is rejected before it is parsed.
    if parts.iter().map(|part| part.text().len()).sum::<usize>() / 2 > most {
        return Ok(Value::Nil);
    }
    let value = full_description(server, tool);
    let fits = json_bytes(&value) <= most;
    Ok(if fits { value } else { Value::Nil })
}

fn full_description(server: &str, tool: &Tool) -> Value {
    let part = |json: &PackedJson| ptc_lang::json::from_str(json.text()).unwrap_or_default();
    let mut entries = vec![
        ("server", Value::from(server)),
        ("name", tool.name.as_str().into()),
        (
            "description",
            match tool.description.as_str() {
                "" => Value::Nil,
                text => text.into(),
            },
        ),
        ("input_schema", part(&tool.input_schema)),
        ("output_schema", part(&tool.output_schema)),
        ("annotations", part(&tool.annotations)),
    ];
    if !tool.ptc.is_null() {
        entries.push(("_ptc", part(&tool.ptc)));
    }
    map(entries)
}

/// The tools of a configured upstream, loaded if necessary; `None` when loading fails.
fn load_tools(program: &ProgramCalls, server: &str) -> Result<Option<Arc<Toolset>>, HostFault> {
    let upstream = program.upstream(server)?;
    let runtime = program.runtime();
    let limit = runtime.limits().call_timeout;
    // Timers must be created on the executor.
    let load =
        async { tokio::time::timeout(limit, upstream.ensure_tools(runtime.is_live())).await };
    Ok(program.wait(load)?.ok().and_then(Result::ok))
}

/// As many lines as fit into `cap` bytes of JSON, then a note of how many of `total` they are; `None` when none fits.
fn cap_lines(lines: Vec<String>, total: usize, cap: usize) -> Option<Vec<Value>> {
    let mut bytes = 2;
    let mut kept = Vec::with_capacity(lines.len());
    for line in lines {
        let size = string_bytes(&line) + 1;
        if bytes + size > cap {
            break;
        }
        bytes += size;
        kept.push(Value::from(line));
    }
    if kept.len() == total {
        return Some(kept);
    }
    if kept.is_empty() {
        return None;
    }
    let note = format!("... {}/{total} shown", kept.len());
    if bytes + string_bytes(&note) < cap {
        kept.push(Value::from(note));
    }
    Some(kept)
}

fn string_bytes(text: &str) -> usize {
    let mut out = Vec::with_capacity(text.len() + 2);
    ptc_rpc::write_string(&mut out, text);
    out.len()
}

/// Bytes of the value as compact JSON; the values built here consist of JSON types only.
fn json_bytes(value: &Value) -> usize {
    let mut wrapped = Map::new();
    wrapped.insert(Value::str("v"), value.clone());
    const WRAPPING: usize = r#"{"v":}"#.len();
    crate::arguments::encode(&wrapped, Declared::NOTHING, &ptc_lang::meter::Unwatched)
        .map_or(usize::MAX, |text| text.len() - WRAPPING)
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Map(
        entries
            .into_iter()
            .map(|(key, value)| (Value::str(key), value))
            .collect(),
    )
}
