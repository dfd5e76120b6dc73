//! Every worked example of the wire document, decoded to a value written by hand, encoded again to
//! the same bytes, and cut at every byte.

mod build;
mod data;
mod expected;
mod session;

use bytes::Bytes;
use serde_json::Value;
use zwire_proto::{
    buf::{Counter, Reader, Segments, Sink},
    error::DecodeError,
    zenoh::wire::{BatchItem, BatchReader, NetworkMessage, ScoutingMessage},
};

const EXAMPLES: &str = include_str!("../../vectors/zenoh/examples.json");

/// Form of the bytes of an example.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// A datagram of scouting.
    Scouting,
    /// Transport messages, and network messages inside frames.
    Batch,
    /// Network messages without a frame.
    Messages,
    /// A QUERY without the REQUEST that carries it.
    Query,
    /// A batch behind the header byte of a compressing session.
    Compressed,
}

#[derive(Debug)]
struct Example {
    id: String,
    name: String,
    form: Form,
    /// Without stream prefix.
    bytes: Bytes,
}

/// Decoded value of the bytes.
#[derive(Clone, Debug, PartialEq)]
enum Meaning {
    Items(Vec<BatchItem>),
    Scouting(ScoutingMessage),
}

/// The shortest REQUEST: id 1, scope 0, no suffix.
const CARRIER: &[u8] = &[0x1c, 0x01, 0x00];

