//! [`RoutedQueries`]: requests that wait for their end.

use super::ids::FaceId;
use crate::zenoh::Qos;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// A request of somebody, while it has branches.
#[derive(Debug)]
pub(super) struct RoutedQuery {
    pub(super) source: FaceId,
    pub(super) rid: u32,
    pub(super) qos: Qos,
    /// Replies that may still be forwarded, if the querier limits them.
    pub(super) budget: Option<u32>,
    pub(super) branches: BTreeSet<(FaceId, u32)>,
}

/// All requests that wait for their end.
#[derive(Debug, Default)]
pub(super) struct RoutedQueries {
    pub(super) next: u64,
    pub(super) open: BTreeMap<u64, RoutedQuery>,
    pub(super) deadlines: BTreeSet<(Duration, FaceId, u32)>,
}

impl RoutedQueries {
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _, _)| *deadline)
    }
}
