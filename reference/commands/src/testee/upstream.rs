//! Ranking, redaction and labels as operations.

use super::{InvalidInput, Operation};
use ptc_lang::rank::{Indexed, Query, tokens};
use ptc_secrets::{Redactor, Secret};
use ptc_upstream::{argument_label, arguments, result_label};
use serde_json::{Value as Json, json};

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "apropos_rank",
        doc: "`{query, tools: [{server, name, description?, arguments?}]}`: `[{reference, score}]`, best first.",
        run: op_apropos_rank,
    },
    Operation {
        name: "redact",
        doc: "`{secrets: [text], text}`: the text without them.",
        run: op_redact,
    },
    Operation {
        name: "render_schema",
        doc: "`{schema}`: `{argument, result, arguments}`, the labels that documentation shows.",
        run: op_render_schema,
    },
];

fn op_apropos_rank(input: &Json) -> Result<Json, Json> {
    let query = input
        .get("query")
        .and_then(Json::as_str)
        .ok_or(InvalidInput("query"))?;
    let tools = input
        .get("tools")
        .and_then(Json::as_array)
        .ok_or(InvalidInput("tools"))?;
    let query = tokens(query);
    let query = Query::new(&query);
    let mut ranked = Vec::new();
    for tool in tools {
        let text = |key: &str| tool.get(key).and_then(Json::as_str);
        let server = text("server").ok_or(InvalidInput("server"))?;
        let name = text("name").ok_or(InvalidInput("name"))?;
        let keys = tool
            .get("arguments")
            .and_then(Json::as_array)
            .into_iter()
            .flatten();
        let prose = text("description")
            .into_iter()
            .chain(keys.filter_map(Json::as_str));
        let score = Indexed::new([server, name], prose).score(&query);
        if score > 0 {
            ranked.push((score, format!("{server}/{name}")));
        }
    }
    ranked.sort_by(|(a_score, a), (b_score, b)| b_score.cmp(a_score).then_with(|| a.cmp(b)));
    Ok(ranked
        .into_iter()
        .map(|(score, reference)| json!({ "reference": reference, "score": score }))
        .collect())
}

fn op_redact(input: &Json) -> Result<Json, Json> {
    let secrets = input
        .get("secrets")
        .and_then(Json::as_array)
        .ok_or(InvalidInput("secrets"))?;
    let text = input
        .get("text")
        .and_then(Json::as_str)
        .ok_or(InvalidInput("text"))?;
    let mut builder = Redactor::builder();
    for secret in secrets {
        builder.add(&Secret::new(
            secret.as_str().ok_or(InvalidInput("secrets"))?.to_owned(),
        ));
    }
    Ok(builder.build().scrub_str(text).into())
}

fn op_render_schema(input: &Json) -> Result<Json, Json> {
    let schema = input.get("schema").ok_or(InvalidInput("schema"))?;
    let rows = arguments(schema).into_iter().map(|argument| {
        json!({ "key": argument.key, "shown": argument.shown, "label": argument.label, "required": argument.required })
    });
    Ok(json!({
        "argument": argument_label(schema),
        "result": result_label(schema),
        "arguments": rows.collect::<Vec<_>>(),
    }))
}
