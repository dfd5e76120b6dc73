//! [`Segment`]: memory of this process that others may read; [`View`]: memory of another process, for reading.

use crate::mapping::Mapping;
use core::ops::Range;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{self, FallocateFlags, MemfdFlags, SealFlags},
    io::Errno,
    mm::ProtFlags,
};
use std::io;

/// Seals of a segment: nobody changes its size or these seals, and nobody but its maker can write to it.
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Size of pages that lengths are rounded up to; larger pages are multiples of it.
const PAGE: usize = 4096;

/// Reason for which memory of another process is not read.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The file has not the size that its sender named.
    #[error("the shared segment has {found} bytes, and its sender said {expected}")]
    Size {
        /// Size in bytes that the sender named.
        expected: u64,
        /// Size of the file in bytes.
        found: u64,
    },
    /// The file can be truncated or written to: reading it could fail or change at any moment.
    #[error("the shared segment has the seals {found:#x}, and {expected:#x} are needed")]
    Seals {
        /// Seals that are needed.
        expected: u32,
        /// Seals of the file.
        found: u32,
    },
    /// The system refuses it.
    #[error("the shared segment cannot be mapped: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for SegmentError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Memory that this process writes to and that others map for reading only.
pub struct Segment {
    mapping: Mapping,
    fd: OwnedFd,
}

impl Segment {
    /// Makes a segment of at least `len` bytes, zeroed. Its memory is reserved: a full system is an error here, and
    /// no signal later.
    ///
    /// # Errors
    /// The system has no memory, no descriptors, or no sealing of future writes (Linux 5.1).
    pub fn create(len: usize) -> io::Result<Self> {
        let len = len.max(1).checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        let fd = memfd(len)?;
        let mapping = Mapping::new(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE)?;
        fs::fcntl_add_seals(&fd, SEALS)?;
        Ok(Self { mapping, fd })
    }

    /// Number of bytes, a multiple of the size of a page.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Never: a segment has at least one page.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The descriptor to pass to other processes.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) const fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

/// Makes a file in memory of `len` bytes that can be sealed.
pub(crate) fn memfd(len: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux before 6.3 does not know the second seal, and warns without it where it does.
    let fd = match fs::memfd_create("zwire", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => fs::memfd_create("zwire", flags)?,
        result => result?,
    };
    fs::ftruncate(&fd, len as u64)?;
    fs::fallocate(&fd, FallocateFlags::empty(), 0, len as u64)?;
    Ok(fd)
}

/// Memory of another process, mapped for reading only.
pub struct View {
    mapping: Mapping,
    fd: OwnedFd,
}

impl View {
    /// Maps a segment of another process that has `len` bytes according to its sender.
    ///
    /// # Errors
    /// The file has another size, or seals are missing without which its sender could make it shorter (reading would
    /// raise SIGBUS) or others could write to it.
    pub fn open(fd: OwnedFd, len: u64) -> Result<Self, SegmentError> {
        let seals = fs::fcntl_get_seals(&fd)?;
        if !seals.contains(SEALS) {
            return Err(SegmentError::Seals { expected: SEALS.bits(), found: seals.bits() });
        }
        // Sealed: the size that is read now is the size for ever.
        let found = u64::try_from(fs::fstat(&fd)?.st_size).unwrap_or(0);
        let Some(size) = usize::try_from(found).ok().filter(|size| *size > 0 && found == len) else {
            return Err(SegmentError::Size { expected: len, found });
        };
        let mapping = Mapping::new(fd.as_fd(), size, ProtFlags::READ)?;
        Ok(Self { mapping, fd })
    }

    /// Number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Never: a view has at least one byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The bytes of a chunk, `None` outside of the segment.
    ///
    /// Its lender has promised not to write to the chunk while it is on loan. A lender that breaks its promise changes
    /// what the reader sees; it cannot make a read fail, or lead it outside. Code that checks bytes and relies on the
    /// check afterwards must copy them first.
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.len())?;
        // SAFETY: the range is inside of the mapping, which is sealed against truncation and lives as long as
        // `self`. Nobody writes to a chunk that is on loan.
        Some(unsafe { core::slice::from_raw_parts(self.mapping.start().as_ptr().add(range.start), len) })
    }

    /// The descriptor, to pass it on to a third process.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(segment: &Segment) -> View {
        View::open(segment.fd().try_clone_to_owned().unwrap(), segment.len() as u64).unwrap()
    }

    #[test]
    fn what_is_written_is_read_elsewhere() {
        let pool = crate::Pool::new(1 << 20);
        let mut chunk = pool.allocate(5).unwrap();
        chunk.as_mut_slice().copy_from_slice(b"hello");
        let bytes = chunk.freeze();
        let found = pool.place(&bytes).unwrap();
        let view = view(&found.segment);
        assert_eq!(view.bytes(found.offset..found.offset + 5), Some(&b"hello"[..]));
    }

    #[test]
    fn ranges_outside_are_none() {
        let segment = Segment::create(10).unwrap();
        let view = view(&segment);
        assert_eq!(view.len(), PAGE);
        assert!(view.bytes(0..PAGE).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)));
        for range in [0..PAGE + 1, PAGE..PAGE + 1, PAGE + 5..PAGE + 6, usize::MAX - 1..usize::MAX] {
            assert_eq!(view.bytes(range.clone()), None, "{range:?}");
        }
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 5..4;
        assert_eq!(view.bytes(reversed), None);
    }

    #[test]
    fn files_that_could_shrink_or_change_are_refused() {
        let bare = memfd(PAGE).unwrap();
        let refused = View::open(bare.try_clone().unwrap(), PAGE as u64);
        assert!(matches!(refused, Err(SegmentError::Seals { .. })));
        fs::fcntl_add_seals(&bare, SealFlags::GROW | SealFlags::FUTURE_WRITE).unwrap();
        assert!(matches!(View::open(bare, PAGE as u64), Err(SegmentError::Seals { .. })));
        let segment = Segment::create(PAGE).unwrap();
        for said in [0, 1, PAGE as u64 - 1, PAGE as u64 + 1, u64::MAX] {
            let refused = View::open(segment.fd().try_clone_to_owned().unwrap(), said);
            assert!(matches!(refused, Err(SegmentError::Size { expected, .. }) if expected == said));
        }
        // No file in memory at all.
        let plain = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(View::open(plain.into(), 1), Err(SegmentError::Io(_))));
    }

    #[test]
    fn a_receiver_can_neither_truncate_nor_write() {
        let segment = Segment::create(PAGE).unwrap();
        let fd = segment.fd();
        assert_eq!(fs::ftruncate(fd, 0), Err(Errno::PERM));
        assert_eq!(fs::ftruncate(fd, 2 * PAGE as u64), Err(Errno::PERM));
        assert_eq!(rustix::io::pwrite(fd, b"x", 0), Err(Errno::PERM));
        assert!(Mapping::new(fd, PAGE, ProtFlags::READ | ProtFlags::WRITE).is_err());
        assert_eq!(fs::fcntl_add_seals(fd, SealFlags::WRITE), Err(Errno::PERM));
    }
}
