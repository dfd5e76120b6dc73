//! Payloads of ROS 2 as columns: one for each field of a message.

use crate::reader::{Binaries, Error};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, ListArray, PrimitiveArray, RecordBatch, StringArray,
    StructArray,
    builder::StringBuilder,
    types::{Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type},
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field as Named, Fields, Schema};
use std::sync::Arc;
use zwire_proto::cdr::{Field, Input, Item, Many, Misfit, Number, Plan, Value};

/// Name of the column with the reasons why payloads are none of the type.
const ERROR: &str = "error";

/// Values of a field, of all rows. Integers are as wide as a signed one has to be; an unsigned 64-bit number becomes its
/// bit pattern.
enum Column {
    Bool(Vec<bool>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(Octets),
    Binary(Octets),
    List(Vec<i32>, Box<Self>),
    Struct(Vec<Self>),
}

/// Texts or bytes, one behind the other, and their ends.
#[derive(Default)]
struct Octets {
    bytes: Vec<u8>,
    ends: Vec<i32>,
}

impl Octets {
    fn push(&mut self, octets: &[u8]) {
        self.bytes.extend_from_slice(octets);
        self.ends.push(end(self.bytes.len()));
    }
}

/// An end in a column. The payloads of a batch are shorter than 2 GiB, and each item has a byte there.
fn end(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

/// A decoder of payloads into columns.
pub struct Columns {
    plan: Plan,
    /// The fields that have a column.
    fields: Vec<usize>,
    schema: Arc<Schema>,
}

impl Columns {
    /// Makes the decoder for some fields of the message of a plan.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Value`] if there is no such field.
    pub fn new(plan: Plan, fields: Vec<usize>) -> Result<Self, Error> {
        let described = described(&plan, plan.message());
        let mut columns = Vec::with_capacity(fields.len() + 1);
        for field in &fields {
            let found =
                described.get(*field).ok_or_else(|| Error::Value(format!("there is no field {field}")))?;
            columns.push(Arc::clone(found));
        }
        columns.push(Arc::new(Named::new(ERROR, DataType::Utf8, true)));
        let schema = Arc::new(Schema::new(Fields::from(columns)));
        Ok(Self { plan, fields, schema })
    }

    /// Decodes payloads: a column for each field, and one with the reason why a payload is none of the type.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] if the column is none of bytes, or the payloads have 2 GiB or more.
    pub fn decode(&self, column: &ArrayRef) -> Result<RecordBatch, Error> {
        let rows = column.len();
        let payloads =
            Binaries::new(column).ok_or_else(|| Error::column("payload", column.data_type(), "binary"))?;
        let size: usize = (0..rows).filter_map(|row| payloads.octets(row)).map(<[u8]>::len).sum();
        if i32::try_from(size).is_err() {
            return Err(Error::Value(format!("a batch of payloads has {size} bytes")));
        }
        let mut columns: Vec<Column> = self.wanted().map(|field| Column::of(&self.plan, field)).collect();
        let mut valid = Vec::with_capacity(rows);
        let mut errors = StringBuilder::new();
        for row in 0..rows {
            let read = payloads.octets(row).map(|payload| self.read(payload, &mut columns));
            let good = matches!(read, Some(Ok(())));
            valid.push(good);
            match read {
                Some(Err(error)) => {
                    let at =
                        if error.path.is_empty() { String::new() } else { format!(" at {}", error.path) };
                    errors.append_value(format!("{error}{at} at byte {}", error.offset));
                }
                _ => errors.append_null(),
            }
            if !good {
                columns.iter_mut().for_each(Column::push_nothing);
            }
        }
        let nulls = NullBuffer::from(valid);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.fields.len() + 1);
        for (column, field) in columns.into_iter().zip(self.schema.fields()) {
            arrays.push(column.array(field.data_type(), Some(nulls.clone())));
        }
        arrays.push(Arc::new(errors.finish()));
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map_err(|error| Error::Value(error.to_string()))
    }

    fn wanted(&self) -> impl Iterator<Item = &Field> {
        let message = self.plan.records().last();
        self.fields.iter().filter_map(move |field| message?.fields.get(*field))
    }

    fn read(&self, payload: &[u8], columns: &mut [Column]) -> Result<(), Misfit> {
        let input = self.plan.check(payload)?;
        self.plan.read(input, self.plan.message(), 0, |number, value| {
            for (column, field) in columns.iter_mut().zip(&self.fields) {
                if *field == number {
                    column.push(&self.plan, input, value)?;
                }
            }
            Ok::<_, Misfit>(())
        })?;
        Ok(())
    }
}

impl Column {
    fn of(plan: &Plan, field: &Field) -> Self {
        let many = field.many != Many::One;
        let one = match field.item {
            Item::Number(Number::U8) if many => return Self::Binary(Octets::default()),
            Item::Number(Number::Bool) => Self::Bool(Vec::new()),
            Item::Number(Number::I8) => Self::I8(Vec::new()),
            Item::Number(Number::U8 | Number::I16) => Self::I16(Vec::new()),
            Item::Number(Number::U16 | Number::I32) => Self::I32(Vec::new()),
            Item::Number(Number::U32 | Number::I64 | Number::U64) => Self::I64(Vec::new()),
            Item::Number(Number::F32) => Self::F32(Vec::new()),
            Item::Number(Number::F64) => Self::F64(Vec::new()),
            Item::Text(_) => Self::Text(Octets::default()),
            Item::Record(record) => {
                let fields = plan.records().nth(record).map_or(&[][..], |record| &record.fields);
                Self::Struct(fields.iter().map(|field| Self::of(plan, field)).collect())
            }
        };
        if many { Self::List(Vec::new(), Box::new(one)) } else { one }
    }

