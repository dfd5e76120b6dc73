//! TCP connections.
//!
//! A connection appears with a SYN, or with the first data if the capture began later. It is over
//! when both directions finished or one side reset it; its sockets are then remembered, so that late
//! retransmissions do not look like a new connection.

use super::event::{CloseReason, Connection, ConnectionId, FlowEvent};
use super::half::{CapturedHalf, Sink};
use super::transport::Segment;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use hashbrown::HashMap;
use std::collections::VecDeque;
use zwire_proto::pcap::Direction;

/// Most connections that are followed at once. At some 400 bytes each they take 7 MB. When one more
/// appears, the eighth part that was silent longest is evicted.
pub const MAX_CONNECTIONS: usize = 16_384;
/// Data this far from where a finished connection ended belongs to another one with a SYN that was not
/// captured. It exceeds every receive window in practical use.
const MAX_WINDOW: u64 = 64 << 20;

/// A pair of sockets, the lower one first.
type SocketPair = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct ConnectionEntry {
    connection: Connection,
    halves: [CapturedHalf; 2],
    state: ConnectionState,
    /// Packet count at the last packet; timestamps are no substitute, as they may run backwards.
    used: u64,
    timestamp: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Open,
    /// The caller ignores this connection.
    Ignored,
    /// Closed, and remembered for late retransmissions.
    Closed,
}

#[derive(Debug, Default)]
pub(super) struct Connections {
    entries: HashMap<SocketPair, ConnectionEntry>,
    next_id: u64,
    packets: u64,
    held_total: usize,
    pub(super) evicted: u64,
}

impl Connections {
    pub(super) fn handle(
        &mut self,
        timestamp: Duration,
        src: IpAddr,
        dst: IpAddr,
        segment: Segment,
        events: &mut VecDeque<FlowEvent>,
    ) {
        let src = SocketAddr::new(src, segment.src_port);
        let dst = SocketAddr::new(dst, segment.dst_port);
        let key = if src <= dst { (src, dst) } else { (dst, src) };
        self.packets += 1;
        if self.entries.get(&key).is_none_or(|entry| entry.is_replaced_by(src, &segment)) {
            let opens = segment.syn && !segment.rst || !segment.data.is_empty();
            if !opens {
                return;
            }
            if let Some(mut old) = self.entries.remove(&key) {
                old.close(CloseReason::Reused, &mut self.held_total, events);
            }
            self.make_room(events);
            let is_answer = segment.syn && segment.ack.is_some();
            let (client, server) = if is_answer { (dst, src) } else { (src, dst) };
            let connection = Connection { id: ConnectionId(self.next_id), client, server };
            self.next_id += 1;
            events.push_back(FlowEvent::Open { timestamp, connection, from_start: segment.syn });
            let halves = Default::default();
            self.entries.insert(
                key,
                ConnectionEntry { connection, halves, state: ConnectionState::Open, used: 0, timestamp },
            );
        }
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.used = self.packets;
        entry.timestamp = timestamp;
        if entry.state == ConnectionState::Open {
            entry.handle(src, segment, &mut self.held_total, events);
        }
    }

    /// Suppresses all further events of this connection, its end included.
    pub(super) fn ignore(&mut self, connection: &Connection) {
        let (client, server) = (connection.client, connection.server);
        let key = if client <= server { (client, server) } else { (server, client) };
        let entry = self.entries.get_mut(&key).filter(|entry| entry.connection.id == connection.id);
        if let Some(entry) = entry {
            if entry.state == ConnectionState::Open {
                entry.state = ConnectionState::Ignored;
            }
            entry.halves.iter_mut().for_each(|half| half.discard(&mut self.held_total));
        }
    }

    /// Marks the end of the capture: closes all connections in the order in which they appeared.
    pub(super) fn finish(&mut self, events: &mut VecDeque<FlowEvent>) {
        let mut entries: Vec<ConnectionEntry> = self.entries.drain().map(|(_, entry)| entry).collect();
        entries.sort_unstable_by_key(|entry| entry.connection.id);
        for mut entry in entries {
            entry.close(CloseReason::CaptureEnd, &mut self.held_total, events);
        }
    }

