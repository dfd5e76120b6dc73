//! `Publisher`, `AdvancedPublisher` with a cache and sequence numbers, and listeners for the matching status.

use crate::{
    loops::{calling::Item, turn::Turn},
    zenoh::{
        bodies::{del_body, put_body},
        declared::Sender,
        encoding::PyEncoding,
        enums,
        handle::Handle,
        listener::Listener,
        loan::Loan,
        stamps,
        zbytes::Copier,
    },
};
use pyo3::prelude::*;
use zwire_engine::SharedMessage;
use zwire_proto::zenoh::{
    Encoding,
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

/// Matching status of a publisher or querier, and listeners for its changes.
macro_rules! matching {
    ($class:ident, $status:literal) => {
        #[pymethods]
        impl $class {
            #[doc = $status]
            #[getter]
            fn matching_status(
                slf: &Bound<'_, Self>,
                py: Python<'_>,
            ) -> PyResult<crate::zenoh::publisher::MatchingStatus> {
                let declared = &slf.as_super().get().declared;
                crate::zenoh::publisher::matching_status(py, &declared.session, declared.id)
            }

            /// Listens for changes of the matching status.
            #[pyo3(signature = (handler=None))]
            fn declare_matching_listener(
                slf: &Bound<'_, Self>,
                py: Python<'_>,
                handler: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<Py<crate::zenoh::publisher::MatchingListener>> {
                use crate::zenoh::{listener::Listener, publisher::MatchingListener};
                let declared = &slf.as_super().get().declared;
                let (name, id) = ("matching listener", declared.id);
                let base = Listener::new(py, &declared.session, name, handler, |engine, handler| {
                    let queue = engine.matching_listener(id, handler)?;
                    let known = queue.clone();
                    Ok((queue, Box::new(move |engine| engine.forget_matching_listener(id, &known))))
                })?;
                Py::new(py, (MatchingListener, base))
            }
        }
    };
}
pub(crate) use matching;

/// Attributes and publications of a publisher: the command of the engine; whether payloads are copied to shared memory at
/// once (a cache would fill it); the argument `source_info` if it takes one; and the signatures to be shown.
macro_rules! publisher {
    ($class:ident, $publish:ident, $places:literal, $($source:ident)?, $put:literal, $delete:literal) => {
        attributes! { $class, |this|
            /// Default encoding of its values.
            encoding: PyEncoding = PyEncoding(this.encoding.clone());
            /// Congestion control of its publications: the policy for a full queue.
            congestion_control: enums::PyCongestionControl =
                enums::PyCongestionControl(this.options.qos.congestion());
            /// Priority of its publications.
            priority: enums::PyPriority = enums::PyPriority(this.options.qos.priority());
        }

        #[pymethods]
        impl $class {
            /// Publishes a value.
            #[pyo3(
                signature = (
                    payload, *, encoding=None, attachment=None, timestamp=None, timestamp_instrumentation=None,
                    $($source=None,)? _turn=None
                ),
                text_signature = $put
            )]
            fn put(
                slf: &Bound<'_, Self>,
                py: Python<'_>,
                payload: &Bound<'_, PyAny>,
                encoding: Option<&Bound<'_, PyAny>>,
                attachment: Option<&Bound<'_, PyAny>>,
                timestamp: Option<&Bound<'_, PyAny>>,
                timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
                $($source: Option<&Bound<'_, PyAny>>,)?
                _turn: Option<&Bound<'_, Turn>>,
            ) -> PyResult<()> {
                let body = Self::body(slf, payload, encoding, attachment, timestamp, None$(.or($source))?)?;
                Self::publish(slf, py, body, timestamp_instrumentation, _turn.map(Bound::get))
            }

            /// Memory for a payload that is written in place and then sent by `put` without a copy: `loan(nbytes)`,
            /// or `loan(shape, dtype)` for a NumPy array.
            #[pyo3(signature = (shape, dtype=None))]
            fn loan(
                slf: &Bound<'_, Self>,
                py: Python<'_>,
                shape: &Bound<'_, PyAny>,
                dtype: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<Loan> {
                Loan::of_session(slf.as_super().get().declared.session.look(py)?, shape, dtype)
            }

            /// Publishes a deletion.
            #[pyo3(
                signature = (
                    *, attachment=None, timestamp=None, timestamp_instrumentation=None, $($source=None,)? _turn=None
                ),
                text_signature = $delete
            )]
            fn delete(
                slf: &Bound<'_, Self>,
                py: Python<'_>,
                attachment: Option<&Bound<'_, PyAny>>,
                timestamp: Option<&Bound<'_, PyAny>>,
                timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
                $($source: Option<&Bound<'_, PyAny>>,)?
                _turn: Option<&Bound<'_, Turn>>,
            ) -> PyResult<()> {
                let body = del_body(attachment, timestamp, None$(.or($source))?)?;
                Self::publish(slf, py, body, timestamp_instrumentation, _turn.map(Bound::get))
            }
        }

        impl $class {
            fn body(
                slf: &Bound<'_, Self>,
                payload: &Bound<'_, PyAny>,
                encoding: Option<&Bound<'_, PyAny>>,
                attachment: Option<&Bound<'_, PyAny>>,
                timestamp: Option<&Bound<'_, PyAny>>,
                source: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<PushBody> {
                let engine = &slf.as_super().get().declared.session.0.engine;
                let copier: Copier<'_> = &|bytes| engine.copy(SharedMessage::Put, bytes);
                let (copier, default) = ($places.then_some(copier), slf.get().encoding.clone());
                put_body(copier, payload, encoding, default, attachment, timestamp, source)
            }

            fn publish(
                slf: &Bound<'_, Self>,
                py: Python<'_>,
                body: PushBody,
                instrumentation: Option<&Bound<'_, PyAny>>,
                turn: Option<&Turn>,
            ) -> PyResult<()> {
                let declared = &slf.as_super().get().declared;
                let stamps = stamps::wanted(py, &declared.session, instrumentation)?;
                let (id, qos) = (declared.id, slf.get().options.qos);
                let result = declared
                    .session
                    .command(py, turn, |engine, call| engine.$publish(id, qos, body, stamps, call).map(drop));
                // The engine reports an unknown entity; this object knows that it was undeclared.
                result.or_else(|error| declared.check(py).and(Err(error)))
            }
        }
    };
}

/// A declared publisher. A context manager; it undeclares itself when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref, extends = Sender)]
pub(crate) struct Publisher {
    /// Default encoding of values.
    pub(crate) encoding: Encoding,
    pub(crate) options: PublisherOptions,
}

attributes! { Publisher, |this|
    /// Reliability of its publications.
    reliability: enums::PyReliability = enums::PyReliability(this.options.reliability);
}

matching! { Publisher, "Whether there are subscribers for its publications." }

publisher! {
    Publisher, publish, true, source_info,
    "($self, payload, *, encoding=None, attachment=None, timestamp=None, timestamp_instrumentation=None, \
        source_info=None)",
    "($self, *, attachment=None, timestamp=None, timestamp_instrumentation=None, source_info=None)"
}

impl Publisher {
    /// Publishes a value without options in a turn of an event loop.
    pub(crate) fn put_in_turn(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        payload: &Bound<'_, PyAny>,
        turn: &Turn,
    ) -> PyResult<()> {
        let body = Self::body(slf, payload, None, None, None, None)?;
        Self::publish(slf, py, body, None, Some(turn))
    }
}

/// A publisher that numbers and caches its publications. A context manager; it undeclares itself when it
/// is dropped.
#[pyclass(module = "zwire.zenoh.ext", frozen, weakref, extends = Sender)]
pub(crate) struct AdvancedPublisher {
    /// Default encoding of values.
    pub(crate) encoding: Encoding,
    pub(crate) options: PublisherOptions,
}

publisher! {
    AdvancedPublisher, publish_advanced, false, ,
    "($self, payload, *, encoding=None, attachment=None, timestamp=None, timestamp_instrumentation=None)",
    "($self, *, attachment=None, timestamp=None, timestamp_instrumentation=None)"
}
