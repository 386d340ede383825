//! How often the server reads its input: sends a frame through the whole server and counts the bytes that it reads.

use crate::agentic::Agentic;
use crate::diagnostics::Sinks;
use crate::server::Server;
use crate::settings::Settings;
use crate::transport::stdio;
use ptc_rpc::passes::{Pass, bytes_counted};
use ptc_secrets::Redactor;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// Bytes that the whole process read, by kind of pass, while a frame was handled.
#[derive(Clone, Copy, Debug)]
pub struct Passes {
    pub scanned: u64,
    pub walked: u64,
    pub copied: u64,
    pub built: u64,
}

impl Passes {
    fn current() -> Passes {
        Passes {
            scanned: bytes_counted(Pass::Scanned),
            walked: bytes_counted(Pass::Walked),
            copied: bytes_counted(Pass::Copied),
            built: bytes_counted(Pass::Built),
        }
    }

    /// The passes while `work` runs. Nothing else may happen in the process.
    pub fn of<T>(work: impl FnOnce() -> T) -> (Passes, T) {
        let before = Passes::current();
        let done = work();
        let after = Passes::current();
        let passes = Passes {
            scanned: after.scanned - before.scanned,
            walked: after.walked - before.walked,
            copied: after.copied - before.copied,
            built: after.built - before.built,
        };
        (passes, done)
    }
}

/// Sends `frames` to a server with `flags`, each after the previous one was answered. Returns the passes for the last frame, and its
/// answer.
pub fn of_frames(flags: &[&str], frames: &[String]) -> (Passes, String) {
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    let settings = Settings::read(&flags, |_| None).expect("the flags are valid");
    let agentic = Agentic::read(&settings.agentic).expect("no files are named");
    let server = Server::new(settings, Sinks::default(), Redactor::empty(), None, agentic);
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let input = theirs.try_clone().expect("both ends of a socket");
    std::thread::scope(|scope| {
        scope.spawn(|| stdio::serve(&server, Box::new(input), Box::new(theirs)));
        let mut answers = BufReader::new(&ours);
        let mut ask = |frame: &String| {
            let mut answer = String::new();
            (&ours)
                .write_all(frame.as_bytes())
                .expect("the server reads");
            (&ours).write_all(b"\n").expect("the server reads");
            answers.read_line(&mut answer).expect("the server answers");
            answer
        };
        let (last, before) = frames.split_last().expect("a frame");
        for frame in before {
            ask(frame);
        }
        let passed = Passes::of(|| ask(last));
        let _ = ours.shutdown(std::net::Shutdown::Both);
        passed
    })
}
