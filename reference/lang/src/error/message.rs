//! The wording of every error message. Knows nothing of how errors arise.

use std::fmt::{Display, Formatter, Result};

use super::quote::{is_unredacted, redact_after};
use super::{Kind, Quote, Redact, ValuePreview};
use crate::builtins::{self, Arity, METHODS, NAMESPACES};

/// A kind of error that displays as its sentence, with its quotes redacted.
pub(super) struct KindDisplay<'a>(&'a Kind, &'a Redact<'a>);

impl Kind {
    /// The sentence, with its quotes redacted.
    pub(super) fn display<'a>(&'a self, redact: &'a Redact<'a>) -> KindDisplay<'a> {
        KindDisplay(self, redact)
    }
}

impl Display for KindDisplay<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let KindDisplay(kind, redact) = *self;
        match kind {
            Kind::Read(error) => f.write_str(&error.render(redact)),
            Kind::Usage { expected } => write!(f, "Analysis error: expected {expected}"),
            Kind::Form(problem) => write!(f, "invalid_form: {problem}"),
            Kind::Member(name) => member(f, name, redact),
            Kind::Unbound(names) => unbound(f, names, redact),
            Kind::Duplicate { part, literal, text } => {
                write!(f, "duplicate_key: duplicate {part} {text} in {literal} literal")
            }
            Kind::Type { function, expected, found } => {
                write!(f, "type_error: {}expected {expected}, got {}", Prefix(function), describe_value(found, redact))
            }
            Kind::Value { function, problem } => write!(f, "type_error: {}{}", Prefix(function), problem.render(redact)),
            Kind::Arity { function, accepts, given } => {
                write!(f, "arity_error: {function} expects {accepts}, got {given}")
            }
            Kind::Pairs(problem) => write!(f, "arity_error: {problem}"),
            Kind::Arithmetic(problem) => write!(f, "arithmetic_error: {problem}"),
            Kind::NotCallable(quote) => write!(f, "not callable: {}", quote.render(redact)),
            Kind::Destructure { expected, found } => {
                write!(f, "destructure_error: expected {expected}, got {}", describe_value(found, redact))
            }
            Kind::Method(name) => {
                let name = redact(name);
                write!(f, "Unsupported method '{name}'. Supported interop methods: {}", METHODS.join(", "))
            }
            Kind::Data { name, .. } => {
                let (written, name) = redact_after("data/", name, redact);
                write!(f, "runtime_error: {written} is not bound: the `context` object did not provide a `{name}` key")
            }
            Kind::UnknownTool { name, available } => {
                let (_, name) = redact_after("tool/", name, redact);
                write!(f, "Unknown tool: {name}. ")?;
                match available.is_empty() {
                    true => f.write_str("No tools available."),
                    false => write!(f, "Available tools: {}", available.join(", ")),
                }
            }
            Kind::ToolArgs { name, found } => {
                let (written, _) = redact_after("tool/", name, redact);
                tool_args(f, &written, found.as_ref().map(|quote: &Quote| quote.render(redact)).as_deref())
            }
            Kind::Branch { form, index, cause } => write!(f, "{form}_error: item {index}: {}", cause.display(redact)),
            Kind::Parallel { form, problem } => write!(f, "{form}_error: {}", problem.render(redact)),
            Kind::Capacity => f.write_str(
                "parallel_capacity_exceeded: all parallel workers are busy; nest pmap and pcalls less, or run one of them with map",
            ),
            Kind::Host { message, .. } | Kind::Reported { message, .. } => f.write_str(message),
            Kind::Other(problem) => write!(f, "runtime_error: {}", problem.render(redact)),
            Kind::Timeout => f.write_str("the program ran longer than its time limit"),
            Kind::Memory => f.write_str("the program wanted more memory than its limit"),
            Kind::Cancelled => f.write_str("the call was cancelled"),
        }
    }
}

/// `name: `, or nothing for an empty name.
struct Prefix<'a>(&'a str);

impl Display for Prefix<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "{}: ", self.0)
        }
    }
}

/// The kind of a value, followed by the value.
pub(super) fn describe_value(found: &ValuePreview, redact: &Redact<'_>) -> String {
    let (word, text) = (found.kind.word(), found.text.render(redact));
    // Avoids `nil nil`.
    match word == text {
        true => text,
        false => format!("{word} {text}"),
    }
}

impl Display for Arity {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (self.min, self.max) {
            (min, Some(max)) if min == max => write!(f, "{min} {}", arguments(min.into())),
            (min, Some(max)) if min + 1 == max => write!(f, "{min} or {max} arguments"),
            (min, Some(max)) => write!(f, "{min} to {max} arguments"),
            (min, None) => write!(f, "at least {min} {}", arguments(min.into())),
        }
    }
}

/// The noun after a number of arguments.
pub fn arguments(count: usize) -> &'static str {
    match count {
        1 => "argument",
        _ => "arguments",
    }
}

/// What is wrong with a qualified name.
fn member(f: &mut Formatter<'_>, name: &str, redact: &Redact<'_>) -> Result {
    let (namespace, member) = match name.split_once('/') {
        Some((namespace, member)) if is_unredacted(name, redact) => (namespace, member),
        _ => return write!(f, "invalid_form: {} is in no namespace", redact(name)),
    };
    let mut namespaces = NAMESPACES.iter();
    if let Some(known) = namespaces.find(|known| known.spellings.contains(&namespace)) {
        let offers = builtins::members(known.id).join(", ");
        let title = known.title;
        return write!(
            f,
            "invalid_form: {member} is not available in {namespace}/. {title}: {offers}"
        );
    }
    write!(
        f,
        "invalid_form: unknown namespace {namespace}/. Available namespaces: data/, tool/, budget/"
    )?;
    let mut spellings = NAMESPACES.iter().flat_map(|known| known.spellings.iter());
    spellings.try_for_each(|spelling| write!(f, ", {spelling}/"))
}

fn unbound(
    f: &mut Formatter<'_>,
    names: &[(String, Option<String>)],
    redact: &Redact<'_>,
) -> Result {
    f.write_str(if names.len() == 1 {
        "Undefined variable: "
    } else {
        "Undefined variables: "
    })?;
    for (at, (name, _)) in names.iter().enumerate() {
        write!(f, "{}{}", if at == 0 { "" } else { ", " }, redact(name))?;
    }
    let mut end = ".";
    for (name, suggestion) in names {
        if let Some(suggestion) = suggestion
            && is_unredacted(name, redact)
        {
            write!(f, "{end} Did you mean `{suggestion}`")?;
            if names.len() > 1 {
                write!(f, " for `{name}`")?;
            }
            f.write_str("?")?;
            end = "";
        }
    }
    Ok(())
}

fn tool_args(f: &mut Formatter<'_>, tool: &str, found: Option<&str>) -> Result {
    write!(
        f,
        "invalid_tool_args: Tool calls take one map of named arguments: ({tool} {{:key value}}), not positional ones."
    )?;
    match found {
        Some(found) => write!(f, " Got {found}; wrap it as {{:key {found}}}."),
        None => Ok(()),
    }
}