    /// Appends the value of a row, in a payload that was checked.
    #[allow(clippy::cast_possible_truncation, reason = "values of the type of the column")]
    #[allow(clippy::cast_possible_wrap, reason = "the bit pattern of an unsigned 64-bit number")]
    fn push(&mut self, plan: &Plan, input: Input<'_>, value: Value<'_>) -> Result<(), Misfit> {
        match (self, value) {
            (Self::Bool(column), Value::Bool(value)) => column.push(value),
            (Self::I8(column), Value::Signed(value)) => column.push(value as i8),
            (Self::I16(column), Value::Signed(value)) => column.push(value as i16),
            (Self::I16(column), Value::Unsigned(value)) => column.push(value as i16),
            (Self::I32(column), Value::Signed(value)) => column.push(value as i32),
            (Self::I32(column), Value::Unsigned(value)) => column.push(value as i32),
            (Self::I64(column), Value::Signed(value)) => column.push(value),
            (Self::I64(column), Value::Unsigned(value)) => column.push(value as i64),
            (Self::F32(column), Value::Float(value)) => column.push(value as f32),
            (Self::F64(column), Value::Float(value)) => column.push(value),
            (Self::Text(column), Value::Text(text)) => column.push(text.as_bytes()),
            (Self::Binary(column), Value::Numbers { octets, .. }) => column.push(octets),
            (Self::List(ends, items), Value::Numbers { number, octets, .. }) => {
                items.extend(number, octets, input.is_big());
                ends.push(end(items.len()));
            }
            (Self::List(ends, items), Value::Texts { count, mut at }) => {
                for _ in 0..count {
                    let (text, next) = input.text(at, usize::MAX)?;
                    items.push(plan, input, Value::Text(text))?;
                    at = next;
                }
                ends.push(end(items.len()));
            }
            (Self::List(ends, items), Value::Records { record, count, mut at }) => {
                for _ in 0..count {
                    at = items.push_record(plan, input, record, at)?;
                }
                ends.push(end(items.len()));
            }
            (column @ Self::Struct(_), Value::Record { record, at }) => {
                column.push_record(plan, input, record, at)?;
            }
            _ => unreachable!("columns are made for the fields of the plan"),
        }
        Ok(())
    }

    fn push_record(
        &mut self,
        plan: &Plan,
        input: Input<'_>,
        record: usize,
        at: usize,
    ) -> Result<usize, Misfit> {
        let Self::Struct(columns) = self else { unreachable!("columns are made for the fields of the plan") };
        plan.read(input, record, at, |number, value| columns[number].push(plan, input, value))
    }

