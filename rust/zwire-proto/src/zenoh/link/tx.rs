//! [`LinkTx`]: network messages in, batches out (`zenoh-wire` 3.9–3.16, `zenoh-behaviour` 2.4–2.9).

pub use super::lane::Discarded;
use super::{
    LinkParams,
    announce::Announce,
    batch::{Format, Pool},
    compression::Compressor,
    lane::{Lane, Shared, control},
};
use crate::{
    Now,
    zenoh::{
        Priority, Reliability,
        wire::{Close, CloseReason, Join, NetworkMessage, NextSn, TransportMessage},
    },
};
use bytes::Bytes;
use core::{fmt, time::Duration};
use thiserror::Error;

/// Local policy of a sender.
#[derive(Clone, Copy, Debug)]
pub struct TxConfig {
    /// Queued bytes of a lane at which it accepts no more messages.
    pub bytes_per_priority: usize,
    /// Keep-alives per lease: on an otherwise idle link one is sent every lease / this.
    pub keep_alive: u32,
}

impl Default for TxConfig {
    /// 4 MiB per lane are 3 ms of a 10 Gbit/s link; 4 keep-alives per lease as in Eclipse Zenoh.
    fn default() -> Self {
        Self { bytes_per_priority: 4 << 20, keep_alive: 4 }
    }
}

/// Reason why a message was not accepted. No part of it will be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PushError {
    /// The lane is full; try again after output was transmitted.
    #[error("{queued} bytes are queued in priority {priority:?}")]
    LaneFull {
        /// The lane.
        priority: Priority,
        /// Number of queued bytes.
        queued: usize,
    },
    /// The link cannot carry a message of this size: low latency has no fragments.
    #[error("message of {len} bytes, a low-latency link carries {max}")]
    TooLarge {
        /// Length of the message.
        len: usize,
        /// The bound.
        max: usize,
    },
    /// [`LinkTx::close`] was called.
    #[error("the link is closed")]
    Closed,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStats {
    /// Messages accepted.
    pub messages: u64,
    /// Batches transmitted.
    pub batches: u64,
    /// Bytes transmitted, prefixes included.
    pub bytes: u64,
    /// Fragments transmitted.
    pub fragments: u64,
    /// Keep-alives transmitted.
    pub keep_alives: u64,
    /// JOINs transmitted.
    pub joins: u64,
    /// Messages dropped by [`LinkTx::discard`].
    pub discarded: u64,
}

/// The sending half of a link: one lane per priority, or one lane without QoS.
///
/// After each [`Self::push`] the driver may, and when the socket is writable it should, call
/// [`Self::poll_transmit`]: a single message then leaves at once, and messages that queue up while the
/// socket is busy are coalesced into batches.
pub struct LinkTx {
    config: TxConfig,
    lanes: Vec<Lane>,
    /// Bit n: lane n is not empty.
    ready: u8,
    /// Waiting bytes in all lanes.
    queued: usize,
    shared: Shared,
    interval: Duration,
    next_keep_alive: Duration,
    keep_alive: bool,
    /// Whether a lane with waiting messages delays no other lane.
    separate: bool,
    /// For a multicast group: JOINs in place of keep-alives.
    announce: Option<Announce>,
    close: Option<CloseReason>,
    /// Whether no more messages are accepted.
    closing: bool,
    stats: TxStats,
}

impl LinkTx {
    /// The sender of a link that is up since `now`.
    #[must_use]
    pub fn new(params: &LinkParams, config: TxConfig, now: Now) -> Self {
        let priorities = if params.qos { &Priority::ALL[..] } else { &[Priority::Data] };
        // Neither a lease of zero nor a fine division may make the driver's loop spin.
        let interval = (params.own_lease / config.keep_alive.max(1)).max(Duration::from_millis(1));
        Self {
            config,
            lanes: priorities.iter().map(|&p| Lane::new(p, params.tx_initial_sn)).collect(),
            ready: 0,
            queued: 0,
            shared: Shared {
                format: Format::new(params),
                pool: Pool::default(),
                compressor: params.compression.then(Compressor::default),
                sn_mask: params.sn_mask(),
                marks: params.patch >= 1,
                low_latency: params.low_latency,
            },
            interval,
            next_keep_alive: now.mono.saturating_add(interval),
            keep_alive: false,
            separate: false,
            announce: None,
            close: None,
            closing: false,
            stats: TxStats::default(),
        }
    }

