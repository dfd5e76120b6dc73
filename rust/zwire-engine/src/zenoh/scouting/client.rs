//! Scouting of a client without endpoints.

use super::{
    node::targets,
    station::{Station, StationEvent},
};
use crate::{
    error::{ConnectReason, Error},
    net::race::STAGGER,
    rt::clock,
    zenoh::{
        connect::dial::{Failures, attempt_all},
        establish::Established,
        link::Link,
        link_task::start_link,
        shared::SessionShared,
    },
};
use core::time::Duration;
use std::{collections::HashMap, sync::Arc};
use tokio::task::JoinSet;
use zwire_proto::zenoh::{
    WhatAmI, ZenohId,
    discovery::{Found, ScoutingConfig},
};

/// Time for which an answer of a peer is held back, so that a router can be preferred.
const ROUTERS_FIRST: Duration = Duration::from_millis(50);
/// Most nodes that are tried at once.
const MAX_AT_ONCE: usize = 8;
/// Pause before a node that could not be connected to is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Most failures that are kept for the error.
const MAX_FAILURES: usize = 16;

/// Scouts until a node is connected, at most for `limit`.
///
/// # Errors
/// No node answered in time, or none of those that answered could be connected to.
pub(crate) async fn find(shared: &Arc<SessionShared>, limit: Option<Duration>) -> Result<Arc<Link>, Error> {
    let multicast = &shared.config.scouting.multicast;
    let config = ScoutingConfig {
        zid: shared.zid,
        whatami: WhatAmI::Client,
        what: multicast.autoconnect.mask(),
        answer: false,
    };
    let mut station = Station::new(multicast, config);
    let mut failures = Failures::new();
    let search = search(shared, &mut station, &mut failures);
    let found = match limit {
        None => Some(search.await),
        Some(limit) => tokio::time::timeout(limit, search).await.ok(),
    };
    match found {
        Some(established) => start_link(shared, established)
            .map_err(|e| Error::Connect { endpoint: String::new(), reason: ConnectReason::Io(Arc::new(e)) }),
        None => Err(Error::NobodyFound {
            group: multicast.address,
            interfaces: station.sockets.names().join(", "),
            after: limit.unwrap_or_default(),
            failures,
        }),
    }
}

/// Tries every node that answers. Ends with the first session.
async fn search(shared: &Arc<SessionShared>, station: &mut Station, failures: &mut Failures) -> Established {
    let mut tried: HashMap<ZenohId, Duration> = HashMap::new();
    let mut attempts: JoinSet<Result<Established, Failures>> = JoinSet::new();
    loop {
        tokio::select! {
            event = station.next() => {
                let StationEvent::Found(found) = event else { continue };
                let now = clock::mono();
                tried.retain(|_, until| *until > now);
                if attempts.len() < MAX_AT_ONCE && is_wanted(shared, &found) && !tried.contains_key(&found.zid) {
                    tried.insert(found.zid, now + AGAIN);
                    attempts.spawn(attempt(shared.clone(), found));
                }
            }
            Some(ended) = attempts.join_next() => match ended {
                Ok(Ok(established)) => return established,
                Ok(Err(why)) => {
                    failures.extend(why);
                    let old = failures.len().saturating_sub(MAX_FAILURES);
                    failures.drain(..old);
                }
                // A task that panicked has no result.
                Err(_) => {}
            }
        }
    }
}

fn is_wanted(shared: &SessionShared, found: &Found) -> bool {
    let multicast = &shared.config.scouting.multicast;
    // Two clients cannot have a session with each other.
    found.whatami != WhatAmI::Client
        && !found.locators.is_empty()
        && multicast.strategy.allows(shared.zid, found.zid, found.whatami)
}

async fn attempt(shared: Arc<SessionShared>, found: Found) -> Result<Established, Failures> {
    if found.whatami == WhatAmI::Peer {
        tokio::time::sleep(ROUTERS_FIRST).await;
    }
    let targets = targets(&shared, &found.locators);
    attempt_all(&shared, &targets, Some(found.zid), STAGGER).await.map(|(_, established)| established)
}