    /// Appends numbers, which are in the byte order of the payload.
    fn extend(&mut self, number: Number, octets: &[u8], big: bool) {
        macro_rules! extend {
            ($column:ident, $type:ty, $size:literal, $convert:expr) => {{
                let (chunks, _) = octets.as_chunks::<$size>();
                let read = if big { <$type>::from_be_bytes } else { <$type>::from_le_bytes };
                $column.extend(chunks.iter().map(|chunk| $convert(read(*chunk))));
            }};
        }
        match (self, number) {
            (Self::Bool(column), _) => column.extend(octets.iter().map(|octet| *octet != 0)),
            (Self::I8(column), _) => extend!(column, i8, 1, i8::from),
            (Self::I16(column), _) => extend!(column, i16, 2, i16::from),
            (Self::I32(column), Number::U16) => extend!(column, u16, 2, i32::from),
            (Self::I32(column), _) => extend!(column, i32, 4, i32::from),
            (Self::I64(column), Number::U32) => extend!(column, u32, 4, i64::from),
            (Self::I64(column), Number::U64) => extend!(column, u64, 8, u64::cast_signed),
            (Self::I64(column), _) => extend!(column, i64, 8, i64::from),
            (Self::F32(column), _) => extend!(column, f32, 4, f32::from),
            (Self::F64(column), _) => extend!(column, f64, 8, f64::from),
            (Self::Text(_) | Self::Binary(_) | Self::List(..) | Self::Struct(_), _) => {
                unreachable!("columns are made for the fields of the plan")
            }
        }
    }

    /// Appends the place of a row without a message.
    fn push_nothing(&mut self) {
        match self {
            Self::Bool(column) => column.push(false),
            Self::I8(column) => column.push(0),
            Self::I16(column) => column.push(0),
            Self::I32(column) => column.push(0),
            Self::I64(column) => column.push(0),
            Self::F32(column) => column.push(0.0),
            Self::F64(column) => column.push(0.0),
            Self::Text(column) | Self::Binary(column) => column.push(&[]),
            Self::List(ends, items) => ends.push(end(items.len())),
            Self::Struct(columns) => columns.iter_mut().for_each(Self::push_nothing),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Bool(column) => column.len(),
            Self::I8(column) => column.len(),
            Self::I16(column) => column.len(),
            Self::I32(column) => column.len(),
            Self::I64(column) => column.len(),
            Self::F32(column) => column.len(),
            Self::F64(column) => column.len(),
            Self::Text(column) | Self::Binary(column) => column.ends.len(),
            Self::List(ends, _) => ends.len(),
            // A structure has a field.
            Self::Struct(columns) => columns.first().map_or(0, Self::len),
        }
    }

