//! A publisher and a subscriber over a network that loses, delays and repeats: each publication is
//! delivered or reported, once, in order; and none that the cache holds is reported.

use super::*;
use crate::zenoh::Parameters;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A sample is published, and lost.
    Lose,
    /// A sample is published, and delayed behind so many others.
    Send(usize),
    /// A sample arrives twice.
    Twice,
    /// The oldest message on the way arrives.
    Arrive,
    /// A heartbeat arrives at once.
    Heartbeat,
    /// The oldest query is answered. Replies are lost where a bit is set.
    Answer(u8),
    /// Time passes.
    Wait,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Lose),
        6 => (0_usize..4).prop_map(Step::Send),
        1 => Just(Step::Twice),
        6 => Just(Step::Arrive),
        1 => Just(Step::Heartbeat),
        3 => any::<u8>().prop_map(Step::Answer),
        1 => Just(Step::Wait),
    ];
    proptest::collection::vec(step, 0..200)
}

struct World {
    publisher: AdvancedPublisher,
    subscriber: AdvancedSubscriber,
    now: Now,
    first: u32,
    published: u32,
    under_way: Vec<Sample>,
    asks: Vec<Ask>,
    /// Number of samples delivered or reported.
    settled: Option<u32>,
    /// Whether answers come without loss.
    strict: bool,
    recovers: bool,
    missed: u32,
    given: u32,
    /// Number reported before the first one delivered.
    before: u32,
}

impl World {
    fn publish(&mut self) -> Sample {
        let mut body = PushBody::Put(Put::new("x"));
        self.publisher.publish(self.now, &mut body);
        self.published += 1;
        sample("a", body)
    }

    /// Checks that every output is the next one allowed.
    fn drain(&mut self, first: Option<Sample>) {
        if let Some(sample) = first {
            self.given(&sample);
        }
        while let Some(output) = self.subscriber.poll_output() {
            match output {
                Output::Sample(sample) => self.given(&sample),
                Output::Ask(ask) => self.asks.push(ask),
                Output::Miss(miss) => {
                    let Some(from) = self.settled else {
                        // Delivery began behind a heartbeat; the first sample tells where.
                        self.before += u32::try_from(miss.count).unwrap();
                        continue;
                    };
                    let to = from + u32::try_from(miss.count).unwrap();
                    assert!(miss.count > 0 && to <= self.published, "{miss:?}");
                    for place in from..to {
                        let sn = self.first.wrapping_add(place);
                        let mut answer = self
                            .publisher
                            .answer(&Parameters::new(format!("_sn={sn}")), self.now.wall)
                            .unwrap();
                        let held = !self.publisher.next_of(&mut answer, 1).is_empty();
                        assert!(!held || !self.strict || !self.recovers, "the cache has {sn}");
                    }
                    self.settled = Some(to);
                    self.missed += to - from;
                }
            }
        }
    }

    fn given(&mut self, sample: &Sample) {
        let place = sample.source_info.as_ref().unwrap().sn.wrapping_sub(self.first);
        assert!(self.settled.is_none_or(|settled| settled == place), "{place} after {:?}", self.settled);
        assert!(self.before <= place, "{place}");
        self.settled = Some(place + 1);
        self.given += 1;
    }

    fn arrive(&mut self, sample: Sample) {
        let first = self.subscriber.handle_sample(self.now, sample);
        // A miss revealed by this sample lies before it, and is reported after it.
        match first {
            Some(sample) if !self.recovers => {
                let outputs: Vec<Output> = core::iter::from_fn(|| self.subscriber.poll_output()).collect();
                for output in outputs {
                    match output {
                        Output::Miss(miss) => {
                            self.settled = self.settled.map(|s| s + u32::try_from(miss.count).unwrap());
                            self.missed += u32::try_from(miss.count).unwrap();
                        }
                        other => panic!("{other:?}"),
                    }
                }
                self.given(&sample);
            }
            first => self.drain(first),
        }
    }

    fn answer(&mut self, lost: u8) {
        if self.asks.is_empty() {
            return;
        }
        let ask = self.asks.remove(0);
        let parameters = Parameters::new(ask.parameters);
        let mut answer = self.publisher.answer(&parameters, self.now.wall).unwrap();
        let mut count = 0_u32;
        while let [body] = &self.publisher.next_of(&mut answer, 1)[..] {
            count += 1;
            if self.strict || lost >> (count % 8) & 1 == 0 {
                self.subscriber.handle_reply(self.now, ask.id, sample("a", body.clone()));
                self.drain(None);
            }
        }
        let how = if self.strict { Answered::Fully } else { Answered::Partly };
        self.subscriber.handle_answered(self.now, ask.id, how);
        self.drain(None);
    }

