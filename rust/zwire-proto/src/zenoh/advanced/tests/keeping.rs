//! Mode that keeps everything: no received sample is dropped, and known samples are not queried.

use super::*;

fn keeper(history: Option<History>) -> Rig {
    Rig::new(|config| {
        (config.history, config.recovery, config.keeps) = (history, HEARTBEAT, true);
    })
}

#[test]
fn what_is_missing_is_asked_for_and_what_comes_late_is_kept() {
    let mut rig = keeper(None);
    assert_eq!(rig.sn(5), ["5"]);
    assert_eq!(rig.sn(8), ["a/@adv/*/1e/7/**?_sn=6..7;_anyke"]);
    // A repetition while the first is held back: both are delivered.
    assert_eq!(rig.sn(8), NOTHING);
    assert_eq!(rig.reply(numbered(7, 6)), ["6"]);
    assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_sn=7..7;_anyke"]);
    for _ in 1..MAX_ATTEMPTS {
        assert_eq!(rig.answered(Answered::Fully), ["a/@adv/*/1e/7/**?_sn=7..7;_anyke"]);
    }
    assert_eq!(rig.answered(Answered::Fully), ["miss 1 of 7", "8", "8"]);
    assert_eq!(rig.sn(7), ["7"], "late, and not lost");
    assert_eq!(rig.sn(9), ["9"]);
    assert_eq!(rig.sn(9), ["9"], "twice");
    assert_eq!(rig.subscriber.pending(), (0, 0));
}

#[test]
fn what_is_known_is_where_it_begins() {
    let mut rig = keeper(HISTORY);
    rig.subscriber.know(rig.now, source(7), 30);
    assert_eq!(rig.told(None), ["a/@adv/**?_anyke"]);
    assert_eq!(rig.reply(numbered(7, 29)), NOTHING);
    assert_eq!(rig.reply(numbered(7, 30)), NOTHING);
    assert_eq!(rig.reply(numbered(7, 31)), ["31"]);
    assert_eq!(rig.sn(33), ["a/@adv/*/1e/7/**?_sn=32..32;_anyke"]);
    assert_eq!(rig.reply(numbered(7, 32)), ["32", "33"]);
}

#[test]
fn a_publisher_without_a_cache_is_not_asked_for_ever() {
    let mut rig = keeper(None);
    assert_eq!(rig.sn(0), ["0"]);
    for round in 1..=MAX_FRUITLESS / MAX_ATTEMPTS {
        assert_eq!(rig.sn(2 * round).len(), 1, "asked");
        for _ in 1..MAX_ATTEMPTS {
            assert_eq!(rig.answered(Answered::Fully).len(), 1, "asked again");
        }
        assert_eq!(rig.answered(Answered::Fully), ["miss 1 of 7", &(2 * round).to_string()]);
    }
    assert_eq!(rig.sn(10), ["10", "miss 5 of 7"]);
    // A heartbeat shows that the publisher numbers its samples.
    assert_eq!(rig.heartbeat(10), NOTHING);
    assert_eq!(rig.sn(12).len(), 1, "asked");
}

#[test]
fn a_heartbeat_that_has_overtaken_samples_asks_for_nothing() {
    let mut rig = keeper(None);
    assert_eq!(rig.sn(1), ["1"]);
    assert_eq!(rig.heartbeat(3), NOTHING);
    assert_eq!(rig.sn(2), ["2"]);
    assert_eq!(rig.sn(3), ["3"]);
    assert_eq!(rig.after(RETRY_AFTER), NOTHING);
    assert_eq!(rig.heartbeat(5), NOTHING);
    assert_eq!(rig.after(RETRY_AFTER), ["a/@adv/*/1e/7/**?_sn=4..5;_anyke"]);
    // For a new publisher it begins behind the heartbeat.
    let mut rig = keeper(None);
    assert_eq!(rig.heartbeat(5), NOTHING);
    assert_eq!(rig.sn(6), ["6"]);
    assert_eq!(rig.sn(5), ["5"]);
}

#[test]
fn times_go_through_and_answers_bring_what_is_new() {
    let mut rig = keeper(None);
    for time in [5, 3, 3] {
        assert_eq!(rig.sample(stamped("a", time)), [format!("a@{time}")]);
    }
    assert_eq!(rig.subscriber.sources(), (0, 0), "nothing is remembered");
    let mut rig = keeper(HISTORY);
    let known = Timestamp { time: Ntp64(2), id: source(0).zid };
    rig.subscriber.know_time(rig.now, &"a".parse().unwrap(), known);
    assert_eq!(rig.told(None), ["a/@adv/**?_anyke"]);
    assert_eq!(rig.sample(stamped("a", 5)), ["a@5"]);
    for time in [1, 2, 3, 4, 4, 5] {
        assert_eq!(rig.reply(stamped("a", time)), NOTHING);
    }
    assert_eq!(rig.sample(stamped("a", 1)), ["a@1"]);
    assert_eq!(rig.answered(Answered::Fully), ["a@3", "a@4"]);
    assert_eq!(rig.subscriber.pending(), (0, 0));
}
