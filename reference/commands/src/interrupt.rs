//! SIGINT, SIGTERM and SIGHUP where a command runs programs: the first one ends the program, and the command says and keeps what it has
//! before it ends by that signal. The second ends it at once. Knows nothing of programs.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use ptc_server::signals;
use ptc_upstream::Cancel;

/// What signals do now. Cloning shares it.
#[derive(Clone, Default)]
pub struct Interrupts(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The program that runs.
    running: Option<Cancel>,
    /// What is done before a signal ends the process.
    leave: Option<Box<dyn FnMut() + Send>>,
    /// How the terminal was when the prompt began. While there is a prompt, SIGINT ends programs only.
    terminal: Option<Termios>,
    /// What ends the command when it is done.
    ending: Option<Signal>,
}

impl Interrupts {
    /// Watches for signals. Call it on the main thread, before any other starts.
    pub fn watch() -> Self {
        signals::hold();
        let interrupts = Self::default();
        let watched = interrupts.clone();
        let _ = std::thread::Builder::new()
            .name("signals".into())
            .stack_size(128 << 10)
            .spawn(move || {
                while let Some(signal) = signals::next() {
                    // A shell's background commands are not to hear its Ctrl-C.
                    if !signals::is_ignored(signal) {
                        watched.came(signal);
                    }
                }
            });
        interrupts
    }

    /// What ends the program that begins now.
    pub fn begin(&self) -> Cancel {
        let program = Cancel::default();
        let mut state = self.state();
        if state.ending.is_some() {
            program.cancel();
        }
        state.running = Some(program.clone());
        program
    }

    /// The program ended.
    pub fn finish(&self) {
        self.state().running = None;
    }

    /// Has `leave` done before a signal ends the process.
    pub fn before_end(&self, leave: impl FnMut() + Send + 'static) {
        self.state().leave = Some(Box::new(leave));
    }

    /// A prompt begins, on a terminal.
    pub fn prompts(&self) {
        self.state().terminal = tcgetattr(std::io::stdin()).ok();
    }

    /// Whether the command is to end.
    pub fn is_ending(&self) -> bool {
        self.state().ending.is_some()
    }

    /// Ends the process if a signal was to end it.
    pub fn end(&self) {
        let state = self.state();
        if let Some(signal) = state.ending {
            end_by(signal, &state);
        }
    }

    fn came(&self, signal: Signal) {
        let mut state = self.state();
        let spares = state.terminal.is_some() && signal == Signal::SIGINT;
        match &state.running {
            Some(program) if !program.is_cancelled() => {
                program.cancel();
                if !spares {
                    state.ending = Some(signal);
                }
            }
            None if spares => {}
            _ => {
                if let Some(leave) = &mut state.leave {
                    leave();
                }
                end_by(signal, &state);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the process as `signal` would have, so that whoever waits for it learns which.
fn end_by(signal: Signal, state: &State) -> ! {
    if let Some(before) = &state.terminal {
        let mut out = std::io::stdout();
        // An editor that is in the middle of a line had the terminal mark what is pasted.
        if out.is_terminal() {
            let _ = out.write_all(b"\x1b[?2004l\n").and_then(|()| out.flush());
        }
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, before);
    }
    let _ = SigSet::from(signal).thread_unblock();
    let _ = raise(signal);
    std::process::exit(128 + signal as i32)
}
