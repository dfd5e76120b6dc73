//! Fuzz body of key expressions.

use crate::zenoh::{
    KeyExpr,
    keyexpr::{canonize, model},
};

/// Most chunks of an expression: the model takes time that grows exponentially with them.
const LONGEST: usize = 7;

/// Two texts, of raw bytes and of chunks: validity, canonical form, and relations as in the model.
pub fn keyexpr(data: &[u8]) {
    let (first, second) = data.split_at(data.len() / 2);
    let halves = [first, second];
    let raw = halves.map(|half| core::str::from_utf8(half).ok().map(ToOwned::to_owned));
    let chunks = halves.map(|half| {
        let chunk = |octet: &u8| model::CHUNKS[usize::from(*octet) % model::CHUNKS.len()];
        Some(half.iter().take(LONGEST).map(chunk).collect::<Vec<_>>().join("/"))
    });
    for pair in [raw, chunks] {
        let [Some(a), Some(b)] = pair.map(|text| text.and_then(|text| canonical(&text))) else { continue };
        related(&a, &b);
    }
}

/// Canonical form of a text, if it has one.
fn canonical(text: &str) -> Option<KeyExpr> {
    let form = canonize(text);
    assert_eq!(canonize(&form), form, "canonical form of {text:?}");
    if KeyExpr::new(text.to_owned()).is_ok() {
        assert_eq!(form, text, "a valid text is its own canonical form");
    }
    KeyExpr::new(form).ok()
}

fn related(a: &KeyExpr, b: &KeyExpr) {
    let [x, y] = [a, b].map(|key| key.as_str().split('/').collect::<Vec<_>>());
    if x.len() > LONGEST || y.len() > LONGEST || a.as_str().len() + b.as_str().len() > 64 {
        return;
    }
    let [meet, includes] = [model::intersects(&x, &y), model::includes(&x, &y)];
    assert_eq!(a.intersects(b), meet, "{a} meets {b}");
    assert_eq!(b.intersects(a), meet, "{b} meets {a}");
    assert_eq!(a.includes(b), includes, "{a} includes {b}");
    assert_eq!(b.includes(a), model::includes(&y, &x), "{b} includes {a}");
}
