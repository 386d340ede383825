//! What the code of a function may do: print, define, call a tool or end the program. It is noted while the code is analysed.

use smallvec::SmallVec;

use super::Analyzer;
use super::ir::Ir;
use crate::builtins::Builtin;
use crate::value::Value;

/// What the code of a function may do.
#[derive(Default)]
pub(super) struct Effects {
    /// [`Lambda::has_effects`]
    pub has_effects: bool,
    /// [`Lambda::globals`]
    pub globals: Vec<u32>,
    /// Indices of the captures that it calls.
    pub called: Vec<u32>,
}

impl Analyzer<'_, '_> {
    pub(super) fn effects(&mut self) -> &mut Effects {
        self.effects.last_mut().expect("the top level has effects")
    }

    /// Notes that the code has a visible effect.
    pub(super) fn note_effect(&mut self) {
        self.effects().has_effects = true;
    }

    /// Notes a call of `callee`. A function in a local may have any effect.
    pub(super) fn note_call(&mut self, callee: &Ir) {
        match callee {
            // Either known, or checked later with the globals of the function.
            Ir::Const(_) | Ir::Global(_) | Ir::Itself | Ir::Fn(_) => {}
            Ir::Capture(at) => self.effects().called.push(*at),
            _ => self.note_effect(),
        }
    }

    /// Notes which of `args` `callee` may call.
    pub(super) fn note_arguments(&mut self, callee: &Ir, args: &mut dyn Iterator<Item = &Ir>) {
        if let Ir::Const(Value::Builtin(builtin)) = callee
            && self.effects.len() > 1
        {
            let args: SmallVec<[&Ir; 8]> = args.collect();
            self.note_called(builtin, &args);
        }
    }

    fn note_called(&mut self, builtin: &Builtin, args: &[&Ir]) {
        for (at, &arg) in args.iter().enumerate() {
            let is_plain = matches!(arg, Ir::Const(value) if !matches!(value, Value::Builtin(_)));
            if is_plain || !builtin.calls(at, args.len()) {
                continue;
            }
            match arg {
                // A function that calls its arguments may be given an unknown function.
                Ir::Const(Value::Builtin(given)) if given.calls_any() => self.note_effect(),
                made if made.is_made_function() => {}
                arg => self.note_call(arg),
            }
        }
        // These pass the arguments after a function on to it.
        if matches!(builtin.name, "apply" | "partial")
            && let Some((Ir::Const(Value::Builtin(given)), rest)) = args.split_first()
        {
            self.note_called(given, rest);
        }
    }
}
