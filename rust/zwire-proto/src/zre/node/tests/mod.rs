//! Nodes on a simulated network: virtual time and seeded loss; no other randomness.

mod bounds;
mod conformance;
mod elections;
mod generations;
mod groups;
mod liveness;
mod logs;
mod named;
mod rfc20;
mod rfc36;
mod sessions;
mod sim;
mod strict;
mod trust;

use super::*;
use crate::{
    fuzzing::mutated::Random,
    zre::{
        Generations, limits,
        wire::{Beacon, IdentityForm, Log, LogEvent, log_hash},
    },
};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

impl Random {
    fn percent(&mut self, percent: u64) -> bool {
        (self.next() >> 32) % 100 < percent
    }
}

struct Place {
    node: ZreNode,
    up: bool,
    /// Only places of the same part of the network reach each other.
    part: u32,
    events: Vec<ZreEvent>,
    dealers: HashMap<DealerId, Route>,
    /// The newest connection of each identity: it takes over.
    inbound: HashMap<Bytes, u64>,
    /// Frames of ZRE/LOG, and the endpoints of the PUB.
    logs: Vec<Bytes>,
    collectors: BTreeSet<Bytes>,
    datagrams: u64,
    /// Number of peers according to its events.
    peers: usize,
    /// The latest timer.
    timer: Option<Duration>,
}

/// Target of an open DEALER.
struct Route {
    endpoint: Bytes,
    identity: Bytes,
    /// Connections are numbered in the order of their opening.
    connection: u64,
    /// Messages that wait for the connection.
    waiting: Option<Vec<Vec<Bytes>>>,
}

/// Message on the way to a ROUTER.
struct Flight {
    at: Duration,
    number: u64,
    to: usize,
    from: usize,
    connection: u64,
    identity: Bytes,
    frames: Vec<Bytes>,
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Flight {}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

struct World {
    now: Duration,
    places: Vec<Place>,
    by_endpoint: HashMap<Bytes, usize>,
    /// Results of name resolution.
    names: HashMap<Bytes, Vec<core::net::SocketAddr>>,
    /// DEALERs that are not connected yet.
    connecting: Vec<(usize, DealerId)>,
    flights: BinaryHeap<Reverse<Flight>>,
    timers: BinaryHeap<Reverse<(Duration, usize)>>,
    sent: u64,
    connections: u64,
    random: Random,
    /// Percentage of datagrams, and of messages, that are lost silently.
    datagram_loss: u64,
    message_loss: u64,
    /// Delay of a message.
    latency: Duration,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn uuid(number: usize) -> Uuid {
    let mut bytes = [1; 16];
    bytes[8..].copy_from_slice(&(number as u64).to_be_bytes());
    Uuid::from_bytes(bytes)
}

fn config(number: usize, generations: Generations) -> ZreNodeConfig {
    let address = core::net::Ipv4Addr::from_bits(0x0a00_0000 + 1 + number as u32);
    let interface = Interface { address: address.into(), prefix: 8 };
    ZreNodeConfig { generations, interfaces: vec![interface], ..ZreNodeConfig::new(uuid(number)) }
}

impl World {
    fn new() -> Self {
        Self {
            now: Duration::ZERO,
            places: Vec::new(),
            by_endpoint: HashMap::new(),
            names: HashMap::new(),
            connecting: Vec::new(),
            flights: BinaryHeap::new(),
            timers: BinaryHeap::new(),
            sent: 0,
            connections: 0,
            random: Random(0x9e37_79b9_7f4a_7c15),
            datagram_loss: 0,
            message_loss: 0,
            latency: ms(1),
        }
    }

    /// A network of so many nodes of 36/ZRE.
    fn of(count: usize) -> Self {
        let mut world = Self::new();
        (0..count).for_each(|number| _ = world.add(config(number, Generations::default())));
        world
    }

