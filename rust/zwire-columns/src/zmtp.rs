//! Messages of ZeroMQ in Arrow arrays, both ways.

use crate::{
    builder::alone,
    reader::{Binaries, BinaryLists, Error},
};
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, RecordBatch, builder::BinaryBuilder};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Schema};
use bytes::Bytes;
use std::sync::{Arc, LazyLock};
use zwire_proto::zmtp::link::Message;
use zwire_spool::columns::{ZMTP, ZMTP_ROUTER, element_field};

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(ZMTP.schema()));

static ROUTER_SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(ZMTP_ROUTER.schema()));

/// Messages of an array: one frame each, or a list of frames, with the frames of `head` before them.
/// Fails with [`Error`] for a wrong type, a null, or a message without frames.
pub fn messages(
    array: &ArrayRef,
    head: Vec<Bytes>,
) -> Result<Box<dyn Iterator<Item = Message> + Send>, Error> {
    let refused = |problem: &str| Err(Error::Value(problem.to_owned()));
    let rows = 0..array.len();
    if array.null_count() > 0 {
        return refused("a message cannot be null");
    }
    if let Some(frames) = Binaries::new(array) {
        return Ok(if head.is_empty() {
            Box::new(rows.map(move |row| Message::single(frames.get(row).unwrap_or_default())))
        } else {
            Box::new(rows.filter_map(move |row| {
                let mut message = head.clone();
                message.push(frames.get(row).unwrap_or_default());
                Message::of(message)
            }))
        });
    }
    let Some(lists) = BinaryLists::new(array) else {
        let got = array.data_type();
        return Err(Error::Type(format!("expected an array of binary or of list<binary>, not {got}")));
    };
    if lists.items_null > 0 {
        return refused("a frame cannot be null");
    }
    if head.is_empty() && rows.clone().any(|row| lists.range(row).is_empty()) {
        return refused("a message has at least one frame");
    }
    Ok(Box::new(rows.filter_map(move |row| {
        let mut message = head.clone();
        message.extend(lists.range(row).map(|at| lists.items.get(at).unwrap_or_default()));
        Message::of(message)
    })))
}

/// Converts messages to a batch, with the identities of their senders if they are given. A single frame
/// is not copied. Fails with a text if the frames exceed the offsets of their column.
pub fn batch<'a, I>(
    messages: impl ExactSizeIterator<Item = &'a Message> + Clone,
    identities: Option<I>,
) -> Result<RecordBatch, String>
where
    I: Iterator<Item = &'a Bytes>,
{
    let all = || messages.clone().flat_map(Message::frames);
    let (count, bytes) = all().fold((0, 0usize), |(count, bytes), frame| (count + 1, bytes + frame.len()));
    // Offsets of Binary are 32 bits, and Spark takes no wider type.
    if i32::try_from(bytes).is_err() || i32::try_from(count).is_err() {
        return Err(format!("{bytes} bytes in one batch: ask for fewer rows"));
    }
    let text = |error: arrow_schema::ArrowError| error.to_string();
    let frames = match (all().next(), count) {
        (Some(only), 1) => alone(only).map_err(text)?,
        _ => {
            let mut frames = BinaryBuilder::with_capacity(count, bytes);
            all().for_each(|frame| frames.append_value(frame));
            frames.finish()
        }
    };
    let offsets = OffsetBuffer::from_lengths(messages.clone().map(|message| message.frames().len()));
    let lists = ListArray::try_new(element_field(DataType::Binary), offsets, Arc::new(frames), None);
    let lists: ArrayRef = Arc::new(lists.map_err(text)?);
    match identities {
        Some(identities) => {
            let identities = Arc::new(BinaryArray::from_iter_values(identities));
            RecordBatch::try_new(ROUTER_SCHEMA.clone(), vec![identities, lists])
        }
        None => RecordBatch::try_new(SCHEMA.clone(), vec![lists]),
    }
    .map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::StringArray;
    use core::iter::Empty;

    fn message(frames: &[&'static str]) -> Message {
        Message::of(frames.iter().map(|frame| Bytes::from_static(frame.as_bytes())).collect()).unwrap()
    }

    #[test]
    fn messages_survive_the_way_through_a_batch() {
        let sent = [message(&["a", ""]), message(&["b"])];
        let identities = [Bytes::from("x"), Bytes::from("y")];
        let made = batch(sent.iter(), Some(identities.iter())).unwrap();
        assert_eq!(made.schema().as_ref(), &ZMTP_ROUTER.schema());
        let read: Vec<_> = messages(made.column(1), Vec::new()).unwrap().collect();
        assert_eq!(read, sent);
        // A slice begins behind the first list.
        let read: Vec<_> = messages(&made.column(1).slice(1, 1), vec![Bytes::from("h")]).unwrap().collect();
        assert_eq!(read, [message(&["h", "b"])]);
        let none = batch([].iter(), None::<Empty<&Bytes>>).unwrap();
        assert_eq!((none.num_rows(), none.num_columns()), (0, 1));
    }

    #[test]
    fn nulls_and_other_types_are_refused() {
        let nulls: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let problem = |array: &ArrayRef| messages(array, Vec::new()).err().map(|error| error.to_string());
        assert_eq!(problem(&nulls).as_deref(), Some("a message cannot be null"));
        let numbers: ArrayRef = Arc::new(arrow_array::Int8Array::from(vec![1]));
        assert!(problem(&numbers).unwrap().ends_with("not Int8"));
    }
}
