//! The interface through which a program reaches the outside world. Knows no implementation.

use crate::error::{Code, Limit};
use crate::value::Value;

/// The outside world of a program. Several threads at once may call it during `pmap`.
pub trait Host: Sync {
    /// Names that may follow `tool/` in a program, sorted.
    fn tool_names(&self) -> &[String] {
        &[]
    }

    /// Calls the tool `tool` with `args`, which is a map. Blocks until the tool returns.
    ///
    /// Errors: [`HostFault::Raise`] ends the program with a runtime error with exactly that text.
    fn call(&self, tool: &str, args: &Value) -> Result<Value, HostFault> {
        let _ = args;
        Err(HostFault::unknown_tool(tool))
    }

    /// Evaluates a discovery form about anything but a local name; `None` when there is no discovery backend.
    fn discover(&self, request: &Discovery<'_>) -> Option<Result<Value, HostFault>> {
        let _ = request;
        None
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    fn now_micros(&self) -> i64;

    /// Whether the program may continue. Polled every few thousand steps and before each tool call.
    fn pulse(&self) -> Pulse {
        Pulse::Continue
    }

    /// Runs `worker` on up to `count` threads at once, none of them the calling one, and returns how many there were when all have ended.
    /// Each of them takes branches of `pmap` or `pcalls` until none is left.
    fn run_workers(&self, count: usize, worker: &(dyn Fn() + Sync)) -> usize {
        run_on_threads(count, worker)
    }

    /// Filters a complete line that the program prints: removes what must not be shown before the line is truncated.
    fn printed(&self, line: String) -> String {
        line
    }

    /// The value of `(budget/remaining)`; nil when there is no budget.
    fn budget(&self) -> Value {
        Value::Nil
    }
}

/// Runs `worker` on `count` new threads, or on as many as can be started, waits for them, and returns how many were started. A panic ends
/// only the thread that it happens on.
pub fn run_on_threads(count: usize, worker: &(dyn Fn() + Sync)) -> usize {
    std::thread::scope(|scope| {
        let start = |_| {
            let thread = std::thread::Builder::new().name("pmap".into());
            thread.spawn_scoped(scope, worker).ok()
        };
        let threads: Vec<_> = (0..count).map_while(start).collect();
        let started = threads.len();
        for thread in threads {
            // Whoever waits for the results of a worker that panicked finds that they are missing.
            let _ = thread.join();
        }
        started
    })
}

/// Whether a program may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// The program may continue.
    Continue,
    /// The wall-clock limit was exceeded.
    TimedOut,
    /// The caller gave up waiting.
    Cancelled,
    /// Work on behalf of the program would exceed its memory limit.
    OutOfMemory,
}

impl Pulse {
    /// The limit that ends the program, if it may not continue.
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

/// Why the host did not return a result.
#[derive(Clone, Debug, PartialEq)]
pub enum HostFault {
    /// An error of the program, which ends with `runtime_error`.
    Raise {
        /// The finer kind, if there is one.
        code: Option<Code>,
        /// The complete message.
        message: String,
    },
    /// The program was stopped while it waited for the host.
    Stopped(Pulse),
}

impl HostFault {
    /// The fault of a program that calls a tool that does not exist.
    pub fn unknown_tool(tool: &str) -> HostFault {
        HostFault::Raise {
            code: Some(Code::UnknownTool),
            message: format!("Unknown tool: {tool}."),
        }
    }
}

/// A discovery form that the host evaluates.
#[derive(Clone, Debug)]
pub enum Discovery<'a> {
    /// `(tool/servers)`
    Servers,
    /// `(apropos query opts)`
    Apropos {
        /// The text to search for.
        query: &'a str,
        /// `:limit`
        limit: usize,
        /// `:load`
        load: bool,
        /// Lines of local matches, best first, that follow the host's own matches.
        local: &'a [Value],
    },
    /// `(dir server opts)`
    Dir {
        /// Name of the server.
        server: &'a str,
        /// `:limit`
        limit: usize,
        /// `:offset`
        offset: usize,
    },
    /// `(doc 'server/tool)`
    Doc {
        /// The reference as written.
        reference: &'a str,
    },
    /// `(meta 'server/tool)`
    Meta {
        /// The reference as written.
        reference: &'a str,
    },
}
