//! [`Segment`]: memory of this process that others may read; [`View`]: memory of another process, for reading.

use crate::{
    channel::Channel,
    mapping::{Mapping, Memory, PAGE, READ_WRITE, SegmentError},
    named::{self, NewName},
};
use core::ops::Range;
use rustix::{fd::OwnedFd, fs::SealFlags, mm::ProtFlags};
use std::{io, sync::Arc};

/// Seals of a segment: its size and these seals are final, and only the process that has made it writes to it.
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Memory that this process writes to and that others map for reading only.
pub struct Segment(Memory);

impl Segment {
    /// Makes a segment of at least `len` bytes, zeroed. Its memory is reserved: a full system is an error here, and
    /// no signal later.
    ///
    /// # Errors
    /// The system has no memory, no descriptors, or no sealing of future writes (Linux 5.1).
    pub fn create(len: usize) -> io::Result<Self> {
        Ok(Self(Memory::new(Mapping::create(len, SEALS)?)))
    }

    /// Makes a segment with a name, which processes of Eclipse Zenoh find. It is locked in memory, as their readers lock
    /// it: where that is not allowed, it is of no use to them.
    ///
    /// # Errors
    /// `/dev/shm` is absent, full or read-only, or the system has no descriptors, or locks no more memory.
    pub fn create_named(len: usize, new_name: NewName) -> io::Result<Self> {
        let size = len.max(1).checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let (fd, name) = named::create(size, new_name)?;
        let mapping = Mapping::new(fd, size, READ_WRITE)?.named(name);
        mapping.lock()?;
        Ok(Self(Memory::new(mapping)))
    }

    /// Number of bytes, a multiple of the size of a page.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// The segment, to pass its descriptor to other processes.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.0
    }
}

/// Memory of another process, mapped for reading only. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct View(Memory);

impl View {
    /// Maps a segment of another process that has `size` bytes according to its sender. `keepers` stay open as long as
    /// the segment is mapped.
    ///
    /// # Errors
    /// The file has another size, or seals are missing without which its sender could make it shorter (reading would
    /// raise SIGBUS) or others could write to it.
    pub fn open(fd: OwnedFd, size: u64, keepers: Vec<Arc<Channel>>) -> Result<Self, SegmentError> {
        Ok(Self(Memory::new(Mapping::open(fd, size, SEALS, ProtFlags::READ)?.keep(keepers))))
    }

