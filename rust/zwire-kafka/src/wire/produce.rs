//! `Produce`: rows to be written, which this server refuses.
//!
//! ```text
//! request: transaction, acknowledgements (2), timeout (4), topics { number (4), batches }
//! answer:  topics { number (4), error (2), offset (8), time (8), from 5: start (8), from 8: errors, reason },
//!          throttle (4)
//! ```

use super::{
    Code, Read, Topics, int16, int32, nullable_octets, nullable_text, put_code, put_nullable_text,
    put_topics, topics,
};
use bytes::BufMut as _;
use zwire_proto::buf::Reader;

const REASON: &str = "this topic is a spool of zwire: Kafka clients read it, and cannot write";

/// Decodes the partitions of a request; `None` if the client wants no answer.
pub(crate) fn decode(r: &mut Reader<'_>) -> Read<Option<Topics<i32>>> {
    nullable_text(r, "Produce transaction")?;
    let answered = int16(r, "Produce acknowledgements")? != 0;
    int32(r, "Produce timeout")?;
    let topics = topics(r, 8, "Produce topics", |r| {
        let number = int32(r, "Produce partition")?;
        nullable_octets(r, "Produce batches")?;
        Ok(number)
    })?;
    Ok(answered.then_some(topics))
}

/// Encodes the refusal.
pub(crate) fn encode(topics: &Topics<i32>, out: &mut Vec<u8>, version: i16) {
    put_topics(out, topics, |out, number| {
        out.put_i32(*number);
        put_code(out, Code::PolicyViolation);
        out.put_i64(-1);
        out.put_i64(-1);
        if version >= 5 {
            out.put_i64(-1);
        }
        if version >= 8 {
            out.put_i32(0);
            put_nullable_text(out, Some(REASON));
        }
    });
    out.put_i32(0);
}
