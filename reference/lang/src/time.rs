//! Dates, moments and spans of time as text. Knows nothing of functions.

use jiff::civil::{Date, date};
use jiff::{SignedDuration, Timestamp};

use crate::value::Value;

/// 1970-01-01
const EPOCH: Date = date(1970, 1, 1);

/// The ISO-8601 text of a temporal value; empty for anything else.
pub fn text(value: &Value) -> String {
    match value {
        Value::Date(days) => civil(*days).map_or_else(String::new, |date| date.to_string()),
        Value::Instant(instant) => {
            let digits = usize::from(instant.digits);
            Timestamp::from_microsecond(instant.micros())
                .map_or_else(|_| String::new(), |moment| format!("{moment:.digits$}"))
        }
        Value::Duration(micros) => SignedDuration::from_micros(*micros).to_string(),
        _ => String::new(),
    }
}

/// The calendar date `days` days after 1970-01-01; none outside the years that exist here.
pub fn civil(days: i32) -> Option<Date> {
    EPOCH
        .checked_add(jiff::Span::new().try_days(days).ok()?)
        .ok()
}

/// Days from 1970-01-01 to `date`.
pub fn days(date: Date) -> i32 {
    EPOCH.until(date).map_or(0, |span| span.get_days())
}
