//! Predicates. Everything here examines one value and returns a boolean, except `boolean`, `keyword` and `type`.

use std::sync::LazyLock;

use super::{Builtin, Home, Section, exactly, row};
use crate::error::{Stop, bad_value, quoting, wrong_type};
use crate::eval::Eval;
use crate::eval::sequence::unsettled;
use crate::value::{Type, Value};

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("nil?", "predicates.nil?", Section::Core, &[Home::Core], exactly(1), "(nil? x)", "Returns true for nil only.", is_nil).kinds(),
    row("some?", "predicates.some?", Section::Core, &[Home::Core], exactly(1), "(some? x)", "Returns true for everything but nil.", is_some).kinds(),
    row("true?", "predicates.true?", Section::Core, &[Home::Core], exactly(1), "(true? x)", "Returns true for true only.", is_true).kinds(),
    row("false?", "predicates.false?", Section::Core, &[Home::Core], exactly(1), "(false? x)", "Returns true for false only.", is_false).kinds(),
    row("boolean?", "predicates.boolean?", Section::Core, &[Home::Core], exactly(1), "(boolean? x)", "Returns true for true and false.", is_boolean).kinds(),
    row("number?", "predicates.number?", Section::Core, &[Home::Core], exactly(1), "(number? x)", "Returns true for an integer or a float.", is_number).kinds(),
    row("int?", "predicates.int?", Section::Core, &[Home::Core], exactly(1), "(int? x)", "Returns true for an integer.", is_integer).kinds(),
    row("integer?", "predicates.integer?", Section::Core, &[Home::Core], exactly(1), "(integer? x)", "Returns true for an integer.", is_integer).kinds(),
    row("float?", "predicates.float?", Section::Core, &[Home::Core], exactly(1), "(float? x)", "Returns true for a float.", is_float).kinds(),
    row("double?", "predicates.double?", Section::Core, &[Home::Core], exactly(1), "(double? x)", "Returns true for a float.", is_float).kinds(),
    row("ratio?", "predicates.ratio?", Section::Core, &[Home::Core], exactly(1), "(ratio? x)", "Returns false: there are no ratios.", never).kinds(),
    row("rational?", "predicates.rational?", Section::Core, &[Home::Core], exactly(1), "(rational? x)", "Returns true for an integer.", is_integer).kinds(),
    row("decimal?", "predicates.decimal?", Section::Core, &[Home::Core], exactly(1), "(decimal? x)", "Returns false: there are no decimals.", never).kinds(),
    row("string?", "predicates.string?", Section::Core, &[Home::Core], exactly(1), "(string? x)", "Returns true for a string.", is_string).kinds(),
    row("char?", "predicates.char?", Section::Core, &[Home::Core], exactly(1), "(char? x)", "Returns true for a string of one grapheme.", is_char).kinds(),
    row("keyword?", "predicates.keyword?", Section::Core, &[Home::Core], exactly(1), "(keyword? x)", "Returns true for a keyword.", is_keyword).kinds(),
    row("symbol?", "predicates.symbol?", Section::Core, &[Home::Core], exactly(1), "(symbol? x)", "Returns true for a quoted symbol.", is_symbol).kinds(),
    row("vector?", "predicates.vector?", Section::Core, &[Home::Core], exactly(1), "(vector? x)", "Returns true for a vector.", is_vector).kinds(),
    row("map?", "predicates.map?", Section::Core, &[Home::Core], exactly(1), "(map? x)", "Returns true for a map.", is_map).kinds(),
    row("set?", "predicates.set?", Section::Sets, &[Home::Core, Home::Set], exactly(1), "(set? x)", "Returns true for a set.", is_set).kinds(),
    row("coll?", "predicates.coll?", Section::Core, &[Home::Core], exactly(1), "(coll? x)", "Returns true for a vector, map or set.", is_coll).kinds(),
    row("seq?", "predicates.seq?", Section::Core, &[Home::Core], exactly(1), "(seq? x)", "Returns true for a vector, the only kind of sequence.", is_vector).kinds(),
    row("sequential?", "predicates.sequential?", Section::Core, &[Home::Core], exactly(1), "(sequential? x)", "Returns true for a vector.", is_vector).kinds(),
    row("seqable?", "predicates.seqable?", Section::Core, &[Home::Core], exactly(1), "(seqable? x)", "Returns true for anything that sequence functions accept: nil, a collection or a string.", is_seqable).kinds(),
    row("counted?", "predicates.counted?", Section::Core, &[Home::Core], exactly(1), "(counted? x)", "Returns true for a collection whose size is known: a vector, map or set.", is_coll),
    row("indexed?", "predicates.indexed?", Section::Core, &[Home::Core], exactly(1), "(indexed? x)", "Returns true for a vector.", is_vector),
    row("associative?", "predicates.associative?", Section::Core, &[Home::Core], exactly(1), "(associative? x)", "Returns true for a map or a vector.", is_associative),
    row("reversible?", "predicates.reversible?", Section::Core, &[Home::Core], exactly(1), "(reversible? x)", "Returns true for a vector.", is_vector),
    row("sorted?", "predicates.sorted?", Section::Core, &[Home::Core], exactly(1), "(sorted? x)", "Returns false: there is no sorted collection kind.", never).kinds(),
    row("map-entry?", "predicates.map-entry?", Section::Core, &[Home::Core], exactly(1), "(map-entry? x)", "Returns false: the entries of a map are ordinary vectors.", never).kinds(),
    row("fn?", "predicates.fn?", Section::Core, &[Home::Core], exactly(1), "(fn? x)", "Returns true for a function.", is_fn).kinds(),
    row("ifn?", "predicates.ifn?", Section::Core, &[Home::Core], exactly(1), "(ifn? x)", "Returns true for anything that can be called: a function, keyword, map, set, vector or var.", is_ifn).kinds(),
    row("zero?", "predicates.zero?", Section::Core, &[Home::Core], exactly(1), "(zero? x)", "Returns true for zero.", is_zero),
    row("pos?", "predicates.pos?", Section::Core, &[Home::Core], exactly(1), "(pos? x)", "Returns true for a number above zero.", is_pos),
    row("neg?", "predicates.neg?", Section::Core, &[Home::Core], exactly(1), "(neg? x)", "Returns true for a number below zero.", is_neg),
    row("pos-int?", "predicates.pos-int?", Section::Core, &[Home::Core], exactly(1), "(pos-int? x)", "Returns true for an integer above zero.", is_pos_int),
    row("neg-int?", "predicates.neg-int?", Section::Core, &[Home::Core], exactly(1), "(neg-int? x)", "Returns true for an integer below zero.", is_neg_int),
    row("nat-int?", "predicates.nat-int?", Section::Core, &[Home::Core], exactly(1), "(nat-int? x)", "Returns true for an integer of zero or more.", is_nat_int),
    row("odd?", "predicates.odd?", Section::Core, &[Home::Core], exactly(1), "(odd? x)", "Returns true for an odd integer.", is_odd),
    row("even?", "predicates.even?", Section::Core, &[Home::Core], exactly(1), "(even? x)", "Returns true for an even integer.", is_even),
    row("infinite?", "predicates.infinite?", Section::Core, &[Home::Core], exactly(1), "(infinite? x)", "Returns true for an infinite float.", is_infinite),
    row("NaN?", "predicates.NaN?", Section::Core, &[Home::Core], exactly(1), "(NaN? x)", "Returns true for the float that is not a number.", is_nan),
    row("not", "core.not", Section::Core, &[Home::Core], exactly(1), "(not x)", "Returns true for nil and false, false for everything else.", not).kinds(),
    row("boolean", "core.boolean", Section::Core, &[Home::Core], exactly(1), "(boolean x)", "Returns false for nil and false, true for everything else.", boolean).kinds(),
    row("keyword", "core.keyword", Section::Core, &[Home::Core], exactly(1), "(keyword x)", "Makes a keyword from a string, keyword or symbol; returns nil for anything else.", keyword).kinds(),
    row("type", "core.type", Section::Core, &[Home::Core], exactly(1), "(type x)", "Returns a keyword that names the kind of a value.", type_of).kinds(),
];

