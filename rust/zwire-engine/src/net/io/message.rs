//! Message-oriented links: conversion between messages and length prefixes, which are not sent.

use crate::net::gather;
use bytes::{BufMut, Bytes, BytesMut};
use core::sync::atomic::{AtomicBool, Ordering};
use std::{collections::VecDeque, io::IoSlice};

/// Most parts of one message that are passed without copying them together: a batch of 64 KiB has at most
/// 16 payloads by reference, and the parts between them.
const MAX_PARTS: usize = 40;

/// Width of the prefix: two bytes, or four in low-latency mode.
#[derive(Debug, Default)]
pub(super) struct Prefix {
    wide: AtomicBool,
}

impl Prefix {
    pub(super) fn set_wide(&self, wide: bool) {
        self.wide.store(wide, Ordering::Relaxed);
    }

    fn len(&self) -> usize {
        if self.wide.load(Ordering::Relaxed) { 4 } else { 2 }
    }

    /// Appends a prefix for a message that follows; returns the position for [`Self::close`].
    pub(super) fn open(&self, buf: &mut BytesMut) -> usize {
        let at = buf.len();
        buf.put_bytes(0, self.len());
        at
    }

    /// Completes the prefix at `at` with the length of its message, and returns that length.
    pub(super) fn close(&self, buf: &mut BytesMut, at: usize) -> usize {
        let len = buf.len() - at - self.len();
        #[allow(clippy::cast_possible_truncation, reason = "a batch has less than 64 KiB")]
        let bytes = (len as u32).to_le_bytes();
        let prefix = self.len();
        buf[at..at + prefix].copy_from_slice(&bytes[..prefix]);
        len
    }

    /// Appends a message with its prefix.
    pub(super) fn append(&self, buf: &mut BytesMut, message: &[u8]) {
        let at = self.open(buf);
        buf.extend_from_slice(message);
        self.close(buf, at);
    }

    /// Passes the parts of the first message in `out` to `send`, and removes the message if that succeeds.
    pub(super) fn send_first<T, E>(
        &self,
        out: &mut VecDeque<Bytes>,
        send: impl FnOnce(&[IoSlice<'_>], usize) -> Result<T, E>,
    ) -> Option<Result<T, E>> {
        while out.front().is_some_and(Bytes::is_empty) {
            out.pop_front();
        }
        // A prefix is always written in one piece, and `out` holds complete batches only.
        let prefix = self.len();
        let len = match *out.front()?.get(..prefix)? {
            [a, b] => usize::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => return None,
        };
        let mut slices = [IoSlice::new(&[]); MAX_PARTS];
        let mut n = 0;
        for part in parts(out, prefix, len) {
            if let Some(slice) = slices.get_mut(n) {
                *slice = IoSlice::new(part);
            }
            n += 1;
        }
        let result = if n <= MAX_PARTS {
            send(&slices[..n], len)
        } else {
            let whole: Vec<u8> = parts(out, prefix, len).flatten().copied().collect();
            send(&[IoSlice::new(&whole)], len)
        };
        if result.is_ok() {
            gather::consume(out, prefix + len);
        }
        Some(result)
    }
}

/// The `len` bytes of `out` that begin at `skip`.
fn parts(out: &VecDeque<Bytes>, mut skip: usize, len: usize) -> impl Iterator<Item = &[u8]> {
    let mut left = len;
    out.iter().map_while(move |part| {
        let part = &part[skip.min(part.len())..];
        let part = &part[..part.len().min(left)];
        skip = 0;
        let goes_on = left > 0;
        left -= part.len();
        goes_on.then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(prefix: &Prefix, out: &mut VecDeque<Bytes>) -> Option<Vec<u8>> {
        let send = |parts: &[IoSlice<'_>], len: usize| {
            let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            assert_eq!(whole.len(), len);
            Ok::<_, ()>(whole)
        };
        prefix.send_first(out, send).map(Result::unwrap)
    }

    #[test]
    fn messages_come_out_as_they_were_put_in() {
        for wide in [false, true] {
            let prefix = Prefix::default();
            prefix.set_wide(wide);
            let mut buf = BytesMut::new();
            let messages = [&b"first"[..], b"", b"the third"];
            messages.iter().for_each(|message| prefix.append(&mut buf, message));
            // Cut into two parts within a message.
            let head = buf.split_to(prefix.len() + 2).freeze();
            let mut out = VecDeque::from([head, Bytes::new(), buf.freeze()]);
            for message in messages {
                assert_eq!(sent(&prefix, &mut out).as_deref(), Some(message));
            }
            assert_eq!(sent(&prefix, &mut out), None);
        }
    }

    #[test]
    fn what_was_not_sent_stays_and_many_parts_are_one_message() {
        let prefix = Prefix::default();
        let mut out = VecDeque::from([Bytes::from_static(&[100, 0])]);
        out.extend((0..100).map(|n| Bytes::from(vec![n])));
        out.push_back(Bytes::from_static(&[1, 0, 9]));
        assert_eq!(prefix.send_first(&mut out, |_, _| Err::<(), _>("full")), Some(Err("full")));
        assert_eq!(sent(&prefix, &mut out), Some((0..100).collect()));
        assert_eq!(sent(&prefix, &mut out), Some(vec![9]));
        assert!(out.is_empty());
    }
}
