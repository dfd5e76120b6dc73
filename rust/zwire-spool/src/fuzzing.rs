//! The body of the fuzz target, here so that every change of the format has to keep it compiling.
//!
//! For any octets, also with right checksums around them:
//!
//! - Nothing panics.
//! - A block has as many rows as it says, and each of its columns has them.
//! - Blocks that a scan finds stand one behind the other, and so do their offsets.
//! - What is read a second time is the same.

use crate::{
    block::{BlockBuilder, TRAILER},
    column::Value,
    decode::Block,
    head::Head,
    index::{self, Entry},
    layout::{GAPS, Kind, Layout, SAMPLES, Shard, Table, ZRE, ZRE_LOG},
    segment::{Found, Segment},
    slots,
};
use bytes::Bytes;
use std::path::Path;

const ID: [u8; 16] = *b"spool of fuzzing";
/// In the first octet: checksums are made right.
const REPAIR: u8 = 4;

fn table(choice: u8) -> &'static Table {
    [&SAMPLES, &ZRE, &ZRE_LOG, &GAPS][usize::from(choice & 3)]
}

/// Reads any octets as a segment, a list of blocks and a file of marks.
///
/// # Panics
///
/// If something does not hold that has to.
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
    let mut entries = Vec::new();
    let _ = index::read_more(&file, path, 64, 0, &mut entries);
    assert!(entries.windows(2).all(|pair| pair[0].end() == pair[1].first));

    let Ok(Some(segment)) = Segment::new(file, path.to_owned(), &layout) else { return };
    let mut blocks: Vec<Entry> = Vec::new();
    let scanned = segment.scan(segment.start, segment.head.base, &mut |entry| blocks.push(entry));
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

/// The columns of a block, shown; or what is wrong with it.
fn decode(segment: &Segment<&[u8]>, entry: &Entry, layout: &Layout) -> Result<Vec<String>, String> {
    let (octets, trailer) =
        segment.block(entry.at, entry.len).expect("octets in memory can be read").expect("was verified");
    let all: Vec<usize> = (0..layout.columns.len()).collect();
    let columns = Block::new(octets, trailer.rows)?.columns(layout, &all)?;
    Ok(columns
        .iter()
        .map(|column| {
            assert_eq!(column.len(), trailer.rows as usize);
            // Goes through every offset and every text.
            format!("{column:?}")
        })
        .collect())
}

/// Makes the checksums of head and blocks right, as far as lengths make sense.
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

/// Segments of every table, with every sort of value, and with and without repair.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for choice in 0..4 {
        let layout = Layout::whole(table(choice));
        let shard = if choice == 3 { Shard::Gaps } else { Shard::Data(0) };
        let head = Head { spool: ID, shard, base: 0, follows: 0, epoch: 1 };
        let mut octets = head.encode(&layout);
        let mut builder = BlockBuilder::new(shard, &layout);
        let (items, pairs) = ([Bytes::from_static(b"one"), Bytes::new()], [("name", "value"), ("", "x")]);
        let mut next = 0;
        for rows in [1_u32, 3] {
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
            slices.iter().for_each(|slice| octets.extend_from_slice(slice));
            next = trailer.end();
            builder.clear();
        }
        octets.extend_from_slice(&head.encode_footer(&layout, &[]));
        for mode in [0, REPAIR] {
            let name = format!("{}-{mode}", layout.table.name);
            seeds.push((name, [&[choice | mode], &octets[..]].concat()));
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::{seeds, spool};

    #[test]
    fn seeds_hold() {
        let seeds = seeds();
        assert_eq!(seeds.len(), 8);
        seeds.iter().for_each(|(_, seed)| spool(seed));
    }
}
