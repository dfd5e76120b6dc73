//! [`Candidates`]: nodes found by scouting or gossip, and the schedule of connections to them.

use super::{MAX_TRIED_LOCATORS, bucket::Bucket, locators::GossipReach};
use crate::{Now, Text, zenoh::ZenohId};
use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Simultaneous connection attempts. Each takes seconds if the node does not answer, so this bounds the
/// cost of a flood of made-up nodes; a network of several hundred that starts together is joined within
/// seconds.
pub const MAX_DIALS: usize = 64;
/// New connection attempts per second, and in a burst.
const DIALS: (u32, u32) = (100, 400);
/// Failed attempts per second at nodes that gossip tells of and that were never connected, and in a burst.
/// A neighbour can invent nodes; a fleet of nodes that exist is not slowed down.
const FAILURES: (u32, u32) = (5, 128);
/// Nodes that are stored. Above it, nodes with a failed connection are dropped, the next one to be
/// retried first.
const MAX_CANDIDATES: usize = 2048;
/// Nodes among them that gossip tells of and that were never connected.
const MAX_TOLD: usize = MAX_CANDIDATES / 2;
/// Attempts at a node that was never connected. It may answer the next SCOUT, and then counts as new.
const ATTEMPTS: u32 = 4;
/// Time for which a node is retried after the loss of its link.
const PATIENCE: Duration = Duration::from_secs(60);
/// First pause after the loss of a link: the other side may have to notice first.
const SOON: Duration = Duration::from_millis(100);
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));

/// Result of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialOutcome {
    /// A session with the node exists, through this connection or another.
    Connected,
    /// No session exists.
    Failed,
}

/// An attempt to connect that is due.
#[derive(Clone, Debug)]
pub struct DueDial {
    /// The node.
    pub zid: ZenohId,
    /// Its locators.
    pub locators: Vec<Text>,
    /// Addresses that it may have, if gossip tells of it.
    pub reach: Option<Arc<GossipReach>>,
}

