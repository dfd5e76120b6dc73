//! [`Message`]: one or more frames.

use bytes::Bytes;
use core::fmt;

/// Overhead of a frame beside its bytes, so that empty frames count against a bound in bytes, too.
const FRAME_COST: usize = size_of::<Bytes>();

/// A message: one frame, as most have, or several.
#[derive(Clone, PartialEq, Eq)]
pub struct Message(Frames);

#[derive(Clone)]
enum Frames {
    One(Bytes),
    Many(Vec<Bytes>),
}

impl PartialEq for Frames {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Frames {}

impl Frames {
    fn as_slice(&self) -> &[Bytes] {
        match self {
            Self::One(frame) => core::slice::from_ref(frame),
            Self::Many(frames) => frames,
        }
    }
}

impl Message {
    /// A message of one frame.
    #[must_use]
    pub fn single(frame: impl Into<Bytes>) -> Self {
        Self(Frames::One(frame.into()))
    }

    /// A message of these frames; `None` if the list is empty, which has no form on the wire.
    #[must_use]
    pub fn of(mut frames: Vec<Bytes>) -> Option<Self> {
        match frames.len() {
            0 => None,
            1 => frames.pop().map(Self::single),
            _ => Some(Self(Frames::Many(frames))),
        }
    }

    /// Its frames, at least one.
    #[must_use]
    pub fn frames(&self) -> &[Bytes] {
        self.0.as_slice()
    }

    /// Its frames, at least one.
    #[must_use]
    pub fn into_frames(self) -> Vec<Bytes> {
        match self.0 {
            Frames::One(frame) => vec![frame],
            Frames::Many(frames) => frames,
        }
    }

    /// Cost against bounds in bytes: the bytes of the frames and a small overhead for each.
    #[must_use]
    pub fn cost(&self) -> usize {
        self.frames().iter().map(|frame| cost(frame.len())).sum()
    }
}

/// Cost of a frame of this length.
pub(super) const fn cost(len: usize) -> usize {
    len.saturating_add(FRAME_COST)
}

impl From<Bytes> for Message {
    fn from(frame: Bytes) -> Self {
        Self::single(frame)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.frames()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_at_least_one_frame() {
        assert_eq!(Message::of(Vec::new()), None);
        let one = Message::of(vec![Bytes::from_static(b"a")]).unwrap();
        assert_eq!(one, Message::single("a"));
        assert_eq!(one.into_frames(), ["a"]);
        let two = Message::of(vec![Bytes::from_static(b"a"), Bytes::new()]).unwrap();
        assert_eq!(two.frames(), [&b"a"[..], b""]);
        assert_eq!(two.cost(), 1 + 2 * FRAME_COST);
        assert_eq!(format!("{two:?}"), r#"[b"a", b""]"#);
    }
}
