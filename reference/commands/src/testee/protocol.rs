//! Programs, payloads, signatures and schemas as operations.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ptc_lang::print::PREVIEW_ITEMS;
use ptc_lang::{Ended, Env, Limits, Program, Reason, Value};
use serde_json::{Map, Value as Json, json};

use super::{InvalidInput, Operation, text_of, value_of};
use crate::agent::ClockHost;
use ptc_protocol::limits::WITHOUT_UPSTREAMS;
use ptc_protocol::{
    ErrorReason, Execution, FormatOptions, HISTORY_SIZE_MAX, MemoryDelta, PreviewOptions, Profile,
    Segment, Signature, Step, StepOptions, SuccessOptions, Turns, Type, atomize_value,
    coerce_input, decode_value, describe_mismatches, encode_value, execution_feedback,
    format_value, json_schema_to_type, json_to_value, parameters_schema, parse_signature,
    provider_schema, render_error, render_success, render_success_from_step, shorten, size_units,
    to_json_value, tool_definition, tool_description, type_to_json_schema, validate_program,
    validate_return,
};

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "atomize_value",
        doc: "`{type, value}`: the value in the form that the type asks for.",
        run: op_atomize_value,
    },
    Operation {
        name: "coerce_input",
        doc: "`{type, value}`: `{value, warnings}`, or why the value cannot be made to fit.",
        run: op_coerce_input,
    },
    Operation {
        name: "format_value",
        doc: "`{value, opts: {limit?, printable_limit?}}`: `{text, truncated}`.",
        run: op_format_value,
    },
    Operation {
        name: "history_truncation",
        doc: "`{value}`: the value as it enters the history, with sizes before and after.",
        run: op_history_truncation,
    },
    Operation {
        name: "json_schema_to_type",
        doc: "`{schema}`: the type tree of an `output_schema`, or why it is refused.",
        run: op_json_schema_to_type,
    },
    Operation {
        name: "lisp_run",
        doc: "`{program, context?, limits?}`: `{result, prints, truncated, value?}`, or `{reason, message, prints, result?}`.",
        run: op_lisp_run,
    },
    Operation {
        name: "parse_signature",
        doc: "`{text}`: `{params, returns, render}`, or the parse error.",
        run: op_parse_signature,
    },
    Operation {
        name: "render_error",
        doc: "`{reason, message, opts: {feedback?, result?}}`: the error payload.",
        run: op_render_error,
    },
    Operation {
        name: "render_success",
        doc: "`{step: {return?}, execution, opts: {validated?, include_memory?}}`: the success payload.",
        run: op_render_success,
    },
    Operation {
        name: "render_success_from_step",
        doc: "`{step: {return, prints, memory}, opts}`: the success payload of a step.",
        run: op_render_success_from_step,
    },
    Operation {
        name: "signature_to_json_schema",
        doc: "`{signature, name, description?}`: return, provider and tool schemas.",
        run: op_signature_to_json_schema,
    },
    Operation {
        name: "to_json_value",
        doc: "`{value}`: the JSON form, or the path of what has none.",
        run: op_to_json_value,
    },
    Operation {
        name: "tool_description",
        doc: "`{profile}`: the description.",
        run: op_tool_description,
    },
    Operation {
        name: "validate_program",
        doc: "`{program?}`: the program, or `{reason, message}`.",
        run: op_validate_program,
    },
    Operation {
        name: "validate_return",
        doc: "`{signature | json_schema, value}`: null, or `{errors, joined}`.",
        run: op_validate_return,
    },
];

