//! The text that a combined-mode agent shows a model first: role, reference card, tool inventory, output
//! format. Only composes the text; decides nothing.

use std::fmt::Write as _;

use ptc_lang::Value;
use ptc_protocol::{FormatOptions, Type, format_value, type_to_json_schema};

use crate::tool::Tool;

/// Limited because every request pays for the card.
const CARD_BYTES_MAX: usize = 1_100;
/// Maximum items and characters shown of a context value.
const CONTEXT_ITEMS_MAX: usize = 100;
const CONTEXT_CHARS_MAX: usize = 200;

const BASE: &str = "<role>\nYou answer the user's request. Use tools when they help.\n</role>\n\n<instructions>\nCall tools \
for facts you do not have. When you know the answer, reply with it and call no tool.\n</instructions>";

/// What a model must know to write programs for `lisp_eval`.
pub const CARD: &str = "<ptc_lisp_reference>\n\
`lisp_eval` runs the PTC-Lisp (small Clojure) source in its `program` string: exact computation, filtering, \
aggregation. One or more top-level forms; the last value, or `(return value)`, is the result.\n\
Core: def defn let fn #() if when cond loop/recur println -> ->>, plus collection, string, set, regex and math \
functions. No let*, lambda, equal?, length.\n\
JSON maps have string keys; (:k m) finds \"k\". Context is `data/<key>`, e.g. (count data/rows). Namespaces are \
fixed: no require.\n\
Absent: macros, lazy or infinite seqs, atoms, futures, exceptions, I/O.\n\
Inside programs app tools are `(tool/name {...})`; only `lisp_eval` and the listed tools are native.\n\
When a native result says `full_result_cached: true`, call the same tool with equal arguments in a program: it \
gets the whole cached result without running again.\n\
```clojure\n\
(def rows (tool/search {:q \"error\"}))\n\
(return {:open (count (filter #(= (:state %) \"open\") rows))})\n\
```\n\
</ptc_lisp_reference>";

const _: () = assert!(CARD.len() <= CARD_BYTES_MAX);

/// How an agent changes the base of its system prompt. The card always follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SystemPrompt {
    #[default]
    Base,
    Replaced(String),
    /// The base prompt between two texts.
    Wrapped {
        /// Text before; may be empty.
        prefix: String,
        /// Text after; may be empty.
        suffix: String,
    },
}

#[must_use]
pub fn base_prompt(custom: &SystemPrompt) -> String {
    match custom {
        SystemPrompt::Base => BASE.to_owned(),
        SystemPrompt::Replaced(text) => text.clone(),
        SystemPrompt::Wrapped { prefix, suffix } => {
            let parts = [prefix.as_str(), BASE, suffix.as_str()];
            parts
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("\n\n")
        }
    }
}

/// The system prompt of combined mode; `program_tools` must be sorted by name.
#[must_use]
pub fn combined_prompt(custom: &SystemPrompt, program_tools: &[&Tool]) -> String {
    let mut prompt = base_prompt(custom);
    prompt.push_str("\n\n");
    prompt.push_str(CARD);
    if !program_tools.is_empty() {
        prompt.push_str("\n\n");
        write_inventory(&mut prompt, program_tools);
    }
    prompt
}

/// The system prompt of the modes whose answer is the value of a program.
#[must_use]
pub fn program_prompt(
    custom: &SystemPrompt,
    program_tools: &[&Tool],
    as_tool_call: bool,
) -> String {
    let how = if as_tool_call {
        "Answer by calling `lisp_eval` with a program that ends with (return value)."
    } else {
        "Answer with one PTC-Lisp program in a fenced block that ends with (return value)."
    };
    let mut prompt = combined_prompt(custom, program_tools);
    prompt.push_str("\n\n");
    prompt.push_str(how);
    prompt
}

/// The first user message: context, output format, mission.
#[must_use]
pub fn mission(
    prompt: &str,
    context: &[(String, Value)],
    descriptions: &[(String, String)],
    returns: Option<&Type>,
) -> String {
    let mut text = String::new();
    if !context.is_empty() {
        text.push_str("<context_data>\n");
        for (key, value) in context {
            let shown = format_value(
                value,
                FormatOptions {
                    items: Some(CONTEXT_ITEMS_MAX),
                    printable: Some(CONTEXT_CHARS_MAX),
                    chars: None,
                },
            );
            let _ = match descriptions.iter().find(|(name, _)| name == key) {
                Some((_, about)) => writeln!(text, "- {key}: {about} = {}", shown.text),
                None => writeln!(text, "- {key} = {}", shown.text),
            };
        }
        text.push_str("</context_data>\n\n");
    }
    let _ = write!(
        text,
        "<output_format>\n{}\n</output_format>\n\n",
        output_format(returns)
    );
    let _ = write!(text, "<mission>\n{prompt}\n</mission>");
    text
}

fn output_format(returns: Option<&Type>) -> String {
    use ptc_protocol::Prim;
    let expected = match returns {
        None | Some(Type::Prim(Prim::String)) => {
            return "Give the final answer as plain text.".to_owned();
        }
        Some(expected) => expected,
    };
    let kind = if matches!(expected, Type::List(_)) {
        "array"
    } else {
        "object"
    };
    let schema = type_to_json_schema(expected);
    format!("Give the final answer as a JSON {kind} matching this schema:\n{schema:#}")
}

fn write_inventory(text: &mut String, tools: &[&Tool]) {
    text.push_str("<ptc_tools>\nTools callable from inside `lisp_eval` as `(tool/name {...})`:\n");
    for tool in tools {
        let _ = write!(text, "- `(tool/{} {{...}})`", tool.name);
        if let Some(signature) = tool
            .signature_text
            .as_deref()
            .filter(|text| !text.is_empty())
        {
            let _ = write!(text, " — `{signature}`");
        }
        if let Some(description) = tool.description.as_deref().filter(|text| !text.is_empty()) {
            let _ = write!(text, " — {description}");
        }
        text.push('\n');
    }
    text.push_str("</ptc_tools>");
}
