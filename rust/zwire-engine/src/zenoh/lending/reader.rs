//! [`NamedReader`]: payloads in shared memory of a neighbour of Eclipse Zenoh, copied out, or held there.

use super::{
    Unread,
    held::{Held, Holdings, Reference},
};
use crate::{
    lending::Lending,
    rt::{clock, runtime::Birth},
};
use bytes::Bytes;
use core::{hash::Hash, time::Duration};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use zwire_proto::zenoh::{
    Payload, PayloadParts, Priority, Revocable,
    link::named::{ChunkHeader, HANDSHAKE_SIZE, HeaderPlace, METADATA_SIZE, NamedTerms},
    wire::{NamedDescription, PayloadSlice},
};
use zwire_shm::{NamedAccess, NamedFile, SegmentError};

/// Most segments of each kind that are mapped for a link. A router passes on payloads of many processes.
const MAX_MAPPED: usize = 64;

/// Smallest payload that is held in the memory of its sender: copying a smaller one costs less than the signs of life for it.
const HELD_FROM: usize = 16 << 10;

/// Segments of others, by their numbers.
struct Mapped<K> {
    access: NamedAccess,
    files: HashMap<K, (Arc<NamedFile>, Duration)>,
}

impl<K: Copy + Eq + Hash + Into<u32>> Mapped<K> {
    fn new(access: NamedAccess) -> Self {
        Self { access, files: HashMap::new() }
    }

    /// The segment with that number; an error if it cannot be read.
    fn get(&mut self, id: K) -> Result<Arc<NamedFile>, Unread> {
        let now = clock::mono();
        if let Some((file, used)) = self.files.get_mut(&id) {
            match file.is_whole_and_named() {
                (true, true) => {
                    *used = now;
                    return Ok(file.clone());
                }
                // Its owner is gone, and the number may belong to another one.
                (true, false) => match NamedFile::open(id.into(), self.access) {
                    Ok(newer) => *file = Arc::new(newer),
                    Err(_) => return Ok(file.clone()),
                },
                (false, _) => return Err(Unread::Unusable),
            }
            return Ok(file.clone());
        }
        let file = NamedFile::open(id.into(), self.access).map(Arc::new).map_err(|error| {
            tracing::debug!(%error, id = id.into(), "shared memory of a peer cannot be mapped");
            Unread::Unusable
        })?;
        // Those whose owner is gone, and else the one that was not used for the longest time.
        self.files.retain(|_, (file, _)| file.is_whole_and_named().1);
        if self.files.len() >= MAX_MAPPED
            && let Some(oldest) = self.files.iter().min_by_key(|(_, (_, used))| *used).map(|(id, _)| *id)
        {
            self.files.remove(&oldest);
        }
        self.files.insert(id, (file.clone(), now));
        Ok(file)
    }
}

/// Reads payloads that a neighbour describes.
pub(super) struct NamedReader {
    metadata: Mutex<Mapped<u16>>,
    data: Mutex<Mapped<u32>>,
    /// The handshake segment of the neighbour, if it has counters for this link.
    counters: Option<NamedFile>,
    /// Most bytes of a payload.
    max_len: usize,
    /// Payloads that are held; `None` if all are copied.
    holdings: Option<Arc<Holdings>>,
    birth: Birth,
}

impl NamedReader {
    /// `max_len`: the most bytes of a payload; `borrow`: whether payloads are held in the memory of the neighbour.
    pub(super) fn new(terms: &NamedTerms, max_len: usize, borrow: bool) -> Result<Self, SegmentError> {
        let counters = match terms.counters {
            None => None,
            Some(_) => {
                let file = NamedFile::open(terms.segment, NamedAccess::Write)?;
                let (expected, found) = (HANDSHAKE_SIZE as u64, file.size() as u64);
                if expected != found {
                    return Err(SegmentError::Size { expected, found });
                }
                Some(file)
            }
        };
        Ok(Self {
            metadata: Mutex::new(Mapped::new(NamedAccess::Write)),
            data: Mutex::new(Mapped::new(NamedAccess::Read)),
            counters,
            max_len,
            holdings: borrow.then(Arc::default),
            birth: Birth::here(),
        })
    }

