//! Bodies of the fuzz targets; part of the crate so that every change of the format has to keep them
//! compiling.
//!
//! Properties for arbitrary octets, also with valid checksums around them:
//!
//! - Nothing panics.
//! - A block has as many rows as its trailer claims, and so has each of its columns.
//! - Blocks found by a scan are contiguous, and so are their offsets.
//! - Reading twice gives the same result.

use crate::{
    block::{BlockBuilder, TRAILER},
    column::Value,
    decode::Block,
    head::{Head, PACKED_FORMAT, read_description},
    index::{self, Entry},
    layout::{GAPS, Kind, Layout, SAMPLES, Shard, Table, ZRE, ZRE_LOG},
    pack::Compression,
    reader::BatchLimits,
    sealed::{Page, Sealed, decode_all},
    segment::{Found, Segment},
    slots,
    wire::{LABEL, Label, Receiver},
};
use bytes::Bytes;
use std::path::Path;

const ID: [u8; 16] = *b"spool of fuzzing";
/// Bit of the first octet: repair checksums.
const REPAIR: u8 = 4;

fn table(choice: u8) -> &'static Table {
    [&SAMPLES, &ZRE, &ZRE_LOG, &GAPS][usize::from(choice & 3)]
}

/// Reads arbitrary octets as a segment, an index and a file of marks.
///
/// # Panics
///
/// If a property is violated.
pub fn spool(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let layout = Layout::whole(table(*choice));
    let path = Path::new("0/00000000000000000000.arrow");
    let mut octets = data.to_vec();
    if choice & REPAIR != 0 {
        repair(&mut octets, path, &layout);
    }
    let file = &octets[..];
    let _ = slots::read_from(&file, path, &ID, 3);
    let _ = read_description(&file, path, file.len() as u64);
    let (listed, valid) = decode_all(&Bytes::copy_from_slice(file), usize::MAX);
    assert!(listed.iter().all(|sealed| sealed.base <= sealed.end) && valid <= file.len());
    let page = Page { crc: crc32c::crc32c(file), segments: 3, ..Page::default() };
    let _ = page.unpack(file);
    let mut entries = Vec::new();
    let _ = index::read_more(&file, path, 64, 0, &mut entries);
    assert!(entries.windows(2).all(|pair| pair[0].end() == pair[1].first));

    let Ok(Some(segment)) = Segment::new(file, path.to_owned(), &layout) else { return };
    let mut blocks: Vec<Entry> = Vec::new();
    let scanned = segment.scan(segment.start, segment.head.base, &mut |entry, _| blocks.push(entry));
    let (at, next, _) = scanned.expect("octets in memory can be read");
    let (mut expected_at, mut expected) = (segment.start, segment.head.base);
    for entry in &blocks {
        assert_eq!((entry.at, entry.first), (expected_at, expected));
        (expected_at, expected) = (entry.at + entry.len, entry.end());
        let first = decode(&segment, entry, &layout);
        assert_eq!(first, decode(&segment, entry, &layout));
    }
    assert_eq!((at, next), (expected_at, expected));
}

/// Decodes and formats the columns of a block; or returns the problem.
fn decode(segment: &Segment<&[u8]>, entry: &Entry, layout: &Layout) -> Result<Vec<String>, String> {
    let (octets, trailer) =
        segment.block(entry.at, entry.len).expect("octets in memory can be read").expect("was verified");
    let all: Vec<usize> = (0..layout.columns.len()).collect();
    let columns = Block::new(octets, trailer.rows)?.columns(layout, &all)?;
    Ok(columns
        .iter()
        .map(|column| {
            assert_eq!(column.len(), trailer.rows as usize);
            // Formatting visits every offset and every text.
            format!("{column:?}")
        })
        .collect())
}

/// Requested offsets. They begin and end within blocks of the seeds.
const WANTED: (u64, u64) = (1, 9);

