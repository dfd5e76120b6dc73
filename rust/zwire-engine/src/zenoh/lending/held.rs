//! [`Held`]: a payload in memory of a neighbour of Eclipse Zenoh that is read there.
//!
//! Its owner counts on a sign of life of each reader at least every 100 ms, and takes the memory back otherwise: one thread
//! of the process gives the signs of all payloads that are held, and ends with the last one. A process that was stopped
//! finds its payloads invalidated, or headers of another generation, and no sign revives them.

use crate::{
    lending::{Lending, PayloadBuffer},
    rt::runtime::{Birth, PerProcess},
};
use bytes::Bytes;
use core::{
    ops::Range,
    ptr,
    sync::atomic::{AtomicUsize, Ordering, fence},
    time::Duration,
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    thread,
};
use zwire_proto::zenoh::{Revocable, link::named::HeaderPlace};
use zwire_shm::{NamedFile, hasten};

/// Interval of signs of life: one may be late by nine tenths of the time after which an owner takes memory back.
const SIGN_PERIOD: Duration = Duration::from_millis(10);

/// Most payloads of a link that are held. A receiver that keeps more gets copies.
const MAX_HELD: usize = 1024;

/// Bytes that are copied between two signs of life to the owner, of a payload that no thread gives them for.
const PIECE: usize = 8 << 20;

/// A reference to a payload of a neighbour, counted in its header, and given back when it is dropped.
pub(super) struct Reference {
    table: Arc<NamedFile>,
    place: HeaderPlace,
    generation: u32,
    birth: Birth,
}

impl Reference {
    /// Takes over a reference that the sender has counted for this message, with a sign of life: from now on the owner knows
    /// that it has a reader.
    pub(super) fn new(table: Arc<NamedFile>, place: HeaderPlace, generation: u32, birth: Birth) -> Self {
        let (at, bit) = place.watchdog();
        table.set_bits(at, bit);
        Self { table, place, generation, birth }
    }

    /// Whether the header still is that of this payload. If it has another one by now, its counts are not ours.
    fn is_ours(&self) -> bool {
        self.table.load_u32(self.place.generation()) == self.generation
    }

    /// Whether the payload was not taken back.
    pub(super) fn is_valid(&self) -> bool {
        // Bytes that were read before are compared with this answer, and not read after it.
        fence(Ordering::SeqCst);
        self.table.load_u8(self.place.invalidated()) == 0 && self.is_ours()
    }

    /// Gives the owner a sign of life.
    fn sign(&self) {
        if self.is_ours() {
            let (at, bit) = self.place.watchdog();
            self.table.set_bits(at, bit);
        }
    }

    /// Copies bytes of a payload in `data`. False if they cannot be read; the caller asks afterwards whether they were valid.
    pub(super) fn copy(&self, data: &NamedFile, mut start: usize, to: &mut [u8]) -> bool {
        for piece in to.chunks_mut(PIECE) {
            if !data.copy_out(start..start + piece.len(), piece) {
                return false;
            }
            start += piece.len();
            self.sign();
        }
        true
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // The reference of a forked child is that of its parent.
        if self.birth.is_here() && self.table.is_whole_and_named().0 && self.is_ours() {
            self.table.decrement(self.place.references());
        }
    }
}

/// References that a thread gives signs of life for.
#[derive(Default)]
struct Signed {
    references: HashMap<u64, Arc<Reference>>,
    last: u64,
    /// Whether there is a thread.
    is_running: bool,
}

/// Those of this process. A forked child gives no signs: its parent holds what it reads.
static SIGNED: PerProcess<Mutex<Signed>> = PerProcess::new();

fn signed() -> &'static Mutex<Signed> {
    SIGNED.get(Mutex::default)
}

/// Has a thread give signs of life for a reference; its number. `None` if the system has no thread.
fn begin_signs(reference: &Arc<Reference>) -> Option<u64> {
    let mut all = signed().lock();
    if !all.is_running {
        // Not a task of the runtime: its threads are late on a machine without an idle processor.
        let thread = thread::Builder::new().name("zwire-signs".to_owned()).spawn(|| {
            hasten();
            while give_signs() {
                thread::sleep(SIGN_PERIOD);
            }
        });
        if let Err(error) = thread {
            tracing::debug!(%error, "no thread for payloads in memory of a peer: they are copied");
            return None;
        }
        all.is_running = true;
    }
    all.last += 1;
    let number = all.last;
    all.references.insert(number, reference.clone());
    Some(number)
}

