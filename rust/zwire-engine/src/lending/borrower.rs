//! [`Borrowed`]: segments of the other side of a link, and payloads in them.

use crate::rt::runtime::Birth;
use bytes::Bytes;
use core::ops::Range;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt, io,
    os::fd::OwnedFd,
    sync::{Arc, OnceLock},
};
use zwire_proto::lending::{LoanDescription, MAX_SEGMENTS};
use zwire_shm::{Channel, Returns, SegmentError, View};

/// What one link has borrowed. When the link has ended and the last payload is dropped, the lender is told.
pub(super) struct Borrowed {
    channel: Arc<Channel>,
    views: Mutex<HashMap<u32, View>>,
    returns: OnceLock<Returns>,
    birth: Birth,
}

impl Borrowed {
    pub(super) fn new(channel: Arc<Channel>) -> Self {
        Self { channel, views: Mutex::default(), returns: OnceLock::new(), birth: Birth::here() }
    }

    /// Takes the ring for returned loans; false if there is one already.
    pub(super) fn set_returns(&self, returns: Returns) -> bool {
        self.returns.set(returns).is_ok()
    }

    /// Whether a segment may come: it needs a ring, and a number of its own.
    pub(super) fn is_ready(&self, segment: u32) -> bool {
        self.returns.get().is_some() && !self.views.lock().contains_key(&segment)
    }

    /// Maps a segment. `keepers` stay open as long as it is mapped.
    pub(super) fn map(
        &self,
        segment: u32,
        file: OwnedFd,
        size: u64,
        keepers: Vec<Arc<Channel>>,
    ) -> Result<(), SegmentError> {
        let mut views = self.views.lock();
        if views.len() >= MAX_SEGMENTS {
            return Err(io::Error::other("the lender has too many segments").into());
        }
        views.insert(segment, View::open(file, size, keepers)?);
        Ok(())
    }

    pub(super) fn retire(&self, segment: u32) {
        // Payloads in it have clones of the view.
        let _view = self.views.lock().remove(&segment);
    }

    /// The bytes that a description stands for; `None` if they are no loan of this link.
    pub(super) fn resolve(self: &Arc<Self>, description: &LoanDescription) -> Option<Bytes> {
        let LoanDescription { loan, segment, offset, len } = *description;
        let view = self.views.lock().get(&segment).cloned();
        let end = offset.checked_add(len).and_then(|end| usize::try_from(end).ok());
        let range = usize::try_from(offset).ok().zip(end);
        let found = view.zip(range).filter(|(view, (start, end))| view.bytes(*start..*end).is_some());
        let Some((view, (start, end))) = found else {
            // Of its memory nothing is read, and the lender gets its number back.
            if let Some(returns) = self.returns.get() {
                returns.give(loan);
            }
            return None;
        };
        Some(Bytes::from_owner(BorrowedBytes { view, range: start..end, loan, borrowed: self.clone() }))
    }
}

impl fmt::Debug for Borrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Borrowed").finish_non_exhaustive()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // The channel of a forked child is that of its parent.
        if self.birth.is_here() {
            self.channel.half_close();
        }
    }
}

/// A payload in a segment of the other side.
struct BorrowedBytes {
    view: View,
    range: Range<usize>,
    loan: u32,
    borrowed: Arc<Borrowed>,
}

impl AsRef<[u8]> for BorrowedBytes {
    fn as_ref(&self) -> &[u8] {
        self.view.bytes(self.range.clone()).unwrap_or_default()
    }
}

impl Drop for BorrowedBytes {
    fn drop(&mut self) {
        // A loan of the parent stays one when a forked child drops its copy.
        if self.borrowed.birth.is_here()
            && let Some(returns) = self.borrowed.returns.get()
        {
            returns.give(self.loan);
        }
    }
}