    /// Evicts an eighth at once, which spreads the search for the oldest over many new connections.
    fn make_room(&mut self, events: &mut VecDeque<FlowEvent>) {
        if self.entries.len() < MAX_CONNECTIONS {
            return;
        }
        let mut ages: Vec<u64> = self.entries.values().map(|entry| entry.used).collect();
        let (_, limit, _) = ages.select_nth_unstable(MAX_CONNECTIONS / 8 - 1);
        let limit = *limit;
        let mut evicted: Vec<ConnectionEntry> =
            self.entries.extract_if(|_, entry| entry.used <= limit).map(|(_, entry)| entry).collect();
        evicted.sort_unstable_by_key(|entry| entry.used);
        for mut entry in evicted {
            self.evicted += u64::from(entry.state == ConnectionState::Open);
            entry.close(CloseReason::Evicted, &mut self.held_total, events);
        }
    }
}

impl ConnectionEntry {
    /// Whether this segment belongs to a later connection between the same sockets.
    fn is_replaced_by(&self, src: SocketAddr, segment: &Segment) -> bool {
        let half = &self.halves[self.connection.direction_from(src).index()];
        if segment.syn && !segment.rst {
            // The same number again is a retransmission, or a SYN that comes behind the first data.
            return half.starts_elsewhere(segment.seq.wrapping_add(1));
        }
        self.state == ConnectionState::Closed
            && !segment.data.is_empty()
            && half.distance(segment.seq).is_some_and(|distance| distance > MAX_WINDOW)
    }

    fn handle(
        &mut self,
        src: SocketAddr,
        segment: Segment,
        held_total: &mut usize,
        events: &mut VecDeque<FlowEvent>,
    ) {
        let Segment { mut seq, ack, syn, fin, rst, data, missing, .. } = segment;
        let (timestamp, connection) = (self.timestamp, self.connection);
        let direction = self.connection.direction_from(src);
        let [to_server, to_client] = &mut self.halves;
        let (half, other) = match direction {
            Direction::ToServer => (to_server, to_client),
            Direction::ToClient => (to_client, to_server),
        };
        if rst {
            // A number far from the stream is a late answer to something else, or forged.
            if half.distance(seq).is_none_or(|distance| distance <= MAX_WINDOW) {
                self.close(CloseReason::Reset, held_total, events);
            }
            return;
        }
        if syn {
            // The SYN takes a number of its own; data may come with it (TCP Fast Open).
            seq = seq.wrapping_add(1);
            half.start(seq);
        }
        let len = (data.len() + missing) as u32;
        let mut sink = Sink { events, held_total, connection, direction };
        if len > 0 {
            half.handle_data(timestamp, seq, data, missing, &mut sink);
        }
        if fin {
            half.handle_fin(seq.wrapping_add(len));
        }
        if let Some(ack) = ack {
            sink.direction = direction.reverse();
            other.handle_ack(timestamp, ack, &mut sink);
        }
        let finished = half.is_finished() && other.is_finished();
        // Both FINs were acknowledged: bytes missing here will not be sent again.
        if finished || half.is_fin_acked() && other.is_fin_acked() {
            self.close(CloseReason::Finished, held_total, events);
        }
    }

    fn close(&mut self, reason: CloseReason, held_total: &mut usize, events: &mut VecDeque<FlowEvent>) {
        if self.state == ConnectionState::Open {
            let (connection, timestamp) = (self.connection, self.timestamp);
            for direction in [Direction::ToServer, Direction::ToClient] {
                let mut sink = Sink { events, held_total, connection, direction };
                self.halves[direction.index()].flush(&mut sink);
            }
            events.push_back(FlowEvent::Close { timestamp, connection, reason });
        }
        self.state = ConnectionState::Closed;
    }
}

#[cfg(test)]
mod tests {
    use super::super::half::{MAX_HELD_BYTES, MAX_HELD_PIECES, MAX_HELD_TOTAL};
    use super::*;
    use Direction::{ToClient, ToServer};
    use bytes::Bytes;
    use proptest::prelude::*;

    /// Builder of captures for tests: sequence numbers count from the start of each stream.
    #[derive(Default)]
    struct Rig {
        connections: Connections,
        events: VecDeque<FlowEvent>,
        client_port: u16,
        isn: [u32; 2],
        now: Duration,
    }

    impl Rig {
        fn new() -> Self {
            Self { client_port: 50_000, isn: [1000, 2000], ..Self::default() }
        }

