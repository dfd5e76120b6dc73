//! `Sample`, `SourceInfo` and `EntityGlobalId`.

use crate::{
    errors,
    zenoh::{
        encoding::PyEncoding,
        enums::{PyCongestionControl, PyPriority, PyReliability, PySampleKind},
        keyexpr::PyKeyExpr,
        stamps::{self, PyTimestampStack},
        timestamp::{self, PyTimestamp},
        zbytes::PyZBytes,
        zid::PyEntityGlobalId,
    },
};
use core::hash::{Hash, Hasher};
use pyo3::prelude::*;
use std::collections::hash_map::DefaultHasher;
use zwire_proto::zenoh::{
    Payload, Priority, Qos,
    session::{Sample, Stamps},
    wire::{SourceInfo, TsStack},
};

/// Entity that made a sample, and the sample's sequence number there.
#[pyclass(name = "SourceInfo", module = "zwire.zenoh", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PySourceInfo(pub(crate) SourceInfo);

/// Extracts an optional `SourceInfo`.
pub(crate) fn source_info(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<SourceInfo>> {
    let of = |obj: &Bound<'_, PyAny>| match obj.cast::<PySourceInfo>() {
        Ok(value) => Ok(value.get().0),
        Err(_) => Err(errors::wrong_type("a SourceInfo", obj)),
    };
    obj.map(of).transpose()
}

attributes! { PySourceInfo, |this|
    /// Entity that made the sample.
    source_id: PyEntityGlobalId = PyEntityGlobalId::of(this.0.zid, this.0.eid);
    /// Sequence number of the sample at its source.
    source_sn: u32 = this.0.sn;
}

pickled! { PySourceInfo, |this, _py| (this.source_id(), this.0.sn) }

#[pymethods]
impl PySourceInfo {
    #[new]
    fn new(source_id: &PyEntityGlobalId, source_sn: u32) -> Self {
        Self(SourceInfo { zid: source_id.zid, eid: source_id.eid, sn: source_sn })
    }

    fn __repr__(&self) -> String {
        format!("SourceInfo({}, source_sn={})", self.source_id().__repr__(), self.0.sn)
    }
}

/// Value of a key, or its deletion: what subscribers and gets receive.
#[pyclass(name = "Sample", module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct PySample {
    /// The sample without its payload.
    sample: Sample,
    // Made with the sample, since nearly every program reads it: returning an existing object is cheaper
    // than making one for each access.
    /// The value; empty for a deletion.
    #[pyo3(get)]
    payload: Py<PyZBytes>,
}

impl PySample {
    fn new(py: Python<'_>, mut sample: Sample) -> PyResult<Self> {
        let payload = Py::new(py, PyZBytes::from(core::mem::take(&mut sample.payload)))?;
        // The link is not part of a sample where samples are compared and pickled.
        sample.link = 0;
        Ok(Self { sample, payload })
    }

    /// Makes a sample that has just arrived.
    #[inline]
    pub(crate) fn arrived(py: Python<'_>, mut sample: Sample) -> PyResult<Self> {
        if sample.stamps.is_some() {
            let stack = stamps::arrived(py, sample.stamps.take());
            sample.stamps = stack.map(|stack| Box::new(settled(stack)));
        }
        Self::new(py, sample)
    }

    fn bytes(&self, py: Python<'_>) -> PyResult<Payload> {
        self.payload.get().kept(py)
    }
}

/// Stamps to which no more are added.
const fn settled(stack: TsStack) -> Stamps {
    Stamps { stack, route: None, pending: None }
}

attributes! { PySample, |this|
    /// Key of the sample.
    key_expr: PyKeyExpr = PyKeyExpr(this.sample.key.clone());
    /// Kind of the sample: a value or a deletion.
    kind: PySampleKind = PySampleKind(this.sample.kind);
    /// Encoding of the payload.
    encoding: PyEncoding = PyEncoding(this.sample.encoding.clone());
    /// Time at which it was made, if it has a timestamp.
    timestamp: Option<PyTimestamp> = this.sample.timestamp.map(PyTimestamp);
    /// Congestion control of the sample: the policy for a full queue.
    congestion_control: PyCongestionControl = PyCongestionControl(this.sample.qos.congestion());
    /// Priority of the sample. The priority Control, which only the protocol should use, is shown as `DATA`.
    priority: PyPriority = PyPriority(match this.sample.qos.priority() {
        Priority::Control => Priority::default(),
        priority => priority,
    });
    /// Whether it was sent without batching.
    express: bool = this.sample.qos.express();
    /// Reliability with which it was sent.
    reliability: PyReliability = PyReliability(this.sample.reliability);
    /// Attachment of the user, if there is one.
    attachment: Option<PyZBytes> = this.sample.attachment.clone().map(PyZBytes::from);
    /// Source of the sample, if it carries one.
    source_info: Option<PySourceInfo> = this.sample.source_info.as_deref().copied().map(PySourceInfo);
    /// Time stamps of its way, if its sender asked for them.
    timestamp_stack: Option<PyTimestampStack> =
        stamps::shown(this.sample.stamps.as_deref().map(|stamps| &stamps.stack));
}

pickled! { PySample by _restore, |this, py| (
    this.key_expr(),
    this.kind(),
    this.payload.clone_ref(py),
    this.encoding(),
    this.timestamp(),
    this.sample.qos.0,
    this.reliability(),
    this.source_info(),
    this.attachment(),
    this.sample.stamps.as_deref().map(|stamps| stamps::parts(&stamps.stack)),
) }

#[pymethods]
impl PySample {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let kind = self.kind().into_pyobject(py)?.repr()?;
        let payload = self.payload.bind(py).repr()?;
        Ok(format!("<Sample {} {kind} {payload} {}>", self.sample.key, self.sample.encoding))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        let mut hasher = DefaultHasher::new();
        (&self.sample.key, &*self.bytes(py)?, self.sample.timestamp).hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        Ok(self.sample == other.sample && self.bytes(py)? == other.bytes(py)?)
    }

    /// Constructor for pickle. Older pickles have no stack.
    #[staticmethod]
    #[pyo3(signature = (key, kind, payload, encoding, timestamp, qos, reliability, source, attachment, stack=None))]
    fn _restore(
        key: &PyKeyExpr,
        kind: PySampleKind,
        payload: &Bound<'_, PyZBytes>,
        encoding: &PyEncoding,
        timestamp: Option<&Bound<'_, PyAny>>,
        qos: u8,
        reliability: PyReliability,
        source: Option<&Bound<'_, PyAny>>,
        attachment: Option<&Bound<'_, PyZBytes>>,
        stack: Option<stamps::StackParts>,
    ) -> PyResult<Self> {
        let sample = Sample {
            key: key.0.clone(),
            kind: kind.0,
            payload: payload.get().kept(payload.py())?,
            encoding: encoding.0.clone(),
            timestamp: timestamp::extract_option(timestamp)?,
            qos: Qos(qos),
            reliability: reliability.0,
            source_info: source_info(source)?.map(Box::new),
            attachment: attachment
                .map(|attachment| attachment.get().kept(attachment.py()).map(Payload::into_bytes))
                .transpose()?,
            stamps: stack.map(|stack| Box::new(settled(stamps::of_parts(stack)))),
            link: 0,
        };
        Self::new(payload.py(), sample)
    }
}
