//! Scenarios of subscribers, in virtual time, and properties of both sides together.

mod keeping;
mod laws;

use super::{limits::*, *};
use crate::{
    Now,
    zenoh::{
        KeyExpr, Ntp64, Qos, Reliability, Timestamp, ZenohId,
        session::Sample,
        wire::{PushBody, Put, SourceInfo},
    },
};
use core::time::Duration;

const SOURCE: u128 = 0x1e;

fn source(eid: u32) -> SampleSource {
    SampleSource { zid: ZenohId::new(SOURCE).unwrap(), eid }
}

fn sample(key: &str, body: PushBody) -> Sample {
    Sample::new(key.parse().unwrap(), body, Qos::DEFAULT, Reliability::Reliable)
}

fn numbered(eid: u32, sn: u32) -> Sample {
    let info = SourceInfo { zid: source(eid).zid, eid, sn };
    sample("a", PushBody::Put(Put { source_info: Some(Box::new(info)), ..Put::new(format!("{sn}")) }))
}

fn stamped(key: &str, time: u64) -> Sample {
    let timestamp = Some(Timestamp { time: Ntp64(time), id: source(0).zid });
    sample(key, PushBody::Put(Put { timestamp, ..Put::new(format!("{time}")) }))
}

fn number(sample: &Sample) -> String {
    match (&sample.source_info, sample.timestamp) {
        (Some(info), _) => info.sn.to_string(),
        (None, Some(timestamp)) => format!("{}@{}", sample.key, timestamp.time.0),
        (None, None) => "plain".to_owned(),
    }
}

/// A subscriber and a clock. Its outputs are compared in a short text form.
struct Rig {
    subscriber: AdvancedSubscriber,
    now: Now,
    asks: Vec<AskId>,
}

impl Rig {
    fn new(change: impl FnOnce(&mut SubscriberConfig)) -> Self {
        let mut config = SubscriberConfig::new("a".parse().unwrap());
        change(&mut config);
        let now = Now::at(Duration::from_secs(1000));
        Self { subscriber: AdvancedSubscriber::new(config), now, asks: Vec::new() }
    }

    fn with(history: Option<History>, recovery: Option<Recovery>) -> Self {
        Self::new(|config| (config.history, config.recovery) = (history, recovery))
    }

    /// Its outputs, after the sample delivered at once.
    fn told(&mut self, first: Option<Sample>) -> Vec<String> {
        let mut told: Vec<String> = first.iter().map(number).collect();
        while let Some(output) = self.subscriber.poll_output() {
            told.push(match output {
                Output::Sample(sample) => number(&sample),
                Output::Miss(miss) => format!("miss {} of {}", miss.count, miss.source.eid),
                Output::Ask(ask) => {
                    self.asks.push(ask.id);
                    format!("{}?{}", ask.key, ask.parameters)
                }
            });
        }
        told
    }

    fn sample(&mut self, sample: Sample) -> Vec<String> {
        let first = self.subscriber.handle_sample(self.now, sample);
        self.told(first)
    }

    fn sn(&mut self, sn: u32) -> Vec<String> {
        self.sample(numbered(7, sn))
    }

    /// Replies to the oldest open query.
    fn reply(&mut self, sample: Sample) -> Vec<String> {
        self.subscriber.handle_reply(self.now, self.asks[0], sample);
        self.told(None)
    }

    fn answered(&mut self, how: Answered) -> Vec<String> {
        let ask = self.asks.remove(0);
        self.subscriber.handle_answered(self.now, ask, how);
        self.told(None)
    }

    fn heartbeat(&mut self, last: u32) -> Vec<String> {
        let key = "a/@adv/pub/1e/7/_".parse().unwrap();
        self.subscriber.handle_heartbeat(self.now, &key, &encode_heartbeat(last));
        self.told(None)
    }

    fn token(&mut self, publisher: &str, alive: bool) -> Vec<String> {
        let key = format!("a/@adv/pub/1e/{publisher}/_").parse().unwrap();
        self.subscriber.handle_token(self.now, &key, alive);
        self.told(None)
    }

