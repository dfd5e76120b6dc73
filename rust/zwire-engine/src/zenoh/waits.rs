//! [`BarrierWait`] and [`MatchingWait`]: session states that threads and event loops wait for.

use crate::{error::Error, rt::watch::Waker, zenoh::shared::SessionShared};
use std::sync::Arc;
use zwire_proto::zenoh::session::{BarrierEnd, BarrierId, EntityId};

/// Outstanding barrier; see [`Session::barrier`](crate::Session::barrier).
pub struct BarrierWait {
    shared: Arc<SessionShared>,
    id: BarrierId,
    listener: Option<u64>,
}

impl BarrierWait {
    pub(crate) const fn new(shared: Arc<SessionShared>, id: BarrierId) -> Self {
        Self { shared, id, listener: None }
    }

    /// Outcome, if the barrier has ended.
    ///
    /// # Errors
    /// See [`Session::barrier`](crate::Session::barrier).
    #[must_use]
    pub fn look(&self) -> Option<Result<(), Error>> {
        let end = self.shared.core.lock().barriers.get(&self.id).copied().flatten()?;
        Some(match end {
            BarrierEnd::Passed => Ok(()),
            BarrierEnd::LinkLost => Err(Error::LinkLost),
            BarrierEnd::Closed => Err(Error::Closed),
        })
    }

    /// Calls `waker` whenever the result of [`Self::look`] may have changed.
    pub fn listen(&mut self, waker: Waker) {
        self.listener.get_or_insert_with(|| self.shared.watch.listen(waker));
    }
}

impl Drop for BarrierWait {
    fn drop(&mut self) {
        // A forked child inherits locks in an undefined state, and waits for nothing.
        if !self.shared.birth.is_here() {
            return;
        }
        if let Some(listener) = self.listener {
            self.shared.watch.forget(listener);
        }
        let mut core = self.shared.core.lock();
        if core.barriers.remove(&self.id) == Some(None) {
            core.api.forget_barrier(self.id);
        }
    }
}

/// Wait for a number of counterparts; see [`Session::wait_matching`](crate::Session::wait_matching).
pub struct MatchingWait {
    shared: Arc<SessionShared>,
    id: EntityId,
    n: usize,
    listener: Option<u64>,
}

impl MatchingWait {
    pub(crate) const fn new(shared: Arc<SessionShared>, id: EntityId, n: usize) -> Self {
        Self { shared, id, n, listener: None }
    }

    /// Success once there are enough counterparts, an error if they cannot come any more.
    ///
    /// # Errors
    /// See [`Session::wait_matching`](crate::Session::wait_matching).
    #[must_use]
    pub fn look(&self) -> Option<Result<(), Error>> {
        if self.shared.is_closed() {
            return Some(Err(Error::Closed));
        }
        match self.shared.core.lock().count_matching(self.id) {
            None => Some(Err(self.shared.undeclared("publisher or querier"))),
            Some(known) => (known >= self.n).then_some(Ok(())),
        }
    }

    /// Calls `waker` whenever the result of [`Self::look`] may have changed.
    pub fn listen(&mut self, waker: Waker) {
        self.listener.get_or_insert_with(|| self.shared.watch.listen(waker));
    }
}

impl Drop for MatchingWait {
    fn drop(&mut self) {
        if let Some(listener) = self.listener
            && self.shared.birth.is_here()
        {
            self.shared.watch.forget(listener);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Session};
    use std::{thread, time::Duration};
    use zwire_proto::zenoh::KeyExpr;

    #[test]
    fn a_wait_that_overlaps_the_close_names_the_close() {
        let json = "{mode: 'peer', listen: {endpoints: []}, scouting: {multicast: {enabled: false}}}";
        let session = Session::open(&Config::from_json5(json).unwrap(), &mut || false).unwrap();
        let publisher = session.declare_publisher(KeyExpr::new("a").unwrap(), Default::default()).unwrap();
        let wait = session.begin_matching(publisher, 1).unwrap();
        session.undeclare(publisher).unwrap();
        let holding = session.shared().core.lock();
        thread::scope(|threads| {
            // Both threads stop at the lock of the core: the wait behind its check of the session.
            let look = threads.spawn(|| wait.look());
            thread::sleep(Duration::from_millis(50));
            threads.spawn(|| session.close());
            while !session.is_closed() {
                thread::yield_now();
            }
            drop(holding);
            assert!(matches!(look.join().unwrap(), Some(Err(Error::Closed))));
        });
    }
}
