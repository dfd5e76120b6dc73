//! Where samples come from: the links of a session by number.

use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// Links that are remembered. What waits in queues may have come by one that is gone.
const MAX_LINKS: usize = 4096;

/// The other ends of links, as locators. A number is not used again as long as it is remembered.
#[derive(Debug, Default)]
pub struct Origins(Mutex<VecDeque<(u32, Arc<str>)>>);

impl Origins {
    pub(crate) fn add(&self, number: u32, locator: &str) {
        let mut links = self.0.lock();
        if links.len() >= MAX_LINKS {
            links.pop_front();
        }
        links.push_back((number, locator.into()));
    }

    /// The other end of the link with this number; see [`Sample::link`](zwire_proto::zenoh::session::Sample).
    #[must_use]
    pub fn locator(&self, number: u32) -> Option<Arc<str>> {
        // Nearly always one of the newest.
        self.0.lock().iter().rev().find(|(known, _)| *known == number).map(|(_, locator)| locator.clone())
    }
}
