//! Links of protocols that this build leaves out (Cargo feature off): types without values, so that callers need no conditions.
//! The configuration refuses their endpoints; an attempt to connect or listen would fail with the same reason.

#![allow(dead_code, unused_imports, reason = "each protocol uses a part")]

use super::{
    ends::Ends,
    ways::{Ways, is_quic},
};
use crate::{
    config::{LinkConfig, Target},
    error::ConnectReason,
};
use bytes::{Bytes, BytesMut};
use core::time::Duration;
use std::{collections::VecDeque, io, net::SocketAddr};
use tokio::net::TcpStream;

fn unsupported<T>(target: &Target) -> Result<T, ConnectReason> {
    let protocol = if is_quic(target) { quic::PROTOCOL } else { target.endpoint.protocol() };
    Err(ConnectReason::Protocol(protocol.to_owned()))
}

pub(super) mod quic {
    pub(crate) use super::{
        AbsentIncoming as QuicIncoming, AbsentLink as QuicStream, AbsentListener as QuicListener,
        AbsentPort as QuicPort,
    };

    pub(in crate::net::io) const PROTOCOL: &str = "quic";
}

pub(super) mod tls {
    pub(crate) use super::{
        AbsentIncoming as Acceptor, AbsentLink as TlsStream, AbsentListener as TlsListener,
    };
    use super::{ConnectReason, LinkConfig, Target, unsupported};

    pub(in crate::net::io) const PROTOCOL: &str = "tls";

    pub(in crate::net::io) fn check_connect(target: &Target, _: &LinkConfig) -> Result<(), ConnectReason> {
        unsupported(target)
    }

    pub(in crate::net::io) fn check_listen(target: &Target, _: &LinkConfig) -> Result<(), ConnectReason> {
        unsupported(target)
    }
}

pub(super) mod ws {
    pub(crate) use super::AbsentLink as WsStream;
    use super::{ConnectReason, LinkConfig, Target, unsupported};
    use tokio::net::TcpListener;

    pub(in crate::net::io) const PROTOCOL: &str = "ws";

    pub(in crate::net::io) async fn listen(
        target: &Target,
        _: &LinkConfig,
    ) -> Result<TcpListener, ConnectReason> {
        unsupported(target)
    }
}

/// Connection of an absent protocol.
pub(crate) enum AbsentLink {}

impl AbsentLink {
    pub(super) async fn connect(target: &Target, _: &LinkConfig) -> Result<Self, ConnectReason> {
        unsupported(target)
    }

    pub(super) async fn accept(_: TcpStream) -> Result<Self, ConnectReason> {
        Err(ConnectReason::Protocol(ws::PROTOCOL.to_owned()))
    }

    pub(super) fn try_read(&self, _: &mut BytesMut) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn try_write(&self, _: &mut VecDeque<Bytes>, _: impl FnMut(usize)) -> io::Result<bool> {
        match *self {}
    }

    pub(super) fn try_write_at(
        &self,
        _: usize,
        _: &mut VecDeque<Bytes>,
        _: impl FnMut(usize),
    ) -> io::Result<bool> {
        match *self {}
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match *self {}
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn socket(&self) -> &TcpStream {
        match *self {}
    }

    pub(super) fn set_room(&self, _: u32) {
        match *self {}
    }

    pub(super) fn set_open(&self, _: bool) {
        match *self {}
    }

    pub(super) fn set_low_latency(&self) {
        match *self {}
    }

    pub(super) fn hold(&self) {
        match *self {}
    }

    pub(super) fn close(&self) {
        match *self {}
    }

    pub(super) fn is_delivered(&self) -> bool {
        match *self {}
    }

    pub(super) const fn is_streamed(&self) -> bool {
        match *self {}
    }

    pub(super) fn mtu(&self) -> u16 {
        match *self {}
    }

    pub(super) fn name(&self) -> Option<&str> {
        match *self {}
    }

    pub(super) const fn expires(&self) -> Option<Duration> {
        match *self {}
    }

    pub(super) fn ways(&self) -> Option<Ways> {
        match *self {}
    }

    pub(super) fn last_way(&self) -> usize {
        match *self {}
    }

    pub(super) fn ends(&self) -> io::Result<Ends> {
        match *self {}
    }
}

/// Port of a listener; never made.
pub(crate) struct AbsentPort;

/// Listener of an absent protocol.
pub(crate) enum AbsentListener {}

impl AbsentListener {
    pub(super) async fn bind(target: &Target, _: &LinkConfig) -> Result<Self, ConnectReason> {
        unsupported(target)
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        match *self {}
    }

    pub(super) fn guard(&self) -> AbsentPort {
        match *self {}
    }

    pub(super) async fn accept<T>(&self) -> io::Result<T> {
        match *self {}
    }
}

/// Accepted connection of an absent protocol.
pub(crate) enum AbsentIncoming {}

impl AbsentIncoming {
    pub(super) fn peer(&self) -> SocketAddr {
        match *self {}
    }

    pub(super) async fn ready(self) -> Result<AbsentLink, ConnectReason> {
        match self {}
    }

    pub(super) async fn accept(&self, _: TcpStream) -> Result<AbsentLink, ConnectReason> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Io, LinkListener};
    use crate::config::{Config, Target};

    /// Targets as the configuration of another build would have them.
    fn targets() -> Vec<(Target, &'static str)> {
        let config = Config::from_json5("{connect: {endpoints: ['tcp/127.0.0.1:0']}}").unwrap();
        let target = &config.resolve().unwrap().connect.groups[0].targets[0];
        [
            ("tls/127.0.0.1:0", "(feature `tls`)", cfg!(feature = "tls")),
            ("ws/127.0.0.1:0", "(feature `ws`)", cfg!(feature = "ws")),
            ("quic/127.0.0.1:0", "(feature `quic`)", cfg!(feature = "quic")),
        ]
        .into_iter()
        .filter(|(_, _, on)| !on)
        .map(|(text, words, _)| (Target { endpoint: text.parse().unwrap(), ..target.clone() }, words))
        .collect()
    }

    #[tokio::test]
    async fn connecting_and_listening_name_the_feature() {
        let link = Config::default().resolve().unwrap().link;
        for (target, words) in targets() {
            let error = Io::connect(&target, &link).await.err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
            let error = LinkListener::bind(&target, &link).await.err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