        fn segment(&mut self, direction: Direction, offset: i64, data: &[u8]) -> Segment {
            let (src_port, dst_port) = match direction {
                ToServer => (self.client_port, 7447),
                ToClient => (7447, self.client_port),
            };
            let seq = self.isn[direction.index()].wrapping_add(1).wrapping_add(offset as u32);
            let data = Bytes::copy_from_slice(data);
            Segment {
                src_port,
                dst_port,
                seq,
                ack: None,
                syn: false,
                fin: false,
                rst: false,
                data,
                missing: 0,
            }
        }

        fn handle(&mut self, segment: Segment) {
            let ip = IpAddr::from([127, 0, 0, 1]);
            self.connections.handle(self.now, ip, ip, segment, &mut self.events);
            assert!(self.connections.held_total <= MAX_HELD_TOTAL);
        }

        fn data(&mut self, direction: Direction, offset: i64, data: &[u8]) {
            let segment = self.segment(direction, offset, data);
            self.handle(segment);
        }

        fn flags(&mut self, direction: Direction, offset: i64, set: impl FnOnce(&mut Segment)) {
            let mut segment = self.segment(direction, offset, &[]);
            set(&mut segment);
            self.handle(segment);
        }

        fn syn(&mut self) {
            self.flags(ToServer, -1, |segment| segment.syn = true);
            let ack = Some(self.isn[0].wrapping_add(1));
            self.flags(ToClient, -1, |segment| (segment.syn, segment.ack) = (true, ack));
        }

        fn ack(&mut self, direction: Direction, offset: u32) {
            let ack = self.isn[direction.reverse().index()].wrapping_add(1).wrapping_add(offset);
            self.flags(direction, 0, |segment| segment.ack = Some(ack));
        }

        /// The events in short: `+` open, `~` open mid-stream, `-` close, data as text and gaps as
        /// `<n>` after `>` (to the server) or `<` (to the client).
        fn take(&mut self) -> Vec<String> {
            let mut offsets = [None, None];
            let mut short = Vec::new();
            for event in self.events.drain(..) {
                if let FlowEvent::Open { .. } = event {
                    offsets = [None, None];
                }
                let mut joins = |direction: Direction, offset: u64, len: u64| {
                    let last = offsets[direction.index()].replace(offset + len);
                    assert!(last.is_none_or(|last| last == offset), "{offset} after {last:?}");
                };
                let arrow = |direction| if direction == ToServer { '>' } else { '<' };
                short.push(match event {
                    FlowEvent::Open { connection, from_start, .. } => {
                        let sign = if from_start { '+' } else { '~' };
                        format!("{sign}{}", connection.client.port())
                    }
                    FlowEvent::Data { direction, offset, data, .. } => {
                        joins(direction, offset, data.len() as u64);
                        format!("{}{}", arrow(direction), data.escape_ascii())
                    }
                    FlowEvent::Gap { direction, offset, missing, .. } => {
                        joins(direction, offset, missing);
                        format!("{}<{missing}>", arrow(direction))
                    }
                    FlowEvent::Close { reason, .. } => format!("-{reason:?}"),
                    FlowEvent::Datagram { .. } => unreachable!("TCP alone"),
                });
            }
            short
        }

        #[track_caller]
        fn expect(&mut self, expected: &[&str]) {
            assert_eq!(self.take(), expected);
        }
    }

    fn open() -> Rig {
        let mut rig = Rig::new();
        rig.syn();
        rig.expect(&["+50000"]);
        rig
    }

    #[test]
    fn a_connection_from_start_to_end() {
        let mut rig = open();
        rig.data(ToServer, 0, b"hello");
        rig.data(ToClient, 0, b"world");
        rig.flags(ToServer, 5, |segment| segment.fin = true);
        rig.expect(&[">hello", "<world"]);
        rig.flags(ToClient, 5, |segment| segment.fin = true);
        rig.expect(&["-Finished"]);
        // Late packets of the same connection are ignored.
        rig.ack(ToServer, 6);
        rig.data(ToServer, 0, b"hello");
        rig.connections.finish(&mut rig.events);
        rig.expect(&[]);
    }

