//! [`NamedReader`]: payloads in shared memory of a neighbour of Eclipse Zenoh, copied out.

use super::{Unread, lender::Lending};
use crate::rt::clock;
use bytes::Bytes;
use core::{hash::Hash, time::Duration};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use zwire_proto::zenoh::{
    Payload, PayloadParts, Priority,
    link::named::{ChunkHeader, HANDSHAKE_SIZE, HeaderPlace, METADATA_SIZE, NamedTerms},
    wire::{NamedDescription, PayloadSlice},
};
use zwire_shm::{NamedAccess, NamedFile, SegmentError};

/// Most segments of each kind that are mapped for a link. A router passes on payloads of many processes.
const MAX_MAPPED: usize = 64;

/// Bytes that are copied between two signs of life to the owner: it counts a reader as gone that gives none for 100 ms.
const PIECE: usize = 8 << 20;

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
}

impl NamedReader {
    pub(super) fn new(terms: &NamedTerms) -> Result<Self, SegmentError> {
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
        })
    }

    /// A copy of the bytes that a payload in sliced form describes.
    pub(super) fn read(
        &self,
        lending: &Lending,
        terms: &NamedTerms,
        sliced: &Payload,
        priority: Priority,
    ) -> Result<Payload, Unread> {
        let slices = PayloadSlice::decode_all(sliced).map_err(|error| {
            tracing::debug!(%error, "a payload in shared memory does not decode");
            Unread::Stale
        })?;
        let (mut parts, mut failure) = (Vec::with_capacity(slices.len()), None);
        // All are looked at: the neighbour counts each.
        for slice in slices {
            let part = match slice {
                PayloadSlice::Raw(bytes) => Ok(bytes),
                PayloadSlice::Foreign(description) => {
                    let part = self.copy(lending, &description);
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
            (None, Some(part)) if parts.is_empty() => Ok(part.into()),
            (None, last) => {
                let mut whole = PayloadParts::default();
                parts.into_iter().chain(last).for_each(|part| whole.push(part));
                Ok(whole.finish())
            }
        }
    }

    fn copy(&self, lending: &Lending, description: &Bytes) -> Result<Bytes, Unread> {
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
        let (at, bit) = place.watchdog();
        // Before all else: from now on its owner knows that it has a reader.
        table.set_bits(at, bit);
        let header = ChunkHeader {
            protocol: table.load_u32(place.protocol()),
            segment: table.load_u32(place.segment()),
            offset: table.load_u32(place.offset()),
            length: table.load_u64(place.length()),
        };
        let is_ours = || table.load_u32(place.generation()) == description.generation;
        let is_valid = || table.load_u8(place.invalidated()) == 0 && is_ours();
        let copied = if is_valid() {
            self.copy_chunk(lending, &header, &description, || table.set_bits(at, bit))
        } else {
            Err(Unread::Stale)
        };
        let copied = copied.and_then(|bytes| if is_valid() { Ok(bytes) } else { Err(Unread::Stale) });
        // The reference that was counted for this message. If the header has another payload by now, it is not ours.
        if is_ours() {
            table.decrement(place.references());
        }
        copied
    }

    fn copy_chunk(
        &self,
        lending: &Lending,
        header: &ChunkHeader,
        description: &NamedDescription,
        mut live: impl FnMut(),
    ) -> Result<Bytes, Unread> {
        let data = self.data.lock().get(header.segment)?;
        let range = header.range(description, data.size()).ok_or(Unread::Unusable)?;
        let mut buffer = lending.room_for_copy(range.len()).ok_or(Unread::Stale)?;
        let mut start = range.start;
        for piece in buffer.as_mut_slice().chunks_mut(PIECE) {
            if !data.copy_out(start..start + piece.len(), piece) {
                return Err(Unread::Unusable);
            }
            start += piece.len();
            live();
        }
        Ok(buffer.freeze())
    }
}
