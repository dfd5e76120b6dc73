//! Connecting to endpoints: one attempt at each of several targets, the first session that is up counts.

use crate::{
    config::{LinkOptions, Target},
    error::{ConnectReason, Error},
    net::{io::Io, race::race},
    zenoh::{
        establish::{self, Established},
        link::Link,
        link_settings::{handshake_config, tapped},
        link_task::start_link,
        shared::SessionShared,
    },
};
use core::time::Duration;
use std::sync::Arc;
use zwire_proto::zenoh::{
    ZenohId,
    link::{HandshakeConfig, HandshakeError, Opener, QosLink},
    wire::CloseReason,
};

/// Endpoints that were tried, and why each failed.
pub(crate) type Failures = Vec<(String, ConnectReason)>;

/// Connects to one of `targets`, all in parallel with a pause of `stagger` between their starts: the
/// first established session wins, the other attempts are dropped.
///
/// # Errors
/// The reason of each target.
pub(crate) async fn dial(
    shared: &Arc<SessionShared>,
    targets: &[Target],
    expected: Option<ZenohId>,
    stagger: Duration,
) -> Result<Arc<Link>, Failures> {
    let (target, established) = attempt_all(shared, targets, expected, stagger).await?;
    start_link(shared, established)
        .map_err(|e| vec![(target.endpoint.to_string(), ConnectReason::Io(Arc::new(e)))])
}

/// As [`dial`], but does not make a link yet.
pub(crate) async fn attempt_all<'a>(
    shared: &Arc<SessionShared>,
    targets: &'a [Target],
    expected: Option<ZenohId>,
    stagger: Duration,
) -> Result<(&'a Target, Established), Failures> {
    let attempt = |target: &'a Target| async move {
        match connect(shared, target, expected).await {
            Ok(established) => Ok((target, established)),
            Err(reason) => Err((target.endpoint.to_string(), reason)),
        }
    };
    let attempts: Vec<_> = targets.iter().map(attempt).collect();
    race(attempts, stagger).await
}

/// Whether the other side refused because it has a session with this node already.
pub(crate) fn is_max_links(reason: &ConnectReason) -> bool {
    match reason {
        ConnectReason::Handshake(HandshakeError::Closed { reason, .. }) => *reason == CloseReason::MAX_LINKS,
        _ => false,
    }
}

pub(crate) fn log(failures: &Failures) {
    for (endpoint, reason) in failures {
        tracing::info!(endpoint, %reason, "not connected, trying again");
    }
}

/// Combines failures into one error: all endpoints, and the reason of the last one.
pub(crate) fn error_of(failures: Failures) -> Error {
    let endpoint = failures.iter().map(|(endpoint, _)| endpoint.as_str()).collect::<Vec<_>>().join(", ");
    let reason = failures.into_iter().next_back().map_or(ConnectReason::NoEndpoint, |(_, reason)| reason);
    Error::Connect { endpoint, reason }
}

/// Connects to one endpoint and opens a session, only with the node of that id if one is given.
async fn connect(
    shared: &Arc<SessionShared>,
    target: &Target,
    expected: Option<ZenohId>,
) -> Result<Established, ConnectReason> {
    let limit = shared.config.unicast.open_timeout;
    let io = tokio::time::timeout(limit, Io::connect(target, &shared.config.link))
        .await
        .map_err(|_| ConnectReason::TimedOut(limit))??;
    let tap = tapped(shared, &io, false)?;
    // The metadata of a listener is not offered: as in eclipse-zenoh, the accepting side takes the
    // priority range and the reliability of the connecting side.
    let LinkOptions { priorities, reliability, .. } = target.options;
    let qos_link = QosLink { priorities, reliability };
    let config = HandshakeConfig {
        expected,
        qos_link,
        lending: shared.lending.offer(&io),
        named: shared.lending.offer_named(&io),
        ..handshake_config(shared, &io)
    };
    establish::open(io, tap, Opener::new(config), limit, &shared.contacts).await
}