type Result<T = Value> = std::result::Result<T, Stop>;

/// A stand-in for a value of which only the kind matters: a lazy sequence counts as a vector, and need not be settled.
fn seen(value: &Value) -> &Value {
    static VECTOR: LazyLock<Value> = LazyLock::new(|| Value::vector(Vec::new()));
    match unsettled(value) {
        Some(_) => &VECTOR,
        None => value,
    }
}

macro_rules! predicates {
    ($($name:ident($pattern:pat $(=> $guard:expr)?);)*) => {
        $(fn $name(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
            Ok(Value::Bool(matches!(seen(&args[0]), $pattern $(if $guard)?)))
        })*
    };
}

predicates! {
    is_nil(Value::Nil);
    is_some(value => !value.is_nil());
    is_true(Value::Bool(true));
    is_false(Value::Bool(false));
    is_boolean(Value::Bool(_));
    is_number(Value::Int(_) | Value::BigInt(_) | Value::Float(_));
    is_integer(Value::Int(_) | Value::BigInt(_));
    is_float(Value::Float(_));
    never(Value::Nil => false);
    is_string(Value::Str(_));
    is_keyword(Value::Keyword(_));
    is_symbol(Value::Symbol(_));
    is_vector(Value::Vector(_));
    is_map(Value::Map(_));
    is_set(Value::Set(_));
    is_coll(Value::Vector(_) | Value::Map(_) | Value::Set(_));
    is_associative(Value::Vector(_) | Value::Map(_));
    is_seqable(Value::Vector(_) | Value::Map(_) | Value::Set(_) | Value::Str(_) | Value::Nil);
    is_fn(Value::Fn(_) | Value::Builtin(_) | Value::Combined(_));
    is_ifn(value => Eval::callable(value));
}

