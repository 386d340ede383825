//! The time and memory of one program, from reading its context to the last byte of its response. Knows nothing of how
//! a program runs.

use crate::clock;
use crate::error::Limit;
use crate::heap::{self, Account};
use crate::host::Host;
use crate::limits::Limits;

/// Decides whether work may continue, for writers and readers whose input a program controls.
pub trait Watch {
    /// Checks memory, the clock, and whether the caller still waits.
    ///
    /// # Errors
    /// The limit that was reached.
    fn check_limits(&self) -> Result<(), Limit>;
}

/// A watch without limits: for values that do not come from a program.
pub struct Unwatched;

impl Watch for Unwatched {
    fn check_limits(&self) -> Result<(), Limit> {
        Ok(())
    }
}

/// What a program may use and has used. One meter serves the program, all its workers, and the code that reads its
/// context or shows its value.
pub struct Meter<'h> {
    pub(crate) host: &'h dyn Host,
    pub(crate) limits: &'h Limits,
    pub(crate) account: Account,
}

impl<'h> Meter<'h> {
    /// A meter with nothing charged to it.
    pub fn new(limits: &'h Limits, host: &'h dyn Host) -> Meter<'h> {
        Meter {
            host,
            limits,
            account: Account::new(limits.memory_bytes),
        }
    }

    /// Like [`Meter::new`], for a program that may run on behalf of the program that this thread runs: its memory is
    /// then charged to both.
    pub fn nested(limits: &'h Limits, host: &'h dyn Host) -> Meter<'h> {
        Meter {
            host,
            limits,
            account: Account::nested(limits.memory_bytes),
        }
    }

    /// Runs `work` and charges everything that this thread allocates meanwhile to the program.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        clock::within(self.host, || self.account.within(work))
    }

    /// Returns memory that the program freed to the system at once, if it held much. Call it on the thread that ran the
    /// program, outside of [`Meter::within`].
    pub fn trim(&self) {
        if self.held_much() {
            heap::trim();
        }
    }

    /// Whether the program held so much memory that returning it is worth the time.
    pub fn held_much(&self) -> bool {
        const MUCH_BYTES: u64 = 1 << 20;
        self.peak_bytes() > MUCH_BYTES
    }

    /// The most bytes that the program held at any time.
    pub fn peak_bytes(&self) -> u64 {
        u64::try_from(self.account.peak()).unwrap_or(0)
    }

    /// Runs `work` with `bytes` of memory beyond the limit, for allocations that are freed when it returns.
    pub fn with_extra_memory<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.account.release(bytes);
        let result = work();
        self.account.charge_unchecked(bytes);
        result
    }

    /// Runs `read`; up to `free_bytes` of the values that it makes are not charged to the program: its context.
    pub fn with_free_bytes<T>(&self, free_bytes: usize, read: impl FnOnce() -> T) -> T {
        self.account.release(free_bytes);
        let before = self.account.held();
        let result = read();
        let grown = usize::try_from(self.account.held() - before).unwrap_or(0);
        // An unused part of the allowance must not be available for anything else.
        self.account
            .charge_unchecked(free_bytes.saturating_sub(grown));
        result
    }
}

impl Watch for Meter<'_> {
    fn check_limits(&self) -> Result<(), Limit> {
        self.account.check_limits()?;
        self.host.pulse().limit()
    }
}

/// Checks memory alone, for work without a clock.
impl Watch for Account {
    fn check_limits(&self) -> Result<(), Limit> {
        heap::refuel();
        if self.is_overdrawn() {
            return Err(Limit::Memory);
        }
        Ok(())
    }
}
