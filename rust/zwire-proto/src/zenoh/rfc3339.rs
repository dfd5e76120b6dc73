//! Instants in the text form of RFC 3339, in UTC: `2024-07-01T13:51:12.129693000Z`.

use core::{fmt, time::Duration};
use thiserror::Error;

const SECONDS_PER_DAY: u64 = 86_400;

/// Error for a text that is no RFC 3339 instant in UTC from 1970 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no RFC 3339 instant in UTC (at byte {offset})")]
pub struct InstantError {
    /// The first byte that does not fit.
    pub offset: usize,
}

/// Strictness of the parser.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `T` between date and time, `Z` or `+00:00` at the end.
    Strict,
    /// A space may replace the `T`, and the zone may be missing: for text typed by users.
    Loose,
}

/// The instant as time since the UNIX epoch. A leap second counts as the second before; digits after
/// the ninth of the fraction are dropped. Both as in Eclipse Zenoh.
pub(super) fn parse(text: &str, form: Form) -> Result<Duration, InstantError> {
    let bytes = text.as_bytes();
    let number = |from: usize, digits: usize| {
        (from..from + digits).try_fold(0_u64, |number, offset| match bytes.get(offset) {
            Some(digit @ b'0'..=b'9') => Ok(number * 10 + u64::from(digit - b'0')),
            _ => Err(InstantError { offset }),
        })
    };
    let mark = |offset: usize, allowed: &[u8]| match bytes.get(offset) {
        Some(byte) if allowed.contains(byte) => Ok(()),
        _ => Err(InstantError { offset }),
    };
    let within = |value: u64, first: u64, last: u64, offset: usize| {
        if (first..=last).contains(&value) { Ok(value) } else { Err(InstantError { offset }) }
    };

    let year = within(number(0, 4)?, 1970, 9999, 0)?;
    mark(4, b"-")?;
    let month = within(number(5, 2)?, 1, 12, 5)?;
    mark(7, b"-")?;
    let day = within(number(8, 2)?, 1, days_in_month(year, month), 8)?;
    mark(10, if form == Form::Strict { b"T" } else { b"T " })?;
    let hour = within(number(11, 2)?, 0, 23, 11)?;
    mark(13, b":")?;
    let minute = within(number(14, 2)?, 0, 59, 14)?;
    mark(16, b":")?;
    let second = within(number(17, 2)?, 0, 60, 17)?.min(59);

    let mut at = 19;
    let mut nanos = 0;
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        let mut unit = 100_000_000;
        while let Some(digit @ b'0'..=b'9') = bytes.get(at) {
            nanos += u32::from(digit - b'0') * unit;
            unit /= 10;
            at += 1;
        }
    }
    match &bytes[at..] {
        b"Z" | b"+00:00" => {}
        b"" if form == Form::Loose => {}
        _ => return Err(InstantError { offset: at }),
    }
    let days = days_since_epoch(year, month, day);
    Ok(Duration::new(days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second, nanos))
}

/// Shows a time since the UNIX epoch with nine digits of fraction; with `{:#}` with the fewest groups
/// of three digits that keep the value.
pub struct Instant(pub Duration);

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        let (year, month, day) = date(seconds / SECONDS_PER_DAY);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match nanos {
            0 if f.alternate() => f.write_str("Z"),
            _ if f.alternate() && nanos % 1_000_000 == 0 => write!(f, ".{:03}Z", nanos / 1_000_000),
            _ if f.alternate() && nanos % 1_000 == 0 => write!(f, ".{:06}Z", nanos / 1_000),
            _ => write!(f, ".{nanos:09}Z"),
        }
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days before 1 January of `year`, counted from 1 January 1970.
fn days_before_year(year: u64) -> u64 {
    // Leap days before a year, counted from year 0 on; 477 of them lie before 1970.
    let leaps = |year: u64| (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    (year - 1970) * 365 + leaps(year) - leaps(1970)
}

fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
    days_before_year(year) + (1..month).map(|month| days_in_month(year, month)).sum::<u64>() + day - 1
}

