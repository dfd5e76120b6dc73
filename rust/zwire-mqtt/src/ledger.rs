//! Ledger of a session: what has to be known after the bridge was killed, beside the rows of its spool.
//!
//! One file of records, each with a checksum, that is written again when it has grown. A record is one octet of its kind,
//! eight of its number, and four of the checksum, little-endian. A torn last record is cut off.

use crate::error::{Error, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

const RECORD: usize = 13;
/// Octets at which the file is written again: a megabyte is read in a millisecond.
const REWRITE: u64 = 1 << 20;

/// Kind of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All rows before this offset are acknowledged.
    Cursor = 1,
    /// The broker has received the message of this row, with QoS 2.
    Released = 2,
    /// A message with QoS 2 and this identifier is on its way into Zenoh.
    Claimed = 3,
    /// It was put into Zenoh.
    Done = 4,
    /// Its identifier is free.
    Forgotten = 5,
}

/// State of a message with QoS 2 from the broker, until it frees the identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It may have been put into Zenoh.
    Open,
    /// It was put into Zenoh.
    Done,
}

/// Ledger of a session.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    len: u64,
    sync: bool,
    /// Whether a write failed, so that the file may end within a record, or have records twice.
    torn: bool,
    /// Records that are not written yet.
    pending: Vec<u8>,
    cursor: u64,
    released: BTreeSet<u64>,
    /// Identifiers with their state; few.
    claims: BTreeMap<u16, Claim>,
    /// Number of the session at the broker, in this process.
    session: u64,
}

fn record(kind: Kind, number: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[0] = kind as u8;
    record[1..9].copy_from_slice(&number.to_le_bytes());
    let sum = crc32c::crc32c(&record[..9]);
    record[9..].copy_from_slice(&sum.to_le_bytes());
    record
}

