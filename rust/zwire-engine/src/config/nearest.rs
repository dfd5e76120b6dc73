//! Suggestions for misspelt words.

/// Longest word that is compared in full: the time grows with the square, and no key is longer.
const MAX_COMPARED: usize = 128;

/// The word of `known` with the smallest edit distance; the first of equals.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().copied().min_by_key(|candidate| distance(word, candidate))
}

/// The path of `known` that is nearest by letters or by parts: a correct last part in the wrong place
/// counts (`transport/lease` for `transport/link/tx/lease`), and so does a truncated one
/// (`connect/timeout` for `connect/timeout_ms`). The first of equals.
pub(super) fn nearest_path<'a>(path: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (parents, last) = split_last(path);
    let walk = |candidate: &str| {
        let (theirs, their_last) = split_last(candidate);
        let end = match last.is_empty() || !their_last.starts_with(last) {
            true => 2 * distance(last, their_last),
            false => 2 * usize::from(last != their_last),
        };
        end + 2 * missing(parents, theirs) + missing(theirs, parents)
    };
    known.into_iter().min_by_key(|candidate| distance(path, candidate).min(walk(candidate)))
}

fn split_last(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Number of parts of `a` that are not in `b`.
fn missing(a: &str, b: &str) -> usize {
    let parts = a.split('/').filter(|part| !part.is_empty());
    parts.take(MAX_COMPARED).filter(|part| !b.split('/').any(|other| other == *part)).count()
}

/// Levenshtein distance in characters, over the first [`MAX_COMPARED`] of each.
fn distance(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|word| word.chars().take(MAX_COMPARED).collect::<Vec<_>>());
    strsim::generic_levenshtein(&a, &b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("é", "e", 1)]
        {
            assert_eq!(distance(a, b), d, "{a} {b}");
            assert_eq!(distance(b, a), d, "{b} {a}");
        }
    }

    #[test]
    fn the_first_of_equals_wins() {
        assert_eq!(nearest("ax", &["ab", "ac"]), Some("ab"));
        assert_eq!(nearest("ax", &[]), None);
    }
}
