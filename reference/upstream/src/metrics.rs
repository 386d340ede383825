//! `ptc_metrics`: how much upstream payload a program reduced to its answer. Arithmetic only.

use ptc_protocol::members::{Baseline, Conservative, Metrics, Optimistic};

use crate::ledger::{CallEntry, CallStatus};

const CONSERVATIVE_NOTE: &str = "Sum of the bytes of successful, non-oversize upstream results that the program fetched: an \
    upper bound, since a program may fetch data that it then discards. Upstream tool schemas and the envelope of this \
    response are not counted.";
const OPTIMISTIC_NOTE: &str = "What a model would have spent on the same task with direct tool calls can't be measured by the server.";

/// The block for one evaluation. `final_result_bytes`: bytes of the `result` text, 0 for an error; `prints_bytes`: bytes of the JSON
/// array of prints, 0 when there is none.
pub fn ptc_metrics(entries: &[CallEntry], final_result_bytes: u64, prints_bytes: u64) -> Metrics {
    let of = |status: CallStatus| entries.iter().filter(move |entry| entry.status() == status);
    let count = |status| of(status).count();
    let bytes = |status| {
        of(status)
            .filter_map(|entry| entry.result_bytes)
            .sum::<u64>()
    };
    let fetched = bytes(CallStatus::Ok);
    let ratio = payload_reduction_ratio(fetched, final_result_bytes);
    Metrics {
        schema_version: 1,
        final_result_bytes,
        prints_bytes,
        upstream_call_count: entries.len(),
        upstream_ok_count: count(CallStatus::Ok),
        upstream_error_count: count(CallStatus::Error),
        upstream_oversize_count: count(CallStatus::Oversize),
        upstream_result_bytes: fetched,
        upstream_error_bytes: bytes(CallStatus::Error),
        upstream_oversize_bytes: bytes(CallStatus::Oversize),
        payload_reduction_ratio: ratio,
        estimated_final_result_tokens: estimated_tokens(final_result_bytes),
        estimated_upstream_result_tokens: estimated_tokens(fetched),
        token_estimate_method: "utf8_bytes_div_4",
        baseline: Baseline {
            conservative: Conservative {
                name: "successful_upstream_results_only",
                bytes: fetched,
                ratio,
                note: CONSERVATIVE_NOTE,
            },
            optimistic: Optimistic {
                name: "no_ptc_direct_llm_workflow",
                available: false,
                note: OPTIMISTIC_NOTE,
            },
        },
        ..Metrics::default()
    }
}

/// Bytes over four, rounded up.
pub fn estimated_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

/// `fetched / answer` rounded to two decimals on the exact binary value with ties up; `None` when either side is 0.
pub fn payload_reduction_ratio(fetched: u64, answer: u64) -> Option<f64> {
    (fetched > 0 && answer > 0).then(|| round2(fetched as f64 / answer as f64))
}

/// Rounds the exact binary value to two decimals, ties up. Only odd eighths are ties at two decimals.
pub fn round2(value: f64) -> f64 {
    let eighths = value * 8.0;
    if eighths.fract() == 0.0 && eighths.rem_euclid(2.0) == 1.0 {
        return (value * 100.0 + 0.5).floor() / 100.0;
    }
    format!("{value:.2}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_and_estimates() {
        for (value, expected) in [
            (0.125, 0.13),
            (0.375, 0.38),
            (2.675, 2.67),
            (59.265, 59.27),
            (59.2635, 59.26),
            (0.2, 0.2),
            (1840.0, 1840.0),
        ] {
            assert_eq!(round2(value), expected, "{value}");
        }
        for (bytes, tokens) in [(0, 0), (1, 1), (4, 1), (5, 2), (122, 31)] {
            assert_eq!(estimated_tokens(bytes), tokens);
        }
        assert_eq!(payload_reduction_ratio(48122, 812), Some(59.26));
        assert_eq!(payload_reduction_ratio(0, 5), None);
        assert_eq!(payload_reduction_ratio(5, 0), None);
    }
}
