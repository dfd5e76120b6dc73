//! Small records that are overwritten in place, and read by others without a lock.
//!
//! The file has a head, and two slots for each record. A new value overwrites the older slot, with the
//! next sequence number and a checksum; readers take the valid slot with the greatest number. So an
//! incomplete write, or one seen in part, leaves the previous value intact.
//!
//! ```text
//! head: "ZWIRSLOT" | spool id | 0 ... | crc32c
//! slot: sequence number | six values of 64 bits | 0 0 0 0 | crc32c
//! ```

use crate::{
    error::{Error, Result},
    head::SpoolId,
    meta::private,
    read_at::{ReadAt, open_file, read_exactly},
};
use bytes::Buf as _;
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 8] = b"ZWIRSLOT";
const PLACE: usize = 64;
pub(crate) const VALUES: usize = 6;

/// Writes the checksum of all octets before it.
pub(crate) fn seal(octets: &mut [u8; PLACE]) {
    let crc = crc32c::crc32c(&octets[..PLACE - 4]);
    octets[PLACE - 4..].copy_from_slice(&crc.to_le_bytes());
}

pub(crate) fn sealed(octets: &[u8; PLACE]) -> bool {
    crc32c::crc32c(&octets[..PLACE - 4]).to_le_bytes() == octets[PLACE - 4..]
}

fn head(id: &SpoolId) -> [u8; PLACE] {
    let mut octets = [0; PLACE];
    octets[..8].copy_from_slice(MAGIC);
    octets[8..24].copy_from_slice(id);
    seal(&mut octets);
    octets
}

/// Newest value of a record, with its sequence number.
fn newest(places: &[u8]) -> Option<(u64, [u64; VALUES])> {
    let decode = |octets: &[u8; PLACE]| {
        // Slots that were never written are zeros.
        let mut rest = &octets[..];
        let number = rest.get_u64_le();
        (sealed(octets) && number > 0).then(|| (number, core::array::from_fn(|_| rest.get_u64_le())))
    };
    let (first, second) = places.as_chunks::<PLACE>().0.split_first()?;
    decode(first).max(decode(second.first()?))
}

/// Reads the values of all records of a file; `None` for one that was never written, or is damaged.
pub(crate) fn read(path: &Path, id: &SpoolId, records: usize) -> Result<Vec<Option<[u64; VALUES]>>> {
    let file = match open_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![None; records]),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    read_from(&file, path, id, records)
}

pub(crate) fn read_from(
    file: &dyn ReadAt,
    path: &Path,
    id: &SpoolId,
    records: usize,
) -> Result<Vec<Option<[u64; VALUES]>>> {
    let octets = read_there(file, path, 0, PLACE * (1 + 2 * records))?;
    let Some((start, places)) = octets.split_first_chunk::<PLACE>() else { return Ok(vec![None; records]) };
    if !sealed(start) || start[..8] != *MAGIC {
        return Ok(vec![None; records]);
    }
    if start[8..24] != *id {
        return Err(Error::Mismatch { path: path.to_owned(), problem: "of another spool".to_owned() });
    }
    let values = places.as_chunks::<{ 2 * PLACE }>().0.iter();
    Ok(values.map(|places| newest(places).map(|newest| newest.1)).collect())
}

/// Reads `len` octets from a position; those behind the end of the file are zeros.
fn read_there(file: &dyn ReadAt, path: &Path, at: u64, len: usize) -> Result<Vec<u8>> {
    let there = file.len().map_err(Error::io("read", path))?.saturating_sub(at);
    let mut octets = read_exactly(file, path, at, usize::try_from(there).unwrap_or(usize::MAX).min(len))?;
    octets.resize(len, 0);
    Ok(octets)
}

/// A record with a single writer.
pub(crate) struct Record {
    file: File,
    path: PathBuf,
    at: u64,
    number: u64,
}

impl Record {
    /// Opens the file; creates it if it does not exist, or belongs to another spool.
    pub(crate) fn open(path: &Path, id: &SpoolId, index: usize) -> Result<Self> {
        let file = private().read(true).truncate(false).open(path).map_err(Error::io("open", path))?;
        if read_there(&file, path, 0, PLACE)? != head(id) {
            file.set_len(0).map_err(Error::io("write", path))?;
            write_at(&file, &head(id), 0).map_err(Error::io("write", path))?;
        }
        let at = (PLACE * (1 + 2 * index)) as u64;
        let number = newest(&read_there(&file, path, at, 2 * PLACE)?).map_or(0, |newest| newest.0);
        Ok(Self { file, path: path.to_owned(), at, number })
    }

    pub(crate) fn write(&mut self, values: [u64; VALUES]) -> Result<()> {
        let mut octets = [0; PLACE];
        self.number += 1;
        octets[..8].copy_from_slice(&self.number.to_le_bytes());
        for (index, value) in values.iter().enumerate() {
            octets[8 + 8 * index..16 + 8 * index].copy_from_slice(&value.to_le_bytes());
        }
        seal(&mut octets);
        let at = self.at + (self.number % 2) * PLACE as u64;
        write_at(&self.file, &octets, at).map_err(Error::io("write", &*self.path))
    }

    /// Waits until the written values are on disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("sync", &*self.path))
    }
}

pub(crate) fn write_at(file: &File, octets: &[u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, octets, at);
    #[cfg(windows)]
    {
        let mut done = 0;
        while done < octets.len() {
            done += std::os::windows::fs::FileExt::seek_write(file, &octets[done..], at + done as u64)?;
        }
        Ok(())
    }
}
