//! OPEN, id 0x02 (`zenoh-wire` 3.4, 3.6).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|T|A|  OPEN   |   T: lease in seconds, A: ACK
//! +-+-+-+---------+
//! %     lease     %   z64
//! %  initial sn   %   z32
//! ~    cookie     ~   if not A; <u8;z16>
//! ~  extensions   ~   if Z: QoS 0x01, Shm 0x42 (0x22 up to 1.9), Auth 0x43, MultiLink 0x44 (0x04 in
//! ~               ~         the ACK), LowLatency 0x05, Compression 0x06, RemoteBound 0x27
//! +---------------+
//! ```

use super::{
    ext::{Chain, Z, read_header, skip_unknown},
    init::{COMPRESSION, LOW_LATENCY, QOS},
};
use crate::{
    buf::{Reader, Sink, put_vle, put_zbytes},
    error::Result,
};
use bytes::Bytes;

pub(super) const ID: u8 = 0x02;
const T: u8 = 0x40;
const A: u8 = 0x20;
const SHM: u8 = 0x42;
const SHM_1_9: u8 = 0x22;
const AUTH: u8 = 0x43;
const MULTILINK: u8 = 0x44;
const MULTILINK_ACK: u8 = 0x04;
const REMOTE_BOUND: u8 = 0x27;

/// Shm in OPEN, opaque here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenShm {
    /// ZBuf, since 1.10.
    Segments(Bytes),
    /// Z64, before 1.10.
    Challenge(u64),
}

/// MultiLink in OPEN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenMultiLink {
    /// ZBuf in the SYN, opaque.
    Proof(Bytes),
    /// Unit in the ACK.
    Accepted,
}

/// Extensions of OPEN, opaque unless they are evaluated here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenExt {
    /// QoS, defined and unused.
    pub qos: bool,
    /// Shm.
    pub shm: Option<OpenShm>,
    /// Auth, a nested chain.
    pub auth: Option<Bytes>,
    /// MultiLink.
    pub multilink: Option<OpenMultiLink>,
    /// LowLatency, defined and unused.
    pub low_latency: bool,
    /// Compression, defined and unused.
    pub compression: bool,
    /// RemoteBound: 0 north, 1 south.
    pub remote_bound: Option<u64>,
}

/// Third and fourth message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Lease in milliseconds: after a longer silence the sender counts as gone.
    pub lease_ms: u64,
    /// The first sequence number of every channel.
    pub initial_sn: u32,
    /// The cookie echoed, in the SYN only: its absence is the A flag.
    pub cookie: Option<Bytes>,
    /// Extensions.
    pub ext: OpenExt,
}

impl Open {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let lease_ms = read_lease(r, header & T != 0, "OPEN lease")?;
        let initial_sn = r.z32("OPEN initial sn")?;
        let cookie = if header & A == 0 { Some(r.zbytes(u64::from(u16::MAX), "OPEN cookie")?) } else { None };
        let mut ext = OpenExt::default();
        let mut more = header & Z != 0;
        while more {
            let id;
            (id, more) = read_header(r, "OPEN extension")?;
            match id {
                QOS => ext.qos = true,
                SHM => ext.shm = Some(OpenShm::Segments(r.zbytes(u64::from(u32::MAX), "OPEN Shm")?)),
                SHM_1_9 => ext.shm = Some(OpenShm::Challenge(r.vle("OPEN Shm")?)),
                AUTH => ext.auth = Some(r.zbytes(u64::from(u32::MAX), "OPEN Auth")?),
                MULTILINK => {
                    let proof = r.zbytes(u64::from(u32::MAX), "OPEN MultiLink")?;
                    ext.multilink = Some(OpenMultiLink::Proof(proof));
                }
                MULTILINK_ACK => ext.multilink = Some(OpenMultiLink::Accepted),
                LOW_LATENCY => ext.low_latency = true,
                COMPRESSION => ext.compression = true,
                REMOTE_BOUND => ext.remote_bound = Some(r.vle("OPEN RemoteBound")?),
                _ => skip_unknown(id, r, "OPEN extension")?,
            }
        }
        Ok(Self { lease_ms, initial_sn, cookie, ext })
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let ext = &self.ext;
        let mut chain = Chain::new(
            usize::from(ext.qos)
                + usize::from(ext.shm.is_some())
                + usize::from(ext.auth.is_some())
                + usize::from(ext.multilink.is_some())
                + usize::from(ext.low_latency)
                + usize::from(ext.compression)
                + usize::from(ext.remote_bound.is_some()),
        );
        let (lease, seconds) = lease_to_wire(self.lease_ms);
        let t = if seconds { T } else { 0 };
        let a = if self.cookie.is_none() { A } else { 0 };
        sink.put_u8(ID | chain.flag() | t | a);
        put_vle(sink, lease);
        put_vle(sink, u64::from(self.initial_sn));
        if let Some(cookie) = &self.cookie {
            put_zbytes(sink, cookie);
        }
        if ext.qos {
            chain.header(sink, QOS);
        }
        match &ext.shm {
            None => {}
            Some(OpenShm::Segments(bytes)) => chain.zbuf(sink, SHM, bytes),
            Some(OpenShm::Challenge(value)) => chain.z64(sink, SHM_1_9, *value),
        }
        if let Some(auth) = &ext.auth {
            chain.zbuf(sink, AUTH, auth);
        }
        match &ext.multilink {
            None => {}
            Some(OpenMultiLink::Proof(bytes)) => chain.zbuf(sink, MULTILINK, bytes),
            Some(OpenMultiLink::Accepted) => chain.header(sink, MULTILINK_ACK),
        }
        if ext.low_latency {
            chain.header(sink, LOW_LATENCY);
        }
        if ext.compression {
            chain.header(sink, COMPRESSION);
        }
        if let Some(bound) = ext.remote_bound {
            chain.z64(sink, REMOTE_BOUND, bound);
        }
    }
}

