//! Keys and entities (`zenoh-behaviour` 4.1, 4.2).

use super::*;

#[test]
fn a_number_stands_for_the_key_that_the_face_gave_it() {
    let mut world = World::with_clients(2);
    world.says(1, d_key(1, "b/key"));
    world.says(1, d_sub(10, "1S:"));
    world.says(1, d_sub(11, "b/wild/**"));
    world.says(2, d_key(1, "b"));
    // 9.4 b: the receiver's own number where it has one, otherwise the full key.
    assert_eq!(world.says(2, put("1S:/wild/x/y", "v2")), ["1: b/wild/x/y PUT v2"]);
    assert_eq!(world.says(2, put("1S:/key", "v1")), ["1: 1R: PUT v1"]);
    assert_eq!(world.says(2, del("b/key")), ["1: 1R: DEL"]);
}

#[test]
fn a_prefix_is_joined_without_a_slash_and_the_result_has_to_be_canonical() {
    let mut world = World::with_clients(2);
    world.says(1, d_sub(1, "**"));
    world.says(2, d_key(7, "t/k"));
    assert_eq!(world.says(2, put("7S:z", "")), ["1: t/kz PUT "]);
    assert_eq!(world.says(2, put("7S:/*/**", "")), ["1: t/k/*/** PUT "]);
    for wrong in ["7S:/", "7S://a", "7S:/**/**", "8S:", "7R:", "a//b", "", "/a", "7S:/a?b"] {
        let before = world.node.stats().invalid_keys;
        assert!(world.says(2, put(wrong, "")).is_empty(), "{wrong}");
        assert_eq!(world.node.stats().invalid_keys, before + 1, "{wrong}");
    }
}

#[test]
fn a_number_in_use_keeps_its_key_and_zero_cannot_be_used() {
    let mut world = World::with_clients(2);
    world.says(1, d_sub(1, "**"));
    world.says(2, d_key(1, "a"));
    world.says(2, d_key(1, "b"));
    world.says(2, d_key(0, "c"));
    assert_eq!(world.says(2, put("1S:", "")), ["1: a PUT "]);
    world.says(2, u_key(1));
    assert!(world.says(2, put("1S:", "")).is_empty());
    world.says(2, d_key(1, "b"));
    assert_eq!(world.says(2, put("1S:", "")), ["1: b PUT "]);
    // Declarations under the old meaning of a number stay.
    world.says(2, u_key(9));
    assert_eq!(world.node.stats().ignored, 3);
}

#[test]
fn numbers_that_come_and_go_change_how_a_key_is_written_at_once() {
    let mut world = World::with_clients(2);
    world.says(1, d_sub(1, "a/**"));
    assert_eq!(world.says(2, put("a/b/c", "")), ["1: a/b/c PUT "]);
    world.says(1, d_key(4, "a/b"));
    assert_eq!(world.says(2, put("a/b/c", "")), ["1: 4R:/c PUT "]);
    world.says(1, d_key(5, "a/b/c"));
    assert_eq!(world.says(2, put("a/b/c", "")), ["1: 5R: PUT "]);
    world.says(1, u_key(5));
    world.says(1, u_key(4));
    assert_eq!(world.says(2, put("a/b/c", "")), ["1: a/b/c PUT "]);
    // A number for part of a chunk cannot be used.
    world.says(1, d_key(6, "a/b/cc"));
    assert_eq!(world.says(2, put("a/b/ccc", "")), ["1: a/b/ccc PUT "]);
}

#[test]
fn a_key_declared_under_two_ids_goes_with_the_last() {
    let mut world = World::with_clients(2);
    world.says(1, d_sub(1, "a"));
    world.says(1, d_sub(2, "a"));
    assert_eq!(world.says(2, put("a", "x")), ["1: a PUT x"]);
    world.says(1, u_sub(1));
    assert_eq!(world.says(2, put("a", "x")), ["1: a PUT x"]);
    world.says(1, u_sub(2));
    assert!(world.says(2, put("a", "x")).is_empty());
    world.says(1, u_sub(2));
    assert_eq!(world.node.stats().ignored, 1);
}

#[test]
fn an_id_used_again_for_another_key_keeps_both_and_means_the_second() {
    let mut world = World::with_clients(2);
    world.says(1, d_sub(1, "a"));
    world.says(1, d_sub(1, "b"));
    assert_eq!(world.says(2, put("a", "")).len(), 1);
    assert_eq!(world.says(2, put("b", "")).len(), 1);
    world.says(1, u_sub(1));
    assert_eq!(world.says(2, put("a", "")).len(), 1);
    assert_eq!(world.says(2, put("b", "")).len(), 0);
    world.down(1);
    assert_eq!(world.says(2, put("a", "")).len(), 0);
    assert_eq!(world.node.tables.all().count(), 0);
}

#[test]
fn ids_of_different_kinds_are_different() {
    let mut world = World::with_clients(2);
    world.says(1, d_sub(1, "a"));
    world.says(1, d_token(1, "a"));
    world.says(1, d_qabl(1, "a", false, 0));
    world.says(1, u_token(1));
    world.says(1, u_qabl(1));
    assert_eq!(world.says(2, put("a", "")), ["1: a PUT "]);
}

#[test]
fn an_undeclaration_may_name_the_key() {
    let mut world = World::with_clients(2);
    // Id 0 everywhere, as on links without ids.
    world.says(1, d_sub(0, "a"));
    world.says(1, d_sub(0, "b"));
    let by_key = |key| declare(Declaration::UndeclareSubscriber { id: 0, key: Some(wire(key)) });
    world.says(1, by_key("a"));
    assert_eq!(world.says(2, put("a", "")).len(), 0);
    assert_eq!(world.says(2, put("b", "")).len(), 1);
    world.says(1, by_key("c"));
    assert_eq!(world.says(2, put("b", "")).len(), 1);
}

#[test]
fn declarations_on_wrong_keys_are_ignored() {
    let mut world = World::with_clients(2);
    for key in ["e//a", "e/**/**", "9S:/a", "9R:", ""] {
        assert!(world.says(1, d_sub(1, key)).is_empty());
        assert!(world.says(1, d_key(1, key)).is_empty());
    }
    assert_eq!(world.node.stats().invalid_keys, 10);
    assert_eq!(world.node.tables.all().count(), 0);
}

#[test]
fn what_is_kept_does_not_keep_the_receive_buffer() {
    let mut world = World::with_clients(2);
    let batch = bytes::Bytes::from(vec![b'a'; 60_000]);
    let key = || WireExpr::full(Text::from_utf8(batch.slice(0..3)).unwrap());
    world.says(1, declare(Declaration::Subscriber { id: 1, key: key() }));
    world.says(1, declare(Declaration::KeyExpr { id: 1, key: key() }));
    world.says(
        1,
        NetworkMessage::Interest(Interest::new(
            1,
            InterestMode::CurrentFuture,
            InterestOptions::SUBSCRIBERS,
            Some(key()),
        )),
    );
    let push = Push::new(key(), PushBody::Del(Del::default()));
    assert_eq!(world.says(2, NetworkMessage::Push(push)), ["1: 1R: DEL"]);
    assert!(batch.is_unique());
}
