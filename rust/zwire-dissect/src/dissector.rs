//! [`Dissector`]: chunks of a capture file in, records out.

use super::{
    follower::Follower,
    record::{Cause, Fault, Message, Protocol, Record},
    shared::{Hole, Place, Shared, StreamStep},
    zenoh::{Datagram, Datagrams},
};
use crate::capture::{CaptureReader, Connection, ConnectionId, FlowEvent, FlowStats, Flows};
use bytes::Bytes;
use core::{net::SocketAddr, time::Duration};
use hashbrown::HashMap;
use zwire_proto::{
    error::DecodeError,
    zmtp::crypto::{KeyPair, SecretKey},
    zre::{DISCOVERY_PORT, wire::Beacon},
};

/// Settings of a dissector.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ports on which every stream and datagram is taken for Zenoh, whatever its bytes look like.
    pub ports: Vec<u16>,
    /// Secrets that open CURVE boxes: one of the two transient keys of a connection and, if that is the
    /// client's, also a permanent key of the server. Each handshake is tried with each key.
    pub keys: Vec<SecretKey>,
}

/// Reads a capture file (pcap or pcapng) that arrives in chunks, and finds the Zenoh and the ZMTP in it.
///
/// After each [`push`](Self::push), and after [`finish`](Self::finish), call
/// [`poll_record`](Self::poll_record) until it gives `None`. Records hold slices of the chunks: a
/// chunk lives as long as a record of it.
pub struct Dissector {
    ports: Vec<u16>,
    reader: CaptureReader,
    flows: Flows,
    streams: HashMap<ConnectionId, Follower>,
    datagrams: Datagrams,
    shared: Shared,
    /// The connection that has just got bytes, and whether it ended.
    active: Option<(Connection, bool)>,
    /// Number of records handed out in place.
    lent: usize,
    packets: u64,
    time: Duration,
    state: DissectorState,
}

#[derive(Clone, Copy, Debug)]
enum DissectorState {
    Reading,
    /// All chunks were pushed; packets may be left.
    Finishing,
    /// All packets were read; connections may be left.
    Flushing,
    Ended,
}

