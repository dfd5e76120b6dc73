//! A client without endpoints looks for a node.

use super::{
    node::targets,
    station::{Event, Station},
};
use crate::{
    clock,
    connector::{Failures, attempt_all},
    driver,
    error::{ConnectReason, Error},
    establish::Established,
    link::Link,
    race::STAGGER,
    shared::Shared,
};
use core::time::Duration;
use std::{collections::HashMap, sync::Arc};
use tokio::task::JoinSet;
use zwire_proto::zenoh::{
    WhatAmI, ZenohId,
    discovery::{Found, ScoutingConfig},
};

/// A peer waits so long for a router to answer first.
const ROUTERS_FIRST: Duration = Duration::from_millis(50);
/// Nodes that are tried at once.
const MAX_AT_ONCE: usize = 8;
/// A node that could not be connected to is not tried again before.
const AGAIN: Duration = Duration::from_secs(1);
/// Failures that are kept, for the error.
const MAX_FAILURES: usize = 16;

/// Scouts until a node is connected, at most for `limit`.
///
/// # Errors
/// Nobody answered in time, or nobody who did could be connected to.
pub(crate) async fn find(shared: &Arc<Shared>, limit: Option<Duration>) -> Result<Arc<Link>, Error> {
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
        Some(established) => driver::start_link(shared, established)
            .map_err(|e| Error::Connect { endpoint: String::new(), reason: ConnectReason::Io(Arc::new(e)) }),
        None => Err(Error::NobodyFound {
            group: multicast.address,
            interfaces: station.interfaces().join(", "),
            after: limit.unwrap_or_default(),
            failures,
        }),
    }
}

/// Tries everybody who answers. Ends with the first session.
async fn search(shared: &Arc<Shared>, station: &mut Station, failures: &mut Failures) -> Established {
    let mut tried: HashMap<ZenohId, Duration> = HashMap::new();
    let mut attempts: JoinSet<Result<Established, Failures>> = JoinSet::new();
    loop {
        tokio::select! {
            event = station.next() => {
                let Event::Found(found) = event else { continue };
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
                // A task that panicked has nothing to say.
                Err(_) => {}
            }
        }
    }
}

fn is_wanted(shared: &Shared, found: &Found) -> bool {
    let multicast = &shared.config.scouting.multicast;
    // Two clients have no session.
    found.whatami != WhatAmI::Client
        && !found.locators.is_empty()
        && multicast.strategy.allows(shared.zid, found.zid, found.whatami)
}

async fn attempt(shared: Arc<Shared>, found: Found) -> Result<Established, Failures> {
    if found.whatami == WhatAmI::Peer {
        tokio::time::sleep(ROUTERS_FIRST).await;
    }
    let targets = targets(&shared, &found.locators);
    attempt_all(&shared, &targets, Some(found.zid), STAGGER).await.map(|(_, established)| established)
}
