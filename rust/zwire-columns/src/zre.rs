//! Events of a ZRE node as batches, and messages for a node from batches.

use crate::{
    builder::{BytesList, Column, Micros, Runs, TextMap, push_map, rows},
    reader::{Binaries, BinaryLists, Error},
};
use arrow_array::{
    Array, RecordBatch,
    builder::{Int32Builder, StringBuilder},
};
use arrow_schema::ArrowError;
use bytes::Bytes;
use core::time::Duration;
use zwire_proto::zre::{
    Uuid,
    node::{EventKind, ZreEvent},
};
use zwire_spool::columns::ZRE_RECEIVED;

crate::builder::repeats! {
    Uuid => StringBuilder: |peer, to, count| to.append_value_n(peer.to_string(), count);
}

rows! {
    Events of ZRE_RECEIVED {
        r#type: Runs<&'static str>,
        // Consecutive events often have the same peer; its UUID is formatted once.
        peer: Runs<Uuid>,
        name: Column<StringBuilder>,
        address: Column<StringBuilder>,
        group: Column<StringBuilder>,
        headers: Column<TextMap>,
        content: Column<BytesList>,
        lost: Column<Int32Builder>,
        recv_ts: Runs<Micros>,
    }
}

/// Converts events, each with the time at which it was noticed, to a batch.
pub fn batch<'a>(events: impl Iterator<Item = (&'a ZreEvent, Duration)>) -> Result<RecordBatch, ArrowError> {
    let mut rows = Events::default();
    for (event, time) in events {
        let kind = &event.kind;
        rows.r#type.put(Some(&kind.name()));
        rows.peer.put(Some(&event.peer));
        rows.name.put(Some(event.name.as_str()), StringBuilder::append_value);
        rows.address.put(Some(event.address.as_str()), StringBuilder::append_value);
        rows.group.put(kind.group(), StringBuilder::append_value);
        rows.headers.put(kind.headers(), |builder, headers| {
            push_map(builder, headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        });
        rows.content.put(kind.content(), |builder, frames| builder.append_value(frames.iter().map(Some)));
        let lost = if let EventKind::MessagesLost { lost } = kind { Some(i32::from(*lost)) } else { None };
        rows.lost.put(lost, Int32Builder::append_value);
        rows.recv_ts.put(Micros::of(time).as_ref());
    }
    rows.finish()
}

/// Reads the messages of a batch: its column `content`, or the only one, of binary, of text, or of lists
/// of them. Fails with [`Error`] for a batch without that column, a wrong type, or a row that is null.
pub fn contents(batch: &RecordBatch) -> Result<Vec<Vec<Bytes>>, Error> {
    let column = match batch.schema().index_of("content") {
        Ok(index) => index,
        Err(_) if batch.num_columns() == 1 => 0,
        Err(_) => return Err(Error::Value("the batch has no column \"content\"".to_owned())),
    };
    let column = batch.column(column);
    let null = |row| Error::Value(format!("row {row}: no content"));
    let rows = 0..batch.num_rows();
    if let Some(frames) = Binaries::new(column) {
        return rows.map(|row| frames.get(row).map(|frame| vec![frame]).ok_or_else(|| null(row))).collect();
    }
    let lists = BinaryLists::new(column)
        .ok_or_else(|| Error::column("content", column.data_type(), "binary or a list of binary"))?;
    rows.map(|row| {
        if column.is_null(row) {
            return Err(null(row));
        }
        lists.range(row).map(|at| lists.items.get(at).ok_or_else(|| null(row))).collect()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, BinaryArray, ListArray, cast::AsArray as _};
    use arrow_buffer::OffsetBuffer;
    use std::sync::Arc;
    use zwire_proto::Text;
    use zwire_spool::columns::{Kind, element_field};

    fn event(peer: u8, kind: EventKind) -> ZreEvent {
        ZreEvent {
            kind,
            peer: Uuid::from_bytes([peer; 16]),
            name: Text::from("robot"),
            address: Text::from("tcp://127.0.0.1:1"),
            generation: None,
            status: None,
            sequence: None,
        }
    }

    #[test]
    fn the_rows_have_the_columns_of_the_table() {
        let names: Vec<_> = ZRE_RECEIVED.columns.iter().map(|column| column.name).collect();
        assert_eq!(Events::names(), names);
    }

    #[test]
    fn events_become_rows() {
        let headers = vec![(Text::from("X-A"), Text::from("1"))];
        let content = vec![Bytes::from_static(b"a"), Bytes::new()];
        let events = [
            event(1, EventKind::Enter { headers }),
            event(1, EventKind::Shout { group: Text::from("g"), content: content.clone() }),
            event(2, EventKind::MessagesLost { lost: 7 }),
        ];
        let batch = batch(events.iter().map(|event| (event, Duration::from_secs(3)))).unwrap();
        assert_eq!(batch.schema().as_ref(), &ZRE_RECEIVED.schema());
        let text = |name: &str| {
            let column = batch.column_by_name(name).unwrap().as_string::<i32>();
            column.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(text("type"), ["ENTER", "SHOUT", "MESSAGES_LOST"].map(|word| Some(word.to_owned())));
        assert_eq!(text("peer")[1..], [Some("01".repeat(16)), Some("02".repeat(16))]);
        assert_eq!(text("group"), [None, Some("g".to_owned()), None]);
        let map = batch.column_by_name("headers").unwrap().as_map();
        assert_eq!((map.value_length(0), map.is_null(1)), (1, true));
        let only = batch.project(&[6]).unwrap().slice(1, 1);
        assert_eq!(contents(&only), Ok(vec![content]));
        assert_eq!(contents(&batch), Err(Error::Value("row 0: no content".to_owned())));
    }

    #[test]
    fn single_frames_and_lists_are_messages() {
        let frames: ArrayRef = Arc::new(BinaryArray::from(vec![b"a".as_slice(), b"b"]));
        let batch = RecordBatch::try_from_iter([("any", frames.clone())]).unwrap();
        assert_eq!(contents(&batch), Ok(vec![vec![Bytes::from("a")], vec![Bytes::from("b")]]));
        let field = element_field(Kind::Bytes.data_type());
        let lists = ListArray::new(field, OffsetBuffer::from_lengths([2, 0]), frames, None);
        let batch = RecordBatch::try_from_iter([("content", Arc::new(lists) as ArrayRef)]).unwrap();
        assert_eq!(contents(&batch), Ok(vec![vec![Bytes::from("a"), Bytes::from("b")], vec![]]));
    }
}
