//! OAM, id 0x1f between network nodes and id 0x00 on a transport (`zenoh-wire` 4.9, 3.12).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|ENC|   OAM   |   ENC as in extensions; 11 is an error
//! +-+-+-+---------+
//! %    id z16     %   1 on a network: link state
//! ~  extensions   ~   if Z: QoS 0x21, Timestamp 0x42 (network); QoS 0x31 mandatory (transport)
//! ~     body      ~   nothing, z64, or <u8;z32>
//! +---------------+
//! ```

use super::{
    common::{QOS, TIMESTAMP, put_timestamp_ext, read_qos, read_timestamp_ext},
    ext::{Chain, ENC, ExtBody, Z, read_body, read_header, skip_unknown},
    frame::{PRIORITY, read_priority},
};
use crate::{
    buf::{Reader, Sink, put_vle},
    error::{DecodeErrorKind, Result},
    zenoh::{Priority, Qos, Timestamp},
};

pub(super) const ID: u8 = 0x1f;
pub(super) const TRANSPORT_ID: u8 = 0x00;

/// A message of operation, administration and maintenance between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oam {
    /// Subject of the message.
    pub id: u16,
    /// Control and Block.
    pub qos: Qos,
    /// Never sent by known implementations; kept unchanged.
    pub timestamp: Option<Box<Timestamp>>,
    /// The contents.
    pub body: ExtBody,
}

impl Oam {
    /// The id of link state.
    pub const LINK_STATE: u16 = 1;

    /// A message with the usual QoS.
    #[must_use]
    pub const fn new(id: u16, body: ExtBody) -> Self {
        Self { id, qos: Qos::DECLARE, timestamp: None, body }
    }

    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        check_encoding(header, r, "OAM header")?;
        let id = r.z16("OAM id")?;
        let (mut qos, mut timestamp) = (Qos::DEFAULT, None);
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "OAM extension")?;
            match ext {
                QOS => qos = read_qos(r)?,
                TIMESTAMP => timestamp = Some(Box::new(read_timestamp_ext(r)?)),
                _ => skip_unknown(ext, r, "OAM extension")?,
            }
        }
        Ok(Self { id, qos, timestamp, body: read_body(header & ENC, r, "OAM body")? })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain =
            Chain::new(usize::from(self.qos != Qos::DEFAULT) + usize::from(self.timestamp.is_some()));
        sink.put_u8(ID | chain.flag() | self.body.enc());
        put_vle(sink, u64::from(self.id));
        if self.qos != Qos::DEFAULT {
            chain.z64(sink, QOS, u64::from(self.qos.0));
        }
        if let Some(timestamp) = &self.timestamp {
            put_timestamp_ext(sink, &mut chain, timestamp);
        }
        self.body.encode(sink);
    }
}

/// OAM on one transport. No known implementation sends it; receivers ignore it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportOam {
    /// Subject of the message.
    pub id: u16,
    /// Priority of the channel.
    pub priority: Priority,
    /// The contents.
    pub body: ExtBody,
}

impl TransportOam {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        check_encoding(header, r, "transport OAM header")?;
        let id = r.z16("transport OAM id")?;
        let mut priority = Priority::Data;
        let mut more = header & Z != 0;
        while more {
            let ext;
            (ext, more) = read_header(r, "transport OAM extension")?;
            match ext {
                PRIORITY => priority = read_priority(r)?,
                _ => skip_unknown(ext, r, "transport OAM extension")?,
            }
        }
        Ok(Self { id, priority, body: read_body(header & ENC, r, "transport OAM body")? })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(usize::from(self.priority != Priority::Data));
        sink.put_u8(TRANSPORT_ID | chain.flag() | self.body.enc());
        put_vle(sink, u64::from(self.id));
        if self.priority != Priority::Data {
            chain.z64(sink, PRIORITY, self.priority as u64);
        }
        self.body.encode(sink);
    }
}

/// "ENC=3 is an error", found at the header and not behind the extensions.
fn check_encoding(header: u8, r: &Reader<'_>, reading: &'static str) -> Result<()> {
    if header & ENC == ENC {
        Err(r.error(reading, r.offset() - 1, DecodeErrorKind::ReservedEncoding { header }))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage, TransportMessage,
        testing::{both_ways, both_ways_transport, network, transport, unhex},
    };
    use super::*;

    #[test]
    fn each_encoding_on_a_network() {
        let oam = |body| NetworkMessage::Oam(Oam { id: 1, qos: Qos::DEFAULT, timestamp: None, body });
        both_ways("1f 01", &oam(ExtBody::Unit));
        both_ways("3f 01 8001", &oam(ExtBody::Z64(128)));
        both_ways("5f 01 02 6869", &oam(ExtBody::ZBuf(unhex("6869"))));
        both_ways("df 01 21 08 00", &NetworkMessage::Oam(Oam::new(1, ExtBody::ZBuf(unhex("")))));
    }

    #[test]
    fn each_encoding_on_a_transport() {
        let oam = |priority, body| TransportMessage::Oam(TransportOam { id: 300, priority, body });
        both_ways_transport("00 ac02", &oam(Priority::Data, ExtBody::Unit));
        both_ways_transport("a0 ac02 31 07 05", &oam(Priority::Background, ExtBody::Z64(5)));
        both_ways_transport("40 ac02 00", &oam(Priority::Data, ExtBody::ZBuf(unhex(""))));
    }

    #[test]
    fn the_reserved_encoding_is_found_at_the_header() {
        for error in [network("7f 01 00").unwrap_err(), transport("60 01 00").unwrap_err()] {
            assert!(matches!(error.kind, DecodeErrorKind::ReservedEncoding { .. }), "{error}");
            assert_eq!(error.offset, 0);
        }
    }
}
