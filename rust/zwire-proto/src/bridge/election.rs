//! [`Election`]: the one bridge of a LAN that forwards.
//!
//! Several bridges may join the same LAN to the same network of Zenoh. Each hears the signs of life of the others over
//! both. A bridge that is heard over both is able to forward; one that is heard over one only has lost the other. Of the
//! able ones the bridge that forwards goes on, so that the return of another one changes nothing; if there is none, the
//! one with the smallest id begins, in a term above all that it has heard of. Of two that forward after a cut the one with
//! the lower term yields.
//!
//! If two bridges no longer hear each other over the LAN, only one of them is cut off: the one that hears no peer either.
//! So a bridge does not begin before it has heard a peer after the silence began. Zenoh has no such witness but the link of
//! the bridge itself; a link that is silently cut is noticed after its lease.

use crate::zenoh::ZenohId;
use core::time::Duration;
use std::collections::BTreeMap;

/// Time between two signs of life.
const PERIOD: Duration = Duration::from_millis(400);

/// Silence after which a bridge counts as lost. With a period it stays below the two seconds of a takeover.
const LOST: Duration = Duration::from_millis(1400);

/// Time after the last sign of life of a bridge from which on a peer proves that the LAN works: peers beacon each second.
const PROOF: Duration = Duration::from_millis(800);

/// Time for which a bridge listens before it begins, if it knows that others are there: a beacon period, and the time in
/// which bridges connect after it.
const LISTEN: Duration = Duration::from_millis(2500);

/// Time for which a bridge listens if it knows of no other.
const LISTEN_ALONE: Duration = Duration::from_millis(300);

/// Time for which a bridge that was heard on the LAN counts as one of this LAN.
const REMEMBER: Duration = Duration::from_secs(120);

/// Most bridges that are remembered: more on one network have no sense, and a stranger can claim any number.
const MAX_BRIDGES: usize = 1024;

/// Way by which a sign of life came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Zenoh.
    Zenoh,
    /// The LAN, by ZRE.
    Lan,
}

