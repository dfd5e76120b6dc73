//! [`NamedMemory`]: files in `/dev/shm` of a session, for neighbours of Eclipse Zenoh.

use crate::rt::clock;
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::{collections::HashSet, io, sync::Arc};
use zwire_proto::zenoh::{
    link::named::{ChunkHeader, HEADERS, HeaderPlace, METADATA_SIZE},
    wire::NamedDescription,
};
use zwire_shm::{NamedFile, Place, Pool};

/// Time for which the system is not asked again for memory that it has refused.
const PAUSE: Duration = Duration::from_secs(10);

/// Most peers that are remembered because their memory could not be read.
const MAX_DISTRUSTED: usize = 1024;

/// Shared memory with names of one session.
pub(crate) struct NamedMemory {
    pub(crate) pool: Pool,
    /// The metadata segment that headers are taken from.
    table: Mutex<Option<Arc<HeaderTable>>>,
    /// Number of links that lend.
    pub(crate) partners: AtomicUsize,
    /// Time until which the system is not asked for memory, in milliseconds; 0 if it has given some.
    paused_ms: AtomicU64,
    /// Numbers of the handshake segments of peers whose memory could not be read: the session does not read them
    /// again, and later links with these peers use the socket alone.
    distrusted: Mutex<HashSet<u32>>,
}

