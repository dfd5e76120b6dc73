//! [`Candidates`]: nodes that scouting or gossip found, and when each is connected to.

use super::{MAX_TRIED_LOCATORS, bucket::Bucket};
use crate::{Now, Text, zenoh::ZenohId};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Connections that are tried at once. Each takes seconds if nobody answers, so this bounds what a flood
/// of made-up nodes costs; a network of several hundred that starts together is joined within seconds.
pub const MAX_DIALS: usize = 64;
/// Connections that are begun per second, and at once.
const DIALS: (u32, u32) = (100, 400);
/// Nodes that are remembered. Beyond it those go whose connection has failed, the next to be tried first.
const MAX_CANDIDATES: usize = 2048;
/// Attempts at a node that was never connected. It may answer the next SCOUT, and is new again.
const ATTEMPTS: u32 = 4;
/// How long a node is looked for whose link was lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// First pause after a link was lost: the other side may have to notice first.
const SOON: Duration = Duration::from_millis(100);
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));

/// How an attempt to connect has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a session with the node, through this connection or another.
    Connected,
    /// There is none.
    Failed,
}

#[derive(Debug)]
struct Candidate {
    locators: Vec<Text>,
    state: State,
    failures: u32,
    /// When its last session was lost.
    lost: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Dialling,
    Connected,
    Pausing(Duration),
}

/// Nodes to connect to: one attempt at each at a time, so many at once, so many per second.
///
/// | Family | Methods |
/// | --- | --- |
/// | input | [`handle_found`](Self::handle_found), [`handle_dialled`](Self::handle_dialled), [`handle_lost`](Self::handle_lost), [`handle_timeout`](Self::handle_timeout) |
/// | output | [`poll_dial`](Self::poll_dial) until `None`, then [`poll_timeout`](Self::poll_timeout) |
#[derive(Debug)]
pub struct Candidates {
    all: BTreeMap<ZenohId, Candidate>,
    waiting: VecDeque<ZenohId>,
    /// Those that pause, by the end of their pause.
    pausing: BTreeSet<(Duration, ZenohId)>,
    dialling: usize,
    rate: Bucket,
    refused: u64,
}

impl Default for Candidates {
    fn default() -> Self {
        Self::new()
    }
}

impl Candidates {
    /// Nobody yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            all: BTreeMap::new(),
            waiting: VecDeque::new(),
            pausing: BTreeSet::new(),
            dialling: 0,
            rate: Bucket::new(DIALS.0, DIALS.1),
            refused: 0,
        }
    }

    /// A node that is to be connected to was found at `locators`. Nothing happens if it is connected, or
    /// about to be; if it did not answer before, its pause goes on, and its locators are the new ones.
    pub fn handle_found(&mut self, _now: Now, zid: ZenohId, mut locators: Vec<Text>) {
        locators.truncate(MAX_TRIED_LOCATORS);
        if locators.is_empty() {
            return;
        }
        if let Some(candidate) = self.all.get_mut(&zid) {
            candidate.locators = locators;
            return;
        }
        if self.all.len() >= MAX_CANDIDATES {
            let Some((_, oldest)) = self.pausing.pop_first() else {
                self.refused += 1;
                return;
            };
            self.all.remove(&oldest);
        }
        self.all.insert(zid, Candidate { locators, state: State::Waiting, failures: 0, lost: None });
        self.waiting.push_back(zid);
    }

    /// What became of an attempt.
    pub fn handle_dialled(&mut self, now: Now, zid: ZenohId, outcome: Outcome) {
        let Some(candidate) = self.all.get_mut(&zid).filter(|c| c.state == State::Dialling) else { return };
        self.dialling -= 1;
        match outcome {
            Outcome::Connected => {
                candidate.state = State::Connected;
                candidate.failures = 0;
                candidate.lost = None;
            }
            Outcome::Failed => {
                candidate.failures += 1;
                let hopeless = match candidate.lost {
                    Some(lost) => now.mono.saturating_sub(lost) >= PATIENCE,
                    None => candidate.failures >= ATTEMPTS,
                };
                if hopeless {
                    self.all.remove(&zid);
                } else {
                    let pause = PAUSES.0 * (1 << (candidate.failures - 1).min(8));
                    self.pause(zid, now.mono + pause.min(PAUSES.1));
                }
            }
        }
    }

    /// The session with a node that was connected is over.
    pub fn handle_lost(&mut self, now: Now, zid: ZenohId) {
        if let Some(candidate) = self.all.get_mut(&zid).filter(|c| c.state == State::Connected) {
            candidate.lost = Some(now.mono);
            self.pause(zid, now.mono + SOON);
        }
    }

    fn pause(&mut self, zid: ZenohId, until: Duration) {
        if let Some(candidate) = self.all.get_mut(&zid) {
            candidate.state = State::Pausing(until);
            self.pausing.insert((until, zid));
        }
    }

    /// The time of [`Self::poll_timeout`] has come. Too early does no harm.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((until, zid)) = self.pausing.first().copied() {
            if until > now.mono {
                break;
            }
            self.pausing.pop_first();
            if let Some(candidate) = self.all.get_mut(&zid) {
                candidate.state = State::Waiting;
                self.waiting.push_back(zid);
            }
        }
    }

    /// Whom to connect to now, and where.
    pub fn poll_dial(&mut self, now: Now) -> Option<(ZenohId, Vec<Text>)> {
        if self.dialling >= MAX_DIALS || self.waiting.is_empty() || !self.rate.take(now.mono) {
            return None;
        }
        let zid = self.waiting.pop_front()?;
        let candidate = self.all.get_mut(&zid)?;
        candidate.state = State::Dialling;
        self.dialling += 1;
        Some((zid, candidate.locators.clone()))
    }

    /// When [`Self::handle_timeout`] and [`Self::poll_dial`] want to be called, on the monotonic clock.
    #[must_use]
    pub fn poll_timeout(&self, now: Now) -> Option<Duration> {
        let blocked = !self.waiting.is_empty() && self.dialling < MAX_DIALS;
        let rate = blocked.then(|| self.rate.next(now.mono).unwrap_or(now.mono));
        [self.pausing.first().map(|(until, _)| *until), rate].into_iter().flatten().min()
    }

    /// How many nodes are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether no node is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Nodes that were left because too many were known.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}
