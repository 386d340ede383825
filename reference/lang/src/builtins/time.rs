//! Dates, instants and durations in programs. Knows nothing of how their text is read and written.

use std::cmp::Ordering;

use super::numbers::index;
use super::{Body, Builtin, Home, Section, between, exactly, fixed, row};
use crate::error::{Stop, about, bad_value, quoting, wrong_type};
use crate::eval::Eval;
use crate::time::{
    self, MICROS_PER_DAY, MICROS_PER_MILLI, MICROS_PER_SECOND, moment_of_date, within_years,
};
use crate::value::{Instant, Value};

/// The rows of this module.
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
        "Makes an instant of the current time, or from epoch seconds or milliseconds, text, or another temporal value.",
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
        "LocalDate/now",
        "time.now",
        Section::Interop,
        &[Home::LocalDate],
        exactly(0),
        "(LocalDate/now)",
        "Returns the date of today in UTC.",
        |eval, _| today(eval),
    ).qualified(),
    row(
        "Instant/now",
        "time.now",
        Section::Interop,
        &[Home::Instant],
        exactly(0),
        "(Instant/now)",
        "Returns the moment that it is, in milliseconds.",
        |eval, _| Ok(now(eval)),
    ).qualified(),
    row(
        "LocalDate/of",
        "time.of",
        Section::Interop,
        &[Home::LocalDate],
        exactly(3),
        "(LocalDate/of year month day)",
        "Returns a date of a year, a month from 1 and a day of the month.",
        date_of,
    ).qualified(),
    row(
        "Instant/ofEpochMilli",
        "time.epoch",
        Section::Interop,
        &[Home::Instant],
        exactly(1),
        "(Instant/ofEpochMilli millis)",
        "Returns the moment so many milliseconds after 1970.",
        |_, args| moment_of(args, MICROS_PER_MILLI, 3),
    ).qualified(),
    row(
        "Instant/ofEpochSecond",
        "time.epoch",
        Section::Interop,
        &[Home::Instant],
        exactly(1),
        "(Instant/ofEpochSecond seconds)",
        "Returns the moment so many seconds after 1970.",
        |_, args| moment_of(args, MICROS_PER_SECOND, 0),
    ).qualified(),
    row(
        "LocalDate/ofEpochDay",
        "time.epoch",
        Section::Interop,
        &[Home::LocalDate],
        exactly(1),
        "(LocalDate/ofEpochDay days)",
        "Returns the date so many days after 1970-01-01.",
        |_, args| { args[0] = day_of_epoch(&args[0])?; Ok(std::mem::take(&mut args[0])) },
    ).qualified(),
    row(
        ".getYear",
        "time.fields",
        Section::Interop,
        &[],
        exactly(1),
        "(.getYear local-date)",
        "Returns the year of a date.",
        |_, args| Ok(Value::Int({ let date = calendar(args)?; i64::from(date.year()) })),
    ),
    row(
        ".getMonthValue",
        "time.fields",
        Section::Interop,
        &[],
        exactly(1),
        "(.getMonthValue local-date)",
        "Returns the month, from 1 of a date.",
        |_, args| Ok(Value::Int({ let date = calendar(args)?; i64::from(date.month()) })),
    ),
    row(
        ".getDayOfMonth",
        "time.fields",
        Section::Interop,
        &[],
        exactly(1),
        "(.getDayOfMonth local-date)",
        "Returns the day of the month of a date.",
        |_, args| Ok(Value::Int({ let date = calendar(args)?; i64::from(date.day()) })),
    ),
    row(
        ".getDayOfYear",
        "time.fields",
        Section::Interop,
        &[],
        exactly(1),
        "(.getDayOfYear local-date)",
        "Returns the day of the year, from 1 of a date.",
        |_, args| Ok(Value::Int({ let date = calendar(args)?; i64::from(date.day_of_year()) })),
    ),
    row(
        ".getMonth",
        "time.fields.names",
        Section::Interop,
        &[],
        exactly(1),
        "(.getMonth local-date)",
        "Returns the name of the month of a date, such as \"MARCH\".",
        |_, args| Ok(Value::from(MONTHS[calendar(args)?.month() as usize - 1])),
    ),
    row(
        ".getDayOfWeek",
        "time.fields.names",
        Section::Interop,
        &[],
        exactly(1),
        "(.getDayOfWeek local-date)",
        "Returns the name of the day of the week of a date, such as \"SUNDAY\".",
        |_, args| Ok(Value::from(WEEKDAYS[calendar(args)?.weekday().to_monday_zero_offset() as usize])),
    ),
    row(
        ".getValue",
        "time.fields.values",
        Section::Interop,
        &[],
        exactly(1),
        "(.getValue month-or-day-of-week)",
        "Returns the number of a month, or of a day of the week from Monday, from 1, by its name.",
        number_of_name,
    ),
    row(
        ".plusWeeks",
        "time.plusMonths",
        Section::Interop,
        &[],
        exactly(2),
        "(.plusWeeks local-date n)",
        "Returns a date a number of weeks later.",
        |_, args| days_later(args, 7),
    ),
    row(
        ".plusMonths",
        "time.plusMonths",
        Section::Interop,
        &[],
        exactly(2),
        "(.plusMonths local-date n)",
        "Returns a date a number of months later, at the latest the last day of its month.",
        |_, args| months_later(args, 1),
    ),
    row(
        ".plusYears",
        "time.plusMonths",
        Section::Interop,
        &[],
        exactly(2),
        "(.plusYears local-date n)",
        "Returns a date a number of years later, at the latest the last day of its month.",
        |_, args| months_later(args, 12),
    ),
    row(
        ".minusWeeks",
        "time.plusMonths",
        Section::Interop,
        &[],
        exactly(2),
        "(.minusWeeks local-date n)",
        "Returns a date a number of weeks earlier.",
        |_, args| days_later(args, -7),
    ),
    row(
        ".minusMonths",
        "time.plusMonths",
        Section::Interop,
        &[],
        exactly(2),
        "(.minusMonths local-date n)",
        "Returns a date a number of months earlier, at the latest the last day of its month.",
        |_, args| months_later(args, -1),
    ),
    row(
        ".minusYears",
        "time.plusMonths",
        Section::Interop,
        &[],
        exactly(2),
        "(.minusYears local-date n)",
        "Returns a date a number of years earlier, at the latest the last day of its month.",
        |_, args| months_later(args, -12),
    ),
    row(
        ".isEqual",
        "time.isEqual",
        Section::Interop,
        &[],
        exactly(2),
        "(.isEqual a b)",
        "Returns true when both are the same date or moment.",
        |_, args| Ok(Value::Bool(order(args)? == Ordering::Equal)),
    ),
    row(
        ".toEpochMilli",
        "time.epoch",
        Section::Interop,
        &[],
        exactly(1),
        "(.toEpochMilli instant)",
        "Returns the milliseconds since the epoch of an instant.",
        get_time,
    ),
    row(
        ".getEpochSecond",
        "time.epoch",
        Section::Interop,
        &[],
        exactly(1),
        "(.getEpochSecond instant)",
        "Returns the whole seconds since the epoch of an instant.",
        |_, args| Ok(Value::Int(instant(args, 0)?.micros().div_euclid(MICROS_PER_SECOND))),
    ),
    row(
        ".toHours",
        "time.durations",
        Section::Interop,
        &[],
        exactly(1),
        "(.toHours duration)",
        "Returns the whole hours of a duration.",
        |_, args| Ok(Value::Int(duration(args)? / MICROS_PER_SECOND / 3_600)),
    ),
    row(
        ".toMinutes",
        "time.durations",
        Section::Interop,
        &[],
        exactly(1),
        "(.toMinutes duration)",
        "Returns the whole minutes of a duration.",
        |_, args| Ok(Value::Int(duration(args)? / MICROS_PER_SECOND / 60)),
    ),
    row(
        ".getSeconds",
        "time.durations",
        Section::Interop,
        &[],
        exactly(1),
        "(.getSeconds duration)",
        "Returns the whole seconds of a duration.",
        |_, args| Ok(Value::Int(duration(args)? / MICROS_PER_SECOND)),
    ),
    row(
        ".toSeconds",
        "time.durations",
        Section::Interop,
        &[],
        exactly(1),
        "(.toSeconds duration)",
        "Returns the whole seconds of a duration.",
        |_, args| Ok(Value::Int(duration(args)? / MICROS_PER_SECOND)),
    ),
    row(
        ".lengthOfMonth",
        "time.lengths",
        Section::Interop,
        &[],
        exactly(1),
        "(.lengthOfMonth local-date)",
        "Returns the number of days of the month of a date.",
        |_, args| Ok(Value::Int(i64::from(calendar(args)?.days_in_month()))),
    ),
    row(
        ".lengthOfYear",
        "time.lengths",
        Section::Interop,
        &[],
        exactly(1),
        "(.lengthOfYear local-date)",
        "Returns the number of days of the year of a date.",
        |_, args| Ok(Value::Int(i64::from(calendar(args)?.days_in_year()))),
    ),
    row(
        ".isLeapYear",
        "time.lengths",
        Section::Interop,
        &[],
        exactly(1),
        "(.isLeapYear local-date)",
        "Returns true when the year of a date has 366 days.",
        |_, args| Ok(Value::Bool(calendar(args)?.in_leap_year())),
    ),
    row(
        ".withDayOfMonth",
        "time.withDayOfMonth",
        Section::Interop,
        &[],
        exactly(2),
        "(.withDayOfMonth local-date day)",
        "Returns the date with another day of its month.",
        with_day,
    ),
    row(
        ".plusSeconds",
        "time.plusSeconds",
        Section::Interop,
        &[],
        exactly(2),
        "(.plusSeconds instant n)",
        "Returns an instant a number of seconds later.",
        |_, args| moment_later(args, MICROS_PER_SECOND),
    ),
    row(
        ".minusSeconds",
        "time.plusSeconds",
        Section::Interop,
        &[],
        exactly(2),
        "(.minusSeconds instant n)",
        "Returns an instant a number of seconds earlier.",
        |_, args| moment_later(args, -MICROS_PER_SECOND),
    ),
    row(
        ".plusMinutes",
        "time.plusSeconds",
        Section::Interop,
        &[],
        exactly(2),
        "(.plusMinutes instant n)",
        "Returns an instant a number of minutes later.",
        |_, args| moment_later(args, MICROS_PER_SECOND * 60),
    ),
    row(
        ".minusMinutes",
        "time.plusSeconds",
        Section::Interop,
        &[],
        exactly(2),
        "(.minusMinutes instant n)",
        "Returns an instant a number of minutes earlier.",
        |_, args| moment_later(args, -MICROS_PER_SECOND * 60),
    ),
    row(
        ".plusHours",
        "time.plusSeconds",
        Section::Interop,
        &[],
        exactly(2),
        "(.plusHours instant n)",
        "Returns an instant a number of hours later.",
        |_, args| moment_later(args, MICROS_PER_SECOND * 3_600),
    ),
    row(
        ".minusHours",
        "time.plusSeconds",
        Section::Interop,
        &[],
        exactly(2),
        "(.minusHours instant n)",
        "Returns an instant a number of hours earlier.",
        |_, args| moment_later(args, -MICROS_PER_SECOND * 3_600),
    ),
    row(
        ".plusMillis",
        "time.plusSeconds",
        Section::Interop,
        &[],
        exactly(2),
        "(.plusMillis instant n)",
        "Returns an instant a number of milliseconds later.",
        |_, args| moment_later(args, MICROS_PER_MILLI),
    ),
    row(
        ".minusMillis",
        "time.plusSeconds",
        Section::Interop,
        &[],
        exactly(2),
        "(.minusMillis instant n)",
        "Returns an instant a number of milliseconds earlier.",
        |_, args| moment_later(args, -MICROS_PER_MILLI),
    ),
    row(
        ".until",
        "time.units",
        Section::Interop,
        &[],
        exactly(3),
        "(.until a b unit)",
        "Returns the whole units, such as ChronoUnit/DAYS, from a date or an instant to another.",
        |_, args| units_between(args, 0, 2),
    ),
    row(
        ".between",
        "time.units",
        Section::Interop,
        &[],
        exactly(3),
        "(.between unit a b)",
        "Returns the whole units, such as ChronoUnit/DAYS, from a date or an instant to another.",
        |_, args| units_between(args, 1, 0),
    ),
    fixed(
        "ChronoUnit/MILLIS",
        "time.units",
        Section::Interop,
        &[Home::ChronoUnit],
        "The unit of milliseconds, for .until and .between.",
        Body::Text("Millis"),
    )
    .qualified(),
    fixed(
        "ChronoUnit/SECONDS",
        "time.units",
        Section::Interop,
        &[Home::ChronoUnit],
        "The unit of seconds, for .until and .between.",
        Body::Text("Seconds"),
    )
    .qualified(),
    fixed(
        "ChronoUnit/MINUTES",
        "time.units",
        Section::Interop,
        &[Home::ChronoUnit],
        "The unit of minutes, for .until and .between.",
        Body::Text("Minutes"),
    )
    .qualified(),
    fixed(
        "ChronoUnit/HOURS",
        "time.units",
        Section::Interop,
        &[Home::ChronoUnit],
        "The unit of hours, for .until and .between.",
        Body::Text("Hours"),
    )
    .qualified(),
    fixed(
        "ChronoUnit/DAYS",
        "time.units",
        Section::Interop,
        &[Home::ChronoUnit],
        "The unit of days, for .until and .between.",
        Body::Text("Days"),
    )
    .qualified(),
    fixed(
        "ChronoUnit/WEEKS",
        "time.units",
        Section::Interop,
        &[Home::ChronoUnit],
        "The unit of weeks, for .until and .between.",
        Body::Text("Weeks"),
    )
    .qualified(),
    fixed(
        "ChronoUnit/MONTHS",
        "time.units",
        Section::Interop,
        &[Home::ChronoUnit],
        "The unit of months, for .until and .between.",
        Body::Text("Months"),
    )
    .qualified(),
    fixed(
        "ChronoUnit/YEARS",
        "time.units",
        Section::Interop,
        &[Home::ChronoUnit],
        "The unit of years, for .until and .between.",
        Body::Text("Years"),
    )
    .qualified(),
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

