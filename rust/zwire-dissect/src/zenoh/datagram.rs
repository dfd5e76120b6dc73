//! [`Datagrams`]: scouting, sessions over UDP, and multicast groups.

use super::{
    limits::{MAX_DATAGRAM_SESSIONS, MAX_HELD_DATAGRAMS, MAX_SCOUTS},
    plausible::{Proof, Run},
    record::{Cause, Message},
    session::{Format, ZenohSession, is_init},
    shared::{Place, Shared},
    socket::{extend, format_of},
};
use bytes::Bytes;
use core::{net::SocketAddr, time::Duration};
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;
use zwire_proto::{
    buf::Reader,
    zenoh::{
        VERSION,
        wire::{ScoutingMessage, TransportMessage},
    },
};

const SCOUTING_PORT: u16 = 7446;

/// State of all Zenoh traffic in datagrams.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    sessions: HashMap<SessionEnds, ZenohSession>,
    age: VecDeque<SessionEnds>,
    undecided: HashMap<SessionEnds, Undecided>,
    held: usize,
    /// Groups in which a JOIN was seen.
    groups: HashSet<SocketAddr>,
    scouts: HashSet<SocketAddr>,
    time: Duration,
}

/// The two ends of a session, the smaller address first; of a multicast session sender and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SessionEnds(SocketAddr, SocketAddr);

/// Evidence for scouting beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Port,
    /// A group, or an address that has sent SCOUT.
    Address,
    None,
}

#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) time: Duration,
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    pub(crate) data: Bytes,
    pub(crate) missing: usize,
}

#[derive(Debug, Default)]
struct Undecided {
    run: Run,
    held: Vec<Datagram>,
}

impl Datagram {
    fn pair(&self) -> (SessionEnds, usize) {
        if self.dst.ip().is_multicast() || self.src < self.dst {
            (SessionEnds(self.src, self.dst), 0)
        } else {
            (SessionEnds(self.dst, self.src), 1)
        }
    }

    fn place(&self) -> Place {
        Place { time: self.time, src: self.src, dst: self.dst, offset: 0 }
    }
}

impl Datagrams {
    /// Takes in a datagram; `forced`: it is Zenoh whatever its bytes look like.
    pub(crate) fn handle(&mut self, datagram: Datagram, forced: bool, shared: &mut Shared) {
        self.time = datagram.time;
        let (pair, _) = datagram.pair();
        let multicast = datagram.dst.ip().is_multicast();
        let scouting_port = datagram.dst.port() == SCOUTING_PORT || datagram.src.port() == SCOUTING_PORT;
        let sign = if scouting_port {
            Sign::Port
        } else if multicast || self.scouts.contains(&datagram.dst) {
            Sign::Address
        } else {
            Sign::None
        };
        if !self.sessions.contains_key(&pair) && self.scouting(&datagram, sign, shared) {
            return;
        }
        if is_init(&datagram.data) {
            // A new session may reuse the addresses.
            let (_, side) = datagram.pair();
            let again = self.sessions.get(&pair).is_some_and(|session| session.sides[side].open);
            if again && let Some(mut old) = self.sessions.remove(&pair) {
                old.finish(Some([datagram.place(); 2]), shared);
                self.age.retain(|other| *other != pair);
            }
            self.begin(pair, ZenohSession::of_datagrams(), shared);
        }
        let joins = multicast && is_join(&datagram.data);
        if joins && self.groups.len() < MAX_DATAGRAM_SESSIONS {
            self.groups.insert(datagram.dst);
        }
        if joins || multicast && self.groups.contains(&datagram.dst) {
            self.open(pair, Some(Format::Plain), shared);
        } else if forced {
            self.open(pair, None, shared);
        }
        if self.sessions.contains_key(&pair) {
            self.batch(datagram, shared);
        } else {
            self.guess(pair, datagram, shared);
        }
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        self.age.iter().map(|pair| (pair.0, pair.1))
    }

    pub(crate) fn finish(&mut self, shared: &mut Shared) {
        while let Some(pair) = self.age.pop_front() {
            self.end(pair, shared);
        }
    }

