//! The fuzz body of the dissector.

use crate::capture::Direction;
use crate::{Dissector, Options, Record, write_jsonl, write_text};
use core::{net::SocketAddr, time::Duration};
use zwire_proto::pcap::{FrameBuilder, PcapWriter};
use zwire_proto::zmtp::crypto::SecretKey;

/// Octets that are lost in the middle of a connection.
const LOST: usize = 32;

/// Fuzzes one side of a connection in a capture; the first octet says whether the capture has its
/// beginning and whether it lacks a packet. Faults must lie within the stream, every record must be
/// printable, and the result for a stream that begins with a ZMTP greeting must not depend on how it
/// was cut.
pub fn dissect(data: &[u8]) {
    let Some((&mode, stream)) = data.split_first() else { return };
    let (late, lossy) = (mode & 1 != 0, mode & 2 != 0);
    let whole = records(&[stream], late, lossy);
    for record in &whole {
        let len = stream.len() as u64;
        assert!(record.fault().is_none_or(|fault| fault.offset <= len), "{record:?}");
        let mut out = Vec::new();
        write_jsonl(record, &mut out);
        write_text(record, &mut out);
        assert_eq!(out.iter().filter(|octet| **octet == b'\n').count(), 2, "{record:?}");
    }
    // Short inputs only: the check is about frames, which short inputs cover too.
    if stream.first() == Some(&0xff) && !late && !lossy && stream.len() < 512 {
        let pieces: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(records(&pieces, late, lossy), whole);
    }
}

fn records(pieces: &[&[u8]], late: bool, lossy: bool) -> Vec<Record> {
    let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let mut out = PcapWriter::new();
    let mut frames = FrameBuilder::new(end(40_000), end(49_152), [1, 2]);
    let now = Duration::from_secs(1);
    if !late {
        frames.open(now, &mut out);
    }
    for piece in pieces {
        if lossy && piece.len() > 2 * LOST {
            let (before, after) = piece.split_at(piece.len() / 2);
            frames.data(now, Direction::ToServer, before, &mut out);
            frames.data(now, Direction::ToServer, &after[..LOST], &mut PcapWriter::new());
            frames.data(now, Direction::ToServer, &after[LOST..], &mut out);
        } else {
            frames.data(now, Direction::ToServer, piece, &mut out);
        }
    }
    frames.close(now, Direction::ToServer, &mut out);
    // Keys of the worked example, which the seeds contain.
    let keys = [0x20, 0x60, 0x80].map(|first: u8| SecretKey::new(core::array::from_fn(|i| first + i as u8)));
    let mut dissector = Dissector::new(Options { keys: keys.to_vec(), ..Options::default() });
    dissector.push(out.take());
    let mut records = Vec::new();
    while let Ok(Some(record)) = dissector.poll_record() {
        records.push(record);
    }
    dissector.finish();
    while let Ok(Some(record)) = dissector.poll_record() {
        records.push(record);
    }
    records
}

#[cfg(test)]
#[path = "../../../tests/rust/mutated.rs"]
mod mutated;

#[cfg(test)]
mod tests {
    #[test]
    fn mutated_seeds_hold() {
        super::mutated::fuzz("dissect", super::dissect);
    }
}
