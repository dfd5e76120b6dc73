//! Timestamps: NTP64 of a hybrid logical clock and the id of its owner (`zenoh-wire` 1.5).

use core::{fmt, str::FromStr, time::Duration};
use thiserror::Error;

use super::{
    ZenohId,
    rfc3339::{self, Form, Instant, InstantError},
    zid::ZenohIdError,
};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Seconds since the UNIX epoch in the upper 32 bits, binary fraction of a second in the lower 32.
///
/// `{}` shows the number, `{:#}` an RFC 3339 instant with nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ntp64(pub u64);

impl Ntp64 {
    /// The last representable time, in February 2106.
    pub const MAX: Self = Self(u64::MAX);

    /// From a time since the UNIX epoch, rounded down to 2^-32 s; `None` from February 2106 on.
    #[must_use]
    pub fn from_duration(time: Duration) -> Option<Self> {
        let seconds = u32::try_from(time.as_secs()).ok()?;
        let fraction = (u64::from(time.subsec_nanos()) << 32) / NANOS_PER_SECOND;
        Some(Self((u64::from(seconds) << 32) | fraction))
    }

    /// The time since the UNIX epoch in nanoseconds, rounded up, so that a time converted from
    /// nanoseconds converts back to them.
    #[must_use]
    pub fn to_duration(self) -> Duration {
        Duration::new(u64::from(self.seconds()), self.subsec_nanos())
    }

    /// Whole seconds since the UNIX epoch.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The fraction of the second in units of 2^-32 s.
    #[must_use]
    pub const fn fraction(self) -> u32 {
        self.0 as u32
    }

    /// The fraction of the second in nanoseconds, rounded up: 0 to 1 000 000 000.
    #[must_use]
    pub const fn subsec_nanos(self) -> u32 {
        // At most 10^9, which fits.
        (self.fraction() as u64 * NANOS_PER_SECOND).div_ceil(1 << 32) as u32
    }

    /// Nanoseconds since the UNIX epoch, rounded up.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.seconds() as u64 * NANOS_PER_SECOND + self.subsec_nanos() as u64
    }

    /// Seconds since the UNIX epoch; a double keeps a precision of about a quarter of a microsecond.
    #[must_use]
    pub fn seconds_f64(self) -> f64 {
        f64::from(self.seconds()) + f64::from(self.fraction()) / (1_u64 << 32) as f64
    }

    /// From an RFC 3339 instant in UTC.
    ///
    /// # Errors
    /// A text that is no instant, or one that lies after [`Self::MAX`].
    pub fn from_rfc3339(text: &str) -> Result<Self, TimestampError> {
        Self::from_duration(rfc3339::parse(text, Form::Strict)?).ok_or(TimestampError::TooLate)
    }
}

impl fmt::Display for Ntp64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            write!(f, "{}", Instant(self.to_duration()))
        } else {
            fmt::Display::fmt(&self.0, f)
        }
    }
}
impl FromStr for Ntp64 {
    type Err = TimestampError;
    /// From the number or from an RFC 3339 instant.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            text.parse().map(Self).map_err(|_| TimestampError::TooLate)
        } else {
            Self::from_rfc3339(text)
        }
    }
}

/// A timestamp. Ordered by time, ties by id.
///
/// `{}` shows `instant/id` with an RFC 3339 instant, which rounds up to nanoseconds; [`Self::exact`]
/// shows `number/id` without rounding. Both parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Time.
    pub time: Ntp64,
    /// Id of the clock.
    pub id: ZenohId,
}

impl Timestamp {
    /// Shows `number/id`, such as `7386664595088445305/33`.
    #[must_use]
    pub fn exact(&self) -> impl fmt::Display + use<> {
        Exact(*self)
    }
}

struct Exact(Timestamp);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.time, self.0.id)
    }
}

