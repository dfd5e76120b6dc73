//! Listing of nodes: [`scout`].

use super::station::{Station, StationEvent};
use crate::{
    config::{Config, Roles},
    error::Error,
    rt::{
        queue::{Pushed, Queue, Weigh},
        runtime,
    },
    zenoh::session::{Handler, bounds, random_zid},
};
use std::sync::Arc;
use tokio::task::AbortHandle;
use zwire_proto::zenoh::discovery::{Found, ScoutingConfig};

impl Weigh for Found {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.locators.iter().map(|locator| locator.len()).sum::<usize>()
    }
}

/// A search that continues until it is stopped or dropped. All answers enter the queue: those of one node
/// come repeatedly, once per SCOUT and interface.
pub struct Listing {
    queue: Arc<Queue<Found>>,
    task: AbortHandle,
    birth: runtime::Birth,
}

impl Listing {
    /// Queue of answers. Closed by [`Self::stop`].
    #[must_use]
    pub const fn queue(&self) -> &Arc<Queue<Found>> {
        &self.queue
    }

    /// Stops the search. Idempotent.
    pub fn stop(&self) {
        if self.birth.is_here() {
            self.task.abort();
            self.queue.close();
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Asks the nodes of `roles` for HELLO, with the settings of `scouting/multicast`, even if its `enabled`
/// is false.
///
/// # Errors
/// An invalid configuration, or a runtime that does not start. Unusable interfaces are skipped with a
/// warning.
pub fn scout(config: &Config, roles: Roles, handler: Handler) -> Result<Listing, Error> {
    let mut config = config.clone();
    // A client without endpoints and without scouting would be refused; this search does not connect at
    // all.
    config.insert("mode", "peer".into())?;
    let config = config.resolve()?;
    runtime::set_workers(config.zwire.threads);
    let runtime = runtime::handle()?;
    let zid = random_zid()?;
    let queue = Queue::new(bounds(&config.zwire.handler, handler));
    let own = ScoutingConfig { zid, whatami: config.mode, what: roles.mask(), answer: false };
    let task = {
        let (queue, multicast) = (queue.clone(), config.scouting.multicast);
        runtime.spawn(async move {
            let mut station = Station::new(&multicast, own);
            loop {
                if let StationEvent::Found(found) = station.next().await {
                    let (pushed, _) = queue.push(found);
                    queue.signal();
                    if pushed == Pushed::Over {
                        queue.wait_space().await;
                    }
                }
            }
        })
    };
    Ok(Listing { queue, task: task.abort_handle(), birth: runtime::Birth::here() })
}
