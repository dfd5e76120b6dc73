//! [`Mapping`]: a sealed file in memory, mapped by the process that has made it or by one that has received it.

use crate::{channel::Channel, named, process::generation};
use core::{
    fmt,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};
use parking_lot::RwLock;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{self, FallocateFlags, MemfdFlags, SealFlags},
    io::Errno,
    mm::{self, MapFlags, ProtFlags},
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Weak},
};

/// Unit of the size of files; larger pages are multiples of it.
pub(crate) const PAGE: usize = 4096;

/// Type of the file system of memfds without huge pages.
const TMPFS_MAGIC: fs::FsWord = 0x0102_1994;

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
    /// Pages are missing, or it is no file in plain memory: reading it could raise SIGBUS.
    #[error("the shared segment has {found} bytes in memory, and {expected} are needed")]
    Sparse {
        /// Size of the file in bytes.
        expected: u64,
        /// Bytes for which there is memory; 0 for other files than those of tmpfs.
        found: u64,
    },
    /// It has a name, and is no plain file of this user, or others may write to it.
    #[error(
        "the shared segment belongs to the user {uid} and has the mode {mode:#o}: it must be a file that this user alone writes to"
    )]
    Owner {
        /// Its owner.
        uid: u32,
        /// Its type and rights.
        mode: u32,
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

/// A segment of this process or of another one, to be passed on to a third one. Clones are the same segment.
#[derive(Clone)]
pub struct Memory(Arc<Mapping>);

impl Memory {
    /// Memory that [`Place::of`] finds.
    pub(crate) fn new(mapping: Mapping) -> Self {
        let memory = Self(Arc::new(mapping));
        registry().known.write().insert(memory.address(), (memory.size(), memory.downgrade()));
        memory
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    /// Address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.0.start().as_ptr() as usize
    }

    /// Channels that a third process has to keep open, as this one does, as long as it maps the segment: their other ends
    /// have lent it.
    #[must_use]
    pub fn keepers(&self) -> &[Arc<Channel>] {
        &self.0.keepers
    }

    /// Number of the segment, which no other one of this process has or had.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Number of bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// The number by which other processes find it, if it has one. Such memory can be truncated, and is not passed
    /// on.
    #[must_use]
    pub fn name(&self) -> Option<u32> {
        self.0.name()
    }

    /// The descriptor to pass on.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// A reference that does not keep the segment.
    #[must_use]
    pub fn downgrade(&self) -> WeakMemory {
        WeakMemory(Arc::downgrade(&self.0))
    }
}

/// Segments of a process and its views of those of others: size and segment, by the address of the first byte.
struct Registry {
    generation: u32,
    known: RwLock<BTreeMap<usize, (usize, WeakMemory)>>,
}

/// That of this process. A forked child makes its own, and leaks the inherited one: its lock is in the state in which
/// threads of the parent have left it, and whose segments the parent manages.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(core::ptr::null_mut());

fn registry() -> &'static Registry {
    loop {
        let current = REGISTRY.load(Ordering::Acquire);
        // SAFETY: the pointer comes from `Box::into_raw` below, and what it points to is never freed.
        if let Some(registry) = unsafe { current.as_ref() }
            && registry.generation == generation()
        {
            return registry;
        }
        let fresh = Box::new(Registry { generation: generation(), known: RwLock::default() });
        let fresh = Box::into_raw(fresh);
        if REGISTRY.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: it was not published, so this is its only owner.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
}

/// Where bytes are in shared memory.
#[derive(Clone, Debug)]
pub struct Place {
    /// The segment.
    pub memory: Memory,
    /// Offset of the first byte in it.
    pub offset: usize,
}

impl Place {
    /// The place of bytes in a chunk of any pool of this process, or in a view. Memory of the parent of a forked child
    /// has none.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let at = bytes.as_ptr() as usize;
        let (start, memory) = {
            let known = registry().known.read();
            let (start, (size, memory)) = known.range(..=at).next_back()?;
            if (at - start).checked_add(bytes.len())? > *size {
                return None;
            }
            (*start, memory.upgrade()?)
        };
        // The lock is released: this may be the last reference to the segment, which takes it when it is dropped.
        Some(Self { memory, offset: at - start })
    }
}

/// Reference to a segment that does not keep it.
#[derive(Clone)]
pub struct WeakMemory(Weak<Mapping>);

impl WeakMemory {
    /// Whether neither its pool nor a chunk of the segment is left.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// The segment, if it still exists.
    #[must_use]
    pub fn upgrade(&self) -> Option<Memory> {
        self.0.upgrade().map(Memory)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.size())
    }
}

impl fmt::Debug for WeakMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeakMemory(gone: {})", self.is_gone())
    }
}

/// A shared mapping of a whole file.
pub(crate) struct Mapping {
    id: u64,
    /// Of the process that has mapped it.
    generation: u32,
    start: NonNull<u8>,
    size: usize,
    fd: OwnedFd,
    /// Channels that stay open as long as the mapping exists.
    keepers: Vec<Arc<Channel>>,
    /// Number in its name, which goes with the mapping.
    name: Option<u32>,
}

static LAST_ID: AtomicU64 = AtomicU64::new(0);

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
        // Sealed: the size that is read now is the size for ever, and pages that exist stay.
        let status = fs::fstat(&fd)?;
        let found = u64::try_from(status.st_size).unwrap_or(0);
        let plain = fs::fstatfs(&fd)?.f_type == TMPFS_MAGIC;
        let pages = if plain { u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(512) } else { 0 };
        if pages < found {
            return Err(SegmentError::Sparse { expected: found, found: pages });
        }
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
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed);
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { id, generation: generation(), start, size, fd, keepers: Vec::new(), name: None })
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

    /// Keeps its pages in memory.
    pub(crate) fn lock(&self) -> io::Result<()> {
        // SAFETY: the range was mapped by `new`.
        unsafe { mm::mlock(self.start.as_ptr().cast(), self.size)? };
        Ok(())
    }

    pub(crate) fn keep(mut self, keepers: Vec<Arc<Channel>>) -> Self {
        self.keepers = keepers;
        self
    }

    pub(crate) fn named(mut self, name: u32) -> Self {
        self.name = Some(name);
        self
    }

    /// The name, which stays for the caller to remove. A forked child has none.
    pub(crate) fn take_name(&mut self) -> Option<u32> {
        self.name.take().filter(|_| self.generation == generation())
    }

    pub(crate) const fn name(&self) -> Option<u32> {
        self.name
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A forked child has another registry.
        if self.generation == generation() {
            let mut known = registry().known.write();
            // The address may have been used by a mapping that is no segment.
            let address = self.start.as_ptr() as usize;
            if known.get(&address).is_some_and(|(_, memory)| memory.is_gone()) {
                known.remove(&address);
            }
        }
        // SAFETY: the range was mapped by `new`, and all references into it borrow from `self`.
        let result = unsafe { mm::munmap(self.start.as_ptr().cast(), self.size) };
        debug_assert!(result.is_ok(), "munmap fails for wrong ranges only");
        // A forked child leaves the name to its parent.
        if let Some(name) = self.name.filter(|_| self.generation == generation()) {
            named::release(name, &self.fd);
        }
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
    reserve(&fd, size)?;
    Ok(fd)
}

/// Gives a file its size, and memory for all of it.
pub(crate) fn reserve(fd: &OwnedFd, size: usize) -> io::Result<()> {
    fs::ftruncate(fd, size as u64)?;
    fs::fallocate(fd, FallocateFlags::empty(), 0, size as u64)?;
    Ok(())
}