    /// The bytes that a payload in sliced form describes: a copy, or, of one slice, the memory of the neighbour.
    pub(super) fn read(
        &self,
        lending: &Arc<Lending>,
        terms: &NamedTerms,
        sliced: &Payload,
        priority: Priority,
    ) -> Result<Payload, Unread> {
        let slices = PayloadSlice::decode_all(sliced).map_err(|error| {
            tracing::debug!(%error, "a payload in shared memory does not decode");
            Unread::Stale
        })?;
        let (mut parts, mut failure) = (Vec::with_capacity(slices.len()), None);
        let holdings = self.holdings.as_ref().filter(|_| slices.len() == 1);
        let mut room = self.max_len;
        // All are looked at: the neighbour counts each.
        for slice in slices {
            let part = match slice {
                PayloadSlice::Raw(bytes) => Ok(bytes.into()),
                PayloadSlice::Foreign(description) => {
                    let part = self.take(lending, &description, &mut room, holdings);
                    if let (Some(counters), Some(at)) = (&self.counters, terms.counter_offset(priority))
                        && counters.is_whole_and_named().0
                    {
                        counters.decrement(at);
                    }
                    part
                }
                PayloadSlice::Loan(_) => Err(Unread::Unusable),
            };
            match part {
                Ok(part) => parts.push(part),
                // What is worst counts.
                Err(Unread::Unusable) => failure = Some(Unread::Unusable),
                Err(stale) => failure = failure.or(Some(stale)),
            }
        }
        match (failure, parts.pop()) {
            (Some(failure), _) => Err(failure),
            (None, Some(part)) if parts.is_empty() => Ok(part),
            (None, last) => {
                let mut whole = PayloadParts::default();
                parts.into_iter().chain(last).for_each(|part| whole.push(part.into_bytes()));
                Ok(whole.finish())
            }
        }
    }