    fn after(&mut self, time: Duration) -> Vec<String> {
        self.now.mono += time;
        self.subscriber.handle_timeout(self.now);
        self.told(None)
    }
}

const NOTHING: [&str; 0] = [];
const HISTORY: Option<History> = Some(History { late: false, max_samples: None, max_age: None });
const HEARTBEAT: Option<Recovery> = Some(Recovery::Heartbeat);

#[test]
fn without_options_holes_are_reported_and_nothing_is_asked() {
    let mut rig = Rig::with(None, None);
    assert_eq!(rig.sn(5), ["5"]);
    assert_eq!(rig.sn(6), ["6"]);
    assert_eq!(rig.sn(8), ["8", "miss 1 of 7"]);
    // Already reported: it is not delivered any more.
    assert_eq!(rig.sn(7), NOTHING);
    assert_eq!(rig.sn(8), NOTHING);
    assert_eq!(rig.sn(9), ["9"]);
    assert_eq!(rig.sn(20), ["20", "miss 10 of 7"]);
    assert_eq!(rig.sample(numbered(8, 3)), ["3"], "another publisher");
    assert_eq!(rig.sample(sample("a", PushBody::Put(Put::new("x")))), ["plain"]);
}

#[test]
fn numbers_wrap() {
    let mut rig = Rig::with(None, None);
    assert_eq!(rig.sn(u32::MAX - 1), ["4294967294"]);
    assert_eq!(rig.sn(u32::MAX), ["4294967295"]);
    assert_eq!(rig.sn(0), ["0"]);
    assert_eq!(rig.sn(u32::MAX), NOTHING);
    assert_eq!(rig.sn(3), ["3", "miss 2 of 7"]);
    let mut rig = Rig::with(None, HEARTBEAT);
    assert_eq!(rig.sn(u32::MAX - 1), ["4294967294"]);
    // Other implementations do not support ranges that wrap: everything is queried.
    assert_eq!(rig.sn(1), ["a/@adv/*/1e/7/**?_anyke"]);
    assert_eq!(rig.reply(numbered(7, u32::MAX)), ["4294967295"]);
    assert_eq!(rig.reply(numbered(7, 0)), ["0", "1"]);
    assert_eq!(rig.answered(Answered::Fully), NOTHING);
}

#[test]
fn what_is_missing_is_asked_for() {
    let mut rig = Rig::with(None, HEARTBEAT);
    assert_eq!(rig.sn(4), ["4"]);
    assert_eq!(rig.sn(7), ["a/@adv/*/1e/7/**?_sn=5..6;_anyke"]);
    // Samples arriving meanwhile are held back, and not queried.
    assert_eq!(rig.sn(8), NOTHING);
    assert_eq!(rig.sn(10), NOTHING);
    assert_eq!(rig.sn(4), NOTHING);
    // Replies of other publishers and on other keys are ignored.
    assert_eq!(rig.reply(numbered(8, 5)), NOTHING);
    let mut other = numbered(7, 5);
    other.key = "b".parse().unwrap();
    assert_eq!(rig.reply(other), NOTHING);
    assert_eq!(rig.reply(numbered(7, 5)), ["5"]);
    assert_eq!(rig.reply(numbered(7, 6)), ["6", "7", "8"]);
    // A gap that arose meanwhile was not queried yet.
    assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_sn=9..9;_anyke"]);
    // The sample had overtaken the next one.
    assert_eq!(rig.sn(9), ["9", "10"]);
    assert_eq!(rig.answered(Answered::Fully), NOTHING);
    assert_eq!(rig.sn(11), ["11"]);
    assert_eq!(rig.subscriber.pending(), (0, 0));
}

