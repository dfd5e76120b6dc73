//! `SessionInfo`, `Transport` and `Link`: connected nodes and their links.

use crate::zenoh::{
    enums::{PyReliability, PyWhatAmI, title},
    events::{LinkEventsListener, TransportEventsListener},
    handle::Handle,
    zid::PyZenohId,
};
use pyo3::prelude::*;
use std::collections::HashSet;
use zwire_engine::connectivity::LinkInfo;
use zwire_proto::zenoh::{WhatAmI, ZenohId};

/// Information about links and neighbours.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct SessionInfo(pub(crate) Handle);

impl SessionInfo {
    fn neighbours(&self, py: Python<'_>, whatami: WhatAmI) -> PyResult<Vec<PyZenohId>> {
        let links = self.0.look(py)?.link_infos();
        let mut seen = HashSet::new();
        let matching = links.iter().filter(|link| link.whatami == whatami && seen.insert(link.zid));
        Ok(matching.map(|link| PyZenohId(link.zid)).collect())
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
        let mut seen = HashSet::new();
        let links = self.0.look(py)?.link_infos();
        let first = links.iter().filter(|link| seen.insert(link.zid));
        Ok(first.map(|link| Transport::of(link)).collect())
    }

    /// The established links.
    fn links(&self, py: Python<'_>) -> PyResult<Vec<Link>> {
        Ok(self.0.look(py)?.link_infos().iter().map(|link| Link::of(link)).collect())
    }

    /// Listens for nodes that connect and disconnect; with `history` those already connected come first.
    #[pyo3(signature = (handler=None, *, history=None))]
    fn declare_transport_events_listener(
        &self,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
        history: Option<bool>,
    ) -> PyResult<Py<TransportEventsListener>> {
        TransportEventsListener::new(py, &self.0, handler, history)
    }

    /// Listens for links that come up and go down; with `history` existing links come first.
    #[pyo3(signature = (handler=None, *, history=None))]
    fn declare_link_events_listener(
        &self,
        py: Python<'_>,
        handler: Option<&Bound<'_, PyAny>>,
        history: Option<bool>,
    ) -> PyResult<Py<LinkEventsListener>> {
        LinkEventsListener::new(py, &self.0, handler, history)
    }
}

/// An open session with another node.
#[pyclass(module = "zwire.zenoh", frozen, eq, skip_from_py_object)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Transport {
    zid: ZenohId,
    whatami: WhatAmI,
    qos: bool,
    multicast: bool,
}

impl Transport {
    pub(crate) const fn of(link: &LinkInfo) -> Self {
        Self { zid: link.zid, whatami: link.whatami, qos: link.qos, multicast: link.group.is_some() }
    }
}

attributes! { Transport, |this|
    /// Id of the other node.
    zid: PyZenohId = PyZenohId(this.zid);
    /// Role of the other node.
    whatami: PyWhatAmI = PyWhatAmI(this.whatami);
    /// Whether each priority is a channel of its own.
    is_qos: bool = this.qos;
    /// Whether it is a multicast group.
    is_multicast: bool = this.multicast;
    /// Whether messages use shared memory: not supported, always False.
    is_shm: bool = false;
}

#[pymethods]
impl Transport {
    pub(crate) fn __repr__(&self) -> String {
        // The format of eclipse-zenoh, because programs print it.
        format!(
            "Transport {{ zid: {}, whatami: {}, is_qos: {}, is_multicast: {}, is_shm: {} }}",
            self.zid,
            title(self.whatami),
            self.qos,
            self.multicast,
            self.is_shm()
        )
    }
}

/// An established link.
#[pyclass(module = "zwire.zenoh", frozen, eq, skip_from_py_object)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Link(LinkInfo);

impl Link {
    pub(crate) fn of(link: &LinkInfo) -> Self {
        Self(link.clone())
    }
}

attributes! { Link, |this|
    /// Id of the other node.
    zid: PyZenohId = PyZenohId(this.0.zid);
    /// Local end, as a locator.
    src: &str = &this.0.src;
    /// Remote end, as a locator.
    dst: &str = &this.0.dst;
    /// Multicast group, as a locator; None for other links.
    group: Option<&str> = this.0.group.as_deref();
    /// The largest batch, in bytes.
    mtu: u16 = this.0.mtu;
    /// Whether it is a byte stream.
    is_streamed: bool = this.0.streamed;
    /// Names of the interfaces that have the local address; empty if the link has no address.
    interfaces: Vec<String> = this.0.interfaces.clone();
    /// User name with which the peer has authenticated itself.
    auth_identifier: Option<&str> = this.0.user.as_deref();
    /// First and last priority that the link carries, 0 (control) to 7; None without priorities.
    priorities: Option<(u8, u8)> = this.0.priorities.map(|(first, last)| (first as u8, last as u8));
    /// Whether messages arrive unless the link ends.
    reliability: PyReliability = PyReliability(this.0.reliability);
}

#[pymethods]
impl Link {
    pub(crate) fn __repr__(&self) -> String {
        let LinkInfo { zid, src, dst, mtu, streamed, interfaces, priorities, .. } = &self.0;
        let group = self.0.group.as_deref().map_or("None".to_owned(), |group| format!("Some({group})"));
        let priorities = priorities.map(|(first, last)| (first as u8, last as u8));
        // The format of eclipse-zenoh, because programs print it.
        format!(
            "Link {{ zid: {zid}, src: {src}, dst: {dst}, group: {group}, mtu: {mtu}, is_streamed: {streamed}, \
             interfaces: {interfaces:?}, auth_identifier: {:?}, priorities: {priorities:?}, \
             reliability: Some({:?}) }}",
            self.0.user, self.0.reliability
        )
    }
}
