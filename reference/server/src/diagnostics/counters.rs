//! Counts of events since the start, and their rendering as Prometheus text. Knows nothing of who reads them.

use crate::lock::lock;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the duration buckets, in seconds.
const BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Counts of events since the start.
pub struct Counters {
    /// By tool, status and reason.
    calls: Mutex<BTreeMap<(&'static str, &'static str, String), u64>>,
    durations: Histogram,
    requests: Mutex<BTreeMap<u16, u64>>,
}

/// A distribution of values over buckets. The rendered count is the sum of the buckets that were read, so the two always agree.
pub struct Histogram {
    /// Upper bounds, ascending; a last bucket takes all larger values.
    bounds: &'static [f64],
    /// One more than there are bounds.
    buckets: Vec<AtomicU64>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Histogram {
            bounds,
            buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0.0_f64.to_bits()),
        }
    }

    pub fn observe(&self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // The closure always returns a value, so this retries until the sum is stored.
        let _ = self
            .sum
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub fn render(&self, text: &mut String, name: &str, help: &str) {
        head(text, name, "histogram", help);
        let mut count = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = match self.bounds.get(at) {
                Some(bound) => bound.to_string(),
                None => "+Inf".to_owned(),
            };
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        // Microseconds are precise enough, and with a fixed precision the time does not change the length of the page: simulated networks
        // count its bytes.
        let _ = writeln!(text, "{name}_sum {sum:.6}\n{name}_count {count}");
    }
}

/// Values read at scrape time.
pub struct Gauges {
    pub in_flight: usize,
    /// Maximum number of concurrent programs.
    pub in_flight_max: usize,
    pub protocol_sessions: usize,
    /// `lisp_session_*` sessions.
    pub sessions: usize,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            calls: Mutex::default(),
            durations: Histogram::new(BUCKETS),
            requests: Mutex::default(),
        }
    }
}

impl Counters {
    /// Counts a finished call of `tool`; `reason` is empty for a success.
    pub fn call(&self, tool: &'static str, reason: &str, elapsed: Duration) {
        let status = if reason.is_empty() { "ok" } else { "error" };
        let mut calls = lock(&self.calls);
        *calls.entry((tool, status, reason.to_owned())).or_default() += 1;
        drop(calls);
        self.durations.observe(elapsed.as_secs_f64());
    }

    /// Counts an HTTP response.
    pub fn request(&self, status: u16) {
        *lock(&self.requests).entry(status).or_default() += 1;
    }

    /// All metrics as Prometheus text, version 0.0.4.
    pub fn render(&self, gauges: &Gauges) -> String {
        let mut text = String::new();
        let calls = lock(&self.calls).clone();
        head(
            &mut text,
            "ptc_lisp_calls_total",
            "counter",
            "Finished tool calls.",
        );
        for ((tool, status, reason), count) in &calls {
            let _ = writeln!(
                text,
                "ptc_lisp_calls_total{{tool=\"{tool}\",status=\"{status}\",reason=\"{reason}\"}} {count}"
            );
        }
        self.durations.render(
            &mut text,
            "ptc_lisp_call_duration_seconds",
            "Time from a call's arrival to its reply.",
        );
        head(
            &mut text,
            "ptc_lisp_http_requests_total",
            "counter",
            "HTTP responses by status.",
        );
        for (status, count) in lock(&self.requests).iter() {
            let _ = writeln!(
                text,
                "ptc_lisp_http_requests_total{{status=\"{status}\"}} {count}"
            );
        }
        for (name, help, value) in [
            (
                "ptc_lisp_calls_in_flight",
                "Programs that run.",
                gauges.in_flight,
            ),
            (
                "ptc_lisp_calls_in_flight_max",
                "Programs that may run at once.",
                gauges.in_flight_max,
            ),
            (
                "ptc_lisp_http_sessions",
                "Live protocol sessions.",
                gauges.protocol_sessions,
            ),
            (
                "ptc_lisp_sessions",
                "Live stateful sessions.",
                gauges.sessions,
            ),
        ] {
            head(&mut text, name, "gauge", help);
            let _ = writeln!(text, "{name} {value}");
        }
        if let Some(bytes) = resident_bytes() {
            head(
                &mut text,
                "process_resident_memory_bytes",
                "gauge",
                "Resident memory of the process.",
            );
            let _ = writeln!(text, "process_resident_memory_bytes {bytes}");
        }
        text
    }
}

/// The header lines of a metric.
pub fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Resident memory, where the system reports it.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_render_as_prometheus_text() {
        let counters = Counters::default();
        counters.call("lisp_eval", "", Duration::from_millis(2));
        counters.call("lisp_eval", "fail", Duration::from_millis(20));
        counters.request(200);
        let gauges = Gauges {
            in_flight: 1,
            in_flight_max: 2,
            protocol_sessions: 3,
            sessions: 4,
        };
        let text = counters.render(&gauges);
        for line in [
            "ptc_lisp_calls_total{tool=\"lisp_eval\",status=\"error\",reason=\"fail\"} 1",
            "ptc_lisp_call_duration_seconds_bucket{le=\"0.0025\"} 1",
            "ptc_lisp_call_duration_seconds_bucket{le=\"+Inf\"} 2",
            "ptc_lisp_http_requests_total{status=\"200\"} 1",
            "ptc_lisp_http_sessions 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
