//! Plausibility of batches: decides whether bytes are batches, in streams that the capture joined late.
//!
//! One batch proves little, a run of batches that decode to their very ends proves much. Evidence is
//! counted in bits, as the chance of random bytes to look like this:
//!
//! | Batch | Bits |
//! | --- | --- |
//! | any, with a length that leads exactly to its end | 16; 32 in low latency |
//! | FRAME, by its header | 6 |
//! | PUSH, REQUEST, RESPONSE; other network messages | 6; 2 each |
//! | KEEP_ALIVE, CLOSE | 8, 12 |
//! | FRAGMENT (its length proves nothing) | 3; if its number is next to that of the one before it 5, and 7 for each byte of the number |
//! | a batch header | 7 |
//!
//! Each place where a run may begin is another chance of a false match: later ones need more evidence.

use super::{
    limits::{BROKEN_BLOCK, MAX_BATCH, MAX_TRIES, MIN_TRIES},
    session::Format,
};
use bytes::Bytes;
use zwire_proto::{
    buf::{Reader, vle_len},
    zenoh::{
        link::Decompressor,
        wire::{BatchItem, BatchReader, CloseReason, Fragment, NetworkMessage, TransportMessage, is_network},
    },
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof {
    batches: u32,
    bits: u32,
}

impl Proof {
    /// Stream captured from its start that does not begin with INIT, which speaks against Zenoh.
    pub(crate) const NO_HANDSHAKE: Self = Self { batches: 3, bits: 64 };
    /// Stream about which nothing is known.
    pub(crate) const STRANGER: Self = Self { batches: 3, bits: 48 };
    /// Stream known to be Zenoh; only the place of the next batch is unknown.
    pub(crate) const KNOWN: Self = Self { batches: 1, bits: 24 };

    /// Evidence needed by a run that begins at this place of the piece.
    const fn at(self, start: usize) -> Self {
        Self { bits: self.bits + (usize::BITS - start.leading_zeros()), ..self }
    }

    /// Evidence that suffices when no more bytes follow.
    const fn at_end(self) -> Self {
        Self { batches: if self.batches > 2 { 2 } else { self.batches }, ..self }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    batches: u32,
    bits: u32,
    last: Option<Fragment>,
    /// Whether the last batch carried a message other than KEEP_ALIVE.
    carried: bool,
    cost: usize,
}

impl Run {
    /// Adds a batch to the run; `false` if the bytes are none.
    pub(crate) fn add(&mut self, batch: &Bytes, format: Format, decompressor: &mut Decompressor) -> bool {
        let bits = match format {
            Format::Plain => self.weigh(batch, false),
            Format::LowLatency => self.weigh(batch, true),
            Format::Compressed => match batch.first() {
                Some(0 | 1) => {
                    let plain = decompressor.decompress(batch.clone());
                    self.cost += plain.as_ref().map_or(BROKEN_BLOCK, Bytes::len);
                    plain.ok().and_then(|batch| self.weigh(&batch, false)).map(|bits| bits + 7)
                }
                _ => None,
            },
        };
        self.batches += u32::from(bits.is_some());
        self.bits = self.bits.saturating_add(bits.unwrap_or(0));
        bits.is_some()
    }

    /// Adds a message without a length in front: its end proves little, and it may be a single byte.
    pub(crate) fn add_message(
        &mut self,
        batch: &Bytes,
        format: Format,
        decompressor: &mut Decompressor,
    ) -> bool {
        let before = self.bits;
        let good = self.add(batch, format, decompressor);
        let bits = self.bits - before;
        self.bits = before + if self.carried { bits.saturating_sub(12) } else { 0 };
        good
    }

    /// Whether the last batch carried a message other than KEEP_ALIVE, which looks the same in two
    /// formats.
    pub(crate) const fn carries(&self) -> bool {
        self.carried
    }

    pub(crate) const fn proves(&self, proof: Proof) -> bool {
        self.batches >= proof.batches && self.bits >= proof.bits
    }

    fn weigh(&mut self, batch: &Bytes, bare: bool) -> Option<u32> {
        if !batch.first().is_some_and(|header| is_usual(*header, bare)) {
            return None;
        }
        self.carried = false;
        let reader = BatchReader::of(Reader::new(batch).with_shared_memory());
        let mut reader = if bare { reader.bare() } else { reader };
        let (mut bits, mut items, mut empty_frame) = (if bare { 32 } else { 16 }, 0, false);
        loop {
            let item = match reader.next_item() {
                Ok(Some(item)) => item,
                Ok(None) => break,
                Err(error) => {
                    self.cost += error.offset;
                    return None;
                }
            };
            items += 1;
            match item {
                BatchItem::Network(message) => {
                    empty_frame = false;
                    self.carried = true;
                    bits += match message {
                        NetworkMessage::Push(_)
                        | NetworkMessage::Request(_)
                        | NetworkMessage::Response(_) => 6,
                        _ => 2,
                    };
                }
                BatchItem::Fragment(fragment, data) => {
                    let next = self.last.is_some_and(|last| continues(last, fragment));
                    self.last = Some(fragment);
                    self.carried = true;
                    if bare || data.is_empty() || empty_frame {
                        return None;
                    }
                    // A fragment ends wherever the length says.
                    bits -= 16;
                    bits += if next { 5 + 7 * vle_len(fragment.sn.into()) as u32 } else { 3 };
                    self.cost += batch.len() - data.len();
                    return Some(bits);
                }
                BatchItem::Transport(message) => match message {
                    TransportMessage::Frame(_) if !bare && !empty_frame => {
                        empty_frame = true;
                        bits += 6;
                    }
                    TransportMessage::KeepAlive if !empty_frame => bits += 8,
                    TransportMessage::Close(close)
                        if !empty_frame && close.reason.0 <= CloseReason::CONNECTION_TO_SELF.0 =>
                    {
                        bits += 12;
                    }
                    _ => return None,
                },
            }
        }
        self.cost += batch.len();
        // Low latency: one message per batch.
        if empty_frame || items == 0 || (bare && items > 1) { None } else { Some(bits) }
    }
}

/// Whether senders write this header behind the handshake: without reserved bits, of a message in use.
const fn is_usual(header: u8, bare: bool) -> bool {
    const ANY_EXT: u8 = 0x7f;
    if bare && is_network(header) {
        return true;
    }
    match header & 0x1f {
        0x03 => header & 0x40 == 0,
        0x04 => header & ANY_EXT == 0x04,
        0x05 => !bare && header & 0x40 == 0,
        0x06 => !bare,
        _ => false,
    }
}

fn continues(last: Fragment, next: Fragment) -> bool {
    last.priority == next.priority
        && last.reliability == next.reliability
        && next.sn == last.sn.wrapping_add(1)
        && (last.more || next.first || next.more)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchSearch {
    /// At this offset.
    Found(usize, Format),
    /// Nowhere before this offset.
    Wait(usize),
}

/// Looks for the first run of batches in a piece of a stream that is proof enough. With `end` no bytes
/// follow the piece, and a shorter run is enough.
pub(crate) fn search(
    piece: &Bytes,
    formats: &[Format],
    proof: Proof,
    end: bool,
    decompressor: &mut Decompressor,
) -> BatchSearch {
    let mut tries = MIN_TRIES + piece.len().saturating_mul(MAX_TRIES);
    let mut first_open = None;
    for start in 0..piece.len() {
        for &format in formats {
            match follow(piece, start, format, proof, end, &mut tries, decompressor) {
                RunOutcome::Proof => return BatchSearch::Found(start, format),
                RunOutcome::Open => {
                    first_open.get_or_insert(start);
                }
                RunOutcome::No => {}
            }
        }
        if tries == 0 {
            // Only crafted input makes the search this expensive.
            return BatchSearch::Wait(start);
        }
    }
    BatchSearch::Wait(first_open.unwrap_or(piece.len()))
}

/// Whether a piece of a stream begins with a run of batches that is proof enough; where a batch must
/// begin, a single non-batch decides. With `end` no bytes follow the piece. `None`: no such run exists.
pub(crate) fn search_start(
    piece: &Bytes,
    formats: &[Format],
    proof: Proof,
    end: bool,
    decompressor: &mut Decompressor,
) -> Option<BatchSearch> {
    let mut tries = MIN_TRIES + piece.len().saturating_mul(MAX_TRIES);
    let mut open = false;
    for &format in formats {
        match follow(piece, 0, format, proof, end, &mut tries, decompressor) {
            RunOutcome::Proof => return Some(BatchSearch::Found(0, format)),
            RunOutcome::Open => open = true,
            RunOutcome::No => {}
        }
    }
    (open && !end).then_some(BatchSearch::Wait(0))
}

enum RunOutcome {
    Proof,
    /// More bytes may make it a run.
    Open,
    No,
}

/// Follows the lengths of batches from `start`; `tries` counts the bytes of batches that may still be tried.
fn follow(
    piece: &Bytes,
    start: usize,
    format: Format,
    proof: Proof,
    end: bool,
    tries: &mut usize,
    decompressor: &mut Decompressor,
) -> RunOutcome {
    let mut run = Run::default();
    let mut at = start;
    let needed = proof.at(start);
    // Result when the piece ends inside the run. A run that ends with the piece is evidence.
    let open = |run: Run, exact: bool| {
        let needed = if exact { proof } else { needed };
        if end && run.proves(needed.at_end()) { RunOutcome::Proof } else { RunOutcome::Open }
    };
    loop {
        let rest = &piece[at..];
        let prefix = format.prefix_len();
        if rest.len() <= prefix {
            return open(run, rest.is_empty());
        }
        let len = if prefix == 2 {
            usize::from(u16::from_le_bytes([rest[0], rest[1]]))
        } else {
            u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize
        };
        let usual = match format {
            Format::Plain => is_usual(rest[prefix], false),
            Format::LowLatency => is_usual(rest[prefix], true),
            Format::Compressed => {
                rest[prefix] == 1 || (rest[prefix] == 0 && rest.get(3).is_none_or(|h| is_usual(*h, false)))
            }
        };
        if len == 0 || len > MAX_BATCH || !usual {
            return RunOutcome::No;
        }
        if rest.len() < prefix + len {
            return open(run, false);
        }
        if *tries == 0 {
            return RunOutcome::No;
        }
        let good = run.add(&piece.slice(at + prefix..at + prefix + len), format, decompressor);
        *tries = tries.saturating_sub(core::mem::take(&mut run.cost));
        if !good {
            return RunOutcome::No;
        }
        at += prefix + len;
        if run.proves(needed) {
            return RunOutcome::Proof;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batches(batches: &[&[u8]]) -> Vec<u8> {
        batches.iter().flat_map(|batch| [&(batch.len() as u16).to_le_bytes()[..], batch].concat()).collect()
    }

    fn find(bytes: &[u8], proof: Proof, end: bool) -> BatchSearch {
        let piece = Bytes::copy_from_slice(bytes);
        search(&piece, &Format::ALL, proof, end, &mut Decompressor::new(MAX_BATCH))
    }

    /// PUSH of an empty PUT to scope 1 in a FRAME.
    const FRAME: &[u8] = &[0x25, 0x01, 0x1d, 0x01, 0x01, 0x00];
    const KEEP_ALIVE: &[u8] = &[0x04];

    #[test]
    fn three_batches_prove_a_stranger_to_be_zenoh() {
        let run = batches(&[FRAME, KEEP_ALIVE, FRAME]);
        assert_eq!(find(&run, Proof::STRANGER, false), BatchSearch::Found(0, Format::Plain));
        let two = batches(&[FRAME, FRAME]);
        assert_eq!(find(&two, Proof::STRANGER, false), BatchSearch::Wait(0));
        assert_eq!(find(&two, Proof::KNOWN, false), BatchSearch::Found(0, Format::Plain));
        let late = [&[0xff; 1000][..], &two].concat();
        assert_eq!(find(&late, Proof::KNOWN, false), BatchSearch::Found(1000, Format::Plain));
        let one = [&[0; 1000][..], &batches(&[FRAME])].concat();
        assert!(matches!(find(&one, Proof::KNOWN, false), BatchSearch::Wait(990..=1000)), "it may be chance");
        assert_eq!(find(&one, Proof::KNOWN, true), BatchSearch::Found(1000, Format::Plain));
        assert_eq!(find(&two, Proof::STRANGER, true), BatchSearch::Found(0, Format::Plain));
        let late = [&[0xff; 100][..], &run].concat();
        assert_eq!(find(&late, Proof::STRANGER, false), BatchSearch::Found(100, Format::Plain));
    }

    #[test]
    fn the_format_is_found_with_the_run() {
        let mut bare = Vec::new();
        for _ in 0..3 {
            bare.extend([4, 0, 0, 0, 0x1d, 0x01, 0x01, 0x00]);
        }
        assert_eq!(find(&bare, Proof::STRANGER, false), BatchSearch::Found(0, Format::LowLatency));
        let framed = [&[0u8][..], FRAME].concat();
        let plain_in_compressed = batches(&[&framed, &[0, 4], &framed]);
        assert_eq!(
            find(&plain_in_compressed, Proof::STRANGER, false),
            BatchSearch::Found(0, Format::Compressed)
        );
    }

    #[test]
    fn fragments_need_numbers_that_follow() {
        let fragment = |sn: u8| [&[0x66, 0x80 | sn, 0x81, 0x82, 0x01][..], &[0xee; 50]].concat();
        let (a, b, c) = (fragment(1), fragment(2), fragment(3));
        assert_eq!(
            find(&batches(&[&a, &b, &c]), Proof::STRANGER, false),
            BatchSearch::Found(0, Format::Plain)
        );
        assert_eq!(find(&batches(&[&a, &c, &b]), Proof::STRANGER, false), BatchSearch::Wait(0));
    }

    #[test]
    fn zeros_and_text_are_no_batches() {
        assert!(matches!(find(&[0; 500], Proof::KNOWN, true), BatchSearch::Wait(_)));
        let text = b"GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n".repeat(20);
        assert!(matches!(find(&text, Proof::KNOWN, true), BatchSearch::Wait(_)));
    }

    #[test]
    fn where_batches_have_to_begin_the_first_that_is_none_decides() {
        let at_start = |bytes: &[u8], end| {
            let piece = Bytes::copy_from_slice(bytes);
            let mut decompressor = Decompressor::new(MAX_BATCH);
            search_start(&piece, &Format::ALL, Proof::NO_HANDSHAKE, end, &mut decompressor)
        };
        let run = batches(&[FRAME, KEEP_ALIVE, FRAME]);
        assert_eq!(at_start(&run, false), Some(BatchSearch::Found(0, Format::Plain)));
        for cut in 0..run.len() {
            assert_eq!(at_start(&run[..cut], false), Some(BatchSearch::Wait(0)), "{cut}");
            assert_eq!(at_start(&run[..cut], true), None, "{cut}");
        }
        for other in [&b"GET / HTTP/1.1"[..], &[0; 40], &[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f]] {
            assert_eq!(at_start(other, false), None);
            assert_eq!(at_start(&[other, &run].concat(), false), None);
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_zenoh(bytes in prop::collection::vec(any::<u8>(), 0..4000), end: bool) {
            prop_assert!(matches!(find(&bytes, Proof::STRANGER, end), BatchSearch::Wait(_)));
        }
    }
}
