//! Connections that this node opens: to the endpoints of its configuration, and again after each loss.

use crate::{
    config::{Budget, ConnectRules, GroupStrategy, Target},
    error::{ConnectReason, Error},
    net::{
        io::group_of,
        race::{STAGGER, race},
    },
    rt::clock,
    zenoh::{driver, establish::Established, gate::Ticket, link::Link, scouting, shared::Shared},
};
use core::time::Duration;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;
use zwire_proto::zenoh::{ZenohId, link::HandshakeError, wire::CloseReason};

/// Head start of each endpoint in a client's list over the next one, so that earlier ones are preferred:
/// even a distant router answers within that time.
const PREFERENCE: Duration = Duration::from_secs(1);

/// First pause when an early retry is enough: the link was lost, or the other side has not noticed yet
/// that the previous one is gone. Doubles up to the configured pause.
const SOON: Duration = Duration::from_millis(100);

/// Time for which a node that still holds the last link of this id is asked again, even if the configuration
/// allows a single attempt: a session that is closed and opened again may be faster than the other side,
/// which notices a dead process within that time unless the machine has died as well.
const LEAVING: Duration = Duration::from_secs(1);

/// A link that was up for at least this long resets the pauses.
const LASTING: Duration = Duration::from_secs(1);

/// Endpoints that were tried, and why each failed.
pub(crate) type Failures = Vec<(String, ConnectReason)>;

/// Connects to one of `targets`, all in parallel with a pause of `stagger` between their starts: the
/// first established session wins, the other attempts are dropped.
///
/// # Errors
/// The reason of each target.
pub(crate) async fn dial(
    shared: &Arc<Shared>,
    targets: &[Target],
    expected: Option<ZenohId>,
    stagger: Duration,
) -> Result<Arc<Link>, Failures> {
    let (target, established) = attempt_all(shared, targets, expected, stagger).await?;
    driver::start_link(shared, established)
        .map_err(|e| vec![(target.endpoint.as_str().to_owned(), ConnectReason::Io(Arc::new(e)))])
}

/// As [`dial`], but does not make a link yet.
///
/// # Errors
/// As for [`dial`].
pub(crate) async fn attempt_all<'a>(
    shared: &Arc<Shared>,
    targets: &'a [Target],
    expected: Option<ZenohId>,
    stagger: Duration,
) -> Result<(&'a Target, Established), Failures> {
    let attempts: Vec<_> = targets.iter().map(|target| attempt(shared, target, expected)).collect();
    race(attempts, stagger).await
}

async fn attempt<'a>(
    shared: &Arc<Shared>,
    target: &'a Target,
    expected: Option<ZenohId>,
) -> Result<(&'a Target, Established), (String, ConnectReason)> {
    match driver::connect(shared, target, expected).await {
        Ok(established) => Ok((target, established)),
        Err(reason) => Err((target.endpoint.as_str().to_owned(), reason)),
    }
}

/// Next step after a failure.
enum Next {
    /// Wait: there is a session with that node already. Retry once it is lost.
    Wait(ZenohId),
    /// Retry soon: the other side still has the old link.
    Soon,
    /// Pause as configured.
    Pause,
}

/// Whether the other side refused because it has a session with this node already.
pub(crate) fn is_max_links(reason: &ConnectReason) -> bool {
    match reason {
        ConnectReason::Handshake(HandshakeError::Closed { reason, .. }) => *reason == CloseReason::MAX_LINKS,
        _ => false,
    }
}

fn next(failures: &Failures) -> Next {
    let connected = failures.iter().find_map(|(_, reason)| match reason {
        ConnectReason::Connected(zid) => Some(*zid),
        _ => None,
    });
    match connected {
        Some(zid) => Next::Wait(zid),
        None if failures.iter().any(|(_, reason)| is_max_links(reason)) => Next::Soon,
        None => Next::Pause,
    }
}

/// Counts attempts and computes the pauses between them.
struct Pauses {
    rules: ConnectRules,
    start: Duration,
    failures: u32,
    soon: u32,
}

impl Pauses {
    fn new(rules: ConnectRules) -> Self {
        Self { rules, start: clock::mono(), failures: 0, soon: 0 }
    }

    /// Remaining budget after a failure, for a connector that was never connected.
    fn left(&self, next: &Next) -> Duration {
        let budget = match (self.rules.budget, next) {
            (Budget::Once, Next::Soon) => LEAVING,
            (Budget::Once, _) => Duration::ZERO,
            (Budget::Forever, _) => Duration::MAX,
            (Budget::Within(budget), _) => budget,
        };
        budget.saturating_sub(clock::mono().saturating_sub(self.start))
    }

    async fn pause(&mut self) {
        let delay = self.rules.retry.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(self.within_budget(delay, &Next::Pause)).await;
    }

    async fn soon(&mut self) {
        let delay = SOON.saturating_mul(1 << self.soon.min(16)).min(self.rules.retry.delay(0));
        self.soon = self.soon.saturating_add(1);
        tokio::time::sleep(self.within_budget(delay, &Next::Soon)).await;
    }

    async fn after(&mut self, next: &Next) {
        match next {
            Next::Soon => self.soon().await,
            Next::Pause | Next::Wait(_) => self.pause().await,
        }
    }

    /// Handles the loss of a link that was up since `since`.
    async fn lost(&mut self, since: Duration) {
        if clock::mono().saturating_sub(since) >= LASTING {
            (self.failures, self.soon) = (0, 0);
        }
        self.soon().await;
    }

