//! Trees as sequences of their nodes.

use super::lazy::step;
use super::{Result, builtin};
use crate::builtins::{Builtin, Home, Section, callable, exactly, row};
use crate::error::{not_an_argument, wrong_type};
use crate::eval::{Eval, sequence};
use crate::value::Value;

/// The rows of this module.
#[rustfmt::skip]
pub const ROWS: &[Builtin] = &[
    row("flatten", "seqs.flatten", Section::Core, &[Home::Core], exactly(1), "(flatten coll)", "Replaces nested vectors by their items, at every depth.", flatten).streaming(0).lazy(step),
    row("tree-seq", "seqs.tree-seq", Section::Core, &[Home::Core], exactly(3), "(tree-seq branch? children root)", "Returns the nodes of a tree in depth-first order.", tree_seq),
];

fn flatten(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    if sequence::as_lazy(&args[0]).is_some() {
        let flat = eval.with_transducer(builtin("flatten"), &[], &args[0])?;
        return match sequence::is_endless(&flat) {
            true => Ok(flat),
            false => eval.realized(flat),
        };
    }
    match &args[0] {
        Value::Vector(_) | Value::Set(_) | Value::Map(_) | Value::Nil | Value::Str(_) => {}
        other => return Err(wrong_type("a collection", other)),
    }
    eval.walk(&args[0])?;
    let mut flat = Vec::new();
    let mut pending = eval.take_items(std::mem::take(&mut args[0]))?;
    pending.reverse();
    while let Some(item) = pending.pop() {
        match item {
            Value::Vector(items) => {
                eval.charge(items.len())?;
                eval.reserve_values(pending.len() + items.len())?;
                pending.extend(items.iter().rev().cloned());
            }
            other => {
                eval.charge(1)?;
                flat.push(other);
            }
        }
    }
    Ok(Value::vector(flat))
}

fn tree_seq(eval: &mut Eval<'_>, args: &mut [Value]) -> Result {
    let [branch, children, root] = args else {
        return Ok(Value::Nil);
    };
    callable(branch)?;
    callable(children)?;
    let mut nodes = Vec::new();
    let mut pending = vec![std::mem::take(root)];
    while let Some(node) = pending.pop() {
        if eval.call1(branch, node.clone())?.is_truthy() {
            let below = eval.call1(children, node.clone())?;
            let below = eval.take_items(below).map_err(not_an_argument)?;
            pending.extend(below.into_iter().rev());
        }
        nodes.push(node);
    }
    Ok(Value::vector(nodes))
}
