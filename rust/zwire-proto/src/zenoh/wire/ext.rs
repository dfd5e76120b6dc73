//! Extension chains (`zenoh-wire` 1.8).
//!
//! ```text
//!  7 6 5 4 3 2 1 0
//! +-+-+-+-+-------+
//! |Z|ENC|M|  ID   |   Z: another extension follows
//! +-+---+-+-------+   ENC: 00 Unit, 01 Z64, 10 ZBuf, 11 reserved
//! ~     body      ~   M: mandatory
//! +---------------+
//! ```
//!
//! A decoder matches the header without Z: id, M and ENC together. A known id with another M or ENC
//! is an unknown extension.

use crate::{
    buf::{Reader, Sink, put_vle, put_zbytes},
    error::{DecodeErrorKind, Result},
    limits::MAX_UNKNOWN_EXTENSIONS,
};
use bytes::Bytes;

/// Another extension follows; in a message header: an extension chain follows.
pub(super) const Z: u8 = 0x80;
/// The extension is mandatory.
pub(super) const M: u8 = 0x10;

const ID: u8 = 0x0f;
/// The encoding bits of an extension or OAM header.
pub(super) const ENC: u8 = 0x60;
const ENC_UNIT: u8 = 0x00;
const ENC_Z64: u8 = 0x20;
const ENC_ZBUF: u8 = 0x40;

/// The body of an extension, or of an OAM message.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ExtBody {
    /// Nothing.
    #[default]
    Unit,
    /// An integer.
    Z64(u64),
    /// Bytes.
    ZBuf(Bytes),
}

impl ExtBody {
    /// ENC for the header byte.
    pub(super) const fn enc(&self) -> u8 {
        match self {
            Self::Unit => ENC_UNIT,
            Self::Z64(_) => ENC_Z64,
            Self::ZBuf(_) => ENC_ZBUF,
        }
    }

    pub(super) fn encode(&self, sink: &mut impl Sink) {
        match self {
            Self::Unit => {}
            Self::Z64(value) => put_vle(sink, *value),
            Self::ZBuf(bytes) => {
                put_vle(sink, bytes.len() as u64);
                sink.put_shared(bytes);
            }
        }
    }
}

/// An optional extension that this implementation does not know and keeps for the next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownExt {
    /// Id, 0 to 15; the other bits of the header follow from the body.
    pub id: u8,
    /// The body.
    pub body: ExtBody,
}

/// The header of the next extension, split into the matched bits and whether more follow.
pub(super) fn read_header(r: &mut Reader<'_>, reading: &'static str) -> Result<(u8, bool)> {
    let byte = r.u8(reading)?;
    Ok((byte & !Z, byte & Z != 0))
}

/// The body that belongs to `header`.
pub(super) fn read_body(header: u8, r: &mut Reader<'_>, reading: &'static str) -> Result<ExtBody> {
    Ok(match header & ENC {
        ENC_UNIT => ExtBody::Unit,
        ENC_Z64 => ExtBody::Z64(r.vle(reading)?),
        ENC_ZBUF => ExtBody::ZBuf(r.zbytes(u64::from(u32::MAX), reading)?),
        _ => {
            return Err(r.error(reading, r.offset() - 1, DecodeErrorKind::ReservedEncoding { header }));
        }
    })
}

/// An extension that the message does not define: skipped, or an error if it is mandatory.
#[cold]
pub(super) fn skip_unknown(header: u8, r: &mut Reader<'_>, reading: &'static str) -> Result<()> {
    read_optional(header, r, reading).map(drop)
}

/// Like [`skip_unknown`], but keeps the extension: those of data messages are forwarded.
#[cold]
pub(super) fn keep_unknown(
    kept: &mut Vec<UnknownExt>,
    header: u8,
    r: &mut Reader<'_>,
    reading: &'static str,
) -> Result<()> {
    let offset = r.offset() - 1;
    let body = read_optional(header, r, reading)?;
    if kept.len() == MAX_UNKNOWN_EXTENSIONS {
        let bound = MAX_UNKNOWN_EXTENSIONS as u64;
        return Err(r.error(reading, offset, DecodeErrorKind::OutOfRange { value: bound + 1, bound }));
    }
    kept.push(UnknownExt { id: header & ID, body });
    Ok(())
}

fn read_optional(header: u8, r: &mut Reader<'_>, reading: &'static str) -> Result<ExtBody> {
    if header & M != 0 {
        let kind = DecodeErrorKind::UnknownMandatoryExtension { header };
        return Err(r.error(reading, r.offset() - 1, kind));
    }
    read_body(header, r, reading)
}

/// Skips the chain of a scouting message, if its header announces one: even mandatory unknown extensions
/// are skipped.
pub(super) fn skip_chain_leniently(header: u8, r: &mut Reader<'_>, reading: &'static str) -> Result<()> {
    let mut more = header & Z != 0;
    while more {
        let ext;
        (ext, more) = read_header(r, reading)?;
        read_body(ext, r, reading)?;
    }
    Ok(())
}