    /// The sender of a member of a multicast group, which sends `join` now, every `interval`, and when
    /// [`Self::announce`] is called.
    pub(crate) fn to_group(
        params: &LinkParams,
        config: TxConfig,
        join: Join,
        interval: Duration,
        now: Now,
    ) -> Self {
        let announce = Some(Announce::new(join, interval, now));
        Self { announce, ..Self::new(params, config, now) }
    }

    /// For lanes with connections of their own, which do not block each other: the driver calls
    /// [`Self::poll_lane`], and while one lane is stuck, another one carries keep-alives.
    #[must_use]
    pub const fn with_separate_lanes(mut self) -> Self {
        self.separate = true;
        self
    }

    /// Sends JOIN for a new member of the group, now or as soon as allowed.
    pub fn announce(&mut self, now: Now) {
        if let Some(announce) = &mut self.announce {
            announce.soon(now);
        }
    }

    const fn lane_of(&self, priority: Priority) -> usize {
        // Without QoS there is one lane, for all priorities.
        if self.lanes.len() == 1 { 0 } else { priority as usize }
    }

    /// Accepts a message to send, and encodes it.
    ///
    /// # Errors
    /// The message was not accepted. An empty lane accepts one message of any size.
    #[inline]
    pub fn push(&mut self, message: &NetworkMessage, reliability: Reliability) -> Result<(), PushError> {
        if self.closing {
            return Err(PushError::Closed);
        }
        let priority = message.qos().priority();
        let index = self.lane_of(priority);
        let lane = &mut self.lanes[index];
        let queued = lane.bytes();
        if queued >= self.config.bytes_per_priority && queued > 0 {
            return Err(PushError::LaneFull { priority, queued });
        }
        if let Err(error) = lane.push(message, reliability, &mut self.shared) {
            return Err(PushError::TooLarge { len: error.len, max: self.shared.format.capacity() });
        }
        self.queued += lane.bytes() - queued;
        self.ready |= 1 << index;
        self.stats.messages += 1;
        Ok(())
    }

