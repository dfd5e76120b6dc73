//! Events of a node as Arrow record batches.

use crate::{
    arrow::{ArrowBatch, Binaries, import, take_batch},
    errors,
    zre::events::{content, group, word},
};
use arrow_array::{
    Array, ArrayRef, Int32Array, ListArray, RecordBatch, TimestampMicrosecondArray,
    builder::{BinaryBuilder, ListBuilder, MapBuilder, MapFieldNames, StringBuilder},
};
use arrow_schema::{DataType, Schema};
use bytes::Bytes;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};
use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock},
};
use zwire_engine::{Queue, zre::NodeEvent};
use zwire_proto::zre::node::EventKind;
use zwire_spool::columns::{ZRE_RECEIVED, element_field};

/// Columns of a batch of events.
static EVENT_SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(ZRE_RECEIVED.schema()));

/// Up to `max_rows` events of a queue; waits for the first one only.
pub(crate) fn recv_batch(
    py: Python<'_>,
    queue: &Arc<Queue<NodeEvent>>,
    max_rows: usize,
    timeout: Option<f64>,
) -> PyResult<ArrowBatch> {
    take_batch(py, queue, max_rows, timeout, to_batch, |error| errors::recv(py, error, timeout))
}

fn to_batch(events: &VecDeque<NodeEvent>) -> Result<RecordBatch, String> {
    let rows = events.len();
    let mut kinds = StringBuilder::with_capacity(rows, rows * 8);
    let mut peers = StringBuilder::with_capacity(rows, rows * 32);
    let mut names = StringBuilder::with_capacity(rows, rows * 8);
    let mut addresses = StringBuilder::with_capacity(rows, rows * 24);
    let mut groups = StringBuilder::with_capacity(rows, rows * 8);
    let names_of_map = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let mut headers = MapBuilder::new(Some(names_of_map), StringBuilder::new(), StringBuilder::new());
    let mut contents = ListBuilder::new(BinaryBuilder::new()).with_field(element_field(DataType::Binary));
    let mut lost = Vec::with_capacity(rows);
    let mut times = Vec::with_capacity(rows);
    let mut last_peer = None;
    for NodeEvent { event, time } in events {
        kinds.append_value(word(&event.kind));
        // Consecutive events often have the same peer; its UUID is formatted once.
        let text = match last_peer {
            Some((peer, text)) if peer == event.peer => text,
            _ => event.peer.to_hex(),
        };
        last_peer = Some((event.peer, text));
        peers.append_value(core::str::from_utf8(&text).map_err(|e| e.to_string())?);
        names.append_value(event.name.as_str());
        addresses.append_value(event.address.as_str());
        groups.append_option(group(&event.kind));
        if let EventKind::Enter { headers: all } = &event.kind {
            for (name, value) in all {
                headers.keys().append_value(name.as_str());
                headers.values().append_value(value.as_str());
            }
            headers.append(true).map_err(|e| e.to_string())?;
        } else {
            headers.append(false).map_err(|e| e.to_string())?;
        }
        match content(&event.kind) {
            Some(frames) => {
                frames.iter().for_each(|frame| contents.values().append_value(frame));
                contents.append(true);
            }
            None => contents.append(false),
        }
        lost.push(match event.kind {
            EventKind::MessagesLost { lost } => Some(i32::from(lost)),
            _ => None,
        });
        times.push(i64::try_from(time.as_micros()).ok());
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(kinds.finish()),
        Arc::new(peers.finish()),
        Arc::new(names.finish()),
        Arc::new(addresses.finish()),
        Arc::new(groups.finish()),
        Arc::new(headers.finish()),
        Arc::new(contents.finish()),
        Arc::new(Int32Array::from(lost)),
        Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")),
    ];
    RecordBatch::try_new(EVENT_SCHEMA.clone(), columns).map_err(|e| e.to_string())
}

/// The messages of a record batch: its column `content`, or the only one, of binary, of text, or of lists of
/// them.
pub(crate) fn contents(batch: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<Bytes>>> {
    let batch = import(batch)?;
    let column = match batch.schema().index_of("content") {
        Ok(index) => index,
        Err(_) if batch.num_columns() == 1 => 0,
        Err(_) => return Err(PyValueError::new_err("the batch has no column \"content\"")),
    };
    let column = batch.column(column);
    let null = |row| PyValueError::new_err(format!("row {row}: no content"));
    let rows = 0..batch.num_rows();
    if let Some(frames) = Binaries::new(column) {
        return rows.map(|row| frames.get(row).map(|frame| vec![frame]).ok_or_else(|| null(row))).collect();
    }
    let wrong = || {
        let got = column.data_type();
        PyTypeError::new_err(format!("column \"content\" must be binary or a list of binary, not {got}"))
    };
    let lists = column.as_any().downcast_ref::<ListArray>().ok_or_else(wrong)?;
    let frames = Binaries::new(lists.values()).ok_or_else(wrong)?;
    rows.map(|row| {
        if lists.is_null(row) {
            return Err(null(row));
        }
        let ends = lists.value_offsets();
        #[allow(clippy::cast_sign_loss, reason = "offsets of a valid array")]
        let range = ends[row] as usize..ends[row + 1] as usize;
        range.map(|at| frames.get(at).ok_or_else(|| null(row))).collect()
    })
    .collect()
}
