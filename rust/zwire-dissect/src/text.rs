//! Records as readable lines of text.

use super::{
    record::{Message, Protocol, Record},
    said::Said,
};
use bytes::Bytes;
use std::io::Write as _;
use zwire_proto::zenoh::rfc3339::Instant;

const SHOWN: usize = 32;

/// Appends a record as one line of text: time, addresses, message, key, and the remaining fields.
pub fn write_text(record: &Record, out: &mut Vec<u8>) {
    // Writing to a vector never fails.
    let _ = write(record, out);
}

/// Writes a field, if the record has it.
macro_rules! field {
    ($out:ident, $format:literal, $value:expr) => {
        if let Some(value) = $value {
            write!($out, $format, value)?;
        }
    };
}

fn write(record: &Record, out: &mut Vec<u8>) -> std::io::Result<()> {
    write!(out, "{}", Instant(record.time))?;
    if let (Some(src), Some(dst)) = (record.src, record.dst) {
        write!(out, " {src} > {dst}")?;
    }
    let protocol = record.protocol().filter(|protocol| *protocol != Protocol::Zenoh);
    field!(out, " {}", protocol.map(Protocol::name));
    write!(out, " {}", record.message())?;
    field!(out, " {}", record.kind());
    field!(out, " #{}", record.request_id());
    if let Some(key) = record.key() {
        write!(out, " {}{}", key.prefix.escape_debug(), key.suffix.escape_debug())?;
    } else if let Some(key) = record.unresolved() {
        write!(out, " [scope {}]{}", key.scope, key.suffix.escape_debug())?;
    }
    let parameters = record.parameters().filter(|parameters| !parameters.is_empty());
    field!(out, "?{}", parameters.map(|parameters| parameters.escape_debug()));
    if let Some(payload) = record.payload() {
        bytes(payload, out)?;
    }
    let encoding = record.encoding().filter(|encoding| !encoding.is_default()).map(ToString::to_string);
    field!(out, " {}", encoding.as_ref().map(|encoding| encoding.escape_debug()));
    field!(out, " attachment {} B", record.attachment().map(Bytes::len));
    field!(out, " at {}", record.stamp());
    if let (Some(priority), Some(congestion)) = (record.priority(), record.congestion()) {
        write!(out, " p{priority} {congestion}")?;
    }
    if record.express() == Some(true) {
        out.extend_from_slice(b" express");
    }
    if let (Some(consolidation), Some(target)) = (record.consolidation(), record.target()) {
        write!(out, " {consolidation} {target}")?;
    }
    details(record, out)?;
    if record.is_of_zmtp() {
        of_zmtp(record, out)?;
    }
    field!(out, " sn {}", record.sn);
    if let Some(fault) = record.fault() {
        write!(out, " at {}: {}", fault.offset, fault.cause)?;
    }
    out.push(b'\n');
    Ok(())
}

/// Writes the length of the bytes, and the first of them.
fn bytes(bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    write!(out, " {} B", bytes.len())?;
    if !bytes.is_empty() {
        write!(out, " \"{}\"", bytes[..bytes.len().min(SHOWN)].escape_ascii())?;
    }
    if bytes.len() > SHOWN {
        out.extend_from_slice(b"...");
    }
    Ok(())
}

/// Octets on one line: as text if they are UTF-8, else as escaped ASCII.
fn shown(octets: &[u8]) -> String {
    match core::str::from_utf8(octets) {
        Ok(text) => text.escape_debug().to_string(),
        Err(_) => octets.escape_ascii().to_string(),
    }
}

fn of_zmtp(record: &Record, out: &mut Vec<u8>) -> std::io::Result<()> {
    field!(out, " #{}", record.sequence());
    field!(out, " {}", record.peer());
    for text in [record.name(), record.address().as_ref(), record.group()].into_iter().flatten() {
        write!(out, " {}", shown(text))?;
    }
    field!(out, " status {}", record.status());
    for group in record.groups().unwrap_or_default() {
        write!(out, " in {}", shown(group))?;
    }
    for (name, value) in record.headers().iter().flat_map(|headers| &headers.0) {
        write!(out, " {}={}", shown(name), shown(value))?;
    }
    for frame in record.content().unwrap_or_default() {
        bytes(frame, out)?;
    }
    if let Message::Zmtp(said) = &record.message
        && let Said::Encrypted(len) = **said
    {
        write!(out, " {len} B")?;
    }
    Ok(())
}

/// Writes the details without a field of their own.
fn details(record: &Record, out: &mut Vec<u8>) -> std::io::Result<()> {
    match &record.message {
        Message::Init(m) => write!(out, " {} {:?}", m.zid, m.whatami),
        Message::Join(m) => write!(out, " {} {:?}", m.zid, m.whatami),
        Message::Open(m) => write!(out, " lease {} ms", m.lease_ms),
        Message::Close(m) => write!(out, " {}", m.reason),
        Message::Scout(m) => write!(out, " what {}", m.what),
        Message::Hello(m) => {
            write!(out, " {} {:?}", m.zid, m.whatami)?;
            for locator in &m.locators {
                write!(out, " {}", locator.escape_debug())?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Cause, Fault, Protocol};
    use super::*;
    use core::time::Duration;
    use zwire_proto::zenoh::wire::{NetworkMessage, Push, PushBody, Put, WireExpr};

    fn line(message: Message, prefix: Option<&'static str>) -> String {
        let record = Record {
            time: Duration::new(1, 5_000),
            src: Some("127.0.0.1:7447".parse().unwrap()),
            dst: Some("[::1]:1".parse().unwrap()),
            sn: None,
            prefix: prefix.map(Into::into),
            message,
        };
        let mut out = Vec::new();
        write_text(&record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_line_each() {
        let put = Put::new(b"a\n\xff".repeat(20));
        let push = Push::new(WireExpr::full("k\n"), PushBody::Put(put));
        assert_eq!(
            line(Message::Network(NetworkMessage::Push(push)), Some("p/")),
            "1970-01-01T00:00:01.000005000Z 127.0.0.1:7447 > [::1]:1 push put p/k\\n 60 B \
             \"a\\n\\xffa\\n\\xffa\\n\\xffa\\n\\xffa\\n\\xffa\\n\\xffa\\n\\xffa\\n\\xffa\\n\\xffa\\n\\xffa\\n\"... p5 drop\n"
        );
        let fault = Fault { protocol: Some(Protocol::Zenoh), offset: 9, cause: Cause::Missing { bytes: 3 } };
        assert!(
            line(Message::Error(fault), None).ends_with(" error at 9: 3 bytes are missing in the capture\n")
        );
    }
}
