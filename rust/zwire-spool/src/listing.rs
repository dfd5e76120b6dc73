//! List of the sealed segments of a shard, in its folder: what a reader needs in order to leave segments out.
//!
//! The list is a cache. A segment that it does not describe is one that any row may be in, and each writer adds those that
//! are missing, from the descriptions that segments have at their end.

use crate::{
    head::read_description,
    meta::{private, write_private},
    read_at::open_file,
    retain::Kept,
    sealed::{Sealed, decode_all},
    segment::name,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Name of the file in the folder of a shard.
const NAME: &str = "segments";
/// Most octets that are read: those of four million segments.
const MAX_LIST: u64 = 1 << 30;
/// Descriptions of deleted segments that stay in the file at most, beside as many as there are others.
const DEAD: usize = 1024;

/// Descriptions of segments by their first offsets; none if they cannot be read.
pub(crate) fn read(folder: &Path) -> BTreeMap<u64, Sealed> {
    by_base(load(folder).0)
}

fn by_base(found: Vec<Sealed>) -> BTreeMap<u64, Sealed> {
    found.into_iter().map(|sealed| (sealed.base, sealed)).collect()
}

/// Valid descriptions, and whether there is nothing else.
fn load(folder: &Path) -> (Vec<Sealed>, bool) {
    let path = folder.join(NAME);
    let octets = match fs::metadata(&path) {
        Ok(metadata) if metadata.len() <= MAX_LIST && metadata.is_file() => fs::read(&path).ok(),
        Ok(_) => None,
        Err(_) => return (Vec::new(), true),
    };
    let Some(octets) = octets.map(Bytes::from) else { return (Vec::new(), false) };
    let (found, valid) = decode_all(&octets, usize::MAX);
    let whole = valid == octets.len();
    (found, whole)
}

/// Description that a segment has at its end.
fn of_footer(path: &Path, kept: &Kept) -> Option<Sealed> {
    let sealed = read_description(&open_file(path).ok()?, path, kept.bytes)?;
    is_of(&sealed, kept).then_some(Sealed { bytes: kept.bytes, ..sealed })
}

/// Whether a description is of a segment. Its end may be that of offsets without rows behind it.
fn is_of(sealed: &Sealed, kept: &Kept) -> bool {
    sealed.base == kept.base && sealed.end <= kept.end
}

/// Writer of the list of a shard.
pub(crate) struct Listing {
    folder: PathBuf,
    /// Whether nothing can be added, after a write has failed.
    failed: bool,
    /// Descriptions in the file.
    count: usize,
}

impl Listing {
    /// Opens the list of the segments in a folder, and adds the descriptions that are missing.
    pub(crate) fn open<'a>(folder: &Path, kept: impl Iterator<Item = &'a Kept>) -> Self {
        let (found, whole) = load(folder);
        let count = found.len();
        let mut listing = Self { folder: folder.to_owned(), failed: false, count };
        let mut known = by_base(found);
        let (mut missing, mut live) = (false, BTreeMap::new());
        for segment in kept {
            let base = segment.base;
            let described = known.remove(&base).filter(|sealed| is_of(sealed, segment));
            missing |= described.is_none();
            let described = described.or_else(|| of_footer(&folder.join(name(base)), segment));
            live.extend(described.map(|sealed| (base, sealed)));
        }
        if missing || !whole || count > 2 * live.len() + DEAD {
            listing.rewrite(&live);
        }
        listing
    }

    fn rewrite(&mut self, live: &BTreeMap<u64, Sealed>) {
        let mut octets = Vec::new();
        live.values().for_each(|sealed| sealed.encode(&mut octets));
        let (path, draft) = (self.folder.join(NAME), self.folder.join("segments.new"));
        let written = write_private(&draft, &octets).and_then(|_| fs::rename(&draft, &path));
        self.count = live.len();
        self.failed = written.is_err();
    }

    /// Adds a segment that was sealed, to those of a shard.
    pub(crate) fn add(&mut self, sealed: &Sealed, kept: &VecDeque<Kept>) {
        let live = || kept.iter().filter(|segment| segment.local).map(|segment| segment.base);
        if self.count > 2 * live().count() + DEAD {
            let bases: Vec<u64> = live().collect();
            let mut known = by_base(load(&self.folder).0);
            known.retain(|base, _| bases.binary_search(base).is_ok());
            self.rewrite(&known);
        }
        let mut octets = Vec::new();
        sealed.encode(&mut octets);
        // Without it, readers open the segment. Behind an incomplete one nothing is read.
        let file = || private().append(true).open(self.folder.join(NAME));
        self.failed |= self.failed || file().and_then(|mut file| file.write_all(&octets)).is_err();
        self.count += 1;
    }
}
