//! [`Parts`]: collects the frames of a message until the last one arrives.

use super::limits::FRAME_BYTES;
use bytes::Bytes;

#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) frames: Vec<Bytes>,
    pub(super) offset: u64,
    /// Bytes of all frames, with the overhead of each.
    pub(super) held: usize,
    /// Number of frames that were copied into memory of their own.
    settled: usize,
    /// A frame of the message is missing: the rest of it is skipped.
    pub(super) torn: bool,
}

impl Parts {
    pub(super) fn push(&mut self, frame: Bytes, offset: u64) {
        if self.frames.is_empty() {
            self.offset = offset;
        }
        self.held += frame.len() + FRAME_BYTES;
        self.frames.push(frame);
    }

    pub(super) fn take(&mut self) -> Vec<Bytes> {
        (self.held, self.settled) = (0, 0);
        core::mem::take(&mut self.frames)
    }

    pub(super) fn clear(&mut self) {
        self.take();
    }

    /// Copies waiting frames into memory of their own: as a slice, a frame keeps the whole chunk of the
    /// file alive.
    pub(super) fn settle(&mut self) {
        for frame in &mut self.frames[self.settled..] {
            *frame = Bytes::copy_from_slice(frame);
        }
        self.settled = self.frames.len();
    }
}