/// The month names of Java.
const MONTHS: [&str; 12] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];
const WEEKDAYS: [&str; 7] = [
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
    "SUNDAY",
];

/// The number of the month or day of the week that argument 0 names.
fn number_of_name(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let Value::Str(name) = &args[0] else {
        return Err(wrong_type(
            "the name of a month or of a day of the week",
            &args[0],
        ));
    };
    let place = |names: &[&str]| names.iter().position(|known| *known == name.as_str());
    match place(&WEEKDAYS).or_else(|| place(&MONTHS)) {
        Some(place) => Ok(Value::from(place + 1)),
        None => Err(bad_value(quoting(
            "expected the name of a month or of a day of the week, such as \"MAY\" or \"SUNDAY\", got ",
            &args[0],
        ))),
    }
}

/// The current instant of the host's clock.
fn now(eval: &mut Eval<'_>) -> Value {
    let millis = eval.host().now_micros().div_euclid(MICROS_PER_MILLI);
    Value::Instant(Instant::new(millis * MICROS_PER_MILLI, 3))
}

fn today(eval: &mut Eval<'_>) -> Result<Value, Stop> {
    day_of_epoch(&Value::Int(
        eval.host().now_micros().div_euclid(MICROS_PER_DAY),
    ))
}

fn outside(asked: &Value) -> Stop {
    bad_value(about("the date is outside the years 0 to 9999", asked))
}

