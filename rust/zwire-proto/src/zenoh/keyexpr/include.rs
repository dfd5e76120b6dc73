//! Inclusion: whether one key expression matches every key of another.

use super::glob::{is_verbatim, matches, matches_between, split_first, split_last, strip_common};

/// Whether the canonical key expression `a` matches every key that `b` matches, as far as a comparison
/// chunk by chunk shows: a `**` of `b` is only found to be covered by a `**` of `a`.
#[must_use]
pub fn includes(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (mut a, mut b) = strip_common(a, b);
    loop {
        if a.is_empty() || b.is_empty() {
            return a.len() + b.len() == 0 || a == "**";
        }
        // Only the chunk `**` starts with `**`.
        if a.starts_with("**") {
            break;
        }
        let ((a_chunk, a_rest), (b_chunk, b_rest)) = (split_first(a), split_first(b));
        if !chunk_includes(a_chunk, b_chunk) {
            return false;
        }
        (a, b) = (a_rest, b_rest);
    }
    loop {
        if b.is_empty() {
            return a == "**";
        }
        if a.ends_with("**") {
            return matches_between(a, b, true, chunk_includes);
        }
        let ((a_rest, a_chunk), (b_rest, b_chunk)) = (split_last(a), split_last(b));
        if !chunk_includes(a_chunk, b_chunk) {
            return false;
        }
        (a, b) = (a_rest, b_rest);
    }
}

/// Whether the single chunk `a`, which is not `**`, matches all chunks that `b` does.
fn chunk_includes(a: &str, b: &str) -> bool {
    if a == "*" {
        return b != "**" && !is_verbatim(b);
    }
    a == b || (b != "*" && b != "**" && !is_verbatim(a) && !is_verbatim(b) && matches(a, b))
}
