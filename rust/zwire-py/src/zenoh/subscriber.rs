//! `Subscriber`: samples of a key expression; `AdvancedSubscriber`: past samples, in order, with missed ones recovered
//! from the caches of publishers.

use crate::{
    arrow::{ArrowBatch, take_batch},
    errors::OrRaise,
    loops::calling::Item,
    zenoh::{
        handle::Handle,
        listener::Listener,
        receiver::{Queued, Receiver},
    },
};
use pyo3::prelude::*;
use std::sync::Arc;
use zwire_columns::samples;
use zwire_engine::{Handler, Origins, Queue, Session as Engine};
use zwire_proto::zenoh::{
    KeyExpr,
    advanced::{Miss, keys},
    session::Sample,
};

/// A declared subscriber. A context manager, and an iterator over its samples unless it has a
/// callback. It undeclares itself when it is dropped, unless it has a callback.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic, extends = Receiver)]
pub(crate) struct Subscriber {
    queue: Arc<Queue<Sample>>,
}

impl Subscriber {
    /// Declares a subscriber by a command of the engine.
    pub(crate) fn declare(
        py: Python<'_>,
        session: &Handle,
        key: KeyExpr,
        handler: Option<&Bound<'_, PyAny>>,
        declare: impl FnOnce(&Engine, KeyExpr, Handler) -> Queued<Sample> + Send,
    ) -> PyResult<Py<Self>> {
        let (base, queue) = Receiver::declare(py, (session, "subscriber"), key, handler, declare)?;
        Py::new(py, (Self { queue }, base))
    }

    /// Subscribes to liveliness tokens.
    pub(crate) fn of_tokens(
        py: Python<'_>,
        session: &Handle,
        key: KeyExpr,
        handler: Option<&Bound<'_, PyAny>>,
        history: Option<bool>,
    ) -> PyResult<Py<Self>> {
        let history = history.unwrap_or(false);
        Self::declare(py, session, key, handler, move |engine, key, handler| {
            engine.declare_liveliness_subscriber(key, history, handler)
        })
    }

    /// Key and queue, for a thread of the recorder that takes the samples.
    pub(crate) fn source(slf: &Bound<'_, Self>) -> (KeyExpr, Arc<Queue<Sample>>) {
        (slf.as_super().get().key.clone(), slf.get().queue.clone())
    }

    /// What it misses from now on, if it is an advanced subscriber.
    pub(crate) fn misses(slf: &Bound<'_, Self>) -> Option<Arc<Queue<Miss>>> {
        let declared = &slf.as_super().get().declared;
        declared.session.0.engine.miss_listener(declared.id, Handler::Default).ok()
    }

    /// Locators of the links by which samples arrive.
    pub(crate) fn origins(slf: &Bound<'_, Self>) -> Arc<Origins> {
        slf.as_super().get().declared.session.0.engine.origins()
    }
}

/// Up to `max_rows` samples of a subscriber as an Arrow record batch.
pub(crate) fn recv_batch(
    py: Python<'_>,
    receiver: &Receiver,
    queue: &Arc<Queue<Sample>>,
    max_rows: usize,
    timeout: Option<f64>,
) -> PyResult<ArrowBatch> {
    let channel = receiver.channel(py)?;
    receiver.declared.session.0.engine.check().or_raise(py).or_else(|e| {
        // Samples received before the end can still be taken.
        if queue.is_empty() { Err(e) } else { Ok(()) }
    })?;
    let failed = |error| channel.get().error(py, error, timeout);
    take_batch(py, queue, max_rows, timeout, samples::batch, failed)
}

attributes! { Subscriber, |this|
    /// Number of samples replaced by newer ones of their key, in a `LatestChannel`.
    replaced: u64 = this.queue.replaced();
}

attributes! { Subscriber in Bound, |slf|
    /// Number of exceptions raised by its callback.
    errors: u64 = slf.as_super().get().life.errors();
}

/// Takes many samples at once, as a list or as an Arrow record batch; both classes hold the same queue.
macro_rules! samples_at_once {
    ($class:ident) => {
        receives_many! { $class, "samples", |slf, py| slf.as_super().get().channel(py)?.get() }

        #[pymethods]
        impl $class {
            /// Takes up to `max_rows` samples as an Arrow record batch, built without a Python object per sample.
            ///
            /// Columns: key, payload, kind, encoding, timestamp, attachment, priority, congestion, express.
            /// Waits for the first sample only; at the timeout the batch is empty. A batch holds about 8 MiB at
            /// most, and a sample of 256 KiB or more alone, without a copy. The result offers the Arrow C
            /// interface, which `pyarrow.record_batch(...)` and polars read without a copy.
            #[pyo3(signature = (max_rows=65536, timeout=None))]
            fn recv_batch(
                slf: &Bound<'_, Self>,
                py: Python<'_>,
                max_rows: usize,
                timeout: Option<f64>,
            ) -> PyResult<ArrowBatch> {
                recv_batch(py, slf.as_super().get(), &slf.get().queue, max_rows, timeout)
            }
        }
    };
}

samples_at_once! { Subscriber }

impl Item for Sample {
    #[inline]
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, crate::zenoh::sample::PySample::arrived(py, self)?)?.into_any())
    }
}

/// A subscriber that orders the samples of each publisher, queries caches for missed ones, and reports lost ones.
/// A context manager, and an iterator over its samples unless it has a callback. It undeclares itself when it is
/// dropped, unless it has a callback.
#[pyclass(module = "zwire.zenoh.ext", frozen, weakref, generic, extends = Receiver)]
pub(crate) struct AdvancedSubscriber {
    pub(crate) queue: Arc<Queue<Sample>>,
}

samples_at_once! { AdvancedSubscriber }

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
        let id = declared.id;
        let base =
            Listener::new(py, &declared.session, "sample miss listener", handler, |engine, handler| {
                let queue = engine.miss_listener(id, handler)?;
                let known = queue.clone();
                Ok((queue, Box::new(move |engine| engine.forget_miss_listener(id, &known))))
            })?;
        Py::new(py, (SampleMissListener, base))
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
}

/// Listener for the missed samples of an advanced subscriber.
#[pyclass(module = "zwire.zenoh.ext", frozen, weakref, generic, extends = Listener)]
pub(crate) struct SampleMissListener;