fn op_lisp_run(input: &Json) -> Result<Json, Json> {
    let refused =
        |message: String| json!({ "reason": ErrorReason::ArgsError.name(), "message": message });
    let program = input.get("program").map(json_to_value);
    let program = validate_program(program.as_ref()).map_err(|invalid| refused(invalid.message))?;
    let context = match input.get("context").map(json_to_value) {
        None | Some(Value::Nil) => ptc_lang::value::Map::new(),
        Some(Value::Map(context)) => context,
        Some(_) => {
            return Err(refused(
                "argument `context` must be a JSON object".to_owned(),
            ));
        }
    };
    for name in context.keys().filter_map(Value::key_text) {
        if name.as_str().is_empty() {
            return Err(refused(
                "argument `context` keys must be non-empty".to_owned(),
            ));
        }
        if name.as_str().contains('/') {
            let shown = Json::from(name.as_str());
            return Err(refused(format!(
                "argument `context` keys may not contain `/`: {shown}"
            )));
        }
    }
    let env = Env::new().with_context(context);
    let asked = input.get("limits").unwrap_or(&Json::Null);
    let timeout = match count_of(asked, "timeout_ms")? {
        Some(ms) => Duration::from_millis(ms as u64),
        None => WITHOUT_UPSTREAMS.timeout,
    };
    let mut limits = Limits::default();
    if let Some(bytes) = count_of(asked, "memory_bytes")? {
        limits.memory_bytes = bytes as u64;
    }
    let host = ClockHost {
        deadline: Instant::now() + timeout,
    };
    let (outcome, _) = ptc_lang::run(&Program::new(program), &env, &limits, &host);
    let failed = |reason: ErrorReason, message: String| {
        Err(json!({ "reason": reason.name(), "message": message, "prints": outcome.prints }))
    };
    let value = match &outcome.ended {
        Ended::Value(value) | Ended::Return(value) => value,
        Ended::Fail(value) => {
            let options = FormatOptions {
                items: Some(PREVIEW_ITEMS),
                ..FormatOptions::default()
            };
            let shown = format_value(value, options).text;
            return Err(json!({
                "reason": ErrorReason::Fail.name(), "message": shown, "result": shown, "prints": outcome.prints,
            }));
        }
        Ended::Error(error) => match error.reason() {
            Reason::ParseError => return failed(ErrorReason::ParseError, error.message()),
            Reason::RuntimeError => return failed(ErrorReason::RuntimeError, error.message()),
            Reason::MemoryLimit => return failed(ErrorReason::MemoryLimit, error.message()),
            Reason::Timeout | Reason::Cancelled => {
                let message = format!("execution exceeded {}ms limit", timeout.as_millis());
                return failed(ErrorReason::Timeout, message);
            }
        },
    };
    let nothing = BTreeMap::new();
    let previews = PreviewOptions::default();
    let shown = execution_feedback(
        value,
        &outcome.prints,
        &nothing,
        &nothing,
        Turns::Single,
        previews,
    );
    let mut answer =
        json!({ "result": shown.result, "prints": shown.prints, "truncated": shown.truncated });
    if let Ok(json) = to_json_value(value) {
        answer["value"] = json;
    }
    Ok(answer)
}

fn op_parse_signature(input: &Json) -> Result<Json, Json> {
    let signature =
        parse_signature(text_of(input, "text")?).map_err(|error| Json::from(error.to_string()))?;
    let params: Vec<Json> = signature
        .params
        .iter()
        .map(|(name, t)| json!([name, t.to_tree()]))
        .collect();
    Ok(
        json!({ "params": params, "returns": signature.returns.to_tree(), "render": signature.to_string() }),
    )
}

fn op_validate_return(input: &Json) -> Result<Json, Json> {
    let value = value_of(input, "value")?;
    let expected = match (input.get("json_schema"), input.get("signature")) {
        (Some(schema), _) => json_schema_to_type(schema).map_err(|fault| fault.to_string())?,
        (None, None | Some(Json::Null)) => return Ok(Json::Null),
        (None, Some(_)) => type_of(input, "signature")?,
    };
    let Err(mismatches) = validate_return(&expected, &value) else {
        return Ok(Json::Null);
    };
    let errors: Vec<Json> = mismatches
        .iter()
        .map(|mismatch| {
            let path: Vec<Json> = mismatch
                .path
                .iter()
                .map(|segment| match segment {
                    Segment::Field(name) => name.as_str().into(),
                    Segment::Index(index) => (*index).into(),
                })
                .collect();
            json!({ "path": path, "message": mismatch.message })
        })
        .collect();
    Err(json!({ "errors": errors, "joined": describe_mismatches(&mismatches, None) }))
}

