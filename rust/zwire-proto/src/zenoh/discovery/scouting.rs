//! [`Scouting`]: sends SCOUT to the group, and HELLO to each asker (`zenoh-behaviour` 1.6).

use super::{MAX_TRIED_LOCATORS, bucket::Bucket};
use crate::{
    Now, Text,
    buf::Reader,
    zenoh::{
        VERSION, WhatAmI, ZenohId,
        wire::{Hello, Scout, ScoutingMessage},
    },
};
use bytes::Bytes;
use core::{net::SocketAddr, time::Duration};
use std::collections::{BTreeMap, VecDeque};

/// First pause between two SCOUTs; it doubles after each.
const FIRST_PERIOD: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PERIOD: Duration = Duration::from_secs(8);

/// Shortest time between two answers to one asker: it asks once a second at most, on each of its
/// interfaces.
const ASKER_PAUSE: Duration = Duration::from_millis(200);
/// Askers tracked for that. Above it, only the rate of all answers counts.
const MAX_ASKERS: usize = 256;
/// Answers per second, and in a burst: more than needed when a network of a thousand nodes starts.
const ANSWERS: (u32, u32) = (200, 1000);
/// HELLOs per second that are evaluated, and in a burst: one SCOUT in a network of a thousand nodes.
const HELLOS: (u32, u32) = (500, 2000);
/// Events waiting for the driver.
const MAX_FOUND: usize = 256;
/// Answers waiting for the driver.
const MAX_ANSWERS: usize = 64;

/// Configuration of scouting.
#[derive(Clone, Copy, Debug)]
pub struct ScoutingConfig {
    /// Local id.
    pub zid: ZenohId,
    /// Local role.
    pub whatami: WhatAmI,
    /// Roles looked for: router 1, peer 2, client 4. 0 sends no SCOUT.
    pub what: u8,
    /// Whether SCOUTs of other nodes are answered.
    pub answer: bool,
}

/// Datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// SCOUT to the group, on every interface.
    Scout(Bytes),
    /// The datagram of [`Scouting::hello`] to one asker, with locators that it can use.
    Answer {
        /// The asker.
        to: SocketAddr,
    },
}

/// A node that has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id; never the local one.
    pub zid: ZenohId,
    /// Its role, one of those looked for.
    pub whatami: WhatAmI,
    /// Its locators: at most [`MAX_TRIED_LOCATORS`], none for a node that accepts no connections.
    pub locators: Vec<Text>,
    /// Source address of the answer.
    pub from: SocketAddr,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoutingStats {
    /// SCOUTs sent, each on every interface.
    pub scouts_sent: u64,
    /// SCOUTs received.
    pub scouts: u64,
    /// HELLOs received.
    pub hellos: u64,
    /// Datagrams that were neither.
    pub malformed: u64,
    /// Datagrams ignored because they exceeded the rate of a normal network.
    pub flooded: u64,
}

/// Sends SCOUT, and answers those of other nodes.
///
/// | Family | Methods |
/// | --- | --- |
/// | input | [`handle_datagram`](Self::handle_datagram), [`handle_timeout`](Self::handle_timeout) |
/// | command | [`restart`](Self::restart) |
/// | output | [`poll_transmit`](Self::poll_transmit), [`poll_found`](Self::poll_found), [`poll_timeout`](Self::poll_timeout) |
///
/// A flood of datagrams costs a bounded number of answers and events per second and bounded memory.
#[derive(Debug)]
pub struct Scouting {
    config: ScoutingConfig,
    /// Time of the next SCOUT.
    next: Option<Duration>,
    period: Duration,
    askers: BTreeMap<SocketAddr, Duration>,
    answers: Bucket,
    hellos: Bucket,
    out: VecDeque<Transmit>,
    found: VecDeque<Found>,
    stats: ScoutingStats,
}

