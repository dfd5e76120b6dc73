//! [`Gate`]: the condition that `open` waits for (`zenoh-behaviour` 1.4).

use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::Notify;
use zwire_proto::zenoh::ZenohId;

/// Connections that have begun while a session opens. The gate is open once each of them has failed, or
/// the node at its other end has sent its initial declarations.
///
/// After `open` has returned the gate is closed and keeps no state.
pub(crate) struct Gate {
    shared: Arc<GateShared>,
    /// Whether to wait for declarations as well, not only for sessions.
    declares: bool,
}

#[derive(Default)]
struct GateState {
    closed: bool,
    begun: usize,
    outstanding: usize,
    waiting: BTreeMap<ZenohId, Vec<Ticket>>,
    /// Nodes that were ready before `wait_for` was called for them.
    ready: BTreeSet<ZenohId>,
}

/// A connection that has begun. Dropped when it need not be waited for any more.
pub(crate) struct Ticket(Arc<GateShared>);

#[derive(Default)]
struct GateShared {
    state: Mutex<GateState>,
    changed: Notify,
}

impl Gate {
    pub(crate) fn new(declares: bool) -> Self {
        Self { shared: Arc::default(), declares }
    }

    /// Registers a connection that begins.
    pub(crate) fn ticket(&self) -> Ticket {
        let mut state = self.shared.state.lock();
        state.begun += 1;
        state.outstanding += 1;
        Ticket(self.shared.clone())
    }

    /// There is a session with `zid`: `ticket` is held until that node is ready.
    pub(crate) fn wait_for(&self, zid: ZenohId, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else { return };
        self.change(|state| {
            if !self.declares || state.closed || state.ready.contains(&zid) {
                return Some(ticket);
            }
            state.waiting.entry(zid).or_default().push(ticket);
            None
        });
    }

    /// Records that a node has sent its initial declarations.
    pub(crate) fn ready(&self, zid: ZenohId) {
        self.change(|state| {
            if !state.closed {
                state.ready.insert(zid);
            }
            state.waiting.remove(&zid)
        });
    }

    /// Records that the session with a node is over.
    pub(crate) fn gone(&self, zid: ZenohId) {
        self.change(|state| {
            state.ready.remove(&zid);
            state.waiting.remove(&zid)
        });
    }

    /// Returns once at least one connection has begun and none is outstanding.
    pub(crate) async fn passed(&self) {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let state = self.shared.state.lock();
                if state.begun > 0 && state.outstanding == 0 {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Closes the gate: `open` has returned.
    pub(crate) fn close(&self) {
        self.change(|state| {
            state.closed = true;
            state.ready.clear();
            core::mem::take(&mut state.waiting)
        });
    }

    /// Drops what `change` takes out once the lock is released, because the drop of a ticket takes it.
    fn change<T>(&self, change: impl FnOnce(&mut GateState) -> T) {
        let taken = change(&mut self.shared.state.lock());
        drop(taken);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.state.lock().outstanding -= 1;
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn zid(number: u128) -> ZenohId {
        ZenohId::new(number).unwrap()
    }

    async fn passes(gate: &Gate) -> bool {
        tokio::time::timeout(Duration::from_millis(1), gate.passed()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_when_all_that_has_begun_is_ready_or_has_failed() {
        let gate = Gate::new(true);
        assert!(!passes(&gate).await, "nothing has begun");
        let (a, b, c) = (gate.ticket(), gate.ticket(), gate.ticket());
        drop(a);
        gate.wait_for(zid(1), Some(b));
        gate.ready(zid(2));
        gate.wait_for(zid(2), Some(c));
        assert!(!passes(&gate).await, "one is not ready");
        gate.ready(zid(1));
        assert!(passes(&gate).await);
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_is_not_waited_for() {
        let gate = Gate::new(true);
        gate.wait_for(zid(1), Some(gate.ticket()));
        assert!(!passes(&gate).await);
        gate.gone(zid(1));
        assert!(passes(&gate).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_may_be_enough() {
        let gate = Gate::new(false);
        gate.wait_for(zid(1), Some(gate.ticket()));
        assert!(passes(&gate).await);
        let gate = Gate::new(true);
        gate.wait_for(zid(1), Some(gate.ticket()));
        gate.close();
        assert!(passes(&gate).await, "closed, so nothing is kept");
    }
}
