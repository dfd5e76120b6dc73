//! Publishing of batches: each row of a record batch is a publication.

use crate::{
    arrow::{Binaries, import, wrong_type},
    columns::check_name,
    errors,
    zenoh::{handle::Handle, put_stamps::Stamps, session::Session},
};
use arrow_array::{Array, BooleanArray, Int8Array, LargeStringArray, RecordBatch, StringArray, UInt8Array};
use arrow_schema::DataType;
use pyo3::{exceptions::PyValueError, prelude::*};
use zwire_proto::{
    Text,
    zenoh::{
        CongestionControl, Encoding, KeyExpr, Priority, Qos, ZenohId,
        session::Published,
        wire::{Del, PushBody, Put},
    },
};
use zwire_spool::columns::PUT;

/// The rows of a batch as publications.
struct Rows {
    batch: RecordBatch,
    key: usize,
    payload: Option<Binaries>,
    attachment: Option<Binaries>,
    stamps: Option<Stamps>,
    encoding: Option<usize>,
    kind: Option<usize>,
    priority: Option<usize>,
    congestion: Option<usize>,
    express: Option<usize>,
    /// Key expression of all rows without a key of their own.
    fixed_key: Option<KeyExpr>,
    defaults: Qos,
    last_encoding: (String, Encoding),
}

/// A row that cannot be published.
struct BadRow {
    row: usize,
    /// Key as given in the row, valid or not.
    key: Option<String>,
    problem: String,
}

impl Rows {
    fn text(&self, column: Option<usize>, row: usize) -> Option<&str> {
        let column = self.batch.column(column?).as_any();
        if let Some(array) = column.downcast_ref::<StringArray>() {
            return (!array.is_null(row)).then(|| array.value(row));
        }
        let array = column.downcast_ref::<LargeStringArray>()?;
        (!array.is_null(row)).then(|| array.value(row))
    }

    /// Stores the key of a row in `key`, which holds that of the previous one.
    fn key(&self, row: usize, key: &mut Option<KeyExpr>) -> Result<(), BadRow> {
        if let Some(fixed) = &self.fixed_key {
            if key.is_none() {
                *key = Some(fixed.clone());
            }
            return Ok(());
        }
        let Some(text) = self.text(Some(self.key), row) else {
            return Err(self.bad(row, "the key is null".to_owned()));
        };
        // Keys repeat; an equal key is not parsed and copied again.
        if key.as_ref().is_none_or(|last| last.as_str() != text) {
            *key = Some(KeyExpr::new(Text::from(text)).map_err(|error| self.bad(row, error.to_string()))?);
        }
        Ok(())
    }

    fn bad(&self, row: usize, problem: String) -> BadRow {
        let key = match &self.fixed_key {
            Some(key) => Some(key.to_string()),
            None => self.text(Some(self.key), row).map(str::to_owned),
        };
        BadRow { row, key, problem }
    }

    fn encoding(&mut self, row: usize) -> Encoding {
        let Some(text) = self.text(self.encoding, row) else { return Encoding::DEFAULT };
        if self.last_encoding.0 == text {
            return self.last_encoding.1.clone();
        }
        let text = text.to_owned();
        let encoding = Encoding::from_text(text.as_str());
        self.last_encoding = (text, encoding.clone());
        encoding
    }

    fn qos(&self, row: usize) -> Result<Qos, BadRow> {
        let mut priority = self.defaults.priority();
        if let Some(column) = self.priority {
            let column = self.batch.column(column);
            let number = if let Some(a) = column.as_any().downcast_ref::<Int8Array>() {
                (!a.is_null(row)).then(|| i16::from(a.value(row)))
            } else {
                column
                    .as_any()
                    .downcast_ref::<UInt8Array>()
                    .and_then(|a| (!a.is_null(row)).then(|| i16::from(a.value(row))))
            };
            if let Some(number) = number {
                priority = match number {
                    1..=7 => Priority::ALL[number.unsigned_abs() as usize],
                    _ => return Err(self.bad(row, format!("priority {number} is not 1..7"))),
                };
            }
        }
        let congestion = match self.text(self.congestion, row) {
            None => self.defaults.congestion(),
            Some("drop") => CongestionControl::Drop,
            Some("block") => CongestionControl::Block,
            Some("block_first") => CongestionControl::BlockFirst,
            Some(other) => {
                let problem = format!("congestion {other:?} is not drop, block or block_first");
                return Err(self.bad(row, problem));
            }
        };
        let express = self
            .express
            .and_then(|column| {
                let a = self.batch.column(column).as_any().downcast_ref::<BooleanArray>()?;
                (!a.is_null(row)).then(|| a.value(row))
            })
            .unwrap_or(self.defaults.express());
        Ok(Qos::new(priority, congestion, express))
    }

