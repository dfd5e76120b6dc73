//! `AdvancedPublisher`: a publisher with a cache and sequence numbers.

use crate::{
    loops::turn::Turn,
    zenoh::{
        advanced::{CacheConfig, MissDetectionConfig},
        bodies::{del_body, locality, put_body, qos},
        declared::Declared,
        encoding, enums, keyexpr,
        sender::Sender,
        session::Session,
        stamps,
    },
};
use pyo3::prelude::*;
use zwire_engine::AdvancedPublisherOptions;
use zwire_proto::zenoh::{Encoding, Qos, Reliability, session::PublisherOptions, wire::PushBody};

/// A publisher that numbers and caches its publications. A context manager; it undeclares itself when it
/// is dropped.
#[pyclass(module = "zwire.zenoh.ext", frozen, weakref, extends = Sender)]
pub(crate) struct AdvancedPublisher {
    /// Default encoding of values.
    encoding: Encoding,
    options: PublisherOptions,
}

/// Declares an advanced publisher.
///
/// `cache` keeps its newest publications, `sample_miss_detection` numbers them, and `publisher_detection`
/// announces it by a liveliness token. A cache without numbers needs a session that adds timestamps to
/// publications (`timestamping/enabled`).
#[pyfunction]
#[pyo3(signature = (
    session, key_expr, *, encoding=None, congestion_control=None, priority=None, express=None,
    reliability=None, allowed_destination=None, cache=None, sample_miss_detection=None,
    publisher_detection=None
))]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the API")]
pub(crate) fn declare_advanced_publisher(
    py: Python<'_>,
    session: &Bound<'_, Session>,
    key_expr: &Bound<'_, PyAny>,
    encoding: Option<&Bound<'_, PyAny>>,
    congestion_control: Option<enums::PyCongestionControl>,
    priority: Option<enums::PyPriority>,
    express: Option<bool>,
    reliability: Option<enums::PyReliability>,
    allowed_destination: Option<enums::PyLocality>,
    cache: Option<&Bound<'_, CacheConfig>>,
    sample_miss_detection: Option<&Bound<'_, MissDetectionConfig>>,
    publisher_detection: Option<bool>,
) -> PyResult<Py<AdvancedPublisher>> {
    let handle = session.get().0.clone();
    let key = keyexpr::extract(key_expr)?;
    let encoding = encoding::extract_option(encoding)?.unwrap_or(Encoding::DEFAULT);
    let options = PublisherOptions {
        qos: qos(Qos::DEFAULT, congestion_control, priority, express),
        reliability: reliability.map_or(Reliability::Reliable, |r| r.0),
        destination: locality(allowed_destination),
    };
    let cache = cache.map(|cache| cache.get().parts(py)).transpose()?;
    let advanced = AdvancedPublisherOptions {
        cache: cache.map(|(most, _)| most),
        express: cache.and_then(|(_, express)| express),
        numbered: sample_miss_detection.is_some(),
        heartbeat: sample_miss_detection.and_then(|detection| detection.get().0),
        detection: publisher_detection.unwrap_or(false),
    };
    let (declared, with) = (key.clone(), options.clone());
    let id = handle.run(py, move |engine, _| engine.declare_advanced_publisher(declared, with, advanced))?;
    let declared = Declared::new(handle, id, "advanced publisher");
    Py::new(py, (AdvancedPublisher { encoding, options }, Sender { declared, key }))
}

impl AdvancedPublisher {
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
        let result = declared
            .session
            .command(py, turn, |engine, call| engine.publish_advanced(id, qos, body, stamps, call).map(drop));
        // The engine reports an unknown entity; this object knows that it was undeclared.
        result.or_else(|error| declared.check(py).and(Err(error)))
    }
}

attributes! { AdvancedPublisher, |this|
    /// Default encoding of its values.
    encoding: encoding::PyEncoding = encoding::PyEncoding(this.encoding.clone());
    /// Congestion control of its publications: the policy for a full queue.
    congestion_control: enums::PyCongestionControl =
        enums::PyCongestionControl(this.options.qos.congestion());
    /// Priority of its publications.
    priority: enums::PyPriority = enums::PyPriority(this.options.qos.priority());
}

#[pymethods]
impl AdvancedPublisher {
    /// Publishes a value.
    #[pyo3(
        signature = (
            payload, *, encoding=None, attachment=None, timestamp=None, timestamp_instrumentation=None, _turn=None
        ),
        text_signature = "($self, payload, *, encoding=None, attachment=None, timestamp=None, \
            timestamp_instrumentation=None)"
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
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        let default = slf.get().encoding.clone();
        let body = put_body(payload, encoding, default, attachment, timestamp, None)?;
        Self::publish(slf, py, body, timestamp_instrumentation, _turn)
    }

    /// Publishes a deletion.
    #[pyo3(
        signature = (*, attachment=None, timestamp=None, timestamp_instrumentation=None, _turn=None),
        text_signature = "($self, *, attachment=None, timestamp=None, timestamp_instrumentation=None)"
    )]
    fn delete(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        attachment: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
        timestamp_instrumentation: Option<&Bound<'_, PyAny>>,
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<()> {
        Self::publish(slf, py, del_body(attachment, timestamp, None)?, timestamp_instrumentation, _turn)
    }
}
