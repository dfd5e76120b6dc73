//! RESPONSE_FINAL, id 0x1a (`zenoh-wire` 4.6).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|X|X|RES_FINAL|
//! +-+-+-+---------+
//! %  request id   %   z32
//! ~  extensions   ~   if Z: QoS 0x21, Timestamp 0x42
//! +---------------+
//! ```

use super::{
    common::{QOS, TIMESTAMP, put_timestamp_ext, read_qos, read_timestamp_ext},
    ext::{Chain, Z, read_header, skip_unknown},
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::Result,
    zenoh::{Qos, Timestamp},
};

pub(super) const ID: u8 = 0x1a;

/// RESPONSE_FINAL: the end of the responses to a request on this link; exactly one for each REQUEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseFinal {
    /// Id of the REQUEST received on this link.
    pub id: u32,
    /// QoS of the request, so that it cannot overtake the responses.
    pub qos: Qos,
    /// Never sent by known implementations; kept unchanged.
    pub timestamp: Option<Box<Timestamp>>,
}

impl ResponseFinal {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let id = r.z32("RESPONSE_FINAL id")?;
        let mut out = Self { id, qos: Qos::DEFAULT, timestamp: None };
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "RESPONSE_FINAL extension")?;
            match ext {
                QOS => out.qos = read_qos(r)?,
                TIMESTAMP => out.timestamp = Some(Box::new(read_timestamp_ext(r)?)),
                _ => skip_unknown(ext, r, "RESPONSE_FINAL extension")?,
            }
        }
        Ok(out)
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain =
            Chain::new(usize::from(self.qos != Qos::DEFAULT) + usize::from(self.timestamp.is_some()));
        sink.put_u8(ID | chain.flag());
        put_vle(sink, u64::from(self.id));
        if self.qos != Qos::DEFAULT {
            chain.z64(sink, QOS, u64::from(self.qos.0));
        }
        if let Some(timestamp) = &self.timestamp {
            put_timestamp_ext(sink, &mut chain, timestamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage,
        testing::{both_ways, kind, network},
    };
    use super::*;
    use crate::{
        error::DecodeErrorKind,
        zenoh::{Ntp64, ZenohId},
    };

    #[test]
    fn each_flag_and_extension() {
        let last = |id, qos, timestamp| NetworkMessage::ResponseFinal(ResponseFinal { id, qos, timestamp });
        both_ways("1a 00", &last(0, Qos::DEFAULT, None));
        both_ways("9a ffffffff0f 21 0d", &last(u32::MAX, Qos::REQUEST, None));
        let timestamp = Timestamp { time: Ntp64(1), id: ZenohId::new(2).unwrap() };
        both_ways("9a 01 42 03 010102", &last(1, Qos::DEFAULT, Some(Box::new(timestamp))));
    }

    #[test]
    fn reserved_bits_are_ignored_and_the_id_is_bounded() {
        assert_eq!(network("7a 01"), network("1a 01"));
        assert!(matches!(kind(network("1a 8080808010")), DecodeErrorKind::OutOfRange { .. }));
        // NodeId is not defined here, and mandatory.
        assert!(matches!(
            kind(network("9a 01 33 01")),
            DecodeErrorKind::UnknownMandatoryExtension { header: 0x33 }
        ));
    }
}