/// A lease in milliseconds, from seconds or milliseconds on the wire.
pub(super) fn read_lease(r: &mut Reader<'_>, seconds: bool, reading: &'static str) -> Result<u64> {
    let factor = if seconds { 1000 } else { 1 };
    r.vle_max(u64::MAX / factor, reading).map(|lease| lease * factor)
}

/// T=1 exactly when the lease is a whole number of seconds, as in Eclipse Zenoh.
pub(super) const fn lease_to_wire(lease_ms: u64) -> (u64, bool) {
    if lease_ms.is_multiple_of(1000) { (lease_ms / 1000, true) } else { (lease_ms, false) }
}

#[cfg(test)]
mod tests {
    use super::super::{
        TransportMessage,
        testing::{both_ways_transport, kind, transport},
    };
    use super::*;
    use crate::error::DecodeErrorKind;

    fn ack() -> Open {
        Open { lease_ms: 1, initial_sn: 0, cookie: None, ext: OpenExt::default() }
    }

    fn check(hex: &str, open: Open) {
        both_ways_transport(hex, &TransportMessage::Open(open));
    }

    #[test]
    fn each_flag() {
        check("22 01 00", ack());
        check("62 01 00", Open { lease_ms: 1000, ..ack() });
        check("02 01 00 00", Open { cookie: Some(Bytes::new()), ..ack() });
        check("a2 01 00 01", Open { ext: OpenExt { qos: true, ..OpenExt::default() }, ..ack() });
    }

    #[test]
    fn each_extension_in_the_order_of_their_ids() {
        let ext = OpenExt {
            qos: true,
            shm: Some(OpenShm::Segments(Bytes::from_static(b"s"))),
            auth: Some(Bytes::from_static(b"a")),
            multilink: Some(OpenMultiLink::Proof(Bytes::from_static(b"m"))),
            low_latency: true,
            compression: true,
            remote_bound: Some(1),
        };
        check("a2 01 00 81 c2 01 73 c3 01 61 c4 01 6d 85 86 27 01", Open { ext, ..ack() });
        let ext = OpenExt {
            shm: Some(OpenShm::Challenge(300)),
            multilink: Some(OpenMultiLink::Accepted),
            ..OpenExt::default()
        };
        check("a2 01 00 a2 ac02 04", Open { ext, ..ack() });
    }

    #[test]
    fn leases() {
        assert_eq!(lease_to_wire(10_000), (10, true));
        assert_eq!(lease_to_wire(2_500), (2_500, false));
        assert_eq!(lease_to_wire(0), (0, true));
        // Whole seconds in milliseconds are legal, though no implementation writes them so.
        assert_eq!(transport("22 904e 00"), transport("62 0a 00"));
        let largest = "62 ffffffffffffffffff 00";
        assert!(matches!(kind(transport(largest)), DecodeErrorKind::OutOfRange { .. }));
    }

    #[test]
    fn a_first_sequence_number_above_32_bits_is_an_error() {
        assert!(transport("22 01 ffffffff0f").is_ok());
        assert!(matches!(kind(transport("22 01 8080808010")), DecodeErrorKind::OutOfRange { .. }));
    }
}
