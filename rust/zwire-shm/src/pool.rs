//! [`Pool`]: chunks of the segments of this process.

use crate::{
    mapping::{Memory, PAGE},
    named::NewName,
    process::generation,
    segment::Segment,
};
use bytes::Bytes;
use core::fmt;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Weak},
};

/// Least size of a segment. Its pages are touched once and then used again and again: the first touch costs as much as
/// copying eight times.
const SEGMENT: usize = 4 << 20;

/// Chunks begin at multiples of a line of the cache, which is enough for every type of numpy.
const ALIGN: usize = 64;

/// Memory from which chunks are lent, with a bound.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    bound: usize,
    /// Where names of segments come from, if they have some.
    new_name: Option<NewName>,
    /// Of the process that has made the pool. A child has its memory, and must not manage it.
    generation: u32,
    slabs: Mutex<Slabs>,
}

#[derive(Default)]
struct Slabs {
    /// By the address of the first byte.
    by_start: BTreeMap<usize, Slab>,
    /// Size of all segments.
    bytes: usize,
    /// Size of all chunks.
    lent: usize,
}

/// A segment and its unused parts.
struct Slab {
    segment: Segment,
    /// Unused parts: offset and length. Neighbours are joined.
    free: BTreeMap<usize, usize>,
}

impl Slab {
    fn new(segment: Segment) -> Self {
        let free = BTreeMap::from([(0, segment.size())]);
        Self { segment, free }
    }

    /// Takes the first part that is long enough: memory that was used a moment ago is still in the caches.
    fn take(&mut self, len: usize) -> Option<usize> {
        let (offset, room) =
            self.free.iter().find(|(_, room)| **room >= len).map(|(at, room)| (*at, *room))?;
        self.free.remove(&offset);
        if room > len {
            self.free.insert(offset + len, room - len);
        }
        Some(offset)
    }

    fn give_back(&mut self, mut offset: usize, mut len: usize) {
        if let Some((before, room)) = self.free.range(..offset).next_back().map(|(at, room)| (*at, *room))
            && before + room == offset
        {
            self.free.remove(&before);
            (offset, len) = (before, len + room);
        }
        if let Some(room) = self.free.remove(&(offset + len)) {
            len += room;
        }
        self.free.insert(offset, len);
    }

    /// Whether the chunks of that memory are parts of it: another segment may be mapped where a retired one was.
    fn is_of(&self, memory: &Memory) -> bool {
        self.segment.memory().id() == memory.id()
    }

    fn is_unused(&self) -> bool {
        self.free.get(&0) == Some(&self.segment.size())
    }
}

impl Pool {
    /// A pool with segments of `bound` bytes together at most, rounded up to whole pages. The first one is made when it is needed.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        Self::of(bound, None)
    }

    /// The same with [segments that have names](Segment::create_named).
    #[must_use]
    pub fn named(bound: usize, new_name: NewName) -> Self {
        Self::of(bound, Some(new_name))
    }

    fn of(bound: usize, new_name: Option<NewName>) -> Self {
        let bound = bound.max(1).checked_next_multiple_of(PAGE).unwrap_or(bound);
        Self(Arc::new(Shared { bound, new_name, generation: generation(), slabs: Mutex::default() }))
    }

    /// Gives a segment up: its parts are not used again, and its memory goes with the last chunk. A process may read there
    /// that cannot be asked.
    pub fn retire(&self, memory: &Memory) {
        let mut slabs = self.0.slabs.lock();
        let Some(slab) = slabs.by_start.remove(&memory.address()) else { return };
        slabs.bytes -= slab.segment.size();
        slabs.lent -= slab.segment.size() - slab.free.values().sum::<usize>();
    }

    /// A chunk of `len` bytes, with any contents; `None` if all is on loan, or the system has no memory.
    ///
    /// A segment without chunks is given up for a larger one.
    #[must_use]
    pub fn allocate(&self, len: usize) -> Option<Chunk> {
        self.try_allocate(len).ok().flatten()
    }

    /// The same; `None` if all is on loan.
    ///
    /// # Errors
    /// A segment is needed, and the system refuses it.
    pub fn try_allocate(&self, len: usize) -> io::Result<Option<Chunk>> {
        let Some(room) = len.max(1).checked_next_multiple_of(ALIGN).filter(|_| self.0.is_here()) else {
            return Ok(None);
        };
        let mut slabs = self.0.slabs.lock();
        let known = |slab: &mut Slab| Some((slab.segment.memory().clone(), slab.take(room)?));
        let found = match slabs.by_start.values_mut().find_map(known) {
            Some(found) => Some(found),
            None => slabs.grow(room, &self.0)?,
        };
        let Some((memory, offset)) = found else { return Ok(None) };
        slabs.lent += room;
        Ok(Some(Chunk { pool: Arc::downgrade(&self.0), memory, offset, room, len }))
    }

    /// Bytes that are left of the bound: a chunk of that size may not find them in one piece.
    #[must_use]
    pub fn available(&self) -> usize {
        if self.0.is_here() { self.0.bound.saturating_sub(self.0.slabs.lock().lent) } else { 0 }
    }

    /// Size of all segments in bytes.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.0.slabs.lock().bytes
    }
}