/// Reads arbitrary octets as the answer of a range server: labels, each with the length of its block.
///
/// # Panics
///
/// If a property is violated.
pub fn range(data: &[u8]) {
    let Some((choice, mut data)) = data.split_first() else { return };
    let shard = if choice & 3 == 3 { Shard::Gaps } else { Shard::Data(0) };
    let name = if choice & 3 == 3 { SAMPLES.name } else { table(*choice).name };
    let kept: Vec<String> = table(*choice).columns.iter().map(|column| column.name.to_owned()).collect();
    let kept = if choice & 3 == 3 { Vec::new() } else { kept };
    let limits = BatchLimits { rows: 5, bytes: 4096 };
    let receiver = Receiver::new("zwire:fuzzing", (name, &kept), shard, WANTED, None, limits);
    let mut receiver = receiver.expect("a table and its columns");
    let mut rows = 0;
    let mut skipped = 0;
    while let Some((label, rest)) = data.split_at_checked(LABEL) {
        let Some((len, rest)) = rest.split_first_chunk::<2>() else { break };
        let (block, rest) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
        data = rest;
        let (mut label, mut block) = (label.to_vec(), block.to_vec());
        if choice & REPAIR != 0 {
            seal(&mut label);
            seal(&mut block);
        }
        let before = receiver.next();
        receiver.take(&label, Bytes::from(block));
        let after = receiver.next();
        assert!(before <= after && after <= WANTED.1);
        if Label::decode(&label).is_some_and(|label| label.hole) {
            skipped += after - before;
        }
        loop {
            match receiver.next_batch() {
                Ok(Some(batch)) => {
                    assert!(batch.num_rows() <= limits.rows);
                    // Formatting visits every offset and every text.
                    let _ = format!("{batch:?}");
                    rows += batch.num_rows() as u64;
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(error.offset(), Some(after));
                    // All valid rows before the error were delivered.
                    assert_eq!(rows, after - WANTED.0 - skipped);
                    return;
                }
            }
        }
        if after == WANTED.1 {
            assert_eq!(rows, after - WANTED.0 - skipped);
        }
    }
}

/// Makes the checksum at the end valid.
fn seal(octets: &mut [u8]) {
    if let Some((before, crc)) = octets.split_last_chunk_mut::<4>() {
        *crc = crc32c::crc32c(before).to_le_bytes();
    }
}

/// Makes the checksums of head and blocks valid, as far as lengths make sense.
fn repair(octets: &mut [u8], path: &Path, layout: &Layout) {
    let Some(len) = octets.get(12..16) else { return };
    let head = 16 + u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    let Some((before, crc)) = octets.get_mut(..head).and_then(|head| head.split_last_chunk_mut::<4>()) else {
        return;
    };
    *crc = crc32c::crc32c(before).to_le_bytes();
    let mut at = head as u64;
    while let Ok(Some(segment)) = Segment::new(&*octets, path.to_owned(), layout)
        && let Ok(Found::Block(len, _)) = segment.look(at)
    {
        let block = &mut octets[at as usize..(at + len) as usize];
        let Some((before, crc)) = block.split_last_chunk_mut::<4>().filter(|(b, _)| b.len() >= TRAILER)
        else {
            return;
        };
        *crc = crc32c::crc32c(before).to_le_bytes();
        at += len;
    }
}

/// Rows of the blocks, and their compression, from which short ones gain nothing.
const BLOCKS: [(u32, Compression); 4] =
    [(1, Compression::None), (3, Compression::Zstd), (70, Compression::Zstd), (70, Compression::Lz4)];

