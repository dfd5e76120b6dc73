//! Malformed input, row by row of section 9 of the wire document, as far as the codec decides.
//!
//! The reactions of links, sessions and nodes are tested there; rows that concern only them (the
//! sequence number window, unknown scopes, refused handshakes) are not repeated here.

use bytes::Bytes;
use zwire_proto::{
    buf::Reader,
    error::{DecodeErrorKind, Result},
    zenoh::wire::{BatchItem, BatchReader, LinkStateList, NetworkMessage, TransportMessage},
};

fn unhex(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|b| *b != b' ').collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or_else(|| panic!("{hex}"));
    digits.chunks(2).map(|pair| (digit(pair[0]) << 4 | digit(pair[1])) as u8).collect()
}

/// The items of a batch and the error at its end.
fn walk(hex: &str) -> (Vec<BatchItem>, Result<()>) {
    let bytes = unhex(hex);
    let mut walk = BatchReader::new(&bytes);
    let mut items = Vec::new();
    loop {
        match walk.next_item() {
            Ok(Some(item)) => items.push(item),
            Ok(None) => return (items, Ok(())),
            Err(error) => {
                assert!(error.offset <= bytes.len(), "{error}");
                assert!(!error.to_string().is_empty());
                return (items, Err(error));
            }
        }
    }
}

fn message(hex: &str) -> NetworkMessage {
    let bytes = unhex(hex);
    let mut r = Reader::new(&bytes);
    let message = NetworkMessage::decode(&mut r).unwrap_or_else(|e| panic!("{hex}: {e}"));
    assert!(r.is_empty(), "{hex}");
    message
}

const U32: u64 = u32::MAX as u64;

/// 9.1, during the handshake: messages that do not decode.
#[test]
fn handshake_messages_that_do_not_decode() {
    use DecodeErrorKind::*;
    for (row, hex, kind) in [
        ("whatami 3", "41 09 03 01 0a 0020", Illegal { value: 3 }),
        ("ZID all zero", "01 09 10 0000", Illegal { value: 0 }),
        ("unknown mandatory extension", "81 09 00 01 1e", UnknownMandatoryExtension { header: 0x1e }),
        ("extension encoding 3", "81 09 00 01 6e", ReservedEncoding { header: 0x6e }),
        ("truncated message", "41 09 00 01 0a 00", Truncated { needed: 1 }),
        ("QoS and QoSLink both present", "81 09 00 01 81 21 02", ConflictingExtension { header: 0x21 }),
        ("cookie above 16 bits", "21 09 00 01 808004", OutOfRange { value: 65_536, bound: 65_535 }),
        ("region name that is not UTF-8", "81 09 00 01 48 02 c328", Utf8),
        ("extension past the end", "81 09 00 01 43 05 02", Truncated { needed: 4 }),
    ] {
        let bytes = unhex(hex);
        let error = TransportMessage::decode(&mut Reader::new(&bytes)).expect_err(row);
        assert_eq!(error.kind, kind, "{row}");
    }
}

/// 9.1, the row of tolerated input: reserved flag bits, unknown optional extensions, a ZID with high
/// zero bytes, trailing bytes.
#[test]
fn handshake_messages_that_are_tolerated() {
    let decode = |hex: &str| {
        let bytes = unhex(hex);
        let mut r = Reader::new(&bytes);
        let message = TransportMessage::decode(&mut r).unwrap();
        (message, r.remaining())
    };
    let (init, _) = decode("01 09 02 01");
    assert_eq!(decode("81 09 2e 010000 8d 4e 03 010203"), (init.clone(), 0));
    assert_eq!(decode("01 09 02 01 ffff"), (init, 2));
}

