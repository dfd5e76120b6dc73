//! `SessionInfo`, `Transport` and `Link`: who is connected, and how.

use crate::{enums::PyReliability, enums::PyWhatAmI, session::Handle, zid::PyZenohId};
use pyo3::prelude::*;
use zwire_engine::link::Link as Engine;
use zwire_proto::zenoh::{Reliability, WhatAmI, ZenohId};

/// What there is to know about links and neighbours.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct SessionInfo(pub(crate) Handle);

impl SessionInfo {
    fn neighbours(&self, py: Python<'_>, whatami: WhatAmI) -> PyResult<Vec<PyZenohId>> {
        let links = self.0.look(py)?.links();
        let matching = links.iter().filter(|link| link.params.remote.whatami == whatami);
        Ok(matching.map(|link| PyZenohId(link.params.remote.zid)).collect())
    }
}

#[pymethods]
impl SessionInfo {
    /// The id of this node.
    fn zid(&self) -> PyZenohId {
        PyZenohId(self.0.0.engine.zid())
    }

    /// The routers that this node is connected to.
    fn routers_zid(&self, py: Python<'_>) -> PyResult<Vec<PyZenohId>> {
        self.neighbours(py, WhatAmI::Router)
    }

    /// The peers that this node is connected to.
    fn peers_zid(&self, py: Python<'_>) -> PyResult<Vec<PyZenohId>> {
        self.neighbours(py, WhatAmI::Peer)
    }

    /// The open sessions with other nodes.
    fn transports(&self, py: Python<'_>) -> PyResult<Vec<Transport>> {
        Ok(self.0.look(py)?.links().iter().map(|link| Transport::of(link)).collect())
    }

    /// The established links.
    fn links(&self, py: Python<'_>) -> PyResult<Vec<Link>> {
        Ok(self.0.look(py)?.links().iter().map(|link| Link::of(link)).collect())
    }
}

/// An open session with another node.
#[pyclass(module = "zwire.zenoh", frozen, eq, skip_from_py_object)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Transport {
    zid: ZenohId,
    whatami: WhatAmI,
    qos: bool,
}

impl Transport {
    fn of(link: &Engine) -> Self {
        let params = &link.params;
        Self { zid: params.remote.zid, whatami: params.remote.whatami, qos: params.qos }
    }
}

#[pymethods]
impl Transport {
    /// The other node.
    #[getter]
    fn zid(&self) -> PyZenohId {
        PyZenohId(self.zid)
    }

    /// Its role.
    #[getter]
    fn whatami(&self) -> PyWhatAmI {
        PyWhatAmI(self.whatami)
    }

    /// Whether priorities are channels of their own.
    #[getter]
    const fn is_qos(&self) -> bool {
        self.qos
    }

    /// Whether it is a multicast group.
    #[getter]
    const fn is_multicast(&self) -> bool {
        false
    }

    fn __repr__(&self) -> String {
        format!("Transport(zid={}, whatami={})", self.zid, self.whatami)
    }
}

/// An established link.
#[pyclass(module = "zwire.zenoh", frozen, eq, skip_from_py_object)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Link {
    zid: ZenohId,
    src: String,
    dst: String,
    mtu: u16,
    streamed: bool,
    reliable: bool,
    user: Option<String>,
}

impl Link {
    fn of(link: &Engine) -> Self {
        Self {
            zid: link.params.remote.zid,
            src: link.local.clone(),
            dst: link.peer.clone(),
            mtu: link.params.batch_size,
            streamed: link.params.streamed,
            reliable: link.is_reliable(),
            user: link.params.user.as_ref().map(|user| user.as_str().to_owned()),
        }
    }
}

#[pymethods]
impl Link {
    /// The other node.
    #[getter]
    fn zid(&self) -> PyZenohId {
        PyZenohId(self.zid)
    }

    /// Our end, as a locator.
    #[getter]
    fn src(&self) -> &str {
        &self.src
    }

    /// The other end, as a locator.
    #[getter]
    fn dst(&self) -> &str {
        &self.dst
    }

    /// The multicast group; None, links of groups are not made.
    #[getter]
    fn group(&self, py: Python<'_>) -> Py<PyAny> {
        py.None()
    }

    /// The largest batch, in bytes.
    #[getter]
    const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Whether it is a byte stream.
    #[getter]
    const fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// The names of the interfaces; not looked up, so empty.
    #[getter]
    const fn interfaces(&self) -> Vec<String> {
        Vec::new()
    }

    /// The name by which the peer has proved itself.
    #[getter]
    fn auth_identifier(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The range of priorities that the link is for; None: all.
    #[getter]
    fn priorities(&self, py: Python<'_>) -> Py<PyAny> {
        py.None()
    }

    /// Whether what is sent arrives, unless the link ends.
    #[getter]
    const fn reliability(&self) -> PyReliability {
        PyReliability(if self.reliable { Reliability::Reliable } else { Reliability::BestEffort })
    }

    fn __repr__(&self) -> String {
        format!("Link(zid={}, src={}, dst={})", self.zid, self.src, self.dst)
    }
}
