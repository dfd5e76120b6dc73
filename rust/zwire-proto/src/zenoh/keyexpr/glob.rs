//! Matching of one chunk against another, and of a run of chunks between two `**`.

/// Longest run, in bytes, that is searched for without a list of its chunks.
const LONG_RUN: usize = 64;

/// Position of the first such byte. Chunks are short, so that a plain loop beats a search with set-up
/// costs.
fn position(text: &str, byte: u8) -> Option<usize> {
    text.as_bytes().iter().position(|&other| other == byte)
}

/// Splits off the first chunk. An empty text has none; canonical texts have no empty chunk, so
/// "no chunks left" and "empty text" are the same.
pub(super) fn split_first(text: &str) -> (&str, &str) {
    match position(text, b'/') {
        Some(slash) => (&text[..slash], &text[slash + 1..]),
        None => (text, ""),
    }
}

/// Splits off the last chunk: returns the text before it, then the chunk.
pub(super) fn split_last(text: &str) -> (&str, &str) {
    match text.as_bytes().iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&text[..slash], &text[slash + 1..]),
        None => ("", text),
    }
}

/// Splits off the chunks that are the same at the start of both, up to the first one with a wildcard.
pub(super) fn strip_common<'a>(a: &'a str, b: &'a str) -> (&'a str, &'a str) {
    let mut start = 0;
    for (at, (x, y)) in a.bytes().zip(b.bytes()).enumerate() {
        if x != y || x == b'*' {
            break;
        }
        if x == b'/' {
            start = at + 1;
        }
    }
    (&a[start..], &b[start..])
}

pub(super) fn is_verbatim(chunk: &str) -> bool {
    chunk.as_bytes().first() == Some(&b'@')
}

/// The start of the first verbatim chunk.
pub(super) fn find_verbatim(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    // `@` is rare: mostly this is one fast search that finds nothing.
    if !bytes.contains(&b'@') {
        return None;
    }
    (0..bytes.len()).find(|&at| bytes[at] == b'@' && (at == 0 || bytes[at - 1] == b'/'))
}

/// Position of the first `$*`. A `$` is never anything else.
pub(super) fn find_gap(chunk: &str) -> Option<usize> {
    position(chunk, b'$')
}

/// Whether `pattern`, literals with `$*` between them, matches all of `text`, in which `$*` only stands
/// for itself. Literals hold neither `$` nor `*`, so they never match a part of one.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some(gap) = find_gap(pattern) else { return pattern == text };
    let (head, mut pattern) = (&pattern[..gap], &pattern[gap + 2..]);
    let Some(mut text) = text.strip_prefix(head) else { return false };
    // The leftmost place of each literal leaves most to those that follow.
    while let Some(gap) = find_gap(pattern) {
        let literal = &pattern[..gap];
        let Some(at) = text.find(literal) else { return false };
        text = &text[at + literal.len()..];
        pattern = &pattern[gap + 2..];
    }
    text.ends_with(pattern)
}

/// Matches a pattern that begins with `**` and ends with it (or is it) against `text`: the leftmost
/// place of each run between two `**`, one after the other. A `**` absorbs any chunk of `text` but
/// verbatim ones. `relation(chunk of pattern, chunk of text)` tells whether two chunks match;
/// `literal_is_equal` that for a chunk without wildcards this means to be the same.
///
/// The leftmost place suffices, with verbatim chunks or without: a chunk that a later place would skip,
/// the leftmost one has to skip after it, and a verbatim chunk there would be one that the run itself
/// holds further left, and so on without end.
pub(super) fn matches_between(
    pattern: &str,
    mut text: &str,
    literal_is_equal: bool,
    relation: impl Fn(&str, &str) -> bool,
) -> bool {
    let mut pattern = pattern.strip_prefix("**").unwrap_or(pattern);
    // `pattern` is `/run/**/run/**` from here on, `text` the part that no run has consumed.
    while let Some(run) = pattern.strip_prefix('/') {
        // Only the chunk `**` holds `**`, and there is one at the end.
        let end = run.as_bytes().windows(3).position(|window| window == b"/**").unwrap_or(run.len());
        let (run, rest) = (&run[..end], run.get(end + 3..).unwrap_or(""));
        let is_literal = literal_is_equal && position(run, b'*').is_none();
        let found = if is_literal {
            find_run(text, |text| strip_literal(run, text))
        } else if run.len() <= LONG_RUN {
            find_run(text, |text| strip_run(run, text, &relation))
        } else {
            find_long_run(run, text, &relation)
        };
        let Some(after) = found else { return false };
        text = after;
        pattern = rest;
    }
    find_verbatim(text).is_none()
}

/// The rest of the text behind the leftmost place at which `strip` succeeds, with no verbatim chunk
/// before it.
fn find_run<'a>(mut text: &'a str, strip: impl Fn(&'a str) -> Option<&'a str>) -> Option<&'a str> {
    loop {
        if let Some(after) = strip(text) {
            return Some(after);
        }
        let (skipped, after) = split_first(text);
        if skipped.is_empty() || is_verbatim(skipped) {
            return None;
        }
        text = after;
    }
}

/// Same as [`find_run`] with [`strip_run`], with each chunk searched for once: a long run may match
/// almost everywhere, and then the number of comparisons is the product of the numbers of chunks.
fn find_long_run<'a>(run: &str, text: &'a str, relation: impl Fn(&str, &str) -> bool) -> Option<&'a str> {
    let run: Vec<&str> = run.split('/').collect();
    let chunks: Vec<&str> = text.split('/').collect();
    let mut offset = 0;
    for (at, place) in chunks.windows(run.len()).enumerate() {
        if run.iter().zip(place).all(|(pattern, chunk)| relation(pattern, chunk)) {
            let matched = place.iter().map(|chunk| chunk.len() + 1).sum::<usize>();
            return Some(text.get(offset + matched..).unwrap_or(""));
        }
        if is_verbatim(chunks[at]) {
            return None;
        }
        offset += chunks[at].len() + 1;
    }
    None
}

/// The rest of `text` behind the chunks of `run`, if it starts with the same ones; a single comparison
/// of bytes, which keeps long runs that repeat themselves cheap.
fn strip_literal<'a>(run: &str, text: &'a str) -> Option<&'a str> {
    let rest = text.strip_prefix(run)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// The rest of `text` behind the chunks of `run`, if they match its start.
fn strip_run<'a>(mut run: &str, mut text: &'a str, relation: impl Fn(&str, &str) -> bool) -> Option<&'a str> {
    while !run.is_empty() {
        let (pattern, run_rest) = split_first(run);
        let (chunk, text_rest) = split_first(text);
        if chunk.is_empty() || !relation(pattern, chunk) {
            return None;
        }
        (run, text) = (run_rest, text_rest);
    }
    Some(text)
}
