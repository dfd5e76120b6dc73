//! [`NamedLending`]: shared memory of a link with a neighbour of Eclipse Zenoh, and how both agree on it.
//!
//! Payloads of theirs are copied out, and are valid if they still are after the copy; on request they are read where they
//! are. Payloads for them are chunks of a pool in files with names, with a header for each payload and link: what one link
//! has on loan is known without the others. No payload is ever taken back by time; when a link ends, what its process may still read is given up.

use super::{Lend, Unread, reader::NamedReader};
use crate::{
    config::SharedMessage,
    lending::{
        Lending, LendingFailure,
        files::{NamedLoan, NamedMemory, random_name},
        lender::{self, LoanBook, Partner},
    },
    net::io::Io,
    rt::clock,
    zenoh::{link::Link, shared::SessionShared},
};
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, OnceLock, Weak},
};
use tokio::sync::Notify;
use zwire_proto::{
    lending::MAX_LOANS,
    zenoh::{
        Payload, Priority,
        link::named::{
            HANDSHAKE_SIZE, HandshakeSegment, HandshakeSegments, NamedOffer, NamedTerms, OwnSegment,
        },
        wire::{CloseReason, NamedDescription, NetworkMessage, PayloadSlice, ResponseBody},
    },
};
use zwire_shm::{NamedAccess, NamedFile, Place, SegmentError};

/// Interval at which returned loans are taken on a link that lends nothing more.
const SWEEP: Duration = Duration::from_millis(500);

/// Handshake segments of one handshake.
struct Handshake {
    lending: Weak<Lending>,
    own: OnceLock<Option<(NamedFile, u64)>>,
}

impl Lending {
    /// Offer of shared memory with names on a connection; `None` if both ends are not on the same host.
    pub(crate) fn offer_named(self: &Arc<Self>, io: &Io) -> Option<NamedOffer> {
        if !self.is_offered(io) {
            return None;
        }
        Some(NamedOffer(Arc::new(Handshake { lending: Arc::downgrade(self), own: OnceLock::new() })))
    }
}

impl HandshakeSegments for Handshake {
    fn own(&self) -> Option<OwnSegment> {
        let make = || {
            let challenge = getrandom::u64().map_err(io::Error::other)?;
            let file = NamedFile::create(HANDSHAKE_SIZE, random_name)?;
            file.copy_in(0, &HandshakeSegment::encode(challenge));
            io::Result::Ok((file, challenge))
        };
        let own = self.own.get_or_init(|| {
            make()
                .inspect_err(|error| {
                    tracing::info!(%error, "no shared memory with eclipse-zenoh: payloads cross the link");
                    self.note(LendingFailure::System);
                })
                .ok()
        });
        own.as_ref().map(|(file, challenge)| OwnSegment { number: file.id(), challenge: *challenge })
    }

    fn read(&self, number: u32) -> Option<Vec<u8>> {
        if self.lending.upgrade()?.named.is_distrusted(number) {
            return None;
        }
        let failure = match NamedFile::open(number, NamedAccess::Read) {
            Ok(file) if file.size() <= HANDSHAKE_SIZE => {
                let mut bytes = vec![0; file.size()];
                if file.copy_out(0..bytes.len(), &mut bytes) {
                    if HandshakeSegment::decode(&bytes).is_some() {
                        return Some(bytes);
                    }
                    let (size, head) = (file.size(), bytes.get(..24));
                    tracing::info!(number, size, ?head, "shared memory of a peer has an unknown layout");
                }
                LendingFailure::Protocol
            }
            Ok(_) => LendingFailure::Protocol,
            Err(SegmentError::Owner { .. }) => LendingFailure::User,
            Err(SegmentError::Io(error)) => match error.kind() {
                io::ErrorKind::PermissionDenied => LendingFailure::User,
                io::ErrorKind::NotFound => LendingFailure::Unreachable,
                _ => LendingFailure::System,
            },
            Err(_) => LendingFailure::System,
        };
        tracing::debug!(number, reason = failure.word(), "no shared memory with a peer of eclipse-zenoh");
        self.note(failure);
        None
    }
}

impl Handshake {
    fn note(&self, failure: LendingFailure) {
        self.lending.upgrade().inspect(|lending| lending.note_failure(failure));
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        // The peer has mapped it, or will not: a process that is killed later leaves no name.
        if let Some(Some((file, _))) = self.own.get_mut() {
            file.remove_name();
        }
    }
}

/// What one link has on loan.
#[derive(Default)]
struct NamedLoans {
    /// In the order in which they began.
    loans: VecDeque<NamedLoan>,
    bytes: usize,
}

