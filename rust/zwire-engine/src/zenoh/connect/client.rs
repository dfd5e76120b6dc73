//! The link of a client: to the first endpoint that answers or to a node that scouting finds, again after each
//! loss.

use super::{
    dial::{dial, error_of},
    keep::{Pauses, keep, lost, next},
};
use crate::{
    config::{Budget, ConnectRules, Target},
    error::Error,
    zenoh::{link::Link, live::Current, scouting, shared::SessionShared},
};
use core::time::Duration;
use std::sync::{Arc, Weak};

/// Head start of each endpoint in a client's list over the next one, so that earlier ones are preferred:
/// even a distant router answers within that time.
const PREFERENCE: Duration = Duration::from_secs(1);

/// Connects a client: to the first endpoint that answers, in order and within the budget, or to a node
/// found by scouting if no endpoint is configured.
///
/// # Errors
/// No endpoint could be connected to.
pub(crate) async fn connect_client(shared: &Arc<SessionShared>) -> Result<Arc<Link>, Error> {
    let targets: Vec<Target> = shared.config.connect.targets().cloned().collect();
    if targets.is_empty() {
        return scouting::find(shared, Some(shared.config.scouting.timeout)).await;
    }
    let mut pauses = Pauses::new(shared.config.connect.rules);
    loop {
        let failures = match dial(shared, &targets, None, PREFERENCE).await {
            Ok(link) => return Ok(link),
            Err(failures) => failures,
        };
        let next = next(&failures);
        if pauses.left(&next).is_zero() {
            return Err(error_of(failures));
        }
        pauses.after(&next).await;
    }
}

/// Reconnects a client whenever its link is lost: to each of its endpoints, with back-off, or to a node
/// found by scouting.
pub(crate) async fn supervise_client(shared: Weak<SessionShared>, link: Option<Arc<Link>>) {
    let (targets, mut pauses) = {
        let Some(shared) = shared.upgrade() else { return };
        let targets: Vec<Target> = shared.config.connect.targets().cloned().collect();
        (targets, Pauses::new(ConnectRules { budget: Budget::Forever, ..shared.config.connect.rules }))
    };
    match link {
        Some(link) => lost(&link, &mut pauses).await,
        None => pauses.soon().await,
    }
    if !targets.is_empty() {
        return keep(shared, &targets, PREFERENCE, pauses, (None, None), &Current::default()).await;
    }
    loop {
        let Some(strong) = shared.upgrade() else { return };
        if strong.is_closed() {
            return;
        }
        let found = scouting::find(&strong, None).await;
        drop(strong);
        match found {
            Ok(link) => lost(&link, &mut pauses).await,
            Err(error) => {
                tracing::info!(%error, "not connected, trying again");
                pauses.pause().await;
            }
        }
    }
}