    #[test]
    fn data_in_order_is_not_copied() {
        let mut rig = open();
        let segment = rig.segment(ToServer, 0, b"hello");
        let address = segment.data.as_ptr();
        rig.handle(segment);
        let Some(FlowEvent::Data { data, .. }) = rig.events.pop_front() else { panic!("no data") };
        assert_eq!(data.as_ptr(), address);
    }

    #[test]
    fn retransmissions_overlaps_and_probes_add_nothing() {
        let mut rig = open();
        rig.syn();
        rig.data(ToServer, 0, b"abcdef");
        rig.data(ToServer, 0, b"abcdef");
        rig.data(ToServer, 3, b"defghi");
        // Keep-alive probes: no data, or the last byte again.
        rig.data(ToServer, 8, b"");
        rig.data(ToServer, 8, b"?");
        rig.expect(&[">abcdef", ">ghi"]);
    }

    #[test]
    fn what_comes_early_waits() {
        let mut rig = open();
        rig.data(ToServer, 6, b"gh");
        rig.data(ToServer, 2, b"cd");
        rig.data(ToServer, 3, b"def");
        rig.expect(&[]);
        rig.data(ToServer, 0, b"ab");
        rig.expect(&[">ab", ">cd", ">ef", ">gh"]);
        assert_eq!(rig.connections.held_total, 0);
    }

    #[test]
    fn a_hole_stays_one_at_the_end_of_the_capture() {
        let mut rig = open();
        rig.data(ToServer, 0, b"ab");
        rig.data(ToServer, 6, b"gh");
        rig.data(ToServer, 9, b"j");
        rig.connections.finish(&mut rig.events);
        rig.expect(&[">ab", "><4>", ">gh", "><1>", ">j", "-CaptureEnd"]);
        assert_eq!(rig.connections.held_total, 0);
    }

    #[test]
    fn an_acknowledged_hole_is_given_up_after_a_while() {
        let mut rig = open();
        rig.data(ToServer, 2, b"c");
        rig.now = Duration::from_secs(5);
        rig.data(ToServer, 3, b"d");
        rig.expect(&[]);
        // Without the acknowledgment the data could be sent again; with it, the receiver has it
        // already.
        rig.ack(ToClient, 4);
        rig.expect(&["><2>", ">c", ">d"]);
        // The same, decided by the number of pieces.
        rig.ack(ToClient, 5);
        for offset in 0..64 {
            rig.expect(&[]);
            rig.data(ToServer, 5 + 2 * offset, b"x");
        }
        assert_eq!(rig.take()[..2], ["><1>", ">x"]);
    }

    #[test]
    fn a_hole_is_given_up_when_the_room_to_wait_is_full() {
        let mut rig = open();
        let segment = vec![0; 60_000];
        let mut offset = 1;
        while rig.events.is_empty() {
            assert!(rig.connections.held_total <= MAX_HELD_BYTES);
            rig.data(ToServer, offset, &segment);
            offset += segment.len() as i64;
        }
        assert!(offset > MAX_HELD_BYTES as i64);
        assert_eq!(rig.take()[0], "><1>");
        assert_eq!(rig.connections.held_total, 0);
        // Small pieces with a hole before each.
        for index in 0..=MAX_HELD_PIECES as i64 {
            rig.expect(&[]);
            rig.data(ToServer, offset + 2 + 2 * index, b"x");
        }
        rig.expect(&["><2>", ">x"]);
    }

    #[test]
    fn all_connections_together_stay_within_the_bound() {
        let mut rig = Rig::new();
        let segment = vec![0; 65_000];
        for port in 0..12 {
            rig.client_port = port;
            rig.syn();
            for index in 0..100 {
                rig.data(ToServer, 10 + index * 65_000, &segment);
            }
        }
        assert!(rig.connections.held_total > MAX_HELD_TOTAL / 2);
        rig.connections.finish(&mut rig.events);
        assert_eq!(rig.connections.held_total, 0);
    }

    #[test]
    fn a_capture_that_starts_mid_stream() {
        let mut rig = Rig::new();
        rig.ack(ToServer, 100);
        rig.flags(ToClient, 0, |segment| segment.fin = true);
        rig.flags(ToServer, 0, |segment| segment.rst = true);
        rig.expect(&[]);
        rig.data(ToClient, 100, b"from the middle");
        rig.data(ToServer, 50, b"also");
        // The first sender counts as the client.
        rig.expect(&["~7447", ">from the middle", "<also"]);
        // The SYN comes late: not a new connection.
        rig.client_port = 60_000;
        rig.data(ToServer, 0, b"early");
        rig.syn();
        rig.expect(&["~60000", ">early"]);
    }

