//! DEL, id 0x02 in PUSH and REPLY (`zenoh-wire` 5.2).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|X|T|   DEL   |   Z: extensions, T: timestamp
//! +-+-+-+---------+
//! ~   timestamp   ~   if T
//! ~  extensions   ~   if Z: SourceInfo 0x41, Attachment 0x42 (id 2 here, id 3 in PUT)
//! +---------------+
//! ```

use super::{
    common::{SOURCE_INFO, SourceInfo, put_source_info, put_timestamp, read_source_info, read_timestamp},
    ext::{Chain, UnknownExt, Z, keep_unknown, read_header},
};
use crate::{
    buf::{Reader, Sink},
    error::Result,
    zenoh::Timestamp,
};
use bytes::Bytes;

pub(super) const ID: u8 = 0x02;
const T: u8 = 0x20;
const ATTACHMENT: u8 = 0x42;

/// Deletion of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Del {
    /// Time of the deletion.
    pub timestamp: Option<Timestamp>,
    /// Entity that published it.
    pub source_info: Option<Box<SourceInfo>>,
    /// Attachment of the user.
    pub attachment: Option<Bytes>,
    /// Unknown extensions, kept for the next hop.
    pub extensions: Vec<UnknownExt>,
}

impl Del {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let timestamp = if header & T == 0 { None } else { Some(read_timestamp(r)?) };
        let mut del = Self { timestamp, ..Self::default() };
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "DEL extension")?;
            match ext {
                SOURCE_INFO => del.source_info = Some(Box::new(read_source_info(r)?)),
                ATTACHMENT => del.attachment = Some(r.zbytes(u64::from(u32::MAX), "DEL attachment")?),
                _ => keep_unknown(&mut del.extensions, ext, r, "DEL extension")?,
            }
        }
        Ok(del)
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.source_info.is_some())
                + usize::from(self.attachment.is_some())
                + self.extensions.len(),
        );
        sink.put_u8(ID | chain.flag() | if self.timestamp.is_some() { T } else { 0 });
        if let Some(timestamp) = &self.timestamp {
            put_timestamp(sink, timestamp);
        }
        if let Some(info) = &self.source_info {
            put_source_info(sink, &mut chain, info);
        }
        if let Some(attachment) = &self.attachment {
            chain.zbuf(sink, ATTACHMENT, attachment);
        }
        chain.unknown(sink, &self.extensions);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        ExtBody, NetworkMessage, Push, PushBody, WireExpr,
        testing::{both_ways, network},
    };
    use super::*;
    use crate::zenoh::{Ntp64, ZenohId};

    fn check(hex: &str, del: Del) {
        let push = Push::new(WireExpr::EMPTY, PushBody::Del(del));
        both_ways(&format!("5d 00 {hex}"), &NetworkMessage::Push(push));
    }

    #[test]
    fn each_flag_and_extension() {
        let zid = ZenohId::new(1).unwrap();
        check("02", Del::default());
        let timestamp = Timestamp { time: Ntp64(2), id: zid };
        check("22 02 01 01", Del { timestamp: Some(timestamp), ..Del::default() });
        let info = SourceInfo { zid, eid: 2, sn: 3 };
        check("82 41 04 00010203", Del { source_info: Some(Box::new(info)), ..Del::default() });
        check("82 42 00", Del { attachment: Some(Bytes::new()), ..Del::default() });
        let extensions = vec![UnknownExt { id: 3, body: ExtBody::ZBuf(Bytes::from_static(b"x")) }];
        check("82 43 01 78", Del { extensions, ..Del::default() });
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        assert_eq!(network("5d 00 42"), network("5d 00 02"));
    }
}
