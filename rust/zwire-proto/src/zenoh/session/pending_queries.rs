//! [`PendingQueries`]: queries that queryables have not finished.

use std::collections::HashMap;

use super::types::{EntityId, GetId, QueryId};
use crate::zenoh::{KeyExpr, Qos};

/// Who waits for the answers.
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

/// All of them.
#[derive(Debug, Default)]
pub(super) struct PendingQueries {
    pub(super) asked: HashMap<QueryId, Asked>,
    pub(super) requests: HashMap<u64, OpenQuery>,
    last: u64,
}

impl PendingQueries {
    pub(super) fn open(&self) -> usize {
        self.asked.len()
    }

    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn ids(&self, which: impl Fn(&Asked) -> bool) -> Vec<QueryId> {
        let mut ids: Vec<_> =
            self.asked.iter().filter(|(_, asked)| which(asked)).map(|(&id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
}
