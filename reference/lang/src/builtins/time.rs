//! Dates, instants and durations in programs. Knows nothing of how their text is read and written.

use std::cmp::Ordering;

use super::{Builtin, Home, Section, between, exactly, row};
use crate::error::{Stop, bad_value, quoting, wrong_type};
use crate::eval::Eval;
use crate::time::{
    self, MICROS_PER_DAY, MICROS_PER_MILLI, MICROS_PER_SECOND, moment_of_date, within_years,
};
use crate::value::{Instant, Value};

/// The rows of this area.
pub const ROWS: &[Builtin] = &[
    row(
        "parse",
        "time.parse",
        Section::Interop,
        &[Home::LocalDate, Home::Instant],
        exactly(1),
        "(parse iso-string), (LocalDate/parse date-str), (java.time.LocalDate/parse date-str), (java.time.Instant/parse iso-string), (Instant/parse iso-string)",
        "Reads a date or an instant from ISO text.",
        parse,
    ),
    row(
        "java.util.Date.",
        "time.java.util.Date.",
        Section::Interop,
        &[],
        between(0, 1),
        "(java.util.Date.), (java.util.Date. millis-or-string), (java.util.Date. datetime-or-date)",
        "Makes an instant from nothing (now), epoch seconds or milliseconds, text, or another temporal.",
        new_date,
    ),
    row(
        ".getTime",
        "time.getTime",
        Section::Interop,
        &[],
        exactly(1),
        "(.getTime date)",
        "Returns the milliseconds since the epoch of an instant.",
        get_time,
    ),
    row(
        ".toEpochDay",
        "time.toEpochDay",
        Section::Interop,
        &[],
        exactly(1),
        "(.toEpochDay local-date)",
        "Returns the days between 1970-01-01 and a date.",
        |_, args| Ok(Value::Int(i64::from(date(args)?))),
    ),
    row(
        ".plusDays",
        "time.plusDays",
        Section::Interop,
        &[],
        exactly(2),
        "(.plusDays local-date n)",
        "Returns a date a number of days later.",
        |_, args| days_later(args, 1),
    ),
    row(
        ".minusDays",
        "time.minusDays",
        Section::Interop,
        &[],
        exactly(2),
        "(.minusDays local-date n)",
        "Returns a date a number of days earlier.",
        |_, args| days_later(args, -1),
    ),
    row(
        ".isBefore",
        "time.isBefore",
        Section::Interop,
        &[],
        exactly(2),
        "(.isBefore a b)",
        "Returns true when the first date or instant is earlier than the second.",
        |_, args| Ok(Value::Bool(order(args)? == Ordering::Less)),
    ),
    row(
        ".isAfter",
        "time.isAfter",
        Section::Interop,
        &[],
        exactly(2),
        "(.isAfter a b)",
        "Returns true when the first date or instant is later than the second.",
        |_, args| Ok(Value::Bool(order(args)? == Ordering::Greater)),
    ),
    row(
        "Duration/between",
        "time.Duration/between",
        Section::Interop,
        &[Home::Duration],
        exactly(2),
        "(Duration/between start-instant end-instant), (java.time.Duration/between start-instant end-instant)",
        "Returns the duration from one instant to another.",
        duration_between,
    )
    .qualified(),
    row(
        ".toMillis",
        "time.toMillis",
        Section::Interop,
        &[],
        exactly(1),
        "(.toMillis duration)",
        "Returns the whole milliseconds of a duration.",
        |_, args| Ok(Value::Int(duration(args)? / MICROS_PER_MILLI)),
    ),
    row(
        ".toDays",
        "time.toDays",
        Section::Interop,
        &[],
        exactly(1),
        "(.toDays duration)",
        "Returns the whole days of a duration.",
        |_, args| Ok(Value::Int(duration(args)? / MICROS_PER_DAY)),
    ),
    row(
        "currentTimeMillis",
        "time.System/currentTimeMillis",
        Section::Interop,
        &[Home::System],
        exactly(0),
        "(System/currentTimeMillis)",
        "Returns the milliseconds since the epoch.",
        |eval, _| Ok(Value::Int(eval.host().now_micros().div_euclid(MICROS_PER_MILLI))),
    ),
];

