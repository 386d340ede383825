//! Functions that make or call functions, parallel calls, and the ends of a program.

use super::{Builtin, Home, Section, at_least, between, combined_value, exactly, row};
use crate::error::{Kind, Stop, Unwind, about, bad_value, got, quoting, wrong_type};
use crate::eval::{Eval, sequence};
use crate::function::Combinator;
use crate::value::Value;

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("identity", "core.identity", Section::Core, &[Home::Core], exactly(1), "(identity x)", "Returns its argument unchanged.", identity),
    row("apply", "functions.apply", Section::Core, &[Home::Core], at_least(2), "(apply f coll), (apply f x ... coll)", "Calls a function with the items of a collection as its last arguments.", apply).streaming(1).lazy(super::seqs::lazy_apply),
    row("partial", "functions.partial", Section::Core, &[Home::Core], at_least(1), "(partial f arg1 ...)", "Makes a function with its first arguments fixed.", partial),
    row("comp", "functions.comp", Section::Core, &[Home::Core], at_least(0), "(comp f1 f2 ...)", "Makes a function that applies functions from right to left.", comp),
    row("juxt", "functions.juxt", Section::FunctionalTools, &[], at_least(1), "(juxt f1 f2 ...)", "Makes a function that returns the vector of the results of several functions.", juxt),
    row("complement", "functions.complement", Section::Core, &[Home::Core], exactly(1), "(complement f)", "Makes a function that returns the opposite truth value.", complement),
    row("constantly", "functions.constantly", Section::Core, &[Home::Core], exactly(1), "(constantly x)", "Makes a function that returns the same value for any arguments.", constantly),
    row("fnil", "functions.fnil", Section::Core, &[Home::Core], between(2, 4), "(fnil f default), (fnil f d1 d2), (fnil f d1 d2 d3)", "Makes a function that replaces nil among its first arguments by defaults and calls the given function.", fnil),
    row("every-pred", "functions.every-pred", Section::Core, &[Home::Core], at_least(1), "(every-pred p1 p2 ...)", "Makes a function that tests whether all predicates hold for all its arguments.", every_pred),
    row("some-fn", "functions.some-fn", Section::Core, &[Home::Core], at_least(1), "(some-fn f1 f2 ...)", "Makes a function that returns the first truthy result of several predicates.", some_fn),
    row("memoize", "functions.memoize", Section::Core, &[Home::Core], exactly(1), "(memoize f)", "Makes a function that remembers the results of another for the same arguments, except across branches of pmap and pcalls.", memoize),
    row("pmap", "functions.pmap", Section::FunctionalTools, &[], at_least(2), "(pmap f coll), (pmap f c1 c2 ...)", "Does what map does, but makes the calls in parallel; the order of the results is kept.", pmap),
    row("pcalls", "functions.pcalls", Section::FunctionalTools, &[], at_least(0), "(pcalls f1 f2 ...)", "Calls functions without arguments in parallel and returns their results in order.", pcalls),
    row("println", "core.println", Section::Core, &[Home::Core], at_least(0), "(println x ...)", "Prints its arguments separated by spaces and returns nil.", println),
    row("print", "core.print", Section::Core, &[Home::Core], at_least(0), "(print x ...)", "Prints its arguments like println; what is printed next goes on in the same line.", |eval, args| print_open(eval, args, crate::print::write_display)),
    row("prn", "core.prn", Section::Core, &[Home::Core], at_least(0), "(prn x ...)", "Prints its arguments in readable form, separated by spaces, and returns nil.", prn),
    row("pr", "core.pr", Section::Core, &[Home::Core], at_least(0), "(pr x ...)", "Prints its arguments like prn; what is printed next goes on in the same line.", |eval, args| print_open(eval, args, crate::print::write_readable)),
    row("return", "control.return", Section::AgentControl, &[], exactly(1), "(return value)", "Ends the program with a value.", return_value),
    row("fail", "control.fail", Section::AgentControl, &[], exactly(1), "(fail value)", "Ends the program as failed, with a value that says why.", fail),
];

