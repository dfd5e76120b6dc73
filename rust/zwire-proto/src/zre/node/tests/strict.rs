//! No message that kills a real peer (`zre` 21) leaves a node: simulated peers check all that a node
//! sends them as strictly as the strictest real implementation, and die where that one dies. Whatever
//! the application commands, whatever peers do and whichever connections break, none may die.

use super::*;
use crate::zre::wire::MessageId;
use proptest::prelude::*;

/// Implementation that a peer imitates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// zyre of March 2014 with the encoding of RFC 20.
    Zyre20,
    /// zyre 1.0.0.
    Zyre1,
    /// zyre 2.0.1 and later.
    Zyre2,
    /// pyre.
    Pyre,
}

impl Kind {
    fn generation(self) -> Generation {
        match self {
            Self::Zyre20 => G20,
            Self::Zyre1 => G10,
            Self::Zyre2 | Self::Pyre => G36,
        }
    }
}

/// State that a peer keeps of the node.
#[derive(Debug)]
struct Known {
    /// Expected number, after the node's HELLO.
    expected: Option<u16>,
    status: u8,
    groups: BTreeSet<Bytes>,
    heard: Duration,
    /// The number of the next message to it.
    sequence: u16,
    /// The status last sent to the peer.
    told: u8,
}

/// A simulated peer with the behaviour described in the document.
#[derive(Debug)]
struct Strict {
    kind: Kind,
    number: usize,
    known: Option<Known>,
    /// zyre 2.0.1 sends ELECT once this is set, which tells the node that it supports drafts.
    drafts: bool,
    /// Number of starts.
    lives: usize,
    /// Whether the node is configured to speak its generation. A node with only 36/ZRE has no sessions
    /// with peers of 2014, and crashes them once it has some dozen groups, as zyre does.
    met: bool,
}

impl Strict {
    fn uuid(&self) -> Uuid {
        uuid(self.number + 100 * self.lives)
    }

    /// Silence after which the peer removes the node.
    fn expiry(&self) -> Duration {
        Duration::from_secs(if self.kind.generation().is_legacy() { 10 } else { 30 })
    }

    fn expire(&mut self, now: Duration) {
        let expiry = self.expiry();
        self.known.take_if(|known| known.heard + expiry <= now);
    }

