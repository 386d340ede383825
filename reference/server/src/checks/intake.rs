//! What it saves that the thread which read a call also runs it: round trips of a client, with both kinds of intake.

use crate::evaluation::pool::{Job, ThreadPool};
use crate::transport::intake::{self, CallSource, NextCall};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Who runs a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// The thread that read it.
    Reader,
    /// A thread of the pool: plain intake.
    Pool,
}

/// The durations of `rounds` round trips, one after the other, of calls that each do `work`.
pub fn round_trips(runner: Runner, rounds: usize, work: fn()) -> Vec<Duration> {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let output = theirs.try_clone().expect("both ends of a socket");
    let pool = ThreadPool::new(2);
    let source = Lines {
        input: BufReader::new(theirs),
        output: Arc::new(Mutex::new(output)),
        pool: pool.clone(),
        runner,
        work,
    };
    let (ended, end) = sync_channel(1);
    intake::start(source, pool, ended).expect("a thread that reads");
    let mut answers = BufReader::new(&ours);
    let mut answer = String::new();
    let times = (0..rounds).map(|_| {
        let begun = Instant::now();
        (&ours).write_all(b"call\n").expect("the intake reads");
        answer.clear();
        answers
            .read_line(&mut answer)
            .expect("the call is answered");
        begun.elapsed()
    });
    let times = times.collect();
    let _ = ours.shutdown(std::net::Shutdown::Write);
    let _ = end.recv();
    times
}

/// Calls that are lines, each answered by a line.
struct Lines {
    input: BufReader<UnixStream>,
    output: Arc<Mutex<UnixStream>>,
    pool: ThreadPool,
    runner: Runner,
    work: fn(),
}

impl CallSource for Lines {
    type End = ();

    fn next(&mut self) -> NextCall<()> {
        let mut line = String::new();
        while self.input.read_line(&mut line).is_ok_and(|read| read > 0) {
            let (output, work) = (Arc::clone(&self.output), self.work);
            let call = Job::voidable(
                || false,
                move || {
                    work();
                    let _ = crate::lock::lock(&output).write_all(b"answer\n");
                },
            );
            match self.runner {
                Runner::Reader => return NextCall::Run(call),
                Runner::Pool => drop(self.pool.run(call)),
            }
            line.clear();
        }
        NextCall::End(())
    }
}
