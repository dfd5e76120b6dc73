//! Work on thousands of declarations in steps.

use super::*;
use InterestMode::{Current, CurrentFuture, Future};

const MANY: u32 = 5000;

impl World {
    /// A hub with clients 1 to `n`, of which the first has declared many tokens.
    fn with_many_tokens(n: u32) -> Self {
        let mut world = World::with_clients(n);
        for token in 1..=MANY {
            world.says(1, d_token(token, &format!("t/{token}")));
        }
        assert_eq!(world.node.poll_timeout(), None);
        world
    }

    /// The output of all steps that are due, and the largest output of one.
    pub(super) fn steps(&mut self) -> (Vec<String>, usize) {
        let (mut all, mut most) = (Vec::new(), 0);
        while self.node.poll_timeout().is_some_and(|due| due <= self.now) {
            let step = self.after(Duration::ZERO);
            most = most.max(step.len());
            all.extend(step);
            assert!(all.len() < 10 * MANY as usize, "there is no end");
        }
        (all, most)
    }
}

#[test]
fn the_end_of_a_face_is_spread_over_steps() {
    let mut world = World::with_many_tokens(3);
    world.says(2, interest(1, Future, "KT", None));
    let mut told = world.down(1);
    assert!(told.len() <= 1024, "{}", told.len());
    // What is not withdrawn yet is offered to no other face, and is no place for queries.
    assert_eq!(world.says(3, interest(1, Current, "KT", None)).len(), 0);
    let (rest, most) = world.steps();
    assert!(most <= 65, "{most}");
    told.extend(rest);
    let end = told.iter().position(|line| line == "3: I=1 D_FINAL").expect("the end of an empty answer");
    told.remove(end);
    assert_eq!(told.len(), MANY as usize);
    assert!(told.iter().all(|line| line.starts_with("2: U_TOKEN")), "{told:?}");
    world.node.check_bounds();
    for face in 2..=3 {
        world.down(face);
    }
    world.node.check_nothing_left();
}

#[test]
fn the_number_of_a_face_may_be_used_again_at_once() {
    let mut world = World::with_many_tokens(2);
    world.says(2, interest(1, Future, "KT", None));
    world.down(1);
    let told = world.up(1, WhatAmI::Client);
    assert!(told.iter().all(|line| line.starts_with("2: U_TOKEN")));
    let told = world.says(1, d_token(1, "t/new"));
    assert!(told.len() == 1 && told[0].ends_with(" t/new"), "{told:?}");
    assert_eq!(world.steps().0.len(), 0);
}

#[test]
fn a_long_answer_is_spread_over_steps_and_ends_once() {
    let mut world = World::with_many_tokens(3);
    for (mode, key) in [(CurrentFuture, None), (CurrentFuture, Some("t/*")), (Current, Some("t/**"))] {
        assert_eq!(world.says(2, interest(7, mode, "KT", key)).len(), 0);
        let (told, most) = world.steps();
        assert!(most <= 513, "{most}");
        assert_eq!(told.len(), MANY as usize + 1, "{mode:?} {key:?}");
        assert_eq!(told.last().unwrap(), "2: I=7 D_FINAL");
        assert!(told[..MANY as usize].iter().all(|line| line.starts_with("2: I=7 D_TOKEN")));
    }
    // A short one is answered at once, also while a long one is under way.
    world.says(2, interest(8, CurrentFuture, "KT", None));
    assert_eq!(world.says(2, interest(9, Current, "KT", Some("t/17"))).len(), 2);
}

#[test]
fn declarations_that_come_and_go_during_an_answer_are_told_once() {
    let mut world = World::with_many_tokens(2);
    assert!(world.says(2, interest(7, CurrentFuture, "KT", None)).is_empty());
    let first = world.after(Duration::ZERO);
    assert!(first.iter().any(|line| line.ends_with(" t/1")));
    // One before the place of the answer, one behind it, and one of each that ends.
    let told = world.says(1, d_token(9001, "a"));
    assert!(told.len() == 1 && told[0].ends_with(" a"), "{told:?}");
    let told = world.says(1, d_token(9002, "z"));
    assert!(told.len() == 1 && told[0].ends_with(" z"), "{told:?}");
    assert_eq!(world.says(1, u_token(1)).len(), 1, "its declaration was sent");
    assert_eq!(world.says(1, u_token(4999)).len(), 0, "its declaration was not");
    let (rest, _) = world.steps();
    assert_eq!(rest.last().unwrap(), "2: I=7 D_FINAL");
    let of = |key: &str| rest.iter().filter(|line| line.ends_with(&format!(" {key}"))).count();
    assert_eq!((of("a"), of("t/4999"), of("t/1"), of("t/4998")), (0, 0, 0, 1));
    // One that was told before the answer reached it has the same number in both.
    assert!(of("z") <= 1);
    world.node.check_bounds();
}

#[test]
fn a_face_without_room_waits_and_delays_no_other() {
    let mut world = World::with_many_tokens(3);
    world.says(2, interest(1, CurrentFuture, "KT", None));
    world.says(3, interest(1, CurrentFuture, "KT", None));
    for _ in 0..100 {
        world.node.handle_timeout_where(world.now(), &|face| face != FaceId(2));
    }
    let told = world.drain();
    assert_eq!(told.len(), MANY as usize + 1);
    assert!(told.iter().all(|line| line.starts_with("3: ")));
    assert_eq!(world.node.poll_timeout(), Some(world.now + Duration::from_millis(5)));
    world.now += Duration::from_millis(5);
    assert_eq!(world.steps().0.len(), MANY as usize + 1);
    // An interest that has ended is answered no more.
    world.says(2, interest(2, CurrentFuture, "KT", None));
    world.says(2, interest(2, InterestMode::Final, "", None));
    assert_eq!(world.steps().0.len(), 0);
}

#[test]
fn a_peer_that_joins_is_told_all_and_then_so() {
    let mut world = World::new(NodeMode::Peer);
    let own = Remote { zid: zid(0xf000), whatami: WhatAmI::Peer };
    world.node.handle_face_up(world.now(), FaceId(1), own, FaceKind::Local);
    for token in 1..=MANY {
        world.says(1, d_token(token, &format!("t/{token}")));
    }
    let told = world.up(5, WhatAmI::Peer);
    assert!(!told.iter().any(|line| line.contains("D_FINAL") || line.contains("D_TOKEN")), "{told:?}");
    let (told, _) = world.steps();
    assert_eq!(told.len(), MANY as usize + 1);
    assert_eq!(told.last().unwrap(), "5: I=0 D_FINAL");
}

#[test]
fn an_asker_beyond_its_share_is_refused() {
    let mut world = World::with_many_tokens(2);
    world.node.config.limits.node_bytes = 1 << 20;
    let result = world.try_says(2, interest(1, CurrentFuture, "KT", None));
    assert!(matches!(result, Err(FaceError::NodeFull { .. })), "{result:?}");
}