fn op_to_json_value(input: &Json) -> Result<Json, Json> {
    to_json_value(&value_of(input, "value")?).map_err(|error| error.to_string().into())
}

fn op_atomize_value(input: &Json) -> Result<Json, Json> {
    Ok(encode_value(&atomize_value(
        &value_of(input, "value")?,
        &type_of(input, "type")?,
    )))
}

fn op_coerce_input(input: &Json) -> Result<Json, Json> {
    let coerced = coerce_input(&value_of(input, "value")?, &type_of(input, "type")?)
        .map_err(|fault| fault.to_string())?;
    Ok(json!({ "value": encode_value(&coerced.value), "warnings": coerced.warnings }))
}

fn op_validate_program(input: &Json) -> Result<Json, Json> {
    let program = input
        .get("program")
        .map(decode_value)
        .transpose()
        .map_err(|_| InvalidInput("program"))?;
    match validate_program(program.as_ref()) {
        Ok(text) => Ok(text.into()),
        Err(invalid) => {
            Err(json!({ "reason": ErrorReason::ArgsError.name(), "message": invalid.message }))
        }
    }
}

fn op_format_value(input: &Json) -> Result<Json, Json> {
    let options = input.get("opts").unwrap_or(&Json::Null);
    let options = FormatOptions {
        items: count_of(options, "limit")?,
        printable: count_of(options, "printable_limit")?,
        chars: None,
    };
    let formatted = format_value(&value_of(input, "value")?, options);
    Ok(json!({ "text": formatted.text, "truncated": formatted.truncated || formatted.cut }))
}

fn op_history_truncation(input: &Json) -> Result<Json, Json> {
    let value = value_of(input, "value")?;
    let kept = shorten(&value, HISTORY_SIZE_MAX);
    Ok(
        json!({ "value": encode_value(&kept), "in_size": size_units(&value), "out_size": size_units(&kept) }),
    )
}

fn op_json_schema_to_type(input: &Json) -> Result<Json, Json> {
    let schema = input.get("schema").ok_or(InvalidInput("schema"))?;
    json_schema_to_type(schema)
        .map(|t| t.to_tree())
        .map_err(|fault| fault.to_string().into())
}

fn op_signature_to_json_schema(input: &Json) -> Result<Json, Json> {
    let parsed = parse_signature(text_of(input, "signature")?);
    let name = text_of(input, "name")?;
    let description = input.get("description").and_then(Json::as_str);
    let definition = |signature: Option<&Signature>| {
        tool_definition(name, description, parameters_schema(signature))
    };
    Ok(match parsed {
        Ok(signature) => json!({
            "return_schema": type_to_json_schema(&signature.returns),
            "provider_schema": provider_schema(&signature.returns),
            "tool_definition": definition(Some(&signature)),
        }),
        Err(error) => {
            json!({ "signature_error": error.to_string(), "tool_definition": definition(None) })
        }
    })
}

fn op_tool_description(input: &Json) -> Result<Json, Json> {
    let profile = Profile::from_name(text_of(input, "profile")?).ok_or(InvalidInput("profile"))?;
    Ok(tool_description(profile).into())
}

fn op_render_error(input: &Json) -> Result<Json, Json> {
    let reason = ErrorReason::from_name(text_of(input, "reason")?).ok_or(InvalidInput("reason"))?;
    let options = input.get("opts").unwrap_or(&Json::Null);
    let text = render_error(
        reason,
        text_of(input, "message")?,
        options.get("feedback").cloned(),
        options.get("result").cloned(),
    );
    parsed(&text)
}