    /// Handles a message that arrived; returns whether a HELLO must be answered with one. Panics where
    /// the process of the peer would abort, or would lose the session.
    fn receive(&mut self, now: Duration, identity: &Bytes, frames: &[Bytes]) -> bool {
        let generation = self.kind.generation();
        let form = IdentityForm::of(generation);
        if identity != &form.encode(&uuid(0)) {
            // Ignored, as long as only HELLO comes before the peer has sent one (15.2). pyre decodes
            // every message with an identity of its own generation.
            assert!(generation.is_legacy() || identity.len() == 16, "no identity: {identity:?}");
            // zyre of 2014 reads 17 octets as 16, and decodes as a HELLO whatever looks like one.
            let looks = ZreMessage::decode(generation, frames)
                .is_ok_and(|message| message.body.id() == MessageId::HELLO);
            assert!(!looks || !self.met, "a HELLO of another generation that can be read");
            return false;
        }
        let ready = self.known.as_ref().is_some_and(|known| known.expected.is_some());
        let message = match ZreMessage::decode(generation, frames) {
            Ok(message) => message,
            // zyre 1.0.0 drops the HELLO of 20/ZRE as malformed; the other way it aborts (15.2).
            Err(_) if self.kind == Kind::Zyre1 && !ready => {
                assert!(
                    ZreMessage::decode(G20, frames)
                        .is_ok_and(|message| message.body.id() == MessageId::HELLO)
                );
                return false;
            }
            Err(error) => panic!("{:?} dies: {error}: {frames:?}", self.kind),
        };
        assert_eq!(message.encode(generation).unwrap(), frames, "to the last octet");
        let content = matches!(message.body.id(), MessageId::WHISPER | MessageId::SHOUT);
        assert_eq!(frames.len() > 1, content, "{:?} is corrupted by {frames:?}", self.kind);
        assert!(self.kind != Kind::Zyre20 || frames.len() <= 2);
        if message.body.id().0 > MessageId::PING_OK.0 {
            assert!(self.kind == Kind::Zyre2 && self.drafts, "{:?} does not know {message:?}", self.kind);
        }
        if let Body::Hello(hello) = message.body {
            assert_eq!(message.sequence, 1);
            assert!(!ready || self.kind != Kind::Zyre20, "a second HELLO aborts it");
            let text = |octets: &Bytes| core::str::from_utf8(octets).is_ok_and(|text| !text.contains('\0'));
            assert!(hello.groups.iter().all(|group| text(group) && !group.is_empty() && group.len() < 256));
            assert!(text(&hello.name) && hello.headers.iter().all(|(name, value)| text(name) && text(value)));
            // A peer that was ready is created anew, and gets another HELLO.
            let answer = ready || self.known.is_none();
            let known = self.known.take().filter(|_| !ready);
            let (sequence, told) = known.map_or((1, 0), |known| (known.sequence, known.told));
            let groups = hello.groups.into_iter().collect();
            let (expected, heard) = (Some(2), now);
            self.known = Some(Known { expected, status: hello.status, groups, heard, sequence, told });
            return answer;
        }
        // A peer that has removed the node ignores everything before HELLO.
        let Some(known) = &mut self.known else { return false };
        let Some(expected) = &mut known.expected else { return false };
        assert_eq!(message.sequence, *expected, "{:?} aborts or drops the session", self.kind);
        *expected = expected.wrapping_add(1);
        known.heard = now;
        if let Body::Join { group, status } | Body::Leave { group, status } = &message.body {
            known.status = known.status.wrapping_add(1);
            assert_eq!(known.status, *status, "{:?} aborts at a wrong status", self.kind);
            let joined = matches!(message.body, Body::Join { .. });
            let changed =
                if joined { known.groups.insert(group.clone()) } else { known.groups.remove(group) };
            assert!(changed, "joined twice, or left what it is not in");
        }
        false
    }

