use super::{at, zid};
use crate::{
    Text,
    zenoh::discovery::{Candidates, DialOutcome, MAX_DIALS},
};

fn one() -> Vec<Text> {
    vec!["tcp/10.0.0.1:7447".into()]
}

/// Runs the clock until `end`; every attempt ends at once with `outcome`. Returns the time of each.
fn attempts(candidates: &mut Candidates, start: u64, end: u64, outcome: DialOutcome) -> Vec<u64> {
    let mut all = Vec::new();
    for ms in (start..end).step_by(10) {
        candidates.handle_timeout(at(ms));
        while let Some((zid, _)) = candidates.poll_dial(at(ms)) {
            all.push(ms);
            candidates.handle_dialled(at(ms), zid, outcome);
        }
    }
    all
}

#[test]
fn a_node_that_never_answers_is_forgotten_and_found_anew() {
    let mut candidates = Candidates::new();
    candidates.handle_found(at(0), zid(1), one());
    candidates.handle_found(at(0), zid(1), one());
    candidates.handle_found(at(0), zid(2), Vec::new());
    assert_eq!(attempts(&mut candidates, 0, 60_000, DialOutcome::Failed), [0, 1000, 3000, 7000]);
    assert!(candidates.is_empty());
    assert_eq!(candidates.poll_timeout(at(60_000)), None);
    candidates.handle_found(at(60_000), zid(1), one());
    assert_eq!(candidates.poll_timeout(at(60_000)), Some(at(60_000).mono));
    assert!(candidates.poll_dial(at(60_000)).is_some());
}

#[test]
fn a_node_whose_link_is_lost_is_looked_for_a_minute() {
    let mut candidates = Candidates::new();
    candidates.handle_found(at(0), zid(1), one());
    assert_eq!(attempts(&mut candidates, 0, 5000, DialOutcome::Connected), [0]);
    candidates.handle_found(at(5000), zid(1), one());
    assert_eq!(candidates.poll_dial(at(5000)), None, "it is connected");
    candidates.handle_lost(at(10_000), zid(1));
    let again = attempts(&mut candidates, 10_000, 200_000, DialOutcome::Failed);
    assert_eq!(again[..5], [10_100, 11_100, 13_100, 17_100, 21_100]);
    assert!((65_000..=75_000).contains(again.last().unwrap()), "{again:?}");
    assert!(candidates.is_empty());
    candidates.handle_found(at(200_000), zid(1), one());
    attempts(&mut candidates, 200_000, 200_010, DialOutcome::Connected);
    candidates.handle_lost(at(300_000), zid(1));
    assert_eq!(attempts(&mut candidates, 300_000, 310_000, DialOutcome::Connected), [300_100]);
}

#[test]
fn one_attempt_per_node_and_a_bounded_number_in_all() {
    let mut candidates = Candidates::new();
    for n in 1..=200 {
        candidates.handle_found(at(0), zid(n), one());
    }
    let mut begun = Vec::new();
    while let Some((zid, _)) = candidates.poll_dial(at(0)) {
        candidates.handle_found(at(0), zid, one());
        begun.push(zid);
    }
    assert_eq!(begun.len(), MAX_DIALS);
    assert_eq!(candidates.poll_timeout(at(0)), None, "a place has to become free");
    candidates.handle_dialled(at(0), begun[0], DialOutcome::Connected);
    assert_eq!(candidates.poll_dial(at(0)).map(|(zid, _)| zid), Some(zid(MAX_DIALS as u128 + 1)));
    candidates.handle_dialled(at(0), zid(150), DialOutcome::Failed);
    candidates.handle_dialled(at(0), begun[0], DialOutcome::Failed);
    assert_eq!(candidates.poll_dial(at(0)), None, "an end that was not awaited frees no place");
}

/// A flood of made-up nodes: memory and the rate of connections are bounded.
#[test]
fn made_up_nodes_are_bounded() {
    let mut candidates = Candidates::new();
    let mut dials = 0;
    for n in 1..=100_000_u128 {
        let now = at(n as u64 / 10);
        candidates.handle_found(now, zid(n), one());
        candidates.handle_timeout(now);
        while let Some((zid, _)) = candidates.poll_dial(now) {
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
