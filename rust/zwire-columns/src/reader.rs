//! Columns that a program gives, read by row whatever their width.

use arrow_array::{
    Array, ArrayRef, BinaryArray, GenericListArray, LargeBinaryArray, LargeListArray, LargeStringArray,
    ListArray, OffsetSizeTrait, StringArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use bytes::Bytes;
use core::ops::Range;

/// Reason why a batch or an array is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A column has the wrong type.
    #[error("{0}")]
    Type(String),
    /// A column is missing, unknown, or has a value that is not allowed.
    #[error("{0}")]
    Value(String),
}

impl Error {
    pub(crate) fn column(name: &str, got: &DataType, wanted: &str) -> Self {
        Self::Type(format!("column {name:?} must be {wanted}, not {got}"))
    }
}

/// Column of bytes, whatever their offsets; a slice of it shares the column's memory.
#[derive(Debug)]
pub struct Binaries {
    values: Bytes,
    offsets: Offsets,
    nulls: Option<NullBuffer>,
}

/// Bounds of the values of a column.
#[derive(Clone, Debug)]
pub(crate) enum Offsets {
    Short(OffsetBuffer<i32>),
    Long(OffsetBuffer<i64>),
}

impl Offsets {
    #[inline]
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "offsets of a valid array")]
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        match self {
            Self::Short(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Self::Long(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
        }
    }
}

/// Owner that keeps a column alive as long as a payload refers to it.
struct Owner(Buffer);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Binaries {
    /// Wraps a column; `None` if its type is neither bytes nor text.
    pub fn new(column: &ArrayRef) -> Option<Self> {
        let any = column.as_any();
        let (values, offsets) = if let Some(array) = any.downcast_ref::<BinaryArray>() {
            (array.values(), Offsets::Short(array.offsets().clone()))
        } else if let Some(array) = any.downcast_ref::<LargeBinaryArray>() {
            (array.values(), Offsets::Long(array.offsets().clone()))
        } else if let Some(array) = any.downcast_ref::<StringArray>() {
            (array.values(), Offsets::Short(array.offsets().clone()))
        } else {
            let array = any.downcast_ref::<LargeStringArray>()?;
            (array.values(), Offsets::Long(array.offsets().clone()))
        };
        let nulls = column.nulls().cloned();
        Some(Self { values: Bytes::from_owner(Owner(values.clone())), offsets, nulls })
    }

    /// Bytes of a row; `None` where it is null.
    #[inline]
    pub fn get(&self, row: usize) -> Option<Bytes> {
        self.range(row).map(|range| self.values.slice(range))
    }

    /// As [`Self::get`], but borrowed.
    #[inline]
    pub(crate) fn octets(&self, row: usize) -> Option<&[u8]> {
        self.range(row).map(|range| &self.values[range])
    }

    fn range(&self, row: usize) -> Option<Range<usize>> {
        let null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!null).then(|| self.offsets.range(row))
    }
}

/// Column of lists of bytes or texts.
pub(crate) struct BinaryLists {
    pub(crate) items: Binaries,
    pub(crate) items_null: usize,
    offsets: Offsets,
}

impl BinaryLists {
    /// Wraps a column; `None` if its type is another one.
    pub(crate) fn new(column: &ArrayRef) -> Option<Self> {
        fn of<O: OffsetSizeTrait>(
            lists: &GenericListArray<O>,
            wrap: fn(OffsetBuffer<O>) -> Offsets,
        ) -> Option<BinaryLists> {
            Some(BinaryLists {
                items: Binaries::new(lists.values())?,
                items_null: lists.values().null_count(),
                offsets: wrap(lists.offsets().clone()),
            })
        }
        let any = column.as_any();
        match any.downcast_ref::<ListArray>() {
            Some(lists) => of(lists, Offsets::Short),
            None => of(any.downcast_ref::<LargeListArray>()?, Offsets::Long),
        }
    }

    #[inline]
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        self.offsets.range(row)
    }
}

/// Text of a row; `None` where it is null, or where the column holds no texts.
#[inline]
pub(crate) fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    let column = column.as_any();
    if let Some(array) = column.downcast_ref::<StringArray>() {
        return (!array.is_null(row)).then(|| array.value(row));
    }
    let array = column.downcast_ref::<LargeStringArray>()?;
    (!array.is_null(row)).then(|| array.value(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn bytes_are_shared_and_not_copied() {
        let array: ArrayRef = Arc::new(BinaryArray::from(vec![Some(b"one".as_slice()), None, Some(b"")]));
        let first = array.as_any().downcast_ref::<BinaryArray>().unwrap().values().as_ptr();
        let column = Binaries::new(&array).unwrap();
        drop(array);
        let one = column.get(0).unwrap();
        assert_eq!((one.as_ref(), one.as_ptr()), (b"one".as_slice(), first));
        assert_eq!((column.get(1), column.octets(2)), (None, Some(b"".as_slice())));
    }

    #[test]
    fn slices_and_wide_offsets_are_read_alike() {
        let short: ArrayRef = Arc::new(StringArray::from(vec!["a", "bc", "def"]));
        let long: ArrayRef = Arc::new(LargeStringArray::from(vec!["a", "bc", "def"]));
        for array in [short, long] {
            let array = array.slice(1, 2);
            assert_eq!((text(&array, 0), text(&array, 1)), (Some("bc"), Some("def")));
            assert_eq!(Binaries::new(&array).unwrap().get(1).unwrap(), "def");
        }
        let other: ArrayRef = Arc::new(arrow_array::Int8Array::from(vec![1]));
        assert!(Binaries::new(&other).is_none() && BinaryLists::new(&other).is_none());
        assert_eq!(text(&other, 0), None);
    }
}