    /// The bytes of a slice, of which `room` is left for the others of the payload. With `holdings` they may stay where they
    /// are.
    fn take(
        &self,
        lending: &Arc<Lending>,
        description: &Bytes,
        room: &mut usize,
        holdings: Option<&Arc<Holdings>>,
    ) -> Result<Payload, Unread> {
        let description = NamedDescription::decode(description).map_err(|error| {
            tracing::debug!(%error, "a description of shared memory is not of a release from 1.2.3 on");
            Unread::Unusable
        })?;
        let place = HeaderPlace::of(description.index.into()).ok_or(Unread::Unusable)?;
        let table = self.metadata.lock().get(description.metadata)?;
        if table.size() != METADATA_SIZE {
            tracing::debug!(size = table.size(), "a metadata segment of a peer has an unknown layout");
            return Err(Unread::Unusable);
        }
        // Before all else, and given back in any case.
        let reference = Reference::new(table.clone(), place, description.generation, self.birth);
        let header = ChunkHeader {
            protocol: table.load_u32(place.protocol()),
            segment: table.load_u32(place.segment()),
            offset: table.load_u32(place.offset()),
            length: table.load_u64(place.length()),
        };
        let left = usize::try_from(description.len).ok().and_then(|len| room.checked_sub(len));
        *room = left.unwrap_or(0);
        if left.is_none() {
            tracing::debug!(
                len = description.len,
                "a payload in shared memory exceeds `transport/link/rx/max_message_size`"
            );
            return Err(Unread::Stale);
        }
        if !reference.is_valid() {
            return Err(Unread::Stale);
        }
        let data = self.data.lock().get(header.segment)?;
        let range = header.range(&description, data.size()).ok_or(Unread::Unusable)?;
        let mut reference = reference;
        if let Some(holdings) = holdings.filter(|_| range.len() >= HELD_FROM) {
            match Held::new(reference, data.clone(), range.clone(), holdings, lending) {
                Ok(held) if held.is_valid() => return Ok(Payload::of_revocable(held)),
                Ok(_) => return Err(Unread::Stale),
                Err(back) => reference = back,
            }
        }
        let mut buffer = lending.room_for_copy(range.len()).ok_or(Unread::Stale)?;
        if !reference.copy(&data, range.start, buffer.as_mut_slice()) {
            return Err(Unread::Unusable);
        }
        if reference.is_valid() { Ok(buffer.freeze().into()) } else { Err(Unread::Stale) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SharedMemory;
    use core::sync::atomic::{AtomicU32, Ordering};
    use zwire_proto::zenoh::link::named::NamedGeneration;

    /// A neighbour with one payload in its memory.
    struct Neighbour {
        handshake: NamedFile,
        table: NamedFile,
        data: NamedFile,
    }

    fn number() -> std::io::Result<u32> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Ok(0x4000_0000 ^ (std::process::id() << 8).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    fn lending() -> Arc<Lending> {
        let settings = SharedMemory {
            enabled: true,
            implicit: true,
            pool_size: 1 << 20,
            threshold: 1,
            messages: Vec::new(),
            users: Vec::new(),
            borrow: false,
        };
        Lending::new(&settings, true)
    }

    const PLACE: usize = 70;
    const COUNTERS: [u16; Priority::COUNT] = [0, 1, 2, 3, 4, 5, 6, 2809];

    fn place() -> HeaderPlace {
        HeaderPlace::of(PLACE).unwrap()
    }

    impl Neighbour {
        fn new() -> Self {
            let small = || getrandom::u32().map(|id| id & 0xffff).map_err(std::io::Error::other);
            let table = NamedFile::create(METADATA_SIZE, small).unwrap();
            let data = NamedFile::create(100_000, number).unwrap();
            let handshake = NamedFile::create(HANDSHAKE_SIZE, number).unwrap();
            data.copy_in(1040, b"hello");
            for (at, value) in [
                (place().references(), 2),
                (place().generation(), 7),
                (place().segment(), data.id()),
                (place().offset(), 1040),
            ] {
                table.store_u32(at, value);
            }
            table.store_u64(place().length(), 5000);
            Self { handshake, table, data }
        }

        fn terms(&self) -> NamedTerms {
            NamedTerms {
                generation: NamedGeneration::Second,
                segment: self.handshake.id(),
                counters: Some(COUNTERS),
            }
        }

        fn counter(&self) -> usize {
            self.terms().counter_offset(Priority::Data).unwrap()
        }

        fn reset_counters(&self) {
            self.handshake.store_u32(self.counter(), 1);
        }

        fn description(&self) -> NamedDescription {
            let metadata = u16::try_from(self.table.id()).unwrap();
            NamedDescription { len: 5, metadata, index: PLACE as u16, generation: 7 }
        }

        /// Reads a payload with one slice; what it gives, and the references and the counter after it.
        fn read(&self, description: NamedDescription) -> (Result<Payload, Unread>, u32, u32) {
            self.reset_counters();
            self.table.store_u32(place().references(), 2);
            let lending = lending();
            let reader = NamedReader::new(&self.terms(), 10_000, false).unwrap();
            let sliced = PayloadSlice::encode_all(&[PayloadSlice::Foreign(description.encode())]);
            let read = reader.read(&lending, &self.terms(), &sliced, Priority::Data);
            let references = self.table.load_u32(place().references());
            (read, references, self.handshake.load_u32(self.counter()))
        }
    }

    #[test]
    fn a_payload_is_copied_out_and_given_back() {
        let neighbour = Neighbour::new();
        let (read, references, counter) = neighbour.read(neighbour.description());
        assert_eq!((read.unwrap().into_bytes(), references, counter), (Bytes::from_static(b"hello"), 1, 0));
        let (at, bit) = place().watchdog();
        assert_eq!(neighbour.table.load_u64(at), bit, "a sign of life for its owner");
        // A description that says nothing true.
        let len = NamedDescription { len: 5000, ..neighbour.description() };
        assert_eq!(neighbour.read(len).0.unwrap().len(), 5000);
    }

    #[test]
    fn payloads_that_are_not_valid_any_more_are_stale() {
        let neighbour = Neighbour::new();
        // The header has another payload by now; its reference is not ours.
        let other = NamedDescription { generation: 6, ..neighbour.description() };
        assert_eq!(neighbour.read(other), (Err(Unread::Stale), 2, 0));
        neighbour.table.store_u32(place().invalidated(), 1);
        assert_eq!(neighbour.read(neighbour.description()), (Err(Unread::Stale), 1, 0));
    }

    #[test]
    fn forged_descriptions_and_headers_lead_nowhere() {
        let neighbour = Neighbour::new();
        let right = neighbour.description();
        for wrong in [
            NamedDescription { metadata: right.metadata ^ 1, ..right },
            NamedDescription { index: 32_768, ..right },
            NamedDescription { len: 5001, ..right },
        ] {
            let (read, _, counter) = neighbour.read(wrong);
            assert_eq!((read, counter), (Err(Unread::Unusable), 0), "{wrong:?}");
        }
        let table = &neighbour.table;
        for (at, wrong) in [
            (place().protocol(), 1),
            (place().segment(), neighbour.data.id() ^ 1 << 30),
            (place().offset(), 95_001),
            (place().offset(), u32::MAX),
            (place().length() + 4, 1),
        ] {
            let before = table.load_u32(at);
            table.store_u32(at, wrong);
            let (read, references, counter) = neighbour.read(right);
            assert_eq!((read, references, counter), (Err(Unread::Unusable), 1, 0), "{at}: {wrong}");
            table.store_u32(at, before);
        }
        assert!(neighbour.read(right).0.is_ok());
        // A chunk of any size is there, and a payload has a bound.
        for len in [10_001, u64::MAX] {
            table.store_u64(place().length(), len.min(90_000));
            let wrong = NamedDescription { len, ..right };
            assert_eq!(neighbour.read(wrong), (Err(Unread::Stale), 1, 0), "{len}");
        }
        table.store_u64(place().length(), 5000);
        // Of all slices the neighbour counts each, also when the first one fails.
        let lending = lending();
        let reader = NamedReader::new(&neighbour.terms(), 10_000, false).unwrap();
        let wrong = NamedDescription { len: 5001, ..right };
        let slices = [wrong, right, right].map(|slice| PayloadSlice::Foreign(slice.encode()));
        neighbour.handshake.store_u32(neighbour.counter(), 3);
        let sliced = PayloadSlice::encode_all(&slices);
        assert!(reader.read(&lending, &neighbour.terms(), &sliced, Priority::Data).is_err());
        assert_eq!(neighbour.handshake.load_u32(neighbour.counter()), 0);
    }

    #[test]
    fn truncated_segments_are_an_error() {
        for cut in [0, 1] {
            let neighbour = Neighbour::new();
            let lending = lending();
            let reader = NamedReader::new(&neighbour.terms(), 10_000, false).unwrap();
            let sliced = PayloadSlice::encode_all(&[PayloadSlice::Foreign(neighbour.description().encode())]);
            let read = || reader.read(&lending, &neighbour.terms(), &sliced, Priority::Data);
            assert!(read().is_ok());
            let file = if cut == 0 { &neighbour.data } else { &neighbour.table };
            let path = format!("/dev/shm/{}.zenoh", file.id());
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
            assert_eq!(read(), Err(Unread::Unusable));
        }
    }

    /// A neighbour with one payload of `len` bytes, and a link that borrows.
    struct Borrowing {
        neighbour: Neighbour,
        description: NamedDescription,
        lending: Arc<Lending>,
        reader: NamedReader,
    }

    impl Borrowing {
        fn new(len: u32) -> Self {
            let neighbour = Neighbour::new();
            neighbour.table.store_u64(place().length(), 95_000);
            let description = NamedDescription { len: len.into(), ..neighbour.description() };
            let reader = NamedReader::new(&neighbour.terms(), 1 << 20, true).unwrap();
            Self { neighbour, description, lending: lending(), reader }
        }

        /// Takes a description that was counted once more.
        fn take(&self) -> Payload {
            let references = self.references();
            self.neighbour.table.store_u32(place().references(), references + 1);
            self.neighbour.reset_counters();
            let sliced = PayloadSlice::encode_all(&[PayloadSlice::Foreign(self.description.encode())]);
            let terms = self.neighbour.terms();
            let read = self.reader.read(&self.lending, &terms, &sliced, Priority::Data).unwrap();
            assert_eq!(self.neighbour.handshake.load_u32(self.neighbour.counter()), 0);
            read
        }

        fn references(&self) -> u32 {
            self.neighbour.table.load_u32(place().references())
        }

        /// Whether a sign of life comes within a second.
        fn has_sign(&self, within: Duration) -> bool {
            let (at, bit) = place().watchdog();
            self.neighbour.table.clear_bits(at, bit);
            let end = clock::mono() + within;
            while clock::mono() < end {
                if self.neighbour.table.load_u64(at) & bit != 0 {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            false
        }

        fn stats(&self) -> [u64; 3] {
            let stats = &self.lending.stats;
            [&stats.borrowed, &stats.held, &stats.stale].map(|count| count.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_borrowed_payload_is_the_memory_of_the_neighbour_until_it_is_dropped() {
        let link = Borrowing::new(20_000);
        let before = link.references();
        let payload = link.take();
        let memory = payload.revocable().unwrap();
        assert!(memory.is_valid() && payload.len() == 20_000 && link.references() == before + 1);
        let mut found = [0; 5];
        assert!(memory.copy_to(0, &mut found));
        assert_eq!(&found, b"hello");
        link.neighbour.data.copy_in(1040 + 19_995, b"there");
        assert!(memory.copy_to(19_995, &mut found));
        assert_eq!(&found, b"there", "no copy was made before");
        assert!(!memory.copy_to(19_996, &mut found), "behind its end");
        // Its owner sees signs of life, as often as it looks.
        assert!((0..3).all(|_| link.has_sign(Duration::from_secs(2))));
        let other = payload.clone();
        drop(payload);
        assert!(link.references() == before + 1 && link.stats() == [1, 1, 0]);
        drop(other);
        assert_eq!((link.references(), link.stats()), (before, [1, 0, 0]));
        assert!(!link.has_sign(Duration::from_millis(150)));
    }

    #[test]
    fn a_borrowed_payload_that_is_taken_back_gives_no_bytes() {
        let table = |link: &Borrowing, at, value| link.neighbour.table.store_u32(at, value);
        for (at, references_after) in [(place().generation(), 3), (place().invalidated(), 2)] {
            let link = Borrowing::new(20_000);
            let (early, late) = (link.take(), link.take());
            let mut copied = early.clone();
            assert!(copied.secure() && copied.revocable().is_none());
            drop(late);
            let late = link.take();
            table(&link, at, 8);
            let memory = late.revocable().unwrap();
            assert!(!memory.is_valid() && !memory.copy_to(0, &mut [0; 5]));
            let mut gone = late.clone();
            assert!(!gone.secure() && gone.revocable().is_some());
            assert_eq!(&copied[..5], b"hello", "what was copied before stays");
            assert_eq!(link.stats()[2], 1);
            drop((early, late, gone));
            // The references of a header with another payload are not ours.
            assert_eq!(link.references(), references_after + u32::from(references_after == 3), "{at}");
        }
    }

    #[test]
    fn a_borrowed_payload_whose_files_are_truncated_gives_no_bytes() {
        for cut in [0, 1] {
            let link = Borrowing::new(20_000);
            let payload = link.take();
            let file = if cut == 0 { &link.neighbour.data } else { &link.neighbour.table };
            let path = format!("/dev/shm/{}.zenoh", file.id());
            std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(4096).unwrap();
            assert!(!payload.revocable().unwrap().copy_to(0, &mut [0; 5]));
        }
    }

    #[test]
    fn what_a_link_borrows_has_a_bound() {
        let link = Borrowing::new(20_000);
        let mut kept: Vec<_> = (0..4).map(|_| link.take()).collect();
        let borrowed = |payloads: &[Payload]| payloads.iter().filter(|p| p.revocable().is_some()).count();
        assert_eq!(borrowed(&kept), 2, "half of the memory, which has 100,000 bytes");
        assert_eq!(link.references(), 2 + 2, "copies are given back at once");
        assert!(kept.iter().all(|payload| payload.len() == 20_000));
        kept.remove(0);
        kept.push(link.take());
        assert_eq!(borrowed(&kept), 2);
        // One of any size, small ones never, and parts of a payload never.
        let large = Borrowing::new(90_000);
        assert_eq!(borrowed(&[large.take(), large.take()]), 1);
        let small = Borrowing::new(u32::try_from(HELD_FROM - 1).unwrap());
        assert_eq!(borrowed(&[small.take()]), 0);
        let slices = [
            PayloadSlice::Raw(Bytes::from_static(b"head")),
            PayloadSlice::Foreign(link.description.encode()),
        ];
        let sliced = PayloadSlice::encode_all(&slices);
        let read = link.reader.read(&link.lending, &link.neighbour.terms(), &sliced, Priority::Data).unwrap();
        assert!(read.revocable().is_none() && read.len() == 20_004);
    }

    #[test]
    fn segments_of_processes_that_are_gone_are_let_go() {
        let mut mapped = Mapped::<u32>::new(NamedAccess::Read);
        let live = NamedFile::create(4096, number).unwrap();
        assert!(mapped.get(live.id()).is_ok());
        for _ in 0..2 * MAX_MAPPED {
            let gone = NamedFile::create(4096, number).unwrap();
            assert!(mapped.get(gone.id()).is_ok());
            assert!(mapped.files.len() <= 3);
        }
        let many: Vec<_> = (0..2 * MAX_MAPPED).map(|_| NamedFile::create(4096, number).unwrap()).collect();
        for file in &many {
            assert!(mapped.get(file.id()).is_ok());
        }
        assert_eq!(mapped.files.len(), MAX_MAPPED);
        assert!(mapped.get(live.id()).is_ok());
    }
}