    /// Appends the parts of whole batches, each behind its stream prefix, in strict priority order,
    /// until another batch would exceed `max_bytes`; the first one is always appended. Returns the
    /// number of bytes appended; 0 means that nothing waits.
    ///
    /// On a link that preserves boundaries each prefix tells the length of the batch behind it, and
    /// must not be sent.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<Bytes>, max_bytes: usize) -> usize {
        let mut total = self.transmit(now, u8::MAX, out, max_bytes);
        if total <= max_bytes {
            total += self.transmit_close(out);
        }
        self.transmitted(now, total)
    }

    /// Like [`Self::poll_transmit`], for one lane, and without CLOSE. Messages without a priority go
    /// with the lane of Control; without QoS all do.
    pub fn poll_lane(
        &mut self,
        now: Now,
        priority: Priority,
        out: &mut Vec<Bytes>,
        max_bytes: usize,
    ) -> usize {
        let total = self.transmit(now, 1 << priority as u8, out, max_bytes);
        self.transmitted(now, total)
    }

    /// Appends CLOSE, if it is due and all lanes are empty; like [`Self::poll_transmit`].
    pub fn poll_close(&mut self, now: Now, out: &mut Vec<Bytes>) -> usize {
        let total = self.transmit_close(out);
        self.transmitted(now, total)
    }

    /// Bit n: the lane of priority n has something to transmit; without QoS that of Control.
    #[must_use]
    pub const fn ready_lanes(&self) -> u8 {
        self.ready | self.keep_alive as u8
    }

    fn transmitted(&mut self, now: Now, total: usize) -> usize {
        if total > 0 {
            self.stats.bytes += total as u64;
            self.next_keep_alive = now.mono.saturating_add(self.interval);
        }
        total
    }

    fn transmit_close(&mut self, out: &mut Vec<Bytes>) -> usize {
        if self.ready == 0
            && let Some(reason) = self.close.take()
        {
            return self.control(&TransportMessage::Close(Close { reason, session: false }), out);
        }
        0
    }

    /// `lanes`: a bit for each lane that may be polled.
    #[inline]
    fn transmit(&mut self, now: Now, lanes: u8, out: &mut Vec<Bytes>, max_bytes: usize) -> usize {
        let mut total = 0;
        if let Some(mut join) = self.announce.as_mut().and_then(|announce| announce.take(now)) {
            let all: Vec<NextSn> = self.lanes.iter().map(Lane::next_sn).collect();
            join.next_sn = all[self.lane_of(Priority::Data)];
            join.qos = all.try_into().ok().map(Box::new);
            total += self.control(&TransportMessage::Join(join), out);
            self.stats.joins += 1;
        }
        if lanes & 1 != 0 && core::mem::take(&mut self.keep_alive) {
            total += self.control(&TransportMessage::KeepAlive, out);
            self.stats.keep_alives += 1;
        }
        while self.ready & lanes != 0 {
            let index = (self.ready & lanes).trailing_zeros() as usize;
            let lane = &mut self.lanes[index];
            if total > 0 && total + lane.next_len(&self.shared.format) > max_bytes {
                break;
            }
            let queued = lane.bytes();
            if let Some(sent) = lane.transmit(&mut self.shared, out) {
                self.queued -= queued - lane.bytes();
                total += sent.bytes;
                self.stats.batches += 1;
                self.stats.fragments += u64::from(sent.fragment);
            }
            if lane.is_empty() {
                self.ready &= !(1 << index);
            }
        }
        total
    }

    fn control(&mut self, message: &TransportMessage, out: &mut Vec<Bytes>) -> usize {
        let mut bytes = Vec::with_capacity(64);
        message.encode(&mut bytes);
        self.stats.batches += 1;
        control(&bytes, &mut self.shared, out)
    }

    /// Sends CLOSE behind all queued messages; no more are accepted. To send it at once,
    /// [`Self::discard`] the queued ones.
    pub fn close(&mut self, reason: CloseReason) {
        if !self.closing {
            self.closing = true;
            self.announce = None;
            self.close = Some(reason);
        }
    }

    /// Drops the messages waiting in a lane, which without QoS is the only one. A half-sent message is
    /// abandoned with a Drop mark, if the peer supports it.
    pub fn discard(&mut self, priority: Priority) -> Discarded {
        let index = self.lane_of(priority);
        let lane = &mut self.lanes[index];
        let discarded = lane.discard(&self.shared);
        self.queued -= discarded.bytes;
        if lane.is_empty() {
            self.ready &= !(1 << index);
        }
        self.stats.discarded += discarded.messages;
        discarded
    }

    /// Deadline of [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let next = self.announce.as_ref().map_or(self.next_keep_alive, Announce::poll_timeout);
        (!self.closing).then_some(next)
    }

    /// Queues a KEEP_ALIVE if nothing was transmitted for its interval and nothing waits; for a group a
    /// JOIN, whatever else was sent.
    pub fn handle_timeout(&mut self, now: Now) {
        if let Some(announce) = &mut self.announce {
            announce.handle_timeout(now);
            if self.ready == 0 {
                self.shared.pool.clear();
            }
            return;
        }
        if now.mono < self.next_keep_alive || self.closing {
            return;
        }
        // A keep-alive behind messages that wait for the socket would have no effect.
        if self.ready == 0 || self.separate {
            self.keep_alive = true;
        }
        if self.ready == 0 {
            self.shared.pool.clear();
        }
        self.next_keep_alive = now.mono.saturating_add(self.interval);
    }

    /// Waiting bytes in the lane of a priority.
    #[must_use]
    pub fn queued_bytes(&self, priority: Priority) -> usize {
        self.lanes[self.lane_of(priority)].bytes()
    }

    /// Waiting bytes in all lanes.
    #[must_use]
    pub const fn queued_total(&self) -> usize {
        self.queued
    }

    /// Whether no output waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let joins = self.announce.as_ref().is_some_and(Announce::is_due);
        self.ready == 0 && !self.keep_alive && !joins && self.close.is_none()
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> TxStats {
        self.stats
    }
}

impl fmt::Debug for LinkTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkTx")
            .field("queued", &self.queued_total())
            .field("closing", &self.closing)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