impl NamedLoans {
    /// Puts chunks on loan; their descriptions, and whether nothing was on loan before. After an error some may be on loan
    /// whose descriptions are not sent: they end with the link.
    fn begin(
        &mut self,
        memory: &NamedMemory,
        chunks: Vec<NamedChunk>,
    ) -> io::Result<(Vec<PayloadSlice>, bool)> {
        let is_first = self.loans.is_empty();
        let mut slices = Vec::with_capacity(chunks.len());
        for NamedChunk { bytes, segment, offset } in chunks {
            let len = bytes.len();
            let (loan, description) = NamedLoan::begin(memory, bytes, segment, offset)?;
            self.bytes += len;
            self.loans.push_back(loan);
            slices.push(PayloadSlice::Foreign(description.encode()));
        }
        Ok((slices, is_first))
    }

    /// Ends those at the front that were returned.
    fn take_first(&mut self) {
        /// Loans that are looked at for each one that begins.
        const LOOKS: usize = 4;
        for _ in 0..LOOKS {
            if !self.loans.front().is_some_and(NamedLoan::is_returned) {
                return;
            }
            let first = self.loans.pop_front();
            self.end(first);
        }
    }

    /// Ends all that were returned.
    fn take_returns(&mut self) {
        for _ in 0..self.loans.len() {
            let Some(loan) = self.loans.pop_front() else { return };
            if loan.is_returned() {
                self.end(Some(loan));
            } else {
                self.loans.push_back(loan);
            }
        }
    }

    /// Ends the loan of a description that was not sent.
    fn take_back(&mut self, description: &NamedDescription) {
        let loan = self.loans.iter().rposition(|loan| loan.is_of(description));
        let loan = loan.and_then(|at| self.loans.remove(at));
        self.end(loan);
    }

    /// Ends a loan that was taken out of the list.
    fn end(&mut self, loan: Option<NamedLoan>) {
        if let Some(loan) = loan {
            self.bytes -= loan.bytes.len();
            loan.end();
        }
    }

    fn is_full(&self, len: usize, share: usize) -> bool {
        self.loans.len() >= MAX_LOANS || self.bytes > 0 && self.bytes + len > share
    }
}

/// Bytes in memory with a name.
struct NamedChunk {
    bytes: Bytes,
    segment: u32,
    offset: u32,
}

impl NamedChunk {
    fn of(bytes: &Bytes) -> Option<Self> {
        let place = Place::of(bytes)?;
        let (segment, offset) = (place.memory.name()?, u32::try_from(place.offset).ok()?);
        Some(Self { bytes: bytes.clone(), segment, offset })
    }
}

/// Loans of both sides of a link with Eclipse Zenoh.
pub(crate) struct NamedLending {
    lending: Arc<Lending>,
    terms: NamedTerms,
    reader: NamedReader,
    loans: Mutex<NamedLoans>,
    /// The first loan begins while there is none.
    begun: Notify,
    /// The memory of the other side cannot be read.
    is_unusable: AtomicBool,
}

impl NamedLending {
    pub(super) fn failure(&self) -> Option<LendingFailure> {
        if self.is_unusable.load(Ordering::Relaxed) {
            return Some(LendingFailure::Protocol);
        }
        self.lending.named.is_paused().then_some(LendingFailure::System)
    }

    /// Puts the payload of a message on loan, if it is large or in shared memory already.
    #[inline]
    pub(super) fn lend(&self, message: &NetworkMessage) -> Lend {
        let Some(payload) = message.shareable() else { return Lend::Small };
        if payload.len() < self.lending.threshold() && !lender::is_explicit(payload.parts()) {
            return Lend::Small;
        }
        self.lend_large(message, payload)
    }

    #[inline(never)]
    fn lend_large(&self, message: &NetworkMessage, payload: &Payload) -> Lend {
        let len = payload.len();
        if message.is_in_shared_memory() || self.failure().is_some() {
            return Lend::Unlent;
        }
        if !self.has_room(len) {
            self.lending.set_tight();
            return Lend::Unlent;
        }
        // Not under the lock of the loans: a pool that is full looks at those of all links.
        let Some(chunks) = self.chunks(message, payload) else { return Lend::Unlent };
        match self.loans.lock().begin(&self.lending.named, chunks) {
            Ok((slices, is_first)) => {
                if is_first {
                    self.begun.notify_one();
                }
                let mut message = message.clone();
                message.replace_shareable(PayloadSlice::encode_all(&slices), true);
                Lend::Lent { message, urgent: false }
            }
            Err(error) => {
                self.lending.pause_named(&error);
                Lend::Unlent
            }
        }
    }

    /// The payload in memory with names; in one piece, if it was copied there.
    fn chunks(&self, message: &NetworkMessage, payload: &Payload) -> Option<Vec<NamedChunk>> {
        let parts = payload.parts();
        let placed = || parts.iter().filter(|part| !part.is_empty()).map(NamedChunk::of).collect();
        let chunks: Option<Vec<_>> = if parts.len() <= PayloadSlice::MOST { placed() } else { None };
        chunks.or_else(|| Some(vec![NamedChunk::of(&self.copy(message, payload)?)?]))
    }

