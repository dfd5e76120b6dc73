//! Barriers: the north has taken all earlier messages.

use super::*;
use crate::zenoh::Priority;

fn barrier(rig: &mut Rig, what: Barrier) -> BarrierId {
    rig.session.barrier(rig.now, what).unwrap()
}

#[test]
fn a_barrier_is_a_question_behind_the_declarations_and_passes_with_its_end() {
    let mut rig = Rig::new();
    rig.subscriber("a");
    barrier(&mut rig, Barrier::Declarations);
    assert_eq!(rig.sent(), ["KEYEXPR 1 0'a'", "SUBSCRIBER 1 1S''", "INTEREST 2 Current 0'@zwire/barrier'"]);
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.final_of(2);
    assert_eq!(rig.events(), ["barrier 1: Passed"]);
    rig.final_of(2);
    assert_eq!(rig.events(), [] as [&str; 0], "once");
}

#[test]
fn a_barrier_for_publications_goes_by_the_last_lane_and_one_for_declarations_by_the_first() {
    let mut rig = Rig::new();
    barrier(&mut rig, Barrier::Declarations);
    barrier(&mut rig, Barrier::Everything);
    let lanes: Vec<Priority> = rig.messages().iter().map(|message| message.qos().priority()).collect();
    assert_eq!(lanes, [Priority::Control, Priority::Background]);
}

#[test]
fn declarations_wait_for_the_next_link_and_publications_are_lost_with_theirs() {
    let mut rig = Rig::offline();
    barrier(&mut rig, Barrier::Declarations);
    barrier(&mut rig, Barrier::Everything);
    assert_eq!(rig.events(), ["barrier 2: LinkLost"]);
    rig.up(WhatAmI::Router);
    assert_eq!(rig.sent(), ["INTEREST 1 Current 0'@zwire/barrier'"]);
    barrier(&mut rig, Barrier::Everything);
    rig.down();
    assert_eq!(rig.events(), ["barrier 3: LinkLost"]);
    rig.subscriber("a");
    rig.up(WhatAmI::Router);
    assert_eq!(
        rig.sent().last().unwrap(),
        "INTEREST 2 Current 0'@zwire/barrier'",
        "behind all that is declared"
    );
    rig.final_of(2);
    assert_eq!(rig.events(), ["barrier 1: Passed"]);
}

#[test]
fn one_that_was_forgotten_says_nothing_and_the_end_of_the_session_ends_all() {
    let mut rig = Rig::new();
    let first = barrier(&mut rig, Barrier::Declarations);
    barrier(&mut rig, Barrier::Declarations);
    rig.session.forget_barrier(first);
    rig.final_of(1);
    assert_eq!(rig.events(), [] as [&str; 0]);
    rig.session.close(rig.now);
    assert_eq!(rig.events(), ["barrier 2: Closed"]);
    assert_eq!(rig.session.barrier(rig.now, Barrier::Declarations), Err(SessionError::Closed));
}

#[test]
fn so_many_may_wait_and_not_more() {
    let mut rig = Rig::offline();
    for _ in 0..limits::MAX_PENDING_BARRIERS {
        barrier(&mut rig, Barrier::Declarations);
    }
    assert!(matches!(
        rig.session.barrier(rig.now, Barrier::Declarations),
        Err(SessionError::TooMany { limit: limits::MAX_PENDING_BARRIERS, .. })
    ));
}

#[test]
fn what_is_at_the_other_end_is_counted() {
    let mut rig = Rig::new();
    let (publisher, querier) = (rig.publisher("a/*"), rig.querier("q"));
    rig.declared(Some(1), d_subscriber(1, "a/1"));
    rig.declared(Some(1), d_subscriber(2, "a/**"));
    rig.declared(Some(2), d_queryable(3, "q", false));
    rig.subscriber("a/2");
    let count = |rig: &Rig, id| rig.session.matches(id).map(|m| (m.queryables, m.local, m.remote));
    assert_eq!(count(&rig, publisher), Some((false, 1, 2)));
    assert_eq!(count(&rig, querier), Some((true, 0, 1)));
    rig.declared(None, u_subscriber(2));
    rig.queryable("q");
    rig.queryable("q");
    assert_eq!(count(&rig, publisher), Some((false, 1, 1)));
    assert_eq!(count(&rig, querier), Some((true, 2, 1)));
    rig.undeclare(publisher);
    assert_eq!(count(&rig, publisher), None);
}
