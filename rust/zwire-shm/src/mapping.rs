//! [`Mapping`]: a part of the address space, unmapped when it is dropped.

use core::ptr::NonNull;
use rustix::{
    fd::BorrowedFd,
    io,
    mm::{self, MapFlags, ProtFlags},
};

/// A shared mapping of a whole file.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is not bound to a thread; access to its bytes is the business of its users.
unsafe impl Send for Mapping {}
// SAFETY: the mapping is not bound to a thread; access to its bytes is the business of its users.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file.
    pub(crate) fn new(fd: BorrowedFd<'_>, len: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: the kernel chooses an address that is free, so no other memory is replaced.
        let start = unsafe {
            mm::mmap(core::ptr::null_mut(), len, protection, MapFlags::SHARED | MapFlags::NORESERVE, fd, 0)?
        };
        NonNull::new(start.cast()).map(|start| Self { start, len }).ok_or(io::Errno::NOMEM)
    }

    /// The first byte.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Number of bytes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and all references into it borrow from `self`.
        let result = unsafe { mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap fails for wrong ranges only");
    }
}