    /// The next message of its session to the node.
    fn say(&mut self, body: Body) -> Option<Vec<Bytes>> {
        let generation = self.kind.generation();
        let known = self.known.as_mut()?;
        let sequence = known.sequence;
        known.sequence = match (self.kind, sequence) {
            (Kind::Pyre, 65534) => 0,
            _ => sequence.wrapping_add(1),
        };
        let body = match body {
            Body::Join { group, .. } => {
                known.told = known.told.wrapping_add(1);
                Body::Join { group, status: known.told }
            }
            Body::Leave { group, .. } => {
                known.told = known.told.wrapping_add(1);
                Body::Leave { group, status: known.told }
            }
            other => other,
        };
        Some(ZreMessage { sequence, body }.encode(generation).unwrap())
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A beacon of the peer arrives.
    Beacon(usize),
    /// The peer stops, and another one starts at the same place.
    Restart(usize, bool),
    /// The peer dies, and another one starts.
    Crash(usize),
    /// The peer sends a message.
    Say(usize, u8),
    /// A message of the peer is lost.
    Lose(usize),
    /// Connections to the peer break and messages on the way are lost; or the peer closes them.
    Break(usize, bool),
    /// The queue to the peer is full from now on.
    Full(usize),
    Connected,
    Join(u8),
    /// Joins enough groups to make HELLO large.
    JoinMany,
    Leave(u8),
    Whisper(usize, usize),
    Shout(u8, usize),
    Contest(u8),
    Endpoint(usize),
    Interfaces,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let peer = || 0..4_usize;
    let step = prop_oneof![
        4 => peer().prop_map(Step::Beacon),
        1 => (peer(), any::<bool>()).prop_map(|(peer, same)| Step::Restart(peer, same)),
        1 => peer().prop_map(Step::Crash),
        6 => (peer(), any::<u8>()).prop_map(|(peer, what)| Step::Say(peer, what)),
        1 => peer().prop_map(Step::Lose),
        1 => (peer(), any::<bool>()).prop_map(|(peer, ended)| Step::Break(peer, ended)),
        1 => peer().prop_map(Step::Full),
        2 => Just(Step::Connected),
        4 => any::<u8>().prop_map(Step::Join),
        1 => Just(Step::JoinMany),
        3 => any::<u8>().prop_map(Step::Leave),
        3 => (peer(), 1..3_usize).prop_map(|(peer, frames)| Step::Whisper(peer, frames)),
        3 => (any::<u8>(), 0..3_usize).prop_map(|(group, frames)| Step::Shout(group, frames)),
        1 => any::<u8>().prop_map(Step::Contest),
        1 => peer().prop_map(Step::Endpoint),
        1 => Just(Step::Interfaces),
        4 => prop_oneof![0..400_u64, 900..1100_u64, 0..40_000_u64].prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..60)
}

fn group(number: u8) -> Text {
    Text::from(
        ["A", "b", "Gruppe ä", "", "nul\0", &"x".repeat(255), &"y".repeat(256)][usize::from(number) % 7],
    )
}

/// An open DEALER of the node.
struct Open {
    peer: Option<usize>,
    identity: Bytes,
    /// No more messages arrive.
    broken: bool,
    /// HELLO was the first message.
    greeted: bool,
}

struct Arena {
    bench: Bench,
    peers: Vec<Strict>,
    open: BTreeMap<DealerId, Open>,
    full: BTreeSet<usize>,
    /// HELLO messages that peers owe.
    owed: VecDeque<usize>,
}

fn place(peer: usize) -> Bytes {
    Bytes::from(format!("tcp://10.0.0.{}:49152", peer + 2))
}

impl Arena {
    fn new(generations: Generations, renew_after: Option<u16>) -> Self {
        let config = ZreNodeConfig { renew_after, ..config(0, generations) };
        let kinds = [Kind::Zyre20, Kind::Zyre1, Kind::Zyre2, Kind::Pyre];
        let strict = |(number, kind): (usize, &Kind)| Strict {
            kind: *kind,
            number: number + 1,
            known: None,
            drafts: false,
            lives: 0,
            met: generations.contains(kind.generation()),
        };
        Self {
            bench: Bench::new(config),
            peers: kinds.iter().enumerate().map(strict).collect(),
            open: BTreeMap::new(),
            full: BTreeSet::new(),
            owed: VecDeque::new(),
        }
    }

    /// A peer learns of the node: it makes an entry, and owes a HELLO.
    fn learn(&mut self, peer: usize) {
        let now = self.bench.now;
        let strict = &mut self.peers[peer];
        strict.known = Some(Known {
            expected: None,
            status: 0,
            groups: BTreeSet::new(),
            heard: now,
            sequence: 1,
            told: 1,
        });
        self.owed.push_back(peer);
    }

    fn hello(&mut self, peer: usize) {
        let generation = self.peers[peer].kind.generation();
        let hello = Hello { status: 1, ..hello_of(peer + 1, generation) };
        self.peers[peer].known.iter_mut().for_each(|known| (known.sequence, known.told) = (1, 1));
        self.say(peer, Body::Hello(hello), true);
    }

    fn say(&mut self, peer: usize, body: Body, arrives: bool) {
        let strict = &mut self.peers[peer];
        let (uuid, generation) = (strict.uuid(), strict.kind.generation());
        let Some(frames) = strict.say(body) else { return };
        if arrives {
            let identity = IdentityForm::of(generation).encode(&uuid);
            self.bench.node.handle_message(self.bench.at(), &identity, &frames);
        }
        self.settle();
    }