impl Scouting {
    /// The first SCOUT is due at once.
    #[must_use]
    pub fn new(config: ScoutingConfig, now: Now) -> Self {
        Self {
            next: (config.what & 7 != 0).then_some(now.mono),
            config,
            period: FIRST_PERIOD,
            askers: BTreeMap::new(),
            answers: Bucket::new(ANSWERS.0, ANSWERS.1),
            hellos: Bucket::new(HELLOS.0, HELLOS.1),
            out: VecDeque::new(),
            found: VecDeque::new(),
            stats: ScoutingStats::default(),
        }
    }

    /// Starts asking again as at the beginning, after a change of the network.
    pub fn restart(&mut self, now: Now) {
        if self.next.is_some() {
            self.next = Some(now.mono);
            self.period = FIRST_PERIOD;
        }
    }

    /// Handles a datagram of another node.
    pub fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &Bytes) {
        match ScoutingMessage::decode(&mut Reader::new(datagram)) {
            // The version is not checked, as in all implementations.
            Ok(ScoutingMessage::Scout(scout)) => self.handle_scout(now, from, scout),
            Ok(ScoutingMessage::Hello(hello)) => self.handle_hello(now, from, hello),
            Err(_) => self.stats.malformed += 1,
        }
    }

    fn handle_scout(&mut self, now: Now, from: SocketAddr, scout: Scout) {
        self.stats.scouts += 1;
        let asked = scout.what & self.config.whatami.to_mask() != 0;
        if !self.config.answer || !asked || scout.zid == Some(self.config.zid) {
            return;
        }
        if self.askers.get(&from).is_some_and(|until| now.mono < *until) {
            return;
        }
        if self.askers.len() >= MAX_ASKERS {
            self.askers.retain(|_, until| now.mono < *until);
        }
        if self.out.len() >= MAX_ANSWERS || !self.answers.take(now.mono) {
            self.stats.flooded += 1;
            return;
        }
        if self.askers.len() < MAX_ASKERS {
            self.askers.insert(from, now.mono + ASKER_PAUSE);
        }
        self.out.push_back(Transmit::Answer { to: from });
    }

    fn handle_hello(&mut self, now: Now, from: SocketAddr, mut hello: Hello) {
        self.stats.hellos += 1;
        if hello.zid == self.config.zid || hello.whatami.to_mask() & self.config.what == 0 {
            return;
        }
        if self.found.len() >= MAX_FOUND || !self.hellos.take(now.mono) {
            self.stats.flooded += 1;
            return;
        }
        hello.locators.truncate(MAX_TRIED_LOCATORS);
        let Hello { whatami, zid, locators, .. } = hello;
        self.found.push_back(Found { zid, whatami, locators, from });
    }

    /// Call at the time of [`Self::poll_timeout`]. An earlier call is harmless.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.next.is_none_or(|next| now.mono < next) {
            return;
        }
        // The id is left out, as in Eclipse Zenoh.
        let scout = Scout { version: VERSION, what: self.config.what, zid: None };
        let mut datagram = Vec::with_capacity(4);
        ScoutingMessage::Scout(scout).encode(&mut datagram);
        self.out.push_back(Transmit::Scout(datagram.into()));
        self.stats.scouts_sent += 1;
        self.next = Some(now.mono + self.period);
        self.period = (self.period * 2).min(LONGEST_PERIOD);
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// The next answering node. One node answers each SCOUT, on each interface.
    pub fn poll_found(&mut self) -> Option<Found> {
        self.found.pop_front()
    }

    /// Deadline of [`Self::handle_timeout`], on the monotonic clock.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.next
    }

    /// The datagram that answers an asker.
    #[must_use]
    pub fn hello(&self, locators: Vec<Text>) -> Bytes {
        let ScoutingConfig { zid, whatami, .. } = self.config;
        let mut datagram = Vec::with_capacity(256);
        ScoutingMessage::Hello(Hello { version: VERSION, whatami, zid, locators }).encode(&mut datagram);
        datagram.into()
    }

    /// The counters.
    #[must_use]
    pub const fn stats(&self) -> ScoutingStats {
        self.stats
    }
}