/// Part that a bridge plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Another bridge forwards, or this one still listens.
    Reserve,
    /// The bridge forwards, in this term.
    Active(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Other {
    zenoh: Option<Duration>,
    lan: Option<Duration>,
    term: u64,
    /// Number of the sign of life that said so.
    number: u64,
}

/// Election of one bridge.
#[derive(Debug)]
pub struct Election {
    own: ZenohId,
    term: u64,
    /// Highest term heard of.
    highest: u64,
    /// Time until which the bridge listens.
    listen: Duration,
    next: Duration,
    /// Last time that a peer was heard on the LAN.
    lan_heard: Duration,
    /// Whether the bridge has a link of Zenoh.
    linked: bool,
    /// Bridge of a higher term for which this one has stopped.
    yielded: Option<ZenohId>,
    others: BTreeMap<ZenohId, Other>,
}

fn fresh(now: Duration, heard: Option<Duration>, within: Duration) -> bool {
    heard.is_some_and(|at| now.saturating_sub(at) < within)
}

impl Other {
    /// Whether it can forward, as far as this bridge hears.
    fn is_able(&self, now: Duration) -> bool {
        fresh(now, self.zenoh, LOST) && fresh(now, self.lan, LOST)
    }

    /// Whether it is heard at all.
    fn is_heard(&self, now: Duration) -> bool {
        fresh(now, self.zenoh, LOST) || fresh(now, self.lan, LOST)
    }

    /// Whether the bridge that no longer hears it over the LAN may itself be cut off from it.
    fn is_in_doubt(&self, now: Duration, lan_heard: Duration) -> bool {
        fresh(now, self.zenoh, LOST)
            && self.lan.is_some_and(|at| !fresh(now, Some(at), LOST) && lan_heard < at + PROOF)
    }

    /// Whether it is one of this LAN, and still lives.
    fn is_of_lan(&self, now: Duration) -> bool {
        fresh(now, self.lan, REMEMBER) && self.is_heard(now)
    }
}

impl Election {
    /// A bridge that begins to listen.
    #[must_use]
    pub const fn new(now: Duration, own: ZenohId) -> Self {
        let listen = now.saturating_add(LISTEN_ALONE);
        Self {
            own,
            term: 0,
            highest: 0,
            listen,
            next: now,
            lan_heard: now,
            linked: true,
            yielded: None,
            others: BTreeMap::new(),
        }
    }

    /// Part that the bridge plays.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        match self.term {
            0 => Standing::Reserve,
            term => Standing::Active(term),
        }
    }

    /// Whether the bridge forwards.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.term > 0
    }

    /// Whether a bridge joins the same LAN, as far as it was heard.
    #[must_use]
    pub fn is_of_lan(&self, now: Duration, bridge: ZenohId) -> bool {
        self.others.get(&bridge).is_some_and(|other| fresh(now, other.lan, REMEMBER))
    }

    /// Whether a bridge has ended, or has lost its link.
    #[must_use]
    pub fn has_left(&self, bridge: ZenohId) -> bool {
        self.others.get(&bridge).is_some_and(|other| other.zenoh.is_none())
    }

    /// Whether another bridge of this LAN forwards, as far as it was heard.
    #[must_use]
    pub fn is_led(&self, now: Duration) -> bool {
        self.others.values().any(|other| other.term > 0 && other.is_of_lan(now))
    }

    /// Number of other bridges of this LAN that live.
    #[must_use]
    pub fn others(&self, now: Duration) -> usize {
        self.others.values().filter(|other| other.is_of_lan(now)).count()
    }

    /// A bridge is there; whether it forwards is not known yet.
    pub fn handle_present(&mut self, now: Duration, bridge: ZenohId) {
        if bridge == self.own || self.others.contains_key(&bridge) || self.others.len() >= MAX_BRIDGES {
            return;
        }
        // It may be one of this LAN that ZRE has not found yet.
        if self.term == 0 {
            self.listen = self.listen.max(now + LISTEN);
        }
        self.others.insert(bridge, Other::default());
    }

    /// A bridge has given a sign of life.
    pub fn handle_beat(&mut self, now: Duration, channel: Channel, bridge: ZenohId, term: u64, number: u64) {
        if channel == Channel::Lan && self.others.len() >= MAX_BRIDGES && !self.others.contains_key(&bridge) {
            // Names that strangers claim in Zenoh do not keep a bridge of this LAN out.
            let stranger = self.others.iter().find(|(_, other)| other.lan.is_none()).map(|(id, _)| *id);
            stranger.and_then(|id| self.others.remove(&id));
        }
        self.handle_present(now, bridge);
        let Some(other) = self.others.get_mut(&bridge) else { return };
        match channel {
            Channel::Zenoh => other.zenoh = Some(now),
            Channel::Lan => other.lan = Some(now),
        }
        // A connection that was cut brings earlier ones.
        if number >= other.number {
            (other.term, other.number) = (term, number);
        }
        // The highest number cannot be exceeded: a stranger that claims it wins.
        self.highest = self.highest.max(term).min(u64::MAX - 1);
        self.review(now);
    }

    /// A bridge has ended, or lost its link: one channel is known to be gone.
    pub fn handle_gone(&mut self, now: Duration, channel: Channel, bridge: ZenohId) {
        if let Some(other) = self.others.get_mut(&bridge) {
            match channel {
                // It may start again with lower numbers.
                Channel::Zenoh => (other.zenoh, other.number) = (None, 0),
                // The time of the last sign says that it is one of this LAN.
                Channel::Lan => other.lan = other.lan.map(|at| at.min(now.saturating_sub(LOST))),
            }
        }
        self.review(now);
    }

    /// A peer was heard on the LAN.
    pub fn handle_lan_heard(&mut self, at: Duration) {
        self.lan_heard = self.lan_heard.max(at);
    }

    /// The bridge has a link of Zenoh, or has lost it. After a time without, others may have taken over.
    pub fn handle_linked(&mut self, now: Duration, linked: bool) {
        if linked != self.linked {
            self.linked = linked;
            if self.others.values().any(|other| fresh(now, other.lan, REMEMBER)) {
                self.term = 0;
                self.listen = now + LOST;
            }
        }
    }

    /// The deadline is reached; true if a sign of life is due.
    pub fn handle_timeout(&mut self, now: Duration) -> bool {
        self.others.retain(|_, other| fresh(now, other.lan, REMEMBER) || fresh(now, other.zenoh, REMEMBER));
        self.review(now);
        if now < self.next {
            return false;
        }
        self.next = now + PERIOD;
        true
    }

    /// Time of the next [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        match self.term {
            0 => self.next.min(self.listen.max(self.next.saturating_sub(PERIOD))),
            _ => self.next,
        }
    }

    fn review(&mut self, now: Duration) {
        if self.term > 0 {
            let wins = self.others.iter().find(|(bridge, other)| {
                other.is_of_lan(now)
                    && (other.term > self.term || (other.term == self.term && **bridge < self.own))
            });
            if let Some((bridge, _)) = wins {
                self.yielded = Some(*bridge);
                self.term = 0;
            }
            return;
        }
        if let Some(other) = self.yielded.and_then(|bridge| self.others.get(&bridge))
            && (other.is_able(now) || !other.is_heard(now) || other.term == 0)
        {
            self.yielded = None;
        }
        let blocked = self.others.iter().any(|(bridge, other)| {
            let forwards = other.term > 0;
            (other.is_able(now) && (forwards || *bridge < self.own))
                || self.yielded == Some(*bridge)
                || (forwards && other.is_in_doubt(now, self.lan_heard))
        });
        if now >= self.listen && self.linked && !blocked {
            // A stranger may have claimed the highest number of all: bridges of equal terms are told by their ids.
            self.term = self.highest.saturating_add(1);
            self.highest = self.term;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bridges with ids from 1 on, in a simulated world of 10 ms steps.
    struct World {
        now: Duration,
        bridges: Vec<(ZenohId, Option<Election>)>,
        /// Bridges without one of the channels.
        cut: Vec<(usize, Channel)>,
    }

    impl World {
        fn new(count: u128) -> Self {
            let bridges = (1..=count).map(|id| {
                let id = ZenohId::new(id).unwrap();
                (id, Some(Election::new(Duration::ZERO, id)))
            });
            Self { now: Duration::ZERO, bridges: bridges.collect(), cut: Vec::new() }
        }

        fn reaches(&self, from: usize, to: usize, channel: Channel) -> bool {
            !self.cut.contains(&(from, channel)) && !self.cut.contains(&(to, channel))
        }

        fn step(&mut self) {
            self.now += Duration::from_millis(10);
            // A peer beacons.
            if self.now.as_millis() % 1000 == 130 {
                let is_cut = |at: usize| self.cut.contains(&(at, Channel::Lan));
                let hear = (0..self.bridges.len()).filter(|at| !is_cut(*at)).collect::<Vec<_>>();
                for at in hear {
                    if let Some(election) = &mut self.bridges[at].1 {
                        election.handle_lan_heard(self.now);
                    }
                }
            }
            for from in 0..self.bridges.len() {
                let (id, Some(election)) = &mut self.bridges[from] else { continue };
                let id = *id;
                if !election.handle_timeout(self.now) {
                    continue;
                }
                let (term, number) = (election.term, self.now.as_millis() as u64);
                for to in 0..self.bridges.len() {
                    for channel in [Channel::Zenoh, Channel::Lan] {
                        if to != from
                            && self.reaches(from, to, channel)
                            && let Some(other) = &mut self.bridges[to].1
                        {
                            other.handle_beat(self.now, channel, id, term, number);
                        }
                    }
                }
            }
        }

        fn run(&mut self, time: Duration) {
            let end = self.now + time;
            while self.now < end {
                self.step();
            }
        }

        fn active(&self) -> Vec<usize> {
            let is_active = |at: &usize| self.bridges[*at].1.as_ref().is_some_and(Election::is_active);
            (0..self.bridges.len()).filter(is_active).collect()
        }
    }

    const SECONDS: fn(u64) -> Duration = Duration::from_secs;
    /// The bound that users are told.
    const TAKEOVER: Duration = Duration::from_secs(2);

    #[test]
    fn one_that_is_alone_begins_soon() {
        let mut world = World::new(1);
        world.run(LISTEN_ALONE);
        assert_eq!(world.active(), [0]);
    }

    #[test]
    fn the_smallest_of_three_begins() {
        let mut world = World::new(3);
        world.run(SECONDS(4));
        assert_eq!(world.active(), [0]);
    }

    #[test]
    fn the_next_takes_over_in_time() {
        let mut world = World::new(3);
        world.run(SECONDS(4));
        world.bridges[0].1 = None;
        world.run(TAKEOVER);
        assert_eq!(world.active(), [1]);
        // The first returns, and nothing changes.
        world.bridges[0].1 = Some(Election::new(world.now, world.bridges[0].0));
        world.run(SECONDS(5));
        assert_eq!(world.active(), [1]);
    }

    #[test]
    fn a_broken_link_is_faster() {
        let mut world = World::new(2);
        world.run(SECONDS(4));
        world.bridges[0].1 = None;
        let (gone, now) = (world.bridges[0].0, world.now);
        let other = world.bridges[1].1.as_mut().unwrap();
        assert!(!other.has_left(gone));
        other.handle_gone(now, Channel::Zenoh, gone);
        assert!(other.is_active() && other.has_left(gone));
    }

    #[test]
    fn a_cut_on_either_side_makes_the_next_take_over_and_the_first_yield() {
        for channel in [Channel::Zenoh, Channel::Lan] {
            let mut world = World::new(2);
            world.run(SECONDS(4));
            world.cut = vec![(0, channel)];
            world.run(TAKEOVER);
            // It hears over the other channel that another one has begun.
            assert_eq!(world.active(), [1], "{channel:?}");
            world.cut.clear();
            world.run(SECONDS(3));
            assert_eq!(world.active(), [1], "{channel:?}");
        }
    }

    /// Those of the time before the takeover are in the buffers of a connection that was cut.
    #[test]
    fn signs_of_life_that_come_late_change_nothing() {
        let mut world = World::new(2);
        world.run(SECONDS(4));
        world.cut = vec![(0, Channel::Lan)];
        world.run(TAKEOVER);
        let (late, now) = (world.bridges[1].0, world.now);
        let first = world.bridges[0].1.as_mut().unwrap();
        first.handle_lan_heard(now);
        for number in 4000..5000 {
            first.handle_beat(now, Channel::Lan, late, 0, number);
        }
        world.cut.clear();
        world.run(SECONDS(2));
        assert_eq!(world.active(), [1]);
    }

    #[test]
    fn after_a_cut_of_both_one_yields() {
        let mut world = World::new(2);
        world.run(SECONDS(4));
        world.cut = vec![(0, Channel::Zenoh), (0, Channel::Lan)];
        world.run(TAKEOVER);
        assert_eq!(world.active(), [0, 1]);
        world.cut.clear();
        world.run(PERIOD + Duration::from_millis(20));
        assert_eq!(world.active(), [1]);
    }

    /// The one in reserve is cut off, and has to know it.
    #[test]
    fn a_bridge_without_its_lan_does_not_take_over() {
        let mut world = World::new(2);
        world.run(SECONDS(4));
        world.cut = vec![(1, Channel::Lan)];
        for _ in 0..30 {
            world.run(Duration::from_millis(200));
            assert_eq!(world.active(), [0]);
        }
    }

    #[test]
    fn one_that_is_linked_again_listens_first() {
        let mut world = World::new(2);
        world.run(SECONDS(4));
        let now = world.now;
        let first = world.bridges[0].1.as_mut().unwrap();
        first.handle_linked(now, false);
        assert_eq!(first.standing(), Standing::Reserve);
        first.handle_timeout(now + SECONDS(5));
        assert_eq!(first.standing(), Standing::Reserve);
        first.handle_linked(now + SECONDS(5), true);
        assert_eq!(first.standing(), Standing::Reserve);
        first.handle_timeout(now + SECONDS(7));
        assert!(first.is_active());
        // Alone it has no reason to.
        let mut alone = World::new(1);
        alone.run(SECONDS(1));
        let election = alone.bridges[0].1.as_mut().unwrap();
        election.handle_linked(SECONDS(1), false);
        assert!(election.is_active());
    }

    #[test]
    fn bridges_of_other_lans_have_no_part() {
        let mut election = Election::new(Duration::ZERO, ZenohId::new(9).unwrap());
        let far = ZenohId::new(1).unwrap();
        for tenth in 0..100 {
            let now = Duration::from_millis(100 * tenth);
            election.handle_beat(now, Channel::Zenoh, far, 5, tenth);
            election.handle_timeout(now);
        }
        assert_eq!(election.standing(), Standing::Active(6));
        assert!(!election.is_of_lan(SECONDS(10), far));
    }

    #[test]
    fn the_highest_number_of_all_is_no_end() {
        let [own, near, silent, stranger] = [9, 1, 20, 5].map(|id| ZenohId::new(id).unwrap());
        let mut election = Election::new(Duration::ZERO, own);
        election.handle_beat(Duration::ZERO, Channel::Lan, silent, 0, 1);
        election.handle_beat(Duration::ZERO, Channel::Zenoh, stranger, u64::MAX, 1);
        election.handle_timeout(SECONDS(3));
        assert_eq!(election.standing(), Standing::Active(u64::MAX));
        let now = SECONDS(5);
        for linked in [false, true] {
            election.handle_linked(SECONDS(3), linked);
        }
        assert_eq!(election.standing(), Standing::Reserve);
        election.handle_timeout(now);
        assert_eq!(election.standing(), Standing::Active(u64::MAX));
        assert!(!election.is_led(now));
        for channel in [Channel::Zenoh, Channel::Lan] {
            election.handle_beat(now, channel, near, u64::MAX, 1);
        }
        assert_eq!(election.standing(), Standing::Reserve);
        assert!(election.is_led(now));
        for channel in [Channel::Lan, Channel::Zenoh] {
            election.handle_gone(now, channel, near);
        }
        assert_eq!(election.standing(), Standing::Active(u64::MAX));
    }

    #[test]
    fn strangers_take_bounded_memory() {
        let mut election = Election::new(Duration::ZERO, ZenohId::new(9).unwrap());
        for id in 10..5000 {
            election.handle_beat(Duration::ZERO, Channel::Zenoh, ZenohId::new(id).unwrap(), u64::MAX, 1);
        }
        assert_eq!(election.others.len(), MAX_BRIDGES);
        let near = ZenohId::new(5000).unwrap();
        election.handle_beat(Duration::ZERO, Channel::Lan, near, 0, 1);
        assert!(election.is_of_lan(Duration::ZERO, near));
        assert_eq!(election.others.len(), MAX_BRIDGES);
        election.handle_timeout(SECONDS(3));
        assert!(election.is_active());
        election.handle_timeout(SECONDS(300));
        assert!(election.others.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// After any faults that end, one bridge forwards, and it can.
        #[test]
        fn one_is_active_in_the_end(
            faults in prop::collection::vec((0_usize..3, 0_u8..4, 1_u64..40), 0..12)
        ) {
            let mut world = World::new(3);
            for (which, kind, tenths) in faults {
                match kind {
                    0 => world.bridges[which].1 = None,
                    1 => world.cut.push((which, Channel::Zenoh)),
                    2 => world.cut.push((which, Channel::Lan)),
                    _ => {
                        world.cut.clear();
                        let (id, now) = (world.bridges[which].0, world.now);
                        world.bridges[which].1.get_or_insert_with(|| Election::new(now, id));
                    }
                }
                world.run(Duration::from_millis(100 * tenths));
            }
            world.cut.clear();
            for at in 0..3 {
                let (id, now) = (world.bridges[at].0, world.now);
                world.bridges[at].1.get_or_insert_with(|| Election::new(now, id));
            }
            world.run(SECONDS(6));
            prop_assert_eq!(world.active().len(), 1);
        }
    }
}
