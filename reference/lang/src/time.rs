//! Text of dates, instants and durations, both ways. Knows nothing of functions.

use std::fmt::Write as _;

use jiff::civil::{Date, date};
use jiff::{SignedDuration, Span};

use crate::value::{Instant, Value};

/// Microseconds per millisecond.
pub const MICROS_PER_MILLI: i64 = 1_000;
/// Microseconds per second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds per day.
pub const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// 1970-01-01
const EPOCH: Date = date(1970, 1, 1);
/// The largest number of fraction digits that an instant keeps.
const FRACTION_DIGITS_MAX: usize = 6;

/// The ISO 8601 text of a temporal value; empty for any other value.
pub fn text(value: &Value) -> String {
    match value {
        Value::Date(days) => civil(*days).map_or_else(String::new, |date| date.to_string()),
        Value::Instant(instant) => instant_text(*instant),
        Value::Duration(micros) => SignedDuration::from_micros(*micros).to_string(),
        _ => String::new(),
    }
}

fn instant_text(instant: Instant) -> String {
    let days = instant.micros().div_euclid(MICROS_PER_DAY);
    let micros = instant.micros().rem_euclid(MICROS_PER_DAY);
    let (seconds, fraction) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let Some(date) = i32::try_from(days).ok().and_then(civil) else {
        return String::new();
    };
    let mut text = format!("{date}T{hour:02}:{minute:02}:{second:02}");
    if instant.digits > 0 {
        let digits = format!("{fraction:06}");
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            ".{}",
            &digits[..usize::from(instant.digits).min(digits.len())]
        );
    }
    text.push('Z');
    text
}

/// The calendar date `days` days after 1970-01-01; `None` outside the years 0 to 9999, which are all that four digits
/// can represent.
pub fn civil(days: i32) -> Option<Date> {
    let date = EPOCH.checked_add(Span::new().try_days(days).ok()?).ok()?;
    (date.year() >= 0).then_some(date)
}

/// Days from 1970-01-01 to `date`.
pub fn days(date: Date) -> i32 {
    EPOCH.until(date).map_or(0, |span| span.get_days())
}

/// Microseconds from the epoch to the midnight at the start of the day.
pub fn micros_of_date(days: i32) -> i64 {
    i64::from(days) * MICROS_PER_DAY
}

/// Whether an instant is within the years 0 to 9999.
pub fn within_years(micros: i64) -> bool {
    i32::try_from(micros.div_euclid(MICROS_PER_DAY))
        .ok()
        .and_then(civil)
        .is_some()
}

/// A date from `YYYY-MM-DD`, an instant from `YYYY-MM-DDThh:mm:ss` with an optional fraction and
/// offset; without an offset it is UTC.
pub fn parse(text: &str) -> Option<Value> {
    match text.split_once('T') {
        Some((date, time)) => Some(Value::Instant(parse_instant(date, time).ok()?.instant)),
        None => iso_date(text).map(|date| Value::Date(days(date))),
    }
}

/// Whether `text` has the shape of a date: digits as in `YYYY-MM-DD`.
pub fn is_date_shaped(text: &str) -> bool {
    date_fields(text).is_some()
}

/// An instant from any text that [`parse`] accepts, from the same with a space instead of the `T`, or from RFC 2822
/// text.
pub fn parse_loose(text: &str) -> Option<Instant> {
    match parse(text) {
        Some(Value::Date(days)) => return Some(Instant::new(micros_of_date(days), 0)),
        Some(Value::Instant(instant)) => return Some(instant),
        _ => {}
    }
    if let Some((date, time)) = text.split_once(' ')
        && let Ok(parsed) = parse_instant(date, time)
    {
        return Some(parsed.instant);
    }
    parse_rfc_2822(text)
}

/// Why a text is not an instant with an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstantError {
    /// The text does not have the required format.
    Format,
    /// The date does not exist.
    Date,
    /// The time of day does not exist.
    Time,
    /// The text has no offset from UTC.
    Offset,
}

/// The instant that `YYYY-MM-DDThh:mm:ss` with an optional fraction and an offset stands for, and the offset in seconds
/// ahead of UTC. A space may replace the `T`.
pub fn parse_instant_with_offset(text: &str) -> Result<(Instant, i64), InstantError> {
    let (date, time) = text.split_once(['T', ' ']).ok_or(InstantError::Format)?;
    let parsed = parse_instant(date, time)?;
    let ahead = parsed.ahead.ok_or(InstantError::Offset)?;
    Ok((parsed.instant, ahead))
}

fn iso_date(text: &str) -> Option<Date> {
    let (year, month, day) = date_fields(text)?;
    civil_date(year, month, day)
}

fn date_fields(text: &str) -> Option<(i64, i64, i64)> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    Some((
        parse_number(year, 4)?,
        parse_number(month, 2)?,
        parse_number(day, 2)?,
    ))
}

pub fn civil_date(year: i64, month: i64, day: i64) -> Option<Date> {
    Date::new(
        year.try_into().ok()?,
        month.try_into().ok()?,
        day.try_into().ok()?,
    )
    .ok()
}

