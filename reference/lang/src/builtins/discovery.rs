//! The discovery forms: local names come from the tables, anything else from the host.

use super::{Builtin, Section, between, exactly, row};
use crate::discovery::{self, Entry};
use crate::error::{Kind, Sentence, Stop, naming, quoting};
use crate::eval::Eval;
use crate::host::Discovery;
use crate::value::{Map, Value};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("apropos", "discovery.apropos", Section::Discovery, &[], between(1, 2), "(apropos query), (apropos query opts)", "Searches names and descriptions, of upstream tools first, and returns one line for each match.", apropos),
    row("dir", "discovery.dir", Section::Discovery, &[], between(1, 2), "(dir ref), (dir ref opts)", "Lists the members of a namespace or class, or the tools of an upstream server.", dir),
    row("doc", "discovery.doc", Section::Discovery, &[], exactly(1), "(doc ref)", "Describes a function, form or upstream tool as text.", doc),
    row("meta", "discovery.meta", Section::Discovery, &[], exactly(1), "(meta ref)", "Describes a function, form or upstream tool as a map.", meta),
    row("ns-publics", "discovery.ns-publics", Section::Discovery, &[], exactly(1), "(ns-publics namespace)", "Maps the names of a namespace to their descriptions.", ns_publics),
    row("tool/servers", "discovery.servers", Section::Discovery, &[], exactly(0), "(tool/servers)", "Lists the configured upstream servers.", servers),
];

type Result<T = Value> = std::result::Result<T, Stop>;

fn problem(text: impl Into<Sentence>) -> Stop {
    Kind::Other(text.into()).into()
}

/// The text of a reference: a string or quoted symbol that is not empty, or a keyword if `keywords` is set.
fn reference(form: &str, value: &Value, keywords: bool) -> Result<String> {
    match value {
        Value::Str(text) | Value::Symbol(text) if !text.is_empty() => Ok(text.to_string()),
        Value::Keyword(text) if keywords => Ok(text.to_string()),
        other => Err(problem(quoting(
            format!("{form} requires a quoted symbol or string ref, got "),
            other,
        ))),
    }
}

/// The query of `apropos`: a string or a quoted symbol, not blank. Only its beginning counts.
fn query(value: &Value) -> Result<String> {
    const QUERY_BYTES_MAX: usize = 1_024;
    match value {
        Value::Str(text) | Value::Symbol(text)
            if !text[..text.floor_char_boundary(QUERY_BYTES_MAX)]
                .trim()
                .is_empty() =>
        {
            Ok(text[..text.floor_char_boundary(QUERY_BYTES_MAX)].to_owned())
        }
        other => Err(problem(quoting(
            "apropos requires query (non-empty string), got ",
            other,
        ))),
    }
}

/// The map of options; anything else is refused.
fn options(args: &[Value]) -> Result<Option<&Map>> {
    match args.get(1) {
        None => Ok(None),
        Some(Value::Map(map)) => Ok(Some(map)),
        Some(other) => Err(problem(quoting(
            "discovery options must be a map, got ",
            other,
        ))),
    }
}

/// The option `name`: an integer from `least` to `most`.
fn number(
    form: &str,
    options: Option<&Map>,
    name: &str,
    default: usize,
    least: i64,
    most: i64,
) -> Result<usize> {
    let Some(value) = options.and_then(|options| options.lookup(&Value::keyword(name))) else {
        return Ok(default);
    };
    match value {
        Value::Int(int) if (least..=most).contains(int) => {
            Ok(usize::try_from(*int).unwrap_or(default))
        }
        other => {
            let wanted = match (least, most) {
                (0, i64::MAX) => "a non-negative integer".to_owned(),
                _ => format!("an integer {least}..{most}"),
            };
            Err(problem(quoting(
                format!("{form} :{name} must be {wanted}, got "),
                other,
            )))
        }
    }
}

