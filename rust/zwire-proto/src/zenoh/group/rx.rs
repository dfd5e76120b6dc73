//! [`GroupRx`]: takes datagrams of a group; returns its members and their messages.

use super::{GroupConfig, PATCH};
use crate::{
    Now,
    buf::Reader,
    zenoh::{
        Reliability, Remote, VERSION, WhatAmI, ZenohId,
        link::{LinkParams, LinkRx, RxConfig},
        wire::{CloseReason, Join, NetworkMessage, Resolution, TransportMessage},
    },
};
use bytes::Bytes;
use core::{fmt, net::SocketAddr, time::Duration};
use std::collections::{BTreeMap, VecDeque};

/// Upper bound of a member's lease: a member sends something every few seconds, and one that has left
/// silently, or was made up, must not keep its place forever.
const MAX_LEASE: Duration = Duration::from_secs(60);

/// Time after a CLOSE in which JOINs are ignored. A CLOSE may be followed by a JOIN that was on its way
/// (`zenoh-wire` 3.15), which would restore the member for a whole lease.
const FAREWELL: Duration = Duration::from_secs(1);

/// Time for each new member beyond those that join at once. A member costs the node a look at all others, and
/// datagrams of live members wait behind a flood of JOINs. A JOIN that is ignored is repeated by its sender.
const JOIN_PERIOD: Duration = Duration::from_micros(2500);

/// Time that members may be ahead of their turns: 128 join at once.
const JOIN_BURST: Duration = Duration::from_millis(320);

/// Most recent CLOSEs that are stored.
const MAX_FAREWELLS: usize = 64;

/// Number of a membership, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// A change among the members, to be handled before the messages returned with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// A node has joined, and does not know of this one: call [`LinkTx::announce`] to tell it.
    ///
    /// [`LinkTx::announce`]: super::super::link::LinkTx::announce
    Joined {
        /// Number of the new membership.
        member: MemberId,
        /// Id and role of the node.
        remote: Remote,
        /// Source address of its datagrams.
        from: SocketAddr,
    },
    /// A member exceeded its lease, or moved to another address.
    Left {
        /// Number of the ended membership.
        member: MemberId,
    },
}

/// Sender of a datagram's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeardMember {
    /// The sender.
    pub member: MemberId,
    /// Reason of its CLOSE: it is no member any more. No event reports this.
    pub closed: Option<CloseReason>,
    /// Messages that were dropped because their payload is in shared memory: a group negotiates nothing, and
    /// a member of another implementation may send descriptions of its memory without having asked
    /// (`zenoh-wire` 5.8).
    pub in_shared_memory: usize,
}

/// Counters of received and of silently dropped datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Datagrams, own ones included.
    pub datagrams: u64,
    /// Messages handed out.
    pub messages: u64,
    /// Accepted JOINs of other nodes.
    pub joins: u64,
    /// Datagrams without JOIN from an address without member; own ones are among them.
    pub strangers: u64,
    /// JOINs with another version, resolution or batch size than the local ones, and of clients.
    pub unfit: u64,
    /// JOINs beyond [`GroupConfig::max_members`], or of too many new members at once.
    pub too_many: u64,
    /// JOINs of a member that differ from its earlier ones, or of a second member with its id.
    pub contradictions: u64,
    /// Datagrams with an error; messages before it count.
    pub undecodable: u64,
}

struct Member {
    id: MemberId,
    /// Its first JOIN, without sequence numbers.
    join: Join,
    rx: LinkRx,
}

/// The receiving half of a group.
pub struct GroupRx {
    config: GroupConfig,
    members: BTreeMap<SocketAddr, Member>,
    by_zid: BTreeMap<ZenohId, SocketAddr>,
    next_id: u64,
    /// Memory for incomplete messages, of all members.
    reassembling: usize,
    /// Time at which all members that have joined would have done so in turns.
    joined: Duration,
    /// Earliest possible end of a member's lease.
    look_at: Option<Duration>,
    farewells: VecDeque<(SocketAddr, Duration)>,
    events: VecDeque<GroupEvent>,
    stats: GroupStats,
}

