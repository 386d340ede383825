//! Faults and delays that tests of several nodes switch on through the environment. Without the feature `checks` there are none.

use std::time::Duration;

/// Whether commits to a store skip their safety checks: the fault that the history test must detect.
pub(super) fn skips_commit_checks() -> bool {
    #[cfg(feature = "checks")]
    {
        static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *ON.get_or_init(|| std::env::var_os("PTC_CHECKS_CARELESS_COMMITS").is_some())
    }
    #[cfg(not(feature = "checks"))]
    false
}

/// Delays a commit where a test wants leases to expire first.
pub(super) fn delay_commit_for_test() {
    if let Some(wait) = duration_from_environment("PTC_CHECKS_SLOW_COMMITS_MS") {
        std::thread::sleep(wait);
    }
}

/// The duration of leases, where a test sets it.
pub(super) fn lease_for_test() -> Option<Duration> {
    duration_from_environment("PTC_CHECKS_LEASE_MS")
}

fn duration_from_environment(_name: &str) -> Option<Duration> {
    #[cfg(feature = "checks")]
    {
        let ms = std::env::var(_name).ok()?.parse().ok()?;
        Some(Duration::from_millis(ms))
    }
    #[cfg(not(feature = "checks"))]
    None
}
