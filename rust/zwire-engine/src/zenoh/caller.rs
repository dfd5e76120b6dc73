//! [`Caller`]: how the thread that gives a command waits, and which lock of its own it releases meanwhile.

use crate::zenoh::effects::Wait;
use core::time::Duration;
use tokio::runtime::Handle;

/// Caller of a command.
///
/// The lock of a Python interpreter takes longer to release and take again than most publications need.
/// Therefore a publication begins in the calling thread as it is, and the caller is asked to release such a lock
/// only for work that needs a system call or a wait.
///
/// A check for interruptions is the caller that has no lock, and waits until the check returns true.
pub trait Caller {
    /// Does work that may write to a socket, notify consumers, or wait as [`Patience`] says.
    fn aside<R: Send>(&mut self, work: impl FnOnce(&mut Patience<'_>) -> R + Send) -> R;
}

impl<F: FnMut() -> bool + ?Sized> Caller for F {
    fn aside<R: Send>(&mut self, work: impl FnOnce(&mut Patience<'_>) -> R + Send) -> R {
        work(&mut Patience::Block(&mut || self()))
    }
}

/// Treatment of a queue that is over its bound after a command.
pub enum Patience<'a> {
    /// Wait for room. The check for interruptions is called regularly; true ends the wait.
    Block(&'a mut dyn FnMut() -> bool),
    /// Leave the wait to a caller that must not block, such as an event loop. A command that would have to
    /// wait before it begins returns [`Error::WouldBlock`](crate::Error::WouldBlock) instead, and has to run in
    /// a thread that may wait.
    Defer(&'a mut Deferred),
}

/// Room to be waited for after a command.
#[derive(Default)]
pub struct Deferred {
    waits: Vec<(Wait, Duration)>,
    runtime: Option<Handle>,
}

impl Deferred {
    /// Whether there is room for the next command.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Adds waits, each with its time limit.
    pub(crate) fn add(&mut self, runtime: &Handle, limit: Duration, waits: &mut Vec<Wait>) {
        if !waits.is_empty() {
            self.waits.extend(waits.drain(..).map(|wait| (wait, limit)));
            self.runtime.get_or_insert_with(|| runtime.clone());
        }
    }

    /// Calls `done` after each wait: for room, up to its time limit, or until the link or queue has
    /// ended.
    pub fn wait(self, done: impl FnOnce() + Send + 'static) {
        let Self { waits, runtime: Some(runtime) } = self else { return done() };
        runtime.spawn(async move {
            for (wait, limit) in waits {
                wait.wait(limit).await;
            }
            done();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Error, Handler, Session};
    use bytes::Bytes;
    use zwire_proto::zenoh::{
        KeyExpr,
        session::Publication,
        wire::{PushBody, Put},
    };

    fn open() -> Session {
        let json = "{mode: 'peer', listen: {endpoints: []}, scouting: {multicast: {enabled: false}}}";
        Session::open(&Config::from_json5(json).unwrap(), &mut || false).unwrap()
    }

    fn publication() -> Publication {
        Publication::new(KeyExpr::new("a").unwrap(), PushBody::Put(Put::new(&b"1"[..])))
    }

    /// Caller that counts how often it had to release its lock, and looks at the session before it does.
    struct Locked<'a> {
        released: usize,
        look: &'a mut dyn FnMut(),
    }

    impl Caller for Locked<'_> {
        fn aside<R: Send>(&mut self, work: impl FnOnce(&mut Patience<'_>) -> R + Send) -> R {
            self.released += 1;
            (self.look)();
            work(&mut Patience::Block(&mut || false))
        }
    }

    #[test]
    fn what_nobody_wants_is_done_at_once() {
        let session = open();
        let released = || {
            let mut caller = Locked { released: 0, look: &mut || () };
            assert!(session.put(publication(), &mut caller).is_ok());
            caller.released
        };
        // A task of the session may hold the machines at that moment, and never holds them for long.
        assert!((0..100).any(|_| released() == 0));
    }

    #[test]
    fn a_consumer_is_told_by_what_follows() {
        let session = open();
        let key = KeyExpr::new("a").unwrap();
        let (_, queue) = session.declare_subscriber(key, Default::default(), Handler::Default).unwrap();
        let (sender, told) = std::sync::mpsc::channel();
        queue.set_waker(Some(std::sync::Arc::new(move || {
            let _ = sender.send(());
        })));
        let mut look = || assert!(told.try_recv().is_err(), "telling may take a system call");
        let mut caller = Locked { released: 0, look: &mut look };
        session.put(publication(), &mut caller).unwrap();
        assert_eq!(caller.released, 1);
        told.try_recv().unwrap();
        assert_eq!(queue.try_recv().unwrap().unwrap().payload, Bytes::from_static(b"1"));
    }

    #[test]
    fn nobody_waits_for_the_machines_and_a_closed_session_says_so() {
        let session = open();
        let mut holding = Some(session.shared().core.lock());
        let mut look = || drop(holding.take());
        let mut caller = Locked { released: 0, look: &mut look };
        // It would never end if the caller kept its lock until the other thread let the machines go.
        session.put(publication(), &mut caller).unwrap();
        assert_eq!(caller.released, 1);
        session.close().unwrap();
        assert!(matches!(session.put(publication(), &mut || false), Err(Error::Closed)));
    }
}
