//! Measurements of store requests. Knows no store.

use crate::diagnostics::counters::{Histogram, head};
use std::sync::atomic::{AtomicU64, Ordering};

pub struct StoreMetrics {
    /// Duration of requests in seconds.
    pub requests: Histogram,
    /// Seconds until a lease was granted or refused.
    pub leases: Histogram,
    /// Bytes of committed content.
    pub snapshots: Histogram,
    pub failures: AtomicU64,
    /// Turns refused because another turn was running.
    pub busy: AtomicU64,
    /// Turns that lost their lease.
    pub lost: AtomicU64,
    pub read_bytes: AtomicU64,
}

/// Prefix of the names of a store's metrics.
const METRICS: &str = "ptc_lisp_session_store_";
/// Histogram bounds: request durations in seconds, and sizes of committed content in bytes.
const SECONDS: &[f64] = &[
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];
const BYTES: &[f64] = &[
    256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0,
];

impl Default for StoreMetrics {
    fn default() -> Self {
        StoreMetrics {
            requests: Histogram::new(SECONDS),
            leases: Histogram::new(SECONDS),
            snapshots: Histogram::new(BYTES),
            failures: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
        }
    }
}

impl StoreMetrics {
    /// The measurements as Prometheus text. `is_up` says whether the store answered the last time.
    pub fn render(&self, is_up: bool) -> String {
        let StoreMetrics {
            requests,
            leases,
            snapshots,
            failures,
            busy,
            lost,
            read_bytes,
        } = self;
        let mut text = String::new();
        for (histogram, name, help) in [
            (
                requests,
                "request_seconds",
                "Time that requests to the session store took.",
            ),
            (
                leases,
                "lease_seconds",
                "Time until a turn had its lease, or was refused it.",
            ),
            (
                snapshots,
                "snapshot_bytes",
                "Sizes of the sessions that turns committed.",
            ),
        ] {
            histogram.render(&mut text, &format!("{METRICS}{name}"), help);
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (name, kind, help, value) in [
            (
                "failures_total",
                "counter",
                "Requests that the session store did not answer.",
                count(failures),
            ),
            (
                "busy_total",
                "counter",
                "Turns that another one kept away.",
                count(busy),
            ),
            (
                "lost_total",
                "counter",
                "Turns whose lease ended before they were committed.",
                count(lost),
            ),
            (
                "read_bytes_total",
                "counter",
                "Bytes of sessions that were read.",
                count(read_bytes),
            ),
            (
                "up",
                "gauge",
                "Whether the session store answered the last time.",
                u64::from(is_up),
            ),
        ] {
            let name = format!("{METRICS}{name}");
            head(&mut text, &name, kind, help);
            text.push_str(&format!("{name} {value}\n"));
        }
        text
    }
}
