//! JOIN, id 0x07, of multicast transports (`zenoh-wire` 3.15).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-+-+-+-+
//! |Z|S|T|  JOIN   |   S: size parameters, T: lease in seconds
//! +-+-+-+---------+
//! |    version    |
//! |zid_len|X|X|wai|
//! ~      zid      ~
//! |  resolution   |   if S
//! |  batch_size   |   if S; u16 little-endian
//! %     lease     %
//! % next sn, rel. %
//! % next sn, b.e. %
//! ~  extensions   ~   if Z: QoS 0x51 (mandatory), Shm 0x52 (mandatory), Patch 0x27
//! +---------------+
//! ```

use super::{
    common::{Resolution, S, put_node, put_size, read_node, read_size},
    ext::{Chain, Z, read_header, skip_unknown, zbuf},
    open::{lease_to_wire, read_lease},
};
use crate::{
    buf::{Reader, Sink, put_vle, vle_len},
    error::Result,
    zenoh::{Priority, WhatAmI, ZenohId},
};
use bytes::Bytes;

pub(super) const ID: u8 = 0x07;
const T: u8 = 0x20;
const QOS: u8 = 0x51;
const SHM: u8 = 0x52;
const PATCH: u8 = 0x27;

/// The next sequence numbers of both channels of a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextSn {
    /// Number of the reliable channel.
    pub reliable: u32,
    /// Number of the best-effort channel.
    pub best_effort: u32,
}

/// JOIN: announces a member, every 2500 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// 0x09.
    pub version: u8,
    /// Role of the sender.
    pub whatami: WhatAmI,
    /// The sender.
    pub zid: ZenohId,
    /// Resolution and batch size; absent means 0x0a and 8192.
    pub size: Option<(Resolution, u16)>,
    /// Lease in milliseconds: after a longer silence the sender is gone.
    pub lease_ms: u64,
    /// Numbers of priority Data, or of all priorities if QoS is off.
    pub next_sn: NextSn,
    /// Numbers of each priority, if QoS is on.
    pub qos: Option<Box<[NextSn; Priority::COUNT]>>,
    /// Opaque; no known implementation uses it.
    pub shm: Option<Bytes>,
    /// Patch; absent is 0 and elided.
    pub patch: u64,
}

impl Join {
    pub(super) fn decode(header: u8, r: &mut Reader<'_>) -> Result<Self> {
        let (version, whatami, zid) = read_node(r, ["JOIN version", "JOIN whatami", "JOIN zid"])?;
        let size = read_size(header, r, ["JOIN resolution", "JOIN batch size"])?;
        let lease_ms = read_lease(r, header & T != 0, "JOIN lease")?;
        let next_sn = read_next_sn(r)?;
        let mut join =
            Self { version, whatami, zid, size, lease_ms, next_sn, qos: None, shm: None, patch: 0 };
        let mut more = header & Z != 0;
        while more {
            let id;
            (id, more) = read_header(r, "JOIN extension")?;
            match id {
                QOS => {
                    let mut inner = zbuf(r, "JOIN QoS")?;
                    let mut all = Box::new([NextSn::default(); Priority::COUNT]);
                    for sn in all.iter_mut() {
                        *sn = read_next_sn(&mut inner)?;
                    }
                    inner.finish("JOIN QoS")?;
                    join.qos = Some(all);
                }
                SHM => join.shm = Some(r.zbytes(u64::from(u32::MAX), "JOIN Shm")?),
                PATCH => join.patch = r.vle("JOIN Patch")?,
                _ => skip_unknown(id, r, "JOIN extension")?,
            }
        }
        Ok(join)
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        let mut chain = Chain::new(
            usize::from(self.qos.is_some()) + usize::from(self.shm.is_some()) + usize::from(self.patch != 0),
        );
        let (lease, seconds) = lease_to_wire(self.lease_ms);
        let s = if self.size.is_some() { S } else { 0 };
        let t = if seconds { T } else { 0 };
        sink.put_u8(ID | chain.flag() | s | t);
        put_node(sink, self.version, self.whatami, self.zid);
        put_size(sink, self.size);
        put_vle(sink, lease);
        put_next_sn(sink, self.next_sn);
        if let Some(all) = &self.qos {
            chain.header(sink, QOS);
            let len: usize =
                all.iter().map(|n| vle_len(n.reliable.into()) + vle_len(n.best_effort.into())).sum();
            put_vle(sink, len as u64);
            for sn in all.iter() {
                put_next_sn(sink, *sn);
            }
        }
        if let Some(shm) = &self.shm {
            chain.zbuf(sink, SHM, shm);
        }
        if self.patch != 0 {
            chain.z64(sink, PATCH, self.patch);
        }
    }
}

fn read_next_sn(r: &mut Reader<'_>) -> Result<NextSn> {
    Ok(NextSn { reliable: r.z32("JOIN next sn")?, best_effort: r.z32("JOIN next sn")? })
}

fn put_next_sn(sink: &mut impl Sink, sn: NextSn) {
    put_vle(sink, u64::from(sn.reliable));
    put_vle(sink, u64::from(sn.best_effort));
}

#[cfg(test)]
mod tests {
    use super::super::{
        TransportMessage,
        testing::{both_ways_transport, kind, transport},
    };
    use super::*;
    use crate::error::DecodeErrorKind;

    fn minimal() -> Join {
        Join {
            version: 9,
            whatami: WhatAmI::Peer,
            zid: ZenohId::new(1).unwrap(),
            size: None,
            lease_ms: 1,
            next_sn: NextSn { reliable: 2, best_effort: 3 },
            qos: None,
            shm: None,
            patch: 0,
        }
    }

    fn check(hex: &str, join: Join) {
        both_ways_transport(hex, &TransportMessage::Join(join));
    }

    #[test]
    fn each_flag_and_extension() {
        check("07 09 01 01 01 02 03", minimal());
        check("27 09 01 01 01 02 03", Join { lease_ms: 1000, ..minimal() });
        check("47 09 01 01 0a 0020 01 02 03", Join { size: Some((Resolution(0x0a), 8192)), ..minimal() });
        check("87 09 01 01 01 02 03 27 01", Join { patch: 1, ..minimal() });
        check("87 09 01 01 01 02 03 52 01 73", Join { shm: Some(Bytes::from_static(b"s")), ..minimal() });
        let all = Box::new([NextSn { reliable: 128, best_effort: 0 }; 8]);
        let hex = format!("87 09 01 01 01 02 03 51 18 {}", "800100".repeat(8));
        check(&hex, Join { qos: Some(all), ..minimal() });
    }

    /// Eclipse Zenoh ignores the declared length; zwire checks it.
    #[test]
    fn the_qos_extension_must_fill_its_length() {
        let hex = format!("87 09 01 01 01 02 03 51 11 {} ff", "0000".repeat(8));
        assert_eq!(kind(transport(&hex)), DecodeErrorKind::TrailingBytes { left: 1 });
        let hex = format!("87 09 01 01 01 02 03 51 0f {} 00", "0000".repeat(7));
        assert_eq!(kind(transport(&hex)), DecodeErrorKind::Truncated { needed: 1 });
    }
}