/// Blocks of every table, with values of every type; also the head of their segment.
fn blocks(choice: u8) -> (Layout, Head, Vec<(Label, Vec<u8>)>) {
    let layout = Layout::whole(table(choice));
    let shard = if choice == 3 { Shard::Gaps } else { Shard::Data(0) };
    let head = Head { spool: ID, shard, base: 0, follows: 0, epoch: 1, format: PACKED_FORMAT };
    let (items, pairs) = ([Bytes::from_static(b"one"), Bytes::new()], [("name", "value"), ("", "x")]);
    let mut next = 0;
    let mut blocks = Vec::new();
    for (rows, compression) in BLOCKS {
        let mut builder = BlockBuilder::new(shard, &layout, compression);
        for row in 0..rows {
            let values: Vec<Value<'_>> = layout
                .columns
                .iter()
                .enumerate()
                .map(|(index, column)| match column.kind {
                    _ if column.name == "recv_ts" => Value::Int(1_000_000 * i64::from(row)),
                    _ if (index + row as usize).is_multiple_of(3) => Value::Null,
                    Kind::Text => Value::Text("text"),
                    Kind::Bytes => Value::Bytes(b"bytes"),
                    Kind::Bool => Value::Bool(row % 2 == 0),
                    Kind::BytesList => Value::List(&items),
                    Kind::TextMap => Value::Map(&pairs),
                    _ => Value::Int(7),
                })
                .collect();
            builder.push(&values, next + u64::from(row)).expect("values of their kinds");
        }
        let (trailer, _) = builder.encode(next, 1);
        let mut slices = Vec::new();
        builder.slices(&mut slices);
        let octets = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let label = Label {
            first: next,
            end: trailer.end(),
            until: BLOCKS.iter().map(|(rows, _)| u64::from(*rows)).sum(),
            hole: false,
        };
        blocks.push((label, octets));
        next = trailer.end();
    }
    (layout, head, blocks)
}

/// Seeds: segments of every table, with and without repair.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for choice in 0..4 {
        let (layout, head, blocks) = blocks(choice);
        let mut octets = head.encode(&layout);
        for (_, block) in &blocks {
            octets.extend_from_slice(block);
        }
        octets.extend_from_slice(&head.encode_footer(&layout, &[], &Sealed::default()));
        for mode in [0, REPAIR] {
            let name = format!("{}-{mode}", layout.table.name);
            seeds.push((name, [&[choice | mode], &octets[..]].concat()));
        }
    }
    seeds
}

/// Seeds: answers of every table, with and without repair, and one with a hole.
pub fn range_seeds() -> Vec<(String, Vec<u8>)> {
    let piece = |label: &Label, block: &[u8]| {
        let len = u16::try_from(block.len()).expect("a small block").to_le_bytes();
        [&label.encode()[..], &len, block].concat()
    };
    let mut seeds = Vec::new();
    for choice in 0..4 {
        let (layout, _, mut blocks) = blocks(choice);
        // The first block precedes the requested range.
        blocks.remove(0);
        let whole: Vec<u8> = blocks.iter().flat_map(|(label, block)| piece(label, block)).collect();
        for mode in [0, REPAIR] {
            seeds.push((format!("{}-{mode}", layout.table.name), [&[choice | mode], &whole[..]].concat()));
        }
        let hole = Label { hole: true, ..blocks[0].0 };
        let (label, block) = &blocks[1];
        let holed = [&[choice], &piece(&hole, &[])[..], &piece(label, block)].concat();
        seeds.push((format!("{}-hole", layout.table.name), holed));
    }
    seeds
}

#[cfg(test)]
#[path = "../../../tests/rust/mutated.rs"]
mod mutated;

#[cfg(test)]
mod tests {
    use super::{range, range_seeds, seeds, spool};

    #[test]
    fn mutated_seeds_hold() {
        super::mutated::fuzz("spool", spool);
        super::mutated::fuzz("spool_range", range);
    }

    #[test]
    fn seeds_hold() {
        let seeds = seeds();
        assert_eq!(seeds.len(), 8);
        seeds.iter().for_each(|(_, seed)| spool(seed));
        let seeds = range_seeds();
        assert_eq!(seeds.len(), 12);
        seeds.iter().for_each(|(_, seed)| range(seed));
    }
}
