//! Columns under construction, and the rows that they make up.
//!
//! Repeated values are written in runs, and so are nulls: most fields of most rows are null or as before.

use arrow_array::{
    ArrayRef, BinaryArray, StringArray,
    builder::{
        ArrayBuilder, BinaryBuilder, BooleanBuilder, Int8Builder, Int32Builder, Int64Builder, ListBuilder,
        MapBuilder, MapFieldNames, StringBuilder, TimestampMicrosecondBuilder,
    },
};
use arrow_buffer::OffsetBuffer;
use bytes::Bytes;
use core::time::Duration;
use zwire_proto::zenoh::{Encoding, ZenohId};
use zwire_spool::columns::{Kind, element_field};

pub(crate) trait Builds: ArrayBuilder {
    fn make() -> Self;

    fn nulls(&mut self, count: usize);
}

macro_rules! builds {
    ($($builder:ty = $make:expr;)+) => { $(impl Builds for $builder {
        fn make() -> Self {
            $make
        }

        fn nulls(&mut self, count: usize) {
            self.append_nulls(count);
        }
    })+ };
}

pub(crate) type BytesList = ListBuilder<BinaryBuilder>;
pub(crate) type TextList = ListBuilder<StringBuilder>;
pub(crate) type TextMap = MapBuilder<StringBuilder, StringBuilder>;

builds! {
    StringBuilder = Self::new();
    BinaryBuilder = Self::new();
    BooleanBuilder = Self::new();
    Int8Builder = Self::new();
    Int32Builder = Self::new();
    Int64Builder = Self::new();
    TimestampMicrosecondBuilder = Self::new().with_data_type(Kind::Time.data_type());
    BytesList = Self::new(BinaryBuilder::new()).with_field(element_field(Kind::Bytes.data_type()));
    TextList = Self::new(StringBuilder::new()).with_field(element_field(Kind::Text.data_type()));
}

impl Builds for TextMap {
    fn make() -> Self {
        let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
        Self::new(Some(names), StringBuilder::new(), StringBuilder::new())
    }

    fn nulls(&mut self, count: usize) {
        self.append_nulls(count).expect("as many names as values");
    }
}

pub(crate) fn push_map<N: AsRef<str>, V: AsRef<str>>(
    builder: &mut TextMap,
    entries: impl Iterator<Item = (N, V)>,
) {
    for (name, value) in entries {
        builder.keys().append_value(name);
        builder.values().append_value(value);
    }
    builder.append(true).expect("as many names as values");
}

/// Column of values that differ from row to row, or are null for many rows.
pub(crate) struct Column<B> {
    builder: B,
    /// Null rows at the end, not written yet.
    nulls: usize,
}

impl<B: Builds> Default for Column<B> {
    fn default() -> Self {
        Self { builder: B::make(), nulls: 0 }
    }
}

impl<B: Builds> Column<B> {
    /// Adds a row: the value, written by `append`, or null.
    #[inline]
    pub(crate) fn put<T>(&mut self, value: Option<T>, append: impl FnOnce(&mut B, T)) {
        match value {
            None => self.nulls += 1,
            Some(value) => {
                self.flush();
                append(&mut self.builder, value);
            }
        }
    }

    pub(crate) const fn put_nulls(&mut self, count: usize) {
        self.nulls += count;
    }

    #[inline]
    fn flush(&mut self) {
        if self.nulls > 0 {
            self.builder.nulls(core::mem::take(&mut self.nulls));
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        self.flush();
        ArrayBuilder::finish(&mut self.builder)
    }
}

pub(crate) trait Repeats: PartialEq + Clone {
    type Builder: Builds;

