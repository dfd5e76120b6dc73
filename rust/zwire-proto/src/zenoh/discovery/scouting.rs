//! [`Scouting`]: SCOUT to everybody, HELLO to who asks (`zenoh-behaviour` 1.6).

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
/// The longest.
const LONGEST_PERIOD: Duration = Duration::from_secs(8);

/// One asker is answered once in that time: it asks once a second at most, on each of its interfaces.
const ASKER_PAUSE: Duration = Duration::from_millis(200);
/// Askers that are remembered for that. When there are more, the rate of all answers alone counts.
const MAX_ASKERS: usize = 256;
/// Answers per second, and at once: a network of a thousand nodes that all start asks less.
const ANSWERS: (u32, u32) = (200, 1000);
/// HELLOs per second that are looked at, and at once: one SCOUT in a network of a thousand nodes.
const HELLOS: (u32, u32) = (500, 2000);
/// Events that wait for the driver.
const MAX_FOUND: usize = 256;
/// Answers that wait for the driver.
const MAX_ANSWERS: usize = 64;

/// What a node scouts for, and as what.
#[derive(Clone, Copy, Debug)]
pub struct ScoutingConfig {
    /// Our id.
    pub zid: ZenohId,
    /// Our role.
    pub whatami: WhatAmI,
    /// Roles looked for: router 1, peer 2, client 4. 0 asks nobody.
    pub what: u8,
    /// Whether others are answered.
    pub answer: bool,
}

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// To the group, on every interface.
    Scout(Bytes),
    /// The datagram of [`Scouting::hello`] to one asker, with locators that are of use to it.
    Answer {
        /// The asker.
        to: SocketAddr,
    },
}

/// A node that has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id; never ours.
    pub zid: ZenohId,
    /// Its role, one of those looked for.
    pub whatami: WhatAmI,
    /// Where it listens: at most [`MAX_TRIED_LOCATORS`], none for one that nobody can connect to.
    pub locators: Vec<Text>,
    /// Where the answer came from.
    pub from: SocketAddr,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoutingStats {
    /// SCOUTs sent, each on every interface.
    pub scouts_sent: u64,
    /// SCOUTs that came.
    pub scouts: u64,
    /// HELLOs that came.
    pub hellos: u64,
    /// Datagrams that were neither.
    pub malformed: u64,
    /// Datagrams that were left, because more came than a network of this kind sends.
    pub flooded: u64,
}

/// Asks who is there, and answers who asks.
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
    /// When the next SCOUT is due.
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

    /// The network is another than before: asks again as at the start.
    pub fn restart(&mut self, now: Now) {
        if self.next.is_some() {
            self.next = Some(now.mono);
            self.period = FIRST_PERIOD;
        }
    }

    /// A datagram that is not our own.
    pub fn handle_datagram(&mut self, now: Now, from: SocketAddr, datagram: &Bytes) {
        match ScoutingMessage::decode(&mut Reader::new(datagram)) {
            // Nobody checks the version.
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

    /// The time of [`Self::poll_timeout`] has come. Too early does no harm.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.next.is_none_or(|next| now.mono < next) {
            return;
        }
        // The id is left out, as the reference does.
        let scout = Scout { version: VERSION, what: self.config.what, zid: None };
        let mut datagram = Vec::with_capacity(4);
        ScoutingMessage::Scout(scout).encode(&mut datagram);
        self.out.push_back(Transmit::Scout(datagram.into()));
        self.stats.scouts_sent += 1;
        self.next = Some(now.mono + self.period);
        self.period = (self.period * 2).min(LONGEST_PERIOD);
    }

    /// The next thing to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// The next node that has answered. One node answers each SCOUT, on each interface.
    pub fn poll_found(&mut self) -> Option<Found> {
        self.found.pop_front()
    }

    /// When [`Self::handle_timeout`] wants to be called, on the monotonic clock.
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
