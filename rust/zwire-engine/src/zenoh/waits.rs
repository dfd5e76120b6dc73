//! [`StateWait`]: session states that threads and event loops wait for.

use crate::{error::Error, rt::watch::Waker, zenoh::shared::SessionShared};
use core::time::Duration;
use std::sync::Arc;
use zwire_proto::zenoh::session::{BarrierEnd, BarrierId, EntityId};

/// State of a session to wait for.
pub(crate) enum Awaited {
    /// See [`Session::barrier`](crate::Session::barrier).
    Barrier(BarrierId),
    /// At least `n` counterparts; see [`Session::wait_matching`](crate::Session::wait_matching).
    Matching { id: EntityId, n: usize },
}

/// Outstanding wait for a state of a session.
pub struct StateWait {
    shared: Arc<SessionShared>,
    awaited: Awaited,
    listener: Option<u64>,
}

impl StateWait {
    pub(crate) const fn new(shared: Arc<SessionShared>, awaited: Awaited) -> Self {
        Self { shared, awaited, listener: None }
    }

    /// Success once the state holds, an error if it cannot hold any more.
    ///
    /// # Errors
    /// Those of the method that waits for the state.
    #[must_use]
    pub fn look(&self) -> Option<Result<(), Error>> {
        match self.awaited {
            Awaited::Barrier(id) => {
                let end = self.shared.core.lock().barriers.get(&id).copied().flatten()?;
                Some(match end {
                    BarrierEnd::Passed => Ok(()),
                    BarrierEnd::LinkLost => Err(Error::LinkLost),
                    BarrierEnd::Closed => Err(Error::Closed),
                })
            }
            Awaited::Matching { .. } if self.shared.is_closed() => Some(Err(Error::Closed)),
            Awaited::Matching { id, n } => match self.shared.core.lock().count_matching(id) {
                None => Some(Err(self.shared.undeclared("publisher or querier"))),
                Some(known) => (known >= n).then_some(Ok(())),
            },
        }
    }

    /// Calls `waker` whenever the result of [`Self::look`] may have changed.
    pub fn listen(&mut self, waker: Waker) {
        self.listener.get_or_insert_with(|| self.shared.watch.listen(waker));
    }

    /// Waits in the calling thread. `what` names the state in the error of a timeout.
    pub(crate) fn wait(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        let end = self.shared.watch.wait(timeout, interrupted, || self.look());
        end.unwrap_or_else(|missed| Err(Error::missed(missed, what, timeout)))
    }
}

impl Drop for StateWait {
    fn drop(&mut self) {
        let Some(mut core) = self.shared.core_here() else { return };
        if let Awaited::Barrier(id) = self.awaited
            && core.barriers.remove(&id) == Some(None)
        {
            core.api.forget_barrier(id);
        }
        drop(core);
        if let Some(listener) = self.listener {
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