fn day_of_epoch(asked: &Value) -> Result<Value, Stop> {
    let days = i32::try_from(index(asked)?).ok();
    let days = days.filter(|days| time::civil(*days).is_some());
    days.map(Value::Date).ok_or_else(|| outside(asked))
}

fn moment_of(args: &[Value], unit: i64, digits: u8) -> Result<Value, Stop> {
    let micros = index(&args[0])?.checked_mul(unit);
    let micros = micros.filter(|micros| within_years(*micros));
    let micros = micros.ok_or_else(|| outside(&args[0]))?;
    Ok(Value::Instant(Instant::new(micros, digits)))
}

fn date_of(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let (year, month, day) = (index(&args[0])?, index(&args[1])?, index(&args[2])?);
    let date = time::civil_date(year, month, day).filter(|date| date.year() >= 0);
    match date {
        Some(date) => Ok(Value::Date(time::days(date))),
        None => match args.iter().find(|arg| matches!(arg, Value::BigInt(_))) {
            Some(large) => Err(outside(large)),
            None => Err(bad_value(format!("there is no date {year}-{month}-{day}"))),
        },
    }
}

/// The calendar date in argument 0.
fn calendar(args: &[Value]) -> Result<jiff::civil::Date, Stop> {
    time::civil(date(args)?).ok_or_else(|| outside(&args[0]))
}