#[derive(Debug)]
struct Candidate {
    locators: Vec<Text>,
    state: CandidateState,
    failures: u32,
    /// Time at which its last session was lost.
    lost: Option<Duration>,
    /// Addresses that it may have, if only gossip tells of it and it was never connected.
    told: Option<Arc<GossipReach>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CandidateState {
    Waiting,
    Dialling,
    Connected,
    Pausing(Duration),
}

/// Nodes to connect to: one attempt at a time for each, with bounded numbers at once and per second.
///
/// | Family | Methods |
/// | --- | --- |
/// | input | [`handle_found`](Self::handle_found), [`handle_dialled`](Self::handle_dialled), [`handle_lost`](Self::handle_lost), [`handle_timeout`](Self::handle_timeout) |
/// | output | [`poll_dial`](Self::poll_dial) until `None`, then [`poll_timeout`](Self::poll_timeout) |
#[derive(Debug)]
pub struct Candidates {
    all: BTreeMap<ZenohId, Candidate>,
    /// Nodes to connect to next; those that only gossip tells of wait in the second queue.
    waiting: [VecDeque<ZenohId>; 2],
    /// Number of nodes that only gossip tells of.
    told: usize,
    /// Pausing nodes, by the end of their pause.
    pausing: BTreeSet<(Duration, ZenohId)>,
    dialling: usize,
    rate: Bucket,
    failures: Bucket,
    refused: u64,
}

impl Default for Candidates {
    fn default() -> Self {
        Self::new()
    }
}

impl Candidates {
    /// No candidates.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            all: BTreeMap::new(),
            waiting: [VecDeque::new(), VecDeque::new()],
            told: 0,
            pausing: BTreeSet::new(),
            dialling: 0,
            rate: Bucket::new(DIALS.0, DIALS.1),
            failures: Bucket::new(FAILURES.0, FAILURES.1),
            refused: 0,
        }
    }

    /// Handles a node found at `locators`; `told` if gossip tells of it. Ignored if the node is
    /// connected, or an attempt is running; if it did not answer before, its pause continues, with the new
    /// locators.
    pub fn handle_found(
        &mut self,
        _now: Now,
        zid: ZenohId,
        mut locators: Vec<Text>,
        told: Option<Arc<GossipReach>>,
    ) {
        locators.truncate(MAX_TRIED_LOCATORS);
        if locators.is_empty() {
            return;
        }
        if let Some(candidate) = self.all.get_mut(&zid) {
            candidate.locators = locators;
            return;
        }
        if told.is_some() && self.told >= MAX_TOLD {
            self.refused += 1;
            return;
        }
        if self.all.len() >= MAX_CANDIDATES {
            let Some((_, oldest)) = self.pausing.pop_first() else {
                self.refused += 1;
                return;
            };
            self.remove(oldest);
        }
        let queue = usize::from(told.is_some());
        self.told += queue;
        let state = CandidateState::Waiting;
        self.all.insert(zid, Candidate { locators, state, failures: 0, lost: None, told });
        self.waiting[queue].push_back(zid);
    }

    fn remove(&mut self, zid: ZenohId) {
        self.told -= self.all.remove(&zid).map_or(0, |candidate| usize::from(candidate.told.is_some()));
    }

    /// Handles the result of an attempt.
    pub fn handle_dialled(&mut self, now: Now, zid: ZenohId, outcome: DialOutcome) {
        let Some(candidate) = self.all.get_mut(&zid).filter(|c| c.state == CandidateState::Dialling) else {
            return;
        };
        self.dialling -= 1;
        match outcome {
            DialOutcome::Connected => {
                candidate.state = CandidateState::Connected;
                candidate.failures = 0;
                candidate.lost = None;
                self.told -= usize::from(candidate.told.take().is_some());
            }
            DialOutcome::Failed => {
                candidate.failures += 1;
                if candidate.told.is_some() {
                    self.failures.charge(now.mono);
                }
                let hopeless = match candidate.lost {
                    Some(lost) => now.mono.saturating_sub(lost) >= PATIENCE,
                    None => candidate.failures >= ATTEMPTS,
                };
                if hopeless {
                    self.remove(zid);
                } else {
                    let pause = PAUSES.0 * (1 << (candidate.failures - 1).min(8));
                    self.pause(zid, now.mono + pause.min(PAUSES.1));
                }
            }
        }
    }

    /// Handles the end of the session with a connected node.
    pub fn handle_lost(&mut self, now: Now, zid: ZenohId) {
        if let Some(candidate) = self.all.get_mut(&zid).filter(|c| c.state == CandidateState::Connected) {
            candidate.lost = Some(now.mono);
            self.pause(zid, now.mono + SOON);
        }
    }

    fn pause(&mut self, zid: ZenohId, until: Duration) {
        if let Some(candidate) = self.all.get_mut(&zid) {
            candidate.state = CandidateState::Pausing(until);
            self.pausing.insert((until, zid));
        }
    }

    /// Call at the time of [`Self::poll_timeout`]. An earlier call is harmless.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((until, zid)) = self.pausing.first().copied() {
            if until > now.mono {
                break;
            }
            self.pausing.pop_first();
            if let Some(candidate) = self.all.get_mut(&zid) {
                candidate.state = CandidateState::Waiting;
                self.waiting[usize::from(candidate.told.is_some())].push_back(zid);
            }
        }
    }

    /// The queue of the node to connect to next.
    fn next_queue(&self, now: Duration) -> Option<usize> {
        let [found, told] = &self.waiting;
        match (found.is_empty(), told.is_empty()) {
            (false, _) => Some(0),
            (true, false) if self.failures.next(now).is_none() => Some(1),
            _ => None,
        }
    }

    /// The next node to connect to.
    pub fn poll_dial(&mut self, now: Now) -> Option<DueDial> {
        if self.dialling >= MAX_DIALS {
            return None;
        }
        let queue = self.next_queue(now.mono)?;
        if !self.rate.take(now.mono) {
            return None;
        }
        let zid = self.waiting[queue].pop_front()?;
        let candidate = self.all.get_mut(&zid)?;
        candidate.state = CandidateState::Dialling;
        self.dialling += 1;
        Some(DueDial { zid, locators: candidate.locators.clone(), reach: candidate.told.clone() })
    }

    /// Deadline of [`Self::handle_timeout`] and [`Self::poll_dial`], on the monotonic clock.
    #[must_use]
    pub fn poll_timeout(&self, now: Now) -> Option<Duration> {
        let [found, told] = &self.waiting;
        let blocked = self.dialling < MAX_DIALS && !(found.is_empty() && told.is_empty());
        let rate = blocked.then(|| {
            let rate = self.rate.next(now.mono).unwrap_or(now.mono);
            let failures = if found.is_empty() { self.failures.next(now.mono) } else { None };
            rate.max(failures.unwrap_or(now.mono))
        });
        [self.pausing.first().map(|(until, _)| *until), rate].into_iter().flatten().min()
    }

    /// Number of stored nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether no node is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Nodes ignored because too many were known.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}