fn date(args: &[Value]) -> Result<i32, Stop> {
    match &args[0] {
        Value::Date(days) => Ok(*days),
        other => Err(wrong_type("a date", other)),
    }
}

fn instant(args: &[Value], at: usize) -> Result<Instant, Stop> {
    match &args[at] {
        Value::Instant(instant) => Ok(*instant),
        other => Err(wrong_type("an instant", other)),
    }
}

fn duration(args: &[Value]) -> Result<i64, Stop> {
    match &args[0] {
        Value::Duration(micros) => Ok(*micros),
        other => Err(wrong_type("a duration", other)),
    }
}

fn parse(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let Value::Str(text) = &args[0] else {
        return Err(wrong_type(
            "a string with an ISO-8601 date or time",
            &args[0],
        ));
    };
    time::parse(text).ok_or_else(|| {
        bad_value(quoting(
            "expected a date like 2025-03-09 or a time like 2025-03-09T14:05:06Z, got ",
            &args[0],
        ))
    })
}

fn new_date(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    /// Integers from here on, in magnitude, are milliseconds.
    const MILLIS_FROM: u64 = 1_000_000_000_000;
    let Some(arg) = args.first() else {
        let millis = eval.host().now_micros().div_euclid(MICROS_PER_MILLI);
        return Ok(Value::Instant(Instant::new(millis * MICROS_PER_MILLI, 3)));
    };
    let moment = match arg {
        Value::Instant(instant) => Some(*instant),
        Value::Date(days) => Some(Instant::new(moment_of_date(*days), 0)),
        Value::Int(count) => {
            let (unit, digits) = if count.unsigned_abs() >= MILLIS_FROM {
                (MICROS_PER_MILLI, 3)
            } else {
                (MICROS_PER_SECOND, 0)
            };
            count
                .checked_mul(unit)
                .filter(|micros| within_years(*micros))
                .map(|micros| Instant::new(micros, digits))
        }
        Value::BigInt(_) => None,
        Value::Str(text) => time::parse_loose(text),
        other => {
            return Err(wrong_type(
                "an integer, a string, a date or an instant",
                other,
            ));
        }
    };
    match moment {
        Some(moment) => Ok(Value::Instant(moment)),
        None => Err(bad_value(quoting(
            "expected seconds or milliseconds in the years 0 to 9999, or text in ISO 8601 or RFC 2822, got ",
            arg,
        ))),
    }
}

fn get_time(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    Ok(Value::Int(
        instant(args, 0)?.micros().div_euclid(MICROS_PER_MILLI),
    ))
}

fn days_later(args: &mut [Value], direction: i64) -> Result<Value, Stop> {
    let days = date(args)?;
    let count = match &args[1] {
        Value::Int(count) => Some(*count),
        Value::BigInt(_) => None,
        other => return Err(wrong_type("an integer", other)),
    };
    count
        .and_then(|count| count.checked_mul(direction))
        .and_then(|count| i64::from(days).checked_add(count))
        .and_then(|days| i32::try_from(days).ok())
        .filter(|days| time::civil(*days).is_some())
        .map(Value::Date)
        .ok_or_else(|| bad_value("the date is outside the years 0 to 9999"))
}

fn order(args: &[Value]) -> Result<Ordering, Stop> {
    match (&args[0], &args[1]) {
        (Value::Date(a), Value::Date(b)) => Ok(a.cmp(b)),
        (Value::Instant(a), Value::Instant(b)) => Ok(a.micros().cmp(&b.micros())),
        (Value::Date(_), other) => Err(wrong_type("a date to compare with a date", other)),
        (Value::Instant(_), other) => {
            Err(wrong_type("an instant to compare with an instant", other))
        }
        (other, _) => Err(wrong_type("a date or an instant", other)),
    }
}

fn duration_between(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let start = instant(args, 0)?.micros();
    let micros = instant(args, 1)?.micros() - start;
    Ok(Value::Duration(
        micros / MICROS_PER_MILLI * MICROS_PER_MILLI,
    ))
}