fn apropos(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let query = query(&args[0])?;
    let given = options(args)?;
    let limit = number("apropos", given, "limit", 8, 1, 50)?;
    let load = match given.and_then(|given| given.lookup(&Value::keyword("load"))) {
        None => false,
        Some(Value::Bool(load)) => *load,
        Some(other) => {
            return Err(problem(quoting(
                "apropos :load must be a boolean, got ",
                other,
            )));
        }
    };
    eval.charge(1_024 + query.len())?;
    let found = discovery::search(&query);
    let local: Vec<Value> = found
        .iter()
        .take(limit)
        .map(|entry| Value::from(format!("local: {} - {}", entry.reference, entry.doc)))
        .collect();
    let request = Discovery::Apropos {
        query: &query,
        limit,
        load,
        local: &local,
    };
    match eval.host().discover(&request) {
        Some(answer) => answer.map_err(crate::eval::host_fault),
        None => Ok(Value::vector(local)),
    }
}

/// Asks the host about anything but a local name.
fn ask_host(eval: &mut Eval<'_>, form: &str, reference: &str, request: &Discovery<'_>) -> Result {
    eval.refuel()?;
    match eval.host().discover(request) {
        Some(answer) => answer.map_err(crate::eval::host_fault),
        None => Err(problem(naming(format!("{form}: "), reference).then(
            " is no local name, and no upstream servers are configured; (apropos \"word\") searches local names",
        ))),
    }
}

fn dir(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let name = reference("dir", &args[0], false)?;
    let given = options(args)?;
    let limit = number("dir", given, "limit", 50, 1, 200)?;
    let offset = number("dir", given, "offset", 0, 0, i64::MAX)?;
    match discovery::members(&name) {
        Some(entries) => Ok(Value::vector(
            entries
                .iter()
                .skip(offset)
                .take(limit)
                .map(|entry| Value::from(entry.line()))
                .collect(),
        )),
        None => ask_host(
            eval,
            "dir",
            &name,
            &Discovery::Dir {
                server: &name,
                limit,
                offset,
            },
        ),
    }
}

fn doc(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let name = reference("doc", &args[0], true)?;
    match discovery::find(&name) {
        Some((entry, reference)) => Ok(Value::from(format!(
            "{reference}\nDescription: {}\nKind: {}\nNamespace: {}\nSignatures: {}",
            entry.doc, entry.kind, entry.namespace, entry.signatures
        ))),
        None => ask_host(eval, "doc", &name, &Discovery::Doc { reference: &name }),
    }
}

fn meta(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let name = reference("meta", &args[0], true)?;
    match discovery::find(&name) {
        Some((entry, reference)) => Ok(keyword_map([
            ("description", entry.doc.into()),
            ("kind", entry.kind.into()),
            ("name", entry.name.into()),
            ("namespace", entry.namespace.into()),
            ("ref", reference.into()),
            ("section", entry.section.into()),
            ("signatures", shapes(entry)),
            ("source", "local".into()),
        ])),
        None => ask_host(eval, "meta", &name, &Discovery::Meta { reference: &name }),
    }
}

fn keyword_map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(
        entries
            .into_iter()
            .map(|(key, value)| (Value::keyword(key), value))
            .collect(),
    )
}

fn shapes(entry: &Entry) -> Value {
    Value::vector(entry.shapes().map(Value::from).collect())
}

fn ns_publics(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let name = reference("ns-publics", &args[0], true)?;
    let entries = discovery::publics(&name).ok_or_else(|| {
        problem(
            naming("ns-publics: ", &name)
                .then(" is no namespace of the language; classes and servers have none"),
        )
    })?;
    let describe = |entry: &&Entry| {
        let description = keyword_map([
            ("arglists", shapes(entry)),
            ("doc", entry.doc.into()),
            ("name", entry.name.into()),
            ("section", entry.section.into()),
            ("source", "local".into()),
        ]);
        (Value::from(entry.name), description)
    };
    Ok(Value::Map(entries.iter().map(describe).collect()))
}

fn servers(eval: &mut Eval<'_>, _: &mut [Value]) -> Result {
    eval.refuel()?;
    match eval.host().discover(&Discovery::Servers) {
        Some(answer) => answer.map_err(crate::eval::host_fault),
        None => Err(problem("tool/servers: no upstream servers are configured")),
    }
}
