//! Time stamps of the rows of a batch that is published.

use crate::reader::{Binaries, Error};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use core::time::Duration;
use zwire_proto::zenoh::{Ntp64, Timestamp, ZenohId, timestamp::TimestampError};

/// Column of 64-bit numbers, some of them null.
#[derive(Debug)]
struct Numbers {
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
}

impl Numbers {
    /// Wraps a column of 64-bit values.
    fn new(column: &ArrayRef) -> Self {
        let data = column.to_data();
        let values = ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
        Self { values, nulls: column.nulls().cloned() }
    }

    fn get(&self, row: usize) -> Option<i64> {
        let there = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        there.then(|| self.values[row])
    }
}

#[derive(Debug)]
struct Times {
    name: &'static str,
    unit: TimeUnit,
    numbers: Numbers,
}

impl Times {
    fn new(name: &'static str, column: &ArrayRef) -> Result<Self, Error> {
        // Without a zone the column holds local times of an unknown zone.
        let DataType::Timestamp(unit, Some(_)) = column.data_type() else {
            return Err(Error::column(name, column.data_type(), "a timestamp with a time zone"));
        };
        Ok(Self { name, unit: *unit, numbers: Numbers::new(column) })
    }

    fn get(&self, row: usize) -> Result<Option<Ntp64>, String> {
        let Some(number) = self.numbers.get(row) else { return Ok(None) };
        let refused = |problem: &dyn core::fmt::Display| format!("column {:?}: {problem}", self.name);
        let number = u64::try_from(number).map_err(|_| refused(&"the time lies before 1970"))?;
        let since = match self.unit {
            TimeUnit::Second => Duration::from_secs(number),
            TimeUnit::Millisecond => Duration::from_millis(number),
            TimeUnit::Microsecond => Duration::from_micros(number),
            TimeUnit::Nanosecond => Duration::from_nanos(number),
        };
        Ntp64::from_duration(since).map(Some).ok_or_else(|| refused(&TimestampError::TooLate))
    }
}

/// Stamps of rows: all 64 bits of the time if they are given, otherwise the instant.
#[derive(Debug)]
pub(crate) struct Stamps {
    times: Option<Times>,
    bits: Option<Numbers>,
    ids: Option<Binaries>,
    /// Id of the clock for rows without one.
    own: ZenohId,
}

impl Stamps {
    /// Finds the columns of a batch; `None` if it has no times.
    pub(crate) fn new(batch: &RecordBatch, own: ZenohId) -> Result<Option<Self>, Error> {
        let times = |name: &'static str| {
            batch.column_by_name(name).map(|column| Times::new(name, column)).transpose()
        };
        let times = match (times("timestamp")?, times("ts")?) {
            (Some(_), Some(_)) => {
                let problem = "\"ts\" is the former name of the column \"timestamp\": give one of them only";
                return Err(Error::Value(problem.to_owned()));
            }
            (timestamp, ts) => timestamp.or(ts),
        };
        let bits = |column: &ArrayRef| match column.data_type() {
            DataType::Int64 | DataType::UInt64 => Ok(Numbers::new(column)),
            other => Err(Error::column("hlc", other, "int64 or uint64")),
        };
        let bits = batch.column_by_name("hlc").map(bits).transpose()?;
        let ids = |column: &ArrayRef| match column.data_type() {
            DataType::Binary | DataType::LargeBinary => Ok(Binaries::new(column)),
            other => Err(Error::column("hlc_id", other, "binary")),
        };
        let ids = batch.column_by_name("hlc_id").map(ids).transpose()?.flatten();
        Ok((times.is_some() || bits.is_some()).then_some(Self { times, bits, ids, own }))
    }

    pub(crate) fn get(&self, row: usize) -> Result<Option<Timestamp>, String> {
        let bits = self.bits.as_ref().and_then(|bits| bits.get(row));
        let time = match (bits, &self.times) {
            (Some(bits), _) => Some(Ntp64(bits.cast_unsigned())),
            (None, Some(times)) => times.get(row)?,
            (None, None) => None,
        };
        let Some(time) = time else { return Ok(None) };
        let id = match self.ids.as_ref().and_then(|ids| ids.octets(row)) {
            None => self.own,
            Some(octets) => ZenohId::from_wire(octets).ok_or_else(|| {
                format!(
                    "column \"hlc_id\": an id has 1 to 16 bytes that are not all zero, not {} such",
                    octets.len()
                )
            })?,
        };
        Ok(Some(Timestamp { time, id }))
    }
}
