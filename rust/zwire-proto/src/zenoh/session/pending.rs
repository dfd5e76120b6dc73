//! Gets, queries and barriers under way, and the replies that gets hold back.

use super::{
    SessionResult,
    error::SessionError,
    limits::MAX_PENDING_GETS,
    sample::{Sample, unshare},
    types::{Barrier, BarrierId, EntityId, GetEnd, GetId, QueryId, Reply},
};
use crate::{
    Now,
    zenoh::{KeyExpr, Qos, Timestamp, wire::Consolidation},
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Payload of the error that reports a timeout.
pub(super) const TIMEOUT: &[u8] = b"Timeout";

/// The least time that a get has. Timers of the reference tick once in a millisecond: there a get whose timeout is
/// zero still hears who answers at once, and a node on the way takes a zero for no timeout.
pub(super) const SHORTEST: Duration = Duration::from_millis(1);

/// A get that is waiting for a branch: the network, or queryables of the own session.
#[derive(Debug)]
pub(super) struct PendingGet {
    pub(super) key: KeyExpr,
    pub(super) any_key: bool,
    pub(super) consolidation: Consolidation,
    deadline: Duration,
    /// Whether the network has not finished.
    pub(super) network: bool,
    /// How many queries of the own session are not finished.
    pub(super) local: usize,
    pub(super) end: GetEnd,
    /// Whether a node on the way has told that its time is over.
    pub(super) told_timeout: bool,
    pub(super) budget: Option<u32>,
    pub(super) held: Held,
    /// Of a liveliness get: the keys that were reported.
    pub(super) tokens: Option<HashSet<KeyExpr>>,
}

impl PendingGet {
    pub(super) fn new(key: KeyExpr, consolidation: Consolidation, now: Now, timeout: Duration) -> Self {
        Self {
            key,
            any_key: false,
            consolidation,
            deadline: now.mono.saturating_add(timeout.max(SHORTEST)),
            network: false,
            local: 0,
            end: GetEnd::Completed,
            told_timeout: false,
            budget: None,
            held: Held::default(),
            tokens: None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Held {
    /// Latest: the replies, and where that of a key is. Monotonic: the keys alone.
    pub(super) replies: Vec<Reply>,
    by_key: HashMap<KeyExpr, (usize, Option<Timestamp>)>,
    pub(super) bytes: usize,
}

impl Held {
    /// Latest: keeps the newer of two replies of a key. Whether one was dropped.
    pub(super) fn keep(&mut self, mut reply: Reply) -> bool {
        let Ok(sample) = &mut reply.result else { return false };
        let timestamp = sample.timestamp;
        if let Some((at, known)) = self.by_key.get_mut(&sample.key) {
            // Equal or both absent: the later arrival replaces.
            if timestamp >= *known {
                sample.key = self.replies[*at].result.as_ref().map_or(sample.key.clone(), |s| s.key.clone());
                unshare(sample);
                self.bytes += sample.cost();
                self.bytes -= self.replies[*at].result.as_ref().map_or(0, Sample::cost);
                *known = timestamp;
                self.replies[*at] = reply;
            }
            return true;
        }
        sample.key = sample.key.unshared();
        unshare(sample);
        self.bytes += sample.cost();
        self.by_key.insert(sample.key.clone(), (self.replies.len(), timestamp));
        self.replies.push(reply);
        false
    }

    /// Monotonic: whether a reply is not older than the last of its key.
    pub(super) fn is_newer(&mut self, sample: &Sample) -> bool {
        if let Some((_, known)) = self.by_key.get_mut(&sample.key) {
            let newer = sample.timestamp >= *known;
            if newer {
                *known = sample.timestamp;
            }
            return newer;
        }
        self.bytes += size_of::<(KeyExpr, Timestamp)>() + sample.key.len();
        self.by_key.insert(sample.key.unshared(), (0, sample.timestamp));
        true
    }
}

#[derive(Debug, Default)]
pub(super) struct Gets {
    pub(super) pending: HashMap<GetId, PendingGet>,
    pub(super) deadlines: BTreeSet<(Duration, GetId)>,
    last: u32,
    /// Largest id, as negotiated with the link; 0 for no limit.
    pub(super) max: u32,
}

impl Gets {
    pub(super) fn insert(&mut self, pending: PendingGet) -> SessionResult<GetId> {
        let max = if self.max == 0 { u32::MAX } else { self.max };
        let limit = MAX_PENDING_GETS.min(max as usize);
        if self.pending.len() >= limit {
            return Err(SessionError::TooMany { what: "pending gets", limit });
        }
        loop {
            self.last = if self.last >= max { 1 } else { self.last + 1 };
            let id = GetId(self.last);
            if !self.pending.contains_key(&id) {
                self.deadlines.insert((pending.deadline, id));
                self.pending.insert(id, pending);
                return Ok(id);
            }
        }
    }

    pub(super) fn remove(&mut self, id: GetId) -> Option<PendingGet> {
        let pending = self.pending.remove(&id)?;
        self.deadlines.remove(&(pending.deadline, id));
        Some(pending)
    }
}

/// Receiver of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The north, with this entry of `requests`.
    North(u64),
    /// A get of this session.
    Local(GetId),
}

/// A question to one queryable that it has not finished.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) asker: Asker,
    pub(super) queryable: EntityId,
    pub(super) key: KeyExpr,
    pub(super) any_key: bool,
    pub(super) qos: Qos,
}

/// A REQUEST that some queryables have not finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenQuery {
    pub(super) id: u32,
    pub(super) qos: Qos,
    pub(super) unfinished: usize,
}

#[derive(Debug, Default)]
pub(super) struct PendingQueries {
    pub(super) asked: HashMap<QueryId, Asked>,
    pub(super) requests: HashMap<u64, OpenQuery>,
    last: u64,
}

impl PendingQueries {
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

#[derive(Debug, Default)]
pub(super) struct Barriers {
    pub(super) pending: BTreeMap<BarrierId, Barrier>,
    /// From the ids of this link.
    pub(super) by_id: HashMap<u32, BarrierId>,
    pub(super) last: u64,
}

/// The ids of those that fit, in the order in which they were asked.
pub(super) fn ids_of<K: Copy + Ord, V>(all: &HashMap<K, V>, fits: impl Fn(&V) -> bool) -> Vec<K> {
    let mut ids: Vec<_> = all.iter().filter(|(_, one)| fits(one)).map(|(&id, _)| id).collect();
    ids.sort_unstable();
    ids
}
