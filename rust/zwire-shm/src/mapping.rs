//! [`Mapping`]: a sealed file in memory, mapped by the process that has made it or by one that has received it.

use core::ptr::NonNull;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{self, FallocateFlags, MemfdFlags, SealFlags},
    io::Errno,
    mm::{self, MapFlags, ProtFlags},
};
use std::io;

/// Unit of the size of files; larger pages are multiples of it.
pub(crate) const PAGE: usize = 4096;

pub(crate) const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Reason for which memory of another process is not mapped.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The file has not the size that its sender named, or no whole pages.
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

/// A shared mapping of a whole file.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    size: usize,
    fd: OwnedFd,
}

// SAFETY: the mapping is not bound to a thread; access to its bytes is the business of its users.
unsafe impl Send for Mapping {}
// SAFETY: the mapping is not bound to a thread; access to its bytes is the business of its users.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes a file of at least `len` bytes, zeroed, maps it for writing, and seals it.
    pub(crate) fn create(len: usize, seals: SealFlags) -> io::Result<Self> {
        let size = len.max(1).checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        let mapping = Self::new(memfd(size)?, size, READ_WRITE)?;
        fs::fcntl_add_seals(&mapping.fd, seals)?;
        Ok(mapping)
    }

    /// Maps a file of another process that has `size` bytes according to it, if it is sealed.
    pub(crate) fn open(
        fd: OwnedFd,
        size: u64,
        seals: SealFlags,
        protection: ProtFlags,
    ) -> Result<Self, SegmentError> {
        let found = fs::fcntl_get_seals(&fd)?;
        if !found.contains(seals) {
            return Err(SegmentError::Seals { expected: seals.bits(), found: found.bits() });
        }
        // Sealed: the size that is read now is the size for ever.
        let found = u64::try_from(fs::fstat(&fd)?.st_size).unwrap_or(0);
        match usize::try_from(found) {
            Ok(whole) if found == size && whole > 0 && whole.is_multiple_of(PAGE) => {
                Ok(Self::new(fd, whole, protection)?)
            }
            _ => Err(SegmentError::Size { expected: size, found }),
        }
    }

    pub(crate) fn new(fd: OwnedFd, size: usize, protection: ProtFlags) -> Result<Self, Errno> {
        // SAFETY: the kernel chooses an address that is free, so no other memory is replaced.
        let start = unsafe {
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            mm::mmap(core::ptr::null_mut(), size, protection, flags, &fd, 0)?
        };
        NonNull::new(start.cast()).map(|start| Self { start, size, fd }).ok_or(Errno::NOMEM)
    }

    /// The first byte.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Number of bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and all references into it borrow from `self`.
        let result = unsafe { mm::munmap(self.start.as_ptr().cast(), self.size) };
        debug_assert!(result.is_ok(), "munmap fails for wrong ranges only");
    }
}

/// Makes a file in memory that can be sealed. Its pages are reserved: a full system is an error here, and no signal
/// later.
pub(crate) fn memfd(size: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux before 6.3 does not know the second seal, and warns without it where it does.
    let fd = match fs::memfd_create("zwire", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => fs::memfd_create("zwire", flags)?,
        result => result?,
    };
    fs::ftruncate(&fd, size as u64)?;
    fs::fallocate(&fd, FallocateFlags::empty(), 0, size as u64)?;
    Ok(fd)
}
