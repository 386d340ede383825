//! One program's time and memory, from reading its context to the last byte of what is shown of it. Knows nothing of how a
//! program runs.

use crate::clock;
use crate::error::Limit;
use crate::heap::{self, Account};
use crate::host::Host;
use crate::limits::Limits;

/// Says whether work may go on, for writers and readers that a program can make long.
pub trait Watch {
    /// Looks at memory, at the clock and at whether anybody still waits.
    ///
    /// # Errors
    /// The limit that is reached.
    fn look(&self) -> Result<(), Limit>;
}

/// Watches nothing: for values that no program made.
pub struct Unwatched;

impl Watch for Unwatched {
    fn look(&self) -> Result<(), Limit> {
        Ok(())
    }
}

/// What a program may use and has used: one for the program, all its workers, and the code that reads its context or shows its value.
pub struct Meter<'h> {
    pub(crate) host: &'h dyn Host,
    pub(crate) limits: &'h Limits,
    pub(crate) account: Account,
}

impl<'h> Meter<'h> {
    /// A meter that nothing was charged to.
    pub fn new(limits: &'h Limits, host: &'h dyn Host) -> Meter<'h> {
        Meter {
            host,
            limits,
            account: Account::new(limits.memory_bytes),
        }
    }

    /// The same of a program that runs on behalf of the one that this thread runs, where it runs one: what it holds is charged to both.
    pub fn inside(limits: &'h Limits, host: &'h dyn Host) -> Meter<'h> {
        Meter {
            host,
            limits,
            account: Account::inside(limits.memory_bytes),
        }
    }

    /// Runs `work` with everything that this thread allocates charged to the program.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        clock::within(self.host, || self.account.within(work))
    }

    /// Gives what the program freed back to the system at once, when it held much. For the thread that ran it, outside of
    /// [`Meter::within`].
    pub fn settle(&self) {
        if self.held_much() {
            heap::give_back();
        }
    }

    /// Whether the program held so much that giving it back is worth the time.
    pub fn held_much(&self) -> bool {
        const MUCH_BYTES: u64 = 1 << 20;
        self.most_bytes() > MUCH_BYTES
    }

    /// The most bytes that were held.
    pub fn most_bytes(&self) -> u64 {
        u64::try_from(self.account.most()).unwrap_or(0)
    }

    /// Runs `work` with `bytes` more than the program may hold, for what is gone when it returns.
    pub fn with_room<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.account.release(bytes);
        let result = work();
        self.account.owe(bytes);
        result
    }

    /// Runs `read`, whose values are the program's for nothing up to `free_bytes`: its context.
    pub fn reading<T>(&self, free_bytes: usize, read: impl FnOnce() -> T) -> T {
        self.account.release(free_bytes);
        let before = self.account.held();
        let result = read();
        let grown = usize::try_from(self.account.held() - before).unwrap_or(0);
        // What was not needed is no room for anything else.
        self.account.owe(free_bytes.saturating_sub(grown));
        result
    }
}

impl Watch for Meter<'_> {
    fn look(&self) -> Result<(), Limit> {
        self.account.look()?;
        self.host.pulse().limit()
    }
}

/// Memory alone, for work without a clock.
impl Watch for Account {
    fn look(&self) -> Result<(), Limit> {
        heap::refuel();
        if self.is_overdrawn() {
            return Err(Limit::Memory);
        }
        Ok(())
    }
}
