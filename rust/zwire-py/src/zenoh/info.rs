//! `SessionInfo`, `Transport` and `Link`: connected nodes and their links, and listeners for changes.

use crate::zenoh::{
    enums::{PyReliability, PySampleKind, PyWhatAmI, title},
    handle::Handle,
    listener::Listener,
    zid::PyZenohId,
};
use pyo3::prelude::*;
use std::collections::HashSet;
use zwire_engine::{
    connectivity::{self, LinkInfo},
    link::LinkEnd,
};
use zwire_proto::zenoh::{WhatAmI, ZenohId, session::SampleKind};

/// Information about links and neighbours.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct SessionInfo(pub(crate) Handle);

represented! { SessionInfo, |slf| format!("of session {}", slf.get().0.0.engine.zid()) }

impl SessionInfo {
    fn neighbours(&self, py: Python<'_>, whatami: WhatAmI) -> PyResult<Vec<PyZenohId>> {
        let links = self.0.look(py)?.link_infos();
        let mut seen = HashSet::new();
        let matching = links.iter().filter(|link| link.whatami == whatami && seen.insert(link.zid));
        Ok(matching.map(|link| PyZenohId(link.zid)).collect())
    }
}

methods! { SessionInfo, |this, py|
    /// The id of this node.
    zid: PyZenohId = PyZenohId(this.0.0.engine.zid());
    /// The routers that this node is connected to.
    routers_zid: PyResult<Vec<PyZenohId>> = this.neighbours(py, WhatAmI::Router);
    /// The peers that this node is connected to.
    peers_zid: PyResult<Vec<PyZenohId>> = this.neighbours(py, WhatAmI::Peer);
    /// The established links.
    links: PyResult<Vec<Link>> =
        Ok(this.0.look(py)?.link_infos().iter().map(|link| Link::of(link)).collect());
}

#[pymethods]
impl SessionInfo {
    /// The open sessions with other nodes.
    fn transports(&self, py: Python<'_>) -> PyResult<Vec<Transport>> {
        let mut seen = HashSet::new();
        let links = self.0.look(py)?.link_infos();
        let first = links.iter().filter(|link| seen.insert(link.zid));
        Ok(first.map(|link| Transport::of(link)).collect())
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
    shm: bool,
}

impl Transport {
    pub(crate) const fn of(link: &LinkInfo) -> Self {
        let LinkInfo { zid, whatami, qos, ref group, lending, .. } = *link;
        Self { zid, whatami, qos, multicast: group.is_some(), shm: lending }
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
    /// Whether both ends have agreed on shared memory for large payloads.
    is_shm: bool = this.shm;
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

macro_rules! event {
    ($(#[$doc:meta])* $event:ident, $what:ident: $of:ident, $getter_doc:literal) => {
        $(#[$doc])*
        #[pyclass(module = "zwire.zenoh", frozen)]
        pub(crate) struct $event(connectivity::$event);

        attributes! { $event, |this|
            /// PUT: connected; DELETE: disconnected.
            kind: PySampleKind = PySampleKind(if this.0.change.end().is_none() { SampleKind::Put } else { SampleKind::Delete });
            #[doc = $getter_doc]
            $what: $of = $of::of(&this.0.link);
            /// `connected`, `reconnected` or `disconnected`.
            change: &'static str = this.0.change.word();
            /// Reason of the end: `closed`, `closed-by-peer`, `lost`, `io`, `silent`, `protocol` or
            /// `unresponsive`. None while it is connected.
            reason: Option<&'static str> = this.0.change.end().map(LinkEnd::word);
            /// Reason of the end as a sentence.
            detail: Option<String> = this.0.change.end().map(ToString::to_string);
        }

        #[pymethods]
        impl $event {
            fn __repr__(&self) -> String {
                let reason = self.reason().map_or(String::new(), |reason| format!(", reason={reason}"));
                format!("{}({}, {}{reason})", stringify!($event), self.change(), self.$what().__repr__())
            }
        }

        items! { connectivity::$event => $event }
    };
}

event! {
    /// A node was connected or disconnected.
    TransportEvent, transport: Transport, "The node, and how it is connected."
}
event! {
    /// A link came up or went down.
    LinkEvent, link: Link, "The link."
}

macro_rules! listener {
    ($(#[$doc:meta])* $listener:ident, $listen:ident, $declare:ident: $declare_doc:literal) => {
        $(#[$doc])*
        #[pyclass(module = "zwire.zenoh", frozen, weakref, generic, extends = Listener)]
        pub(crate) struct $listener;

        #[pymethods]
        impl SessionInfo {
            #[doc = $declare_doc]
            #[pyo3(signature = (handler=None, *, history=None))]
            fn $declare(
                &self,
                py: Python<'_>,
                handler: Option<&Bound<'_, PyAny>>,
                history: Option<bool>,
            ) -> PyResult<Py<$listener>> {
                let history = history.unwrap_or(false);
                let base = Listener::new(py, &self.0, "listener", handler, |engine, handler| {
                    let (id, queue) = engine.$listen(history, handler)?;
                    Ok((queue, Box::new(move |engine| engine.forget_listener(id))))
                })?;
                Py::new(py, ($listener, base))
            }
        }
    };
}

listener! {
    /// Listener for nodes that connect and disconnect.
    TransportEventsListener, listen_transports, declare_transport_events_listener:
    "Listens for nodes that connect and disconnect; with `history` those already connected come first."
}
listener! {
    /// Listener for links that come up and go down.
    LinkEventsListener, listen_links, declare_link_events_listener:
    "Listens for links that come up and go down; with `history` existing links come first."
}