    /// Shortens a pause so that the last attempt comes when the budget ends, not after it.
    fn within_budget(&self, delay: Duration, next: &Next) -> Duration {
        let left = self.left(next);
        if left.is_zero() { delay } else { delay.min(left) }
    }
}

/// Groups of targets of a peer or router that are connected to independently of each other.
pub(crate) fn independent(shared: &Shared) -> impl Iterator<Item = Vec<Target>> {
    shared.config.connect.groups.iter().flat_map(|group| {
        // Multicast groups are joined elsewhere: no node accepts connections at their address.
        let targets: Vec<Target> =
            group.targets.iter().filter(|target| group_of(target).is_none()).cloned().collect();
        match group.strategy {
            GroupStrategy::AllOf => targets.into_iter().map(|target| vec![target]).collect(),
            GroupStrategy::OneOf if targets.is_empty() => Vec::new(),
            GroupStrategy::OneOf => vec![targets],
        }
    })
}

/// Keeps a session with the node that answers at one of `targets`: for ever once it was up, and within
/// the budget before. `first` receives the outcome of the first session.
pub(crate) async fn keep_connected(
    shared: Weak<Shared>,
    targets: Vec<Target>,
    ticket: Ticket,
    first: oneshot::Sender<Result<(), Failures>>,
) {
    let Some(rules) = targets.first().map(|target| target.rules) else { return };
    let mut pauses = Pauses::new(rules);
    let (mut first, mut ticket) = (Some(first), Some(ticket));
    loop {
        let Some(strong) = shared.upgrade() else { return };
        if strong.is_closed() {
            return;
        }
        let result = dial(&strong, &targets, None, STAGGER).await;
        match result {
            Ok(link) => {
                strong.gate.wait_for(link.params.remote.zid, ticket.take());
                drop(strong);
                tell(&mut first, Ok(()));
                lost(&link, &mut pauses).await;
            }
            Err(failures) => match next(&failures) {
                Next::Wait(zid) => {
                    strong.gate.wait_for(zid, ticket.take());
                    let contacts = strong.contacts.clone();
                    drop(strong);
                    tell(&mut first, Ok(()));
                    let since = clock::mono();
                    contacts.gone(zid).await;
                    pauses.lost(since).await;
                }
                next => {
                    drop(strong);
                    drop(ticket.take());
                    log(&failures);
                    if first.is_some() && pauses.left(&next).is_zero() {
                        tell(&mut first, Err(failures));
                        return;
                    }
                    pauses.after(&next).await;
                }
            },
        }
    }
}

pub(crate) fn log(failures: &Failures) {
    for (endpoint, reason) in failures {
        tracing::info!(endpoint, %reason, "not connected, trying again");
    }
}

fn tell(first: &mut Option<oneshot::Sender<Result<(), Failures>>>, result: Result<(), Failures>) {
    if let Some(first) = first.take() {
        // `open` may have returned without waiting for it.
        let _ = first.send(result);
    }
}

/// Combines failures into one error: all endpoints, and the reason of the last one.
pub(crate) fn error_of(failures: Failures) -> Error {
    let endpoint = failures.iter().map(|(endpoint, _)| endpoint.as_str()).collect::<Vec<_>>().join(", ");
    let reason = failures.into_iter().next_back().map_or(ConnectReason::NoEndpoint, |(_, reason)| reason);
    Error::Connect { endpoint, reason }
}

/// Connects a client: to the first endpoint that answers, in order and within the budget, or to a node
/// found by scouting if no endpoint is configured.
///
/// # Errors
/// No endpoint could be connected to.
pub(crate) async fn connect_client(shared: &Arc<Shared>) -> Result<Arc<Link>, Error> {
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
pub(crate) async fn supervise_client(shared: Weak<Shared>, link: Option<Arc<Link>>) {
    let (targets, mut pauses) = {
        let Some(shared) = shared.upgrade() else { return };
        let targets: Vec<Target> = shared.config.connect.targets().cloned().collect();
        (targets, Pauses::new(ConnectRules { budget: Budget::Forever, ..shared.config.connect.rules }))
    };
    match link {
        Some(link) => lost(&link, &mut pauses).await,
        None => pauses.soon().await,
    }
    loop {
        let Some(strong) = shared.upgrade() else { return };
        if strong.is_closed() {
            return;
        }
        if targets.is_empty() {
            let found = scouting::find(&strong, None).await;
            drop(strong);
            match found {
                Ok(link) => lost(&link, &mut pauses).await,
                Err(error) => {
                    tracing::info!(%error, "not connected, trying again");
                    pauses.pause().await;
                }
            }
            continue;
        }
        match dial(&strong, &targets, None, PREFERENCE).await {
            Ok(link) => {
                drop(strong);
                lost(&link, &mut pauses).await;
            }
            Err(failures) => {
                let contacts = strong.contacts.clone();
                drop(strong);
                log(&failures);
                match next(&failures) {
                    Next::Wait(zid) => {
                        contacts.gone(zid).await;
                        pauses.soon().await;
                    }
                    next => pauses.after(&next).await,
                }
            }
        }
    }
}

/// Waits until a link is lost, and then for a short pause.
async fn lost(link: &Link, pauses: &mut Pauses) {
    let since = clock::mono();
    link.closed().await;
    pauses.lost(since).await;
}
