//! Search for the first frame in a piece of a ZMTP stream.
//!
//! The head of a frame is two bytes that look like many others. Frames are recognised by those with a
//! signature: the header of a message of ZRE, a message of ZRE/LOG or zgossip, a command, a box of
//! CURVE. Each of them has to fill its frame to the last byte.

use super::limits::MAX_UNDECIDED;
use super::talk::told_generation;
use bytes::Bytes;
use zwire_proto::{
    buf::Reader,
    zmtp::wire::{FrameHead, command_name},
    zre::wire::{Gossip, Log},
};

/// Longest frame with a signature that is looked for: a HELLO of many groups is shorter.
const MAX_SIGNED: usize = MAX_UNDECIDED / 2;

/// Most frames followed from one frame with a signature to the next.
const MAX_BETWEEN: usize = 64;

/// Start of the frames of commands.
const COMMANDS: [&[u8]; 5] = [b"\x04PING", b"\x04PONG", b"\x09SUBSCRIBE", b"\x06CANCEL", b"\x05READY"];

pub(super) const SEALED: &[u8] = b"\x07MESSAGE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameSearch {
    /// At this offset.
    Found(usize),
    /// Nowhere before this offset.
    Wait(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signed {
    No,
    /// More bytes may make it a frame.
    Open,
    /// A frame of this length, head included.
    Whole(usize),
}

/// Looks for the first frame with a signature. In a stream that is not `known` to be ZMTP, the lengths
/// of frames must lead from it to a second one. Undecided bytes wait for more, so that it does not
/// matter how a stream is cut; with `end` no bytes follow.
pub(super) fn search(piece: &[u8], known: bool, end: bool) -> FrameSearch {
    for start in 0..piece.len() {
        match follow(&piece[start..], known) {
            Signed::Whole(_) => return FrameSearch::Found(start),
            Signed::Open if !end => return FrameSearch::Wait(start),
            Signed::Open | Signed::No => {}
        }
    }
    FrameSearch::Wait(piece.len())
}

fn follow(piece: &[u8], known: bool) -> Signed {
    let first = signed(piece);
    let Signed::Whole(len) = first else { return first };
    if known {
        return first;
    }
    let mut at = len;
    for _ in 0..MAX_BETWEEN {
        let rest = &piece[at..];
        match signed(rest) {
            Signed::No => {}
            other => return other,
        }
        match FrameHead::decode(rest) {
            Ok(Some((head, start))) if head.len <= MAX_SIGNED as u64 => {
                #[allow(clippy::cast_possible_truncation, reason = "checked above")]
                let end = start + head.len as usize;
                if rest.len() < end {
                    return Signed::Open;
                }
                at += end;
            }
            Ok(None) => return Signed::Open,
            Ok(Some(_)) | Err(_) => return Signed::No,
        }
    }
    Signed::No
}

/// Whether a frame with a signature begins here.
fn signed(piece: &[u8]) -> Signed {
    let (head, start) = match FrameHead::decode(piece) {
        Ok(Some(head)) => head,
        Ok(None) => return Signed::Open,
        Err(_) => return Signed::No,
    };
    let Ok(len) = usize::try_from(head.len) else { return Signed::No };
    if !(4..=MAX_SIGNED).contains(&len) {
        return Signed::No;
    }
    let body = &piece[start..piece.len().min(start + len)];
    let begins = |with: &[u8]| {
        let common = body.len().min(with.len());
        body[..common] == with[..common]
    };
    let possible = if head.command {
        COMMANDS.iter().any(|name| begins(name))
    } else {
        begins(&[0xaa, 0xa1]) || begins(&[0xaa, 0xa2, 1]) || begins(&[0xaa, 0xa0]) || begins(SEALED)
    };
    if !possible {
        return Signed::No;
    }
    if body.len() < len {
        return Signed::Open;
    }
    let frame = Bytes::copy_from_slice(body);
    let good = if head.command {
        COMMANDS.iter().any(|name| frame.starts_with(name)) && command_name(&mut Reader::new(&frame)).is_ok()
    } else {
        match frame[..2] {
            [0xaa, 0xa1] => told_generation(&frame).is_some(),
            [0xaa, 0xa2] => !head.more && fills(&frame, |frame| Log::decode(frame).is_ok()),
            [0xaa, 0xa0] => !head.more && fills(&frame, |frame| Gossip::decode(frame).is_ok()),
            _ => !head.more && frame.starts_with(SEALED) && len > SEALED.len() + 8 + 16,
        }
    };
    if good { Signed::Whole(start + len) } else { Signed::No }
}

/// Whether a frame decodes, and needs its last byte for that.
pub(super) fn fills(frame: &Bytes, decodes: impl Fn(&Bytes) -> bool) -> bool {
    decodes(frame) && !frame.is_empty() && !decodes(&frame.slice(..frame.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// PING of 36/ZRE, number 9.
    const PING: &[u8] = &[0x00, 0x06, 0xaa, 0xa1, 0x06, 0x02, 0x00, 0x09];
    /// SHOUT to "G" of 36/ZRE, and its content.
    const SHOUT: &[u8] =
        &[0x01, 0x08, 0xaa, 0xa1, 0x03, 0x02, 0x00, 0x0a, 0x01, b'G', 0x00, 0x03, b'a', b'b', b'c'];
    const HEARTBEAT: &[u8] = b"\x04\x07\x04PING\x00\x00";

    #[test]
    fn one_signed_frame_is_enough_for_a_known_stream_and_two_for_a_stranger() {
        for frame in [PING, SHOUT, HEARTBEAT] {
            let late = [&[0xff; 100], frame].concat();
            assert_eq!(search(&late, true, false), FrameSearch::Found(100));
            assert!(matches!(search(&late, false, false), FrameSearch::Wait(100..)));
            assert_eq!(search(&late, false, true), FrameSearch::Wait(late.len()));
            let two = [&late[..], PING].concat();
            assert_eq!(search(&two, false, false), FrameSearch::Found(100));
        }
    }

    #[test]
    fn a_frame_that_is_cut_is_waited_for() {
        for cut in 1..PING.len() {
            assert_eq!(search(&PING[..cut], true, false), FrameSearch::Wait(0), "{cut}");
        }
        for cut in 1..SHOUT.len() + PING.len() {
            let both = [SHOUT, PING].concat();
            assert_eq!(search(&both[..cut], false, false), FrameSearch::Wait(0), "{cut}");
        }
    }

    #[test]
    fn text_zeros_and_other_protocols_are_no_frames() {
        let text = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".repeat(20);
        for other in [&text[..], &[0; 500], &[0xaa, 0xa1].repeat(100)] {
            assert!(matches!(search(other, false, false), FrameSearch::Wait(at) if at + 9 >= other.len()));
            assert!(!matches!(search(other, true, true), FrameSearch::Found(_)));
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_zmtp(bytes in prop::collection::vec(any::<u8>(), 0..4000), known: bool, end: bool) {
            prop_assert!(matches!(search(&bytes, known, end), FrameSearch::Wait(_)));
        }
    }
}
