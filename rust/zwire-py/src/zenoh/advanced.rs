//! Declaring advanced publishers and subscribers, their options, and missed samples: `zwire.zenoh.ext`.

use crate::{
    errors,
    zenoh::{
        bodies::{locality, qos},
        declared::{Declared, Sender},
        encoding, enums, keyexpr,
        publisher::AdvancedPublisher,
        receiver::Receiver,
        session::Session,
        subscriber::AdvancedSubscriber,
        zid::PyEntityGlobalId,
    },
};
use core::time::Duration;
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDelta};
use zwire_engine::{AdvancedPublisherOptions, AdvancedSubscriberOptions};
use zwire_proto::zenoh::{
    Encoding, Qos, Reliability,
    advanced::{HeartbeatMode, History, Miss, Recovery},
    session::PublisherOptions,
};

/// Converts seconds, or a `timedelta`.
fn duration(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds = match value.cast::<PyDelta>() {
        Ok(delta) => delta.call_method0("total_seconds")?.extract::<f64>()?,
        Err(_) => value.extract::<f64>()?,
    };
    let problem = |_| PyValueError::new_err(format!("{name} must be seconds >= 0, not {seconds}"));
    Duration::try_from_secs_f64(seconds).map_err(problem)
}

/// Options for the replies of a cache.
///
/// Replies always take the priority and the congestion control of the query: otherwise their end could
/// overtake them, or they could be dropped without being queried again. eclipse-zenoh does the same.
/// `express` is applied.
#[pyclass(module = "zwire.zenoh.ext", frozen)]
pub(crate) struct RepliesConfig {
    express: Option<bool>,
}

#[pymethods]
impl RepliesConfig {
    #[new]
    #[pyo3(signature = (*, congestion_control=None, priority=None, express=None))]
    fn new(
        congestion_control: Option<enums::PyCongestionControl>,
        priority: Option<enums::PyPriority>,
        express: Option<bool>,
    ) -> Self {
        let _ = (congestion_control, priority);
        Self { express }
    }
}

/// Cache of an advanced publisher: keeps its newest `max_samples` publications, one if that is None.
#[pyclass(module = "zwire.zenoh.ext", frozen)]
pub(crate) struct CacheConfig {
    max_samples: usize,
    express: Option<bool>,
}

#[pymethods]
impl CacheConfig {
    #[new]
    #[pyo3(signature = (max_samples=None, *, replies_config=None))]
    fn new(max_samples: Option<usize>, replies_config: Option<&Bound<'_, RepliesConfig>>) -> Self {
        let express = replies_config.and_then(|config| config.get().express);
        Self { max_samples: max_samples.unwrap_or(1), express }
    }
}

impl CacheConfig {
    /// Number of samples, and whether replies are sent without batching.
    pub(crate) fn parts(&self, py: Python<'_>) -> PyResult<(usize, Option<bool>)> {
        if self.max_samples == 0 {
            return Err(errors::usage(py, "max_samples of a cache must not be zero"));
        }
        Ok((self.max_samples, self.express))
    }
}

/// Miss detection for the subscribers of an advanced publisher: its publications carry sequence numbers.
///
/// `heartbeat` announces the last number periodically, at intervals of that many seconds.
/// `sporadic_heartbeat` announces it once, that many seconds after a publication. Only one of them can be
/// given.
#[pyclass(module = "zwire.zenoh.ext", frozen)]
pub(crate) struct MissDetectionConfig(pub(crate) Option<HeartbeatMode>);

#[pymethods]
impl MissDetectionConfig {
    #[new]
    #[pyo3(signature = (*, heartbeat=None, sporadic_heartbeat=None))]
    fn new(
        heartbeat: Option<&Bound<'_, PyAny>>,
        sporadic_heartbeat: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self(match (heartbeat, sporadic_heartbeat) {
            (None, None) => None,
            (Some(period), None) => Some(HeartbeatMode::Periodic(duration("heartbeat", period)?)),
            (None, Some(period)) => Some(HeartbeatMode::Sporadic(duration("sporadic_heartbeat", period)?)),
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("heartbeat and sporadic_heartbeat exclude each other"));
            }
        }))
    }
}

/// Past samples for an advanced subscriber: at most `max_samples` of each publisher that has a cache,
/// none older than `max_age` seconds.
///
/// With `detect_late_publishers` also those of publishers that appear later, if they have
/// `publisher_detection`.
#[pyclass(module = "zwire.zenoh.ext", frozen)]
pub(crate) struct HistoryConfig(pub(crate) History);

