//! [`Payload`]: value of a message, in one buffer or in several.

use crate::buf::{Segments, Sink};
use bytes::Bytes;
use core::{fmt, ops::Deref};
use std::sync::{Arc, OnceLock};

/// Value of a message: one buffer, or several that are sent in order without being joined.
///
/// On the wire it is one byte string in both cases, and a decoded payload is always one buffer. A
/// `Payload` dereferences to its contiguous bytes. With several buffers the first access joins them, and
/// all clones share the result; [`Self::len`] and encoding do not join.
///
/// A payload in [`Revocable`] memory is copied by [`Self::secure`] where it leaves for a receiver that does not ask
/// whether it is valid. Other access never returns bytes that were overwritten: it makes a copy, and zeros if that fails.
#[derive(Clone)]
pub struct Payload(Repr);

#[derive(Clone)]
enum Repr {
    One(Bytes),
    // One pointer for both: a third variant would make every message larger.
    Other(Arc<Other>),
}

enum Other {
    Many(Slices),
    Revocable(Lent),
}

/// Memory of another process, which may take it back at any moment and write other bytes to it.
pub trait Revocable: Send + Sync {
    /// Address of the first byte, readable as long as this object exists. The bytes may change.
    fn start(&self) -> *const u8;

    /// Number of bytes.
    fn size(&self) -> usize;

    /// Whether the bytes are still those of the payload.
    fn is_valid(&self) -> bool;

    /// Copies bytes from an offset; false if they were no longer those of the payload after the copy.
    fn copy_to(&self, offset: usize, to: &mut [u8]) -> bool;

    /// A copy of all bytes; `None` if they were no longer those of the payload after it.
    fn copy(&self) -> Option<Bytes>;

    /// Counts a message that a receiver does not get, because the memory was taken back.
    fn note_lost(&self);
}

/// A payload in revocable memory.
struct Lent {
    memory: Box<dyn Revocable>,
    /// Copy for all receivers that need bytes which stay; `None` if it was taken back.
    copy: OnceLock<Option<Bytes>>,
    /// Zeros in its length, see [`Lent::bytes`].
    blank: OnceLock<Bytes>,
}

struct Slices {
    /// At least two, none empty. Small ones are gathered, so that of two neighbours at least one has
    /// [`Segments::SHARE_FROM`] bytes: the number of references of a batch is bounded by its size.
    parts: Box<[Bytes]>,
    len: usize,
    joined: OnceLock<Bytes>,
}

impl Payload {
    /// An empty payload.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self(Repr::One(Bytes::new()))
    }

    /// A payload in memory that another process may take back.
    #[must_use]
    pub fn of_revocable(memory: impl Revocable + 'static) -> Self {
        let lent = Lent { memory: Box::new(memory), copy: OnceLock::new(), blank: OnceLock::new() };
        Self(Repr::Other(Arc::new(Other::Revocable(lent))))
    }

    /// The memory of a payload that another process may take back.
    #[must_use]
    #[inline]
    pub fn revocable(&self) -> Option<&dyn Revocable> {
        self.lent().map(|lent| &*lent.memory)
    }

    /// The payload in memory that stays: itself, or a copy of revocable memory. `None` if the memory was taken back before.
    #[must_use]
    pub fn secured(&self) -> Option<Self> {
        match self.revocable() {
            Some(memory) => memory.copy().map(Self::from),
            None => Some(self.clone()),
        }
    }

    /// Becomes [`Self::secured`], with one copy for all clones. False if that is not possible: its message has to be
    /// dropped, and is counted.
    #[must_use]
    pub fn secure(&mut self) -> bool {
        let Some(lent) = self.lent() else { return true };
        let Some(copy) = lent.secured().cloned() else {
            lent.memory.note_lost();
            return false;
        };
        *self = copy.into();
        true
    }

    #[inline]
    fn lent(&self) -> Option<&Lent> {
        match &self.0 {
            Repr::One(_) => None,
            Repr::Other(other) => match &**other {
                Other::Many(_) => None,
                Other::Revocable(lent) => Some(lent),
            },
        }
    }

    /// Number of bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::One(bytes) => bytes.len(),
            Repr::Other(other) => match &**other {
                Other::Many(slices) => slices.len,
                Other::Revocable(lent) => lent.memory.size(),
            },
        }
    }

    /// Whether it has no bytes.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The buffers in order.
    #[must_use]
    #[inline]
    pub fn parts(&self) -> &[Bytes] {
        match &self.0 {
            Repr::One(bytes) => core::slice::from_ref(bytes),
            Repr::Other(other) => match &**other {
                Other::Many(slices) => &slices.parts,
                Other::Revocable(lent) => core::slice::from_ref(lent.bytes()),
            },
        }
    }

    /// The contiguous bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Repr::One(bytes) => bytes,
            Repr::Other(other) => other.bytes().clone(),
        }
    }

    /// Writes the bytes; the sink may keep large buffers by reference.
    #[inline]
    pub(super) fn encode(&self, sink: &mut impl Sink) {
        match &self.0 {
            Repr::One(bytes) => sink.put_shared(bytes),
            Repr::Other(_) => self.parts().iter().for_each(|part| sink.put_shared(part)),
        }
    }
}

