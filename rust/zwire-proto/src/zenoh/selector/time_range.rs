//! Time ranges: `[now(-1h)..]`, `[2026-01-01T00:00:00Z..2026-01-02T00:00:00Z[`, `]now(-2m);90s]`.

use core::{
    fmt,
    ops::{Bound, RangeBounds},
    str::FromStr,
    time::Duration,
};
use thiserror::Error;

use crate::zenoh::{
    Ntp64,
    rfc3339::{self, Form, Instant},
};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Bound of offsets, 32 billion years, so that sums of two fit and every shown text parses.
const MAX_OFFSET: i128 = 1_000_000_000_000_000_000 * NANOS_PER_SECOND;

/// A range of time. A bracket that faces outwards leaves its bound out: `]start..end[`.
///
/// Bounds relative to `now()` are resolved where the range is applied: [`Self::resolve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeRange<T = TimeExpr> {
    /// The lower bound.
    pub start: Bound<T>,
    /// The upper bound.
    pub end: Bound<T>,
}

/// An instant, absolute or relative to the time at which the range is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeExpr {
    /// Time since the UNIX epoch.
    Fixed(Duration),
    /// Nanoseconds after `now()`; negative before.
    Now(i128),
}

impl TimeExpr {
    /// The instant at `now`, both since the UNIX epoch. An instant before the epoch, or beyond the
    /// range of a [`Duration`], is moved to that end.
    #[must_use]
    pub fn resolve(self, now: Duration) -> Duration {
        match self {
            Self::Fixed(time) => time,
            Self::Now(offset) => shift(now, offset),
        }
    }
}

fn shift(time: Duration, nanos: i128) -> Duration {
    let size = nanos.unsigned_abs();
    let subsec = size % NANOS_PER_SECOND.unsigned_abs();
    // The remainder is below 10^9.
    let size = u64::try_from(size / NANOS_PER_SECOND.unsigned_abs())
        .map_or(Duration::MAX, |seconds| Duration::new(seconds, subsec as u32));
    if nanos < 0 { time.saturating_sub(size) } else { time.saturating_add(size) }
}

impl TimeRange {
    /// The range at `now`, a time since the UNIX epoch.
    #[must_use]
    pub fn resolve(self, now: Duration) -> TimeRange<Duration> {
        let resolve = |time: TimeExpr| time.resolve(now);
        TimeRange { start: self.start.map(resolve), end: self.end.map(resolve) }
    }
}

impl TimeRange<Duration> {
    /// Whether an instant, a time since the UNIX epoch, belongs to the range.
    #[must_use]
    pub fn contains(&self, time: Duration) -> bool {
        (self.start, self.end).contains(&time)
    }

    /// Same as [`Self::contains`] for the time of a timestamp, compared in nanoseconds.
    #[must_use]
    pub fn contains_ntp64(&self, time: Ntp64) -> bool {
        self.contains(time.to_duration())
    }
}

/// Reason why a text is no time range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{problem} (at byte {offset})")]
pub struct TimeRangeError {
    /// Kind of error.
    pub problem: TimeRangeProblem,
    /// Offset of the wrong part.
    pub offset: usize,
}

/// Errors of time ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimeRangeProblem {
    /// The text does not start with a bracket.
    #[error("a time range starts with `[` or `]`")]
    Start,
    /// The text does not end with a bracket.
    #[error("a time range ends with `[` or `]`")]
    End,
    /// There is neither `..` nor `;`.
    #[error("a time range has `..` between its bounds, or `;` before its duration")]
    Separator,
    /// A bound is neither empty, nor `now(…)`, nor an instant.
    #[error("a bound is `now()`, `now(-2h)` or an RFC 3339 instant in UTC")]
    Bound,
    /// A duration is not a decimal number with a unit.
    #[error("a duration is a decimal number and one of u, ms, s, m, h, d, w")]
    Duration,
}

impl FromStr for TimeRange {
    type Err = TimeRangeError;
    fn from_str(text: &str) -> Result<Self, TimeRangeError> {
        let error = |problem, offset| TimeRangeError { problem, offset };
        let inner = text.strip_prefix(['[', ']']).ok_or(error(TimeRangeProblem::Start, 0))?;
        let inner = inner
            .strip_suffix(['[', ']'])
            .ok_or(error(TimeRangeProblem::End, text.len().saturating_sub(1)))?;
        let bound = |inclusive, time| if inclusive { Bound::Included(time) } else { Bound::Excluded(time) };
        let (start_inclusive, end_inclusive) = (text.starts_with('['), text.ends_with(']'));
        // The offset of a part that is cut out of `text`.
        let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
        let parse = |part: &str, inclusive| match part {
            "" => Ok(Bound::Unbounded),
            _ => match part.parse::<TimeExpr>() {
                Ok(time) => Ok(bound(inclusive, time)),
                Err(problem) => Err(error(problem, offset(part))),
            },
        };

        if let Some((start, end)) = inner.split_once("..") {
            return Ok(Self { start: parse(start, start_inclusive)?, end: parse(end, end_inclusive)? });
        }
        let (start, duration) = inner.split_once(';').ok_or(error(TimeRangeProblem::Separator, 1))?;
        let nanos = parse_nanos(duration).ok_or(error(TimeRangeProblem::Duration, offset(duration)))?;
        let parsed = parse(start, start_inclusive)?;
        let (Bound::Included(time) | Bound::Excluded(time)) = parsed else {
            return Err(error(TimeRangeProblem::Bound, offset(start)));
        };
        let end = match time {
            TimeExpr::Fixed(time) => TimeExpr::Fixed(shift(time, nanos)),
            TimeExpr::Now(offset) if (offset + nanos).abs() < MAX_OFFSET => TimeExpr::Now(offset + nanos),
            TimeExpr::Now(_) => return Err(error(TimeRangeProblem::Duration, offset(duration))),
        };
        Ok(Self { start: parsed, end: bound(end_inclusive, end) })
    }
}