    /// Makes a publication of a row, overwriting the previous one.
    fn fill(
        &mut self,
        row: usize,
        key: &mut Option<KeyExpr>,
        qos: &mut Qos,
        body: &mut PushBody,
    ) -> Result<(), BadRow> {
        self.key(row, key)?;
        *qos = self.qos(row)?;
        let attachment = self.attachment.as_ref().and_then(|a| a.get(row));
        let timestamp = match &self.stamps {
            Some(stamps) => stamps.get(row).map_err(|problem| self.bad(row, problem))?,
            None => None,
        };
        match self.text(self.kind, row) {
            None | Some("put") => {
                let payload = self.payload.as_ref().and_then(|p| p.get(row)).unwrap_or_default();
                let encoding = self.encoding(row);
                match body {
                    PushBody::Put(put) => {
                        put.payload = payload.into();
                        put.encoding = encoding;
                        put.attachment = attachment;
                        // Set even if there is none: a router may have stamped the previous row.
                        put.timestamp = timestamp;
                    }
                    PushBody::Del(_) => {
                        let put = Put { encoding, attachment, timestamp, ..Put::new(payload) };
                        *body = PushBody::Put(put);
                    }
                }
            }
            Some("del" | "delete") => {
                *body = PushBody::Del(Del { attachment, timestamp, ..Del::default() });
            }
            Some(other) => {
                return Err(self.bad(row, format!("kind {other:?} is not put or del")));
            }
        }
        Ok(())
    }
}

/// Result of [`put_batch`].
#[pyclass(module = "zwire", frozen, get_all)]
pub(crate) struct PutSummary {
    /// Rows passed on.
    rows: usize,
    /// Bytes of their payloads.
    bytes: usize,
    /// Rows for which there was neither a link nor a subscriber of this session.
    unmatched: usize,
    /// Index of the first of them.
    first_unmatched: Option<usize>,
}

#[pymethods]
impl PutSummary {
    fn __repr__(&self) -> String {
        format!("PutSummary(rows={}, bytes={}, unmatched={})", self.rows, self.bytes, self.unmatched)
    }
}

/// Publishes every row of a record batch.
///
/// Columns by name: `key` (string; not needed when `key_expr` is given), `payload` (binary or string),
/// and optionally `encoding`, `attachment`, `kind` (`put` or `del`), `priority` (1 to 7), `congestion`
/// (`drop`, `block`, `block_first`), `express`, and the time stamp: `timestamp` (an instant with a
/// time zone), `hlc` (all 64 bits of it, which take precedence) and `hlc_id` (the id of the clock; of
/// this session if null). `ts`, the former name of `timestamp`, is accepted for one release. Other columns
/// are an error. Waits as long as congestion control demands; the default here is `block`, since a batch
/// fills queues at once. Raises `RowError`, which names row, key and reason, at the first invalid row; the
/// rows before it are published. `Session.put_batch` is the same.
#[pyfunction]
#[pyo3(signature = (session, batch, *, key_expr=None, congestion_control=None, priority=None, express=None))]
pub(crate) fn put_batch(
    py: Python<'_>,
    session: &Session,
    batch: &Bound<'_, PyAny>,
    key_expr: Option<&Bound<'_, PyAny>>,
    congestion_control: Option<crate::zenoh::enums::PyCongestionControl>,
    priority: Option<crate::zenoh::enums::PyPriority>,
    express: Option<bool>,
) -> PyResult<PutSummary> {
    let batch = import(batch)?;
    let fixed_key = key_expr.map(crate::zenoh::keyexpr::extract).transpose()?;
    let default = Qos::new(Priority::Data, CongestionControl::Block, false);
    let defaults = crate::zenoh::bodies::qos(default, congestion_control, priority, express);
    let rows = rows(py, batch, fixed_key, defaults, session.0.0.engine.zid())?;
    publish(py, &session.0, rows)
}