impl Other {
    fn bytes(&self) -> &Bytes {
        match self {
            Self::Many(slices) => slices.join(),
            Self::Revocable(lent) => lent.bytes(),
        }
    }
}

impl Lent {
    fn secured(&self) -> Option<&Bytes> {
        self.copy.get_or_init(|| self.memory.copy()).as_ref()
    }

    /// Its bytes for a reader that has not called [`Payload::secure`]. Zeros stand for a payload that was taken back, so
    /// that not even such a mistake delivers bytes of another payload.
    #[cold]
    fn bytes(&self) -> &Bytes {
        debug_assert!(false, "a payload in revocable memory is secured before it is read");
        self.secured().unwrap_or_else(|| self.blank.get_or_init(|| vec![0; self.memory.size()].into()))
    }
}

impl Slices {
    #[cold]
    fn join(&self) -> &Bytes {
        self.joined.get_or_init(|| self.parts.concat().into())
    }
}

impl Default for Payload {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Payload {
    type Target = Bytes;

    #[inline]
    fn deref(&self) -> &Bytes {
        match &self.0 {
            Repr::One(bytes) => bytes,
            Repr::Other(other) => other.bytes(),
        }
    }
}

impl<T> From<T> for Payload
where
    Bytes: From<T>,
{
    #[inline]
    fn from(bytes: T) -> Self {
        Self(Repr::One(bytes.into()))
    }
}

impl FromIterator<Bytes> for Payload {
    fn from_iter<I: IntoIterator<Item = Bytes>>(buffers: I) -> Self {
        let mut parts = PayloadParts::default();
        buffers.into_iter().for_each(|buffer| parts.push(buffer));
        parts.finish()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::One(bytes) => bytes.fmt(f),
            Repr::Other(other) => match &**other {
                Other::Many(slices) => f.debug_list().entries(&slices.parts).finish(),
                Other::Revocable(lent) => write!(f, "Revocable({} bytes)", lent.memory.size()),
            },
        }
    }
}

impl Eq for Payload {}

/// Compares the contents; the division into buffers does not count.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && **self == **other
    }
}

impl<T: ?Sized> PartialEq<T> for Payload
where
    Bytes: PartialEq<T>,
{
    fn eq(&self, other: &T) -> bool {
        **self == *other
    }
}

/// Collects the buffers of a [`Payload`].
///
/// Buffers below [`Segments::SHARE_FROM`] bytes are copied behind each other, as small payloads are
/// copied into a batch: a million buffers of one byte are one buffer of a million bytes.
#[derive(Debug, Default)]
pub struct PayloadParts {
    parts: Vec<Bytes>,
    gathered: Vec<u8>,
    len: usize,
}

impl PayloadParts {
    /// Appends a buffer, by reference if it is large.
    pub fn push(&mut self, buffer: Bytes) {
        if buffer.len() < Segments::SHARE_FROM {
            self.copy(&buffer);
        } else {
            self.flush();
            self.len += buffer.len();
            self.parts.push(buffer);
        }
    }

    /// Appends a copy of `bytes`.
    pub fn copy(&mut self, bytes: &[u8]) {
        if bytes.len() < Segments::SHARE_FROM {
            self.len += bytes.len();
            self.gathered.extend_from_slice(bytes);
        } else {
            self.push(Bytes::copy_from_slice(bytes));
        }
    }

    fn flush(&mut self) {
        if !self.gathered.is_empty() {
            self.parts.push(core::mem::take(&mut self.gathered).into());
        }
    }