/// Skips the chain of a message without any extension defined, if its header announces one.
#[inline]
pub(super) fn skip_chain(header: u8, r: &mut Reader<'_>, reading: &'static str) -> Result<()> {
    let mut more = header & Z != 0;
    while more {
        let ext;
        (ext, more) = read_header(r, reading)?;
        skip_unknown(ext, r, reading)?;
    }
    Ok(())
}

/// A reader over the contents of a ZBuf extension. The contents must fill its declared length, though
/// Eclipse Zenoh ignores the length of some of them.
pub(super) fn zbuf<'a>(r: &mut Reader<'a>, reading: &'static str) -> Result<Reader<'a>> {
    let len = r.len(u64::from(u32::MAX), reading)?;
    r.sub(len, reading)
}

/// Writes the extension chain of a message; counts the extensions still to come.
pub(super) struct Chain {
    left: usize,
}

impl Chain {
    pub(super) const fn new(count: usize) -> Self {
        Self { left: count }
    }

    /// Z for the message header.
    pub(super) const fn flag(&self) -> u8 {
        if self.left > 0 { Z } else { 0 }
    }

    #[inline]
    pub(super) fn header(&mut self, sink: &mut impl Sink, header: u8) {
        debug_assert!(self.left > 0, "more extensions than counted");
        self.left -= 1;
        sink.put_u8(header | self.flag());
    }

    #[inline]
    pub(super) fn z64(&mut self, sink: &mut impl Sink, header: u8, value: u64) {
        self.header(sink, header);
        put_vle(sink, value);
    }

    pub(super) fn zbuf(&mut self, sink: &mut impl Sink, header: u8, bytes: &[u8]) {
        self.header(sink, header);
        put_zbytes(sink, bytes);
    }

    #[inline]
    pub(super) fn unknown(&mut self, sink: &mut impl Sink, extensions: &[UnknownExt]) {
        for ext in extensions {
            self.header(sink, ext.id & ID | ext.body.enc());
            ext.body.encode(sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        NetworkMessage, PushBody,
        testing::{both_ways, kind, network, transport, unhex},
    };
    use super::*;

    /// PUSH to the empty key, PUT with these extensions and an empty payload.
    fn put_with(chain: &str) -> Result<Vec<UnknownExt>> {
        match network(&format!("1d 00 81 {chain} 00"))? {
            NetworkMessage::Push(push) => match push.body {
                PushBody::Put(put) => Ok(put.extensions),
                PushBody::Del(_) => unreachable!("the body is a PUT"),
            },
            _ => unreachable!("the message is a PUSH"),
        }
    }

    #[test]
    fn unknown_optional_extensions_of_data_are_kept_in_order() {
        let kept = put_with("8e af ac02 4d 02 6869").unwrap();
        let body = ExtBody::ZBuf(unhex("6869"));
        assert_eq!(
            kept,
            [
                UnknownExt { id: 14, body: ExtBody::Unit },
                UnknownExt { id: 15, body: ExtBody::Z64(300) },
                UnknownExt { id: 13, body },
            ]
        );
        both_ways("1d 00 81 8e af ac02 4d 02 6869 00", &network("1d00818eafac024d02686900").unwrap());
    }

    #[test]
    fn the_number_of_kept_extensions_is_bounded() {
        let chain = |n: usize| format!("{} 0e", "8e".repeat(n - 1));
        assert_eq!(put_with(&chain(MAX_UNKNOWN_EXTENSIONS)).unwrap().len(), MAX_UNKNOWN_EXTENSIONS);
        let error = put_with(&chain(MAX_UNKNOWN_EXTENSIONS + 1)).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::OutOfRange { value: 49, bound: 48 });
        assert_eq!(error.offset, 3 + MAX_UNKNOWN_EXTENSIONS);
    }

    #[test]
    fn an_unknown_mandatory_extension_is_named() {
        let error = put_with("1e").unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::UnknownMandatoryExtension { header: 0x1e });
        assert_eq!((error.reading, error.offset), ("PUT extension", 3));
        assert_eq!(kind(transport("84 91 00")), DecodeErrorKind::UnknownMandatoryExtension { header: 0x11 });
    }

    #[test]
    fn the_reserved_encoding_is_an_error() {
        assert_eq!(kind(put_with("61")), DecodeErrorKind::ReservedEncoding { header: 0x61 });
    }

    /// "A known id with another M or ENC is an unknown extension."
    #[test]
    fn the_whole_header_is_matched() {
        // QoS as ZBuf and NodeId without M are skipped, QoS with M closes the link.
        let plain = network("5d 00 01 00");
        assert_eq!(network("dd 00 c1 01 08 23 01 01 00"), plain);
        assert_eq!(
            kind(network("dd 00 31 08 01 00")),
            DecodeErrorKind::UnknownMandatoryExtension { header: 0x31 }
        );
        // Attachment as Z64 is kept as an unknown extension.
        assert_eq!(put_with("23 05").unwrap(), [UnknownExt { id: 3, body: ExtBody::Z64(5) }]);
    }
}
