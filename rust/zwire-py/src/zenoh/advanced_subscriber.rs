//! `AdvancedSubscriber`: past samples, in order, with missed ones recovered from the caches of publishers.

use crate::{
    errors::OrRaise,
    zenoh::{
        advanced::{HistoryConfig, RecoveryConfig},
        bodies::locality,
        enums,
        handle::Handle,
        keyexpr,
        listener::Listener,
        receiver::Receiver,
        session::Session,
        subscriber::{Subscriber, recv_batch},
    },
};
use pyo3::prelude::*;
use std::sync::Arc;
use zwire_engine::{AdvancedSubscriberOptions, Queue};
use zwire_proto::zenoh::{
    advanced::keys,
    session::{EntityId, Sample},
};

/// A subscriber that orders the samples of each publisher, queries caches for missed ones, and reports lost ones.
/// A context manager, and an iterator over its samples unless it has a callback. It undeclares itself when it is
/// dropped, unless it has a callback.
#[pyclass(module = "zwire.zenoh.ext", frozen, weakref, generic, extends = Receiver)]
pub(crate) struct AdvancedSubscriber {
    queue: Arc<Queue<Sample>>,
}

/// Declares an advanced subscriber.
///
/// `history` selects the past samples that it gets, `recovery` how it detects missed samples, and
/// `subscriber_detection` announces it by a liveliness token.
#[pyfunction]
#[pyo3(signature = (
    session, key_expr, handler=None, *, allowed_origin=None, history=None, recovery=None,
    subscriber_detection=None
))]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
pub(crate) fn declare_advanced_subscriber(
    py: Python<'_>,
    session: &Bound<'_, Session>,
    key_expr: &Bound<'_, PyAny>,
    handler: Option<&Bound<'_, PyAny>>,
    allowed_origin: Option<enums::PyLocality>,
    history: Option<&Bound<'_, HistoryConfig>>,
    recovery: Option<&Bound<'_, RecoveryConfig>>,
    subscriber_detection: Option<bool>,
) -> PyResult<Py<AdvancedSubscriber>> {
    let (session, key) = (&session.get().0, keyexpr::extract(key_expr)?);
    let options = AdvancedSubscriberOptions {
        origin: locality(allowed_origin),
        history: history.map(|history| history.get().0),
        recovery: recovery.map(|recovery| recovery.get().0),
        detection: subscriber_detection.unwrap_or(false),
    };
    let (base, queue) =
        Receiver::declare(py, (session, "subscriber"), key, handler, move |engine, key, handler| {
            engine.declare_advanced_subscriber(key, options, handler, None)
        })?;
    Py::new(py, (AdvancedSubscriber { queue }, base))
}

receives_many! { AdvancedSubscriber, "samples", |slf, py| slf.as_super().get().channel(py)?.get() }

#[pymethods]
impl AdvancedSubscriber {
    /// Listens for missed samples: each is reported once, when no cache can provide it.
    ///
    /// Only samples of publishers with `sample_miss_detection` can be reported.
    #[pyo3(signature = (handler=None))]
    fn sample_miss_listener(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<SampleMissListener>> {
        let declared = &slf.as_super().get().declared;
        declared.check(py)?;
        SampleMissListener::new(py, &declared.session, declared.id, handler)
    }

    /// Subscribes to the tokens of publishers on its key that have `publisher_detection`.
    #[pyo3(signature = (handler=None, *, history=None))]
    fn detect_publishers(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
        history: Option<bool>,
    ) -> PyResult<Py<Subscriber>> {
        let Receiver { declared, key, .. } = slf.as_super().get();
        let key = keys::of_all_publishers(key).or_raise(py)?;
        Subscriber::of_tokens(py, &declared.session, key, handler, history)
    }

    /// Takes up to `max_rows` samples as an Arrow record batch; see `Subscriber.recv_batch`.
    #[pyo3(signature = (max_rows=65536, timeout=None))]
    fn recv_batch(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        max_rows: usize,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        recv_batch(py, slf.as_super().get(), &slf.get().queue, max_rows, timeout)
    }
}

/// Listener for the missed samples of an advanced subscriber.
#[pyclass(module = "zwire.zenoh.ext", frozen, weakref, generic, extends = Listener)]
pub(crate) struct SampleMissListener;

impl SampleMissListener {
    fn new(
        py: Python<'_>,
        session: &Handle,
        id: EntityId,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Self>> {
        let base = Listener::new(py, session, "sample miss listener", handler, |engine, handler| {
            let queue = engine.miss_listener(id, handler)?;
            let known = queue.clone();
            Ok((queue, Box::new(move |engine| engine.forget_miss_listener(id, &known))))
        })?;
        Py::new(py, (Self, base))
    }
}
