//! Payloads of messages in the pool of a session, and the offers of its links.

use crate::{
    config::SharedMessage,
    lending::{Lending, Ticket, is_local},
    net::io::Io,
    zenoh::shared::SessionShared,
};
use bytes::Bytes;
use std::sync::Arc;
use zwire_proto::{
    lending::LendingOffer,
    zenoh::{Payload, wire::PushBody},
};
use zwire_shm::Place;

impl Lending {
    /// Whether lending is offered on a connection: it loses nothing, and its other end is in this network namespace.
    pub(super) fn is_offered(&self, io: &Io) -> bool {
        if !self.is_enabled() || !io.is_reliable() {
            return false;
        }
        match io.ends().map(|ends| ends.addresses) {
            Ok(Some((local, peer))) => is_local(local, peer),
            Ok(None) => matches!(io, Io::Unix(_)),
            Err(_) => false,
        }
    }

    /// Offer of the side that opens a session over `io`; `None` if both ends cannot share memory.
    pub(crate) fn offer(&self, io: &Io) -> Option<LendingOffer> {
        if self.is_offered(io) { Self::offer_to_acceptor() } else { None }
    }

    /// Offer of the side that accepts a session over `io`, with the place for its channel.
    pub(crate) fn expect(self: &Arc<Self>, shared: &Arc<SessionShared>, io: &Io) -> Option<Ticket> {
        if self.is_offered(io) { self.ticket(|door| drop(shared.spawn(door))) } else { None }
    }

    /// Places the payload of a publication or reply in the pool; see [`Self::place`].
    #[inline]
    pub(crate) fn place_body(&self, kind: SharedMessage, body: &mut PushBody) {
        if let PushBody::Put(put) = body {
            self.place(kind, &mut put.payload);
        }
    }

    /// Copies a payload into the pool if a link lends, the payload is large, and the pool has room. Payloads that are
    /// there already stay as they are.
    #[inline]
    pub(crate) fn place(&self, kind: SharedMessage, payload: &mut Payload) {
        if self.is_wanted(payload.len()) && self.is_implicit(kind) {
            self.place_large(payload);
        }
    }

    #[inline(never)]
    fn place_large(&self, payload: &mut Payload) {
        let parts = payload.parts();
        let large = || parts.iter().filter(|part| parts.len() == 1 || part.len() >= self.threshold());
        if self.birth.is_here() && large().next().is_some() && large().all(|part| Place::of(part).is_some()) {
            return;
        }
        if let Some(placed) = self.copy_into(self.pool(), parts) {
            *payload = placed.into();
        }
    }

    /// A copy of `bytes` for such a message: in the pool, if [`Self::place`] would put it there.
    pub(crate) fn copy(&self, kind: SharedMessage, bytes: &[u8]) -> Bytes {
        if self.is_implicit(kind) { self.copy_bytes(bytes) } else { Bytes::copy_from_slice(bytes) }
    }
}
