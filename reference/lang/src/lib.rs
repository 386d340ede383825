//! PTC-Lisp: reads, analyses and runs programs. Pure: it knows no clock, files, network, environment or randomness; a
//! program reaches the outside world only through a [`Host`]. The one thing that it requires of a binary is its
//! allocator, which counts the memory that programs hold.
//!
//! ```
//! use ptc_lang::{Ended, Env, Host, Limits, Program, run};
//!
//! ptc_lang::counting_allocator!();
//!
//! struct NullHost;
//! impl Host for NullHost {
//!     fn now_micros(&self) -> i64 {
//!         0
//!     }
//! }
//!
//! let (outcome, _) = run(&Program::new("(+ 1 2)"), &Env::new(), &Limits::default(), &NullHost);
//! assert!(matches!(outcome.ended, Ended::Value(value) if ptc_lang::print::readable(&value) == "3"));
//! ```

// Public docs state units, shapes and errors.
#![warn(missing_docs)]

mod absent;
mod analyze;
mod builtins;
mod clock;
mod discovery;
mod env;
pub mod error;
mod eval;
pub mod form;
mod function;
#[cfg(feature = "checks")]
#[doc(hidden)]
pub mod fuzz;
pub mod heap;
mod host;
pub mod json;
mod limits;
pub mod meter;
pub mod print;
pub mod rank;
pub mod reader;
mod regex;
pub mod sink;
pub mod snapshot;
mod substring;
mod time;
pub mod value;
pub mod visible;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

pub use analyze::special_forms;
pub use builtins::{Arity, Builtin, Home, METHODS, NAMESPACES, Section, all as builtins};
pub use env::{Env, ValueSummary};
pub use error::{Error, Kind, Reason};
pub use host::{Discovery, Host, HostFault, Pulse, run_on_threads};
pub use limits::Limits;
pub use meter::Meter;
pub use time::{InstantError, parse_instant_with_offset};
pub use value::Value;

use error::Unwind;
use eval::{Eval, RunContext};
use reader::ReadLimits;

/// The text of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    text: Arc<str>,
}

impl Program {
    /// A program with this `text`; nothing is checked yet.
    pub fn new(text: impl Into<Arc<str>>) -> Program {
        Program { text: text.into() }
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// How a program ended, and what it printed.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// The lines that `println` printed, one per element, each truncated to the limit of a line.
    pub prints: Vec<String>,
}

/// A completed run, with the environments before and after it, for hosts that report what a program changed.
pub struct CompletedRun {
    /// How it ended.
    pub outcome: Outcome,
    /// The environment at the start. Whatever the program left unchanged, functions included, is the same as in
    /// `after`.
    pub before: Env,
    /// The environment at the end.
    pub after: Env,
}

/// How a program ended.
#[derive(Debug)]
pub enum Ended {
    /// The value of the last expression.
    Value(Value),
    /// `(return v)`
    Return(Value),
    /// `(fail v)`
    Fail(Value),
    /// An error or an exceeded limit.
    Error(Error),
}

/// Reads, analyses and runs `program`.
///
/// The second result is `env` with the program's definitions, or `env` itself when the program failed. Remembering
/// results for the history (`*1`) is up to the caller: see [`Env::remember`]. A tool of another program may run a
/// program of its own: the memory that it holds is also charged to the calling program.
pub fn run(program: &Program, env: &Env, limits: &Limits, host: &dyn Host) -> (Outcome, Env) {
    let meter = Meter::nested(limits, host);
    meter.within(|| run_metered(program, env, &meter))
}

/// [`run`] on a meter that stays in use afterwards: for hosts that read the context and show the value within the same
/// limits. Call it inside [`Meter::within`].
pub fn run_metered(program: &Program, env: &Env, meter: &Meter<'_>) -> (Outcome, Env) {
    let failed = |error: Error| {
        (
            Outcome {
                ended: Ended::Error(error),
                prints: Vec::new(),
            },
            env.clone(),
        )
    };
    let read_limits = ReadLimits {
        nesting: meter.limits.nesting,
        symbols: meter.limits.symbols,
        ..ReadLimits::default()
    };
    let forms = match reader::read(&program.text, &read_limits) {
        Ok(forms) => forms,
        Err(error) => {
            let span = error.span;
            return failed(Kind::Read(Box::new(error)).at(span));
        }
    };
    let mut names = Arc::clone(&env.names);
    let analysis = match analyze::analyze(&program.text, &forms, env.turn, &mut names, meter) {
        Ok(analysis) => analysis,
        Err(error) => return failed(error.with_context_names(env)),
    };
    let last = forms.last().map(|form| form.span);
    drop(forms);
    let shared = RunContext {
        meter,
        env,
        names: &names,
        workers: AtomicUsize::new(0),
    };
    let mut eval = Eval::new(&shared);
    let mut result = eval.run(&analysis.body, analysis.slots, analysis.levels);
    let stopped = matches!(&result, Err(stop) if matches!(**stop, Unwind::Limit(..)));
    // A program that ends after its deadline has timed out, however it ends.
    if !stopped && let Err(stop) = eval.refuel() {
        result = Err(stop);
    }
    eval.close_line();
    let prints = std::mem::take(&mut eval.prints);
    let Eval {
        globals,
        journal,
        steps,
        last_results,
        ..
    } = eval;
    let ended = match result {
        Ok(value) => Ended::Value(value),
        Err(stop) => match *stop {
            Unwind::Return(value) => Ended::Return(value),
            Unwind::Fail(value) => Ended::Fail(value),
            Unwind::Raise(mut error) => {
                // A sequence that is the result of the program is realized after its expression has ended, so the error
                // has no span.
                error.place.span = error.place.span.or(last);
                Ended::Error(error)
            }
            Unwind::Limit(limit, place) => Ended::Error(limit.kind().at_place(place)),
        },
    };
    let kept = matches!(ended, Ended::Value(_) | Ended::Return(_));
    let after = if kept {
        let mut after = Env {
            context: env.context.clone(),
            names,
            globals,
            history: env.history.clone(),
            journal,
            steps,
            ..*env
        };
        after.record_results(&last_results);
        after
    } else {
        env.clone()
    };
    (Outcome { ended, prints }, after)
}