    /// Executes the actions of the node until none is left.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let Some(action) = self.bench.node.poll_action() else {
                while self.bench.node.poll_event().is_some() {}
                match self.owed.pop_front() {
                    Some(peer) => self.hello(peer),
                    None => return,
                }
                continue;
            };
            let now = self.bench.now;
            match action {
                Action::Connect { dealer, endpoint, identity, .. } => {
                    let peer = (0..self.peers.len()).find(|peer| place(*peer) == endpoint);
                    let old =
                        self.open.insert(dealer, Open { peer, identity, broken: false, greeted: false });
                    assert!(old.is_none());
                }
                Action::Disconnect { dealer } => assert!(self.open.remove(&dealer).is_some()),
                Action::Send { dealer, frames, .. } => {
                    let open = self.open.get_mut(&dealer).expect("it is open");
                    let is_hello = Hello::generation(&frames[0]).is_ok();
                    assert_eq!(is_hello, !open.greeted, "HELLO first, once: {frames:?}");
                    open.greeted = true;
                    let Open { peer, identity, broken, .. } = &self.open[&dealer];
                    let Some(peer) = peer.filter(|_| !broken) else { continue };
                    if self.full.remove(&peer) {
                        self.bench.node.handle_dealer_failed(self.bench.at(), dealer);
                        continue;
                    }
                    self.peers[peer].expire(now);
                    let identity = identity.clone();
                    let ping = frames[0].get(2) == Some(&MessageId::PING.0);
                    if self.peers[peer].receive(now, &identity, &frames) {
                        self.learn_again(peer);
                    } else if ping && self.peers[peer].known.is_some() {
                        self.say(peer, Body::PingOk, true);
                    }
                }
                Action::Beacon { datagram, .. } => {
                    assert_eq!(datagram.len(), 22, "every other length kills pyre");
                    let beacon = Beacon::decode(&datagram).unwrap();
                    for peer in 0..self.peers.len() {
                        self.peers[peer].expire(now);
                        let kind = self.peers[peer].kind;
                        match &mut self.peers[peer].known {
                            known if beacon.port == 0 => *known = None,
                            // zyre 2.0.1 and later do not count beacons.
                            Some(known) => {
                                if kind != Kind::Zyre2 {
                                    known.heard = now;
                                }
                            }
                            None => self.learn(peer),
                        }
                    }
                }
                Action::Resolve { .. }
                | Action::ConnectLog { .. }
                | Action::DisconnectLog { .. }
                | Action::Log { .. } => {}
            }
        }
        panic!("it does not come to rest");
    }

    /// A HELLO came: the entry stays as it is, and the peer owes its own HELLO.
    fn learn_again(&mut self, peer: usize) {
        self.owed.push_back(peer);
    }

    fn step(&mut self, step: &Step) {
        let now = self.bench.at();
        match *step {
            Step::Beacon(peer) => {
                let beacon = Beacon { uuid: self.peers[peer].uuid(), port: 49152, public_key: None };
                let source = core::net::Ipv4Addr::from_bits(0x0a00_0002 + peer as u32);
                self.bench.node.handle_beacon(now, source.into(), &beacon.encode());
            }
            Step::Restart(peer, same) => {
                let beacon = Beacon { uuid: self.peers[peer].uuid(), port: 0, public_key: None };
                let source = core::net::Ipv4Addr::from_bits(0x0a00_0002 + peer as u32);
                self.bench.node.handle_beacon(now, source.into(), &beacon.encode());
                self.peers[peer].known = None;
                self.peers[peer].lives += usize::from(!same);
            }
            Step::Crash(peer) => {
                self.peers[peer].known = None;
                self.peers[peer].lives += 1;
            }
            Step::Say(peer, what) => {
                self.peers[peer].expire(now.mono);
                if self.peers[peer].known.is_none() {
                    return;
                }
                let (group, content) = (octets("b"), vec![octets("x")]);
                let drafts = self.peers[peer].kind == Kind::Zyre2;
                let challenger = Bytes::copy_from_slice(&self.peers[peer].uuid().to_hex());
                let body = match what % 8 {
                    0 | 1 => Body::Ping,
                    2 => Body::Join { group, status: 0 },
                    3 => Body::Leave { group, status: 0 },
                    4 => Body::Shout { group, content },
                    5 if drafts => Body::Elect { group, challenger },
                    6 if drafts => Body::Leader { group, leader: challenger },
                    _ => Body::Whisper { content },
                };
                self.peers[peer].drafts |= body.id().0 > MessageId::PING_OK.0;
                self.say(peer, body, true);
            }
            Step::Lose(peer) => self.say(peer, Body::Ping, false),
            Step::Break(peer, ended) => {
                let to = |(_, open): &(&DealerId, &mut Open)| open.peer == Some(peer);
                let broken = self.open.iter_mut().filter(to).map(|(dealer, open)| {
                    open.broken = true;
                    *dealer
                });
                for dealer in broken.collect::<Vec<_>>() {
                    if ended {
                        self.bench.node.handle_dealer_ended(now, dealer);
                    } else {
                        self.bench.node.handle_dealer_failed(now, dealer);
                    }
                    self.settle();
                }
            }
            Step::Full(peer) => _ = self.full.insert(peer),
            Step::Connected => {
                let all: Vec<DealerId> = self.open.keys().copied().collect();
                for dealer in all {
                    self.bench.node.handle_dealer_connected(now, dealer);
                    self.settle();
                }
            }
            Step::Join(number) => drop(self.bench.node.join(now, &group(number))),
            Step::JoinMany => {
                for number in 0..60 {
                    drop(self.bench.node.join(now, &Text::from(format!("group{number:02}"))));
                    self.settle();
                }
            }
            Step::Leave(number) => drop(self.bench.node.leave(now, &group(number))),
            Step::Whisper(peer, frames) => {
                let peer = self.peers[peer].uuid();
                drop(self.bench.node.whisper(now, &peer, vec![octets("x"); frames]));
            }
            Step::Shout(number, frames) => {
                drop(self.bench.node.shout(now, &group(number), vec![octets("x"); frames]));
            }
            Step::Contest(number) => drop(self.bench.node.contest(now, &group(number))),
            Step::Endpoint(peer) => {
                let endpoint = Text::from_utf8(place(peer)).unwrap();
                drop(self.bench.node.handle_endpoint(now, &endpoint, None));
            }
            Step::Interfaces => {
                let interfaces = self.bench.node.config.interfaces.clone();
                self.bench.node.set_interfaces(now, interfaces);
            }
            Step::Wait(time) => {
                let end = self.bench.now + ms(time);
                while let Some(due) = self.bench.node.poll_timeout().filter(|due| *due <= end) {
                    self.bench.now = self.bench.now.max(due);
                    self.bench.node.handle_timeout(self.bench.at());
                    self.settle();
                }
                self.bench.now = end;
            }
        }
        self.settle();
    }

    fn run(generations: Generations, renew_after: Option<u16>, steps: &[Step]) {
        let mut arena = Self::new(generations, renew_after);
        arena.step(&Step::Wait(0));
        steps.iter().for_each(|step| arena.step(step));
        arena.step(&Step::Wait(60_000));
        arena.bench.node.stop(arena.bench.at()).unwrap();
        arena.step(&Step::Wait(1000));
        assert!(arena.open.is_empty() && arena.bench.node.is_stopped());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(400)))]

    #[test]
    fn no_peer_dies_of_a_node_of_all_generations(steps in steps()) {
        Arena::run(Generations::ALL_REAL, None, &steps);
    }

    #[test]
    fn no_peer_dies_of_a_node_of_today(steps in steps(), renew_after in prop::option::of(3..20_u16)) {
        Arena::run(Generations::default(), renew_after, &steps);
    }
}