#[test]
fn what_nobody_has_is_reported_once() {
    let mut rig = Rig::with(None, HEARTBEAT);
    assert_eq!(rig.sn(4), ["4"]);
    assert_eq!(rig.sn(9), ["a/@adv/*/1e/7/**?_sn=5..8;_anyke"]);
    assert_eq!(rig.reply(numbered(7, 7)), NOTHING);
    assert_eq!(rig.sn(12), NOTHING);
    // A reply may have been lost, too. Samples received are not queried again.
    assert_eq!(rig.answered(Answered::Partly), ["a/@adv/*/1e/7/**?_sn=5..11;_anyke"]);
    for _ in 1..MAX_ATTEMPTS {
        assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_sn=5..11;_anyke"]);
    }
    assert_eq!(rig.answered(Answered::Fully), ["miss 2 of 7", "7", "miss 1 of 7", "9", "miss 2 of 7", "12"]);
    assert_eq!(rig.sn(5), NOTHING);
    assert_eq!(rig.sn(13), ["13"]);
    assert_eq!(rig.subscriber.pending(), (0, 0));
}

#[test]
fn without_answers_it_asks_more_often() {
    let mut rig = Rig::with(None, HEARTBEAT);
    rig.sn(4);
    assert_eq!(rig.sn(6), ["a/@adv/*/1e/7/**?_sn=5..5;_anyke"]);
    for _ in 1..MAX_UNANSWERED {
        assert_eq!(rig.answered(Answered::Partly), ["a/@adv/*/1e/7/**?_sn=5..5;_anyke"]);
    }
    assert_eq!(rig.answered(Answered::Partly), ["miss 1 of 7", "6"]);
}

#[test]
fn without_a_link_nothing_is_given_up() {
    let mut rig = Rig::with(None, HEARTBEAT);
    rig.sn(4);
    assert_eq!(rig.sn(6), ["a/@adv/*/1e/7/**?_sn=5..5;_anyke"]);
    for _ in 0..5 {
        assert_eq!(rig.answered(Answered::NotAsked), NOTHING);
        assert_eq!(rig.after(RETRY_WITHOUT_LINK), ["a/@adv/*/1e/7/**?_sn=5..5;_anyke"]);
    }
    assert_eq!(rig.reply(numbered(7, 5)), ["5", "6"]);
    assert_eq!(rig.answered(Answered::Fully), NOTHING);
}

#[test]
fn a_history_comes_before_what_is_new() {
    let mut rig = Rig::with(HISTORY, None);
    assert_eq!(rig.told(None), ["a/@adv/**?_anyke"]);
    assert_eq!(rig.sn(5), NOTHING);
    assert_eq!(rig.sn(8), NOTHING);
    assert_eq!(rig.reply(numbered(7, 3)), NOTHING);
    assert_eq!(rig.reply(numbered(7, 4)), NOTHING);
    assert_eq!(rig.reply(numbered(7, 5)), NOTHING);
    assert_eq!(rig.reply(stamped("a", 2)), NOTHING);
    assert_eq!(rig.sample(stamped("a", 3)), NOTHING);
    assert_eq!(rig.reply(stamped("a", 1)), NOTHING);
    assert_eq!(rig.answered(Answered::Fully), ["a@1", "a@2", "a@3", "3", "4", "5", "miss 2 of 7", "8"]);
    assert_eq!(rig.sn(9), ["9"]);
    assert_eq!(rig.sample(stamped("a", 3)), NOTHING);
    assert_eq!(rig.sample(stamped("a", 4)), ["a@4"]);
}

#[test]
fn a_hole_behind_the_history_is_asked_for() {
    let mut rig = Rig::with(HISTORY, HEARTBEAT);
    rig.told(None);
    rig.sn(6);
    rig.reply(numbered(7, 4));
    assert_eq!(rig.answered(Answered::Fully), ["4", "a/@adv/*/1e/7/**?_sn=5..5;_anyke"]);
    assert_eq!(rig.reply(numbered(7, 5)), ["5", "6"]);
}