    fn add(&mut self, config: ZreNodeConfig) -> usize {
        let node = ZreNode::new(self.now(), config).unwrap();
        let place = self.places.len();
        self.by_endpoint.insert(node.own_endpoint(None), place);
        self.places.push(Place {
            node,
            up: true,
            part: 0,
            events: Vec::new(),
            dealers: HashMap::new(),
            inbound: HashMap::new(),
            logs: Vec::new(),
            collectors: BTreeSet::new(),
            datagrams: 0,
            peers: 0,
            timer: None,
        });
        self.drain(place);
        place
    }

    fn now(&self) -> Now {
        Now { mono: self.now, wall: self.now + Duration::from_secs(1_800_000_000) }
    }

    /// Ends the process at a place without a goodbye.
    fn kill(&mut self, place: usize) {
        self.places[place].up = false;
    }

    /// Starts another process at the same place.
    fn restart(&mut self, place: usize, config: ZreNodeConfig) {
        let now = self.now();
        let at = &mut self.places[place];
        at.node = ZreNode::new(now, config).unwrap();
        at.up = true;
        at.peers = 0;
        at.dealers.clear();
        at.inbound.clear();
        self.drain(place);
    }

    fn act<R>(&mut self, place: usize, act: impl FnOnce(&mut ZreNode, Now) -> R) -> R {
        let now = self.now();
        let result = act(&mut self.places[place].node, now);
        self.drain(place);
        result
    }

    fn drain(&mut self, place: usize) {
        let mut resolve = Vec::new();
        while let Some(action) = self.places[place].node.poll_action() {
            let at = &mut self.places[place];
            match action {
                Action::Connect { dealer, endpoint, identity, .. } => {
                    self.connections += 1;
                    let connection = self.connections;
                    let route = Route { endpoint, identity, connection, waiting: Some(Vec::new()) };
                    assert!(at.dealers.insert(dealer, route).is_none());
                    self.connecting.push((place, dealer));
                }
                Action::Resolve { endpoint } => resolve.push(endpoint),
                Action::Disconnect { dealer } => assert!(at.dealers.remove(&dealer).is_some()),
                Action::Send { dealer, frames, .. } => {
                    let route = at.dealers.get_mut(&dealer).unwrap();
                    match &mut route.waiting {
                        Some(waiting) => waiting.push(frames),
                        None => self.send(place, dealer, frames),
                    }
                }
                Action::Beacon { datagram, .. } => self.broadcast(place, &datagram),
                Action::ConnectLog { endpoint } => assert!(at.collectors.insert(endpoint)),
                Action::DisconnectLog { endpoint } => assert!(at.collectors.remove(&endpoint)),
                Action::Log { frame } => at.logs.push(frame),
            }
        }
        for endpoint in resolve {
            let addresses = self.names.get(&endpoint).cloned().unwrap_or_default();
            self.act(place, |node, now| node.handle_resolved(now, &endpoint, &addresses));
        }
        let at = &mut self.places[place];
        while let Some(event) = at.node.poll_event() {
            match event.kind {
                EventKind::Enter { .. } => at.peers += 1,
                EventKind::Exit => at.peers -= 1,
                _ => {}
            }
            at.events.push(event);
        }
        if let Some(due) = at.node.poll_timeout()
            && at.timer != Some(due)
        {
            at.timer = Some(due);
            self.timers.push(Reverse((due, place)));
        }
    }

    fn send(&mut self, place: usize, dealer: DealerId, frames: Vec<Bytes>) {
        let Route { endpoint, identity, connection, .. } = &self.places[place].dealers[&dealer];
        let Some(to) = self.by_endpoint.get(endpoint).copied() else { return };
        self.sent += 1;
        if self.message_loss > 0 && self.random.percent(self.message_loss) {
            return;
        }
        let (at, number, connection) = (self.now + self.latency, self.sent, *connection);
        let identity = identity.clone();
        self.flights.push(Reverse(Flight { at, number, to, from: place, connection, identity, frames }));
    }

