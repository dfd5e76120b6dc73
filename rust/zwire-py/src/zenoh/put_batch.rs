//! Publishing of batches: each row of a record batch is a publication.

use crate::{
    arrow::import,
    columns::check_name,
    errors,
    zenoh::{handle::Handle, session::Session},
};
use pyo3::prelude::*;
use zwire_columns::puts::{BadRow, Puts};
use zwire_proto::zenoh::{CongestionControl, KeyExpr, Priority, Qos, session::Published, wire::PushBody};
use zwire_spool::columns::PUT;

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
    for field in batch.schema().fields() {
        check_name(py, &PUT, field.name())?;
    }
    let rows = Puts::new(batch, fixed_key, defaults, session.0.0.engine.zid());
    publish(py, &session.0, rows.map_err(errors::columns)?)
}

fn publish(py: Python<'_>, session: &Handle, mut rows: Puts) -> PyResult<PutSummary> {
    let count = rows.rows();
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
