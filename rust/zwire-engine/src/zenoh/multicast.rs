//! Multicast groups: drives the machine of `zwire_proto::zenoh::group` over its sockets
//! (`zenoh-behaviour` 2.13).
//!
//! To the node a group is one face for everything that is sent, and one face per member for what is
//! received. The first has a [`Link`] like any other; its machine sends JOIN in place of keep-alives.

use crate::{
    config::{NodeConfig, Target},
    error::{ConnectReason, Error},
    net::io::{Group, Io, group_of},
    rt::clock,
    zenoh::{
        connectivity::LinkInfo,
        core::Side,
        effects::Effects,
        intercept::{Guard, Waiting},
        link::{Link, LinkEnd},
        link_settings::{link_policy, patience, stranger_bytes},
        release,
        shared::SessionShared,
    },
};
use bytes::BytesMut;
use core::time::Duration;
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Weak, atomic::Ordering},
};
use zwire_proto::{
    Now,
    zenoh::{
        Reliability, Remote, WhatAmI,
        group::{GroupConfig, GroupEvent, GroupRx, HeardMember, MemberId},
        link::TxConfig,
        node::{FaceId, FaceKind},
        wire::{NetworkMessage, Resolution},
    },
};

/// Size of the receive buffer: eight of the largest datagrams of the group.
const READ_BYTES: usize = 512 * 1024;

/// Most datagrams that are read before the clock is read again and other tasks of the thread may run.
const MAX_AT_ONCE: usize = 64;

/// Messages that are delivered together.
const AT_ONCE: usize = 128;

/// Endpoints of a configuration that are multicast groups. Listening and connecting are the same for
/// them.
pub(crate) fn targets(config: &NodeConfig) -> Vec<(SocketAddr, Target)> {
    let mut found: Vec<(SocketAddr, Target)> = Vec::new();
    for target in config.listen.targets.iter().chain(config.connect.targets()) {
        if let Some(group) = group_of(target)
            && !found
                .iter()
                .any(|(known, other)| *known == group && other.options.interface == target.options.interface)
        {
            found.push((group, target.clone()));
        }
    }
    found
}

/// Joins all groups of the configuration.
///
/// # Errors
/// A group cannot be joined, and the configuration makes that fatal.
pub(crate) fn start(shared: &Arc<SessionShared>) -> Result<(), Error> {
    for (group, target) in targets(&shared.config) {
        let joined = {
            let _runtime = shared.runtime.enter();
            Group::join(&target, group)
                .and_then(|sockets| start_group(shared, &target, sockets).map_err(ConnectReason::io))
        };
        if let Err(reason) = joined {
            let error = Error::Connect { endpoint: target.endpoint.to_string(), reason };
            if target.rules.exit_on_failure {
                return Err(error);
            }
            tracing::warn!(%error, "continuing without this group");
        }
    }
    Ok(())
}

fn group_config(shared: &SessionShared) -> io::Result<GroupConfig> {
    let config = &shared.config;
    let mut sn = [0; 4];
    getrandom::fill(&mut sn).map_err(|_| io::Error::other("no randomness"))?;
    let resolution = Resolution::new(config.link.sn_resolution as u8, Resolution::DEFAULT.request_id());
    Ok(GroupConfig {
        resolution,
        batch_size: config.link.batch_size.min(GroupConfig::BATCH_SIZE),
        lease: config.link.lease,
        join_interval: config.multicast.join_interval,
        qos: config.multicast.qos,
        initial_sn: u32::from_le_bytes(sn),
        max_members: config.multicast.max_sessions,
        max_message_size: config.link.max_message_size,
        reassembly_bytes: stranger_bytes(config),
        ..GroupConfig::new(shared.zid, config.mode)
    })
}

fn start_group(shared: &Arc<SessionShared>, target: &Target, sockets: Group) -> io::Result<()> {
    let config = group_config(shared)?;
    let now = clock::now();
    let tx = config.sender(TxConfig { bytes_per_priority: usize::MAX, keep_alive: 1 }, now);
    let policy = link_policy(&shared.config);
    let link =
        Link::new(Io::Group(Box::new(sockets)), config.params(), tx, policy, None, shared.progress.clone())?;
    // One guard for sending: all members of the group receive the same messages.
    link.set_policy(&shared.rules.in_force(), None, false);
    let own = Remote { zid: shared.zid, whatami: shared.config.mode };
    let face = shared.with_core(&mut Effects::default(), |core, now, _| match &mut core.side {
        Side::Client(_) => None,
        Side::Node(side) => {
            let face = side.new_face();
            release::prepare(shared, &link, face);
            side.links.insert(face, link.clone());
            side.node.handle_face_up(now, face, own, FaceKind::Group);
            Some(face)
        }
    });
    let Some(face) = face else { return Err(io::Error::other("clients take no part in groups")) };
    // Sends the first JOIN.
    link.flush();
    let ears = Ears {
        shared: Arc::downgrade(shared),
        locator: target.endpoint.locator().as_str().to_owned(),
        link: link.clone(),
        face,
        rx: GroupRx::new(config),
        members: BTreeMap::new(),
    };
    shared.spawn(link.run_tx());
    shared.spawn(ears.run());
    Ok(())
}

