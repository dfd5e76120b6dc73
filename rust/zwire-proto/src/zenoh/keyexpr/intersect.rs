//! Intersection: whether two key expressions have a key in common.

use super::glob::{
    find_gap, find_verbatim, is_verbatim, matches, matches_between, split_first, split_last, strip_common,
};

/// Whether there is a key that both canonical key expressions match. Symmetric.
///
/// The parts before the first `**` of either side, and after the last one, have to match chunk by
/// chunk. Between them, verbatim chunks match only their equals, so both sides have the same ones and
/// the stretches between them can be compared one by one; in a stretch, two sides that both have a `**`
/// always match, since each absorbs the rest of the other.
#[must_use]
pub fn intersects(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (a, b) = strip_common(a, b);
    let (mut a, mut b) = match strip_ends(a, b) {
        Stripped::Decided(outcome) => return outcome,
        Stripped::Left(a, b) => (a, b),
    };
    let (mut a_at, mut b_at) = match (find_verbatim(a), find_verbatim(b)) {
        (None, None) => return a == "**" || b == "**" || middles_intersect(a, b),
        (Some(a_at), Some(b_at)) => (a_at, b_at),
        _ => return false,
    };
    loop {
        let (a_chunk, a_rest) = split_first(&a[a_at..]);
        let (b_chunk, b_rest) = split_first(&b[b_at..]);
        if a_chunk != b_chunk || !stretches_intersect(before(a, a_at), before(b, b_at)) {
            return false;
        }
        (a, b) = (a_rest, b_rest);
        (a_at, b_at) = match (find_verbatim(a), find_verbatim(b)) {
            (None, None) => return stretches_intersect(a, b),
            (Some(a_at), Some(b_at)) => (a_at, b_at),
            _ => return false,
        };
    }
}

/// The part before the chunk that starts at `at`.
fn before(text: &str, at: usize) -> &str {
    &text[..at.saturating_sub(1)]
}

/// [`intersects`] for chunks of which none is verbatim.
fn stretches_intersect(a: &str, b: &str) -> bool {
    match strip_ends(a, b) {
        Stripped::Decided(outcome) => outcome,
        Stripped::Left(a, b) => middles_intersect(a, b),
    }
}

/// Same as [`intersects`] for the results of [`strip_ends`], without verbatim chunks.
fn middles_intersect(a: &str, b: &str) -> bool {
    match (has_double_star(a), has_double_star(b)) {
        (true, true) => true,
        (true, false) => matches_between(a, b, !b.as_bytes().contains(&b'*'), chunks_intersect),
        (false, _) => matches_between(b, a, !a.as_bytes().contains(&b'*'), chunks_intersect),
    }
}

/// Only the chunk `**` holds `**`.
fn has_double_star(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair == b"**")
}

enum Stripped<'a> {
    Decided(bool),
    /// The rests: neither is empty; one of them starts with `**` and one of them ends with it.
    Left(&'a str, &'a str),
}

/// Removes pairs of chunks from the start, then from the end, as long as both are single chunks.
fn strip_ends<'a>(mut a: &'a str, mut b: &'a str) -> Stripped<'a> {
    loop {
        if a.is_empty() || b.is_empty() {
            return Stripped::Decided(a.len() + b.len() == 0 || a == "**" || b == "**");
        }
        // Only the chunk `**` starts with `**`.
        if a.starts_with("**") || b.starts_with("**") {
            break;
        }
        let ((a_chunk, a_rest), (b_chunk, b_rest)) = (split_first(a), split_first(b));
        if !chunks_intersect(a_chunk, b_chunk) {
            return Stripped::Decided(false);
        }
        (a, b) = (a_rest, b_rest);
    }
    loop {
        if a.is_empty() || b.is_empty() {
            return Stripped::Decided(a == "**" || b == "**");
        }
        if a.ends_with("**") || b.ends_with("**") {
            return Stripped::Left(a, b);
        }
        let ((a_rest, a_chunk), (b_rest, b_chunk)) = (split_last(a), split_last(b));
        if !chunks_intersect(a_chunk, b_chunk) {
            return Stripped::Decided(false);
        }
        (a, b) = (a_rest, b_rest);
    }
}

/// Whether there is a chunk that both match. Neither is `**`.
fn chunks_intersect(a: &str, b: &str) -> bool {
    if a == "*" || b == "*" {
        return !is_verbatim(a) && !is_verbatim(b);
    }
    if a == b {
        return true;
    }
    if is_verbatim(a) || is_verbatim(b) {
        return false;
    }
    match (find_gap(a), find_gap(b)) {
        (None, None) => false,
        (Some(_), None) => matches(a, b),
        (None, Some(_)) => matches(b, a),
        // Between its first and its last `$*`, each absorbs the rest of the other.
        (Some(a_gap), Some(b_gap)) => {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let head = a_gap.min(b_gap);
            let after_gap = |chunk: &[u8]| chunk.iter().rev().take_while(|&&byte| byte != b'*').count();
            let tail = after_gap(a).min(after_gap(b));
            a[..head] == b[..head] && a[a.len() - tail..] == b[b.len() - tail..]
        }
    }
}