/// The builtin that the form `step-done` calls.
#[rustfmt::skip]
pub static STEP_DONE: Builtin = row("step-done", "tasks.step-done", Section::AgentControl, &[], exactly(2), "(step-done \"id\" \"summary\")", "Records the summary of a finished step and returns it.", step_done);

/// The builtin that the form `task-reset` calls.
#[rustfmt::skip]
pub static TASK_RESET: Builtin = row("task-reset", "tasks.task-reset", Section::AgentControl, &[], exactly(1), "(task-reset \"id\")", "Forgets the remembered value of a task.", task_reset);

/// The builtin that the form `dotimes` calls with its number.
#[rustfmt::skip]
pub static DOTIMES: Builtin = row("dotimes", "forms.dotimes", Section::Iteration, &[], exactly(1), "(dotimes [name n] body ...)", "Drops the fraction of a number.", dotimes);

/// The builtin that the form `letfn` calls with the function for the whole group and the index of one of them.
#[rustfmt::skip]
pub static LETFN: Builtin = row("letfn", "forms.letfn", Section::Definitions, &[], exactly(2), "(letfn f which)", "Returns one of the functions that know each other.", |_, args| Ok(combined_value(Combinator::Letfn, take_args(args))));

type Result<T = Value> = std::result::Result<T, Stop>;

fn take_args(args: &mut [Value]) -> Vec<Value> {
    args.iter_mut().map(std::mem::take).collect()
}

fn dotimes(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    match &args[0] {
        // A character is a number for `long`, but no count.
        Value::Str(_) => Err(wrong_type("a number", &args[0])),
        _ => super::numbers::long(eval, args),
    }
}

fn identity(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(std::mem::take(&mut args[0]))
}

fn apply(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [function, given @ .., collection] = args else {
        return Ok(Value::Nil);
    };
    if sequence::is_endless(collection) {
        eval.realize(collection)?;
    }
    if sequence::as_lazy(collection).is_some()
        && let Value::Builtin(builtin) = function
        && builtin.name == "str"
    {
        let items = eval.stream(std::mem::take(collection))?;
        let mut text = String::new();
        for value in given {
            eval.realize(value)?;
            super::strings::append_text(eval, &mut text, value)?;
        }
        return super::strings::joined(eval, text, "", items);
    }
    if sequence::as_lazy(collection).is_some()
        && let Value::Builtin(builtin) = function
        && matches!(builtin.name, "+" | "*" | "+'" | "*'" | "max" | "min")
    {
        // A function that folds its arguments does not need all of them at once.
        let mut items = eval.stream(std::mem::take(collection))?;
        let mut given = take_args(given).into_iter();
        let (first, before) = match given.next() {
            Some(first) => (first, 0),
            None => match items.next(eval)? {
                Some(first) => (first, 1),
                None => return eval.call(function, &mut []),
            },
        };
        let mut folded = eval.call1(function, first)?;
        for item in given {
            folded = eval.call2(function, folded, item)?;
        }
        return eval.fold_stream(function, folded, items, before);
    }
    let mut rest = eval.take_items(std::mem::take(collection))?;
    if given.is_empty() {
        return eval.call(function, &mut rest);
    }
    let mut all = take_args(given);
    eval.reserve_values(all.len() + rest.len())?;
    eval.charge(rest.len())?;
    all.extend(rest);
    eval.call(function, &mut all)
}

fn partial(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(combined_value(Combinator::Partial, take_args(args)))
}

fn comp(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if let [only] = args {
        return Ok(std::mem::take(only));
    }
    Ok(combined_value(Combinator::Comp, take_args(args)))
}

fn juxt(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(combined_value(Combinator::Juxt, take_args(args)))
}

fn complement(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(combined_value(Combinator::Complement, take_args(args)))
}

fn constantly(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(combined_value(Combinator::Constantly, take_args(args)))
}

fn fnil(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(combined_value(Combinator::Fnil, take_args(args)))
}

fn every_pred(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(combined_value(Combinator::EveryPred, take_args(args)))
}