    /// A copy of the payload in memory with a name, if the settings want one.
    fn copy(&self, message: &NetworkMessage, payload: &Payload) -> Option<Bytes> {
        if !self.lending.is_implicit(kind_of(message)?) && !lender::is_explicit(payload.parts()) {
            return None;
        }
        self.lending.copy_into(&self.lending.named.pool, payload.parts())
    }

    /// Whether a payload of that size can be lent, as far as the bounds are concerned.
    fn has_room(&self, len: usize) -> bool {
        let (mut loans, share) = (self.loans.lock(), self.lending.share());
        loans.take_first();
        if loans.is_full(len, share) {
            loans.take_returns();
        }
        !loans.is_full(len, share)
    }

    /// Ends the loans of a message that was not sent.
    #[cold]
    pub(super) fn take_back(&self, message: &NetworkMessage) {
        let mut loans = self.loans.lock();
        let slices = message.shareable().map(|payload| PayloadSlice::decode_all(payload));
        for slice in slices.into_iter().flatten().flatten() {
            let PayloadSlice::Foreign(bytes) = slice else { continue };
            if let Ok(description) = NamedDescription::decode(&bytes) {
                loans.take_back(&description);
            }
        }
    }

    /// The payload that descriptions of the other side stand for.
    pub(super) fn borrow(&self, sliced: &Payload, priority: Priority) -> Result<Payload, Unread> {
        let read = self.reader.read(&self.lending, &self.terms, sliced, priority);
        if read == Err(Unread::Unusable) && !self.is_unusable.swap(true, Ordering::Relaxed) {
            self.lending.note_failure(LendingFailure::Protocol);
            self.lending.named.distrust(self.terms.segment);
        }
        read
    }

    /// Whether the other side has found all that was lent, and needs its name no more.
    pub(super) fn is_found(&self) -> bool {
        let mut loans = self.loans.lock();
        loans.loans.iter_mut().map(NamedLoan::is_found).fold(true, |all, found| all & found)
    }

    /// Ends all loans: the link has ended. What a reader may still have is not used again.
    fn end(&self) {
        let mut loans = self.loans.lock();
        loans.take_returns();
        loans.bytes = 0;
        for loan in loans.loans.drain(..) {
            loan.abandon(&self.lending.named);
        }
    }
}

impl LoanBook for NamedLending {
    fn take_returns(&self) {
        self.loans.lock().take_returns();
    }

    fn is_tight(&self, of: &Lending, len: usize) -> bool {
        core::ptr::eq(&raw const *self.lending, of) && !self.has_room(len)
    }
}

/// What the settings call a message with a payload.
const fn kind_of(message: &NetworkMessage) -> Option<SharedMessage> {
    match message {
        NetworkMessage::Push(_) => Some(SharedMessage::Put),
        NetworkMessage::Request(_) => Some(SharedMessage::Query),
        NetworkMessage::Response(response) => match response.body {
            ResponseBody::Reply(_) => Some(SharedMessage::Reply),
            ResponseBody::Err(_) => None,
        },
        _ => None,
    }
}

/// Starts lending on a link with these terms. `None` if the counters of the peer cannot be mapped, which counts on them:
/// the link is closed, and the next one goes without.
pub(super) fn start(
    shared: &SessionShared,
    link: &Arc<Link>,
    terms: NamedTerms,
) -> Option<Arc<NamedLending>> {
    let lending = &shared.lending;
    let config = &shared.config;
    let reader = match NamedReader::new(&terms, config.link.max_message_size, config.shared_memory.borrow) {
        Ok(reader) => reader,
        Err(error) => {
            tracing::warn!(
                %error, peer = link.peer, zid = %link.params.remote.zid,
                "the counters of a peer for shared memory cannot be mapped: closing the link; the next one goes without"
            );
            lending.note_failure(LendingFailure::System);
            lending.named.distrust(terms.segment);
            link.finish(CloseReason::GENERIC);
            link.close();
            return None;
        }
    };
    let own = Arc::new(NamedLending {
        lending: lending.clone(),
        terms,
        reader,
        loans: Mutex::default(),
        begun: Notify::new(),
        is_unusable: AtomicBool::new(false),
    });
    lender::add(Arc::downgrade(&own) as Weak<dyn LoanBook>);
    tracing::debug!(peer = link.peer, ?terms.generation, "shared memory with a peer of eclipse-zenoh");
    Some(own)
}

/// Task of a link that lends: takes returned loans while there are some, and ends them with the link.
pub(super) async fn run(own: Arc<NamedLending>, link: Arc<Link>) {
    let _partner = Partner::new(&own.lending, |lending| &lending.named.partners);
    let mut next = None;
    loop {
        tokio::select! {
            () = link.closed() => break,
            () = own.begun.notified() => next = Some(clock::mono() + SWEEP),
            () = tokio::time::sleep_until(clock::instant(next.unwrap_or_default())), if next.is_some() => {
                let mut loans = own.loans.lock();
                loans.take_returns();
                next = (!loans.loans.is_empty()).then(|| clock::mono() + SWEEP);
            }
        }
    }
    own.end();
}