    /// Connects DEALERs with reachable peers.
    fn connect(&mut self) {
        for (place, dealer) in core::mem::take(&mut self.connecting) {
            let Some(route) = self.places[place].dealers.get_mut(&dealer) else { continue };
            let Some(to) = self.by_endpoint.get(&route.endpoint).copied() else { continue };
            let (from, to) = (&self.places[place], &self.places[to]);
            if !to.up || to.part != from.part {
                self.connecting.push((place, dealer));
                continue;
            }
            let route = self.places[place].dealers.get_mut(&dealer).unwrap();
            for frames in route.waiting.take().into_iter().flatten() {
                self.send(place, dealer, frames);
            }
            self.act(place, |node, now| node.handle_dealer_connected(now, dealer));
        }
    }

    fn broadcast(&mut self, from: usize, datagram: &Bytes) {
        let (part, source) = (self.places[from].part, self.places[from].node.config.interfaces[0].address);
        self.places[from].datagrams += 1;
        for to in 0..self.places.len() {
            let lost = self.datagram_loss > 0 && self.random.percent(self.datagram_loss);
            if self.places[to].up && self.places[to].part == part && !lost {
                let now = self.now();
                self.places[to].node.handle_beacon(now, source, datagram);
                if to != from {
                    self.drain(to);
                }
            }
        }
    }

    fn deliver(&mut self, flight: Flight) {
        let Flight { to, from, connection, identity, frames, .. } = flight;
        let at = &mut self.places[to];
        if !at.up || at.part != self.places[from].part {
            return;
        }
        let at = &mut self.places[to];
        let newest = at.inbound.entry(identity.clone()).or_insert(connection);
        if connection < *newest {
            return;
        }
        *newest = connection;
        // A node connects from the address that it announces in the network of the other one.
        let address = ip_of(&self.places[from].node.own_endpoint(ip_of(&self.places[to].node.endpoint())));
        let origin = Origin { address, key: None };
        self.act(to, |node, now| node.handle_message_by(now, &identity, &origin, &frames));
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.connect();
            let flight = self.flights.peek().map(|Reverse(flight)| flight.at);
            let timer = self.timers.peek().map(|Reverse((at, _))| *at);
            let Some(next) = [flight, timer].into_iter().flatten().min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if flight == Some(next) {
                let Some(Reverse(flight)) = self.flights.pop() else { break };
                self.deliver(flight);
            } else if let Some(Reverse((at, place))) = self.timers.pop() {
                let timer = &mut self.places[place].timer;
                _ = timer.take_if(|timer| *timer == at);
                let due = self.places[place].node.poll_timeout().is_some_and(|at| at <= self.now);
                if due && self.places[place].up {
                    self.act(place, |node, now| node.handle_timeout(now));
                }
            }
        }
        self.now = end;
    }

    /// The events at a place since the last call, as short texts.
    fn events(&mut self, place: usize) -> Vec<String> {
        let events = core::mem::take(&mut self.places[place].events);
        let number = |peer: &Uuid| u64::from_be_bytes(peer.as_bytes()[8..].try_into().unwrap());
        let text = |content: &[Bytes]| {
            content
                .iter()
                .map(|frame| String::from_utf8_lossy(frame).into_owned())
                .collect::<Vec<_>>()
                .join("|")
        };
        events
            .iter()
            .map(|event| {
                let what = match &event.kind {
                    EventKind::Enter { .. } => "ENTER".to_owned(),
                    EventKind::Exit => "EXIT".to_owned(),
                    EventKind::Evasive => "EVASIVE".to_owned(),
                    EventKind::Silent => "SILENT".to_owned(),
                    EventKind::Join { group } => format!("JOIN {group}"),
                    EventKind::Leave { group } => format!("LEAVE {group}"),
                    EventKind::Whisper { content } => format!("WHISPER {}", text(content)),
                    EventKind::Shout { group, content } => format!("SHOUT {group} {}", text(content)),
                    EventKind::MessagesLost { lost } => format!("LOST {lost}"),
                    EventKind::Leader { group } => format!("LEADER {group}"),
                    EventKind::Stop => "STOP".to_owned(),
                };
                format!("{} {what}", number(&event.peer))
            })
            .collect()
    }