fn months_later(args: &mut [Value], unit: i64) -> Result<Value, Stop> {
    let date = calendar(args)?;
    let months = index(&args[1])?
        .checked_mul(unit)
        .ok_or_else(|| outside(&args[1]))?;
    let span = jiff::Span::new()
        .try_months(months)
        .map_err(|_| outside(&args[1]))?;
    let later = date.checked_add(span).map_err(|_| outside(&args[1]))?;
    match later.year() >= 0 {
        true => Ok(Value::Date(time::days(later))),
        false => Err(outside(&args[1])),
    }
}

fn with_day(_: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    let date = calendar(args)?;
    let (year, month, day) = (date.year(), date.month(), index(&args[1])?);
    match time::civil_date(i64::from(year), i64::from(month), day) {
        Some(date) => Ok(Value::Date(time::days(date))),
        None => Err(bad_value(quoting(
            format!("there is no date {year}-{month}-"),
            &args[1],
        ))),
    }
}

fn moment_later(args: &mut [Value], unit: i64) -> Result<Value, Stop> {
    let moment = instant(args, 0)?;
    let later = index(&args[1])?.checked_mul(unit);
    let later = later.and_then(|later| moment.micros().checked_add(later));
    let later = later.filter(|micros| within_years(*micros));
    let micros = later.ok_or_else(|| outside(&args[1]))?;
    // Milliseconds are shown when some were added.
    let fraction = |micros: i64| micros.rem_euclid(MICROS_PER_SECOND);
    let digits = match fraction(micros) == fraction(moment.micros()) {
        true => moment.digits,
        false => moment.digits.max(3),
    };
    Ok(Value::Instant(Instant::new(micros, digits)))
}

