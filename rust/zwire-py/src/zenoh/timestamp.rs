//! `NTP64`, `TimestampId` and `Timestamp`.

use crate::{
    errors::{self, OrRaise},
    loops::{ending::import, once::Once},
    zenoh::zbytes,
};
use core::time::Duration;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyType},
};
use zwire_proto::zenoh::{Ntp64, Timestamp, ZenohId, timestamp::TimestampError};

/// A time since 1970 in units of 2^-32 seconds, until February 2106.
///
/// Args:
///     seconds: Whole seconds.
///     nanos: Nanoseconds on top of them; may be more than a second.
///
/// Raises:
///     InvalidValue: The time is later than can be represented.
#[pyclass(name = "NTP64", module = "zwire.zenoh", frozen, eq, ord, hash)]
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PyNtp64(pub(crate) Ntp64);

/// Converts a time to a `datetime` with zone, which has microseconds.
fn to_datetime(py: Python<'_>, time: Ntp64) -> PyResult<Bound<'_, PyAny>> {
    let time = time.to_duration();
    epoch(py)?.call_method1("__add__", (timedelta(py, time, false)?,))
}

fn from_datetime(datetime: &Bound<'_, PyAny>) -> PyResult<Ntp64> {
    let py = datetime.py();
    let since = datetime.call_method1("__sub__", (epoch(py)?,))?;
    let part = |name: &str| since.getattr(name)?.extract::<i64>();
    let (days, seconds, micros) = (part("days")?, part("seconds")?, part("microseconds")?);
    // In a negative timedelta only the days are negative.
    let time = u64::try_from(days).ok().zip(u64::try_from(seconds).ok()).zip(u64::try_from(micros).ok()).map(
        |((days, seconds), micros)| {
            Duration::from_secs(days * 86_400 + seconds) + Duration::from_micros(micros)
        },
    );
    match time.map(Ntp64::from_duration) {
        Some(Some(time)) => Ok(time),
        Some(None) => Err(TimestampError::TooLate).or_raise(py),
        None => Err(errors::invalid(py, "the time lies before 1970".to_owned())),
    }
}

fn timedelta(py: Python<'_>, time: Duration, negative: bool) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: Once<Py<PyType>> = Once::new();
    let delta = CLASS.class(py, "datetime", "timedelta")?.call1((0, time.as_secs(), time.subsec_micros()))?;
    if negative { delta.neg() } else { Ok(delta) }
}

fn epoch(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static EPOCH: Once<Py<PyAny>> = Once::new();
    let epoch = EPOCH.get(|| {
        let module = import(py, "datetime")?;
        let utc = module.getattr("timezone")?.getattr("utc")?;
        Ok(module.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind())
    })?;
    Ok(epoch.bind(py))
}

pickled! { PyNtp64 by from_int, |this, _py| (this.0.0,) }

text! { PyNtp64, |this| this.0.to_string() }

methods! { PyNtp64, |this, py|
    /// Seconds as a float, with a precision of about a quarter of a microsecond.
    as_secs_f64: f64 = this.0.seconds_f64();
    /// Whole seconds.
    as_secs: u32 = this.0.seconds();
    /// The whole time in nanoseconds, rounded up.
    as_nanos: u64 = this.0.nanos();
    /// The fraction of the second in nanoseconds, rounded up.
    subsec_nanos: u32 = this.0.subsec_nanos();
    /// Converts to a `datetime` in UTC, in whole microseconds.
    to_datetime: PyResult<Bound<'py, PyAny>> = to_datetime(py, this.0);
}

#[pymethods]
impl PyNtp64 {
    #[new]
    fn new(py: Python<'_>, seconds: u64, nanos: u64) -> PyResult<Self> {
        Duration::from_secs(seconds)
            .checked_add(Duration::from_nanos(nanos))
            .and_then(Ntp64::from_duration)
            .map(Self)
            .ok_or(TimestampError::TooLate)
            .or_raise(py)
    }

    /// Makes a time from the number in units of 2^-32 seconds, as returned by `int(ntp64)`.
    #[staticmethod]
    fn from_int(value: u64) -> Self {
        Self(Ntp64(value))
    }

    /// Parses an instant such as `2024-07-01T13:51:12.129693Z`.
    ///
    /// Raises:
    ///     InvalidValue: The text is not an instant, or it is too late.
    #[classmethod]
    fn parse_rfc3339(cls: &Bound<'_, PyType>, s: &str) -> PyResult<Self> {
        Ntp64::from_rfc3339(s).map(Self).or_raise(cls.py())
    }

    /// Formats as an instant such as `2024-07-01T13:51:12.129693000Z`; finer fractions are lost.
    fn to_string_rfc3339_lossy(&self) -> String {
        format!("{:#}", self.0)
    }

    fn __int__(&self) -> u64 {
        self.0.0
    }
}

/// Id of the clock of a timestamp: 1 to 16 bytes, not all zero; mostly the id of a node.
///
/// Args:
///     bytes: The number, lowest byte first.
///
/// Raises:
///     InvalidValue: No bytes, more than 16, or only zeros.
#[pyclass(name = "TimestampId", module = "zwire.zenoh", frozen, eq, ord, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PyTimestampId(pub(crate) ZenohId);

fn timestamp_id(obj: &Bound<'_, PyAny>) -> PyResult<ZenohId> {
    if let Ok(id) = obj.cast::<PyTimestampId>() {
        return Ok(id.get().0);
    }
    let bytes = zbytes::of_buffer(obj)?
        .ok_or_else(|| errors::wrong_type("a TimestampId, bytes or a bytearray", obj))?;
    ZenohId::from_wire(&bytes).ok_or_else(|| {
        let message = format!("an id has 1 to 16 bytes that are not all zero, not {} such", bytes.len());
        errors::invalid(obj.py(), message)
    })
}

pickled! { PyTimestampId, |this, py| (this.__bytes__(py),) }

text! { PyTimestampId, |this| this.0.to_string() }

#[pymethods]
impl PyTimestampId {
    #[new]
    fn new(bytes: &Bound<'_, PyAny>) -> PyResult<Self> {
        timestamp_id(bytes).map(Self)
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_le_bytes()[..self.0.wire_len()])
    }
}