fn rows(
    py: Python<'_>,
    batch: RecordBatch,
    fixed_key: Option<KeyExpr>,
    defaults: Qos,
    own: ZenohId,
) -> PyResult<Rows> {
    let schema = batch.schema();
    for field in schema.fields() {
        check_name(py, &PUT, field.name())?;
        if PUT.column(field.name()).is_none() && PUT.present(field.name()).is_none() {
            let all: Vec<_> = PUT.columns.iter().map(|column| column.name).collect();
            return Err(PyValueError::new_err(format!(
                "column {:?} is not one of {}",
                field.name(),
                all.join(", ")
            )));
        }
    }
    let find = |name: &str| schema.index_of(name).ok();
    let bytes = |name: &str| -> PyResult<Option<Binaries>> {
        let Some(index) = find(name) else { return Ok(None) };
        let column = batch.column(index);
        Binaries::new(column).map(Some).ok_or_else(|| wrong_type(name, column.data_type(), "binary"))
    };
    let (payload, attachment) = (bytes("payload")?, bytes("attachment")?);
    let rows = Rows {
        key: find("key").unwrap_or(usize::MAX),
        payload,
        attachment,
        stamps: Stamps::new(&batch, own)?,
        encoding: find("encoding"),
        kind: find("kind"),
        priority: find("priority"),
        congestion: find("congestion"),
        express: find("express"),
        fixed_key,
        defaults,
        last_encoding: (String::new(), Encoding::DEFAULT),
        batch,
    };
    if rows.fixed_key.is_none() && rows.key == usize::MAX {
        return Err(PyValueError::new_err("the batch has no column \"key\", and no key_expr was given"));
    }
    let key = rows.fixed_key.is_none().then_some(rows.key);
    for (name, column) in
        [("key", key), ("encoding", rows.encoding), ("kind", rows.kind), ("congestion", rows.congestion)]
    {
        if let Some(column) = column
            && !matches!(rows.batch.column(column).data_type(), DataType::Utf8 | DataType::LargeUtf8)
        {
            return Err(wrong_type(name, rows.batch.column(column).data_type(), "string"));
        }
    }
    Ok(rows)
}

fn publish(py: Python<'_>, session: &Handle, mut rows: Rows) -> PyResult<PutSummary> {
    let count = rows.batch.num_rows();
    let (mut done, mut bytes, mut unmatched, mut first_unmatched) = (0, 0, 0, None);
    let mut bad = None;
    let result = session.run(py, |engine, interrupted| {
        let mut left = 0..count;
        let fill = |key: &mut Option<KeyExpr>, qos: &mut Qos, body: &mut PushBody| {
            let Some(row) = left.next() else { return *key = None };
            match rows.fill(row, key, qos, body) {
                Ok(()) => {
                    if let PushBody::Put(put) = body {
                        bytes += put.payload.len();
                    }
                }
                Err(problem) => {
                    bad = Some(problem);
                    // Nothing behind an invalid row is published, even if the engine asks again.
                    left = 0..0;
                    *key = None;
                }
            }
        };
        let each = |published: Published| {
            if !published.sent && published.local == 0 {
                unmatched += 1;
                first_unmatched = first_unmatched.or(Some(done));
            }
            done += 1;
        };
        engine.put_many(fill, each, interrupted)
    });
    result?;
    match bad {
        None => Ok(PutSummary { rows: done, bytes, unmatched, first_unmatched }),
        Some(BadRow { row, key, problem }) => Err(errors::row(py, row, key.as_deref(), &problem)),
    }
}
