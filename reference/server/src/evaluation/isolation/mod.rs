//! Where programs are evaluated: on a thread of the server, or in a separate process that holds nothing else.
//!
//! A server under `--isolation process` keeps worker processes ready. Each is this same binary with one socket, no other file, no
//! environment and no secret. A program is sent there with its environment as a snapshot, and the environment that it leaves comes back
//! as one. Questions to its host go to the server, whose [`Host`] answers as it would on a thread: upstream calls, their credentials,
//! redaction and the ledger of calls stay here. Nothing that a process sends is trusted: each frame and their total are bounded,
//! snapshots are read as untrusted input, and questions are counted.
//!
//! A process evaluates many programs, one after the other, and takes each environment from its snapshot alone: a program sees nothing of
//! what earlier ones defined, printed or held, and freed memory is overwritten. The evaluator guarantees this, not the kernel: a program
//! that compromised the evaluator could read what later ones are given. All of them belong to the single token of a server. A server for
//! several owners would have to dedicate each process to one of them.
//!
//! A process that dies, violates the protocol, or does not end in time is killed and replaced; only the call that it worked for fails.

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
use ptc_lang::{CompletedRun, Env, Host, HostFault, Limits, Program};
use ptc_secrets::Veil;

/// Where programs are evaluated.
pub enum Evaluation {
    /// On the calling thread.
    Thread,
    #[cfg(target_os = "linux")]
    Process(pool::Processes),
}

/// What worker processes are sized for.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSettings {
    /// Maximum number of concurrent programs.
    pub places: usize,
    /// Bytes that a program may hold.
    pub memory_bytes: u64,
    /// Time limit of a program in milliseconds.
    pub time_ms: u64,
}

pub struct EvaluationContext<'a> {
    /// The meter that is charged when the program runs on a thread.
    pub meter: &'a Meter<'a>,
    pub limits: &'a Limits,
    pub host: &'a dyn Host,
    pub deadline: Instant,
    /// Whether the environment that the program leaves is wanted.
    pub keeps: bool,
    /// Redacts what the program's messages quote.
    pub veil: &'a Veil<'a>,
}

/// The fault of a program when a value cannot be transferred: if a limit is the reason, it ends the program, as on a thread.
#[cfg(target_os = "linux")]
fn transfer_fault(error: &ptc_lang::snapshot::Error) -> HostFault {
    match error.limit() {
        Some(pulse) => HostFault::Stopped(pulse),
        None => HostFault::Raise {
            code: None,
            message: error.to_string(),
        },
    }
}

/// Why programs cannot be evaluated in processes.
#[derive(Debug, thiserror::Error)]
pub enum IsolationFault {
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[cfg(target_os = "linux")]
    #[error("cannot evaluate in processes: {0}")]
    Process(pool::SpawnFault),
    #[error("--isolation=process needs Linux")]
    System,
}

impl Evaluation {
    /// Starts processes, and waits until the first one is ready.
    ///
    /// # Errors
    /// Why no process can be started.
    #[cfg(target_os = "linux")]
    pub fn start_processes(settings: WorkerSettings) -> Result<Evaluation, IsolationFault> {
        pool::Processes::start(settings).map(Evaluation::Process)
    }

    /// Evaluates a program as [`ptc_lang::run_metered`] does. Blocks until it ended, so it must not be called on a thread of the
    /// executor.
    pub fn run(&self, program: &Program, env: &Env, place: &EvaluationContext<'_>) -> CompletedRun {
        debug_assert!(
            tokio::task::try_id().is_none(),
            "a program runs inside a task"
        );
        match self {
            Evaluation::Thread => {
                let (outcome, after) = ptc_lang::run_metered(program, env, place.meter);
                CompletedRun {
                    outcome,
                    before: env.clone(),
                    after,
                }
            }
            #[cfg(target_os = "linux")]
            Evaluation::Process(processes) => processes.run(program, env, place),
        }
    }

    /// Whether the evaluating processes are denied all files; `None` on threads.
    pub fn is_confined(&self) -> Option<bool> {
        match self {
            Evaluation::Thread => None,
            #[cfg(target_os = "linux")]
            Evaluation::Process(processes) => Some(processes.is_confined()),
        }
    }
}

/// Denies the server itself writing files outside of `written`, executing other programs, and system calls for administration. Only for a
/// server without upstream servers: otherwise it must be able to start them, and they would inherit its confinement.
#[cfg(target_os = "linux")]
pub fn confine_server(written: &[&std::path::Path]) {
    // Where the kernel cannot enforce it, the worker processes still have their own filter.
    confine::deny_file_writes(written);
    confine::deny_admin_calls();
}

/// The limits for reading snapshots of a program with these limits. Reading takes a few times the memory of what is read.
#[cfg(target_os = "linux")]
fn snapshot_limits(limits: &Limits) -> Limits {
    const ROOM: u64 = 64 << 20;
    Limits {
        memory_bytes: limits.memory_bytes.saturating_mul(4).saturating_add(ROOM),
        ..limits.clone()
    }
}