    /// The array of a type; rows are null where `nulls` says so.
    fn array(self, kind: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
        match (self, kind) {
            (Self::Bool(column), _) => Arc::new(BooleanArray::new(column.into(), nulls)),
            (Self::I8(column), _) => Arc::new(PrimitiveArray::<Int8Type>::new(column.into(), nulls)),
            (Self::I16(column), _) => Arc::new(PrimitiveArray::<Int16Type>::new(column.into(), nulls)),
            (Self::I32(column), _) => Arc::new(PrimitiveArray::<Int32Type>::new(column.into(), nulls)),
            (Self::I64(column), _) => Arc::new(PrimitiveArray::<Int64Type>::new(column.into(), nulls)),
            (Self::F32(column), _) => Arc::new(PrimitiveArray::<Float32Type>::new(column.into(), nulls)),
            (Self::F64(column), _) => Arc::new(PrimitiveArray::<Float64Type>::new(column.into(), nulls)),
            (Self::Text(column), _) => {
                Arc::new(StringArray::new(offsets(column.ends), column.bytes.into(), nulls))
            }
            (Self::Binary(column), _) => {
                Arc::new(BinaryArray::new(offsets(column.ends), column.bytes.into(), nulls))
            }
            (Self::List(ends, items), DataType::List(item)) => {
                let values = items.array(item.data_type(), None);
                Arc::new(ListArray::new(Arc::clone(item), offsets(ends), values, nulls))
            }
            (Self::Struct(columns), DataType::Struct(fields)) => {
                let columns = columns.into_iter().zip(fields).map(|(column, field)| {
                    // A field of a row without a message is null as well.
                    column.array(field.data_type(), nulls.clone())
                });
                let columns = columns.collect();
                Arc::new(StructArray::new(fields.clone(), columns, nulls))
            }
            _ => unreachable!("types are made for the fields of the plan"),
        }
    }
}

/// The offsets of ends.
fn offsets(ends: Vec<i32>) -> OffsetBuffer<i32> {
    let mut all = Vec::with_capacity(ends.len() + 1);
    all.push(0);
    all.extend(ends);
    OffsetBuffer::new(ScalarBuffer::from(all))
}

/// The types of the columns of a structure; each may be null, as Spark has it.
fn described(plan: &Plan, record: usize) -> Fields {
    let fields = plan.records().nth(record).map_or(&[][..], |record| &record.fields);
    let named = |field: &Field| Named::new(&field.name, kind(plan, field), true);
    fields.iter().map(named).collect()
}

fn kind(plan: &Plan, field: &Field) -> DataType {
    let many = field.many != Many::One;
    let one = match field.item {
        Item::Number(Number::U8) if many => return DataType::Binary,
        Item::Number(Number::Bool) => DataType::Boolean,
        Item::Number(Number::I8) => DataType::Int8,
        Item::Number(Number::U8 | Number::I16) => DataType::Int16,
        Item::Number(Number::U16 | Number::I32) => DataType::Int32,
        Item::Number(Number::U32 | Number::I64 | Number::U64) => DataType::Int64,
        Item::Number(Number::F32) => DataType::Float32,
        Item::Number(Number::F64) => DataType::Float64,
        Item::Text(_) => DataType::Utf8,
        Item::Record(record) => DataType::Struct(described(plan, record)),
    };
    // The name that Spark has for it.
    if many { DataType::List(Arc::new(Named::new("element", one, true))) } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use zwire_proto::cdr::Record;

    fn field(name: &str, item: Item, many: Many) -> Field {
        Field { name: name.into(), item, many }
    }

    /// A structure, its numbers, and a list of structures.
    fn plan() -> Plan {
        let inner = vec![
            field("x", Item::Number(Number::F32), Many::One),
            field("label", Item::Text(usize::MAX), Many::One),
        ];
        let any = Many::Sequence(usize::MAX);
        let outer = vec![
            field("id", Item::Number(Number::U64), Many::One),
            field("blob", Item::Number(Number::U8), any),
            field("few", Item::Number(Number::U16), any),
            field("points", Item::Record(0), any),
            field("one", Item::Record(0), Many::One),
        ];
        Plan::new(vec![
            Record { name: "Point".into(), fields: inner },
            Record { name: "Message".into(), fields: outer },
        ])
        .unwrap()
    }

    const PAYLOAD: &[u8] =
        b"\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x03\0\0\0abc\0\x02\0\0\0\x01\0\xff\xff\x01\0\0\0\
\0\0\x80\x3f\x02\0\0\0p\0\0\0\0\0\0\x40\x01\0\0\0\0";

    #[test]
    fn rows_become_columns_and_errors_cost_their_row() {
        let columns = Columns::new(plan(), vec![0, 1, 2, 3, 4]).unwrap();
        let rows: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![
            Some(PAYLOAD),
            None,
            Some(&PAYLOAD[..20]),
            Some(PAYLOAD),
        ]));
        let batch = columns.decode(&rows).unwrap();
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[-1, 0, 0, -1]);
        assert_eq!(batch.column(1).as_binary::<i32>().value(3), b"abc");
        assert_eq!(
            batch.column(2).as_list::<i32>().value(0).as_primitive::<Int32Type>().values(),
            &[1, 65_535]
        );
        let points = batch.column(3).as_list::<i32>().value(3);
        assert_eq!(points.as_struct().column(0).as_primitive::<Float32Type>().values(), &[1.0]);
        assert_eq!(points.as_struct().column(1).as_string::<i32>().value(0), "p");
        let one = batch.column(4).as_struct();
        assert_eq!(one.column(0).as_primitive::<Float32Type>().value(3), 2.0);
        for column in &batch.columns()[..5] {
            let nulls: Vec<bool> = (0..4).map(|row| column.is_null(row)).collect();
            assert_eq!(nulls, [false, true, true, false]);
        }
        let errors = batch.column(5).as_string::<i32>();
        assert_eq!(errors.null_count(), 3);
        assert_eq!(errors.value(2), "the payload ends early at few at byte 20");
    }

    #[test]
    fn only_the_fields_asked_for_have_columns() {
        let columns = Columns::new(plan(), vec![4, 0]).unwrap();
        let rows: ArrayRef = Arc::new(BinaryArray::from_vec(vec![PAYLOAD]));
        let batch = columns.decode(&rows).unwrap();
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["one", "id", "error"]);
        assert!(Columns::new(plan(), vec![5]).is_err());
    }
}