    #[test]
    fn an_answer_alone_tells_who_is_the_client() {
        let mut rig = Rig::new();
        rig.flags(ToClient, -1, |segment| (segment.syn, segment.ack) = (true, Some(1001)));
        rig.data(ToClient, 0, b"server first");
        rig.data(ToServer, 0, b"client");
        rig.expect(&["+50000", "<server first", ">client"]);
    }

    #[test]
    fn the_same_sockets_again_are_a_new_connection() {
        let mut rig = open();
        rig.data(ToServer, 0, b"old");
        rig.data(ToServer, 4, b"waits");
        rig.isn = [0x8000_0000, 0x9000_0000];
        rig.syn();
        rig.data(ToServer, 0, b"new");
        rig.expect(&[">old", "><1>", ">waits", "-Reused", "+50000", ">new"]);
        rig.flags(ToServer, 3, |segment| segment.rst = true);
        rig.expect(&["-Reset"]);
        // Again, but its SYN is not in the capture.
        rig.isn = [0x1000_0000, 0x1000_0000];
        rig.data(ToServer, 0, b"third");
        rig.expect(&["~50000", ">third"]);
    }

    #[test]
    fn a_refused_connection_opens_and_closes() {
        let mut rig = Rig::new();
        rig.flags(ToServer, -1, |segment| segment.syn = true);
        rig.flags(ToClient, -2001, |segment| (segment.rst, segment.ack) = (true, Some(1001)));
        rig.expect(&["+50000", "-Reset"]);
    }

    #[test]
    fn a_reset_out_of_the_blue_is_ignored() {
        let mut rig = open();
        rig.flags(ToServer, 0x4000_0000, |segment| segment.rst = true);
        rig.data(ToServer, 0, b"alive");
        rig.expect(&[">alive"]);
    }

    #[test]
    fn an_end_with_a_hole_in_front_closes_once_acknowledged() {
        let mut rig = open();
        rig.data(ToServer, 2, b"cd");
        rig.flags(ToServer, 4, |segment| segment.fin = true);
        rig.flags(ToClient, 0, |segment| (segment.fin, segment.ack) = (true, Some(1006)));
        rig.expect(&[]);
        rig.flags(ToServer, 5, |segment| segment.ack = Some(2002));
        rig.expect(&["><2>", ">cd", "-Finished"]);
    }

    #[test]
    fn bytes_cut_by_the_capture_are_a_gap_at_once() {
        let mut rig = open();
        let mut cut = rig.segment(ToServer, 0, b"head");
        cut.missing = 96;
        let mut later = rig.segment(ToServer, 104, b"head");
        later.missing = 6;
        rig.handle(cut);
        rig.expect(&[">head", "><96>"]);
        rig.handle(later);
        rig.data(ToServer, 114, b"tail");
        rig.expect(&[]);
        rig.data(ToServer, 100, b"fill");
        rig.expect(&[">fill", ">head", "><6>", ">tail"]);
    }

    #[test]
    fn an_ignored_connection_is_silent_until_it_is_reused() {
        let mut rig = open();
        rig.data(ToServer, 5, b"waits");
        let connection = rig.connections.entries.values().next().unwrap().connection;
        rig.connections.ignore(&connection);
        assert_eq!(rig.connections.held_total, 0);
        rig.data(ToServer, 0, b"01234");
        rig.flags(ToServer, 10, |segment| segment.rst = true);
        rig.expect(&[]);
        rig.isn = [77, 88];
        rig.syn();
        rig.data(ToServer, 0, b"new");
        rig.expect(&["+50000", ">new"]);
    }