/// Year, month and day of a day counted from 1 January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // 400 years have 146 097 days. The quotient is the year or, near its ends, one beside it.
    let mut year = 1970 + days / 146_097 * 400 + days % 146_097 * 400 / 146_097;
    while days_before_year(year) > days {
        year -= 1;
    }
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before_year(year);
    let mut month = 1;
    while day >= days_in_month(year, month) {
        day -= days_in_month(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64, nanos: u32) -> Duration {
        Duration::new(seconds, nanos)
    }

    #[test]
    fn known_instants() {
        // Second column from `date -u -d`.
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2000-02-29T00:00:00Z", 951_782_400, 0),
            ("2024-07-01T13:51:12.129693000Z", 1_719_841_872, 129_693_000),
            ("2024-07-01T13:51:12.1Z", 1_719_841_872, 100_000_000),
            ("2024-07-01T13:51:12.1234567891Z", 1_719_841_872, 123_456_789),
            ("2024-07-01T13:51:12.Z", 1_719_841_872, 0),
            ("2024-07-01T13:51:12+00:00", 1_719_841_872, 0),
            ("2016-12-31T23:59:60Z", 1_483_228_799, 0),
            ("2106-02-07T06:28:15.999999999Z", 4_294_967_295, 999_999_999),
            ("9999-12-31T23:59:59Z", 253_402_300_799, 0),
        ] {
            assert_eq!(parse(text, Form::Strict), Ok(at(seconds, nanos)), "{text}");
        }
        assert_eq!(parse("2022-06-30 01:02:03", Form::Loose), Ok(at(1_656_550_923, 0)));
    }

    #[test]
    fn what_is_no_instant_says_where() {
        for (text, offset) in [
            ("", 0),
            ("12345", 0),
            ("20245", 4),
            ("2024-07-01", 10),
            ("1969-12-31T23:59:59Z", 0),
            ("+970-01-01T00:00:00Z", 0),
            ("1970-1-1T00:00:00Z", 6),
            ("2024-13-01T00:00:00Z", 5),
            ("2024-00-01T00:00:00Z", 5),
            ("2024-02-30T00:00:00Z", 8),
            ("2100-02-29T00:00:00Z", 8),
            ("2024-07-00T00:00:00Z", 8),
            ("2024-07-01 13:51:12Z", 10),
            ("2024-07-01t13:51:12z", 10),
            ("2024-07-01T24:00:00Z", 11),
            ("2024-07-01T00:60:00Z", 14),
            ("2024-07-01T00:00:61Z", 17),
            ("2024-07-01T13:51:12", 19),
            ("2024-07-01T13:51:12.12a4Z", 22),
            ("2024-07-01T13:51:12.1Zx", 21),
            ("2024-07-01T15:51:12+02:00", 19),
            ("2024-07-01T13:51:1é", 18),
        ] {
            assert_eq!(parse(text, Form::Strict), Err(InstantError { offset }), "{text}");
        }
    }

    #[test]
    fn shown_in_full_and_short() {
        let full = |time| Instant(time).to_string();
        let short = |time| format!("{:#}", Instant(time));
        assert_eq!(full(at(1, 1)), "1970-01-01T00:00:01.000000001Z");
        assert_eq!(full(at(1, 0)), "1970-01-01T00:00:01.000000000Z");
        assert_eq!(short(at(1, 0)), "1970-01-01T00:00:01Z");
        assert_eq!(short(at(1, 20_000_000)), "1970-01-01T00:00:01.020Z");
        assert_eq!(short(at(1, 20_000)), "1970-01-01T00:00:01.000020Z");
        assert_eq!(short(at(1, 20)), "1970-01-01T00:00:01.000000020Z");
        // Every year can be shown, however far.
        assert!(full(Duration::MAX).starts_with("584554051223-11-09T07:00:15."));
    }

    #[test]
    fn each_day_of_four_centuries_follows_the_one_before() {
        let mut expected = (1970, 1, 1);
        for day in 0..146_097 + 366 {
            assert_eq!(date(day), expected);
            assert_eq!(days_since_epoch(expected.0, expected.1, expected.2), day);
            expected.2 += 1;
            if expected.2 > days_in_month(expected.0, expected.1) {
                expected = (expected.0, expected.1 + 1, 1);
            }
            if expected.1 == 13 {
                expected = (expected.0 + 1, 1, 1);
            }
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_display(seconds in 0..=253_402_300_799_u64, nanos in 0..1_000_000_000_u32) {
            let time = at(seconds, nanos);
            prop_assert_eq!(parse(&Instant(time).to_string(), Form::Strict), Ok(time));
            prop_assert_eq!(parse(&format!("{:#}", Instant(time)), Form::Strict), Ok(time));
        }
    }
}
