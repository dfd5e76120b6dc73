//! `Publisher`, and listeners for the matching status.

use crate::{
    loops::{item::Item, turn::Turn},
    zenoh::{
        bodies::{del_body, put_body},
        declared::Declared,
        encoding, enums,
        handle::Handle,
        listener::Listener,
        sender::Sender,
        stamps,
    },
};
use pyo3::prelude::*;
use zwire_proto::zenoh::{
    Encoding, KeyExpr,
    session::{EntityId, PublisherOptions},
    wire::PushBody,
};

/// Whether there is a matching subscriber or queryable. Usable as a condition.
#[pyclass(module = "zwire.zenoh", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MatchingStatus {
    /// Whether there is a match.
    #[pyo3(get)]
    matching: bool,
}

#[pymethods]
impl MatchingStatus {
    const fn __bool__(&self) -> bool {
        self.matching
    }

    fn __repr__(&self) -> String {
        format!("MatchingStatus(matching={})", if self.matching { "True" } else { "False" })
    }
}

impl Item for bool {
    fn into_py(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, MatchingStatus { matching: self })?.into_any())
    }
}

/// Matching status of a publisher or querier. In a closed session there is no match.
pub(crate) fn matching_status(py: Python<'_>, session: &Handle, id: EntityId) -> PyResult<MatchingStatus> {
    if session.look(py)?.is_closed() {
        return Ok(MatchingStatus { matching: false });
    }
    session.run(py, move |engine, _| engine.matching(id)).map(|matching| MatchingStatus { matching })
}

/// Listener for changes of the matching status.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic, extends = Listener)]
pub(crate) struct MatchingListener;

impl MatchingListener {
    pub(crate) fn new(
        py: Python<'_>,
        session: &Handle,
        id: EntityId,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Self>> {
        let base = Listener::new(py, session, "matching listener", handler, |engine, handler| {
            let queue = engine.matching_listener(id, handler)?;
            let known = queue.clone();
            Ok((queue, Box::new(move |engine| engine.forget_matching_listener(id, &known))))
        })?;
        Py::new(py, (Self, base))
    }
}

/// A declared publisher. A context manager; it undeclares itself when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref, extends = Sender)]
pub(crate) struct Publisher {
    /// Default encoding of values.
    encoding: Encoding,
    options: PublisherOptions,
}

impl Publisher {
    pub(crate) fn new(
        py: Python<'_>,
        session: Handle,
        id: EntityId,
        key: KeyExpr,
        encoding: Encoding,
        options: PublisherOptions,
    ) -> PyResult<Py<Self>> {
        let base = Sender { declared: Declared::new(session, id, "publisher"), key };
        Py::new(py, (Self { encoding, options }, base))
    }

    fn publish(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        body: PushBody,
        instrumentation: Option<&Bound<'_, PyAny>>,
        turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        let declared = &slf.as_super().get().declared;
        let stamps = stamps::wanted(py, &declared.session, instrumentation)?;
        let (id, qos) = (declared.id, slf.get().options.qos);
        let session = &declared.session;
        let result =
            session.command(py, turn, |engine, call| engine.publish(id, qos, body, stamps, call).map(drop));
        // The engine reports an unknown entity; this object knows that it was undeclared.
        result.or_else(|error| declared.check(py).and(Err(error)))
    }
}

attributes! { Publisher, |this|
    /// Default encoding of its values.
    encoding: encoding::PyEncoding = encoding::PyEncoding(this.encoding.clone());
    /// Congestion control of its publications: the policy for a full queue.
    congestion_control: enums::PyCongestionControl =
        enums::PyCongestionControl(this.options.qos.congestion());
    /// Priority of its publications.
    priority: enums::PyPriority = enums::PyPriority(this.options.qos.priority());
    /// Reliability of its publications.
    reliability: enums::PyReliability = enums::PyReliability(this.options.reliability);
}

#[pymethods]
impl Publisher {
    /// Whether there are subscribers for its publications.
    #[getter]
    fn matching_status(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<MatchingStatus> {
        let declared = &slf.as_super().get().declared;
        matching_status(py, &declared.session, declared.id)
    }

    /// Publishes a value.
    #[pyo3(
        signature = (
            payload, *, encoding=None, attachment=None, timestamp=None, timestamp_instrumentation=None,
            source_info=None, _turn=None
        ),
        text_signature = "($self, payload, *, encoding=None, attachment=None, timestamp=None, \
            timestamp_instrumentation=None, source_info=None)"
    )]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
    fn put(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        encoding: Option<&Bound<'_, PyAny>>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        source_info: Option<&Bound<'_, PyAny>>,
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        let default = slf.get().encoding.clone();
        let body = put_body(payload, encoding, default, attachment, timestamp, source_info)?;
        Self::publish(slf, py, body, timestamp_instrumentation, _turn)
    }

    /// Publishes a deletion.
    #[pyo3(
        signature = (
            *, attachment=None, timestamp=None, timestamp_instrumentation=None, source_info=None, _turn=None
        ),
        text_signature = "($self, *, attachment=None, timestamp=None, timestamp_instrumentation=None, source_info=None)"
    )]
    fn delete(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        source_info: Option<&Bound<'_, PyAny>>,
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        Self::publish(
            slf,
            py,
            del_body(attachment, timestamp, source_info)?,
            timestamp_instrumentation,
            _turn,
        )
    }

    /// Listens for changes of the matching status.
    #[pyo3(signature = (handler=None))]
    fn declare_matching_listener(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<MatchingListener>> {
        let declared = &slf.as_super().get().declared;
        MatchingListener::new(py, &declared.session, declared.id, handler)
    }
}
