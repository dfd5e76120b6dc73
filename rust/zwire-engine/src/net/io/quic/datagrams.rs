//! [`Datagrams`]: batches as QUIC datagrams, either all of them or the best-effort ones.

use super::{
    refusal::lost,
    streams::{End, poll_once},
};
use crate::net::io::message::Prefix;
use bytes::{Bytes, BytesMut};
use core::task::Waker;
use parking_lot::Mutex;
use quinn::{Connection, ConnectionError, SendDatagramError};
use std::{collections::VecDeque, io};

/// Most bytes of datagrams that wait to be sent: they are sent before stream data of any priority.
pub(super) const SEND_BUFFER: usize = 32 * 1024;

/// Most bytes that wait to be read; beyond that the oldest are lost.
pub(super) const RECEIVE_BUFFER: usize = 4 << 20;

/// Size that every QUIC network carries at any time: 1200 bytes, less the headers.
pub(super) const MTU: u16 = 1162;

/// Largest batch beside streams: their datagram size is not negotiated, and eclipse-zenoh has such buffers.
pub(super) const MIXED_MTU: u16 = 1150;

/// Most datagrams of one read, so that their messages are delivered before the next ones arrive.
const MAX_AT_ONCE: usize = 64;

pub(super) struct Datagrams {
    connection: Connection,
    prefix: Prefix,
    mtu: u16,
    /// Datagram that found no room; the task waiting for room sends it.
    held: Mutex<Option<Bytes>>,
    /// Datagram that arrived while a task waited for it, for the next read.
    early: Mutex<Option<Bytes>>,
}

impl Datagrams {
    /// `None` if the other side does not support datagrams.
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

    pub(super) fn set_low_latency(&self, low_latency: bool) {
        self.prefix.set_wide(low_latency);
    }

    pub(super) fn read(&self, buf: &mut BytesMut) -> End {
        let before = buf.len();
        for _ in 0..MAX_AT_ONCE {
            let early = self.early.lock().take();
            let next = early.map(Ok).or_else(|| poll_once(Waker::noop(), self.connection.read_datagram()));
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

    /// Returns when a datagram is available, or the connection has ended.
    pub(super) async fn readable(&self) {
        if self.early.lock().is_some() {
            return;
        }
        if let Ok(datagram) = self.connection.read_datagram().await {
            *self.early.lock() = Some(datagram);
        }
    }

    /// Sends one datagram for each message in `out`: true when all are queued.
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
            // Too large for this network: lost, like a datagram that a router drops.
            Ok(()) | Err(SendDatagramError::TooLarge) => Ok(()),
            Err(SendDatagramError::ConnectionLost(error)) => Err(lost(error)),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Datagram that waits for room.
    pub(super) fn held(&self) -> Option<Bytes> {
        self.held.lock().clone()
    }

    /// Sends the held datagram when there is room; to be called by one task only.
    pub(super) async fn send_held(&self, held: Bytes) {
        // If this fails, the next write fails as well.
        let _ = self.connection.send_datagram_wait(held).await;
        *self.held.lock() = None;
    }

    /// Whether all datagrams were sent.
    pub(super) fn are_sent(&self) -> bool {
        self.held.lock().is_none() && self.connection.datagram_send_buffer_space() >= SEND_BUFFER
    }
}
