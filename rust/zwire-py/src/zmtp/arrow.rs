//! Messages of ZeroMQ in Arrow arrays, both ways.

use crate::{
    arrow::{self, ArrowBatch},
    errors,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, GenericListArray, LargeListArray, ListArray, OffsetSizeTrait, RecordBatch,
    builder::BinaryBuilder,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};
use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock},
};
use zwire_engine::zmtp::{Received, Socket};
use zwire_proto::zmtp::link::Message;
use zwire_spool::columns::{ZMTP, ZMTP_ROUTER, element_field};

static FRAME: LazyLock<Arc<Field>> = LazyLock::new(|| element_field(DataType::Binary));

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(ZMTP.schema()));

static ROUTER_SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(ZMTP_ROUTER.schema()));

/// Messages of an array: one frame each, or a list of frames, with the frames of `head` before them.
pub(crate) fn messages(
    obj: &Bound<'_, PyAny>,
    head: Vec<Bytes>,
) -> PyResult<Box<dyn Iterator<Item = Message> + Send>> {
    let array = arrow::import_array(obj)?;
    if array.null_count() > 0 {
        return Err(PyValueError::new_err("a message cannot be null"));
    }
    let any = array.as_any();
    if let Some(lists) = any.downcast_ref::<ListArray>() {
        return of_lists(lists, head);
    }
    if let Some(lists) = any.downcast_ref::<LargeListArray>() {
        return of_lists(lists, head);
    }
    let frames = arrow::Binaries::new(&array).ok_or_else(|| wrong_type(array.data_type()))?;
    let rows = 0..array.len();
    Ok(if head.is_empty() {
        Box::new(rows.map(move |row| Message::single(frames.get(row).unwrap_or_default())))
    } else {
        Box::new(rows.filter_map(move |row| {
            let mut message = head.clone();
            message.push(frames.get(row).unwrap_or_default());
            Message::of(message)
        }))
    })
}

fn wrong_type(got: &DataType) -> PyErr {
    PyTypeError::new_err(format!("expected an array of binary or of list<binary>, not {got}"))
}

fn of_lists<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    head: Vec<Bytes>,
) -> PyResult<Box<dyn Iterator<Item = Message> + Send>> {
    let values = lists.values();
    let frames = arrow::Binaries::new(values).ok_or_else(|| wrong_type(lists.data_type()))?;
    let offsets: Vec<usize> = lists.value_offsets().iter().map(|offset| offset.as_usize()).collect();
    if values.null_count() > 0 {
        return Err(PyValueError::new_err("a frame cannot be null"));
    }
    if head.is_empty() && offsets.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(PyValueError::new_err("a message has at least one frame"));
    }
    Ok(Box::new((0..offsets.len().saturating_sub(1)).filter_map(move |row| {
        let mut message = head.clone();
        message.extend((offsets[row]..offsets[row + 1]).map(|at| frames.get(at).unwrap_or_default()));
        Message::of(message)
    })))
}

/// Up to `max_rows` messages; waits for the first one only.
pub(crate) fn recv_batch(
    py: Python<'_>,
    socket: &Socket,
    router: bool,
    max_rows: usize,
    timeout: Option<f64>,
) -> PyResult<ArrowBatch> {
    let queue = socket.inbox();
    if queue.is_empty() {
        socket.flush();
    }
    let failed = |error| errors::recv(py, error, timeout);
    arrow::take_batch(py, queue, max_rows, timeout, |messages| to_batch(messages, router), failed)
}

fn to_batch(messages: &VecDeque<Received>, router: bool) -> Result<RecordBatch, String> {
    let all = || messages.iter().flat_map(|received| received.message.frames());
    let (mut count, mut bytes) = (0, 0usize);
    for frame in all() {
        count += 1;
        bytes += frame.len();
    }
    // Offsets of Binary are 32 bits, and Spark takes no wider type.
    if i32::try_from(bytes).is_err() || i32::try_from(count).is_err() {
        return Err(format!("{bytes} bytes in one batch: ask for fewer rows"));
    }
    let frames = match (all().next(), count) {
        (Some(only), 1) => arrow::alone(only)?,
        _ => {
            let mut frames = BinaryBuilder::with_capacity(count, bytes);
            all().for_each(|frame| frames.append_value(frame));
            frames.finish()
        }
    };
    let mut ends: Vec<i32> = Vec::with_capacity(messages.len() + 1);
    let mut end = 0;
    ends.push(end);
    for received in messages {
        // All of them together fit, as was checked.
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "see above")]
        let len = received.message.frames().len() as i32;
        end += len;
        ends.push(end);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    let lists =
        ListArray::try_new(FRAME.clone(), offsets, Arc::new(frames), None).map_err(|e| e.to_string())?;
    let lists: ArrayRef = Arc::new(lists);
    let result = if router {
        let identities = BinaryArray::from_iter_values(messages.iter().map(|received| &received.identity));
        RecordBatch::try_new(ROUTER_SCHEMA.clone(), vec![Arc::new(identities), lists])
    } else {
        RecordBatch::try_new(SCHEMA.clone(), vec![lists])
    };
    result.map_err(|e| e.to_string())
}