impl Dissector {
    /// A dissector at the start of a file.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let keys = options.keys.into_iter().map(KeyPair::of).collect();
        Self {
            ports: options.ports,
            reader: CaptureReader::default(),
            flows: Flows::default(),
            streams: HashMap::new(),
            datagrams: Datagrams::default(),
            shared: Shared { keys, ..Shared::default() },
            active: None,
            lent: 0,
            packets: 0,
            time: Duration::ZERO,
            state: DissectorState::Reading,
        }
    }

    /// Adds the next chunk of the file.
    pub fn push(&mut self, chunk: impl Into<Bytes>) {
        self.reader.push(chunk);
    }

    /// The next record; `None` asks for the next chunk, or is the end after [`finish`](Self::finish).
    ///
    /// # Errors
    /// The file is no capture: it is empty, or its first bytes are those of no known format. Damage
    /// further on is reported as records, and the records before it are kept.
    pub fn poll_record(&mut self) -> Result<Option<Record>, DecodeError> {
        self.advance()?;
        Ok(self.shared.out.pop_front())
    }

    /// The next records (those of one batch), left in place until the next call: the fast way for
    /// callers that only look at them. Empty asks for the next chunk, as above.
    ///
    /// # Errors
    /// Same as for [`poll_record`](Self::poll_record).
    pub fn poll_records(&mut self) -> Result<&[Record], DecodeError> {
        self.advance()?;
        self.lent = self.shared.out.len();
        Ok(self.shared.out.make_contiguous())
    }

    /// Reads on until there is a record.
    fn advance(&mut self) -> Result<(), DecodeError> {
        self.shared.out.drain(..core::mem::take(&mut self.lent));
        while self.shared.out.is_empty() {
            if self.active.is_some() {
                self.step();
            } else if let Some(event) = self.flows.poll_event() {
                self.handle_event(event);
            } else if !self.read_packet()? && !self.end()? {
                break;
            }
        }
        Ok(())
    }

    /// Marks the end of the file; poll on for the last records.
    pub const fn finish(&mut self) {
        if matches!(self.state, DissectorState::Reading) {
            self.state = DissectorState::Finishing;
        }
    }

    /// Number of bytes of the file that were read so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Packet counters.
    #[must_use]
    pub fn flow_stats(&self) -> FlowStats {
        self.flows.stats()
    }

    /// Reads the rest after the last packet; `false` if nothing is left to read now.
    fn end(&mut self) -> Result<bool, DecodeError> {
        match self.state {
            DissectorState::Reading | DissectorState::Ended => return Ok(false),
            DissectorState::Finishing => {
                self.state = DissectorState::Flushing;
                let nothing = self.reader.position() == 0;
                if let Err(error) = self.reader.finish() {
                    if nothing {
                        return Err(error);
                    }
                    self.damaged(error);
                }
                self.flows.finish();
            }
            DissectorState::Flushing => {
                self.state = DissectorState::Ended;
                self.datagrams.finish(&mut self.shared);
            }
        }
        Ok(true)
    }

    /// Reads a packet; `false` if none is complete.
    fn read_packet(&mut self) -> Result<bool, DecodeError> {
        match self.reader.poll_packet() {
            Ok(None) => return Ok(false),
            Ok(Some(packet)) => {
                self.packets += 1;
                self.time = packet.timestamp;
                // A packet that does not decode is only counted: its connection is unknown.
                let _ = self.flows.handle_packet(&packet);
            }
            Err(error) if self.packets == 0 && self.reader.is_broken() => return Err(error),
            Err(error) => self.damaged(error),
        }
        Ok(true)
    }

    fn damaged(&mut self, error: DecodeError) {
        let offset = error.offset as u64;
        let cause = Cause::Capture(error);
        self.shared.out.push_back(Record {
            time: self.time,
            src: None,
            dst: None,
            sn: None,
            prefix: None,
            message: Message::Error(Fault { protocol: None, offset, cause }),
        });
    }

    fn is_forced(&self, a: SocketAddr, b: SocketAddr) -> bool {
        self.ports.contains(&a.port()) || self.ports.contains(&b.port())
    }

    fn handle_event(&mut self, event: FlowEvent) {
        match event {
            FlowEvent::Open { connection, from_start, .. } => {
                let forced = self.is_forced(connection.client, connection.server);
                self.streams.insert(connection.id, Follower::new(connection, from_start, forced));
            }
            FlowEvent::Data { timestamp, connection, direction, data, .. } => {
                let handle =
                    |stream: &mut Follower, _: &mut _| stream.handle_data(timestamp, direction, data);
                if self.with_stream(&connection, handle).is_some() {
                    self.active = Some((connection, false));
                }
            }
            FlowEvent::Gap { timestamp: time, connection, direction, offset, missing: bytes } => {
                let hole = Hole { time, direction, offset, bytes };
                self.with_stream(&connection, |stream, shared| stream.handle_gap(hole, shared));
            }
            FlowEvent::Close { connection, .. } => self.active = Some((connection, true)),
            FlowEvent::Datagram { timestamp, src, dst, data, missing } => {
                let forced = self.is_forced(src, dst);
                let datagram = Datagram { time: timestamp, src, dst, data, missing };
                if forced || !self.beacon(&datagram) {
                    self.datagrams.handle(datagram, forced, &mut self.shared);
                }
            }
        }
    }

    /// Whether a datagram belongs to the discovery of ZRE.
    fn beacon(&mut self, datagram: &Datagram) -> bool {
        let Datagram { time, src, dst, ref data, .. } = *datagram;
        if !data.starts_with(b"ZRE") {
            return false;
        }
        let place = Place { time, src, dst, offset: 0 };
        let record = match Beacon::decode(data) {
            Ok(beacon) => place.record(Message::Beacon(beacon)),
            // Datagrams to other ports belong to other protocols.
            Err(_) if ![src.port(), dst.port()].contains(&DISCOVERY_PORT) => return false,
            Err(error) => place.fault_of(Protocol::Zre, error.offset as u64, Cause::Decode(error)),
        };
        self.shared.out.push_back(record);
        true
    }

    fn step(&mut self) {
        let Some((connection, ended)) = self.active else { return };
        let step = self.with_stream(&connection, |stream, shared| stream.step(ended, shared));
        if step == Some(StreamStep::Again) {
            return;
        }
        self.active = None;
        let foreign = step == Some(StreamStep::Foreign);
        if foreign {
            self.flows.ignore(&connection);
        }
        if (foreign || ended)
            && let Some(mut stream) = self.streams.remove(&connection.id)
        {
            self.shared.release(stream.waiting());
            stream.forget(&mut self.shared);
        }
    }

    /// Runs `act` on the stream of a connection, and counts the bytes that wait in it; `None` if it has none.
    fn with_stream<R>(
        &mut self,
        connection: &Connection,
        act: impl FnOnce(&mut Follower, &mut Shared) -> R,
    ) -> Option<R> {
        let stream = self.streams.get_mut(&connection.id)?;
        let before = stream.waiting();
        let result = act(stream, &mut self.shared);
        self.shared.release(before);
        self.shared.claim(stream.waiting());
        Some(result)
    }
}