/// The number of whole units between the times in arguments `from` and `from + 1`; argument `unit` is the unit.
fn units_between(args: &[Value], from: usize, unit: usize) -> Result<Value, Stop> {
    const UNITS: [(&str, i64); 6] = [
        ("Millis", MICROS_PER_MILLI),
        ("Seconds", MICROS_PER_SECOND),
        ("Minutes", MICROS_PER_SECOND * 60),
        ("Hours", MICROS_PER_SECOND * 3_600),
        ("Days", MICROS_PER_DAY),
        ("Weeks", MICROS_PER_DAY * 7),
    ];
    const MONTHS: [(&str, i64); 2] = [("Months", 1), ("Years", 12)];
    let Value::Str(name) = &args[unit] else {
        return Err(wrong_type("a unit such as ChronoUnit/DAYS", &args[unit]));
    };
    let of = |units: &[(&str, i64)]| {
        let found = units.iter().find(|(known, _)| *known == name.as_str());
        found.map(|(_, size)| *size)
    };
    let unfit = |what: &str, fit: &str| {
        bad_value(about(
            format!("{what} are counted in ChronoUnit/{fit}"),
            &args[unit],
        ))
    };
    if of(&UNITS).or_else(|| of(&MONTHS)).is_none() {
        return Err(wrong_type("a unit such as ChronoUnit/DAYS", &args[unit]));
    }
    match (&args[from], &args[from + 1]) {
        (Value::Date(a), Value::Date(b)) => match (of(&UNITS), of(&MONTHS)) {
            (Some(size), _) if size >= MICROS_PER_DAY => {
                Ok(Value::Int(i64::from(b - a) / (size / MICROS_PER_DAY)))
            }
            (_, Some(size)) => {
                // A month counts once its day is reached.
                const DAYS_MAX: i64 = 32;
                let packed = |days: i32, asked: &Value| {
                    let date = time::civil(days).ok_or_else(|| outside(asked))?;
                    let months = i64::from(date.year()) * 12 + i64::from(date.month());
                    Ok::<_, Stop>(months * DAYS_MAX + i64::from(date.day()))
                };
                let apart = packed(*b, &args[from + 1])? - packed(*a, &args[from])?;
                Ok(Value::Int(apart / DAYS_MAX / size))
            }
            _ => Err(unfit("dates", "DAYS, WEEKS, MONTHS or YEARS")),
        },
        (Value::Instant(a), Value::Instant(b)) => match of(&UNITS) {
            Some(size) if size <= MICROS_PER_DAY => {
                Ok(Value::Int((b.micros() - a.micros()) / size))
            }
            _ => Err(unfit("instants", "MILLIS, SECONDS, MINUTES, HOURS or DAYS")),
        },
        (Value::Date(_), other) => Err(wrong_type("a date to count to from a date", other)),
        (Value::Instant(_), other) => {
            Err(wrong_type("an instant to count to from an instant", other))
        }
        (other, _) => Err(wrong_type("a date or an instant", other)),
    }
}

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
        if time::is_date_shaped(text) {
            return bad_value(quoting("there is no date ", &args[0]));
        }
        bad_value(quoting(
            "expected a date like 2025-03-09 or a time like 2025-03-09T14:05:06Z, got ",
            &args[0],
        ))
    })
}

fn new_date(eval: &mut Eval<'_>, args: &mut [Value]) -> Result<Value, Stop> {
    /// Integers of at least this magnitude are milliseconds.
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
        .ok_or_else(|| outside(&args[1]))
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