fn unhex(s: &str) -> Vec<u8> {
    assert!(s.len().is_multiple_of(2), "{s}");
    (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
}

fn examples() -> Vec<Example> {
    let all: Vec<Value> = serde_json::from_str(EXAMPLES).unwrap();
    assert!(all.len() >= 67, "the file holds {} examples", all.len());
    all.iter()
        .map(|e| {
            let text = |field: &str| e[field].as_str().unwrap_or_else(|| panic!("{field} of {e}")).to_owned();
            let mut bytes = Bytes::from(unhex(&text("bytes")));
            // "u16le: the stream length prefix", "u32le: the low-latency length prefix".
            let announced = match e["prefix"].as_str() {
                None => None,
                Some("u16") => {
                    let prefix = bytes.split_to(2);
                    Some(usize::from(u16::from_le_bytes(prefix[..].try_into().unwrap())))
                }
                Some("u32") => {
                    let prefix = bytes.split_to(4);
                    Some(u32::from_le_bytes(prefix[..].try_into().unwrap()) as usize)
                }
                Some(other) => panic!("prefix {other}"),
            };
            let id = text("id");
            assert!(announced.is_none_or(|n| n == bytes.len()), "{id}: prefix {announced:?}");
            let form = match text("form").as_str() {
                "scouting" => Form::Scouting,
                "batch" => Form::Batch,
                "messages" | "low_latency" => Form::Messages,
                "query" => Form::Query,
                "compressed" => Form::Compressed,
                other => panic!("form {other}"),
            };
            Example { id, name: text("name"), form, bytes }
        })
        .collect()
}

/// All items up to the end or the first error.
fn walk(mut reader: BatchReader<'_>) -> (Vec<BatchItem>, Result<(), DecodeError>) {
    let mut items = Vec::new();
    loop {
        match reader.next_item() {
            Ok(Some(item)) => items.push(item),
            Ok(None) => return (items, Ok(())),
            Err(e) => return (items, Err(e)),
        }
    }
}

/// Removes the batch header, and decompresses.
fn raw_batch(bytes: &Bytes) -> Bytes {
    match bytes[0] {
        0 => bytes.slice(1..),
        1 => lz4_flex::block::decompress(&bytes[1..], 65_535).unwrap().into(),
        other => panic!("batch header {other:#04x}"),
    }
}

fn decode(form: Form, bytes: &Bytes) -> (Meaning, Result<(), DecodeError>) {
    let (items, end) = match form {
        Form::Scouting => {
            let mut r = Reader::new(bytes);
            return match ScoutingMessage::decode(&mut r).and_then(|m| r.finish("end").map(|()| m)) {
                Ok(message) => (Meaning::Scouting(message), Ok(())),
                Err(e) => (Meaning::Items(Vec::new()), Err(e)),
            };
        }
        Form::Batch | Form::Compressed => walk(BatchReader::new(bytes)),
        Form::Messages | Form::Query => walk(BatchReader::low_latency(bytes)),
    };
    (Meaning::Items(items), end)
}

fn encode(meaning: &Meaning, sink: &mut impl Sink) {
    match meaning {
        Meaning::Scouting(message) => message.encode(sink),
        Meaning::Items(items) => {
            for item in items {
                match item {
                    BatchItem::Transport(message) => message.encode(sink),
                    BatchItem::Network(message) => message.encode(sink),
                    BatchItem::Fragment(head, data) => {
                        head.encode(sink);
                        sink.put_shared(data);
                    }
                }
            }
        }
    }
}

/// The bytes that the codec sees: decompressed, or carried.
fn wire(example: &Example) -> Bytes {
    match example.form {
        Form::Compressed => raw_batch(&example.bytes),
        Form::Query => [CARRIER, &example.bytes[..]].concat().into(),
        _ => example.bytes.clone(),
    }
}

#[test]
fn each_example_means_what_it_says() {
    for example in examples() {
        let (meaning, end) = decode(example.form, &wire(&example));
        assert_eq!(end, Ok(()), "{} {}", example.id, example.name);
        assert_eq!(meaning, expected::meaning(&example.id), "{} {}", example.id, example.name);
    }
}

#[test]
fn each_example_is_encoded_to_the_same_bytes() {
    for example in examples() {
        let meaning = expected::meaning(&example.id);
        let wire = wire(&example);
        let mut out = Vec::new();
        encode(&meaning, &mut out);
        assert_eq!(out, wire[..], "{} {}", example.id, example.name);
        let mut count = Counter::default();
        encode(&meaning, &mut count);
        assert_eq!(count.0, wire.len(), "{}", example.id);
        let mut segments = Segments::default();
        encode(&meaning, &mut segments);
        assert_eq!(segments.into_parts().concat(), wire[..], "{}", example.id);
    }
}

/// A cut example is an error, or ends between two messages and then decodes to those before. The bytes
/// of a FRAGMENT have no length of their own: there the batch decides.
#[test]
fn a_cut_example_never_means_something_else() {
    for example in examples() {
        let Meaning::Items(whole) = expected::meaning(&example.id) else {
            for cut in 0..example.bytes.len() {
                let (_, end) = decode(example.form, &example.bytes.slice(..cut));
                assert!(end.is_err(), "{} cut at {cut}", example.id);
            }
            continue;
        };
        let wire = wire(&example);
        for cut in 0..wire.len() {
            let (Meaning::Items(items), end) = decode(example.form, &wire.slice(..cut)) else {
                unreachable!("only scouting gives a single message")
            };
            let fragment = matches!(items.last(), Some(BatchItem::Fragment(..)));
            let good = items.len() - usize::from(fragment);
            assert!(good <= whole.len(), "{} cut at {cut}", example.id);
            assert_eq!(items[..good], whole[..good], "{} cut at {cut}", example.id);
            if let (Some(BatchItem::Fragment(head, data)), true) = (items.last(), fragment) {
                let BatchItem::Fragment(head_whole, data_whole) = &whole[good] else {
                    panic!("{} cut at {cut}: {head:?}", example.id)
                };
                assert_eq!(head, head_whole, "{} cut at {cut}", example.id);
                assert!(data_whole.starts_with(data), "{} cut at {cut}", example.id);
            }
            // Without an error the cut is a boundary: the messages so far encode to the cut bytes.
            if end.is_ok() {
                let mut out = Vec::new();
                encode(&Meaning::Items(items), &mut out);
                assert_eq!(out, wire[..cut], "{} cut at {cut}", example.id);
            }
        }
    }
}

/// Same for a single message, as from reassembly or a low-latency batch.
#[test]
fn a_cut_network_message_is_an_error() {
    let mut messages = 0;
    for example in examples() {
        let Meaning::Items(items) = expected::meaning(&example.id) else { continue };
        for item in items {
            let BatchItem::Network(message) = item else { continue };
            messages += 1;
            let mut out = Vec::new();
            message.encode(&mut out);
            let whole = Bytes::from(out);
            assert_eq!(NetworkMessage::decode(&mut Reader::new(&whole)).as_ref(), Ok(&message));
            for cut in 0..whole.len() {
                let part = whole.slice(..cut);
                let result = NetworkMessage::decode(&mut Reader::new(&part));
                assert!(result.is_err(), "{} cut at {cut}: {result:?}", example.id);
            }
        }
    }
    assert!(messages > 50, "{messages}");
}

/// "the low-latency length prefix", "batch header with LZ4": the compressor of zwire need not give the
/// same bytes, only a block with the same content.
#[test]
fn a_compressed_example_survives_our_own_compressor() {
    let mut seen = 0;
    for example in examples().iter().filter(|e| e.form == Form::Compressed) {
        let raw = raw_batch(&example.bytes);
        let block = lz4_flex::block::compress(&raw);
        assert_eq!(lz4_flex::block::decompress(&block, 65_535).unwrap(), raw[..], "{}", example.id);
        seen += 1;
    }
    assert_eq!(seen, 2);
}
