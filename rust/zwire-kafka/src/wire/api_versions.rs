//! `ApiVersions`: the messages that the server answers, with their versions. The request is not read.
//!
//! ```text
//! answer: error (2), list of { number (2), least version (2), greatest version (2) }, from 1: throttle (4)
//! 3:      error (2), count + 1 (1), { number, least, greatest, 0 (1) }, throttle (4), 0 (1)
//! ```
//!
//! The answer to a version that is not known is that of version 0, with an error.

use super::{Api, Code, put_code, put_list, put_throttle};
use bytes::BufMut as _;

/// Encodes the answer to a request of a version.
pub(crate) fn encode(out: &mut Vec<u8>, version: i16) {
    let known = (0..=3).contains(&version);
    put_code(out, if known { Code::None } else { Code::UnsupportedVersion });
    let put = |out: &mut Vec<u8>, (_, key, least, most): &(Api, i16, i16, i16)| {
        out.put_i16(*key);
        out.put_i16(*least);
        out.put_i16(*most);
    };
    if version == 3 {
        const { assert!(Api::TABLE.len() < 127, "the count has one octet") };
        #[allow(clippy::cast_possible_truncation, reason = "one octet")]
        out.put_u8(Api::TABLE.len() as u8 + 1);
        for row in &Api::TABLE {
            put(out, row);
            out.put_u8(0);
        }
    } else {
        put_list(out, Api::TABLE.iter(), put);
    }
    put_throttle(out, if known { version } else { 0 }, 1);
    if version == 3 {
        out.put_u8(0);
    }
}
