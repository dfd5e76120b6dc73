//! Properties, on every pair of small expressions and on random larger ones.

use super::{super::*, key, model};
use proptest::prelude::*;

/// Every canonical expression of up to three chunks of the model.
fn small_expressions() -> Vec<String> {
    let all: Vec<String> = model::all_lists(&model::CHUNKS, 3).iter().map(|list| list.join("/")).collect();
    all.into_iter().filter(|text| validate(text).is_ok()).collect()
}

#[test]
fn matching_agrees_with_sets_of_keys_on_every_small_pair() {
    let keys = model::all_keys();
    let expressions = small_expressions();
    assert_eq!((keys.len(), expressions.len()), (780, 783));
    let sets: Vec<_> = expressions.iter().map(|text| model::keys_of(text, &keys)).collect();
    let mut included = 0;
    for (a, a_keys) in expressions.iter().zip(&sets) {
        for (b, b_keys) in expressions.iter().zip(&sets) {
            assert_eq!(intersects(a, b), model::meet(a_keys, b_keys), "{a} meets {b}");
            let includes = includes(a, b);
            included += usize::from(includes);
            if includes {
                assert!(model::contains(a_keys, b_keys), "{a} includes {b}");
            } else if !b.contains('*') {
                // With a plain key on the right, a comparison chunk by chunk is exact.
                assert!(!model::contains(a_keys, b_keys), "{a} does not include {b}");
            }
        }
    }
    assert!(included > 5_000, "{included} inclusions");
}

#[test]
fn includes_is_transitive_on_every_small_triple() {
    let expressions = small_expressions();
    let covered = |a: &String| {
        let mut bits = vec![0_u64; expressions.len().div_ceil(64)];
        for (at, b) in expressions.iter().enumerate() {
            bits[at / 64] |= u64::from(includes(a, b)) << (at % 64);
        }
        bits
    };
    let covers: Vec<_> = expressions.iter().map(covered).collect();
    for a in &covers {
        for (at, b) in covers.iter().enumerate() {
            let a_includes_b = a[at / 64] >> (at % 64) & 1 == 1;
            assert!(!a_includes_b || model::contains(a, b));
        }
    }
}

/// Chunks that are likely to match each other.
fn chunk() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("*".to_owned()),
        4 => Just("**".to_owned()),
        6 => "[ab]",
        3 => "@[ab]?",
        4 => "[ab]{0,2}\\$\\*[ab]{0,2}(\\$\\*[ab]{1,2})?",
        1 => "@\\$\\*[ab]?",
        1 => "[aé]{1,2}(\\$\\*é)?",
    ]
}

pub(super) fn expression() -> impl Strategy<Value = KeyExpr> {
    proptest::collection::vec(chunk(), 1..7)
        .prop_filter_map("not canonisable", |chunks| KeyExpr::autocanonize(chunks.join("/")).ok())
}

fn chunks(key: &KeyExpr) -> Vec<&str> {
    key.split('/').collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn matching_agrees_with_the_definitions(a in expression(), b in expression()) {
        prop_assert_eq!(a.intersects(&b), model::intersects(&chunks(&a), &chunks(&b)));
        prop_assert_eq!(b.intersects(&a), a.intersects(&b));
        prop_assert_eq!(a.includes(&b), model::includes(&chunks(&a), &chunks(&b)));
    }

    #[test]
    fn laws_of_sets(a in expression(), b in expression(), c in expression()) {
        prop_assert!(a.intersects(&a) && a.includes(&a));
        prop_assert!(!a.includes(&b) || a.intersects(&b));
        prop_assert!(!(a.includes(&b) && b.includes(&c)) || a.includes(&c));
        prop_assert!(!(a.includes(&b) && b.includes(&a)) || a == b);
        prop_assert!(!(a.includes(&b) && b.intersects(&c)) || a.intersects(&c));
        let level = a.relation_to(&b);
        prop_assert_eq!(level >= SetIntersectionLevel::Intersects, a.intersects(&b));
        prop_assert_eq!(level >= SetIntersectionLevel::Includes, a.includes(&b));
        prop_assert_eq!(level >= SetIntersectionLevel::Equals, a == b);
    }

    #[test]
    fn canonising_is_idempotent(text in "[ab*$/@]{0,24}|((\\$\\*){0,4}[a*]{0,2}/?(\\*\\*/|\\*/){0,3}){1,4}") {
        let once = canonize(&text);
        prop_assert_eq!(canonize(&once), once.clone());
        prop_assert_eq!(validate(&text).is_ok(), once == text && validate(&once).is_ok());
    }

    #[test]
    fn the_fast_check_finds_what_the_full_one_finds(text in "[a-c]{0,9}(/[a-c]{1,9}){0,5}[*$#?/]?[a-c/]{0,9}") {
        // A long plain tail or head must not hide a byte that needs care.
        for text in [text.clone(), format!("a/{text}"), format!("{text}/bcdefghijklmnop")] {
            let plain = !text.is_empty()
                && !text.contains(['*', '$', '#', '?'])
                && text.split('/').all(|chunk| !chunk.is_empty());
            prop_assert_eq!(validate(&text) == Ok(false), plain, "{}", text);
        }
    }

    #[test]
    fn joined_keys_are_canonical(a in expression(), b in expression()) {
        let joined = a.join(&b).unwrap();
        prop_assert_eq!(validate(&joined), Ok(joined.is_wild()));
        if let Some(prefix) = joined.non_wild_prefix() {
            prop_assert!(!key(prefix).is_wild());
            prop_assert!(joined.starts_with(prefix));
        }
    }
}