    /// Handles a message of scouting; `false` if the datagram is none.
    fn scouting(&mut self, datagram: &Datagram, sign: Sign, shared: &mut Shared) -> bool {
        let mut reader = Reader::new(&datagram.data);
        let message = match ScoutingMessage::decode(&mut reader) {
            Ok(ScoutingMessage::Scout(scout)) => {
                let exact = scout.version == VERSION && reader.is_empty();
                if sign == Sign::None || (sign == Sign::Address && !exact) {
                    return false;
                }
                if self.scouts.len() >= MAX_SCOUTS {
                    self.scouts.clear();
                }
                self.scouts.insert(datagram.src);
                Message::Scout(scout)
            }
            Ok(ScoutingMessage::Hello(hello)) => {
                let exact = hello.version == VERSION && reader.is_empty();
                let located = !hello.locators.is_empty() && hello.locators.iter().all(|l| l.contains('/'));
                if (sign != Sign::Port && !exact) || (sign == Sign::None && !located) {
                    return false;
                }
                Message::Hello(hello)
            }
            Err(error) => {
                // Only datagrams with the version of Zenoh are reported: others are of other protocols.
                let ours = sign == Sign::Port && datagram.data.get(1) == Some(&VERSION);
                if ours {
                    let offset = error.offset as u64;
                    shared.out.push_back(datagram.place().fault(offset, Cause::Decode(error)));
                }
                return ours;
            }
        };
        shared.out.push_back(datagram.place().record(message));
        true
    }

    fn batch(&mut self, datagram: Datagram, shared: &mut Shared) {
        let (pair, side) = datagram.pair();
        let place = datagram.place();
        let Some(session) = self.sessions.get_mut(&pair) else { return };
        if datagram.missing > 0 {
            let (offset, bytes) = (datagram.data.len() as u64, datagram.missing as u64);
            shared.out.push_back(place.fault(offset, Cause::Missing { bytes }));
        }
        if session.format(side).is_none()
            && let Some(format) = format_of(&datagram.data, &mut shared.decompressor)
        {
            session.guess = Some(format);
        }
        session.handle_batch(side, datagram.data, place, shared);
    }

    /// Holds back datagrams that look like Zenoh until a run of them is proof.
    fn guess(&mut self, pair: SessionEnds, datagram: Datagram, shared: &mut Shared) {
        let mut undecided = self.undecided.remove(&pair).unwrap_or_default();
        self.held -= undecided.held.len();
        let Some((run, format)) = extend(undecided.run, &datagram.data, &mut shared.decompressor) else {
            return;
        };
        undecided.run = run;
        undecided.held.push(datagram);
        if run.proves(Proof::STRANGER) {
            self.open(pair, Some(format), shared);
            for datagram in undecided.held {
                self.batch(datagram, shared);
            }
            return;
        }
        if self.held + undecided.held.len() > MAX_HELD_DATAGRAMS {
            // Flows that keep looking like Zenoh without proof are rare; start over with all of them.
            self.undecided.clear();
            self.held = 0;
            return;
        }
        self.held += undecided.held.len();
        self.undecided.insert(pair, undecided);
    }

    /// Opens a session without a handshake; without a format its batches must tell it.
    fn open(&mut self, pair: SessionEnds, format: Option<Format>, shared: &mut Shared) {
        if !self.sessions.contains_key(&pair) {
            let mut session = ZenohSession::of_datagrams();
            session.pass_handshake(format);
            self.begin(pair, session, shared);
        }
    }

    fn begin(&mut self, pair: SessionEnds, session: ZenohSession, shared: &mut Shared) {
        if self.sessions.contains_key(&pair) {
            return;
        }
        if self.age.len() >= MAX_DATAGRAM_SESSIONS
            && let Some(oldest) = self.age.pop_front()
        {
            self.end(oldest, shared);
        }
        self.age.push_back(pair);
        self.sessions.insert(pair, session);
    }

    fn end(&mut self, pair: SessionEnds, shared: &mut Shared) {
        let Some(mut session) = self.sessions.remove(&pair) else { return };
        let place = |src, dst| Place { time: self.time, src, dst, offset: 0 };
        session.finish(Some([place(pair.0, pair.1), place(pair.1, pair.0)]), shared);
    }
}

fn is_join(data: &Bytes) -> bool {
    let mut reader = Reader::new(data);
    match TransportMessage::decode(&mut reader) {
        Ok(TransportMessage::Join(join)) => join.version == VERSION && reader.is_empty(),
        _ => false,
    }
}