    /// Number of bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// The bytes of a chunk, `None` outside of the segment.
    ///
    /// Its lender has promised not to write to the chunk while it is on loan. A lender that breaks its promise changes
    /// what the reader sees; it cannot make a read fail, or lead it outside. Code that checks bytes and relies on the
    /// check afterwards must copy them first.
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.size())?;
        // SAFETY: the range is inside of the mapping, which is sealed against truncation and lives as long as
        // `self`. Its lender does not write to a chunk that is on loan.
        Some(unsafe { core::slice::from_raw_parts(self.0.start().as_ptr().add(range.start), len) })
    }

    /// The segment, to pass its descriptor on to a third process.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Place, memfd};
    use rustix::{fs, io::Errno};

    fn view(segment: &Segment) -> View {
        View::open(segment.memory().fd().try_clone_to_owned().unwrap(), segment.size() as u64, Vec::new())
            .unwrap()
    }

    #[test]
    fn what_is_written_is_read_elsewhere() {
        let pool = crate::Pool::new(1 << 20);
        let mut chunk = pool.allocate(5).unwrap();
        chunk.as_mut_slice().copy_from_slice(b"hello");
        let bytes = chunk.freeze();
        let found = Place::of(&bytes).unwrap();
        let fd = found.memory.fd().try_clone_to_owned().unwrap();
        let view = View::open(fd, found.memory.size() as u64, Vec::new()).unwrap();
        assert_eq!(view.bytes(found.offset..found.offset + 5), Some(&b"hello"[..]));
        // A third process gets the same memory.
        assert_eq!(view.memory().size(), found.memory.size());
        let fd = view.memory().fd().try_clone_to_owned().unwrap();
        let again = View::open(fd, view.size() as u64, Vec::new()).unwrap();
        assert_eq!(again.bytes(found.offset..found.offset + 5), Some(&b"hello"[..]));
    }

    #[test]
    fn bytes_of_a_view_are_found_as_long_as_it_exists() {
        let segment = Segment::create(PAGE).unwrap();
        let view = view(&segment);
        let bytes = view.bytes(10..20).unwrap();
        let found = Place::of(bytes).unwrap();
        assert_eq!((found.memory.id(), found.offset), (view.memory().id(), 10));
        assert_ne!(found.memory.id(), segment.memory().id());
        drop(found);
        // SAFETY: only the address is used once the view is gone.
        let dangling: &'static [u8] = unsafe { core::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        let id = view.memory().id();
        drop(view);
        // Another test may have mapped a segment there.
        assert!(Place::of(dangling).is_none_or(|place| place.memory.id() != id));
    }

    #[test]
    fn ranges_outside_are_none() {
        let segment = Segment::create(10).unwrap();
        let view = view(&segment);
        assert_eq!(view.size(), PAGE);
        assert!(view.bytes(0..PAGE).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)));
        for range in [0..PAGE + 1, PAGE..PAGE + 1, PAGE + 5..PAGE + 6, usize::MAX - 1..usize::MAX] {
            assert_eq!(view.bytes(range.clone()), None, "{range:?}");
        }
        let reversed = Range { start: 5, end: 4 };
        assert_eq!(view.bytes(reversed), None);
    }

    #[test]
    fn files_that_could_shrink_or_change_are_refused() {
        let bare = memfd(PAGE).unwrap();
        let refused = View::open(bare.try_clone().unwrap(), PAGE as u64, Vec::new());
        assert!(matches!(refused, Err(SegmentError::Seals { .. })));
        fs::fcntl_add_seals(&bare, SealFlags::GROW | SealFlags::FUTURE_WRITE).unwrap();
        assert!(matches!(View::open(bare, PAGE as u64, Vec::new()), Err(SegmentError::Seals { .. })));
        let segment = Segment::create(PAGE).unwrap();
        for said in [0, 1, PAGE as u64 - 1, PAGE as u64 + 1, u64::MAX] {
            let refused = View::open(segment.memory().fd().try_clone_to_owned().unwrap(), said, Vec::new());
            assert!(matches!(refused, Err(SegmentError::Size { expected, .. }) if expected == said));
        }
        // No file in memory at all.
        let plain = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(View::open(plain.into(), 1, Vec::new()), Err(SegmentError::Io(_))));
    }

    #[test]
    fn files_without_pages_are_refused() {
        let flags = fs::MemfdFlags::CLOEXEC | fs::MemfdFlags::ALLOW_SEALING;
        let sparse = fs::memfd_create("sparse", flags).unwrap();
        fs::ftruncate(&sparse, 4 * PAGE as u64).unwrap();
        fs::fallocate(&sparse, fs::FallocateFlags::empty(), 0, PAGE as u64).unwrap();
        fs::fcntl_add_seals(&sparse, SEALS).unwrap();
        let refused = View::open(sparse, 4 * PAGE as u64, Vec::new());
        assert!(matches!(refused, Err(SegmentError::Sparse { expected: 16_384, found: 4096 })));
    }

    #[test]
    fn a_receiver_can_neither_truncate_nor_write() {
        let segment = Segment::create(PAGE).unwrap();
        let fd = segment.memory().fd();
        assert_eq!(fs::ftruncate(fd, 0), Err(Errno::PERM));
        assert_eq!(fs::ftruncate(fd, 2 * PAGE as u64), Err(Errno::PERM));
        assert_eq!(rustix::io::pwrite(fd, b"x", 0), Err(Errno::PERM));
        assert!(Mapping::new(fd.try_clone_to_owned().unwrap(), PAGE, READ_WRITE).is_err());
        assert_eq!(fs::fcntl_add_seals(fd, SealFlags::WRITE), Err(Errno::PERM));
    }
}
