//! The interface through which a program reaches the outside. Knows no implementation.

use crate::error::Limit;
use crate::value::Value;

/// The world that a program runs in. Asked from several threads at once by `pmap`.
pub trait Host: Sync {
    /// Names that may follow `tool/` in a program, sorted.
    fn tool_names(&self) -> &[String] {
        &[]
    }

    /// Calls the tool `tool` with `args`, which is a map. Blocks until it answers.
    ///
    /// Errors: [`HostFault::Raise`] stops the program as a runtime error with exactly that text.
    fn call(&self, tool: &str, args: &Value) -> Result<Value, HostFault> {
        let _ = args;
        Err(HostFault::Raise {
            kind: "unknown_tool",
            message: format!("Unknown tool: {tool}."),
        })
    }

    /// Answers a discovery form about something that is no local name; `None` when there is no
    /// discovery backend.
    fn discover(&self, request: &Discovery<'_>) -> Option<Result<Value, HostFault>> {
        let _ = request;
        None
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    fn now_micros(&self) -> i64;

    /// Whether the program may go on. Polled every few thousand steps and before each tool call.
    fn pulse(&self) -> Pulse {
        Pulse::Continue
    }

    /// What the threads of `pmap` and `pcalls` are about to do. A host that decides which of them goes on blocks here.
    fn branching(&self, step: Branching) {
        let _ = step;
    }

    /// A line that the program prints, whole, as it may be kept: what must not be told is taken out before the line is cut.
    fn printed(&self, line: String) -> String {
        line
    }

    /// What `(budget/remaining)` answers; nil where there is no budget.
    fn budget(&self) -> Value {
        Value::Nil
    }
}

/// A step of a program's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branching {
    /// The calling thread started so many workers, and will wait for all of them.
    Started(usize),
    /// The calling worker is about to take a branch, if one is left.
    Next,
    /// The calling worker ended.
    Ended,
    /// All workers of the calling thread ended, and it goes on.
    Joined,
}

/// Whether a program may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// It may.
    Continue,
    /// Its wall clock ran out.
    TimedOut,
    /// Nobody waits for the answer any more.
    Cancelled,
    /// What is done on its behalf would take more memory than it has.
    OutOfMemory,
}

impl Pulse {
    /// The limit that ends the program, when it may not go on.
    pub(crate) fn limit(self) -> Result<(), Limit> {
        match self {
            Pulse::Continue => Ok(()),
            Pulse::TimedOut => Err(Limit::Time),
            Pulse::Cancelled => Err(Limit::Cancelled),
            Pulse::OutOfMemory => Err(Limit::Memory),
        }
    }
}

impl From<Limit> for Pulse {
    fn from(limit: Limit) -> Pulse {
        match limit {
            Limit::Memory => Pulse::OutOfMemory,
            Limit::Time => Pulse::TimedOut,
            Limit::Cancelled => Pulse::Cancelled,
        }
    }
}

/// Why the host did not answer.
#[derive(Clone, Debug, PartialEq)]
pub enum HostFault {
    /// A programmer's fault: the program ends with `runtime_error`.
    Raise {
        /// The finer kind, such as `unknown_tool`; empty for none.
        kind: &'static str,
        /// The whole text.
        message: String,
    },
    /// The program was stopped while it waited.
    Stopped(Pulse),
}

/// A discovery form that reaches the host.
#[derive(Clone, Debug)]
pub enum Discovery<'a> {
    /// `(tool/servers)`
    Servers,
    /// `(apropos query opts)`; `local` are the matches among local names, best first.
    Apropos {
        /// What to look for.
        query: &'a str,
        /// `:limit`
        limit: usize,
        /// `:load`
        load: bool,
        /// Lines of local matches, best first, to follow the host's own.
        local: &'a [Value],
    },
    /// `(dir server opts)`
    Dir {
        /// The server's name.
        server: &'a str,
        /// `:limit`
        limit: usize,
        /// `:offset`
        offset: usize,
    },
    /// `(doc 'server/tool)`
    Doc {
        /// As written.
        reference: &'a str,
    },
    /// `(meta 'server/tool)`
    Meta {
        /// As written.
        reference: &'a str,
    },
}