impl Ledger {
    /// Opens the ledger of a folder, or creates one. `sync`: records have to be on the disk, and not in the memory of the
    /// system alone, where they survive the end of the process.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(dir: &Path, sync: bool) -> Result<Self> {
        let path = dir.join("session");
        let io = |error| Error::Io { path: path.clone(), error };
        let mut octets = Vec::new();
        match File::open(&path) {
            Ok(mut file) => drop(file.read_to_end(&mut octets).map_err(io)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(error)),
        }
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(io)?;
        let mut ledger = Self {
            path: path.clone(),
            file,
            len: 0,
            sync,
            torn: false,
            pending: Vec::new(),
            cursor: 0,
            released: BTreeSet::new(),
            claims: BTreeMap::new(),
            session: 0,
        };
        for part in octets.chunks_exact(RECORD) {
            let number = part[1..9].try_into().map_or(0, u64::from_le_bytes);
            let kinds = [Kind::Cursor, Kind::Released, Kind::Claimed, Kind::Done, Kind::Forgotten];
            match kinds.into_iter().find(|kind| record(*kind, number) == part) {
                Some(kind) => ledger.apply(kind, number),
                // What follows a record that was torn was not written in order.
                None => break,
            }
        }
        ledger.rewrite()?;
        Ok(ledger)
    }

    fn apply(&mut self, kind: Kind, number: u64) {
        let id = number as u16;
        match kind {
            Kind::Cursor => {
                self.cursor = number;
                self.released = self.released.split_off(&number);
            }
            Kind::Released => drop(self.released.insert(number)),
            Kind::Claimed => drop(self.claims.insert(id, Claim::Open)),
            Kind::Done => drop(self.claims.insert(id, Claim::Done)),
            Kind::Forgotten => drop(self.claims.remove(&id)),
        }
    }

    fn note(&mut self, kind: Kind, number: u64) {
        self.apply(kind, number);
        self.pending.extend_from_slice(&record(kind, number));
    }

    /// Offset before which all rows are acknowledged.
    pub const fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Notes that rows before an offset are acknowledged.
    pub fn advance(&mut self, cursor: u64) {
        if cursor > self.cursor {
            self.note(Kind::Cursor, cursor);
        }
    }

    /// Leaves out what is known of rows from `end` on, which the spool has lost: other rows get their offsets.
    pub fn cut(&mut self, end: u64) {
        let lost = self.released.split_off(&end);
        // Records of the file say otherwise.
        self.torn |= self.cursor > end || !lost.is_empty();
        self.cursor = self.cursor.min(end);
    }

    /// Whether the broker has received the message of a row, with QoS 2.
    pub fn is_released(&self, offset: u64) -> bool {
        self.released.contains(&offset)
    }

    /// Notes that the broker has received it.
    pub fn release(&mut self, offset: u64) {
        self.note(Kind::Released, offset);
    }

    /// State of a message with QoS 2 from the broker.
    pub fn claim_of(&self, id: u16) -> Option<Claim> {
        self.claims.get(&id).copied()
    }

    /// Notes that a message goes into Zenoh. An identifier of an earlier session says nothing any more.
    pub fn claim(&mut self, id: u16, session: u64) {
        if session == self.session {
            self.note(Kind::Claimed, id.into());
        }
    }

    /// Notes that it went.
    pub fn done(&mut self, id: u16, session: u64) {
        if session == self.session {
            self.note(Kind::Done, id.into());
        }
    }

    /// Notes that the broker has freed an identifier.
    pub fn forget(&mut self, id: u16) {
        if self.claims.contains_key(&id) {
            self.note(Kind::Forgotten, id.into());
        }
    }

    /// Number of the session at the broker.
    pub const fn session(&self) -> u64 {
        self.session
    }

    /// Notes that the broker has a new session: its identifiers begin again.
    pub fn begin_session(&mut self) {
        self.session += 1;
        for id in self.claims.keys().copied().collect::<Vec<_>>() {
            self.forget(id);
        }
    }

    /// Writes what was noted.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self) -> Result<()> {
        if self.pending.is_empty() && !self.torn {
            return Ok(());
        }
        if self.torn || self.len + self.pending.len() as u64 > REWRITE {
            return self.rewrite();
        }
        // Records behind one that a full disk has cut would be lost with it.
        self.torn = true;
        self.file.write_all(&self.pending).map_err(|error| self.io(error))?;
        if self.sync {
            self.file.sync_data().map_err(|error| self.io(error))?;
        }
        self.torn = false;
        self.len += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn io(&self, error: std::io::Error) -> Error {
        Error::Io { path: self.path.clone(), error }
    }

    fn rewrite(&mut self) -> Result<()> {
        let mut octets = record(Kind::Cursor, self.cursor).to_vec();
        self.released.iter().for_each(|offset| octets.extend(record(Kind::Released, *offset)));
        for (id, claim) in &self.claims {
            let kind = if *claim == Claim::Done { Kind::Done } else { Kind::Claimed };
            octets.extend(record(kind, u64::from(*id)));
        }
        let fresh = self.path.with_extension("new");
        let written = (|| {
            let mut file = File::create(&fresh)?;
            file.write_all(&octets)?;
            file.sync_data()?;
            fs::rename(&fresh, &self.path)?;
            // Else the end of the machine may bring back the file of before, without what is written from now on.
            #[cfg(unix)]
            if let Some(folder) = self.path.parent().filter(|_| self.sync) {
                File::open(folder)?.sync_all()?;
            }
            Ok(file)
        })();
        // A failure may have left either file: the next write tries again.
        self.torn = written.is_err();
        self.file = written.map_err(|error| self.io(error))?;
        self.len = octets.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folder of a test, removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("zwire-mqtt-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_ledger_knows_what_was_written() {
        let folder = Folder::new("ledger");
        let mut ledger = Ledger::open(&folder.0, false).unwrap();
        ledger.advance(7);
        ledger.release(8);
        ledger.release(12);
        ledger.claim(1, 0);
        ledger.claim(2, 0);
        ledger.done(2, 0);
        ledger.claim(3, 0);
        ledger.forget(3);
        ledger.write().unwrap();
        // The process is killed before this one is written.
        ledger.claim(4, 0);
        drop(ledger);
        let mut ledger = Ledger::open(&folder.0, true).unwrap();
        assert_eq!(ledger.cursor(), 7);
        assert!(ledger.is_released(8) && ledger.is_released(12) && !ledger.is_released(9));
        let claims = [1, 2, 3, 4].map(|id| ledger.claim_of(id));
        assert_eq!(claims, [Some(Claim::Open), Some(Claim::Done), None, None]);
        ledger.advance(9);
        assert!(!ledger.is_released(8) && ledger.is_released(12));
        ledger.begin_session();
        ledger.claim(5, 0);
        ledger.write().unwrap();
        let ledger = Ledger::open(&folder.0, true).unwrap();
        assert_eq!((ledger.cursor(), ledger.claim_of(1), ledger.claim_of(5)), (9, None, None));
    }

    #[test]
    fn a_torn_record_is_cut_off() {
        let folder = Folder::new("torn");
        let mut ledger = Ledger::open(&folder.0, false).unwrap();
        ledger.advance(5);
        ledger.release(6);
        ledger.write().unwrap();
        let path = ledger.path.clone();
        let octets = fs::read(&path).unwrap();
        for end in 0..octets.len() {
            fs::write(&path, &octets[..end]).unwrap();
            let ledger = Ledger::open(&folder.0, false).unwrap();
            // The first record is that of a new file.
            assert_eq!(ledger.cursor(), if end < 2 * RECORD { 0 } else { 5 }, "{end}");
            assert!(!ledger.is_released(6));
            drop(ledger);
        }
        let mut damaged = octets;
        damaged[RECORD + 3] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(Ledger::open(&folder.0, false).unwrap().cursor(), 0);
    }

    #[test]
    fn a_write_that_failed_takes_no_later_record_with_it() {
        let folder = Folder::new("full");
        let mut ledger = Ledger::open(&folder.0, true).unwrap();
        ledger.claim(1, 0);
        // A full disk takes a part of a record.
        ledger.file.write_all(&record(Kind::Claimed, 1)[..5]).unwrap();
        ledger.file = File::open(&ledger.path).unwrap();
        ledger.write().unwrap_err();
        ledger.claim(2, 0);
        ledger.write().unwrap();
        ledger.claim(3, 0);
        ledger.write().unwrap();
        let ledger = Ledger::open(&folder.0, true).unwrap();
        assert_eq!([1, 2, 3].map(|id| ledger.claim_of(id)), [Some(Claim::Open); 3]);
    }

    #[test]
    fn rows_that_the_spool_lost_are_forgotten() {
        let folder = Folder::new("cut");
        let mut ledger = Ledger::open(&folder.0, false).unwrap();
        ledger.advance(90);
        ledger.release(91);
        ledger.write().unwrap();
        ledger.cut(50);
        ledger.write().unwrap();
        let ledger = Ledger::open(&folder.0, false).unwrap();
        assert_eq!((ledger.cursor(), ledger.is_released(91)), (50, false));
    }

    #[test]
    fn a_ledger_stays_small() {
        let folder = Folder::new("small");
        let mut ledger = Ledger::open(&folder.0, false).unwrap();
        for offset in 0..200_000 {
            ledger.release(offset);
            ledger.advance(offset);
            if offset % 100 == 0 {
                ledger.write().unwrap();
            }
        }
        ledger.write().unwrap();
        assert!(fs::metadata(&ledger.path).unwrap().len() <= REWRITE);
        assert_eq!(Ledger::open(&folder.0, false).unwrap().cursor(), 199_999);
    }
}