    #[test]
    fn the_connections_that_were_silent_longest_make_room() {
        let mut rig = Rig::new();
        for port in 0..MAX_CONNECTIONS as u16 {
            rig.client_port = port;
            rig.syn();
        }
        rig.client_port = 0;
        rig.data(ToServer, 0, b"not silent");
        rig.take();
        rig.client_port = MAX_CONNECTIONS as u16;
        rig.syn();
        let events = rig.take();
        assert_eq!(events.len(), MAX_CONNECTIONS / 8 + 1);
        assert!(events[..MAX_CONNECTIONS / 8].iter().all(|event| event == "-Evicted"));
        assert_eq!(rig.connections.evicted, MAX_CONNECTIONS as u64 / 8);
        rig.client_port = 0;
        rig.data(ToServer, 10, b"still here");
        rig.client_port = 1;
        rig.data(ToServer, 0, b"was evicted");
        rig.expect(&[">still here", "~1", ">was evicted"]);
    }

    /// Bytes of one direction, with `None` for missing ones.
    fn stream(events: &VecDeque<FlowEvent>) -> Vec<Option<u8>> {
        let mut stream = Vec::new();
        for event in events {
            match event {
                FlowEvent::Data { data, offset, .. } => {
                    assert_eq!(*offset, stream.len() as u64);
                    stream.extend(data.iter().copied().map(Some));
                }
                FlowEvent::Gap { missing, offset, .. } => {
                    assert_eq!(*offset, stream.len() as u64);
                    stream.extend((0..*missing).map(|_| None));
                }
                _ => {}
            }
        }
        stream
    }

    proptest! {
        #[test]
        fn any_order_and_repetition_gives_the_same_stream(
            bytes in prop::collection::vec(any::<u8>(), 1..3000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
            again in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..20),
            shuffle in any::<u64>(),
            isn in any::<u32>(),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut segments: Vec<(usize, usize)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
            // Any other range of the stream, as from a sender that repacks its retransmissions.
            segments.extend(again.iter().map(|(a, b)| {
                let (a, b) = (a.index(bytes.len()), b.index(bytes.len()));
                (a.min(b), a.max(b))
            }));
            segments.sort_by_key(|(a, b)| (*a as u64 + 7 * *b as u64 + 1).wrapping_mul(shuffle | 1));
            let mut rig = Rig::new();
            rig.isn[0] = isn;
            rig.syn();
            for (start, end) in segments {
                rig.data(ToServer, start as i64, &bytes[start..end]);
            }
            prop_assert_eq!(rig.connections.held_total, 0);
            let expected: Vec<_> = bytes.iter().copied().map(Some).collect();
            prop_assert_eq!(stream(&rig.events), expected);
        }

        #[test]
        fn lost_segments_leave_gaps_and_nothing_moves(
            len in 1usize..3000,
            step in 1usize..100,
            lost in any::<[u64; 48]>(),
            acks in any::<bool>(),
            isn in any::<u32>(),
        ) {
            let bytes: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
            let mut rig = Rig::new();
            rig.isn[0] = isn;
            rig.syn();
            let mut expected = Vec::new();
            let mut until = 0;
            for (index, part) in bytes.chunks(step).enumerate() {
                let is_lost = lost[index / 64] >> (index % 64) & 1 != 0;
                if !is_lost {
                    rig.data(ToServer, (index * step) as i64, part);
                    until = expected.len() + part.len();
                }
                expected.extend(part.iter().map(|byte| (!is_lost).then_some(*byte)));
                if acks {
                    rig.ack(ToClient, expected.len() as u32);
                }
            }
            rig.connections.finish(&mut rig.events);
            expected.truncate(until);
            prop_assert_eq!(stream(&rig.events), expected);
        }

        #[test]
        fn noise_never_panics_and_offsets_join_up(
            segments in prop::collection::vec(
                (any::<bool>(), any::<u32>(), any::<Option<u32>>(), 0u8..8, 0usize..50, any::<u16>()), 0..200),
            near in any::<bool>(),
        ) {
            let mut rig = Rig::new();
            for (to_server, seq, ack, flags, len, missing) in segments {
                let direction = if to_server { ToServer } else { ToClient };
                let mut segment = rig.segment(direction, 0, &vec![0; len]);
                segment.seq = if near { seq % 200 } else { seq };
                segment.ack = ack.map(|ack| if near { ack % 200 } else { ack });
                segment.missing = usize::from(missing) % 100;
                (segment.syn, segment.fin, segment.rst) = (flags & 1 != 0, flags & 2 != 0, flags == 4);
                rig.handle(segment);
                rig.take();
            }
            rig.connections.finish(&mut rig.events);
            rig.take();
            prop_assert_eq!(rig.connections.held_total, 0);
        }
    }
}
