//! Two threads share one input: the thread that read a lone call also runs it, and the other takes over reading when that call takes
//! long. Knows nothing of frames.
//!
//! Handing a call to a pool thread and its reply back costs two context switches, more than a short program itself (measured by
//! `cargo tool bench`: the row "handed to a thread"). But while a reader runs a program, it reads neither a cancellation nor the end of input. So a standby thread polls every [`TICK`] while calls arrive, and
//! sleeps on a condition variable when none arrived for a while.
//!
//! **Who reads** is decided by one word, `turn`. The reader makes it odd before it runs a call. Both threads try to make that odd value
//! even by compare-and-exchange: the reader when its call has ended, the standby when it has seen the same odd value twice. Exactly one
//! exchange succeeds, and its thread is the reader from then on. `turn` only grows, so an old value never comes back (no ABA). The mutex
//! around `source` orders what one reader wrote before what the next one reads (happens-before).
//!
//! **No lost wake-up.** The reader writes `turn`, then loads `asleep`; the standby stores `asleep`, then loads `turn`. This is Dekker's
//! pattern: with acquire and release alone, both loads could miss the other thread's store, and the standby would sleep through a long
//! call. Sequential consistency puts the four accesses into one total order, in which at least one thread sees the other's store. The
//! standby's test and its wait are one step under `idle`, which [`Intake::wake`] locks before it notifies.

use crate::evaluation::pool::{Job, ThreadPool};
use crate::lock::lock;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The input that calls are read from.
pub trait CallSource: Send + 'static {
    /// How reading ended.
    type End: Send + 'static;

    /// Reads until there is a call that the reading thread may run itself, or until the end.
    fn next(&mut self) -> NextCall<Self::End>;
}

/// The result of reading.
pub enum NextCall<E> {
    /// Run this job.
    Run(Job),
    /// Nothing more is read.
    End(E),
}

/// The polling interval of the standby thread.
const TICK: Duration = Duration::from_micros(500);
/// Number of polls without a call after which the standby sleeps.
const QUIET_TICKS_MAX: u32 = 4;
/// Native stack of a reading thread: programs run on it.
const STACK_BYTES: usize = crate::evaluation::pool::STACK_BYTES;

/// Reads `source` to its end and sends to `ended` how it ended. Calls run on the two reading threads or in `pool`.
///
/// # Errors
/// When no thread can be started.
pub fn start<S: CallSource>(
    source: S,
    pool: ThreadPool,
    ended: SyncSender<S::End>,
) -> io::Result<()> {
    let intake = Arc::new(Intake {
        source: Mutex::new(source),
        pool,
        turn: AtomicU64::new(0),
        started: AtomicBool::new(false),
        stands_by: AtomicBool::new(false),
        asleep: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        idle: Mutex::new(()),
        called: Condvar::new(),
        ended,
    });
    intake.start(Role::Reader)
}

/// State shared by the two threads.
struct Intake<S: CallSource> {
    /// Locked while it is read, never while a call runs.
    source: Mutex<S>,
    pool: ThreadPool,
    /// Even while the reader reads, odd while it runs a call. It only grows; the thread that makes an odd value even becomes the reader.
    turn: AtomicU64,
    /// Whether the second thread was started.
    started: AtomicBool,
    stands_by: AtomicBool,
    asleep: AtomicBool,
    is_over: AtomicBool,
    idle: Mutex<()>,
    called: Condvar,
    ended: SyncSender<S::End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Reader,
    Standby,
}

impl<S: CallSource> Intake<S> {
    fn start(self: Arc<Self>, mut role: Role) -> std::io::Result<()> {
        let work = move || {
            loop {
                let next = match role {
                    Role::Reader => self.read(),
                    Role::Standby => self.stand_by(),
                };
                match next {
                    Some(next) => role = next,
                    None => return,
                }
            }
        };
        std::thread::Builder::new()
            .name("intake".into())
            .stack_size(STACK_BYTES)
            .spawn(work)
            .map(drop)
    }

    /// Reads until the other thread takes over, or until the end.
    fn read(self: &Arc<Self>) -> Option<Role> {
        loop {
            let next = lock(&self.source).next();
            match next {
                NextCall::End(end) => {
                    self.is_over.store(true, Ordering::SeqCst);
                    self.wake();
                    // Something else may have ended the service already.
                    let _ = self.ended.try_send(end);
                    return None;
                }
                NextCall::Run(job) if self.has_standby() => {
                    if !self.run(job) {
                        return Some(Role::Standby);
                    }
                }
                // A job that no thread takes answers its call itself.
                NextCall::Run(job) => drop(self.pool.run(job)),
            }
        }
    }

    /// Whether the other thread will take over when a call takes long. It is started when it is first needed.
    fn has_standby(self: &Arc<Self>) -> bool {
        if !self.started.swap(true, Ordering::SeqCst) {
            let started = self.clone().start(Role::Standby).is_ok();
            self.stands_by.store(started, Ordering::SeqCst);
        }
        self.stands_by.load(Ordering::SeqCst)
    }

    /// Runs a call. Returns whether this thread is still the reader.
    fn run(&self, job: Job) -> bool {
        let running = self.turn.fetch_add(1, Ordering::SeqCst) + 1;
        if self.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
        // A job catches its own panics, to answer its call; this keeps the thread alive in any case.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run()));
        self.take_turn(running)
    }

    /// Tries to make an odd turn even; true for the one thread that succeeds.
    fn take_turn(&self, running: u64) -> bool {
        self.turn
            .compare_exchange(running, running + 1, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Waits until this thread has to take over reading.
    fn stand_by(&self) -> Option<Role> {
        let (mut seen, mut quiet) = (self.turn.load(Ordering::SeqCst), 0);
        self.stands_by.store(true, Ordering::SeqCst);
        while !self.is_over.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
            let turn = self.turn.load(Ordering::SeqCst);
            if turn != seen {
                (seen, quiet) = (turn, 0);
            } else if turn % 2 == 1 {
                // Cleared before the exchange: afterwards the former reader may already be standing by.
                self.stands_by.store(false, Ordering::SeqCst);
                if self.take_turn(turn) {
                    return Some(Role::Reader);
                }
                self.stands_by.store(true, Ordering::SeqCst);
            } else if quiet < QUIET_TICKS_MAX {
                quiet += 1;
            } else {
                self.sleep(seen);
                quiet = 0;
            }
        }
        None
    }

    /// Sleeps until a call runs after the turn `seen`, or until the end.
    fn sleep(&self, seen: u64) {
        let mut idle = lock(&self.idle);
        self.asleep.store(true, Ordering::SeqCst);
        // A thread that changes these loads `asleep` afterwards, so one of the two sees the other's store.
        let awake =
            || self.turn.load(Ordering::SeqCst) != seen || self.is_over.load(Ordering::SeqCst);
        while self.asleep.load(Ordering::SeqCst) && !awake() {
            idle = self
                .called
                .wait(idle)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn wake(&self) {
        let idle = lock(&self.idle);
        self.asleep.store(false, Ordering::SeqCst);
        drop(idle);
        self.called.notify_one();
    }
}

#[cfg(test)]
mod tests;