impl Shared {
    fn is_here(&self) -> bool {
        self.generation == generation()
    }
}

impl Slabs {
    #[cold]
    fn grow(&mut self, room: usize, shared: &Shared) -> io::Result<Option<(Memory, usize)>> {
        let bound = shared.bound;
        let size = room.max(SEGMENT.min(bound)).checked_next_multiple_of(PAGE);
        let Some(size) = size.filter(|size| *size <= bound) else { return Ok(None) };
        while self.bytes + size > bound {
            let unused = self.by_start.iter().find(|(_, slab)| slab.is_unused()).map(|(start, _)| *start);
            let Some(gone) = unused.and_then(|start| self.by_start.remove(&start)) else { return Ok(None) };
            self.bytes -= gone.segment.size();
        }
        let segment = match shared.new_name {
            None => Segment::create(size),
            Some(new_name) => Segment::create_named(size, new_name),
        };
        let mut slab = Slab::new(segment?);
        let Some(offset) = slab.take(room) else { return Ok(None) };
        let memory = slab.segment.memory().clone();
        self.bytes += memory.size();
        self.by_start.insert(memory.address(), slab);
        Ok(Some((memory, offset)))
    }
}

/// A part of a segment that one owner writes to.
pub struct Chunk {
    pool: Weak<Shared>,
    memory: Memory,
    offset: usize,
    room: usize,
    len: usize,
}

impl Chunk {
    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the pool lends each part of a segment once, and only the owner of the chunk writes to it; the
        // mapping lives as long as the chunk.
        unsafe { core::slice::from_raw_parts(self.start(), self.len) }
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `self` is borrowed exclusively, and a frozen chunk is never borrowed so.
        unsafe { core::slice::from_raw_parts_mut(self.start(), self.len) }
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: the offset is inside of the mapping.
        unsafe { self.memory.start().as_ptr().add(self.offset) }
    }

    /// The bytes, unchangeable from now on. The memory returns to the pool with the last clone.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(Frozen(self))
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // Not in a child: the lock is in the state in which another thread of the parent has left it.
        let Some(shared) = self.pool.upgrade().filter(|shared| shared.is_here()) else { return };
        let mut slabs = shared.slabs.lock();
        if let Some(slab) =
            slabs.by_start.get_mut(&self.memory.address()).filter(|slab| slab.is_of(&self.memory))
        {
            slab.give_back(self.offset, self.room);
            slabs.lent -= self.room;
        }
    }
}

struct Frozen(Chunk);