impl GroupRx {
    /// A group without members.
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        Self {
            config,
            members: BTreeMap::new(),
            by_zid: BTreeMap::new(),
            next_id: 0,
            reassembling: 0,
            joined: Duration::ZERO,
            look_at: None,
            farewells: VecDeque::new(),
            events: VecDeque::new(),
            stats: GroupStats::default(),
        }
    }

    /// Handles a datagram and appends its messages to `out`. Returns their sender, `None` if there are
    /// no messages. Events come first.
    pub fn handle_datagram(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: Bytes,
        out: &mut Vec<(NetworkMessage, Reliability)>,
    ) -> Option<HeardMember> {
        self.stats.datagrams += 1;
        let mut rest = datagram;
        let mut r = Reader::new(&rest);
        if r.peek().is_some_and(TransportMessage::is_join) {
            let Ok(TransportMessage::Join(join)) = TransportMessage::decode(&mut r) else {
                self.stats.undecodable += 1;
                return None;
            };
            let read = r.offset();
            self.handle_join(now, from, join)?;
            rest = rest.slice(read..);
            if rest.is_empty() {
                return None;
            }
        }
        let Some(member) = self.members.get_mut(&from) else {
            self.stats.strangers += 1;
            return None;
        };
        let (id, before, count) = (member.id, member.rx.reassembling(), out.len());
        member
            .rx
            .set_reassembly_bytes(self.config.reassembly_bytes.saturating_sub(self.reassembling - before));
        let result = member.rx.handle_batch(now, rest, out);
        self.reassembling = self.reassembling - before + member.rx.reassembling();
        let received = out.len();
        if out[count..].iter().any(|(message, _)| message.is_in_shared_memory()) {
            let readable =
                out.split_off(count).into_iter().filter(|(message, _)| !message.is_in_shared_memory());
            out.extend(readable);
        }
        self.stats.messages += (out.len() - count) as u64;
        let closed = result.unwrap_or_else(|_| {
            self.stats.undecodable += 1;
            None
        });
        if closed.is_some() {
            self.remove(from);
            if self.farewells.len() == MAX_FAREWELLS {
                self.farewells.pop_front();
            }
            self.farewells.push_back((from, now.mono.saturating_add(FAREWELL)));
        }
        Some(HeardMember { member: id, closed, in_shared_memory: received - out.len() })
    }

    /// Handles a JOIN. `None`: the rest of the datagram is ignored.
    fn handle_join(&mut self, now: Now, from: SocketAddr, join: Join) -> Option<()> {
        if join.zid == self.config.zid {
            return None;
        }
        let mask = self.config.resolution.sn_mask();
        let inside = |n: &crate::zenoh::wire::NextSn| n.reliable <= mask && n.best_effort <= mask;
        let fits = join.version == VERSION
            && join.whatami != WhatAmI::Client
            && join.size.unwrap_or((Resolution::DEFAULT, GroupConfig::BATCH_SIZE))
                == (self.config.resolution, self.config.batch_size)
            && inside(&join.next_sn)
            && join.qos.iter().flat_map(|all| all.iter()).all(inside);
        if !fits {
            self.stats.unfit += 1;
            return None;
        }
        if let Some(member) = self.members.get_mut(&from) {
            if !same(&member.join, &join) {
                self.stats.contradictions += 1;
                return None;
            }
            self.stats.joins += 1;
            member.rx.handle_join(now, &join);
            return Some(());
        }
        while self.farewells.front().is_some_and(|(_, end)| *end <= now.mono) {
            self.farewells.pop_front();
        }
        if self.farewells.iter().any(|(gone, _)| *gone == from) {
            return None;
        }
        if let Some(&before) = self.by_zid.get(&join.zid) {
            // A node that has moved or restarted, unless the known member is still active.
            let heard = self.members.get(&before).map_or(Duration::ZERO, |member| member.rx.last_heard());
            if now.mono < heard.saturating_add(self.config.join_interval.mul_f32(1.5)) {
                self.stats.contradictions += 1;
                return None;
            }
            self.leave(before);
        }
        let turn = self.joined.max(now.mono);
        if self.members.len() >= self.config.max_members || turn > now.mono.saturating_add(JOIN_BURST) {
            self.stats.too_many += 1;
            return None;
        }
        self.joined = turn.saturating_add(JOIN_PERIOD);
        self.stats.joins += 1;
        self.join(now, from, join);
        Some(())
    }

    fn join(&mut self, now: Now, from: SocketAddr, mut join: Join) {
        // A slice would keep the whole datagram alive.
        join.shm = None;
        let remote = Remote { zid: join.zid, whatami: join.whatami };
        #[allow(clippy::cast_possible_truncation, reason = "at most 1")]
        let params = LinkParams {
            remote,
            qos: join.qos.is_some(),
            patch: join.patch.min(u64::from(PATCH)) as u8,
            peer_lease: Duration::from_millis(join.lease_ms).min(MAX_LEASE),
            ..self.config.params()
        };
        let config = RxConfig {
            max_message_size: self.config.max_message_size,
            reassembly_bytes: self.config.reassembly_bytes,
        };
        let rx = LinkRx::of_member(&params, &join, config, now);
        let member = MemberId(self.next_id);
        self.next_id += 1;
        self.look_at = [self.look_at, rx.poll_timeout()].into_iter().flatten().min();
        self.by_zid.insert(join.zid, from);
        self.members.insert(from, Member { id: member, join, rx });
        self.events.push_back(GroupEvent::Joined { member, remote, from });
    }

    fn leave(&mut self, from: SocketAddr) {
        if let Some(member) = self.remove(from) {
            self.events.push_back(GroupEvent::Left { member });
        }
    }

    fn remove(&mut self, from: SocketAddr) -> Option<MemberId> {
        let member = self.members.remove(&from)?;
        self.by_zid.remove(&member.join.zid);
        self.reassembling -= member.rx.reassembling();
        Some(member.id)
    }

    /// The next event; to be drained after each input.
    pub fn poll_event(&mut self) -> Option<GroupEvent> {
        self.events.pop_front()
    }

    /// Deadline of [`Self::handle_timeout`].
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Duration> {
        self.look_at
    }

    /// Removes members that exceeded their lease.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.look_at.is_none_or(|at| now.mono < at) {
            return;
        }
        let gone: Vec<SocketAddr> = self
            .members
            .iter_mut()
            .filter_map(|(from, member)| member.rx.handle_timeout(now).then_some(*from))
            .collect();
        for from in gone {
            self.leave(from);
        }
        self.look_at = self.members.values().filter_map(|member| member.rx.poll_timeout()).min();
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, Remote, SocketAddr)> {
        self.members.iter().map(|(from, member)| {
            (member.id, Remote { zid: member.join.zid, whatami: member.join.whatami }, *from)
        })
    }

    /// Memory held for incomplete messages.
    #[must_use]
    pub const fn reassembling(&self) -> usize {
        self.reassembling
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> GroupStats {
        self.stats
    }
}

/// Whether a JOIN agrees with an earlier one of the same address.
fn same(before: &Join, now: &Join) -> bool {
    (before.zid, before.whatami, before.lease_ms, before.patch, before.qos.is_some())
        == (now.zid, now.whatami, now.lease_ms, now.patch, now.qos.is_some())
}

impl fmt::Debug for GroupRx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupRx")
            .field("members", &self.members.len())
            .field("reassembling", &self.reassembling)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
