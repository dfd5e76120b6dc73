//! A multicast group: many nodes, one address, no handshake (`zenoh-wire` 3.15, `zenoh-behaviour` 2.13).
//!
//! ```text
//!   datagrams ──▶ GroupRx ──▶ members that come and go, network messages of each
//!             ◀── LinkTx  ◀── network messages for all of them; JOIN
//! ```
//!
//! A member is a source address with an acceptable JOIN. Any host that reaches the group can send one,
//! under any id: the memory of members is bounded by [`GroupConfig::max_members`] and one budget for
//! their incomplete messages; a malformed datagram loses that datagram only.

mod rx;

#[cfg(test)]
mod tests;

pub use rx::{GroupEvent, GroupRx, GroupStats, HeardMember, MemberId};

use super::{
    Remote, VERSION, WhatAmI, ZenohId,
    link::{LinkParams, LinkTx, QosLink, TxConfig},
    wire::{Join, NextSn, Resolution},
};
use crate::{
    Now,
    limits::{MAX_BATCH_SIZE, MAX_MESSAGE_SIZE},
};
use core::time::Duration;

/// Patch level of this crate: FRAGMENT marks.
const PATCH: u8 = 1;

/// Configuration of a node's membership. All members must have the same resolution and batch size.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// Local id.
    pub zid: ZenohId,
    /// Local role. Clients take no part in groups.
    pub whatami: WhatAmI,
    /// Widths of sequence numbers and request ids.
    pub resolution: Resolution,
    /// Largest datagram.
    pub batch_size: u16,
    /// Announced lease: the longest silence of this node.
    pub lease: Duration,
    /// Interval of JOINs.
    pub join_interval: Duration,
    /// Whether each priority has channels of its own.
    pub qos: bool,
    /// First sequence number. A node that restarts at the same address should use another one.
    pub initial_sn: u32,
    /// Most members that are kept; the JOINs of further ones are ignored.
    pub max_members: usize,
    /// Largest message that is reassembled from fragments.
    pub max_message_size: usize,
    /// Most memory for incomplete messages, of all members together.
    pub reassembly_bytes: usize,
}

impl GroupConfig {
    /// Batch size if none is announced, and the default of Eclipse Zenoh.
    pub const BATCH_SIZE: u16 = 8192;

    /// The defaults of Eclipse Zenoh.
    #[must_use]
    pub const fn new(zid: ZenohId, whatami: WhatAmI) -> Self {
        Self {
            zid,
            whatami,
            resolution: Resolution::DEFAULT,
            batch_size: Self::BATCH_SIZE,
            lease: Duration::from_secs(10),
            join_interval: Duration::from_millis(2500),
            qos: false,
            initial_sn: 0,
            max_members: 1000,
            max_message_size: MAX_MESSAGE_SIZE,
            reassembly_bytes: 256 << 20,
        }
    }

    /// The group as a link. It has no single peer, so the local node stands for the remote.
    #[must_use]
    pub const fn params(&self) -> LinkParams {
        LinkParams {
            remote: Remote { zid: self.zid, whatami: self.whatami },
            batch_size: self.batch_size,
            resolution: self.resolution,
            qos: self.qos,
            qos_link: QosLink { priorities: None, reliability: None },
            compression: false,
            low_latency: false,
            patch: PATCH,
            tx_initial_sn: self.initial_sn & self.resolution.sn_mask(),
            rx_initial_sn: 0,
            own_lease: self.lease,
            peer_lease: self.lease,
            streamed: false,
            user: None,
            region_name: None,
            lending: None,
            named: None,
        }
    }

    /// The sender for the group. Its first datagram is a JOIN.
    #[must_use]
    pub fn sender(&self, config: TxConfig, now: Now) -> LinkTx {
        LinkTx::to_group(&self.params(), config, self.join(), self.join_interval, now)
    }

    fn join(&self) -> Join {
        let size = (self.resolution, self.batch_size);
        let size = (size != (Resolution::DEFAULT, Self::BATCH_SIZE)).then_some(size);
        #[allow(clippy::cast_possible_truncation, reason = "u64 milliseconds outlast the universe")]
        let lease_ms = self.lease.as_millis() as u64;
        Join {
            version: VERSION,
            whatami: self.whatami,
            zid: self.zid,
            size,
            lease_ms,
            next_sn: NextSn::default(),
            qos: None,
            shm: None,
            patch: u64::from(PATCH),
        }
    }
}

const _: () = assert!(GroupConfig::BATCH_SIZE < MAX_BATCH_SIZE);
