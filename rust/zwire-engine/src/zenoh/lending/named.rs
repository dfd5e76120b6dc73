//! [`NamedMemory`]: shared memory of a session with neighbours of Eclipse Zenoh; [`NamedLending`]: that of a link.
//!
//! Payloads of theirs are copied out, and are valid if they still are after the copy. Payloads for them are chunks of a
//! pool in files with names, with a header for each payload and link: what one link has on loan is known without the
//! others. No payload is ever taken back by time; when a link ends, what its process may still read is given up.

use super::{
    Lend, LendingFailure, Unread,
    lender::{self, Lending, LoanBook, Partner},
    reader::NamedReader,
};
use crate::{config::SharedMessage, net::io::Io, rt::clock, zenoh::link::Link};
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicU8, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::{HashSet, VecDeque},
    io,
    sync::{Arc, OnceLock, Weak},
};
use tokio::sync::Notify;
use zwire_proto::zenoh::{
    Payload, Priority,
    link::{
        lending::MAX_LOANS,
        named::{
            HANDSHAKE_SIZE, HEADERS, HandshakeSegment, HandshakeSegments, HeaderPlace, METADATA_SIZE,
            NamedOffer, NamedTerms, OwnSegment,
        },
    },
    wire::{NamedDescription, NetworkMessage, PayloadSlice, ResponseBody},
};
use zwire_shm::{NamedAccess, NamedFile, Place, Pool, SegmentError};

/// Interval at which returned loans are taken on a link that lends nothing more.
const SWEEP: Duration = Duration::from_millis(500);

/// Peers whose memory could not be read, by their handshake segments: links with them go without.
const MAX_DISTRUSTED: usize = 1024;

/// Shared memory with names of one session.
pub(super) struct NamedMemory {
    pub(super) pool: Pool,
    /// The metadata segment that headers are taken from.
    table: Mutex<Option<Arc<HeaderTable>>>,
    /// Number of links that lend.
    pub(super) partners: AtomicUsize,
    distrusted: Mutex<HashSet<u32>>,
}

