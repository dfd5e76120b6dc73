//! [`NamedFile`]: memory with a name in `/dev/shm`, which processes of other implementations map as well.
//!
//! Everybody who knows the name and belongs to the same user reads and writes it, and can truncate it: the trust is that
//! in another process of the same user. Fields are read and written by atomic operations, payloads are copied, and the
//! size of the file is asked for before each copy, so that a file that was truncated is an error and no SIGBUS.

use crate::mapping::{Mapping, READ_WRITE, SegmentError, reserve};
use core::{
    ops::Range,
    ptr,
    sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
};
use rustix::{
    fd::OwnedFd,
    fs::{self, FileType, FlockOperation, Mode, OFlags},
    io::Errno,
    mm::ProtFlags,
    process,
};
use std::{io, path::PathBuf, sync::Once};

/// Where names are.
const FOLDER: &str = "/dev/shm";

/// Ends of names: those of Eclipse Zenoh.
const SUFFIX: &str = ".zenoh";

/// Random names that are tried: each may exist already.
const TRIES: usize = 100;

/// Removes the name of a file that this process does not use any more, unless another process has it open: that one may
/// have told a third one, which will look for it, and removes the name itself.
pub(crate) fn release(id: u32, fd: &OwnedFd) {
    if fs::flock(fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
        // Another process may have removed it.
        let _ = fs::unlink(path(id));
    }
}

fn path(id: u32) -> PathBuf {
    PathBuf::from(format!("{FOLDER}/{id}{SUFFIX}"))
}

/// Random numbers for names, from the caller.
pub type NewName = fn() -> io::Result<u32>;

/// Makes a file of `size` bytes, zeroed, under a new name. Its memory is reserved.
pub(crate) fn create(size: usize, new_name: NewName) -> io::Result<(OwnedFd, u32)> {
    static SWEEP: Once = Once::new();
    SWEEP.call_once(remove_orphans);
    for _ in 0..TRIES {
        let id = new_name()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = match fs::open(path(id), flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => continue,
            opened => opened?,
        };
        // Without the lock any process of Eclipse Zenoh that starts or ends removes the name, and one may be about to, or
        // have done so before the lock was there.
        if fs::flock(&fd, FlockOperation::NonBlockingLockShared).is_err() || fs::fstat(&fd)?.st_nlink == 0 {
            continue;
        }
        return match reserve(&fd, size) {
            Ok(()) => Ok((fd, id)),
            Err(error) => {
                release(id, &fd);
                Err(error)
            }
        };
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name for shared memory is free"))
}

/// Removes files of processes that do not exist any more, as each process of Eclipse Zenoh does: no process has locked them.
fn remove_orphans() {
    let Ok(entries) = std::fs::read_dir(FOLDER) else { return };
    for entry in entries.flatten() {
        let file = entry.file_name();
        let Some(stem) = file.to_str().and_then(|name| name.strip_suffix(SUFFIX)) else { continue };
        if stem.parse::<u32>().is_err() {
            continue;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        if let Ok(fd) = fs::open(entry.path(), flags, Mode::empty())
            && fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // Another process may have been quicker.
            let _ = fs::unlink(entry.path());
        }
    }
}

/// What a process does with the memory of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedAccess {
    /// It copies payloads.
    Read,
    /// It changes counters.
    Write,
}

/// Memory with a name. What others write to it is not trusted: each value is read once, and checked by its reader.
pub struct NamedFile {
    mapping: Mapping,
}

impl NamedFile {
    /// Makes a file of `size` bytes, zeroed, under a new name, which goes when it is dropped, or with the last process that
    /// has the file open and locked.
    ///
    /// # Errors
    /// `/dev/shm` is absent, full or read-only, or the system has no descriptors.
    pub fn create(size: usize, new_name: NewName) -> io::Result<Self> {
        let (fd, name) = create(size, new_name)?;
        Ok(Self { mapping: Mapping::new(fd, size, READ_WRITE)?.named(name) })
    }

