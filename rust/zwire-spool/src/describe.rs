//! Descriptions of segments, made of their blocks.

use crate::{decode::Block, index::Entry, keys::KeyCollector, layout::Layout, sealed::Sealed};
use arrow_array::cast::AsArray as _;
use arrow_buffer::Buffer;

/// Description of a segment with these blocks.
pub(crate) fn summed(base: u64, entries: &[Entry], keys: Option<&KeyCollector>) -> Sealed {
    Sealed {
        base,
        end: entries.last().map_or(base, Entry::end),
        rows: entries.iter().map(|entry| u64::from(entry.rows)).sum(),
        bytes: entries.last().map_or(0, |last| last.at + last.len),
        times: (
            entries.iter().map(|entry| entry.min_time).min().unwrap_or(0),
            entries.iter().map(|entry| entry.max_time).max().unwrap_or(0),
        ),
        keys: keys.map(KeyCollector::finish),
        ..Sealed::default()
    }
}

/// Collector of the blocks and keys of a segment that is read.
pub(crate) struct Describer<'a> {
    layout: &'a Layout,
    pub(crate) entries: Vec<Entry>,
    /// `None` if rows have no keys, or those of a block could not be read.
    keys: Option<(usize, KeyCollector)>,
}

impl<'a> Describer<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Self {
        let keys = layout.position("key").map(|key| (key, KeyCollector::new()));
        Self { layout, entries: Vec::new(), keys }
    }

    /// Adds a block with a valid checksum.
    pub(crate) fn add(&mut self, entry: Entry, octets: &Buffer) {
        self.entries.push(entry);
        let Some((key, mut keys)) = self.keys.take() else { return };
        let block = Block::new(octets.clone(), entry.rows);
        let Ok(columns) = block.and_then(|block| block.columns(self.layout, &[key])) else { return };
        let Some(texts) = columns.first().and_then(|column| column.as_string_opt::<i32>()) else { return };
        texts.iter().flatten().for_each(|text| keys.add(text.as_bytes()));
        self.keys = Some((key, keys));
    }

    pub(crate) fn describe(&self, base: u64) -> Sealed {
        summed(base, &self.entries, self.keys.as_ref().map(|(_, keys)| keys))
    }
}
