//! Publications that never block, for callers that hold a contended lock of their own: the lock of a
//! Python interpreter takes longer to release and take again than most publications need.

use crate::{
    error::Error,
    rt::clock,
    zenoh::{core::SessionCore, effects::Effects, session::Session},
};
use zwire_proto::{
    Now,
    zenoh::{
        CongestionControl, Qos,
        session::{EntityId, Publication, SessionError, Stamps},
        wire::PushBody,
    },
};

/// Outcome of [`Session::publish_at_once`].
#[allow(clippy::large_enum_variant, reason = "nearly all are done, and nothing of one is moved then")]
pub enum AtOnce<P> {
    /// Published; nothing is left to do.
    Done,
    /// Published; the caller has to call [`Session::finish`].
    Begun(Begun),
    /// Not published: another thread holds the session's lock, or a link is full.
    Refused(P),
}

/// Content of a publication: a body, and its stamps if it has any.
pub type Content = (PushBody, Option<Box<Stamps>>);

/// A publication with work left to do: writing it, notifying consumers, waiting for room.
pub struct Begun {
    effects: Effects,
    now: Now,
}

impl Session {
    /// As [`Self::publish`], but does only the part that needs neither a system call nor a wait.
    ///
    /// # Errors
    /// See [`Error`].
    #[inline]
    pub fn publish_at_once(
        &self,
        publisher: EntityId,
        qos: Qos,
        body: PushBody,
        stamps: Option<Box<Stamps>>,
    ) -> Result<AtOnce<Content>, Error> {
        self.at_once(qos, (body, stamps), |(body, stamps), core, now, effects| {
            core.publish(now, publisher, body, stamps, effects).map(drop)
        })
    }

    /// As [`Self::put`], but does only the part that needs neither a system call nor a wait.
    ///
    /// # Errors
    /// See [`Error`].
    #[inline]
    pub fn put_at_once(&self, mut publication: Publication) -> Result<AtOnce<Publication>, Error> {
        let how = (&mut publication.reliability, &mut publication.destination);
        self.overwrite(&publication.key, &mut publication.qos, how);
        self.at_once(publication.qos, publication, |publication, core, now, effects| {
            core.put(now, publication, effects).map(drop)
        })
    }

    #[inline]
    fn at_once<P>(
        &self,
        qos: Qos,
        publication: P,
        publish: impl FnOnce(P, &mut SessionCore, Now, &mut Effects) -> Result<(), SessionError>,
    ) -> Result<AtOnce<P>, Error> {
        let shared = self.shared();
        shared.check()?;
        // A message that may be dropped is entitled to its grace period, which this thread must not wait
        // for.
        if shared.is_congested() && qos.congestion() == CongestionControl::Drop {
            return Ok(AtOnce::Refused(publication));
        }
        let Some(core) = shared.core.try_lock() else { return Ok(AtOnce::Refused(publication)) };
        let now = clock::now();
        let mut effects = Effects::default();
        let published = shared
            .turn(core, now, &mut effects, |core, now, effects| publish(publication, core, now, effects));
        if published.is_ok() && !effects.is_idle() {
            return Ok(AtOnce::Begun(Begun { effects, now }));
        }
        shared.settle_command(now, &mut effects);
        published?;
        Ok(AtOnce::Done)
    }

    /// Does the remaining work of a publication; waits as [`Self::put`] does.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn finish(&self, begun: Begun, interrupted: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        let Begun { mut effects, now } = begun;
        self.shared().settle_command(now, &mut effects);
        self.shared().wait_blocking(&mut effects, interrupted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Handler};
    use bytes::Bytes;
    use zwire_proto::zenoh::{KeyExpr, wire::Put};

    fn open() -> Session {
        let json = "{mode: 'peer', listen: {endpoints: []}, scouting: {multicast: {enabled: false}}}";
        Session::open(&Config::from_json5(json).unwrap(), &mut || false).unwrap()
    }

    fn publication() -> Publication {
        Publication::new(KeyExpr::new("a").unwrap(), PushBody::Put(Put::new(&b"1"[..])))
    }

    #[test]
    fn what_nobody_wants_is_done_at_once() {
        assert!(matches!(open().put_at_once(publication()), Ok(AtOnce::Done)));
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
        let Ok(AtOnce::Begun(begun)) = session.put_at_once(publication()) else { panic!("not begun") };
        assert!(told.try_recv().is_err(), "telling may take a system call");
        session.finish(begun, &mut || false).unwrap();
        told.try_recv().unwrap();
        assert_eq!(queue.try_recv().unwrap().unwrap().payload, Bytes::from_static(b"1"));
    }

    #[test]
    fn nobody_waits_for_the_machines_and_a_closed_session_says_so() {
        let session = open();
        let holding = session.shared().core.lock();
        let refused = session.put_at_once(publication());
        drop(holding);
        assert!(matches!(refused, Ok(AtOnce::Refused(back)) if back == publication()));
        session.close().unwrap();
        assert!(matches!(session.put_at_once(publication()), Err(Error::Closed)));
    }
}
