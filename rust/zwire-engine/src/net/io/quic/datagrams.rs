//! [`Datagrams`]: each batch a datagram of QUIC, all of them or those that are best effort.

use super::{refusal::lost, streams::End};
use crate::net::io::message::Prefix;
use bytes::{Bytes, BytesMut};
use core::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};
use parking_lot::Mutex;
use quinn::{Connection, ConnectionError, SendDatagramError};
use std::{collections::VecDeque, io};

/// Bytes of datagrams that wait in front of streams: whatever they are, they go out first.
pub(super) const SEND_BUFFER: usize = 32 * 1024;

/// What waits to be read; beyond, the oldest are lost.
pub(super) const RECEIVE_BUFFER: usize = 4 << 20;

/// What every network of QUIC carries, 1200 bytes, less what stands around it. Larger ones may come to fit
/// and cease to do so.
pub(super) const MTU: u16 = 1162;

/// The size of what goes beside streams. Nobody tells how large a datagram may be there, and the reference
/// has buffers of this size for them.
pub(super) const MIXED_MTU: u16 = 1150;

/// Most datagrams of one read, so that their messages are delivered before the next ones come.
const MAX_AT_ONCE: usize = 64;

pub(super) struct Datagrams {
    connection: Connection,
    prefix: Prefix,
    mtu: u16,
    /// One that has found no room: whoever waits for room sends it.
    held: Mutex<Option<Bytes>>,
    /// One that came while somebody waited for it.
    early: Mutex<Option<Bytes>>,
}

impl Datagrams {
    /// `None`: the other side does not take them.
    pub(super) fn new(connection: &Connection, most: u16) -> Option<Self> {
        let theirs = connection.max_datagram_size()?;
        Some(Self {
            connection: connection.clone(),
            prefix: Prefix::default(),
            mtu: u16::try_from(theirs).unwrap_or(most).min(most),
            held: Mutex::default(),
            early: Mutex::default(),
        })
    }

    pub(super) const fn mtu(&self) -> u16 {
        self.mtu
    }

    pub(super) fn set_low_latency(&self) {
        self.prefix.widen();
    }

    pub(super) fn read(&self, buf: &mut BytesMut) -> End {
        let before = buf.len();
        for _ in 0..MAX_AT_ONCE {
            let early = self.early.lock().take();
            let next = early.map(Ok).or_else(|| poll_once(self.connection.read_datagram()));
            match next {
                Some(Ok(datagram)) => self.prefix.append(buf, &datagram),
                Some(Err(_)) if buf.len() > before => break,
                Some(Err(ConnectionError::ApplicationClosed(_))) => return End::Closed,
                Some(Err(error)) => return End::Lost(lost(error)),
                None => break,
            }
        }
        End::Open
    }

    /// Returns when there is one, or none will come.
    pub(super) async fn readable(&self) {
        if self.early.lock().is_some() {
            return;
        }
        if let Ok(datagram) = self.connection.read_datagram().await {
            *self.early.lock() = Some(datagram);
        }
    }

    /// One datagram for each message in `out`: true when all are on their way.
    pub(super) fn write(
        &self,
        out: &mut VecDeque<Bytes>,
        mut progress: impl FnMut(usize),
    ) -> io::Result<bool> {
        loop {
            if self.held.lock().is_some() {
                return Ok(false);
            }
            let sent = self.prefix.send_first(out, |parts, len| {
                let mut datagram = BytesMut::with_capacity(len);
                parts.iter().for_each(|part| datagram.extend_from_slice(part));
                self.send(datagram.freeze()).map(|()| len)
            });
            match sent {
                None => return Ok(true),
                Some(Ok(len)) => progress(len),
                Some(Err(error)) => return Err(error),
            }
        }
    }

    fn send(&self, datagram: Bytes) -> io::Result<()> {
        if self.connection.datagram_send_buffer_space() < datagram.len() {
            *self.held.lock() = Some(datagram);
            return Ok(());
        }
        match self.connection.send_datagram(datagram) {
            // A network that carries less than all do: it is lost there.
            Ok(()) | Err(SendDatagramError::TooLarge) => Ok(()),
            Err(SendDatagramError::ConnectionLost(error)) => Err(lost(error)),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// What waits for room.
    pub(super) fn held(&self) -> Option<Bytes> {
        self.held.lock().clone()
    }

    /// Sends what waits for room, when there is some; for one task only.
    pub(super) async fn send_held(&self, held: Bytes) {
        // Where it fails the next write does, too.
        let _ = self.connection.send_datagram_wait(held).await;
        *self.held.lock() = None;
    }

    /// Whether all were sent.
    pub(super) fn are_sent(&self) -> bool {
        self.held.lock().is_none() && self.connection.datagram_send_buffer_space() >= SEND_BUFFER
    }
}

/// What `future` gives at once. Nobody is woken later.
fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