    /// Keeps its pages in memory, as readers of Eclipse Zenoh do: where that is not allowed, the file is of no use to them.
    ///
    /// # Errors
    /// The system locks no more memory for this process.
    pub fn lock(&self) -> io::Result<()> {
        self.mapping.lock()
    }

    /// Maps the file of another process.
    ///
    /// # Errors
    /// It does not exist, or is no plain file of this user that only this user writes to.
    pub fn open(id: u32, access: NamedAccess) -> Result<Self, SegmentError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = fs::open(path(id), flags, Mode::empty())?;
        let status = fs::fstat(&fd)?;
        let writable_by_others = Mode::from_raw_mode(status.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile
            || status.st_uid != process::geteuid().as_raw()
            || writable_by_others
        {
            return Err(SegmentError::Owner { uid: status.st_uid, mode: status.st_mode });
        }
        let size = usize::try_from(status.st_size).ok().filter(|size| *size > 0);
        let size = size.ok_or(SegmentError::Size { expected: 1, found: 0 })?;
        let protection = match access {
            NamedAccess::Read => ProtFlags::READ,
            NamedAccess::Write => READ_WRITE,
        };
        Ok(Self { mapping: Mapping::new(fd, size, protection)? })
    }

    /// Number in the name; 0 for a file of another process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.mapping.name().unwrap_or(0)
    }

    /// Removes the name of a file of this process now, also if others have the file open.
    pub fn remove_name(&mut self) {
        if let Some(id) = self.mapping.take_name() {
            // Another process may have removed it.
            let _ = fs::unlink(path(id));
        }
    }

    /// Number of bytes when it was mapped.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.mapping.size()
    }

    /// Whether the file still has the size that it had, so that reading it raises no SIGBUS, and whether it has its name:
    /// a name that is gone may be used again.
    #[must_use]
    pub fn is_whole_and_named(&self) -> (bool, bool) {
        let Ok(status) = fs::fstat(self.mapping.fd()) else { return (false, false) };
        let size = usize::try_from(status.st_size);
        (size.is_ok_and(|size| size >= self.size()), status.st_nlink > 0)
    }

    fn at<T>(&self, offset: usize) -> *mut T {
        assert!(
            offset.is_multiple_of(align_of::<T>())
                && offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.size()),
            "the offset {offset} is a field of the layout"
        );
        // SAFETY: the offset is inside of the mapping.
        unsafe { self.mapping.start().as_ptr().add(offset).cast() }
    }

    fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the word is inside of the mapping and aligned, and lives as long as `self`; all processes access it by
        // atomic operations.
        unsafe { AtomicU32::from_ptr(self.at(offset)) }
    }

    fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `u32`.
        unsafe { AtomicU64::from_ptr(self.at(offset)) }
    }

    /// The octet at an offset, which must be inside.
    #[must_use]
    pub fn load_u8(&self, offset: usize) -> u8 {
        // SAFETY: as in `u32`.
        unsafe { AtomicU8::from_ptr(self.at(offset)) }.load(Ordering::SeqCst)
    }

    /// The word at an offset, which must be inside and a multiple of 4.
    #[must_use]
    pub fn load_u32(&self, offset: usize) -> u32 {
        self.u32(offset).load(Ordering::SeqCst)
    }

    /// The word at an offset, which must be inside and a multiple of 8.
    #[must_use]
    pub fn load_u64(&self, offset: usize) -> u64 {
        self.u64(offset).load(Ordering::SeqCst)
    }

    /// Writes the word at an offset, which must be inside and a multiple of 4, of memory that may be written to.
    pub fn store_u32(&self, offset: usize, value: u32) {
        self.u32(offset).store(value, Ordering::SeqCst);
    }

    /// Writes the word at an offset, which must be inside and a multiple of 8, of memory that may be written to.
    pub fn store_u64(&self, offset: usize, value: u64) {
        self.u64(offset).store(value, Ordering::SeqCst);
    }

    /// Sets bits of the word at an offset, which must be inside and a multiple of 8, of memory that may be written to.
    pub fn set_bits(&self, offset: usize, bits: u64) {
        self.u64(offset).fetch_or(bits, Ordering::SeqCst);
    }

    /// Clears bits, as [`Self::set_bits`] sets them.
    pub fn clear_bits(&self, offset: usize, bits: u64) {
        self.u64(offset).fetch_and(!bits, Ordering::SeqCst);
    }

    /// Takes one from the counter at an offset, which must be inside and a multiple of 4, of memory that may be written
    /// to. One that is 0 stays so.
    pub fn decrement(&self, offset: usize) {
        // An error says that it was 0.
        let _ =
            self.u32(offset).fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }

    /// Address of a range, readable as long as this file is mapped and not truncated; other processes may change the bytes.
    /// `None` if the range is not inside.
    #[must_use]
    pub fn address(&self, range: &Range<usize>) -> Option<*const u8> {
        let inside = range.start <= range.end && range.end <= self.size();
        inside.then(|| self.mapping.start().as_ptr().wrapping_add(range.start).cast_const())
    }

    /// Copies bytes out. False if the range is not inside, or the file was truncated.
    #[must_use]
    pub fn copy_out(&self, range: Range<usize>, to: &mut [u8]) -> bool {
        let inside = range.end <= self.size() && range.end.checked_sub(range.start) == Some(to.len());
        if !inside || !self.is_whole_and_named().0 {
            return false;
        }
        // SAFETY: the range is inside of the mapping, and `to` is memory of this process alone. Bytes that another
        // process changes meanwhile are copied as they are found; the caller asks afterwards whether they are valid.
        unsafe {
            ptr::copy_nonoverlapping(
                self.mapping.start().as_ptr().add(range.start),
                to.as_mut_ptr(),
                to.len(),
            )
        };
        true
    }

    /// Copies bytes in, at an offset.
    ///
    /// # Panics
    /// The range is not inside.
    pub fn copy_in(&self, offset: usize, from: &[u8]) {
        assert!(offset.checked_add(from.len()).is_some_and(|end| end <= self.size()), "the range is inside");
        // SAFETY: the range is inside of the mapping, which this process has made, and nothing is borrowed from it.
        unsafe {
            ptr::copy_nonoverlapping(from.as_ptr(), self.mapping.start().as_ptr().add(offset), from.len())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Place, Pool};

    #[test]
    fn a_file_is_found_by_its_name_until_it_is_dropped() {
        let own = NamedFile::create(12_288, number).unwrap();
        own.copy_in(100, b"hello");
        own.store_u32(8, 5);
        let other = NamedFile::open(own.id(), NamedAccess::Write).unwrap();
        assert_eq!((other.size(), other.load_u32(8), other.id()), (12_288, 5, 0));
        let mut found = [0; 5];
        assert!(other.copy_out(100..105, &mut found));
        assert_eq!(&found, b"hello");
        other.set_bits(16, 0b101);
        other.decrement(8);
        assert_eq!((own.load_u64(16), own.load_u32(8), own.load_u8(8)), (0b101, 4, 4));
        own.store_u64(24, 0);
        other.decrement(24);
        assert_eq!(own.load_u32(24), 0, "no counter wraps");
        let id = own.id();
        drop(own);
        assert!(NamedFile::open(id, NamedAccess::Read).is_err());
        assert_eq!(other.load_u32(8), 4, "what is mapped stays");
    }

    #[test]
    fn a_name_stays_while_another_process_has_locked_the_file() {
        let own = NamedFile::create(4096, number).unwrap();
        let path = path(own.id());
        let other = std::fs::File::open(&path).unwrap();
        fs::flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
        drop(own);
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
        let mut own = NamedFile::create(4096, number).unwrap();
        let id = own.id();
        own.remove_name();
        assert!(NamedFile::open(id, NamedAccess::Read).is_err());
        // A full file system leaves no name.
        let before = std::fs::read_dir(FOLDER).unwrap().count();
        assert!(NamedFile::create(usize::MAX / 4, number).is_err());
        assert!(std::fs::read_dir(FOLDER).unwrap().count() <= before + 8, "other tests make a few");
    }

    #[test]
    fn ranges_outside_and_truncated_files_are_not_copied() {
        let own = NamedFile::create(8192, number).unwrap();
        let mut to = [0; 4];
        for range in [8190..8194, 8192..8196, usize::MAX - 3..usize::MAX, 0..5] {
            assert!(!own.copy_out(range.clone(), &mut to), "{range:?}");
        }
        assert!(own.address(&(8190..8192)).is_some() && own.address(&(8190..8194)).is_none());
        let other = NamedFile::open(own.id(), NamedAccess::Read).unwrap();
        fs::ftruncate(own.mapping.fd(), 0).unwrap();
        assert!(!other.is_whole_and_named().0 && !other.copy_out(0..4, &mut to));
    }

    #[test]
    fn files_of_others_and_folders_are_refused() {
        let own = NamedFile::create(8192, number).unwrap();
        fs::chmod(path(own.id()), Mode::from_raw_mode(0o622)).unwrap();
        assert!(matches!(NamedFile::open(own.id(), NamedAccess::Read), Err(SegmentError::Owner { .. })));
        fs::chmod(path(own.id()), Mode::from_raw_mode(0o600)).unwrap();
        fs::ftruncate(own.mapping.fd(), 0).unwrap();
        assert!(matches!(NamedFile::open(own.id(), NamedAccess::Read), Err(SegmentError::Size { .. })));
    }

    #[test]
    fn orphans_are_removed_and_files_in_use_are_not() {
        let own = NamedFile::create(4096, number).unwrap();
        let orphan = path(own.id().wrapping_add(1));
        let foreign = PathBuf::from(format!("{FOLDER}/zwire-{}{SUFFIX}", std::process::id()));
        std::fs::write(&orphan, b"").unwrap();
        std::fs::write(&foreign, b"").unwrap();
        remove_orphans();
        assert!(!orphan.exists() && foreign.exists() && path(own.id()).exists());
        std::fs::remove_file(foreign).unwrap();
    }

    /// Numbers that no other process uses: those of Eclipse Zenoh are random.
    pub(crate) fn number() -> io::Result<u32> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Ok((std::process::id() << 10).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    #[test]
    fn a_name_that_exists_is_not_used() {
        let own = NamedFile::create(4096, number).unwrap();
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        TAKEN.store(own.id(), Ordering::Relaxed);
        let other = NamedFile::create(4096, || Ok(TAKEN.fetch_add(1 << 31, Ordering::Relaxed))).unwrap();
        assert_eq!(other.id(), own.id().wrapping_add(1 << 31));
        let error = NamedFile::create(4096, || Ok(TAKEN.load(Ordering::Relaxed))).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn chunks_of_a_named_pool_are_found_by_name() {
        let pool = Pool::named(8 << 20, number);
        let mut chunk = pool.allocate(5).unwrap();
        chunk.as_mut_slice().copy_from_slice(b"hello");
        let bytes = chunk.freeze();
        let place = Place::of(&bytes).unwrap();
        let name = place.memory.name().unwrap();
        let other = NamedFile::open(name, NamedAccess::Read).unwrap();
        let mut found = [0; 5];
        assert!(other.copy_out(place.offset..place.offset + 5, &mut found) && &found == b"hello");
        // A segment that is given up leaves the pool, and its name goes with its last chunk.
        let reserved = pool.reserved();
        pool.retire(&place.memory);
        assert_eq!((pool.reserved(), pool.available()), (reserved - place.memory.size(), 8 << 20));
        drop(place);
        assert!(path(name).exists());
        drop(bytes);
        assert!(!path(name).exists());
        assert_eq!(pool.available(), 8 << 20);
        assert!(pool.allocate(8 << 20).is_some());
    }
}