    /// Whether every node has all other nodes of its part as peers, and no others.
    fn is_whole(&self) -> bool {
        let mut parts = BTreeMap::<u32, usize>::new();
        self.places
            .iter()
            .filter(|place| place.up)
            .for_each(|place| *parts.entry(place.part).or_default() += 1);
        let sees_all = |place: &Place| !place.up || place.peers == parts[&place.part] - 1;
        let whole = self.places.iter().all(sees_all);
        // Events and the table of peers must agree.
        assert!(
            !whole || self.places.iter().all(|place| !place.up || place.node.peers().count() == place.peers)
        );
        whole
    }
}

/// A single node without a network: tests hand in messages and examine the actions.
struct Bench {
    node: ZreNode,
    now: Duration,
}

impl Bench {
    fn new(config: ZreNodeConfig) -> Self {
        Self { node: ZreNode::new(Now::default(), config).unwrap(), now: Duration::ZERO }
    }

    fn at(&self) -> Now {
        Now { mono: self.now, wall: self.now }
    }

    /// Hands in a message of the peer of that number.
    fn hear(&mut self, peer: usize, generation: Generation, sequence: u16, body: Body) {
        let frames = ZreMessage { sequence, body }.encode(generation).unwrap();
        self.hear_frames(peer, generation, &frames);
    }

    fn hear_frames(&mut self, peer: usize, generation: Generation, frames: &[Bytes]) {
        let identity = IdentityForm::of(generation).encode(&uuid(peer));
        self.node.handle_message(self.at(), &identity, frames);
    }

    /// Hands in a HELLO of the peer of that number, on a connection from that address.
    fn hear_from(&mut self, address: [u8; 4], peer: usize, generation: Generation, hello: Hello) {
        let frames = ZreMessage { sequence: 1, body: Body::Hello(hello) }.encode(generation).unwrap();
        let identity = IdentityForm::of(generation).encode(&uuid(peer));
        let origin = Origin { address: Some(address.into()), key: None };
        self.node.handle_message_by(self.at(), &identity, &origin, &frames);
    }

    /// Endpoints that the node has asked to connect to.
    fn connects(&mut self) -> Vec<String> {
        let endpoint = |action| match action {
            Action::Connect { endpoint, .. } | Action::ConnectLog { endpoint } => {
                Some(String::from_utf8_lossy(&endpoint).into_owned())
            }
            _ => None,
        };
        self.actions().into_iter().filter_map(endpoint).collect()
    }

    fn hear_beacon(&mut self, peer: usize, port: u16) {
        let datagram = Beacon { uuid: uuid(peer), port, public_key: None }.encode();
        let source = core::net::Ipv4Addr::from_bits(0x0a00_0001 + peer as u32);
        self.node.handle_beacon(self.at(), source.into(), &datagram);
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.node.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.node.handle_timeout(self.at());
        }
        self.now = end;
    }

    fn actions(&mut self) -> Vec<Action> {
        core::iter::from_fn(|| self.node.poll_action()).collect()
    }

    /// Messages sent to peers, decoded in a generation.
    fn sent(&mut self, generation: Generation) -> Vec<ZreMessage> {
        let read = |action| match action {
            Action::Send { frames, .. } => Some(ZreMessage::decode(generation, &frames).unwrap()),
            _ => None,
        };
        self.actions().into_iter().filter_map(read).collect()
    }

    fn kinds(&mut self) -> Vec<EventKind> {
        core::iter::from_fn(|| self.node.poll_event()).map(|event| event.kind).collect()
    }
}

fn octets(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// The HELLO of the peer of that number.
fn hello_of(peer: usize, generation: Generation) -> Hello {
    let ip = core::net::Ipv4Addr::from_bits(0x0a00_0001 + peer as u32).to_string();
    let address = match generation.is_legacy() {
        true => Address::Mailbox { ip: ip.into(), port: 49152 },
        false => Address::Endpoint(format!("tcp://{ip}:49152").into()),
    };
    let name = if generation.is_legacy() { Bytes::new() } else { octets("peer") };
    Hello { address, groups: vec![octets("G")], status: 1, name, headers: vec![] }
}

const G20: Generation = Generation::Rfc20;
const G10: Generation = Generation::Zyre1;
const G36: Generation = Generation::Rfc36;
const G43: Generation = Generation::Rfc43;
