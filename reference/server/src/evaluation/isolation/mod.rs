//! Where programs are evaluated: on a thread of the server, or in a process of its own that holds nothing else.
//!
//! A server under `--isolation process` keeps processes ready, each of which is this binary again with one socket, no other
//! file, no environment and no secret. A program travels there with its surroundings as a snapshot, and what it leaves comes
//! back as one. What it asks of the world it asks the server, whose [`Host`] answers as it would on a thread: calls of
//! upstreams, their credentials, redaction and the ledger of calls stay here. Nothing that a process says is believed: frames
//! and their sum have bounds, snapshots are read as from a stranger, and questions are counted.
//!
//! A process evaluates many programs, one after the other, and takes each one's surroundings from its snapshot alone: of what
//! a program defined, printed or held the next one sees nothing, and what was freed is overwritten. That is the evaluator's doing, not
//! the kernel's: a program that broke the evaluator could read what later ones are given. All of them belong to the one token that a server has. A server
//! for several owners has to keep a process to one of them.
//!
//! A process that dies, lies, or does not end in time is killed and replaced; it costs the call that it worked for, and no
//! other.

#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
pub mod worker;

use std::time::Instant;

use ptc_lang::meter::Meter;
use ptc_lang::{Env, Host, HostFault, Limits, Program, Ran};
use ptc_secrets::Veil;

/// Where programs are evaluated.
pub enum Evaluation {
    /// On the thread that asks.
    Thread,
    #[cfg(target_os = "linux")]
    Process(pool::Processes),
}

/// What processes are made for.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How many programs run at once.
    pub places: usize,
    /// Bytes that a program may hold.
    pub memory_bytes: u64,
    /// Milliseconds that a program may take.
    pub time_ms: u64,
}

/// What a program is evaluated with.
pub struct EvaluationContext<'a> {
    /// What it is charged to on a thread.
    pub meter: &'a Meter<'a>,
    /// What it may use.
    pub limits: &'a Limits,
    pub host: &'a dyn Host,
    /// When it has to end.
    pub deadline: Instant,
    /// Whether anybody wants what it leaves behind.
    pub keeps: bool,
    /// Over what its messages quote.
    pub veil: &'a Veil<'a>,
}

/// What a program is told of a value that does not come over: a limit of its own ends it, as on a thread.
#[cfg(target_os = "linux")]
fn untransferred(error: &ptc_lang::snapshot::Error) -> HostFault {
    match error.limit() {
        Some(pulse) => HostFault::Stopped(pulse),
        None => HostFault::Raise {
            kind: "",
            message: error.to_string(),
        },
    }
}

/// Why programs can't be evaluated in processes.
#[derive(Debug, thiserror::Error)]
pub enum IsolationFault {
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("cannot evaluate in processes: {0}")]
    Process(String),
    #[error("--isolation=process needs Linux")]
    System,
}

impl Evaluation {
    /// Starts processes, and waits until the first one is ready.
    ///
    /// # Errors
    /// Why there can be none.
    #[cfg(target_os = "linux")]
    pub fn in_processes(terms: Terms) -> Result<Evaluation, IsolationFault> {
        pool::Processes::start(terms).map(Evaluation::Process)
    }

    /// Evaluates a program as [`ptc_lang::run_metered`] does. Blocks until it ended, so never on a thread of the executor.
    pub fn run(&self, program: &Program, env: &Env, place: &EvaluationContext<'_>) -> Ran {
        debug_assert!(
            tokio::task::try_id().is_none(),
            "a program runs inside a task"
        );
        match self {
            Evaluation::Thread => {
                let (outcome, after) = ptc_lang::run_metered(program, env, place.meter);
                Ran {
                    outcome,
                    before: env.clone(),
                    after,
                }
            }
            #[cfg(target_os = "linux")]
            Evaluation::Process(processes) => processes.run(program, env, place),
        }
    }

    /// Whether every file is kept from what evaluates; none on threads.
    pub fn is_confined(&self) -> Option<bool> {
        match self {
            Evaluation::Thread => None,
            #[cfg(target_os = "linux")]
            Evaluation::Process(processes) => Some(processes.is_confined()),
        }
    }
}

/// Keeps the server itself from writing files but below `written`, from running other programs, and from what only administrators of
/// a machine do, where it starts no upstream servers. Where it does, it must be able to start what they are, and what holds it would
/// hold them.
#[cfg(target_os = "linux")]
pub fn confine_server(written: &[&std::path::Path]) {
    // Where the kernel can't, the processes that evaluate are still held by their own filter.
    confine::keep_from_files(written);
    confine::refuse_administration();
}

/// The limits under which snapshots of a program with these limits are read. Reading takes a few times the room of what is read.
#[cfg(target_os = "linux")]
fn reading(limits: &Limits) -> Limits {
    const ROOM: u64 = 64 << 20;
    Limits {
        memory_bytes: limits.memory_bytes.saturating_mul(4).saturating_add(ROOM),
        ..limits.clone()
    }
}