impl FromStr for TimeExpr {
    type Err = TimeRangeProblem;
    fn from_str(text: &str) -> Result<Self, TimeRangeProblem> {
        match text.strip_prefix("now(").and_then(|rest| rest.strip_suffix(')')) {
            Some("") => Ok(Self::Now(0)),
            Some(offset) => parse_nanos(offset).map(Self::Now).ok_or(TimeRangeProblem::Duration),
            None => rfc3339::parse(text, Form::Loose).map(Self::Fixed).map_err(|_| TimeRangeProblem::Bound),
        }
    }
}

/// Nanoseconds of a duration such as `-1.5h`, exact; digits below a nanosecond are cut.
fn parse_nanos(text: &str) -> Option<i128> {
    // Most digits before and after the point: as many as `MAX_OFFSET` has.
    const MAX_DIGITS: usize = 18;

    let (negative, text) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let unit = match unit {
        "u" => 1_000,
        "ms" => 1_000_000,
        "s" | "" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        "d" => 86_400 * NANOS_PER_SECOND,
        "w" => 604_800 * NANOS_PER_SECOND,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + fraction.len();
    if digits == 0 || whole.len() > MAX_DIGITS || fraction.len() > MAX_DIGITS || fraction.contains('.') {
        return None;
    }
    let mut nanos = whole.bytes().fold(0, |nanos, digit| nanos * 10 + i128::from(digit - b'0')) * unit;
    let scale = 10_i128.pow(fraction.len() as u32);
    nanos += fraction.bytes().fold(0, |nanos, digit| nanos * 10 + i128::from(digit - b'0')) * unit / scale;
    (nanos < MAX_OFFSET).then_some(if negative { -nanos } else { nanos })
}

impl fmt::Display for TimeExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Fixed(time) => write!(f, "{:#}", Instant(time)),
            Self::Now(0) => f.write_str("now()"),
            Self::Now(offset) => {
                let sign = if offset < 0 { "-" } else { "" };
                let size = offset.unsigned_abs();
                let (seconds, nanos) =
                    (size / NANOS_PER_SECOND.unsigned_abs(), size % NANOS_PER_SECOND.unsigned_abs());
                write!(f, "now({sign}{seconds}")?;
                if nanos != 0 {
                    let fraction = format!("{nanos:09}");
                    write!(f, ".{}", fraction.trim_end_matches('0'))?;
                }
                f.write_str("s)")
            }
        }
    }
}
impl fmt::Display for TimeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.start {
            Bound::Included(time) => write!(f, "[{time}..")?,
            Bound::Excluded(time) => write!(f, "]{time}..")?,
            Bound::Unbounded => f.write_str("[..")?,
        }
        match self.end {
            Bound::Included(time) => write!(f, "{time}]"),
            Bound::Excluded(time) => write!(f, "{time}["),
            Bound::Unbounded => f.write_str("]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Bound::{Excluded as Exclusive, Included as Inclusive, Unbounded};
    use proptest::prelude::*;

    const HOUR: i128 = 3_600 * NANOS_PER_SECOND;

    fn range(text: &str) -> TimeRange {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn fixed(seconds: u64) -> TimeExpr {
        TimeExpr::Fixed(Duration::from_secs(seconds))
    }

    #[test]
    fn ranges() {
        let new_year = 1_767_225_600;
        for (text, start, end, shown) in [
            ("[..]", Unbounded, Unbounded, "[..]"),
            ("]..[", Unbounded, Unbounded, "[..]"),
            ("[now(-1h)..]", Inclusive(TimeExpr::Now(-HOUR)), Unbounded, "[now(-3600s)..]"),
            (
                "]now()..now(1.5ms)[",
                Exclusive(TimeExpr::Now(0)),
                Exclusive(TimeExpr::Now(1_500_000)),
                "]now()..now(0.0015s)[",
            ),
            (
                "[2026-01-01T00:00:00Z..2026-01-02T00:00:00Z[",
                Inclusive(fixed(new_year)),
                Exclusive(fixed(new_year + 86_400)),
                "[2026-01-01T00:00:00Z..2026-01-02T00:00:00Z[",
            ),
            (
                "]2026-01-01 00:00:00;1d]",
                Exclusive(fixed(new_year)),
                Inclusive(fixed(new_year + 86_400)),
                "]2026-01-01T00:00:00Z..2026-01-02T00:00:00Z]",
            ),
            (
                "[now(-2h);1h]",
                Inclusive(TimeExpr::Now(-2 * HOUR)),
                Inclusive(TimeExpr::Now(-HOUR)),
                "[now(-7200s)..now(-3600s)]",
            ),
        ] {
            assert_eq!(range(text), TimeRange { start, end }, "{text}");
            assert_eq!(range(text).to_string(), shown);
            assert_eq!(range(shown), range(text));
        }
    }

    #[test]
    fn durations() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("1.2", Some(1_200_000_000)),
            ("1u", Some(1_000)),
            ("1.5ms", Some(1_500_000)),
            ("0.5s", Some(500_000_000)),
            ("1.1m", Some(66 * NANOS_PER_SECOND)),
            ("1.5h", Some(HOUR + HOUR / 2)),
            ("2d", Some(48 * HOUR)),
            ("1w", Some(168 * HOUR)),
            ("-3", Some(-3 * NANOS_PER_SECOND)),
            ("+3", Some(3 * NANOS_PER_SECOND)),
            (".5", Some(500_000_000)),
            ("5.", Some(5 * NANOS_PER_SECOND)),
            ("0.0001u", Some(0)),
            ("", None),
            (".", None),
            ("-", None),
            ("--1", None),
            ("1.2.3", None),
            ("1x", None),
            ("1e3", None),
            ("inf", None),
            ("s", None),
            ("1 s", None),
            ("1234567890123456789", None),
            ("999999999999999999w", None),
            ("999999999999999999", Some(MAX_OFFSET - NANOS_PER_SECOND)),
        ] {
            assert_eq!(parse_nanos(text), nanos, "{text}");
        }
    }

    #[test]
    fn what_is_no_range_says_where() {
        for (text, problem, offset) in [
            ("", TimeRangeProblem::Start, 0),
            ("now()..", TimeRangeProblem::Start, 0),
            ("[", TimeRangeProblem::End, 0),
            ("[now()..", TimeRangeProblem::End, 7),
            ("[]", TimeRangeProblem::Separator, 1),
            ("[now()]", TimeRangeProblem::Separator, 1),
            ("[;]", TimeRangeProblem::Duration, 2),
            ("[;1h]", TimeRangeProblem::Bound, 1),
            ("[1h..]", TimeRangeProblem::Bound, 1),
            ("[2020-11-05..]", TimeRangeProblem::Bound, 1),
            ("[..now(1q)]", TimeRangeProblem::Duration, 3),
            ("[now();1q]", TimeRangeProblem::Duration, 7),
            ("[now(999999999999999999);9]", TimeRangeProblem::Duration, 25),
        ] {
            assert_eq!(text.parse::<TimeRange>(), Err(TimeRangeError { problem, offset }), "{text}");
        }
    }

    #[test]
    fn bounds_belong_or_do_not() {
        let contains =
            |text, time| range(text).resolve(Duration::from_secs(100)).contains(Duration::from_secs(time));
        assert!(contains("[now(-10)..now()]", 90) && contains("[now(-10)..now()]", 100));
        assert!(!contains("]now(-10)..now()[", 90) && !contains("]now(-10)..now()[", 100));
        assert!(contains("]now(-10)..now()[", 95));
        assert!(!contains("[now(-10)..now()]", 89) && !contains("[now(-10)..now()]", 101));
        assert!(contains("[..]", 0) && contains("[now(-10)..]", 1_000) && contains("[..now()]", 0));
        let range = range("[now()..]").resolve(Duration::from_secs(100));
        assert!(range.contains_ntp64(Ntp64(100 << 32)) && !range.contains_ntp64(Ntp64((100 << 32) - 8)));
    }

    #[test]
    fn what_lies_outside_of_time_is_moved_to_its_ends() {
        assert_eq!(TimeExpr::Now(-HOUR).resolve(Duration::from_secs(1)), Duration::ZERO);
        let far = TimeExpr::Now(parse_nanos("999999999999999999").unwrap());
        assert_eq!(far.resolve(Duration::from_secs(1)).as_secs(), 1_000_000_000_000_000_000);
        assert_eq!(far.resolve(Duration::MAX), Duration::MAX);
        assert_eq!(TimeExpr::Now(i128::MIN).resolve(Duration::MAX), Duration::ZERO);
        assert_eq!(range("[1970-01-01T00:00:00Z;-1w]").end, Inclusive(fixed(0)));
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "[\\[\\]][0-9now().;:TZhms-]{0,24}[\\[\\]]") {
            if let Ok(range) = text.parse::<TimeRange>() {
                prop_assert_eq!(range.to_string().parse(), Ok(range));
                let _ = range.resolve(Duration::from_secs(1));
            }
        }
    }
}