impl NamedMemory {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            pool: Pool::named(bound, random_name),
            table: Mutex::default(),
            partners: AtomicUsize::new(0),
            paused_ms: AtomicU64::new(0),
            distrusted: Mutex::default(),
        }
    }

    /// Whether payloads are placed there.
    pub(crate) fn is_used(&self) -> bool {
        self.partners.load(Ordering::Relaxed) > 0 && !self.is_paused()
    }

    /// Whether the system has refused memory a moment ago.
    pub(crate) fn is_paused(&self) -> bool {
        let until = self.paused_ms.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        let over = clock::mono() >= Duration::from_millis(until);
        if over {
            self.paused_ms.store(0, Ordering::Relaxed);
        }
        !over
    }

    /// Places no payloads for a while: the system has refused memory.
    pub(crate) fn pause(&self, error: &io::Error) {
        tracing::info!(
            %error, seconds = PAUSE.as_secs(),
            "no memory in /dev/shm for eclipse-zenoh (full, read-only, or `ulimit -l` is too small): payloads cross the links"
        );
        let until = (clock::mono() + PAUSE).as_millis();
        self.paused_ms.store(u64::try_from(until).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
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

    /// Has later links with a peer, which is known by its handshake segment, use the socket alone.
    pub(crate) fn distrust(&self, segment: u32) {
        let mut distrusted = self.distrusted.lock();
        if distrusted.len() < MAX_DISTRUSTED {
            distrusted.insert(segment);
        }
    }

    /// Whether links with the peer of this handshake segment use the socket alone.
    pub(crate) fn is_distrusted(&self, segment: u32) -> bool {
        self.distrusted.lock().contains(&segment)
    }
}

/// A random number for a name.
pub(crate) fn random_name() -> io::Result<u32> {
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
    /// Headers of loans whose link has ended, and which a reader may still count down.
    stuck: Vec<u16>,
}

impl HeaderTable {
    fn new() -> io::Result<Self> {
        let file = NamedFile::create(METADATA_SIZE, || Ok(random_name()? & u32::from(u16::MAX)))?;
        file.lock()?;
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
pub(crate) struct NamedLoan {
    table: Arc<HeaderTable>,
    index: u16,
    pub(crate) bytes: Bytes,
    /// Signs of life of its readers.
    signs: u8,
}

impl NamedLoan {
    /// Puts bytes on loan that are at `offset` of a segment.
    pub(crate) fn begin(
        memory: &NamedMemory,
        bytes: Bytes,
        segment: u32,
        offset: u32,
    ) -> io::Result<(Self, NamedDescription)> {
        let (table, index) = memory.header()?;
        let (place, file) = (HeaderTable::place(index), &table.file);
        let header = ChunkHeader::new(segment, offset, bytes.len() as u64);
        let generation = file.load_u32(place.generation()).wrapping_add(1);
        let (at, bit) = place.watchdog();
        file.clear_bits(at, bit);
        file.store_u32(place.invalidated(), 0);
        file.store_u32(place.generation(), generation);
        file.store_u32(place.protocol(), header.protocol);
        file.store_u32(place.segment(), header.segment);
        file.store_u32(place.offset(), header.offset);
        file.store_u64(place.length(), header.length);
        // One reference is ours: a reader that is alone may write.
        file.store_u32(place.references(), 2);
        let metadata = u16::try_from(file.id()).map_err(io::Error::other)?;
        let description = NamedDescription { len: header.length, metadata, index, generation };
        Ok((Self { table, index, bytes, signs: 0 }, description))
    }

    pub(crate) fn is_returned(&self) -> bool {
        self.table.is_returned(self.index)
    }

    /// Whether a reader has mapped it, or has had it. A reader gives its first sign of life before it opens the data
    /// segment, and one every 50 ms after that.
    pub(crate) fn is_found(&mut self) -> bool {
        const SIGNS: u8 = 3;
        if self.table.take_sign(self.index) {
            self.signs = self.signs.saturating_add(1);
        }
        self.signs >= SIGNS || self.is_returned()
    }

    /// Ends the loan: no reader has a reference to it.
    pub(crate) fn end(self) {
        self.table.free.lock().free.push(self.index);
    }

    /// Ends the loan, although a reader may still have a reference to it: neither its header nor its segment is used again.
    pub(crate) fn abandon(self, memory: &NamedMemory) {
        if let Some(place) = Place::of(&self.bytes) {
            memory.pool.retire(&place.memory);
        }
        self.table.free.lock().stuck.push(self.index);
    }

    /// Whether it is that of a description.
    pub(crate) fn is_of(&self, description: &NamedDescription) -> bool {
        self.index == description.index && self.table.file.id() == u32::from(description.metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loan(memory: &NamedMemory) -> (NamedLoan, NamedDescription) {
        NamedLoan::begin(memory, Bytes::from_static(b"data"), 3, 64).unwrap()
    }

    fn fields(loan: &NamedLoan) -> [u32; 5] {
        let place = HeaderTable::place(loan.index);
        [place.references(), place.generation(), place.protocol(), place.segment(), place.offset()]
            .map(|at| loan.table.file.load_u32(at))
    }

    #[test]
    fn a_header_is_used_again_when_it_was_returned() {
        let memory = NamedMemory::new(1 << 20);
        let (first, description) = loan(&memory);
        assert_eq!(fields(&first), [2, 1, 0, 3, 64]);
        assert_eq!((description.len, description.index, description.generation), (4, 0, 1));
        assert!(first.is_of(&description) && !first.is_returned());
        first.table.file.decrement(HeaderTable::place(0).references());
        assert!(first.is_returned());
        // A description of the payload before is another generation, also behind the last one.
        first.table.file.store_u32(HeaderTable::place(0).generation(), u32::MAX);
        first.end();
        let (second, description) = loan(&memory);
        assert_eq!((second.index, description.generation), (0, 0));
        assert_eq!(fields(&second), [2, 0, 0, 3, 64]);
        assert_ne!(loan(&memory).1.index, 0, "it is on loan");
    }

    #[test]
    fn a_header_whose_link_has_ended_waits_for_its_reader() {
        let memory = NamedMemory::new(1 << 20);
        let (first, _) = loan(&memory);
        let table = first.table.clone();
        first.abandon(&memory);
        let mut others: Vec<_> = (1..HEADERS).map(|_| loan(&memory).0).collect();
        assert!(others.iter().all(|other| Arc::ptr_eq(&other.table, &table) && other.index != 0));
        // All are in use: there is another table.
        assert!(!Arc::ptr_eq(&loan(&memory).0.table, &table));
        *memory.table.lock() = Some(table.clone());
        table.file.decrement(HeaderTable::place(0).references());
        let (again, _) = loan(&memory);
        assert_eq!((again.index, Arc::ptr_eq(&again.table, &table)), (0, true));
        others.pop().into_iter().for_each(NamedLoan::end);
        assert_eq!(loan(&memory).0.index, u16::try_from(HEADERS - 1).unwrap());
    }

    #[test]
    fn a_reader_is_there_when_it_has_given_three_signs() {
        let memory = NamedMemory::new(1 << 20);
        let (mut loan, _) = loan(&memory);
        assert!(!loan.is_found());
        let (at, bit) = HeaderTable::place(loan.index).watchdog();
        for signs in 1..=3 {
            loan.table.file.set_bits(at, bit);
            assert_eq!(loan.is_found(), signs == 3);
        }
        let (mut other, _) = self::loan(&memory);
        other.table.file.decrement(HeaderTable::place(other.index).references());
        assert!(other.is_found(), "it has come back");
    }

    #[test]
    fn memory_that_the_system_refuses_is_not_asked_for_at_once() {
        let memory = NamedMemory::new(1 << 20);
        memory.partners.store(1, Ordering::Relaxed);
        assert!(memory.is_used());
        memory.pause(&io::Error::other("full"));
        assert!(!memory.is_used());
        memory.paused_ms.store(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        assert!(memory.is_used(), "the pause is over");
        for segment in 0..2000 {
            memory.distrust(segment);
        }
        assert!(memory.is_distrusted(0) && !memory.is_distrusted(1999), "it has a bound");
    }
}
