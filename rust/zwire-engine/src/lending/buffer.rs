//! [`PayloadBuffer`]: memory for a payload that is written in place; [`SharedPool`]: a pool of its own for them.

use crate::rt::runtime::Birth;
use bytes::Bytes;
#[cfg(target_os = "linux")]
use {
    super::lender::{allocate_in, collect, set_explicit},
    zwire_shm::{Chunk, Place, Pool},
};

/// Memory for one payload, which is written and then sent without a copy.
#[derive(Debug)]
pub struct PayloadBuffer(Buffer);

#[derive(Debug)]
enum Buffer {
    /// Neighbours on this host read it there.
    #[cfg(target_os = "linux")]
    Shared(Chunk),
    /// It is sent as any other payload.
    Private(Vec<u8>),
}

impl PayloadBuffer {
    #[cfg(target_os = "linux")]
    pub(super) const fn shared(chunk: Chunk) -> Self {
        Self(Buffer::Shared(chunk))
    }

    /// `None` if the system has no memory.
    pub(crate) fn private(len: usize) -> Option<Self> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).ok()?;
        bytes.resize(len, 0);
        Some(Self(Buffer::Private(bytes)))
    }

    /// Whether neighbours on this host read it in place.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        !matches!(self.0, Buffer::Private(_))
    }

    /// The bytes. Those of shared memory have any contents at first.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.0 {
            #[cfg(target_os = "linux")]
            Buffer::Shared(chunk) => chunk.as_mut_slice(),
            Buffer::Private(bytes) => bytes,
        }
    }

    /// The bytes, unchangeable from now on, at the same address.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        match self.0 {
            #[cfg(target_os = "linux")]
            Buffer::Shared(chunk) => chunk.freeze(),
            Buffer::Private(bytes) => bytes.into(),
        }
    }
}

/// Shared memory of a program, beside that of its sessions.
#[derive(Debug)]
pub struct SharedPool {
    #[cfg(target_os = "linux")]
    pool: Pool,
    birth: Birth,
}

impl SharedPool {
    /// A pool of `bound` bytes at most.
    #[must_use]
    pub fn new(bound: usize) -> Self {
        let _ = bound;
        Self {
            #[cfg(target_os = "linux")]
            pool: Pool::new(bound),
            birth: Birth::here(),
        }
    }

    /// Memory for a payload; `None` if there is no room, on systems without shared memory, and in a forked child.
    #[must_use]
    pub fn allocate(&self, len: usize) -> Option<PayloadBuffer> {
        let _ = len;
        if !self.birth.is_here() {
            return None;
        }
        #[cfg(target_os = "linux")]
        set_explicit();
        #[cfg(target_os = "linux")]
        return allocate_in(&self.pool, len).ok().flatten().map(PayloadBuffer::shared);
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Takes back what receivers have returned.
    pub fn collect(&self) {
        #[cfg(target_os = "linux")]
        collect();
    }

    /// Bytes that are left.
    #[must_use]
    pub fn available(&self) -> usize {
        #[cfg(target_os = "linux")]
        return self.pool.available();
        #[cfg(not(target_os = "linux"))]
        0
    }
}

/// Whether bytes are in memory that processes share: of this one, or borrowed from another one.
#[must_use]
pub fn is_shared(bytes: &[u8]) -> bool {
    let _ = bytes;
    #[cfg(target_os = "linux")]
    return Place::of(bytes).is_some();
    #[cfg(not(target_os = "linux"))]
    false
}
