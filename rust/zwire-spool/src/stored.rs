//! Conversion between stored columns and the columns that readers see.
//!
//! Files of format 1 store some values in fewer octets than rows have, and under former names of the columns.
//! [`Form`] names the conversion of a column: batches are converted when they are read, texts when they are stored.

use crate::column::Cell;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int8Array, StringArray, builder::StringBuilder,
    cast::AsArray as _, types::Int8Type,
};
use arrow_buffer::OffsetBuffer;
use std::sync::Arc;

/// Conversion between a stored value and the value that readers see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// No conversion.
    Same,
    /// Stored as a number, read as `put` (0) or `del` (1).
    Kind,
    /// Stored as a flag, read as `block` or `drop`. `block_first` is stored as `block`.
    Blocks,
    /// Stored as bytes, read as upper-case hexadecimal digits.
    Hex,
}

const KINDS: [&str; 2] = ["put", "del"];
const CONGESTION: [&str; 2] = ["drop", "block"];

impl Form {
    /// Convert a text to its stored value; `None` for a text that the column does not take.
    pub fn store(self, text: &str) -> Option<Cell> {
        Some(match (self, text) {
            (Self::Same, text) => Cell::Text(text.to_owned()),
            (Self::Kind, "put") => Cell::Int(0),
            (Self::Kind, "del" | "delete") => Cell::Int(1),
            (Self::Blocks, "drop") => Cell::Bool(false),
            (Self::Blocks, "block" | "block_first") => Cell::Bool(true),
            (Self::Hex, text) => Cell::Bytes(unhex(text)?.into()),
            _ => return None,
        })
    }

    /// Texts that a column takes, for error messages.
    pub const fn texts(self) -> &'static str {
        match self {
            Self::Same => "any text",
            Self::Kind => "put or del",
            Self::Blocks => "drop, block or block_first",
            Self::Hex => "hexadecimal digits",
        }
    }

    /// Convert a stored column to the column that readers see.
    pub(crate) fn read(self, stored: ArrayRef) -> ArrayRef {
        match self {
            Self::Same => stored,
            Self::Kind => {
                let numbers: &Int8Array = stored.as_primitive::<Int8Type>();
                let word = |number: i8| KINDS.get(usize::try_from(number).ok()?).copied();
                let values = numbers.values();
                let same = values.first().filter(|first| values.iter().all(|number| number == *first));
                words(numbers, same.and_then(|number| word(*number)), |row| word(values[row]))
            }
            Self::Blocks => {
                let flags: &BooleanArray = stored.as_boolean();
                let word = |flag| CONGESTION[usize::from(flag)];
                let blocks = flags.values().count_set_bits();
                let same = (blocks == 0 || blocks == flags.len()).then(|| word(blocks > 0));
                words(flags, same, |row| Some(word(flags.value(row))))
            }
            Self::Hex => {
                let octets: &BinaryArray = stored.as_binary::<i32>();
                let mut texts = StringBuilder::with_capacity(octets.len(), octets.value_data().len() * 2);
                let mut text = String::new();
                for octets in octets {
                    texts.append_option(octets.map(|octets| {
                        hex(octets, &mut text);
                        text.as_str()
                    }));
                }
                Arc::new(texts.finish())
            }
        }
    }
}

/// Column of texts out of a few, null where `stored` is; built by repetition if all rows have the `same` one.
fn words(stored: &impl Array, same: Option<&str>, word: impl Fn(usize) -> Option<&'static str>) -> ArrayRef {
    let rows = stored.len();
    if let Some(word) = same.filter(|_| stored.null_count() == 0)
        && let (Ok(len), Ok(_)) = (i32::try_from(word.len()), i32::try_from(word.len() * rows))
    {
        let offsets = (0..).map(|row| row * len).take(rows + 1).collect();
        let texts = word.repeat(rows).into_bytes().into();
        return Arc::new(StringArray::new(OffsetBuffer::new(offsets), texts, None));
    }
    Arc::new((0..rows).map(|row| stored.is_valid(row).then(|| word(row)).flatten()).collect::<StringArray>())
}

fn hex(octets: &[u8], text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.clear();
    for octet in octets {
        text.push(DIGITS[usize::from(octet >> 4)].into());
        text.push(DIGITS[usize::from(octet & 15)].into());
    }
}

/// Octets of hexadecimal digits; hyphens between them are ignored.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.bytes().filter(|digit| *digit != b'-');
    let digits: Option<Vec<u8>> =
        digits.map(|digit| (digit as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let (pairs, rest) = digits.as_deref()?.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, stored: impl Array + 'static) -> Vec<Option<String>> {
        let read = form.read(Arc::new(stored));
        read.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    fn texts(texts: &[Option<&str>]) -> Vec<Option<String>> {
        texts.iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn stored_columns_are_read_as_texts() {
        let numbers = Int8Array::from(vec![Some(0), Some(1), None, Some(7), Some(-1)]);
        assert_eq!(read(Form::Kind, numbers), texts(&[Some("put"), Some("del"), None, None, None]));
        assert_eq!(read(Form::Kind, Int8Array::from(vec![1; 3])), texts(&[Some("del"); 3]));
        assert_eq!(read(Form::Kind, Int8Array::from(Vec::<i8>::new())), texts(&[]));
        let flags = BooleanArray::from(vec![Some(true), None, Some(false)]);
        assert_eq!(read(Form::Blocks, flags), texts(&[Some("block"), None, Some("drop")]));
        let ids = BinaryArray::from(vec![Some(&[0x0a, 0xff][..]), None, Some(&[])]);
        assert_eq!(read(Form::Hex, ids), texts(&[Some("0AFF"), None, Some("")]));
    }

    #[test]
    fn texts_are_stored_as_they_are_read() {
        assert_eq!(Form::Kind.store("del"), Some(Cell::Int(1)));
        assert_eq!(Form::Kind.store("query"), None);
        assert_eq!(Form::Blocks.store("block_first"), Some(Cell::Bool(true)));
        assert_eq!(Form::Hex.store("0a-FF"), Some(Cell::Bytes(vec![0x0a, 0xff].into())));
        assert_eq!((Form::Hex.store("0aF"), Form::Hex.store("xy")), (None, None));
        assert_eq!(Form::Same.store("x"), Some(Cell::Text("x".to_owned())));
    }
}