fn some_fn(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Ok(combined_value(Combinator::SomeFn, take_args(args)))
}

fn memoize(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    super::callable(&args[0])?;
    Ok(combined_value(Combinator::Memoize, take_args(args)))
}

// --- parallel calls

fn pmap(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let Some((function, collections)) = args.split_first_mut() else {
        return Ok(Value::Nil);
    };
    let function = std::mem::take(function);
    if !Eval::callable(&function) {
        let before = format!("expected a function, got {} ", function.kind().word());
        let problem = quoting(before, &function);
        return Err(Kind::Parallel {
            form: "pmap",
            problem,
        }
        .into());
    }
    let mut columns = Vec::with_capacity(collections.len());
    for collection in collections {
        columns.push(eval.take_items(std::mem::take(collection))?);
    }
    let count = columns.iter().map(Vec::len).min().unwrap_or(0);
    let results = eval.parallel("pmap", count, &|eval, index| {
        let mut row: Vec<Value> = columns.iter().map(|column| column[index].clone()).collect();
        eval.call(&function, &mut row)
    })?;
    Ok(Value::vector(results))
}

fn pcalls(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    for function in args.iter() {
        let problem = match function {
            Value::Fn(closure) if !closure.lambda.params.is_empty() => about(
                format!(
                    "expected functions without parameters, got one of {}",
                    closure.lambda.params.len()
                ),
                function,
            ),
            Value::Fn(_) | Value::Combined(_) | Value::Builtin(_) | Value::Var(_) => continue,
            other => quoting(
                format!("expected functions, got {} ", other.kind().word()),
                other,
            ),
        };
        return Err(Kind::Parallel {
            form: "pcalls",
            problem,
        }
        .into());
    }
    let functions = take_args(args);
    let results = eval.parallel("pcalls", functions.len(), &|eval, index| {
        eval.call(&functions[index], &mut [])
    })?;
    Ok(Value::vector(results))
}

// --- output, ends and notes

fn println(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let line = line(eval, args, crate::print::write_display)?;
    eval.print(line)?;
    Ok(Value::Nil)
}

fn prn(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let line = line(eval, args, crate::print::write_readable)?;
    eval.print(line)?;
    Ok(Value::Nil)
}

fn print_open(eval: &mut Eval<'_>, args: &mut [Value], write: super::strings::Write) -> Result {
    let text = line(eval, args, write)?;
    eval.print_open(text)?;
    Ok(Value::Nil)
}

/// The text of `args`, separated by spaces.
fn line(eval: &mut Eval<'_>, args: &[Value], write: super::strings::Write) -> Result<String> {
    let mut line = String::new();
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            line.push(' ');
        }
        super::strings::append(eval, &mut line, arg, write)?;
    }
    // A program that has to stop prints nothing.
    eval.refuel()?;
    Ok(line)
}

fn return_value(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Err(Box::new(Unwind::Return(std::mem::take(&mut args[0]))))
}

fn fail(_: &mut Eval<'_>, args: &mut [Value]) -> Result {
    Err(Box::new(Unwind::Fail(std::mem::take(&mut args[0]))))
}

fn step_done(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let id = step_text("id", &args[0])?;
    let summary = step_text("summary", &args[1])?;
    eval.steps
        .get_or_insert_default()
        .insert(id, summary.clone());
    Ok(summary)
}

fn task_reset(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let id = step_text("id", &args[0])?;
    if let Some(journal) = &mut eval.journal {
        journal.remove(&id);
    }
    Ok(Value::Nil)
}

/// A scalar as text; nil and collections are refused.
fn step_text(part: &str, value: &Value) -> Result {
    match value {
        Value::Str(_) => Ok(value.clone()),
        Value::Int(_) | Value::BigInt(_) | Value::Float(_) | Value::Keyword(_) | Value::Bool(_) => {
            Ok(Value::str(crate::print::readable(value)))
        }
        other => Err(bad_value(got(
            format!("the {part} must be a string, got "),
            other,
        ))),
    }
}