impl NamedMemory {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            pool: Pool::named(bound, random_name),
            table: Mutex::default(),
            partners: AtomicUsize::new(0),
            distrusted: Mutex::default(),
        }
    }

    /// A header, and the metadata segment that it is in.
    fn header(&self) -> io::Result<(Arc<HeaderTable>, u16)> {
        let mut current = self.table.lock();
        if let Some(table) = &*current
            && let Some(index) = table.take()
        {
            return Ok((table.clone(), index));
        }
        let table = Arc::new(HeaderTable::new()?);
        let index = table.take().ok_or(io::ErrorKind::OutOfMemory)?;
        *current = Some(table.clone());
        Ok((table, index))
    }

    fn distrust(&self, segment: u32) {
        let mut distrusted = self.distrusted.lock();
        if distrusted.len() < MAX_DISTRUSTED {
            distrusted.insert(segment);
        }
    }
}

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
        if self.lending.upgrade()?.named.distrusted.lock().contains(&number) {
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
        if let Some(lending) = self.lending.upgrade() {
            lending.stats.failed[failure as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        // The other side has mapped it, or will not: a process that is killed later leaves no name.
        if let Some(Some((file, _))) = self.own.get_mut() {
            file.remove_name();
        }
    }
}

/// A random number for a name.
fn random_name() -> io::Result<u32> {
    getrandom::u32().map_err(io::Error::other)
}

/// A metadata segment of this session.
struct HeaderTable {
    file: NamedFile,
    free: Mutex<FreeHeaders>,
}

#[derive(Default)]
struct FreeHeaders {
    free: Vec<u16>,
    /// Those from here on were never used.
    unused: usize,
    /// Those of loans whose link has ended, and which somebody may still count down.
    stuck: Vec<u16>,
}

impl HeaderTable {
    fn new() -> io::Result<Self> {
        let file = NamedFile::create(METADATA_SIZE, || Ok(random_name()? & u32::from(u16::MAX)))?;
        Ok(Self { file, free: Mutex::default() })
    }

    fn place(index: u16) -> HeaderPlace {
        // A number that `take` has given.
        HeaderPlace::of(index.into()).unwrap_or_else(|| unreachable!("{index} is below {HEADERS}"))
    }

    fn take(&self) -> Option<u16> {
        let mut free = self.free.lock();
        if let Some(index) = free.free.pop() {
            return Some(index);
        }
        if free.unused < HEADERS {
            free.unused += 1;
            return u16::try_from(free.unused - 1).ok();
        }
        let stuck = core::mem::take(&mut free.stuck);
        for index in stuck {
            let list = if self.is_returned(index) { &mut free.free } else { &mut free.stuck };
            list.push(index);
        }
        free.free.pop()
    }

    /// Whether only this side counts on it.
    fn is_returned(&self, index: u16) -> bool {
        self.file.load_u32(Self::place(index).references()) <= 1
    }

    /// Whether a reader has given a sign of life since this was asked last.
    fn take_sign(&self, index: u16) -> bool {
        let (at, bit) = Self::place(index).watchdog();
        let found = self.file.load_u64(at) & bit != 0;
        if found {
            self.file.clear_bits(at, bit);
        }
        found
    }
}

/// A payload that one link has on loan.
struct NamedLoan {
    table: Arc<HeaderTable>,
    index: u16,
    bytes: Bytes,
    /// Signs of life of its readers.
    signs: u8,
}

impl NamedLoan {
    /// Puts bytes on loan that are at `offset` of a segment.
    fn begin(
        memory: &NamedMemory,
        bytes: Bytes,
        segment: u32,
        offset: u32,
    ) -> io::Result<(Self, NamedDescription)> {
        let (table, index) = memory.header()?;
        let (place, file) = (HeaderTable::place(index), &table.file);
        let generation = file.load_u32(place.generation()).wrapping_add(1);
        let (at, bit) = place.watchdog();
        file.clear_bits(at, bit);
        file.store_u32(place.invalidated(), 0);
        file.store_u32(place.generation(), generation);
        file.store_u32(place.protocol(), 0);
        file.store_u32(place.segment(), segment);
        file.store_u32(place.offset(), offset);
        file.store_u64(place.length(), bytes.len() as u64);
        // One reference is ours: a reader that is alone may write.
        file.store_u32(place.references(), 2);
        let metadata = u16::try_from(file.id()).map_err(io::Error::other)?;
        let description = NamedDescription { len: bytes.len() as u64, metadata, index, generation };
        Ok((Self { table, index, bytes, signs: 0 }, description))
    }

    fn is_returned(&self) -> bool {
        self.table.is_returned(self.index)
    }

    /// Whether a reader has mapped it, or has had it. A reader gives its first sign of life before it opens the data
    /// segment, and one every 50 ms after that.
    fn is_found(&mut self) -> bool {
        const SIGNS: u8 = 3;
        if self.table.take_sign(self.index) {
            self.signs = self.signs.saturating_add(1);
        }
        self.signs >= SIGNS || self.is_returned()
    }

    /// Ends it: nobody has a reference.
    fn end(self) {
        self.table.free.lock().free.push(self.index);
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
    /// Ends those at the front that were returned.
    fn take_first(&mut self) {
        /// Loans that are looked at for each one that begins.
        const LOOKS: usize = 4;
        for _ in 0..LOOKS {
            if !self.loans.front().is_some_and(NamedLoan::is_returned) {
                return;
            }
            if let Some(loan) = self.loans.pop_front() {
                self.bytes -= loan.bytes.len();
                loan.end();
            }
        }
    }

    /// Ends all that were returned.
    fn take_returns(&mut self) {
        for _ in 0..self.loans.len() {
            let Some(loan) = self.loans.pop_front() else { return };
            if loan.is_returned() {
                self.bytes -= loan.bytes.len();
                loan.end();
            } else {
                self.loans.push_back(loan);
            }
        }
    }

    fn is_full(&self, len: usize, share: usize) -> bool {
        self.loans.len() >= MAX_LOANS || self.bytes > 0 && self.bytes + len > share
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
    /// 0: on, else a [`LendingFailure`] plus one.
    failure: AtomicU8,
}

impl NamedLending {
    pub(super) fn failure(&self) -> Option<LendingFailure> {
        let at = self.failure.load(Ordering::Relaxed).checked_sub(1)?;
        LendingFailure::ALL.get(usize::from(at)).copied()
    }

    fn fail(&self, failure: LendingFailure) {
        if self.failure.swap(failure as u8 + 1, Ordering::Relaxed) == 0 {
            self.lending.stats.failed[failure as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Puts the payload of a message on loan, if it is large or in shared memory already.
    #[inline]
    pub(super) fn lend(&self, message: &NetworkMessage) -> Lend {
        let Some(payload) = message.shareable() else { return Lend::Small };
        if payload.len() < self.lending.threshold() && !lender::is_explicit(payload) {
            return Lend::Small;
        }
        self.lend_large(message, payload)
    }

    #[inline(never)]
    fn lend_large(&self, message: &NetworkMessage, payload: &Payload) -> Lend {
        let (len, share) = (payload.len(), self.lending.share());
        if message.is_in_shared_memory() || self.failure().is_some() {
            return Lend::Unlent;
        }
        let mut loans = self.loans.lock();
        loans.take_first();
        if loans.is_full(len, share) {
            loans.take_returns();
        }
        if loans.is_full(len, share) {
            self.lending.set_tight();
            return Lend::Unlent;
        }
        let slices = match self.slices(message, payload, &mut loans) {
            Ok(Some(slices)) => slices,
            Ok(None) => return Lend::Unlent,
            Err(error) => {
                tracing::info!(%error, "no more shared memory with a peer: payloads cross the link");
                self.fail(LendingFailure::System);
                return Lend::Unlent;
            }
        };
        let mut message = message.clone();
        message.replace_shareable(PayloadSlice::encode_all(&slices), true);
        Lend::Lent { message, urgent: false }
    }

    /// The payload in sliced form, all of it on loan.
    fn slices(
        &self,
        message: &NetworkMessage,
        payload: &Payload,
        loans: &mut NamedLoans,
    ) -> io::Result<Option<Vec<PayloadSlice>>> {
        let parts = payload.parts();
        let mut found = Vec::with_capacity(parts.len());
        for part in parts.iter().filter(|part| !part.is_empty()) {
            match named_place(part) {
                Some((segment, offset)) => found.push((part.clone(), segment, offset)),
                None => {
                    let Some(copy) = self.copy(message, payload) else { return Ok(None) };
                    let Some((segment, offset)) = named_place(&copy) else { return Ok(None) };
                    found.clear();
                    found.push((copy, segment, offset));
                    break;
                }
            }
        }
        if found.len() > PayloadSlice::MOST {
            return Ok(None);
        }
        let idle = loans.loans.is_empty();
        let mut slices = Vec::with_capacity(found.len());
        for (bytes, segment, offset) in found {
            let len = bytes.len();
            // A failure in the midst leaves loans that nobody hears of, until the link ends.
            let (loan, description) = NamedLoan::begin(&self.lending.named, bytes, segment, offset)?;
            loans.bytes += len;
            loans.loans.push_back(loan);
            slices.push(PayloadSlice::Foreign(description.encode()));
        }
        if idle {
            self.begun.notify_one();
        }
        Ok(Some(slices))
    }

    /// A copy of the payload in memory with a name, if the settings want one.
    fn copy(&self, message: &NetworkMessage, payload: &Payload) -> Option<Bytes> {
        if !self.lending.is_implicit(kind_of(message)?) && !lender::is_explicit(payload) {
            return None;
        }
        self.lending.copy_into(&self.lending.named.pool, payload)
    }

    /// Whether a payload of that size can be lent, as far as the bounds are concerned.
    fn has_room(&self, len: usize) -> bool {
        let mut loans = self.loans.lock();
        loans.take_returns();
        !loans.is_full(len, self.lending.share())
    }

    /// Ends the loans of a message that was not sent.
    #[cold]
    pub(super) fn take_back(&self, message: &NetworkMessage) {
        let mut loans = self.loans.lock();
        let slices = message.shareable().map(|payload| PayloadSlice::decode_all(payload));
        for slice in slices.into_iter().flatten().flatten() {
            let PayloadSlice::Foreign(bytes) = slice else { continue };
            let Ok(description) = NamedDescription::decode(&bytes) else { continue };
            let is_it = |loan: &NamedLoan| {
                loan.index == description.index && loan.table.file.id() == u32::from(description.metadata)
            };
            if let Some(at) = loans.loans.iter().rposition(is_it)
                && let Some(loan) = loans.loans.remove(at)
            {
                loans.bytes -= loan.bytes.len();
                loan.end();
            }
        }
    }

    /// The payload that descriptions of the other side stand for.
    pub(super) fn borrow(&self, sliced: &Payload, priority: Priority) -> Result<Payload, Unread> {
        let read = self.reader.read(&self.lending, &self.terms, sliced, priority);
        if read == Err(Unread::Unusable) {
            self.fail(LendingFailure::Protocol);
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
            if let Some(place) = Place::of(&loan.bytes) {
                self.lending.named.pool.retire(&place.memory);
            }
            loan.table.free.lock().stuck.push(loan.index);
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

/// Segment and offset of bytes in memory with a name.
fn named_place(bytes: &[u8]) -> Option<(u32, u32)> {
    let place = Place::of(bytes)?;
    Some((place.memory.name()?, u32::try_from(place.offset).ok()?))
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

/// Starts lending on a link with these terms.
pub(super) fn start(
    lending: &Arc<Lending>,
    link: &Arc<Link>,
    terms: NamedTerms,
) -> Result<Arc<NamedLending>, LendingFailure> {
    let reader = NamedReader::new(&terms).map_err(|error| {
        tracing::debug!(%error, peer = link.peer, "the counters of a peer cannot be mapped");
        LendingFailure::System
    })?;
    let own = Arc::new(NamedLending {
        lending: lending.clone(),
        terms,
        reader,
        loans: Mutex::default(),
        begun: Notify::new(),
        failure: AtomicU8::new(0),
    });
    lender::add(Arc::downgrade(&own) as Weak<dyn LoanBook>);
    tracing::debug!(peer = link.peer, ?terms.generation, "shared memory with a peer of eclipse-zenoh");
    Ok(own)
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
