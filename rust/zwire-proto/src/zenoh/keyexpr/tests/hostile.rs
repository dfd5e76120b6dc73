//! Texts made to be expensive to match.

use super::{super::*, key};
use crate::limits::MAX_KEYEXPR_LEN;

/// A key with the largest number of repetitions of `part`.
fn longest(part: &str) -> String {
    let mut text = part.repeat(MAX_KEYEXPR_LEN / part.len());
    text.truncate(text.trim_end_matches('/').len());
    text
}

#[test]
fn a_key_has_at_most_as_many_bytes_as_travel() {
    let text = "a".repeat(MAX_KEYEXPR_LEN);
    assert_eq!(validate(&text), Ok(false));
    let error = KeyExprError { rule: KeyExprRule::TooLong, offset: MAX_KEYEXPR_LEN };
    assert_eq!(validate(&(text.clone() + "a")), Err(error));
    assert_eq!(key(&text).join("a"), Err(error));
}

// Trying all assignments of chunks to the `**` would take longer than the age of the universe in each
// of these; the test would not end.
#[test]
fn many_double_stars_are_not_tried_in_all_ways() {
    let stars = key(&(longest("**/a/")[..30_000].to_owned() + "b"));
    let other_stars = key(&(longest("a/**/")[..30_000].to_owned() + "c"));
    let plain = key(&longest("a/"));
    let verbatim = key(&(longest("a/")[..40_000].to_owned() + "@a/b"));
    for (a, b) in [(&stars, &plain), (&stars, &verbatim), (&stars, &other_stars), (&other_stars, &plain)] {
        assert!(!a.intersects(b) && !b.intersects(a));
        assert!(!a.includes(b) && !b.includes(a));
    }
    let open = stars.join("**").unwrap();
    let other_open = other_stars.join("**").unwrap();
    assert!(!open.intersects(&plain) && !other_open.intersects(&plain));
    // Two expressions that are open at both ends always intersect.
    assert!(key("**/z").join(&open).unwrap().intersects(&open));
}

#[test]
fn many_verbatim_chunks_between_double_stars() {
    let a = key(&longest("**/@a/"));
    let b = key(&longest("**/@a/*/"));
    let plain = key(&longest("@a/b/"));
    assert!(!a.intersects(&b) && !b.intersects(&plain) && !a.includes(&plain));
    assert!(a.join("**").unwrap().includes(&a));
}

#[test]
fn many_gaps_in_a_chunk() {
    let gaps = key(&(longest("$*a")[..30_000].to_owned() + "b"));
    let plain = key(&longest("a"));
    assert!(!gaps.intersects(&plain) && !gaps.includes(&plain));
    let open = gaps.concat("$*").unwrap();
    assert!(!open.intersects(&plain) && !open.includes(&plain));
    assert!(open.intersects(&key(&longest("b$*a"))));
}

#[test]
fn thousands_of_chunks() {
    let plain = key(&longest("ab/"));
    assert!(key("**").includes(&plain) && key("ab/**/ab").includes(&plain));
    assert!(key("**/ab/ab/**/ab/**").includes(&plain) && !key("**/ac/**").intersects(&plain));
    let single = key(&longest("*/"));
    assert!(single.intersects(&key("**/x/**/y")) && !single.intersects(&plain));
}

#[test]
fn long_runs_that_match_almost_everywhere() {
    // Shorter than the limit for the sake of unoptimised tests.
    let part = |part: &str, chunks: usize| part.repeat(chunks);
    let plain = key(&(part("a/", 3_000) + "a"));
    let late = key(&(part("a/", 3_000) + "b"));
    for run in ["a/*/", "a$*/*/", "$*a/"] {
        let run = key(&format!("**/{}b/**", part(run, 500)));
        assert!(!run.intersects(&plain) && !run.includes(&plain), "{run}");
        assert!(run.intersects(&late) && run.includes(&late), "{run}");
        let verbatim = key(&format!("a/@v/{late}"));
        assert!(!run.intersects(&verbatim) && !run.includes(&verbatim));
        let verbatim = key(&format!("@v/{run}"));
        assert!(verbatim.intersects(&key(&format!("@v/{late}"))));
    }
}

#[test]
fn canonising_long_runs() {
    assert_eq!(canonize(&longest("$*")), "*");
    assert_eq!(canonize(&longest("**/")), "**");
    let stars = canonize(&longest("**/*/"));
    assert!(stars.ends_with("*/**") && validate(&stars) == Ok(true));
}
