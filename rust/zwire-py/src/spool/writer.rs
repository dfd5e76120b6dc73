//! `SpoolWriter`: a recorder that Python starts, feeds and closes.

use crate::{
    errors::{self, OrRaise},
    loops::interrupt::waiting,
    options::Options,
    spool::Micros,
    zenoh::{keyexpr, session::Session, subscriber::Subscriber},
    zre::{log::LogCollector, node::Node},
};
use pyo3::{prelude::*, types::PyDict};
use std::{path::PathBuf, time::Duration};
use zwire_recorder::{Clock, Keeping, Recorder, Settings as Recording, Turns};
use zwire_spool::Retention;

/// Longest timeout and linger that Python can give, in seconds: `Duration` panics far beyond it.
const MAX_SECONDS: Duration = Duration::from_secs(1_000_000);

/// Source of rows.
#[derive(FromPyObject)]
enum Feed<'py> {
    Subscriber(Bound<'py, Subscriber>),
    Node(PyRef<'py, Node>),
    Log(PyRef<'py, LogCollector>),
}

/// Seconds of Python as a duration; NaN and negative numbers are zero.
pub(crate) fn clamped(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).map_or(MAX_SECONDS, |time| time.min(MAX_SECONDS))
}

fn recording(from: &Options<'_, '_>) -> PyResult<Recording> {
    let micros = |name| PyResult::Ok(from.take(name)?.map(|Micros(time)| time));
    let linger = micros("linger")?.unwrap_or(20_000).unsigned_abs();
    let rule = Retention { micros: micros("retention.seconds")?, bytes: from.take("retention.bytes")? };
    let keeping = Keeping {
        rule,
        consumer_micros: micros("retention.consumer_seconds")?,
        local_bytes: from.take("retention.local_bytes")?,
        compact_bytes: from.take("retention.compact_bytes")?,
    };
    let linger = Duration::from_micros(linger).min(MAX_SECONDS);
    let shared = match from.take("shared.host")? {
        Some(host) => {
            let standby_bytes = from.take("shared.standby_bytes")?.unwrap_or(256 << 20);
            let spread = from.take("shared.spread")?.unwrap_or(false);
            Some(Turns { host, standby_bytes, spread })
        }
        None => None,
    };
    Ok(Recording { linger, keeping, tier: from.take("tier")?, shared, clock: Clock::default() })
}

/// Writer of network traffic into a spool.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolWriter(Recorder);

attributes! { SpoolWriter, |this|
    /// Receive time of the last row that the spool had when it was opened, in microseconds since 1970; None if it
    /// had no rows.
    last: Option<i64> = this.0.last();
    /// The id of the spool.
    id: &str = this.0.id();
}

#[pymethods]
impl SpoolWriter {
    /// Raises an error if the writer is closed, or the folder of the spool was removed.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.check()).or_raise(py)
    }

    /// Announces that the subscribers will end now, so that their end is not reported as a problem.
    fn begin_close(&self) {
        self.0.begin_close();
    }

    #[new]
    fn new(py: Python<'_>, dir: PathBuf, settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let ((wanted, options), recording) =
            Options::read(settings, |from| Ok((super::read(py, from)?, recording(from)?)))?;
        let recorder = py.detach(|| Recorder::open(&dir, &wanted, &options, recording));
        recorder.map(Self).or_raise(py)
    }

    /// Records the items that a subscriber, a node or a collector receives from now on.
    fn feed(&self, py: Python<'_>, feed: Feed<'_>) -> PyResult<()> {
        self.0.check().or_raise(py)?;
        let fed = match feed {
            Feed::Subscriber(subscriber) => {
                let (key, queue) = Subscriber::source(&subscriber);
                let misses = Subscriber::misses(&subscriber);
                self.0.record_samples(key, queue, misses, Subscriber::origins(&subscriber))
            }
            Feed::Node(node) => self.0.record_events(node.queue(py)?),
            Feed::Log(log) => self.0.record_log(log.queue()),
        };
        fed.or_raise(py)
    }

    /// Declares a subscriber that queries the caches of publishers for missed samples, and with `history` at the
    /// start for all their samples, none older than `max_age` seconds. Samples that the spool already has are not
    /// requested.
    #[pyo3(signature = (session, key_expr, handler, *, history, max_age=None))]
    fn subscriber(
        &self,
        py: Python<'_>,
        session: &Bound<'_, Session>,
        key_expr: &Bound<'_, PyAny>,
        handler: &Bound<'_, PyAny>,
        history: bool,
        max_age: Option<f64>,
    ) -> PyResult<Py<Subscriber>> {
        self.0.check().or_raise(py)?;
        let (session, key) = (&session.get().0, keyexpr::extract(key_expr)?);
        let max_age = max_age.map(Duration::try_from_secs_f64).transpose();
        let max_age = max_age.map_err(|error| errors::option(py, "history", &error.to_string()))?;
        let options = Recorder::subscriber_options(history.then_some(max_age));
        let known = py.detach(|| self.0.known(history)).or_raise(py)?;
        Subscriber::declare(py, session, key, Some(handler), move |engine, key, handler| {
            engine.declare_advanced_subscriber(key, options, handler, Some(&known))
        })
    }

    /// Counters of received items and their outcomes, by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.0.stats();
        let tier = stats.tier.as_ref().map(|tier| -> PyResult<_> {
            Ok(dict! { py; of tier: behind, behind_bytes, bytes, uploaded, merged, orphans, failures, problem })
        });
        let lease = stats.lease.as_ref().map(|lease| -> PyResult<_> {
            Ok(dict! { py; of lease: state, epoch, holder, standby_messages, standby_bytes, standby_dropped,
                takeovers, shards
            })
        });
        Ok(dict! { py;
            of stats: received, dropped, waiting, waiting_bytes, rows, bytes, raw_bytes, stored_bytes, lost,
            duplicates, expired, refused, problem;
            tier = tier.transpose()?, lease = lease.transpose()?
        })
    }

    /// Waits until readers see everything received before the call; `False` if the timeout expires first.
    fn flush(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        waiting(py, |interrupted| self.0.flush(clamped(timeout), interrupted))?.or_raise(py)
    }

    /// Writes a row into the gap log.
    fn gap(&self, py: Python<'_>, kind: &str, detail: &str) -> PyResult<()> {
        py.detach(|| self.0.gap(kind, detail)).or_raise(py)
    }

    /// Writes the queued items, ends the segments and releases the spool. A second call does nothing.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        py.detach(|| self.0.close(clamped(timeout))).or_raise(py)
    }
}