/// Gives all signs; false, and the thread ends, if nothing is held.
fn give_signs() -> bool {
    let mut all = signed().lock();
    all.is_running = !all.references.is_empty();
    // Headers mostly are in one table; its size is asked for once.
    let mut whole: Option<&Arc<NamedFile>> = None;
    for reference in all.references.values() {
        if !whole.is_some_and(|table| Arc::ptr_eq(table, &reference.table)) {
            if !reference.table.is_whole_and_named().0 {
                continue;
            }
            whole = Some(&reference.table);
        }
        reference.sign();
    }
    all.is_running
}

/// Payloads that one link holds.
#[derive(Default)]
pub(super) struct Holdings {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Holdings {
    /// Counts a payload of `len` bytes, if the link may hold it: it leaves half of the memory that the payload is in to its
    /// owner, who could send nothing more there, but may hold one payload of any size.
    fn add(&self, len: usize, memory: usize) -> bool {
        // Payloads of a link come one after another.
        let (count, bytes) = (self.count.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let fits = count == 0 || count < MAX_HELD && bytes + len <= memory / 2;
        if fits {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(len, Ordering::Relaxed);
        }
        fits
    }

    fn remove(&self, len: usize) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(len, Ordering::Relaxed);
    }
}

/// A payload that is read in memory of a neighbour.
pub(super) struct Held {
    reference: Arc<Reference>,
    data: Arc<NamedFile>,
    range: Range<usize>,
    /// Its number with the thread that gives signs.
    number: u64,
    holdings: Arc<Holdings>,
    lending: Weak<Lending>,
}

impl Held {
    /// Holds a payload in a range of `data`. The reference comes back if it has to be copied: the link holds much, or the
    /// range cannot be read.
    pub(super) fn new(
        reference: Reference,
        data: Arc<NamedFile>,
        range: Range<usize>,
        holdings: &Arc<Holdings>,
        lending: &Arc<Lending>,
    ) -> Result<Self, Reference> {
        if !data.is_whole_and_named().0 || !holdings.add(range.len(), data.size()) {
            return Err(reference);
        }
        let reference = Arc::new(reference);
        let Some(number) = begin_signs(&reference) else {
            holdings.remove(range.len());
            return Arc::try_unwrap(reference)
                .map_or_else(|_| unreachable!("the thread has none of it"), Err);
        };
        lending.stats.borrowed.fetch_add(1, Ordering::Relaxed);
        lending.stats.held.fetch_add(1, Ordering::Relaxed);
        let (holdings, lending) = (holdings.clone(), Arc::downgrade(lending));
        Ok(Self { reference, data, range, number, holdings, lending })
    }
}

impl Revocable for Held {
    fn start(&self) -> *const u8 {
        self.data.address(&self.range).unwrap_or(ptr::null())
    }

    fn size(&self) -> usize {
        self.range.len()
    }

    fn is_valid(&self) -> bool {
        self.reference.table.is_whole_and_named().0 && self.reference.is_valid()
    }

    fn copy_to(&self, offset: usize, to: &mut [u8]) -> bool {
        let end = offset.checked_add(to.len());
        // Asked before as well: the table of headers may have been truncated since.
        end.is_some_and(|end| end <= self.size())
            && self.is_valid()
            && self.reference.copy(&self.data, self.range.start + offset, to)
            && self.is_valid()
    }

    fn copy(&self) -> Option<Bytes> {
        // In the pool of the session, from which it can be lent on.
        let mut room = match self.lending.upgrade() {
            Some(lending) => lending.room_for_copy(self.size()),
            None => PayloadBuffer::private(self.size()),
        }?;
        self.copy_to(0, room.as_mut_slice()).then(|| room.freeze())
    }

    fn note_lost(&self) {
        if let Some(lending) = self.lending.upgrade() {
            lending.stats.stale.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.reference.birth.is_here() {
            return;
        }
        signed().lock().references.remove(&self.number);
        self.holdings.remove(self.range.len());
        if let Some(lending) = self.lending.upgrade() {
            lending.stats.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