#[test]
fn histories_have_bounds() {
    for (max_samples, max_age, asked) in [
        (Some(3), None, "_max=3;_anyke"),
        (None, Some(2.5), "_time=[now(-2.5s)..];_anyke"),
        (Some(2), Some(2.0), "_max=2;_time=[now(-2s)..];_anyke"),
        (None, Some(1e-6), "_time=[now(-0.000001s)..];_anyke"),
    ] {
        let max_age = max_age.map(Duration::from_secs_f64);
        let mut rig = Rig::with(Some(History { late: false, max_samples, max_age }), None);
        assert_eq!(rig.told(None), [format!("a/@adv/**?{asked}")]);
        assert!(asked.parse::<crate::zenoh::Selector>().is_ok() || max_age.is_none() || asked.len() > 3);
    }
}

#[test]
fn late_publishers_are_asked_when_they_say_that_they_are_there() {
    let late = Some(History { late: true, max_samples: Some(3), max_age: None });
    let mut rig = Rig::with(late, None);
    rig.told(None);
    rig.answered(Answered::Fully);
    assert_eq!(rig.token("7", true), ["a/@adv/pub/1e/7/_?_max=3;_anyke"]);
    assert_eq!(rig.sn(2), NOTHING);
    assert_eq!(rig.sample(numbered(8, 2)), ["2"], "of another publisher nothing is to come");
    assert_eq!(rig.reply(numbered(7, 1)), NOTHING);
    assert_eq!(rig.answered(Answered::Fully), ["1", "2"]);
    assert_eq!(rig.token("7", false), NOTHING);
    // The publisher is back: queries its new samples, without the known ones.
    assert_eq!(rig.token("7", true), ["a/@adv/pub/1e/7/_?_max=1;_anyke"]);
    assert_eq!(rig.reply(numbered(7, 5)), NOTHING);
    assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_max=3;_anyke"]);
    assert_eq!(rig.sn(6), NOTHING);
    for sn in [2, 4, 5] {
        assert_eq!(rig.reply(numbered(7, sn)), NOTHING);
    }
    assert_eq!(rig.answered(Answered::Fully), ["miss 1 of 7", "4", "5", "6"]);
    assert_eq!(rig.token("uhlc", true), ["a/@adv/pub/1e/uhlc/_?_max=3;_anyke"]);
    assert_eq!(rig.sample(stamped("a", 5)), NOTHING);
    assert_eq!(rig.reply(stamped("a", 4)), NOTHING);
    assert_eq!(rig.answered(Answered::Fully), ["a@4", "a@5"]);
    // With recovery all missing samples are queried, not only the last few.
    let mut rig = Rig::with(late, HEARTBEAT);
    rig.told(None);
    rig.answered(Answered::Fully);
    rig.sn(2);
    rig.token("7", true);
    rig.answered(Answered::Fully);
    rig.token("7", false);
    assert_eq!(rig.token("7", true), ["a/@adv/pub/1e/7/_?_max=1;_anyke"]);
    assert_eq!(rig.reply(numbered(7, 5)), NOTHING);
    assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_sn=3..4;_anyke"]);
    assert_eq!(rig.reply(numbered(7, 3)), ["3"]);
    assert_eq!(rig.reply(numbered(7, 4)), ["4", "5"]);
    assert_eq!(rig.answered(Answered::Fully), NOTHING);
    assert_eq!(rig.sn(6), ["6"]);
}