    fn heartbeat(&mut self) {
        if self.published > 0 {
            let last = self.first.wrapping_add(self.published - 1);
            let key = "a/@adv/pub/1e/7/_".parse().unwrap();
            self.subscriber.handle_heartbeat(self.now, &key, &encode_heartbeat(last));
            self.drain(None);
        }
    }

    fn wait(&mut self) {
        self.now.mono += RETRY_AFTER;
        self.subscriber.handle_timeout(self.now);
        self.drain(None);
    }
}

fn run(first: u32, cache: usize, before: u32, config: SubscriberConfig, strict: bool, steps: Vec<Step>) {
    let now = Now::at(Duration::from_secs(1000));
    let publisher = AdvancedPublisher::new(PublisherConfig {
        source: source(7),
        sequencing: Sequencing::Number,
        cache: Some(cache),
        heartbeat: None,
    });
    let (history, recovers) = (config.history.is_some(), config.recovery.is_some());
    let mut world = World {
        publisher: publisher.starting_at(first),
        subscriber: AdvancedSubscriber::new(config),
        now,
        first,
        published: 0,
        under_way: Vec::new(),
        asks: Vec::new(),
        settled: None,
        strict,
        recovers,
        missed: 0,
        given: 0,
        before: 0,
    };
    for _ in 0..before {
        world.publish();
    }
    world.drain(None);
    if history && strict {
        // All that the cache holds; none is missed.
        world.answer(0);
        assert_eq!(world.settled, (before > 0).then_some(before));
        assert_eq!(world.given, before.min(u32::try_from(cache).unwrap()));
        assert_eq!(world.missed, 0);
    }
    for step in steps {
        match step {
            Step::Lose => drop(world.publish()),
            Step::Send(behind) => {
                let sample = world.publish();
                let place = world.under_way.len().saturating_sub(behind);
                world.under_way.insert(place, sample);
            }
            Step::Twice => {
                let sample = world.publish();
                world.under_way.extend([sample.clone(), sample]);
            }
            Step::Arrive if !world.under_way.is_empty() => {
                let sample = world.under_way.remove(0);
                world.arrive(sample);
            }
            Step::Arrive => {}
            Step::Heartbeat => world.heartbeat(),
            Step::Answer(lost) => world.answer(lost),
            Step::Wait => world.wait(),
        }
    }
    for sample in core::mem::take(&mut world.under_way) {
        world.arrive(sample);
    }
    if recovers {
        world.heartbeat();
    }
    // Each query leads to few others: this terminates.
    let mut rounds = 0;
    while !world.asks.is_empty()
        || world.subscriber.poll_timeout().is_some_and(|at| at < now.mono + STATE_LIFE)
    {
        world.answer(0);
        world.wait();
        rounds += 1;
        assert!(rounds < 10_000, "it asks for ever");
    }
    assert_eq!(world.subscriber.pending(), (0, 0));
    if recovers && world.published > 0 {
        let settled = world.settled.unwrap_or(world.published);
        assert_eq!(settled, world.published, "the last one is told by a heartbeat");
    }
}

fn config(history: bool, recovery: bool) -> SubscriberConfig {
    SubscriberConfig {
        history: history.then(History::default),
        recovery: recovery.then_some(Recovery::Heartbeat),
        ..SubscriberConfig::new("a".parse().unwrap())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_is_missed_that_the_cache_holds(
        first in prop_oneof![Just(0), Just(u32::MAX - 20), any::<u32>()],
        cache in 1_usize..20,
        before in 0_u32..30,
        history: bool,
        steps in steps(),
    ) {
        run(first, cache, before, config(history, true), true, steps);
    }

    #[test]
    fn every_hole_is_reported_once(
        first in prop_oneof![Just(0), Just(u32::MAX - 20), any::<u32>()],
        cache in 1_usize..20,
        before in 0_u32..30,
        history: bool,
        recovery: bool,
        steps in steps(),
    ) {
        run(first, cache, before, config(history, recovery), false, steps);
    }
}
