//! Origins of samples: links of a session by number.

use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc};

/// Most links that are remembered. Samples waiting in queues may have come by a link that is gone.
const MAX_LINKS: usize = 4096;

/// Remote ends of links, as locators. A number is not reused as long as it is remembered.
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

    /// Remote end of the link with this number; see
    /// [`Sample::link`](zwire_proto::zenoh::session::Sample).
    #[must_use]
    pub fn locator(&self, number: u32) -> Option<Arc<str>> {
        // Searched from the end: nearly always it is one of the newest.
        self.0.lock().iter().rev().find(|(known, _)| *known == number).map(|(_, locator)| locator.clone())
    }
}