#[pymethods]
impl HistoryConfig {
    #[new]
    #[pyo3(signature = (*, detect_late_publishers=None, max_samples=None, max_age=None))]
    fn new(
        detect_late_publishers: Option<bool>,
        max_samples: Option<u64>,
        max_age: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let max_age = max_age.map(|age| duration("max_age", age)).transpose()?;
        Ok(Self(History { late: detect_late_publishers.unwrap_or(false), max_samples, max_age }))
    }
}

/// Recovery of missed samples for an advanced subscriber: it queries the caches of publishers.
///
/// A gap is detected when a newer sample arrives. A missing last sample is detected by the `heartbeat` of the
/// publisher, or by queries every `periodic_queries` seconds (or `timedelta`). One of them has to be given.
#[pyclass(module = "zwire.zenoh.ext", frozen)]
pub(crate) struct RecoveryConfig(pub(crate) Recovery);

#[pymethods]
impl RecoveryConfig {
    #[new]
    #[pyo3(signature = (*, periodic_queries=None, heartbeat=None))]
    fn new(periodic_queries: Option<&Bound<'_, PyAny>>, heartbeat: Option<bool>) -> PyResult<Self> {
        Ok(Self(match (periodic_queries, heartbeat.unwrap_or(false)) {
            (Some(period), false) => Recovery::Periodic(duration("periodic_queries", period)?),
            (None, true) => Recovery::Heartbeat,
            _ => {
                let what = "give one of periodic_queries and heartbeat=True, and not both";
                return Err(PyValueError::new_err(what));
            }
        }))
    }
}

/// Optional arguments of a configuration, in its text.
fn arguments<const N: usize>(given: [(&str, Option<String>); N]) -> String {
    let given = given.into_iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}")));
    given.collect::<Vec<_>>().join(", ")
}

/// A truth value as Python writes it.
fn truth(value: bool) -> String {
    if value { "True" } else { "False" }.to_owned()
}

fn seconds(value: Duration) -> String {
    value.as_secs_f64().to_string()
}

#[pymethods]
impl RepliesConfig {
    fn __repr__(&self) -> String {
        format!("RepliesConfig({})", arguments([("express", self.express.map(truth))]))
    }
}

#[pymethods]
impl CacheConfig {
    fn __repr__(&self) -> String {
        let replies = self.express.map(|express| format!("RepliesConfig(express={})", truth(express)));
        let given = [("max_samples", Some(self.max_samples.to_string())), ("replies_config", replies)];
        format!("CacheConfig({})", arguments(given))
    }
}

#[pymethods]
impl MissDetectionConfig {
    fn __repr__(&self) -> String {
        let (periodic, sporadic) = match self.0 {
            Some(HeartbeatMode::Periodic(period)) => (Some(seconds(period)), None),
            Some(HeartbeatMode::Sporadic(period)) => (None, Some(seconds(period))),
            None => (None, None),
        };
        let given = [("heartbeat", periodic), ("sporadic_heartbeat", sporadic)];
        format!("MissDetectionConfig({})", arguments(given))
    }
}

#[pymethods]
impl HistoryConfig {
    fn __repr__(&self) -> String {
        let given = [
            ("detect_late_publishers", self.0.late.then(|| truth(true))),
            ("max_samples", self.0.max_samples.map(|count| count.to_string())),
            ("max_age", self.0.max_age.map(seconds)),
        ];
        format!("HistoryConfig({})", arguments(given))
    }
}

#[pymethods]
impl RecoveryConfig {
    fn __repr__(&self) -> String {
        match self.0 {
            Recovery::Periodic(period) => format!("RecoveryConfig(periodic_queries={})", seconds(period)),
            Recovery::Heartbeat => "RecoveryConfig(heartbeat=True)".to_owned(),
        }
    }
}

/// Consecutive publications that an advanced subscriber has missed.
#[pyclass(module = "zwire.zenoh.ext", name = "Miss", frozen, eq, skip_from_py_object)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PyMiss(Miss);

attributes! { PyMiss, |this|
    /// Publisher of the missed samples.
    source: PyEntityGlobalId = PyEntityGlobalId::of(this.0.source.zid, this.0.source.eid);
    /// Number of missed samples.
    nb: u64 = this.0.count;
}

#[pymethods]
impl PyMiss {
    fn __repr__(&self) -> String {
        format!("<Miss {} of {}/{}>", self.0.count, self.0.source.zid, self.0.source.eid)
    }
}

items! { Miss => PyMiss }

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

/// Declares an advanced subscriber.
///
/// `history` selects the past samples that it gets, `recovery` how it detects missed samples, and
/// `subscriber_detection` announces it by a liveliness token.
#[pyfunction]
#[pyo3(signature = (
    session, key_expr, handler=None, *, allowed_origin=None, history=None, recovery=None,
    subscriber_detection=None
))]
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