impl AsRef<[u8]> for Frozen {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("bound", &self.0.bound).field("reserved", &self.reserved()).finish()
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").field("offset", &self.offset).field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_returns_with_the_last_clone_and_is_used_again() {
        let pool = Pool::new(4 * MIB);
        let first = pool.allocate(3 * MIB).unwrap().freeze();
        let at = first.as_ptr();
        assert!(pool.allocate(3 * MIB).is_none(), "it is on loan");
        let part = first.slice(10..20);
        drop(first);
        assert!(pool.allocate(3 * MIB).is_none(), "a part is on loan");
        drop(part);
        assert_eq!(pool.allocate(3 * MIB).unwrap().freeze().as_ptr(), at);
        assert_eq!((pool.reserved(), pool.available()), (4 * MIB, 4 * MIB));
        let small = pool.allocate(1).unwrap();
        assert_eq!(pool.available(), 4 * MIB - ALIGN);
        drop(small);
    }

    #[test]
    fn segments_are_made_when_needed_up_to_the_bound() {
        let pool = Pool::new(24 * MIB);
        assert_eq!(pool.reserved(), 0);
        let small = pool.allocate(100).unwrap();
        assert_eq!(pool.reserved(), 4 * MIB);
        let large: Vec<_> = (0..2).map(|_| pool.allocate(8 * MIB).unwrap()).collect();
        assert_eq!(pool.reserved(), 20 * MIB);
        assert!(pool.allocate(8 * MIB).is_none());
        assert!(pool.allocate(25 * MIB).is_none());
        // A larger one takes the place of those without chunks.
        drop(large);
        let larger = pool.allocate(20 * MIB - 10).unwrap();
        assert_eq!(pool.reserved(), 24 * MIB);
        drop((small, larger));
        assert!(pool.allocate(23 * MIB).is_some());
    }

    #[test]
    fn a_small_bound_is_whole_pages() {
        let pool = Pool::new(5000);
        assert_eq!(pool.available(), 2 * PAGE);
        let chunk = pool.allocate(5000).unwrap();
        assert!(pool.allocate(5000).is_none());
        drop(chunk);
        assert!(pool.allocate(8192).is_some());
    }

    #[test]
    fn chunks_of_a_pool_that_is_gone_stay_readable() {
        let pool = Pool::new(4 * MIB);
        let mut chunk = pool.allocate(4).unwrap();
        drop(pool);
        chunk.as_mut_slice().copy_from_slice(b"data");
        assert_eq!(chunk.freeze(), b"data"[..]);
    }

    #[test]
    fn other_memory_has_no_place() {
        let pool = Pool::new(4 * MIB);
        let bytes = pool.allocate(100).unwrap().freeze();
        assert_eq!(Place::of(&bytes).unwrap().offset, 0);
        assert_eq!(Place::of(&bytes.slice(7..9)).unwrap().offset, 7);
        assert!(Place::of(&[0; 100]).is_none());
        assert!(Place::of(b"static").is_none());
    }

    #[test]
    fn a_segment_is_gone_with_its_pool_and_its_chunks() {
        let pool = Pool::new(4 * MIB);
        let chunk = pool.allocate(MIB).unwrap();
        let memory = Place::of(chunk.as_slice()).unwrap().memory.downgrade();
        drop(pool);
        assert!(!memory.is_gone());
        drop(chunk);
        assert!(memory.is_gone() && memory.upgrade().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Chunks never overlap, and all memory comes back.
        #[test]
        fn chunks_are_disjoint(steps in proptest::collection::vec((0usize..300_000, any::<u8>(), any::<bool>()), 1..60)) {
            let pool = Pool::new(8 * MIB);
            let mut lent: Vec<(Bytes, u8)> = Vec::new();
            for (len, mark, keep) in steps {
                if let Some(mut chunk) = pool.allocate(len) {
                    prop_assert_eq!(chunk.as_slice().len(), len);
                    prop_assert_eq!(chunk.as_slice().as_ptr() as usize % ALIGN, 0);
                    chunk.as_mut_slice().fill(mark);
                    lent.push((chunk.freeze(), mark));
                }
                if !keep && !lent.is_empty() {
                    lent.swap_remove(len % lent.len());
                }
            }
            for (bytes, mark) in &lent {
                prop_assert!(bytes.iter().all(|byte| byte == mark));
            }
            drop(lent);
            prop_assert!(pool.0.slabs.lock().by_start.values().all(Slab::is_unused));
            prop_assert!(pool.reserved() <= 8 * MIB);
        }
    }
}