/// A member from which datagrams are received.
struct Member {
    face: FaceId,
    info: Arc<LinkInfo>,
    /// Interceptor of the messages that it sends.
    guard: Arc<Guard>,
    /// Number of the rules that it was made of.
    rules: u64,
    /// Whether a warning has told of its payloads in shared memory.
    warned: bool,
}

/// Receiving side of a group.
struct Ears {
    shared: Weak<SessionShared>,
    locator: String,
    link: Arc<Link>,
    face: FaceId,
    rx: GroupRx,
    members: BTreeMap<MemberId, Member>,
}

impl Ears {
    async fn run(mut self) {
        self.hear().await;
        self.link.close();
        let members: Vec<MemberId> = self.members.keys().copied().collect();
        let Some(shared) = self.shared.upgrade() else { return };
        for member in members {
            self.left(&shared, member, LinkEnd::Closed);
        }
        shared.with_core(&mut Effects::default(), |core, now, _| {
            if let Side::Node(side) = &mut core.side {
                side.links.remove(&self.face);
                core.past.links.add(&self.link);
                side.node.handle_face_down(now, self.face);
            }
        });
    }

    async fn hear(&mut self) -> Option<()> {
        let link = self.link.clone();
        let Io::Group(sockets) = &link.io else { return None };
        let mut buf = BytesMut::new();
        let mut messages = Vec::new();
        let mut effects = Effects::default();
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        loop {
            // Sender of the messages that wait to be delivered.
            let mut speaker = None;
            for _ in 0..MAX_AT_ONCE {
                if buf.capacity() - buf.len() < READ_BYTES / 8 {
                    buf.reserve(READ_BYTES);
                }
                let from = match sockets.try_hear(&mut buf) {
                    Ok(from) => from,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        tracing::warn!(group = self.locator, %error, "a multicast group is lost");
                        link.note_end(LinkEnd::Io(error.to_string()));
                        return None;
                    }
                };
                link.stats.rx_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
                let (now, before) = (clock::now(), messages.len());
                let heard = self.rx.handle_datagram(now, from, buf.split().freeze(), &mut messages);
                if let Some(heard) = heard {
                    self.count_unreadable(heard);
                }
                // Messages that a member sent earlier are delivered before it is removed or replaced.
                let member = heard.map(|heard| heard.member);
                if before > 0 && speaker != member {
                    let new = messages.split_off(before);
                    self.deliver(speaker, &mut messages, &mut effects).await?;
                    messages = new;
                }
                self.changes(now)?;
                speaker = if messages.is_empty() { None } else { member };
                let closed = heard.and_then(|heard| heard.closed);
                if closed.is_some() || messages.len() >= AT_ONCE {
                    self.deliver(speaker.take(), &mut messages, &mut effects).await?;
                }
                if let (Some(reason), Some(member)) = (closed, member) {
                    let shared = self.shared.upgrade()?;
                    self.left(&shared, member, LinkEnd::ByPeer(reason));
                }
            }
            self.deliver(speaker, &mut messages, &mut effects).await?;
            let shared = self.shared.upgrade()?;
            shared.settle(&mut effects);
            effects.wait_all(patience(&shared.config)).await;
            drop(shared);
            if let Some(at) = self.rx.poll_timeout() {
                sleep.as_mut().reset(clock::instant(at));
            }
            tokio::select! {
                ready = sockets.audible() => ready.ok()?,
                () = &mut sleep, if self.rx.poll_timeout().is_some() => {
                    let now = clock::now();
                    self.rx.handle_timeout(now);
                    self.changes(now)?;
                }
                () = link.closed() => return None,
            }
        }
    }

    /// Hands messages of a member to the machines. While the authority decides about one of them, the group is not
    /// read.
    async fn deliver(
        &mut self,
        speaker: Option<MemberId>,
        messages: &mut Vec<(NetworkMessage, Reliability)>,
        effects: &mut Effects,
    ) -> Option<()> {
        if messages.is_empty() {
            return Some(());
        }
        self.link.stats.rx_messages.fetch_add(messages.len() as u64, Ordering::Relaxed);
        let mut shared = self.shared.upgrade()?;
        let link = &self.link;
        match speaker.and_then(|member| self.members.get_mut(&member)) {
            Some(Member { face, info, guard, rules, .. }) => {
                if *rules != shared.rules.changes() {
                    *rules = shared.rules.changes();
                    let in_force = shared.rules.in_force();
                    shared.with_core(&mut Effects::default(), |core, now, effects| {
                        core.renew_rules(now, *face, (link, Some(info.zid)), guard, &in_force, effects);
                    });
                }
                let mut admitted = guard.admit(messages, None);
                loop {
                    link.send_answers(&admitted.refusals);
                    while !messages.is_empty() {
                        // A group has no connection to close or to leave unread; further messages of the member are
                        // still received.
                        match shared.deliver(*face, messages, effects, || true) {
                            Ok(None) => {}
                            Ok(Some(until)) if until <= clock::mono() => {}
                            Ok(Some(_)) => {
                                tracing::warn!(
                                    peer = info.src,
                                    messages = messages.len(),
                                    "a member of a multicast group used its time for matching keys: dropping messages"
                                );
                                messages.clear();
                            }
                            Err(reason) => tracing::warn!(
                                peer = info.src,
                                ?reason,
                                "a member of a multicast group exceeded a limit of its role: its remaining messages were dropped"
                            ),
                        }
                    }
                    let Some(Waiting { messages: rest, question }) = admitted.waiting.take() else { break };
                    // The messages before it go on meanwhile.
                    shared.settle(effects);
                    drop(shared);
                    let answer = tokio::select! {
                        answer = question.answer() => answer,
                        () = link.closed() => return None,
                    };
                    shared = self.shared.upgrade()?;
                    *messages = rest;
                    admitted = guard.admit(messages, Some((question.rules(), answer)));
                }
            }
            None => messages.clear(),
        }
        Some(())
    }

    /// Counts the messages that a datagram has lost because of shared memory, and warns of the member once.
    fn count_unreadable(&mut self, heard: HeardMember) {
        if heard.in_shared_memory == 0 {
            return;
        }
        self.link.stats.rx_shm_failed.fetch_add(heard.in_shared_memory as u64, Ordering::Relaxed);
        if let Some(member) = self.members.get_mut(&heard.member)
            && !core::mem::replace(&mut member.warned, true)
        {
            tracing::warn!(
                peer = member.info.src,
                zid = %member.info.zid,
                group = self.locator,
                "a member of a multicast group sends payloads in its shared memory, which are dropped here: set \
                 transport/shared_memory/enabled to false in its configuration"
            );
        }
    }

    /// Handles members that joined or left.
    fn changes(&mut self, now: Now) -> Option<()> {
        while let Some(event) = self.rx.poll_event() {
            let shared = self.shared.upgrade()?;
            match event {
                GroupEvent::Joined { member, remote, from } => {
                    self.joined(&shared, member, remote, from);
                    self.link.announce(now);
                }
                GroupEvent::Left { member } => self.left(&shared, member, LinkEnd::Silent),
            }
        }
        Some(())
    }

    fn joined(&mut self, shared: &SessionShared, member: MemberId, remote: Remote, from: SocketAddr) {
        let info = Arc::new(LinkInfo {
            zid: remote.zid,
            whatami: remote.whatami,
            dst: format!("udp/{from}"),
            group: Some(self.locator.clone()),
            ..LinkInfo::of(&self.link)
        });
        tracing::debug!(zid = %remote.zid, group = self.locator, "a member has joined a multicast group");
        let kind = FaceKind::Member { group: self.face };
        let face = shared.with_core(&mut Effects::default(), |core, now, effects| {
            effects.told = true;
            core.connectivity.up(info.clone());
            let Side::Node(side) = &mut core.side else { return None };
            let face = side.new_face();
            core.origins.add(face.0, &info.dst);
            side.members.insert(face, self.link.clone());
            side.node.handle_face_up(now, face, remote, kind);
            Some(face)
        });
        let rules = shared.rules.changes();
        let guard = self.link.guard(&shared.rules.in_force(), Some(remote.zid));
        self.members.extend(face.map(|face| (member, Member { face, info, guard, rules, warned: false })));
    }

    fn left(&mut self, shared: &SessionShared, member: MemberId, end: LinkEnd) {
        let Some(Member { face, info, .. }) = self.members.remove(&member) else { return };
        shared.with_core(&mut Effects::default(), |core, now, effects| {
            effects.told = true;
            core.connectivity.down(&info, end);
            if let Side::Node(side) = &mut core.side {
                side.members.remove(&face);
                side.node.handle_face_down(now, face);
            }
        });
    }
}

/// Fails if a client is configured with a multicast endpoint.
pub(crate) fn check(config: &NodeConfig) -> Result<(), Error> {
    match targets(config).into_iter().next() {
        Some((_, target)) if config.mode == WhatAmI::Client => Err(Error::Connect {
            endpoint: target.endpoint.to_string(),
            reason: ConnectReason::io(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a client takes no part in multicast groups",
            )),
        }),
        _ => Ok(()),
    }
}