/// Time, with the id of its clock. Ordered by time, then by id.
///
/// Args:
///     time: A `datetime` with a time zone, or an `NTP64`.
///     id: 1 to 16 bytes that are not all zero, lowest first, or a `TimestampId`.
///
/// Raises:
///     InvalidValue: The time lies before 1970 or after February 2106, or the id is invalid.
///     TypeError: The `datetime` has no time zone.
#[pyclass(name = "Timestamp", module = "zwire.zenoh", frozen, eq, ord, hash)]
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PyTimestamp(pub(crate) Timestamp);

/// Extracts an optional `Timestamp`.
pub(crate) fn extract_option(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Timestamp>> {
    let of = |obj: &Bound<'_, PyAny>| match obj.cast::<PyTimestamp>() {
        Ok(value) => Ok(value.get().0),
        Err(_) => Err(errors::wrong_type("a Timestamp", obj)),
    };
    obj.map(of).transpose()
}

pickled! { PyTimestamp, |this, _py| (PyNtp64(this.0.time), PyTimestampId(this.0.id)) }

text! { PyTimestamp, |this| this.0.exact().to_string() }

methods! { PyTimestamp, |this, py|
    /// The time as a `datetime` in UTC, in whole microseconds.
    get_time: PyResult<Bound<'py, PyAny>> = to_datetime(py, this.0.time);
    /// The time with full precision.
    get_time_as_ntp64: PyNtp64 = PyNtp64(this.0.time);
    /// Id of the clock.
    get_id: PyTimestampId = PyTimestampId(this.0.id);
    /// Formats as `instant/id` with an instant such as `2024-07-01T13:51:12.129693000Z`; finer fractions
    /// are lost.
    to_string_rfc3339_lossy: String = this.0.to_string();
}

#[pymethods]
impl PyTimestamp {
    #[new]
    fn new(time: &Bound<'_, PyAny>, id: &Bound<'_, PyAny>) -> PyResult<Self> {
        static DATETIME: Once<Py<PyType>> = Once::new();
        let time_of = if let Ok(time) = time.cast::<PyNtp64>() {
            time.get().0
        } else if time.is_instance(DATETIME.class(time.py(), "datetime", "datetime")?)? {
            from_datetime(time)?
        } else {
            return Err(errors::wrong_type("a datetime or NTP64", time));
        };
        Ok(Self(Timestamp { time: time_of, id: timestamp_id(id)? }))
    }

    /// Difference to the other one, as a `timedelta` in whole microseconds; negative if this one is earlier.
    fn get_diff_duration<'py>(&self, py: Python<'py>, other: &Self) -> PyResult<Bound<'py, PyAny>> {
        let (mine, theirs) = (self.0.time, other.0.time);
        let difference = Ntp64(mine.0.abs_diff(theirs.0));
        timedelta(py, difference.to_duration(), mine < theirs)
    }

    /// Parses `instant/id`.
    ///
    /// Raises:
    ///     InvalidValue: The text is no timestamp.
    #[classmethod]
    fn parse_rfc3339(cls: &Bound<'_, PyType>, s: &str) -> PyResult<Self> {
        s.parse::<Timestamp>().map(Self).or_raise(cls.py())
    }
}
