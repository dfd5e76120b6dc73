//! [`Session`]: the state of both sides of a link, and the records of a batch.

use super::{
    keys::{Declared, entity},
    limits::MAX_DECLARED_BYTES,
    reassembly::{Channels, Lost, Recent},
    record::{Cause, Message, Record, declared_key, wire_key},
    shared::{Place, Shared},
};
use bytes::Bytes;
use zwire_proto::{
    Text,
    buf::Reader,
    zenoh::{
        Priority, Reliability,
        link::defrag::{FragmentRules, WholeMessage},
        wire::{
            BatchItem, BatchReader, Declaration, Fragment, Init, Mapping, NetworkMessage, Resolution,
            TransportMessage, WireExpr,
        },
    },
};

/// The batch headers of a compressing session.
const RAW: u8 = 0;
const LZ4: u8 = 1;

/// Format of batches behind OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Transport messages.
    Plain,
    /// The same behind a batch header, possibly as an LZ4 block.
    Compressed,
    /// A single network message; streams have a `u32` prefix.
    LowLatency,
}

impl Format {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Compressed, Self::LowLatency];

    const fn of(low_latency: bool, compression: bool) -> Self {
        match (low_latency, compression) {
            (true, _) => Self::LowLatency,
            (false, true) => Self::Compressed,
            (false, false) => Self::Plain,
        }
    }

    /// Bytes of the length prefix on a stream.
    pub(crate) const fn prefix_len(self) -> usize {
        if matches!(self, Self::LowLatency) { 4 } else { 2 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Offer {
    ack: bool,
    compression: bool,
    low_latency: bool,
    marks: bool,
    resolution: Resolution,
}

#[derive(Debug, Default)]
pub(crate) struct SessionSide {
    offer: Option<Offer>,
    /// The side has sent OPEN, or its handshake may be over: so much of it is missing in the capture.
    pub(crate) open: bool,
    pub(crate) declared: Declared,
    channels: Channels,
    /// Numbers of datagrams, which may be captured more than once.
    recent: Recent,
}

/// A link between two nodes as far as the capture shows it.
#[derive(Debug, Default)]
pub(crate) struct ZenohSession {
    pub(crate) sides: [SessionSide; 2],
    /// Format deduced from the batches, where the handshake is not in the capture.
    pub(crate) guess: Option<Format>,
    datagrams: bool,
}

impl ZenohSession {
    pub(crate) fn of_datagrams() -> Self {
        Self { datagrams: true, ..Self::default() }
    }

    /// Opens a session with a handshake that is not in the capture; its format was deduced, if it is known.
    pub(crate) fn pass_handshake(&mut self, format: Option<Format>) {
        self.sides.iter_mut().for_each(|side| side.open = true);
        self.guess = format;
    }

    /// Format of this side's next batch; `None` where neither handshake nor batches tell.
    pub(crate) const fn format(&self, side: usize) -> Option<Format> {
        if !self.sides[side].open {
            return Some(Format::Plain);
        }
        if self.guess.is_some() {
            return self.guess;
        }
        match (&self.sides[0].offer, &self.sides[1].offer) {
            (Some(a), Some(b)) => {
                Some(Format::of(a.low_latency && b.low_latency, a.compression && b.compression))
            }
            // An option that one side lacks is not used. An acceptor offers only those in use.
            (Some(only), None) | (None, Some(only))
                if only.ack || !(only.low_latency || only.compression) =>
            {
                Some(Format::of(only.low_latency, only.compression))
            }
            _ => None,
        }
    }

    /// How this session's fragments are written.
    fn fragment_rules(&self) -> FragmentRules {
        match (&self.sides[0].offer, &self.sides[1].offer) {
            (Some(a), Some(b)) => {
                let ack = if a.ack { a } else { b };
                FragmentRules { marks: Some(a.marks && b.marks), sn_mask: Some(ack.resolution.sn_mask()) }
            }
            (Some(only), None) | (None, Some(only)) if only.ack => {
                FragmentRules { marks: Some(only.marks), sn_mask: Some(only.resolution.sn_mask()) }
            }
            _ => FragmentRules { marks: None, sn_mask: None },
        }
    }

    /// Takes a batch of one side, without length prefix. Returns whether all of it decodes.
    pub(crate) fn handle_batch(
        &mut self,
        side: usize,
        batch: Bytes,
        place: Place,
        shared: &mut Shared,
    ) -> bool {
        let format = self.format(side).unwrap_or(Format::Plain);
        let mut at = place.offset;
        let in_block = format == Format::Compressed && batch.first() == Some(&LZ4);
        let batch = match (format, batch.first()) {
            // Without a batch header it is a CLOSE of a peer that gave up before the first batch.
            (Format::Compressed, Some(&header @ (RAW | LZ4))) => {
                at += u64::from(header == RAW);
                match shared.decompressor.decompress(batch) {
                    Ok(batch) => batch,
                    Err(error) => {
                        shared.out.push_back(place.fault(at, Cause::Decode(error)));
                        return false;
                    }
                }
            }
            _ => batch,
        };
        let reader = BatchReader::of(Reader::new(&batch).with_shared_memory());
        let mut reader = if format == Format::LowLatency { reader.bare() } else { reader };
        let (mut sn, mut repeated) = (None, false);
        loop {
            match reader.next_item() {
                Ok(None) => return true,
                Ok(Some(BatchItem::Network(_))) if repeated => {}
                Ok(Some(BatchItem::Network(message))) => self.network(side, message, sn, &place, shared),
                Ok(Some(BatchItem::Transport(TransportMessage::Frame(frame)))) => {
                    sn = Some(frame.sn);
                    repeated = self.repeats(side, frame.priority, frame.reliability, frame.sn);
                    if repeated {
                        continue;
                    }
                    let rules = self.fragment_rules();
                    let (channels, budget) = (&mut self.sides[side].channels, &mut shared.budget);
                    let lost = channels.interrupt(frame.priority, frame.reliability, rules, budget);
                    report(lost, &place, shared);
                }
                Ok(Some(BatchItem::Fragment(fragment, data))) => {
                    if self.repeats(side, fragment.priority, fragment.reliability, fragment.sn) {
                        continue;
                    }
                    self.fragment(side, fragment, &data, &place, shared);
                }
                Ok(Some(BatchItem::Transport(message))) => self.transport(side, message, &place, shared),
                Err(error) => {
                    // Offsets inside a block are not offsets in the stream.
                    let inside = if in_block { 0 } else { error.offset as u64 };
                    let offset = at + inside;
                    shared.out.push_back(place.fault(offset, Cause::Decode(error)));
                    return false;
                }
            }
        }
    }

    /// Whether a datagram came before: a capture of several interfaces holds a copy for each of them.
    fn repeats(&mut self, side: usize, priority: Priority, reliability: Reliability, sn: u32) -> bool {
        self.datagrams && !self.sides[side].recent.insert(priority, reliability, sn)
    }

    /// Ends the session, and reports incomplete messages at the places of its sides, if they are given.
    pub(crate) fn finish(&mut self, places: Option<[Place; 2]>, shared: &mut Shared) {
        for (index, side) in self.sides.iter_mut().enumerate() {
            for lost in side.channels.finish(&mut shared.budget) {
                if let Some(places) = &places {
                    report(Some(lost), &places[index], shared);
                }
            }
            side.declared.clear(&mut shared.declared);
        }
    }

    fn transport(&mut self, side: usize, message: TransportMessage, place: &Place, shared: &mut Shared) {
        let side = &mut self.sides[side];
        let mut sn = None;
        let message = match message {
            TransportMessage::Init(init) => {
                side.offer.get_or_insert_with(|| Offer::new(&init));
                Message::Init(Box::new(init))
            }
            TransportMessage::Open(open) => {
                side.open = true;
                sn = Some(open.initial_sn);
                Message::Open(Box::new(open))
            }
            TransportMessage::Close(close) => Message::Close(close),
            TransportMessage::Join(join) => {
                side.open = true;
                Message::Join(Box::new(join))
            }
            TransportMessage::Oam(oam) => Message::TransportOam(oam),
            // A FRAME is represented by its messages; neither fragments nor frames reach this place.
            TransportMessage::KeepAlive | TransportMessage::Frame(_) | TransportMessage::Fragment(_) => {
                return;
            }
        };
        shared.out.push_back(Record { sn, ..place.record(message) });
    }

    fn fragment(
        &mut self,
        side: usize,
        fragment: Fragment,
        data: &Bytes,
        place: &Place,
        shared: &mut Shared,
    ) {
        let rules = self.fragment_rules();
        let channels = &mut self.sides[side].channels;
        let (whole, lost) = channels.push(fragment, data, place.offset, rules, &mut shared.budget);
        report(lost, place, shared);
        let Some(WholeMessage { bytes, place: offset, marked }) = whole else { return };
        let mut reader = Reader::new(&bytes).with_shared_memory();
        match NetworkMessage::decode(&mut reader) {
            // A receiver ignores bytes behind the message; a wrong guess must not look like one.
            Ok(_) if !marked && !reader.is_empty() => {
                let cause = Cause::Stray { sn: fragment.sn };
                shared.out.push_back(place.fault(offset, cause));
            }
            Ok(message) => self.network(side, message, Some(fragment.sn), place, shared),
            Err(error) => shared.out.push_back(place.fault(offset, Cause::Decode(error))),
        }
    }

    #[inline]
    fn network(
        &mut self,
        side: usize,
        message: NetworkMessage,
        sn: Option<u32>,
        place: &Place,
        shared: &mut Shared,
    ) {
        let prefix = match &message {
            NetworkMessage::Declare(m) => {
                let (prefix, full) = self.declare(side, &m.body, &mut shared.declared);
                if full {
                    let cause = Cause::TooManyDeclarations { bound: MAX_DECLARED_BYTES };
                    shared.out.push_back(place.fault(place.offset, cause));
                }
                prefix
            }
            message => wire_key(message).and_then(|key| self.prefix(side, key)),
        };
        let (src, dst) = (Some(place.src), Some(place.dst));
        let message = Message::Network(message);
        shared.out.push_back(Record { time: place.time, src, dst, sn, prefix, message });
    }

    /// String declared for the scope of a key that this side sent.
    #[inline]
    fn prefix(&self, side: usize, key: &WireExpr) -> Option<Text> {
        if key.scope == 0 {
            return Some(Text::EMPTY);
        }
        let declarer = match key.mapping {
            Mapping::Sender => side,
            Mapping::Receiver => 1 - side,
        };
        self.sides[declarer].declared.prefix(key.scope).cloned()
    }

    /// Takes in a declaration; returns the prefix of its key, and whether memory was exceeded.
    fn declare(&mut self, side: usize, body: &Declaration, total: &mut usize) -> (Option<Text>, bool) {
        let prefix = declared_key(body).and_then(|key| {
            // Nested prefixes have no mapping, and implementations differ in the side of their scope.
            let nested = matches!(body, Declaration::KeyExpr { .. });
            self.prefix(side, key).or_else(|| {
                if nested { self.sides[1 - side].declared.prefix(key.scope).cloned() } else { None }
            })
        });
        let declared = &mut self.sides[side].declared;
        let full = match (body, entity(body)) {
            (Declaration::KeyExpr { id, key }, _) => {
                prefix.as_ref().map(|prefix| declared.declare_key(*id, key.joined_to(prefix), total))
            }
            (Declaration::UndeclareKeyExpr { id }, _) => return (declared.undeclare_key(*id, total), false),
            (
                Declaration::Subscriber { key, .. }
                | Declaration::Queryable { key, .. }
                | Declaration::Token { key, .. },
                Some((noun, id)),
            ) => {
                let key = prefix.as_ref().map(|prefix| key.joined_to(prefix));
                key.map(|key| declared.declare_entity(noun, id, key, total))
            }
            (_, Some((noun, id))) => {
                let known = declared.undeclare_entity(noun, id, total);
                // A key in the message takes precedence over the remembered one.
                return (if declared_key(body).is_some() { prefix } else { known }, false);
            }
            (_, None) => None,
        };
        (prefix, full.is_some_and(|stored| stored.is_err()))
    }
}

impl Offer {
    fn new(init: &Init) -> Self {
        Self {
            ack: init.cookie.is_some(),
            compression: init.ext.compression,
            low_latency: init.ext.low_latency,
            marks: init.ext.patch >= 1,
            resolution: init.size.map_or(Resolution::DEFAULT, |(resolution, _)| resolution),
        }
    }
}

fn report(lost: Option<Lost>, place: &Place, shared: &mut Shared) {
    if let Some(Lost { offset, cause }) = lost {
        shared.out.push_back(place.fault(offset, cause));
    }
}

/// Whether a batch consists of one INIT and nothing else.
pub(crate) fn is_init(batch: &Bytes) -> bool {
    let mut reader = Reader::new(batch);
    match TransportMessage::decode(&mut reader) {
        Ok(TransportMessage::Init(init)) => init.version == zwire_proto::zenoh::VERSION && reader.is_empty(),
        _ => false,
    }
}
