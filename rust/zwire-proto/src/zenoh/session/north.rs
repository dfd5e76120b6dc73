//! [`North`]: state of the other end of the link, dropped with the link.

use std::collections::HashMap;

use super::{interest_table::Declared, keys::KeyTables};
use crate::zenoh::Remote;

#[derive(Debug)]
pub(super) struct North {
    pub(super) remote: Remote,
    pub(super) keys: KeyTables,
    /// Id counter, shared by subscribers, queryables, tokens and interests, as in Eclipse Zenoh.
    last_id: u32,
    /// Its declarations, by kind.
    pub(super) declared: [Declared; 3],
    /// Liveliness gets by the ids of their interests.
    pub(super) liveliness_gets: HashMap<u32, u32>,
    /// Whether the north is a peer that declares, and undeclares, without being asked.
    pub(super) tells_unasked: bool,
    /// Whether it has sent all its declarations.
    pub(super) told_everything: bool,
}

impl North {
    pub(super) fn new(remote: Remote) -> Self {
        Self {
            remote,
            keys: KeyTables::default(),
            last_id: 0,
            declared: Default::default(),
            liveliness_gets: HashMap::new(),
            tells_unasked: false,
            told_everything: false,
        }
    }

    /// Ids are not reused on a link: no link sees 4 billion declarations.
    pub(super) fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }
}
