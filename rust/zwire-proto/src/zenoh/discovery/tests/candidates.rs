use super::{at, zid};
use crate::{
    Text,
    zenoh::discovery::{Candidates, DialOutcome, DueDial, GossipReach, MAX_DIALS},
};
use std::sync::Arc;

fn one() -> Vec<Text> {
    vec!["tcp/10.0.0.1:7447".into()]
}

/// Runs the clock until `end`; every attempt ends at once with `outcome`. Returns the time of each.
fn attempts(candidates: &mut Candidates, start: u64, end: u64, outcome: DialOutcome) -> Vec<u64> {
    let mut all = Vec::new();
    for ms in (start..end).step_by(10) {
        candidates.handle_timeout(at(ms));
        while let Some(DueDial { zid, .. }) = candidates.poll_dial(at(ms)) {
            all.push(ms);
            candidates.handle_dialled(at(ms), zid, outcome);
        }
    }
    all
}

#[test]
fn a_node_that_never_answers_is_forgotten_and_found_anew() {
    let mut candidates = Candidates::new();
    candidates.handle_found(at(0), zid(1), one(), None);
    candidates.handle_found(at(0), zid(1), one(), None);
    candidates.handle_found(at(0), zid(2), Vec::new(), None);
    assert_eq!(attempts(&mut candidates, 0, 60_000, DialOutcome::Failed), [0, 1000, 3000, 7000]);
    assert!(candidates.is_empty());
    assert_eq!(candidates.poll_timeout(at(60_000)), None);
    candidates.handle_found(at(60_000), zid(1), one(), None);
    assert_eq!(candidates.poll_timeout(at(60_000)), Some(at(60_000).mono));
    assert!(candidates.poll_dial(at(60_000)).is_some());
}

#[test]
fn a_node_whose_link_is_lost_is_looked_for_a_minute() {
    let mut candidates = Candidates::new();
    candidates.handle_found(at(0), zid(1), one(), None);
    assert_eq!(attempts(&mut candidates, 0, 5000, DialOutcome::Connected), [0]);
    candidates.handle_found(at(5000), zid(1), one(), None);
    assert!(candidates.poll_dial(at(5000)).is_none(), "it is connected");
    candidates.handle_lost(at(10_000), zid(1));
    let again = attempts(&mut candidates, 10_000, 200_000, DialOutcome::Failed);
    assert_eq!(again[..5], [10_100, 11_100, 13_100, 17_100, 21_100]);
    assert!((65_000..=75_000).contains(again.last().unwrap()), "{again:?}");
    assert!(candidates.is_empty());
    candidates.handle_found(at(200_000), zid(1), one(), None);
    attempts(&mut candidates, 200_000, 200_010, DialOutcome::Connected);
    candidates.handle_lost(at(300_000), zid(1));
    assert_eq!(attempts(&mut candidates, 300_000, 310_000, DialOutcome::Connected), [300_100]);
}

#[test]
fn one_attempt_per_node_and_a_bounded_number_in_all() {
    let mut candidates = Candidates::new();
    for n in 1..=200 {
        candidates.handle_found(at(0), zid(n), one(), None);
    }
    let mut begun = Vec::new();
    while let Some(DueDial { zid, .. }) = candidates.poll_dial(at(0)) {
        candidates.handle_found(at(0), zid, one(), None);
        begun.push(zid);
    }
    assert_eq!(begun.len(), MAX_DIALS);
    assert_eq!(candidates.poll_timeout(at(0)), None, "a place has to become free");
    candidates.handle_dialled(at(0), begun[0], DialOutcome::Connected);
    assert_eq!(candidates.poll_dial(at(0)).map(|due| due.zid), Some(zid(MAX_DIALS as u128 + 1)));
    candidates.handle_dialled(at(0), zid(150), DialOutcome::Failed);
    candidates.handle_dialled(at(0), begun[0], DialOutcome::Failed);
    assert!(candidates.poll_dial(at(0)).is_none(), "an end that was not awaited frees no place");
}

/// A flood of made-up nodes: memory and the rate of connections are bounded.
#[test]
fn made_up_nodes_are_bounded() {
    let mut candidates = Candidates::new();
    let mut dials = 0;
    for n in 1..=100_000_u128 {
        let now = at(n as u64 / 10);
        candidates.handle_found(now, zid(n), one(), None);
        candidates.handle_timeout(now);
        while let Some(DueDial { zid, .. }) = candidates.poll_dial(now) {
            dials += 1;
            candidates.handle_dialled(now, zid, DialOutcome::Failed);
        }
        assert!(candidates.len() <= 2048);
        if let Some(next) = candidates.poll_timeout(now) {
            assert!(next > now.mono || candidates.poll_dial(now).is_none());
        }
    }
    assert!((1300..1500).contains(&dials), "{dials} in ten seconds");
    assert!(candidates.refused() > 0);
}

fn reach() -> Option<Arc<GossipReach>> {
    Some(Arc::new(GossipReach { teller: None, own: Vec::new(), listed: Vec::new() }))
}

#[test]
fn nodes_that_gossip_invents_cost_few_attempts_and_delay_no_others() {
    let mut candidates = Candidates::new();
    for n in 1..=3000 {
        candidates.handle_found(at(0), zid(n), one(), reach());
    }
    assert_eq!((candidates.len(), candidates.refused()), (1024, 3000 - 1024));
    let first = attempts(&mut candidates, 0, 1000, DialOutcome::Failed);
    assert!((128..=140).contains(&first.len()), "{}", first.len());
    let later = attempts(&mut candidates, 1000, 61_000, DialOutcome::Failed);
    assert!((295..=305).contains(&later.len()), "five in a second: {}", later.len());
    // A node that answers itself is connected to at once.
    candidates.handle_found(at(61_000), zid(5000), one(), None);
    let DueDial { zid: next, reach, .. } = candidates.poll_dial(at(61_000)).unwrap();
    assert!(next == zid(5000) && reach.is_none());
}

#[test]
fn attempts_that_fail_together_are_all_counted() {
    let mut candidates = Candidates::new();
    for n in 1..=1000 {
        candidates.handle_found(at(0), zid(n), one(), reach());
    }
    let mut count = 0;
    for ms in (0..60_000).step_by(10) {
        candidates.handle_timeout(at(ms));
        let due: Vec<_> = core::iter::from_fn(|| candidates.poll_dial(at(ms))).collect();
        count += due.len();
        due.iter().for_each(|dial| candidates.handle_dialled(at(ms + 5), dial.zid, DialOutcome::Failed));
    }
    assert!(count <= 128 + MAX_DIALS + 60 * 5, "{count}");
}

#[test]
fn nodes_that_gossip_tells_of_and_that_exist_are_not_slowed_down() {
    let mut candidates = Candidates::new();
    for n in 1..=400 {
        candidates.handle_found(at(0), zid(n), one(), reach());
    }
    assert_eq!(attempts(&mut candidates, 0, 100, DialOutcome::Connected).len(), 400);
    // A lost link is not gossip any more.
    candidates.handle_lost(at(100), zid(1));
    candidates.handle_timeout(at(300));
    assert!(candidates.poll_dial(at(300)).unwrap().reach.is_none());
}