/// 9.2, the link is closed: the codec names the error and its place, and items before it remain.
#[test]
fn data_that_closes_the_link() {
    use DecodeErrorKind::*;
    let mandatory = |header| UnknownMandatoryExtension { header };
    for (row, hex, kind) in [
        ("junk inside a FRAME", "18 00", UnknownId { id: 0x18 }),
        ("unknown transport id", "08", UnknownId { id: 0x08 }),
        ("OAM with encoding 3", "ff 01", ReservedEncoding { header: 0xff }),
        ("unknown mandatory extension on KEEP_ALIVE", "84 1e", mandatory(0x1e)),
        ("unknown mandatory extension on PUSH", "dd 00 1e 02", mandatory(0x1e)),
        ("unknown mandatory extension on PUT", "5d 00 81 1e 00", mandatory(0x1e)),
        ("QoS with an M bit", "dd 00 31 08 02", mandatory(0x31)),
        ("extension encoding 3", "dd 00 6e 02", ReservedEncoding { header: 0x6e }),
        ("payload past the end", "5d 00 01 05 6869", Truncated { needed: 3 }),
        ("string past the end", "7d 00 05 6869", Truncated { needed: 3 }),
        ("payload above 2^32-1", "5d 00 01 8080808010", OutOfRange { value: 1 << 32, bound: U32 }),
        ("scope above 65535", "5d 808004 02", OutOfRange { value: 65_536, bound: 65_535 }),
        ("encoding word above 2^32-1", "5d 00 41 8080808010", OutOfRange { value: 1 << 32, bound: U32 }),
        ("schema above 255", "5d 00 41 01 8002", OutOfRange { value: 256, bound: 255 }),
        ("invalid UTF-8 in a suffix", "7d 00 02 c328 02", Utf8),
        ("timestamp id of length 0", "5d 00 21 01 00 00", Illegal { value: 0 }),
        ("timestamp id of length 17", "5d 00 21 01 11 00", Illegal { value: 17 }),
        ("body of another carrier: PUSH", "5d 00 03", UnknownId { id: 3 }),
        ("body of another carrier: REQUEST", "5c 01 00 01 00", UnknownId { id: 1 }),
        ("body of another carrier: RESPONSE", "5b 01 00 02", UnknownId { id: 2 }),
        ("unknown declaration", "1e 08 00", UnknownId { id: 8 }),
        ("target above 2", "dc 01 00 34 03 03", OutOfRange { value: 3, bound: 2 }),
        ("TsStack with flags 0", "dd 00 47 02 0000 02", Illegal { value: 0 }),
        ("QueryBody of length 0", "5c 01 00 83 43 00", Truncated { needed: 1 }),
        ("request id above 2^32-1", "5c 8080808010 00 03", OutOfRange { value: 1 << 32, bound: U32 }),
        ("Shm marker", "5d 00 81 12 00", SharedMemory),
        ("padding in SourceInfo", "5d 00 81 41 05 00010203 00 00", TrailingBytes { left: 1 }),
        ("padding in ResponderId", "db 01 00 43 04 00520000 05 00", TrailingBytes { left: 1 }),
        ("padding in Timestamp", "dd 00 42 04 01010200 02", TrailingBytes { left: 1 }),
        ("padding in TsStack", "dd 00 47 03 010000 02", TrailingBytes { left: 1 }),
        ("SN above 32 bits", "05 8080808010", OutOfRange { value: 1 << 32, bound: U32 }),
    ] {
        // A valid message of the same frame comes first, and is delivered.
        let (items, end) = walk(&format!("25 07 5d 05 02 {hex}"));
        assert_eq!(items.len(), 2, "{row}");
        assert_eq!(items[1], BatchItem::Network(message("5d 05 02")), "{row}");
        let error = end.expect_err(row);
        assert_eq!(error.kind, kind, "{row}: {error}");
        assert!(error.offset >= 5, "{row}: {error}");
    }
}

/// 9.3, accepted.
#[test]
fn data_that_is_accepted() {
    for (row, hex, same) in [
        ("non-minimal VLE", "dd 858000 21 8880808000 01 82808000 6869", "dd 05 21 08 01 02 6869"),
        ("duplicate extensions: last wins", "dd 05 a1 01 21 08 02", "dd 05 21 08 02"),
        ("known id with another encoding", "dd 05 41 01 08 02", "5d 05 02"),
        ("known id with missing M", "dd 05 23 08 02", "5d 05 02"),
        ("QoS with bits above the byte", "dd 05 21 8806 02", "dd 05 21 08 02"),
        ("encoding id above 16 bits is truncated", "5d 05 41 e0c508 00", "5d 05 41 e045 00"),
        ("consolidation above 3 is Auto", "5c 01 05 23 07", "5c 01 05 03"),
    ] {
        assert_eq!(message(hex), message(same), "{row}");
    }
    // QoS with reserved bits of the byte, unknown encodings and schemas that are not UTF-8 are kept.
    for hex in ["dd 05 21 c801 02", "5d 05 41 feff03 00", "5d 05 41 01 02 c328 00"] {
        let mut out = Vec::new();
        message(hex).encode(&mut out);
        assert_eq!(out, unhex(hex)[..], "{hex}");
    }
    // "Zero-length batch; empty FRAME; KEEP_ALIVE with non-mandatory extensions."
    assert_eq!(walk(""), (Vec::new(), Ok(())));
    assert_eq!(walk("25 07").0.len(), 1);
    assert_eq!(walk("84 0e").0, [BatchItem::Transport(TransportMessage::KeepAlive)]);
    // "Byte 04 after a network message inside a FRAME is a KEEP_ALIVE message."
    assert_eq!(walk("25 07 5d 05 02 04").0.len(), 3);
    // "CLOSE with unknown reason."
    assert!(walk("03 63").1.is_ok());
}

/// 9.3, "undecodable link state" and 9.4, "cap every count before allocating".
#[test]
fn counts_are_not_believed() {
    for hex in [
        "ffffffff0f",
        "01 00 01 01 ffffffff0f",
        "01 04 01 01 ffffffff0f",
        "01 08 01 01 02 01 02 00",
        "01 01 01 01 00",
    ] {
        assert!(LinkStateList::decode(&unhex(hex)).is_err(), "{hex}");
    }
    for hex in ["dd 00 47 06 01 ffffffff0f 02", "dd 00 4d ffffffff0f 02", "5d 00 81 4d ffffffff0f 00"] {
        let bytes = unhex(hex);
        assert!(NetworkMessage::decode(&mut Reader::new(&bytes)).is_err(), "{hex}");
    }
}