/// Reason why a text is no timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimestampError {
    /// No `/` between time and id.
    #[error("a timestamp is an instant, `/` and an id")]
    NoId,
    /// The time is neither a number nor an instant.
    #[error(transparent)]
    Instant(#[from] InstantError),
    /// The time lies after [`Ntp64::MAX`].
    #[error("a timestamp ends in February 2106")]
    TooLate,
    /// The id is invalid.
    #[error(transparent)]
    Id(#[from] ZenohIdError),
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}/{}", self.time, self.id)
    }
}
impl FromStr for Timestamp {
    type Err = TimestampError;
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let (time, id) = text.split_once('/').ok_or(TimestampError::NoId)?;
        Ok(Self { time: time.parse()?, id: ZenohId::from_hex(id)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values of eclipse-zenoh 1.10.2 for seconds and nanoseconds: number, nanoseconds, instant.
    #[test]
    fn times_of_the_reference() {
        for (seconds, nanos, number, text) in [
            (0, 0, 0, "1970-01-01T00:00:00.000000000Z"),
            (1, 1, 4_294_967_300, "1970-01-01T00:00:01.000000001Z"),
            (1, 999_999_999, 8_589_934_587, "1970-01-01T00:00:01.999999999Z"),
            (5, 500_000_000, 23_622_320_128, "1970-01-01T00:00:05.500000000Z"),
            (u64::from(u32::MAX), 0, 18_446_744_069_414_584_320, "2106-02-07T06:28:15.000000000Z"),
            (1_719_841_872, 129_693_000, 7_386_664_595_088_445_305, "2024-07-01T13:51:12.129693000Z"),
        ] {
            let time = Ntp64::from_duration(Duration::new(seconds, nanos)).unwrap();
            assert_eq!(time, Ntp64(number));
            assert_eq!((u64::from(time.seconds()), time.subsec_nanos()), (seconds, nanos));
            assert_eq!(time.nanos(), seconds * NANOS_PER_SECOND + u64::from(nanos));
            assert_eq!(format!("{time}"), number.to_string());
            assert_eq!(format!("{time:#}"), text);
            assert_eq!(text.parse(), Ok(time));
            assert_eq!(number.to_string().parse(), Ok(time));
        }
        assert_eq!(Ntp64(4_294_967_300).seconds_f64(), 1.000_000_000_931_322_6);
    }

    #[test]
    fn the_ends_of_time() {
        assert_eq!(Ntp64::from_duration(Duration::from_secs(1 << 32)), None);
        assert_eq!("2106-02-07T06:28:16Z".parse::<Ntp64>(), Err(TimestampError::TooLate));
        assert_eq!("18446744073709551616".parse::<Ntp64>(), Err(TimestampError::TooLate));
        assert_eq!(Ntp64::MAX.subsec_nanos(), 1_000_000_000);
        assert_eq!(Ntp64::MAX.to_duration(), Duration::from_secs(1 << 32));
        assert_eq!(format!("{:#}", Ntp64::MAX), "2106-02-07T06:28:16.000000000Z");
    }

    #[test]
    fn texts_of_a_timestamp() {
        let stamp = Timestamp { time: Ntp64(7_386_664_595_088_445_305), id: ZenohId::new(0x33).unwrap() };
        assert_eq!(stamp.to_string(), "2024-07-01T13:51:12.129693000Z/33");
        assert_eq!(stamp.exact().to_string(), "7386664595088445305/33");
        assert_eq!(stamp.to_string().parse(), Ok(stamp));
        assert_eq!(stamp.exact().to_string().parse(), Ok(stamp));
        let upper = "1970-01-01T00:00:01Z/AB".parse::<Timestamp>().unwrap();
        assert_eq!(upper.exact().to_string(), "4294967296/ab");
    }

    #[test]
    fn what_is_no_timestamp() {
        for (text, error) in [
            ("", TimestampError::NoId),
            ("2024-07-01T13:51:12Z", TimestampError::NoId),
            ("/33", TimestampError::Instant(InstantError { offset: 0 })),
            ("2024-07-01T13:51:12/33", TimestampError::Instant(InstantError { offset: 19 })),
            ("2024-07-01T13:51:12Z/", TimestampError::Id(ZenohIdError::Empty)),
            ("2024-07-01T13:51:12Z/0", TimestampError::Id(ZenohIdError::LeadingZero)),
            ("2024-07-01T13:51:12Z/033", TimestampError::Id(ZenohIdError::LeadingZero)),
            ("2024-07-01T13:51:12Z/a/b", TimestampError::Id(ZenohIdError::Digit { offset: 1 })),
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(error), "{text}");
        }
    }

    #[test]
    fn order_is_time_then_id() {
        let stamp = |time, id| Timestamp { time: Ntp64(time), id: ZenohId::new(id).unwrap() };
        assert!(stamp(1, 0xffff) < stamp(2, 1));
        // As numbers: the wire bytes `00 01` are more than `ff`.
        assert!(stamp(1, 0xff) < stamp(1, 0x100));
    }

    proptest! {
        #[test]
        fn nanoseconds_survive(seconds in 0..=u64::from(u32::MAX), nanos in 0..1_000_000_000_u32) {
            let duration = Duration::new(seconds, nanos);
            let time = Ntp64::from_duration(duration).unwrap();
            prop_assert_eq!(time.to_duration(), duration);
            prop_assert_eq!(format!("{time:#}").parse(), Ok(time));
        }

        #[test]
        fn exact_text_survives(time: u64, id in 1..=u128::MAX) {
            let stamp = Timestamp { time: Ntp64(time), id: ZenohId::new(id).unwrap() };
            prop_assert_eq!(stamp.exact().to_string().parse(), Ok(stamp));
            // The instant is at most a nanosecond late.
            if time < u64::MAX - 8 {
                let read: Timestamp = stamp.to_string().parse().unwrap();
                prop_assert!(read.time.0.abs_diff(time) <= 5);
            }
        }
    }
}