fn is_char(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    // A character is a string of one grapheme.
    Ok(Value::Bool(
        matches!(&args[0], Value::Str(text) if text.graphemes().take(2).count() == 1),
    ))
}

/// The comparison of an integer or float with zero; `None` for any other value and for NaN.
fn sign(value: &Value) -> Option<std::cmp::Ordering> {
    match value {
        Value::Int(_) | Value::BigInt(_) => Some(crate::value::number_cmp(value, &Value::Int(0))),
        Value::Float(float) => float.partial_cmp(&0.0),
        _ => None,
    }
}

/// Refuses values that are not numbers, for the predicates that need one (`predicates.numbers`).
fn a_number(value: &Value) -> Result<&Value> {
    match value {
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) => Ok(value),
        _ => Err(wrong_type("a number", value)),
    }
}

/// Whether `holds` is true for the comparison of a number with zero.
fn signed(args: &[Value], holds: fn(std::cmp::Ordering) -> bool) -> Result {
    Ok(Value::Bool(sign(a_number(&args[0])?).is_some_and(holds)))
}

fn is_zero(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    signed(args, std::cmp::Ordering::is_eq)
}

fn is_pos(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    signed(args, std::cmp::Ordering::is_gt)
}

fn is_neg(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    signed(args, std::cmp::Ordering::is_lt)
}

fn whole_with(value: &Value, holds: fn(std::cmp::Ordering) -> bool) -> Value {
    let whole = matches!(value, Value::Int(_) | Value::BigInt(_));
    Value::Bool(whole && sign(value).is_some_and(holds))
}

fn is_pos_int(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(whole_with(&args[0], std::cmp::Ordering::is_gt))
}

fn is_neg_int(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(whole_with(&args[0], std::cmp::Ordering::is_lt))
}

fn is_nat_int(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(whole_with(&args[0], std::cmp::Ordering::is_ge))
}

/// Whether an integral number is odd; `None` for any other value.
fn parity(value: &Value) -> Option<bool> {
    match value {
        Value::Int(int) => Some(int & 1 == 1),
        Value::BigInt(int) => Some(int.bit(0)),
        Value::Float(float) if float.fract() == 0.0 => Some(float % 2.0 != 0.0),
        _ => None,
    }
}

fn is_odd(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(parity(a_number(&args[0])?) == Some(true)))
}

fn is_even(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(parity(a_number(&args[0])?) == Some(false)))
}

fn is_infinite(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(
        matches!(&args[0], Value::Float(float) if float.is_infinite()),
    ))
}

fn is_nan(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(
        matches!(&args[0], Value::Float(float) if float.is_nan()),
    ))
}

fn not(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(!args[0].truthy()))
}

fn boolean(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(Value::Bool(args[0].truthy()))
}

fn keyword(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let Value::Str(name) = &args[0] {
        eval.charge(name.len() / 16)?;
    }
    match &args[0] {
        Value::Str(name) | Value::Symbol(name) if !crate::reader::is_readable_keyword(name) => {
            Err(bad_value(quoting("", &args[0]).then(
                " cannot be a keyword: a keyword has ASCII letters, digits and + - * < > = ? ! _",
            )))
        }
        Value::Str(name) | Value::Symbol(name) | Value::Keyword(name) => {
            Ok(Value::Keyword(name.clone()))
        }
        _ => Ok(Value::Nil),
    }
}

fn type_of(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(match args[0].kind() {
        Type::Nil => Value::Nil,
        Type::Integer | Type::Float => Value::keyword("number"),
        kind => Value::keyword(kind.word()),
    })
}