    /// The payload of all buffers.
    #[must_use]
    pub fn finish(mut self) -> Payload {
        self.flush();
        if self.parts.len() < 2 {
            return self.parts.pop().unwrap_or_default().into();
        }
        let Self { parts, len, .. } = self;
        let slices = Slices { parts: parts.into(), len, joined: OnceLock::new() };
        Payload(Repr::Other(Arc::new(Other::Many(slices))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGE: usize = Segments::SHARE_FROM;

    fn buffer(len: usize) -> Bytes {
        (0..len).map(|n| (n % 251) as u8).collect()
    }

    /// The common case costs no memory: messages are as large as with `Bytes`.
    #[test]
    fn it_is_as_large_as_one_buffer() {
        assert_eq!(size_of::<Payload>(), size_of::<Bytes>());
    }

    #[test]
    fn no_buffer_and_empty_buffers_are_an_empty_payload() {
        for count in [0, 1, 3] {
            let payload: Payload = (0..count).map(|_| Bytes::new()).collect();
            assert!(payload.is_empty() && payload == Payload::new());
            assert_eq!(payload.parts().len(), 1);
        }
    }

    #[test]
    fn a_million_small_buffers_are_one() {
        let payload: Payload = (0..1_000_000).map(|_| Bytes::from_static(b"x")).collect();
        assert_eq!((payload.len(), payload.parts().len()), (1_000_000, 1));
    }

    #[test]
    fn large_buffers_are_kept_by_reference_and_small_ones_gathered() {
        let large = buffer(LARGE);
        let small = [Bytes::from_static(b"a"), Bytes::new(), Bytes::from_static(b"bc")];
        let buffers = small.iter().chain([&large, &large]).chain(&small).cloned();
        let payload: Payload = buffers.collect();
        let parts = payload.parts();
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [3, LARGE, LARGE, 3]);
        assert_eq!((parts[1].as_ptr(), parts[2].as_ptr()), (large.as_ptr(), large.as_ptr()));
        let alone: Payload = [large.clone()].into_iter().collect();
        assert_eq!(alone.as_ptr(), large.as_ptr());
    }

    #[test]
    fn all_clones_share_one_join() {
        let payload: Payload = [buffer(LARGE), buffer(2 * LARGE)].into_iter().collect();
        let other = payload.clone();
        assert_eq!(payload.as_ptr(), other.as_ptr());
        assert_eq!(other.clone().into_bytes().as_ptr(), payload.as_ptr());
        assert_ne!(payload.parts()[0].as_ptr(), payload.as_ptr());
    }

    /// Memory that is taken back.
    struct Memory(Arc<core::sync::atomic::AtomicBool>, Bytes);

    impl Revocable for Memory {
        fn start(&self) -> *const u8 {
            self.1.as_ptr()
        }

        fn size(&self) -> usize {
            self.1.len()
        }

        fn is_valid(&self) -> bool {
            self.0.load(core::sync::atomic::Ordering::Relaxed)
        }

        fn copy_to(&self, offset: usize, to: &mut [u8]) -> bool {
            to.copy_from_slice(&self.1[offset..offset + to.len()]);
            self.is_valid()
        }

        fn copy(&self) -> Option<Bytes> {
            self.is_valid().then(|| Bytes::copy_from_slice(&self.1))
        }

        fn note_lost(&self) {}
    }

    #[test]
    fn revocable_memory_is_copied_once_for_all_clones() {
        let valid = Arc::new(core::sync::atomic::AtomicBool::new(true));
        let payload = Payload::of_revocable(Memory(valid.clone(), buffer(100)));
        let late = Payload::of_revocable(Memory(valid.clone(), buffer(100)));
        assert_eq!((payload.len(), payload.revocable().unwrap().size()), (100, 100));
        assert_eq!(format!("{payload:?}"), "Revocable(100 bytes)");
        let (mut one, mut other, mut gone) = (payload.clone(), payload.clone(), late.clone());
        assert!(one.secure() && one.revocable().is_none() && one == buffer(100));
        valid.store(false, core::sync::atomic::Ordering::Relaxed);
        assert!(other.secure() && other.as_ptr() == one.as_ptr(), "the copy was made in time");
        assert!(!gone.secure() && gone.len() == 100 && gone.secured().is_none());
        assert!(one.secure(), "a payload that stays is as it was");
    }

    /// A reader that forgets to secure a payload is found by tests, and gets no bytes of another payload elsewhere.
    #[test]
    #[cfg_attr(debug_assertions, should_panic = "is secured before it is read")]
    fn revocable_memory_that_is_not_secured_reads_as_zeros_if_it_was_taken_back() {
        let payload = Payload::of_revocable(Memory(Arc::default(), buffer(100)));
        assert_eq!(payload, vec![0; 100]);
    }

    #[test]
    fn its_length_and_its_encoding_do_not_join() {
        let payload: Payload = [buffer(LARGE), buffer(LARGE)].into_iter().collect();
        let mut segments = Segments::default();
        payload.encode(&mut segments);
        assert_eq!(payload.len(), segments.len());
        let kept: Vec<_> = segments.into_parts().iter().map(|part| part.as_ptr()).collect();
        assert_eq!(kept, payload.parts().iter().map(|part| part.as_ptr()).collect::<Vec<_>>());
        let Repr::Other(other) = &payload.0 else { panic!("{payload:?}") };
        assert!(matches!(&**other, Other::Many(slices) if slices.joined.get().is_none()));
    }

    proptest! {
        /// Any division has the bytes of the whole, and a bounded number of buffers.
        #[test]
        fn any_division_has_the_same_bytes(
            lens in prop::collection::vec(prop_oneof![0..40_usize, LARGE - 2..LARGE + 2, 0..3 * LARGE], 0..12),
            copied in any::<u16>(),
        ) {
            let whole = buffer(lens.iter().sum());
            let (mut parts, mut at) = (PayloadParts::default(), 0);
            for (number, len) in lens.iter().enumerate() {
                let slice = whole.slice(at..at + len);
                if copied >> number & 1 == 0 { parts.push(slice) } else { parts.copy(&slice) }
                at += len;
            }
            let payload = parts.finish();
            let mut encoded = Vec::new();
            payload.encode(&mut encoded);
            prop_assert_eq!(&encoded, &whole);
            prop_assert_eq!(payload.len(), whole.len());
            prop_assert!(payload.parts().len() <= 2 * whole.len() / LARGE + 1);
            prop_assert_eq!(payload, whole);
        }
    }
}