#[test]
fn a_publisher_that_begins_again_under_its_name_is_another_one() {
    let late = Some(History { late: true, max_samples: Some(3), max_age: None });
    for (recovery, all) in [(HEARTBEAT, "_anyke"), (None, "_max=3;_anyke")] {
        let returned = || {
            let mut rig = Rig::with(late, recovery);
            rig.told(None);
            rig.answered(Answered::Fully);
            rig.token("7", true);
            rig.answered(Answered::Fully);
            for sn in 0..9 {
                assert_eq!(rig.sn(sn), [sn.to_string()]);
            }
            rig.token("7", false);
            assert_eq!(rig.token("7", true), ["a/@adv/pub/1e/7/_?_max=1;_anyke"]);
            rig
        };
        // The answer of its cache tells.
        let mut rig = returned();
        assert_eq!(rig.reply(numbered(7, 1)), NOTHING);
        assert_eq!(rig.answered(Answered::Fully), [format!("a/@adv/*/1e/7/**?{all}")]);
        assert_eq!(rig.sn(2), NOTHING);
        assert_eq!(rig.reply(numbered(7, 0)), NOTHING);
        assert_eq!(rig.reply(numbered(7, 1)), NOTHING);
        assert_eq!(rig.answered(Answered::Fully), ["0", "1", "2"]);
        // The cache is empty, and then a sample tells.
        let mut rig = returned();
        assert_eq!(rig.answered(Answered::Fully), NOTHING);
        assert_eq!(rig.sn(0), [format!("a/@adv/*/1e/7/**?{all}")]);
        assert_eq!(rig.sn(1), NOTHING);
        assert_eq!(rig.reply(numbered(7, 0)), NOTHING);
        assert_eq!(rig.answered(Answered::Fully), ["0", "1"]);
        // The same publisher, which continues: a repetition has another reason.
        let mut rig = returned();
        assert_eq!(rig.reply(numbered(7, 8)), NOTHING);
        assert_eq!(rig.answered(Answered::Fully), NOTHING);
        assert_eq!(rig.sn(9), ["9"]);
        assert_eq!(rig.sn(3), NOTHING);
        assert_eq!(rig.sn(10), ["10"]);
    }
}

#[test]
fn a_heartbeat_tells_of_the_last_sample() {
    let mut rig = Rig::with(None, HEARTBEAT);
    // No sample came so far: queries all of its samples.
    assert_eq!(rig.heartbeat(3), ["a/@adv/*/1e/7/**?_sn=..3;_anyke"]);
    assert_eq!(rig.sn(4), NOTHING);
    assert_eq!(rig.reply(numbered(7, 2)), NOTHING);
    assert_eq!(rig.reply(numbered(7, 3)), NOTHING);
    assert_eq!(rig.answered(Answered::Fully), ["2", "3", "4"]);
    assert_eq!(rig.heartbeat(4), NOTHING);
    assert_eq!(rig.heartbeat(6), ["a/@adv/*/1e/7/**?_sn=5..6;_anyke"]);
    assert_eq!(rig.heartbeat(6), NOTHING);
    assert_eq!(rig.reply(numbered(7, 5)), ["5"]);
    assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_sn=6..6;_anyke"]);
    // The sample may still be on its way: the query is repeated later.
    assert_eq!(rig.answered(Answered::Fully), NOTHING);
    assert_eq!(rig.after(RETRY_AFTER / 2), NOTHING);
    assert_eq!(rig.after(RETRY_AFTER / 2), ["a/@adv/*/1e/7/**?_sn=6..6;_anyke"]);
    assert_eq!(rig.answered(Answered::Fully), NOTHING);
    assert_eq!(rig.after(RETRY_AFTER), ["a/@adv/*/1e/7/**?_sn=6..6;_anyke"]);
    assert_eq!(rig.answered(Answered::Fully), ["miss 1 of 7"]);
    assert_eq!(rig.heartbeat(6), NOTHING);
    assert_eq!(rig.sn(7), ["7"]);
    // Invalid heartbeats are ignored.
    let key: KeyExpr = "a/@adv/pub/1e/7/_".parse().unwrap();
    rig.subscriber.handle_heartbeat(rig.now, &key, b"x");
    rig.subscriber.handle_heartbeat(rig.now, &"a/@adv/pub/x/7/_".parse().unwrap(), &encode_heartbeat(99));
    assert_eq!(rig.told(None), NOTHING);
}

#[test]
fn a_publisher_of_which_nothing_is_left_begins_behind_its_heartbeat() {
    let mut rig = Rig::with(None, HEARTBEAT);
    rig.heartbeat(3);
    assert_eq!(rig.answered(Answered::Fully), NOTHING);
    assert_eq!(rig.sn(4), ["4"]);
    assert_eq!(rig.sn(6), ["a/@adv/*/1e/7/**?_sn=5..5;_anyke"]);
}