    fn write(&self, builder: &mut Self::Builder, count: usize);
}

macro_rules! repeats {
    ($($value:ty => $builder:ty: |$this:ident, $to:ident, $count:ident| $write:expr;)+) => {
        $(impl crate::builder::Repeats for $value {
            type Builder = $builder;

            fn write(&self, $to: &mut $builder, $count: usize) {
                let $this = self;
                $write
            }
        })+
    };
}
pub(crate) use repeats;

/// Microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Micros(pub(crate) i64);

impl Micros {
    /// Converts a duration since 1970; `None` if the number does not fit.
    pub(crate) fn of(since: Duration) -> Option<Self> {
        i64::try_from(since.as_micros()).ok().map(Self)
    }
}

repeats! {
    Micros => TimestampMicrosecondBuilder: |time, to, count| to.append_value_n(time.0, count);
    &'static str => StringBuilder: |word, to, count| to.append_value_n(word, count);
    Encoding => StringBuilder: |encoding, to, count| to.append_value_n(encoding.to_string(), count);
    bool => BooleanBuilder: |value, to, count| to.append_n(count, *value);
    // Priorities: at most 7.
    u8 => Int8Builder: |number, to, count| to.append_value_n(number.cast_signed(), count);
    u32 => Int64Builder: |number, to, count| to.append_value_n((*number).into(), count);
    ZenohId => BinaryBuilder: |id, to, count| {
        let octets = id.to_le_bytes();
        (0..count).for_each(|_| to.append_value(&octets[..id.wire_len()]));
    };
}

/// Column of values that repeat, written in runs.
pub(crate) struct Runs<T: Repeats> {
    builder: T::Builder,
    value: Option<T>,
    /// Rows at the end that have this value and are not written yet.
    count: usize,
}

impl<T: Repeats> Default for Runs<T> {
    fn default() -> Self {
        Self { builder: T::Builder::make(), value: None, count: 0 }
    }
}

impl<T: Repeats> Runs<T> {
    #[inline]
    pub(crate) fn put(&mut self, value: Option<&T>) {
        if self.value.as_ref() != value {
            self.flush();
            self.value = value.cloned();
        }
        self.count += 1;
    }

    fn flush(&mut self) {
        let count = core::mem::take(&mut self.count);
        match &self.value {
            _ if count == 0 => {}
            Some(value) => value.write(&mut self.builder, count),
            None => self.builder.nulls(count),
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        self.flush();
        ArrayBuilder::finish(&mut self.builder)
    }
}

/// Declares the rows of a table: a builder for each column, by its name.
macro_rules! rows {
    ($(#[$doc:meta])* $rows:ident of $table:ident { $($column:ident: $builder:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Default)]
        struct $rows {
            $($column: $builder),+
        }

        impl $rows {
            fn schema() -> arrow_schema::SchemaRef {
                static SCHEMA: std::sync::LazyLock<arrow_schema::SchemaRef> =
                    std::sync::LazyLock::new(|| std::sync::Arc::new($table.schema()));
                SCHEMA.clone()
            }

            /// Returns the rows so far as a batch; the next rows begin a new one.
            fn finish(&mut self) -> Result<arrow_array::RecordBatch, arrow_schema::ArrowError> {
                arrow_array::RecordBatch::try_new(Self::schema(), vec![$(self.$column.finish()),+])
            }

            #[cfg(test)]
            fn names() -> Vec<&'static str> {
                vec![$(stringify!($column).trim_start_matches("r#")),+]
            }
        }
    };
}
pub(crate) use rows;

/// Column of a single value, without a copy.
pub(crate) fn alone(payload: &Bytes) -> Result<BinaryArray, arrow_schema::ArrowError> {
    BinaryArray::try_new(OffsetBuffer::from_lengths([payload.len()]), payload.clone().into(), None)
}

pub(crate) fn repeated(text: &str, rows: usize) -> StringArray {
    let offsets = OffsetBuffer::from_lengths(core::iter::repeat_n(text.len(), rows));
    StringArray::new(offsets, text.repeat(rows).into_bytes().into(), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Array, Int32Array, cast::AsArray as _, types::Int64Type};

    #[test]
    fn nulls_and_runs_are_written_between_values() {
        let mut column = Column::<Int32Builder>::default();
        for value in [None, None, Some(3), None, Some(4), None] {
            column.put(value, Int32Builder::append_value);
        }
        column.put_nulls(2);
        let array = column.finish();
        let array = array.as_any().downcast_ref::<Int32Array>().unwrap();
        let wanted = [None, None, Some(3), None, Some(4), None, None, None];
        assert_eq!(array.iter().collect::<Vec<_>>(), wanted);
        assert_eq!(column.finish().len(), 0);

        let mut runs = Runs::<u32>::default();
        for value in [Some(u32::MAX), Some(u32::MAX), None, Some(1)] {
            runs.put(value.as_ref());
        }
        let array = runs.finish();
        let array = array.as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
        assert_eq!(array, [Some(u32::MAX.into()), Some(u32::MAX.into()), None, Some(1)]);
        // The next batch begins without rows, even if its first value is the last one of this batch.
        runs.put(Some(&1));
        assert_eq!(runs.finish().len(), 1);
    }

    #[test]
    fn builders_make_the_types_of_the_table() {
        fn type_of<B: Builds>() -> arrow_schema::DataType {
            Column::<B>::default().finish().data_type().clone()
        }
        assert_eq!(type_of::<TimestampMicrosecondBuilder>(), Kind::Time.data_type());
        assert_eq!(type_of::<BytesList>(), Kind::BytesList.data_type());
        assert_eq!(type_of::<TextList>(), Kind::TextList.data_type());
        assert_eq!(type_of::<TextMap>(), Kind::TextMap.data_type());
    }
}
