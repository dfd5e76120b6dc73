//! Received samples as batches.

use crate::builder::{Micros, alone, repeated};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Int8Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    builder::StringBuilder,
};
use arrow_buffer::{BooleanBuffer, OffsetBuffer};
use arrow_schema::Schema;
use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock},
};
use zwire_proto::zenoh::session::{Sample, SampleKind};
use zwire_spool::columns::RECEIVED;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(RECEIVED.schema()));

/// Converts samples to a batch. The payload of a single sample is not copied. Fails with a text if the
/// payloads exceed the offsets of their column.
pub fn batch(samples: &VecDeque<Sample>) -> Result<RecordBatch, String> {
    let rows = samples.len();
    let alike = Alike::of(samples);
    // Offsets of Binary are 32 bits, and Spark takes no wider type.
    if i32::try_from(alike.payload_bytes).is_err() {
        return Err(format!("{} bytes of payload in one batch: ask for fewer rows", alike.payload_bytes));
    }
    let payload = match samples.front() {
        Some(only) if rows == 1 => alone(&only.payload).map_err(|error| error.to_string())?,
        _ => joined(samples, alike.payload_bytes),
    };
    let time = |sample: &Sample| {
        sample.timestamp.and_then(|timestamp| Micros::of(timestamp.time.to_duration())).map(|time| time.0)
    };
    let timestamp = if alike.timestamps {
        samples.iter().map(time).collect::<TimestampMicrosecondArray>()
    } else {
        TimestampMicrosecondArray::new_null(rows)
    };
    let attachment = if alike.attachments {
        samples.iter().map(|sample| sample.attachment.as_deref()).collect()
    } else {
        BinaryArray::new_null(rows)
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(texts(samples, alike.key, alike.key_bytes, |sample| sample.key.as_str())),
        Arc::new(payload),
        Arc::new(texts(samples, alike.kind, rows * 3, |sample| match sample.kind {
            SampleKind::Put => "put",
            SampleKind::Delete => "del",
        })),
        Arc::new(encodings(samples, alike.encoding)),
        Arc::new(timestamp.with_timezone("UTC")),
        Arc::new(attachment),
        Arc::new(priorities(samples, alike.qos)),
        Arc::new(texts(samples, alike.qos, rows * 5, |sample| sample.qos.congestion().name())),
        Arc::new(BooleanArray::from(express(samples, alike.qos))),
    ];
    RecordBatch::try_new(SCHEMA.clone(), columns).map_err(|error| error.to_string())
}

/// Fields that are equal in all samples of a batch, mostly all but the payload: one value fills their
/// columns.
struct Alike {
    key: bool,
    kind: bool,
    encoding: bool,
    qos: bool,
    timestamps: bool,
    attachments: bool,
    payload_bytes: usize,
    key_bytes: usize,
}

impl Alike {
    fn of(samples: &VecDeque<Sample>) -> Self {
        let mut alike = Self {
            key: true,
            kind: true,
            encoding: true,
            qos: true,
            timestamps: false,
            attachments: false,
            payload_bytes: 0,
            key_bytes: 0,
        };
        let Some(first) = samples.front() else { return alike };
        for sample in samples {
            alike.key = alike.key && sample.key == first.key;
            alike.kind &= sample.kind == first.kind;
            alike.encoding &= sample.encoding == first.encoding;
            alike.qos &= sample.qos == first.qos;
            alike.timestamps |= sample.timestamp.is_some();
            alike.attachments |= sample.attachment.is_some();
            alike.payload_bytes += sample.payload.len();
            alike.key_bytes += sample.key.as_str().len();
        }
        alike
    }
}

fn joined(samples: &VecDeque<Sample>, bytes: usize) -> BinaryArray {
    let mut data = Vec::with_capacity(bytes);
    samples.iter().for_each(|sample| data.extend_from_slice(&sample.payload));
    let offsets = OffsetBuffer::from_lengths(samples.iter().map(|sample| sample.payload.len()));
    BinaryArray::new(offsets, data.into(), None)
}

fn priorities(samples: &VecDeque<Sample>, alike: bool) -> Int8Array {
    let of = |sample: &Sample| sample.qos.priority() as i8;
    match samples.front() {
        Some(first) if alike => vec![of(first); samples.len()].into(),
        _ => Int8Array::from_iter_values(samples.iter().map(of)),
    }
}

fn express(samples: &VecDeque<Sample>, alike: bool) -> BooleanBuffer {
    match samples.front() {
        Some(first) if alike && first.qos.express() => BooleanBuffer::new_set(samples.len()),
        Some(_) if alike => BooleanBuffer::new_unset(samples.len()),
        _ => BooleanBuffer::collect_bool(samples.len(), |row| samples[row].qos.express()),
    }
}

/// Column of texts of `bytes` together; filled with the first text if they are `alike`.
fn texts(
    samples: &VecDeque<Sample>,
    alike: bool,
    bytes: usize,
    text: impl Fn(&Sample) -> &str,
) -> StringArray {
    if let Some(first) = samples.front().filter(|_| alike) {
        return repeated(text(first), samples.len());
    }
    let mut column = StringBuilder::with_capacity(samples.len(), bytes);
    samples.iter().for_each(|sample| column.append_value(text(sample)));
    column.finish()
}

fn encodings(samples: &VecDeque<Sample>, alike: bool) -> StringArray {
    let Some(first) = samples.front() else { return StringArray::new_null(0) };
    let mut last = (&first.encoding, first.encoding.to_string());
    if alike {
        return repeated(&last.1, samples.len());
    }
    let mut column = StringBuilder::new();
    for sample in samples {
        // Encodings repeat; an equal one is not formatted again.
        if *last.0 != sample.encoding {
            last = (&sample.encoding, sample.encoding.to_string());
        }
        column.append_value(&last.1);
    }
    column.finish()
}
