//! `Metadata`: the broker, and topics with their partitions.
//!
//! ```text
//! request: list of topics or null for all, from 4: create (1), from 8: rights of the cluster (1), of topics (1)
//! answer:  from 3: throttle (4), list of brokers { id (4), host, port (4), rack }, from 2: cluster, controller (4),
//!          list of topics { error (2), name, internal (1), partitions, from 8: rights (4) }, from 8: rights (4)
//! partition: error (2), number (4), leader (4), from 7: epoch (4), replicas, in sync, from 5: offline
//! ```

use super::{Code, Read, nullable_list, put_code, put_list, put_nullable_text, put_text, put_throttle, text};
use bytes::BufMut as _;
use zwire_proto::{Text, buf::Reader};

/// Number of the only broker.
pub(crate) const BROKER: i32 = 0;
/// Rights that were not asked for, or are not told.
const UNTOLD: i32 = i32::MIN;

/// Decodes the topics of a request; `None` for all. Nothing is created, and rights are not told.
pub(crate) fn decode(r: &mut Reader<'_>) -> Read<Option<Vec<Text>>> {
    nullable_list(r, 2, "Metadata topics", |r| text(r, "Metadata topic"))
}

/// Answer: where the broker is, and each topic with its number of partitions; `None` for an unknown one.
pub(crate) struct Metadata<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) cluster: &'a str,
    pub(crate) topics: Vec<(&'a str, Option<u32>)>,
}

impl Metadata<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>, version: i16) {
        put_throttle(out, version, 3);
        put_list(out, [BROKER].into_iter(), |out, id| {
            out.put_i32(id);
            put_text(out, self.host);
            out.put_i32(self.port.into());
            put_nullable_text(out, None);
        });
        if version >= 2 {
            put_nullable_text(out, Some(self.cluster));
        }
        out.put_i32(BROKER);
        put_list(out, self.topics.iter(), |out, (name, partitions)| {
            put_code(out, if partitions.is_some() { Code::None } else { Code::UnknownTopicOrPartition });
            put_text(out, name);
            out.put_u8(0);
            let numbers = 0..partitions.unwrap_or(0).cast_signed();
            out.put_i32(numbers.end);
            numbers.for_each(|number| put_partition(out, number, version));
            if version >= 8 {
                out.put_i32(UNTOLD);
            }
        });
        if version >= 8 {
            out.put_i32(UNTOLD);
        }
    }
}

fn put_partition(out: &mut Vec<u8>, number: i32, version: i16) {
    put_code(out, Code::None);
    out.put_i32(number);
    out.put_i32(BROKER);
    if version >= 7 {
        out.put_i32(-1);
    }
    for _ in ["replicas", "in sync"] {
        put_list(out, [BROKER].into_iter(), |out, id| out.put_i32(id));
    }
    if version >= 5 {
        out.put_i32(0);
    }
}