#[test]
fn who_asks_by_itself_asks_each_period() {
    let period = Duration::from_millis(300);
    let mut rig = Rig::with(None, Some(Recovery::Periodic(period)));
    assert_eq!(rig.after(period), NOTHING);
    assert_eq!(rig.sn(4), ["4"]);
    assert_eq!(rig.after(period), ["a/@adv/*/1e/7/**?_sn=5..;_anyke"]);
    assert_eq!(rig.after(period), NOTHING, "that one is not answered yet");
    assert_eq!(rig.reply(numbered(7, 5)), ["5"]);
    assert_eq!(rig.answered(Answered::Fully), NOTHING);
    assert_eq!(rig.after(period), ["a/@adv/*/1e/7/**?_sn=6..;_anyke"]);
    assert_eq!(rig.sn(7), NOTHING);
    assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_sn=6..6;_anyke"]);
}

#[test]
fn times_tell_apart_what_has_no_number() {
    let mut rig = Rig::with(None, None);
    assert_eq!(rig.sample(stamped("a", 5)), ["a@5"]);
    assert_eq!(rig.sample(stamped("a", 5)), NOTHING);
    assert_eq!(rig.sample(stamped("a", 4)), NOTHING);
    assert_eq!(rig.sample(stamped("a", 6)), ["a@6"]);
    // One clock serves all keys of a node, and they are not in order among themselves.
    assert_eq!(rig.sample(stamped("b", 4)), ["b@4"]);
}

#[test]
fn what_waits_is_bounded() {
    let mut rig = Rig::new(|config| {
        config.recovery = HEARTBEAT;
        config.max_pending = 3;
    });
    rig.sn(0);
    assert_eq!(rig.sn(2), ["a/@adv/*/1e/7/**?_sn=1..1;_anyke"]);
    assert_eq!(rig.sn(3), NOTHING);
    assert_eq!(rig.sn(5), NOTHING);
    // The oldest gap is given up, and samples held back for it are delivered.
    assert_eq!(rig.sn(7), ["miss 1 of 7", "2", "3"]);
    assert_eq!(rig.subscriber.pending().0, 2);
    assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_sn=4..6;_anyke"]);

    let mut rig = Rig::new(|config| {
        config.history = HISTORY;
        config.max_pending_bytes = 1500;
    });
    rig.told(None);
    let mut given = 0;
    for sn in 0..100 {
        given += rig.sn(sn).len() + rig.sample(stamped("a", u64::from(sn))).len();
        assert!(rig.subscriber.pending().1 <= 1500);
    }
    assert_eq!(given + rig.answered(Answered::Fully).len(), 200);
}

#[test]
fn publishers_are_forgotten_when_they_are_silent_or_too_many() {
    let mut rig = Rig::new(|config| {
        config.history = Some(History { late: true, ..History::default() });
        config.max_sources = 8;
    });
    rig.told(None);
    rig.answered(Answered::Fully);
    for eid in 0..100 {
        rig.now.mono += Duration::from_secs(1);
        rig.sample(numbered(eid, 5));
        rig.sample(stamped(&format!("k{eid}"), 5));
        assert!(rig.subscriber.sources().0 <= 8 && rig.subscriber.sources().1 <= 8);
    }
    // The newest are still known.
    assert_eq!(rig.sample(numbered(99, 5)), NOTHING);
    assert_eq!(rig.sample(stamped("k99", 5)), NOTHING);
    rig.token("99", true);
    rig.answered(Answered::Fully);
    rig.after(STATE_LIFE);
    assert_eq!(rig.subscriber.sources(), (1, 0), "its token is there");
    rig.token("99", false);
    rig.after(STATE_LIFE);
    rig.after(STATE_LIFE);
    assert_eq!(rig.subscriber.sources(), (0, 0));
    assert_eq!(rig.subscriber.poll_timeout(), None);
}
