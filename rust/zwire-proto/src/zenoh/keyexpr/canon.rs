//! The canonical form: validation and canonisation (`zenoh-wire` 6.1).

use super::{KeyExprError, KeyExprRule};
use crate::limits::MAX_KEYEXPR_LEN;

/// Checks that `text` is a canonical key expression and returns whether it contains a `*`.
///
/// One pass over the bytes; a key without any of `*`, `$`, `#`, `?`, `//` is checked eight bytes at
/// a time, since this is done for each message that arrives.
///
/// # Errors
/// The first rule that `text` breaks and where.
pub fn validate(text: &str) -> Result<bool, KeyExprError> {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return Err(KeyExprError { rule: KeyExprRule::Empty, offset: 0 });
    };
    if bytes.len() > MAX_KEYEXPR_LEN {
        return Err(KeyExprError { rule: KeyExprRule::TooLong, offset: MAX_KEYEXPR_LEN });
    }
    if *first == b'/' || *last == b'/' || needs_care(bytes) {
        return validate_chunks(bytes);
    }
    Ok(false)
}

/// Whether any of `*`, `$`, `#`, `?`, `//` occurs.
fn needs_care(bytes: &[u8]) -> bool {
    const STEP: usize = size_of::<u64>() - 1;
    let mut at = 0;
    // Windows of eight overlap by one byte, so that each pair of neighbours is seen in one of them.
    while let Some(window) = bytes[at..].first_chunk() {
        if window_needs_care(u64::from_le_bytes(*window)) {
            return true;
        }
        at += STEP;
    }
    if let Some(window) = bytes.last_chunk() {
        return window_needs_care(u64::from_le_bytes(*window));
    }
    let mut before = 0;
    bytes.iter().any(|&byte| {
        let care = matches!(byte, b'*' | b'$' | b'#' | b'?') || (byte == b'/' && before == b'/');
        before = byte;
        care
    })
}

/// [`needs_care`] for eight bytes, the first of them in the lowest bits.
fn window_needs_care(window: u64) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // High bits that are set if any byte is zero, not necessarily those of that byte.
    let any_zero = |x: u64| x.wrapping_sub(LOW) & !x & HIGH;
    // Exactly the high bits of zero bytes.
    let zeros = |x: u64| !(((x & !HIGH).wrapping_add(!HIGH)) | x | !HIGH);
    let is = |byte: u8| window ^ (LOW * u64::from(byte));

    let slashes = zeros(is(b'/'));
    any_zero(is(b'*'))
        | any_zero(is(b'$'))
        | any_zero(is(b'#'))
        | any_zero(is(b'?'))
        | (slashes & (slashes >> 8))
        != 0
}

/// Every rule on every chunk, left to right.
fn validate_chunks(bytes: &[u8]) -> Result<bool, KeyExprError> {
    let mut wild = false;
    let mut after_double_star = false;
    let mut at = 0;
    loop {
        let refuse = |rule| Err(KeyExprError { rule, offset: at });
        let is_double_star = match bytes[at..] {
            [] | [b'/', ..] => return refuse(KeyExprRule::EmptyChunk),
            [b'*'] | [b'*', b'/', ..] if after_double_star => {
                return refuse(KeyExprRule::StarAfterDoubleStar);
            }
            [b'*', b'*'] | [b'*', b'*', b'/', ..] if after_double_star => {
                return refuse(KeyExprRule::DoubleStarTwice);
            }
            [b'$', b'*'] | [b'$', b'*', b'/', ..] => return refuse(KeyExprRule::DollarStarAlone),
            [b'*'] | [b'*', b'/', ..] => {
                wild = true;
                at += 1;
                false
            }
            [b'*', b'*'] | [b'*', b'*', b'/', ..] => {
                wild = true;
                at += 2;
                true
            }
            _ => {
                let (end, has_gap) = validate_chunk(bytes, at)?;
                wild |= has_gap;
                at = end;
                false
            }
        };
        if at == bytes.len() {
            return Ok(wild);
        }
        after_double_star = is_double_star;
        at += 1;
    }
}

/// Checks the rules inside a chunk that starts at `at` and is not `*`, `**` or `$*`; returns its end
/// and whether it contains a `$*`.
fn validate_chunk(bytes: &[u8], mut at: usize) -> Result<(usize, bool), KeyExprError> {
    let mut has_gap = false;
    while let Some(byte) = bytes.get(at) {
        let broken = match byte {
            b'/' => break,
            b'#' | b'?' => KeyExprRule::Reserved,
            b'*' => KeyExprRule::Star,
            b'$' => match bytes[at + 1..] {
                [b'*', b'$', b'*', ..] => KeyExprRule::DollarStarTwice,
                [b'*', ..] => {
                    has_gap = true;
                    at += 2;
                    continue;
                }
                _ => KeyExprRule::Dollar,
            },
            _ => {
                at += 1;
                continue;
            }
        };
        return Err(KeyExprError { rule: broken, offset: at });
    }
    Ok((at, has_gap))
}

/// Rewrites parts with a canonical spelling: `$*$*` to `$*`, a chunk `$*` to `*`, `**/**` to `**`,
/// `**/*` to `*/**`. The result may still break other rules; [`validate`] tells.
#[must_use]
pub fn canonize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut first = true;
    let mut push = |chunk: &str| {
        if !core::mem::take(&mut first) {
            out.push('/');
        }
        // Runs of `$*` shrink to one; the rest of the chunk is unchanged.
        let mut rest = chunk;
        while let Some(at) = rest.find("$*$*") {
            out.push_str(&rest[..at]);
            rest = &rest[at + 2..];
        }
        out.push_str(rest);
    };
    let mut pending_double_star = false;
    for chunk in text.split('/') {
        let only_dollar_stars = chunk.len() >= 2 && chunk.as_bytes().chunks(2).all(|pair| pair == b"$*");
        match chunk {
            "**" => pending_double_star = true,
            "*" => push("*"),
            _ if only_dollar_stars => push("*"),
            _ => {
                if core::mem::take(&mut pending_double_star) {
                    push("**");
                }
                push(chunk);
            }
        }
    }
    if pending_double_star {
        push("**");
    }
    out
}
