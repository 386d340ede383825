//! Sequence functions. Every result is a vector, or a lazy sequence that becomes one wherever it is kept or shown.
//! Anything seqable is a sequence: vectors, sets, maps as entries, strings as graphemes, nil as nothing.

pub mod building;
pub mod endless;
pub mod folding;
pub mod grouping;
mod lazy;
pub mod mapping;
pub mod parts;
pub mod trees;

use super::{Builtin, callable};
use crate::error::Stop;
use crate::eval::{Eval, sequence};
use crate::value::Value;

pub(super) use building::{into_target, key_function};
pub(super) use lazy::lazy_apply;
pub(super) use parts::item_at;

type Result<T = Value> = std::result::Result<T, Stop>;

/// The row with the name `name`.
fn builtin(name: &str) -> &'static Builtin {
    super::lookup(name).expect("a row of the table")
}

/// The transducer that `name` returns when it is called without a collection.
fn transducer_of(name: &str, args: &mut [Value]) -> Result {
    if let Some(function) = args.first()
        && !matches!(
            name,
            "take" | "drop" | "take-nth" | "partition-all" | "interpose"
        )
    {
        callable(function)?;
    }
    let args = args.iter_mut().map(std::mem::take).collect();
    Ok(sequence::transducer(builtin(name), args))
}

/// Refuses collections none of which has an end.
fn require_bounded(eval: &mut Eval<'_>, collections: &mut [Value]) -> Result<()> {
    if !collections.is_empty() && collections.iter().all(sequence::is_endless) {
        return eval.realize(&mut collections[0]);
    }
    Ok(())
}

/// A transducer if there is no collection, or a lazy sequence if the collection has no end.
fn lazy_result(eval: &mut Eval<'_>, name: &str, args: &mut [Value]) -> Result<Option<Value>> {
    Ok(match args {
        [_] => Some(transducer_of(name, args)?),
        [argument, endless] if sequence::is_endless(endless) => {
            let argument = std::mem::take(argument);
            Some(eval.with_transducer(builtin(name), &[argument], endless)?)
        }
        _ => None,
    })
}
