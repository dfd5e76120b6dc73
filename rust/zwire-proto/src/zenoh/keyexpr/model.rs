//! A slow and plain model: the recursive definitions of `zenoh-wire` 6.3, and sets of keys.

/// The chunks of all expressions of the model.
pub(crate) const CHUNKS: [&str; 9] = ["a", "b", "ab", "a$*", "$*b", "*", "**", "@a", "@a$*"];

/// The chunks of all keys of the model. For any two of [`CHUNKS`] that intersect it has a common one.
const KEY_CHUNKS: [&str; 5] = ["a", "b", "ab", "@a", "@a$*"];

/// Length of keys that suffices: any two expressions of up to three chunks that intersect do so in a
/// key of up to four. Either one of them has no `**` and the key has its length, or each of them brings
/// at most two chunks beside its `**`.
const KEY_LEN: usize = 4;

/// Set of keys of the model, one bit for each.
#[cfg(test)]
pub(super) type Keys = Vec<u64>;

/// All keys of up to [`KEY_LEN`] chunks.
#[cfg(test)]
pub(super) fn all_keys() -> Vec<Vec<&'static str>> {
    all_lists(&KEY_CHUNKS, KEY_LEN)
}

#[cfg(test)]
pub(super) fn all_lists(chunks: &[&'static str], longest: usize) -> Vec<Vec<&'static str>> {
    let mut all = vec![];
    let mut last: Vec<Vec<&str>> = vec![vec![]];
    for _ in 0..longest {
        let longer = |list: &Vec<&'static str>| {
            let list = list.clone();
            chunks.iter().map(move |chunk| [list.clone(), vec![*chunk]].concat()).collect::<Vec<_>>()
        };
        last = last.iter().flat_map(longer).collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// Set of the `keys` that match.
#[cfg(test)]
pub(super) fn keys_of(expr: &str, keys: &[Vec<&str>]) -> Keys {
    let chunks: Vec<&str> = expr.split('/').collect();
    let mut bits = vec![0; keys.len().div_ceil(64)];
    for (at, key) in keys.iter().enumerate() {
        bits[at / 64] |= u64::from(key_matches(&chunks, key)) << (at % 64);
    }
    bits
}

#[cfg(test)]
pub(super) fn meet(a: &Keys, b: &Keys) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

#[cfg(test)]
pub(super) fn contains(a: &Keys, b: &Keys) -> bool {
    a.iter().zip(b).all(|(a, b)| a & b == *b)
}

/// Whether a key without wildcards matches, straight from the table of 6.2.
fn key_matches(expr: &[&str], key: &[&str]) -> bool {
    let verbatim = |chunk: &str| chunk.starts_with('@');
    match (expr, key) {
        ([], []) => true,
        ([], _) => false,
        (["**", rest @ ..], _) => {
            key_matches(rest, key)
                || matches!(key, [first, key_rest @ ..] if !verbatim(first) && key_matches(expr, key_rest))
        }
        (_, []) => false,
        ([chunk, rest @ ..], [first, key_rest @ ..]) => {
            let one = chunk == first
                || (!verbatim(chunk)
                    && !verbatim(first)
                    && (*chunk == "*" || glob(chunk.as_bytes(), first.as_bytes())));
            one && key_matches(rest, key_rest)
        }
    }
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'$', b'*', rest @ ..], _) => glob(rest, text) || (!text.is_empty() && glob(pattern, &text[1..])),
        ([p, rest @ ..], [t, text_rest @ ..]) => p == t && glob(rest, text_rest),
        _ => false,
    }
}

/// *Intersects(A, B)* as the document defines it.
pub(crate) fn intersects(a: &[&str], b: &[&str]) -> bool {
    let absorbs = |list: &[&str]| list.first().is_some_and(|chunk| !chunk.starts_with('@'));
    match (a, b) {
        ([], []) => true,
        (["**", tail @ ..], _) => intersects(tail, b) || (absorbs(b) && intersects(a, &b[1..])),
        (_, ["**", tail @ ..]) => intersects(a, tail) || (absorbs(a) && intersects(&a[1..], b)),
        ([x, a @ ..], [y, b @ ..]) => chunk_intersects(x, y) && intersects(a, b),
        _ => false,
    }
}

fn chunk_intersects(x: &str, y: &str) -> bool {
    fn gaps(x: &[u8], y: &[u8]) -> bool {
        match (x, y) {
            ([], []) => true,
            ([b'$', b'*', tail @ ..], _) => gaps(tail, y) || (!y.is_empty() && gaps(x, after_one(y))),
            (_, [b'$', b'*', tail @ ..]) => gaps(x, tail) || (!x.is_empty() && gaps(after_one(x), y)),
            ([a, x @ ..], [b, y @ ..]) => a == b && gaps(x, y),
            _ => false,
        }
    }
    fn after_one(text: &[u8]) -> &[u8] {
        text.strip_prefix(b"$*").unwrap_or(&text[1..])
    }
    x == y
        || !x.starts_with('@')
            && !y.starts_with('@')
            && (x == "*" || y == "*" || gaps(x.as_bytes(), y.as_bytes()))
}

/// *Includes(A, B)* as the document defines it.
pub(crate) fn includes(a: &[&str], b: &[&str]) -> bool {
    match (a, b) {
        ([], []) => true,
        (["**", tail @ ..], _) => {
            includes(tail, b)
                || b.first().is_some_and(|first| !first.starts_with('@')) && includes(a, &b[1..])
        }
        ([x, a @ ..], [y, b @ ..]) => chunk_includes(x, y) && includes(a, b),
        _ => false,
    }
}

fn chunk_includes(x: &str, y: &str) -> bool {
    fn absorbs(x: &[u8], y: &[u8]) -> bool {
        match (x, y) {
            ([], []) => true,
            ([b'$', b'*', tail @ ..], _) => {
                absorbs(tail, y)
                    || match y {
                        [] => false,
                        [b'$', b'*', y @ ..] | [_, y @ ..] => absorbs(x, y),
                    }
            }
            (_, [b'$', ..]) => false,
            ([a, x @ ..], [b, y @ ..]) => a == b && absorbs(x, y),
            _ => false,
        }
    }
    x == y
        || y != "**"
            && !x.starts_with('@')
            && !y.starts_with('@')
            && (x == "*" || y != "*" && absorbs(x.as_bytes(), y.as_bytes()))
}