fn op_render_success(input: &Json) -> Result<Json, Json> {
    let execution = execution_of(
        input
            .get("execution")
            .and_then(Json::as_object)
            .ok_or(InvalidInput("execution"))?,
    )?;
    let returned = match input.get("step").and_then(|step| step.get("return")) {
        Some(value) => decode_value(value).map_err(|_| InvalidInput("step"))?,
        None => Value::Nil,
    };
    let options = input.get("opts").unwrap_or(&Json::Null);
    let options = SuccessOptions {
        validated: options.get("validated").cloned(),
        include_memory: options
            .get("include_memory")
            .and_then(Json::as_bool)
            .unwrap_or(true),
    };
    parsed(&render_success(&returned, execution, options))
}

fn op_render_success_from_step(input: &Json) -> Result<Json, Json> {
    let step = input.get("step").ok_or(InvalidInput("step"))?;
    let options = input.get("opts").unwrap_or(&Json::Null);
    let format = options.get("format_options").unwrap_or(&Json::Null);
    let limits = PreviewOptions::default();
    let step = Step {
        returned: value_of(step, "return")?,
        prints: texts(step.get("prints")),
        memory: names_of(step.get("memory"))?,
    };
    let options = StepOptions {
        validated: options.get("validated").cloned(),
        include_memory: options
            .get("include_memory")
            .and_then(Json::as_bool)
            .unwrap_or(false),
        prior_memory: names_of(options.get("prior_memory"))?,
        preview: PreviewOptions {
            preview_chars: count_of(format, "preview_max_chars")?.unwrap_or(limits.preview_chars),
            feedback_chars: count_of(format, "feedback_max_chars")?
                .unwrap_or(limits.feedback_chars),
        },
    };
    parsed(&render_success_from_step(&step, options))
}

fn parsed(payload: &str) -> Result<Json, Json> {
    serde_json::from_str(payload).map_err(|error| error.to_string().into())
}

fn type_of(input: &Json, field: &'static str) -> Result<Type, InvalidInput> {
    let signature = parse_signature(text_of(input, field)?).map_err(|_| InvalidInput(field))?;
    Ok(signature.returns)
}

fn count_of(options: &Json, field: &'static str) -> Result<Option<usize>, InvalidInput> {
    match options.get(field) {
        None | Some(Json::Null) => Ok(None),
        Some(count) => match count.as_u64().and_then(|count| usize::try_from(count).ok()) {
            Some(count) => Ok(Some(count)),
            None => Err(InvalidInput(field)),
        },
    }
}

fn texts(list: Option<&Json>) -> Vec<String> {
    let list = list
        .and_then(Json::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter()
        .filter_map(Json::as_str)
        .map(str::to_owned)
        .collect()
}

fn names_of(memory: Option<&Json>) -> Result<BTreeMap<String, Value>, InvalidInput> {
    let decoded = match memory {
        None | Some(Json::Null) => return Ok(BTreeMap::new()),
        Some(memory) => decode_value(memory).map_err(|_| InvalidInput("memory"))?,
    };
    let Value::Map(map) = &decoded else {
        return Err(InvalidInput("memory"));
    };
    let named = map
        .iter()
        .map(|(key, value)| Some((key.key_text()?.as_str().to_owned(), value.clone())));
    named.collect::<Option<_>>().ok_or(InvalidInput("memory"))
}

fn execution_of(fields: &Map<String, Json>) -> Result<Execution, InvalidInput> {
    let flag = |value: Option<&Json>| value.and_then(Json::as_bool);
    let memory = fields.get("memory").unwrap_or(&Json::Null);
    let changed = memory.get("changed").and_then(Json::as_object);
    let changed = changed.into_iter().flatten();
    Ok(Execution {
        result: fields
            .get("result")
            .and_then(Json::as_str)
            .map(str::to_owned),
        prints: texts(fields.get("prints")),
        feedback: fields
            .get("feedback")
            .and_then(Json::as_str)
            .ok_or(InvalidInput("execution"))?
            .to_owned(),
        memory: MemoryDelta {
            changed: changed
                .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())))
                .collect(),
            stored_keys: texts(memory.get("stored_keys")),
            truncated: flag(memory.get("truncated")).unwrap_or(false),
        },
        truncated: flag(fields.get("truncated")).ok_or(InvalidInput("execution"))?,
        visible_truncated: flag(fields.get("visible_truncated")),
    })
}
