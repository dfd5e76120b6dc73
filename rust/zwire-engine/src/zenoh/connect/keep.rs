//! Keeping a connection to configured endpoints: retries within a budget, and again after each loss.

use super::dial::{Failures, dial, is_max_links, log};
use crate::{
    config::{Budget, Connect, ConnectRules, GroupStrategy, Target},
    error::ConnectReason,
    net::{io::group_of, race::STAGGER},
    rt::clock,
    zenoh::{gate::Ticket, link::Link, live::Current, shared::SessionShared},
};
use core::time::Duration;
use std::sync::Weak;
use tokio::sync::oneshot;
use zwire_proto::zenoh::{ZenohId, wire::CloseReason};

/// First pause when an early retry is enough: the link was lost, or the other side has not noticed yet
/// that the previous one is gone. Doubles up to the configured pause.
const SOON: Duration = Duration::from_millis(100);

/// Time for which a node that still holds the last link of this id is asked again, even if the configuration
/// allows a single attempt: a session that is closed and opened again may be faster than the other side,
/// which notices a dead process within that time unless the machine has died as well.
const LEAVING: Duration = Duration::from_secs(1);

/// A link that was up for at least this long resets the pauses.
const LASTING: Duration = Duration::from_secs(1);

/// Next step after a failure.
pub(super) enum Next {
    /// Wait: there is a session with that node already. Retry once it is lost.
    Wait(ZenohId),
    /// Retry soon: the other side still has the old link.
    Soon,
    /// Pause as configured.
    Pause,
}

pub(super) fn next(failures: &Failures) -> Next {
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
pub(super) struct Pauses {
    rules: ConnectRules,
    start: Duration,
    failures: u32,
    soon: u32,
}

impl Pauses {
    pub(super) fn new(rules: ConnectRules) -> Self {
        Self { rules, start: clock::mono(), failures: 0, soon: 0 }
    }

    /// Remaining budget after a failure, for a connector that was never connected.
    pub(super) fn left(&self, next: &Next) -> Duration {
        let budget = match (self.rules.budget, next) {
            (Budget::Once, Next::Soon) => LEAVING,
            (Budget::Once, _) => Duration::ZERO,
            (Budget::Forever, _) => Duration::MAX,
            (Budget::Within(budget), _) => budget,
        };
        budget.saturating_sub(clock::mono().saturating_sub(self.start))
    }

    pub(super) async fn pause(&mut self) {
        let delay = self.rules.retry.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(self.within_budget(delay, &Next::Pause)).await;
    }

    pub(super) async fn soon(&mut self) {
        let delay = SOON.saturating_mul(1 << self.soon.min(16)).min(self.rules.retry.delay(0));
        self.soon = self.soon.saturating_add(1);
        tokio::time::sleep(self.within_budget(delay, &Next::Soon)).await;
    }

    pub(super) async fn after(&mut self, next: &Next) {
        match next {
            Next::Soon => self.soon().await,
            Next::Pause | Next::Wait(_) => self.pause().await,
        }
    }

    /// Handles the loss of a link that was up since `since`.
    pub(super) async fn lost(&mut self, since: Duration) {
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
pub(crate) fn independent(connect: &Connect) -> impl Iterator<Item = Vec<Target>> {
    connect.groups.iter().flat_map(|group| {
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
/// the budget before. `first` receives the outcome of the first session, `current` each link.
pub(crate) async fn keep_connected(
    shared: Weak<SessionShared>,
    targets: Vec<Target>,
    ticket: Option<Ticket>,
    first: oneshot::Sender<Result<(), Failures>>,
    current: Current,
) {
    let Some(rules) = targets.first().map(|target| target.rules) else { return };
    keep(shared, &targets, STAGGER, Pauses::new(rules), (ticket, Some(first)), &current).await;
}

/// As [`keep_connected`]; without a receiver of the first outcome there is no budget.
pub(super) async fn keep(
    shared: Weak<SessionShared>,
    targets: &[Target],
    stagger: Duration,
    mut pauses: Pauses,
    (mut ticket, mut first): (Option<Ticket>, Option<oneshot::Sender<Result<(), Failures>>>),
    current: &Current,
) {
    loop {
        let Some(strong) = shared.upgrade() else { return };
        if strong.is_closed() {
            return;
        }
        match dial(&strong, targets, None, stagger).await {
            Ok(link) => {
                strong.gate.wait_for(link.params.remote.zid, ticket.take());
                if !current.set(&link) {
                    link.finish(CloseReason::GENERIC);
                    link.close();
                    return;
                }
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

fn tell(first: &mut Option<oneshot::Sender<Result<(), Failures>>>, result: Result<(), Failures>) {
    if let Some(first) = first.take() {
        // `open` may have returned without waiting for it.
        let _ = first.send(result);
    }
}

/// Waits until a link is lost, and then for a short pause.
pub(super) async fn lost(link: &Link, pauses: &mut Pauses) {
    let since = clock::mono();
    link.closed().await;
    pauses.lost(since).await;
}
