//! Rules that change while a link is open: declarations are judged again (`zenoh-behaviour` 7.4).

use super::*;
use crate::zenoh::{
    KeyExpr,
    intercept::{
        AccessControl, AccessPolicy, AccessRule, Flows, Interceptor, LinkFacts, Links, MessageKind, Policy,
        RuleMatch,
    },
};
use InterestMode::CurrentFuture;

const OPEN: LinkFacts<'_> =
    LinkFacts { zid: None, interfaces: &[], protocol: "tcp", common_name: None, username: None };

/// Rules that deny these messages on keys below `a`, and pass all else.
fn denying(messages: &[MessageKind]) -> Interceptor {
    let rule = AccessRule {
        allow: false,
        flows: Flows::default(),
        messages: messages.iter().copied().collect(),
        keys: vec![KeyExpr::new("a/**").unwrap()],
        relation: RuleMatch::default(),
    };
    let policies = vec![AccessPolicy { rules: vec![0], subjects: vec![Links::default()] }];
    let access_control =
        Some(AccessControl { default_allow: true, asks: false, rules: vec![rule], policies });
    Interceptor::new(&Policy { access_control, ..Policy::default() }, &OPEN).unwrap()
}

/// Hands the inward part of the review in, and shows both.
fn change(
    world: &mut World,
    face: u32,
    before: Option<&Interceptor>,
    after: Option<&Interceptor>,
) -> (Vec<String>, Vec<String>) {
    let review = world.node.review(FaceId(face), before, after);
    let told = review.outward.iter().map(show).collect();
    let mut out = Vec::new();
    for message in review.inward {
        out.extend(world.says(face, message));
    }
    world.node.forget_unwatched_tokens(FaceId(face));
    (out, told)
}

#[test]
fn a_denied_subscriber_gets_nothing_and_its_publishers_hear_of_it() {
    let mut world = World::with_clients(2);
    world.says(1, d_sub(1, "a/x"));
    world.says(1, d_sub(2, "b/x"));
    world.says(2, interest(1, CurrentFuture, "KS", None));
    assert_eq!(world.says(2, put("a/x", "1")), ["1: a/x PUT 1"]);
    let rules = denying(&[MessageKind::DeclareSubscriber]);
    let (out, told) = change(&mut world, 1, None, Some(&rules));
    assert_eq!((out, told), (vec!["2: U_SUB 1".to_owned()], vec![]));
    assert!(world.says(2, put("a/x", "2")).is_empty());
    assert_eq!(world.says(2, put("b/x", "3")), ["1: b/x PUT 3"]);
    // What has ended is kept, to come in again.
    let held = world_review_of_a(&rules);
    assert_eq!(held, ["D_SUB 1 a/x"]);
    // The peer undeclares what it does not know to be gone.
    assert!(world.says(1, u_sub(1)).is_empty());
}

fn world_review_of_a(rules: &Interceptor) -> Vec<String> {
    let mut world = World::with_clients(1);
    world.says(1, d_sub(1, "a/x"));
    world.node.review(FaceId(1), None, Some(rules)).withdrawn.iter().map(show).collect()
}

#[test]
fn a_face_unlearns_what_it_may_not_know_and_learns_it_again() {
    let mut world = World::with_clients(2);
    world.says(2, d_sub(1, "a/x"));
    world.says(2, d_qabl(2, "a/q", true, 0));
    world.says(1, interest(1, CurrentFuture, "KSQ", None));
    let rules = denying(&[MessageKind::DeclareSubscriber, MessageKind::DeclareQueryable]);
    let (out, told) = change(&mut world, 1, None, Some(&rules));
    assert!(out.is_empty(), "{out:?}");
    assert_eq!(told, ["U_SUB 1", "U_QABL 2 ext (none)"]);
    let (_, told) = change(&mut world, 1, Some(&rules), None);
    assert_eq!(told, ["D_SUB 1 a/x", "D_QABL 2 a/q complete distance 0"]);
    // The same rules again: nothing to say.
    assert_eq!(
        world.node.review(
            FaceId(1),
            Some(&rules),
            Some(&denying(&[MessageKind::DeclareSubscriber, MessageKind::DeclareQueryable]))
        ),
        Review::default()
    );
}

#[test]
fn a_denied_interest_in_tokens_ends_and_leaves_the_rest() {
    let mut world = World::with_clients(2);
    world.says(2, d_token(1, "a/t"));
    world.says(1, interest(1, CurrentFuture, "KT", Some("a/**")));
    world.says(1, interest(2, CurrentFuture, "KST", Some("a/**")));
    let rules = denying(&[MessageKind::DeclareLivelinessSubscriber]);
    change(&mut world, 1, None, Some(&rules));
    assert!(world.says(2, d_token(2, "a/u")).is_empty());
    assert!(world.says(2, u_token(1)).is_empty());
    assert_eq!(world.says(2, d_sub(9, "a/s")), ["1: D_SUB 2 a/s"]);
    // It comes in again: what is there is news.
    world.says(1, interest(2, InterestMode::Future, "ST", Some("a/**")));
    world.node.tell_tokens(FaceId(1), 2);
    assert_eq!(world.drain(), ["1: D_TOKEN 3 a/u"]);
    assert_eq!(world.says(2, u_token(2)), ["1: U_TOKEN 3 ext (none)"]);
}
