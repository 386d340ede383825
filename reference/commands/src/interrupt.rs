//! SIGINT, SIGTERM and SIGHUP in commands that run programs: the first signal cancels the program, and the command reports and saves
//! what it has before it ends by that signal. The second signal ends it at once. Knows nothing of programs.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use ptc_server::signals;
use ptc_upstream::Cancel;

/// The current reaction to signals. Clones share it.
#[derive(Clone, Default)]
pub struct Interrupts(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The running program.
    running: Option<Cancel>,
    /// Called before a signal ends the process.
    leave: Option<Box<dyn FnMut() + Send>>,
    /// The terminal's settings when the prompt began. While there is a prompt, SIGINT only cancels programs.
    terminal: Option<Termios>,
    /// The signal by which the command ends when it is done.
    ending: Option<Signal>,
}

impl Interrupts {
    /// Watches for signals. Must be called on the main thread, before any other thread starts.
    pub fn watch() -> Self {
        signals::block();
        let interrupts = Self::default();
        let watched = interrupts.clone();
        let _ = std::thread::Builder::new()
            .name("signals".into())
            .stack_size(128 << 10)
            .spawn(move || {
                while let Some(signal) = signals::next() {
                    // A shell's background commands must not react to its Ctrl-C.
                    if !signals::is_ignored(signal) {
                        watched.on_signal(signal);
                    }
                }
            });
        interrupts
    }

    /// Returns the cancellation of the program that begins now.
    pub fn begin(&self) -> Cancel {
        let program = Cancel::default();
        let mut state = self.state();
        if state.ending.is_some() {
            program.cancel();
        }
        state.running = Some(program.clone());
        program
    }

    /// The program has ended.
    pub fn finish(&self) {
        self.state().running = None;
    }

    /// Sets a function that is called before a signal ends the process.
    pub fn set_exit_hook(&self, leave: impl FnMut() + Send + 'static) {
        self.state().leave = Some(Box::new(leave));
    }

    /// A prompt begins on a terminal.
    pub fn begin_prompt(&self) {
        self.state().terminal = tcgetattr(std::io::stdin()).ok();
    }

    /// Whether the command is to end.
    pub fn is_ending(&self) -> bool {
        self.state().ending.is_some()
    }

    /// Ends the process if a signal requested it.
    pub fn end(&self) {
        let state = self.state();
        if let Some(signal) = state.ending {
            end_by(signal, &state);
        }
    }

    fn on_signal(&self, signal: Signal) {
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

/// Ends the process by `signal`, so that its parent sees that signal.
fn end_by(signal: Signal, state: &State) -> ! {
    if let Some(before) = &state.terminal {
        let mut out = std::io::stdout();
        // An editor in the middle of a line has bracketed paste enabled.
        if out.is_terminal() {
            let _ = out.write_all(b"\x1b[?2004l\n").and_then(|()| out.flush());
        }
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, before);
    }
    let _ = SigSet::from(signal).thread_unblock();
    let _ = raise(signal);
    std::process::exit(128 + signal as i32)
}
