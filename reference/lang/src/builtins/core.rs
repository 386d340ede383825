//! Functions that everything else stands on.

use super::{Builtin, Home, Section, at_least, exactly, row};
use crate::error::{Stop, Unwind};
use crate::eval::Eval;
use crate::value::Value;

/// The rows of this area.
pub const ROWS: &[Builtin] = &[
    row(
        "identity",
        "core.identity",
        Section::Core,
        &[Home::Core],
        exactly(1),
        "(identity x)",
        "Returns its argument unchanged.",
        identity,
    ),
    row(
        "println",
        "core.println",
        Section::Core,
        &[Home::Core],
        at_least(0),
        "(println x ...)",
        "Prints its arguments separated by spaces and returns nil.",
        println,
    ),
    row(
        "return",
        "control.return",
        Section::AgentControl,
        &[],
        exactly(1),
        "(return value)",
        "Ends the program with a value.",
        return_value,
    ),
    row(
        "fail",
        "control.fail",
        Section::AgentControl,
        &[],
        exactly(1),
        "(fail value)",
        "Ends the program as failed, with a value that says why.",
        fail,
    ),
];

fn identity(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    Ok(std::mem::take(&mut args[0]))
}

fn println(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let mut line = String::new();
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            line.push(' ');
        }
        eval.walk(arg)?;
        line.push_str(&crate::print::display(arg));
    }
    eval.print(line);
    Ok(Value::Nil)
}

fn return_value(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    Err(Box::new(Unwind::Return(std::mem::take(&mut args[0]))))
}

fn fail(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    Err(Box::new(Unwind::Fail(std::mem::take(&mut args[0]))))
}