/// The number of exactly `digits` ASCII digits.
fn parse_number(text: &str, digits: usize) -> Option<i64> {
    if text.len() != digits || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

struct ParsedInstant {
    instant: Instant,
    /// Seconds ahead of UTC, if the text has an offset.
    ahead: Option<i64>,
}

/// Errors of format are reported before dates and times that do not exist.
fn parse_instant(date: &str, time: &str) -> Result<ParsedInstant, InstantError> {
    let (year, month, day) = date_fields(date).ok_or(InstantError::Format)?;
    let clock = time.get(..8).and_then(clock_fields);
    let (hour, minute, second) = clock.ok_or(InstantError::Format)?;
    let (fraction, digits, rest) = parse_fraction(&time[8..]).ok_or(InstantError::Format)?;
    let ahead = match rest {
        "" => None,
        _ => Some(parse_offset(rest).ok_or(InstantError::Format)?),
    };
    let date = civil_date(year, month, day).ok_or(InstantError::Date)?;
    let seconds = seconds_of_day(hour, minute, second).ok_or(InstantError::Time)?;
    let instant = instant_at(date, seconds - ahead.unwrap_or(0), fraction, digits)
        .ok_or(InstantError::Date)?;
    Ok(ParsedInstant { instant, ahead })
}

/// The microseconds and the number of digits of an optional fraction, and the text after it.
fn parse_fraction(text: &str) -> Option<(i64, u8, &str)> {
    let Some(after) = text.strip_prefix(['.', ',']) else {
        return Some((0, 0, text));
    };
    let end = after
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(after.len());
    let digits = end.min(FRACTION_DIGITS_MAX);
    if digits == 0 {
        return None;
    }
    let scale = 10i64.pow((FRACTION_DIGITS_MAX - digits) as u32);
    let micros = after[..digits].parse::<i64>().ok()? * scale;
    Some((micros, digits as u8, &after[end..]))
}

/// `hh:mm:ss` as seconds since midnight.
fn parse_clock(text: &str) -> Option<i64> {
    let (hour, minute, second) = clock_fields(text)?;
    seconds_of_day(hour, minute, second)
}

fn clock_fields(text: &str) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let fields = (
        parse_number(hour, 2)?,
        parse_number(minute, 2)?,
        parse_number(second, 2)?,
    );
    parts.next().is_none().then_some(fields)
}

fn seconds_of_day(hour: i64, minute: i64, second: i64) -> Option<i64> {
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3_600 + minute * 60 + second)
}

/// The number of seconds that `Z`, `+hh`, `+hhmm` or `+hh:mm` is ahead of UTC.
fn parse_offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hour, minute) = match digits.len() {
        2 => (digits, "00"),
        4 => (digits.get(..2)?, digits.get(2..)?),
        _ => digits.split_once(':')?,
    };
    let (hour, minute) = (parse_number(hour, 2)?, parse_number(minute, 2)?);
    let seconds = hour * 3_600 + minute * 60;
    // ISO 8601 does not write UTC as a negative zero.
    (hour < 24 && minute < 60 && (sign, seconds) != (-1, 0)).then_some(sign * seconds)
}

fn instant_at(date: Date, seconds: i64, fraction: i64, digits: u8) -> Option<Instant> {
    let micros = micros_of_date(days(date)) + seconds * MICROS_PER_SECOND + fraction;
    within_years(micros).then(|| Instant::new(micros, digits))
}

const MONTHS: &[&str] = &[
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: &[&str] = &["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Time zones by name, with hours ahead of UTC.
const ZONES: &[(&str, i64)] = &[
    ("GMT", 0),
    ("UTC", 0),
    ("UT", 0),
    ("Z", 0),
    ("EDT", -4),
    ("EST", -5),
    ("CDT", -5),
    ("CST", -6),
    ("MDT", -6),
    ("MST", -7),
    ("PDT", -7),
    ("PST", -8),
];

/// `[Sun, ]9 Mar 2025 14:05[:06][ zone]`; the name of the weekday is not checked against the date.
fn parse_rfc_2822(text: &str) -> Option<Instant> {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let mut word = words.next()?;
    if let Some(weekday) = word.strip_suffix(',') {
        if !WEEKDAYS.contains(&weekday) {
            return None;
        }
        word = words.next()?;
    }
    let day = parse_number(word, word.len().clamp(1, 2))?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let year = words.next()?;
    let year = match year.len() {
        2 => match parse_number(year, 2)? {
            recent @ ..50 => recent + 2000,
            past => past + 1900,
        },
        _ => parse_number(year, 4)?,
    };
    let date = civil_date(year, month, day)?;
    let time = words.next()?;
    let seconds = match time.len() {
        5 => parse_clock(&format!("{time}:00"))?,
        _ => parse_clock(time)?,
    };
    let offset = match words.next() {
        None => 0,
        Some(zone) => match ZONES.iter().find(|(name, _)| *name == zone) {
            Some((_, hours)) => hours * 3_600,
            None if zone.len() == 5 => match zone {
                "-0000" => 0,
                _ => parse_offset(zone)?,
            },
            None => return None,
        },
    };
    if words.next().is_some() {
        return None;
    }
    instant_at(date, seconds - offset, 0, 0)
}

#[cfg(test)]
mod tests;
