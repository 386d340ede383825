//! Wall-clock time as text and numbers. The only module of the server that reads the wall clock.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970-01-01T00:00:00Z.
pub fn now_micros() -> i64 {
    let micros = since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros();
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// The time since `moment`; `None` if it is in the future.
pub fn since(moment: SystemTime) -> Option<Duration> {
    SystemTime::now().duration_since(moment).ok()
}

/// The current time as `2026-11-21T20:45:48.340029Z`.
pub fn now_text() -> String {
    text(now_micros())
}

/// A time as ISO-8601 UTC with six fractional digits; `micros` since 1970.
pub fn text(micros: i64) -> String {
    /// Faster than `Display`, and every log line contains a time.
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    let moment = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX);
    PRINTER.timestamp_to_string(&moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc3339_with_microseconds() {
        for (micros, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_795_293_948_340_029, "2026-11-21T20:45:48.340029Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(text(micros), expected);
        }
    }
}
