//! Thread that reads the spool, and hands its rows to the connection.

use crate::{
    convert::{Outgoing, Refused, message},
    counters::{Counters, count},
    options::Options,
    packet::Message,
};
use arrow_array::{Array as _, RecordBatch, cast::AsArray as _, types::Int64Type};
use bytes::Bytes;
use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use std::{path::PathBuf, sync::Arc};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use zwire_engine::clock;
use zwire_spool::{BatchLimits, Error, Mark, Shard, Spool};

const SHARD: Shard = Shard::Data(0);
const COLUMNS: [&str; 6] = ["offset", "kind", "key", "payload", "encoding", "attachment"];
/// Name of the bridge among the consumers of its spool.
const CONSUMER: &str = "mqtt";
/// Period of looks for new rows: a message with QoS 1 waits at most so long, and for the writer of the spool.
const LOOK: Duration = Duration::from_millis(2);
/// Period of commits, which free room in the spool.
const COMMIT: Duration = Duration::from_secs(1);
/// Pause after a failure of the spool.
const PAUSE: Duration = Duration::from_millis(100);

/// Row of the spool on its way to the broker.
pub(crate) struct Row {
    pub(crate) offset: u64,
    /// The message, and whether it came from another bridge; `None` of a row that does not pass.
    pub(crate) message: Option<(Message, bool)>,
    /// Room in the memory of the bridge.
    pub(crate) room: OwnedSemaphorePermit,
}

/// Octets for which a message takes room, within all room that there is.
pub(crate) fn room_of(octets: usize, all: usize) -> u32 {
    /// Memory of a message beside its octets.
    const EACH: usize = 512;
    u32::try_from((octets + EACH).min(all)).unwrap_or(u32::MAX)
}

/// Thread that reads the spool.
pub(crate) struct Outbound {
    pub(crate) dir: PathBuf,
    pub(crate) options: Arc<Options>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) rows: mpsc::Sender<Row>,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) all_room: usize,
    /// Offset of the next row.
    pub(crate) next: u64,
    /// Offset before which all rows are acknowledged.
    pub(crate) cursor: Arc<AtomicU64>,
    pub(crate) runtime: Handle,
}

impl Outbound {
    /// Runs until the bridge is closed.
    pub(crate) fn run(mut self) {
        let mut committed = (Duration::ZERO, u64::MAX);
        while !self.stop.load(Ordering::Acquire) && !self.rows.is_closed() {
            let pause = match self.turn(&mut committed) {
                Ok(true) => continue,
                Ok(false) => LOOK,
                Err(error) => {
                    self.counters.fail(&self.options.broker, format!("the spool cannot be read: {error}"));
                    PAUSE
                }
            };
            std::thread::sleep(pause);
        }
    }

    /// Hands over some rows; `false` if there are none.
    fn turn(&mut self, committed: &mut (Duration, u64)) -> Result<bool, Error> {
        let spool = Spool::open(&self.dir)?;
        loop {
            let mark = spool.mark(SHARD)?;
            let end = mark.rows_to.max(mark.earliest);
            self.commit(&spool, committed)?;
            self.skip(&mark);
            if self.stop.load(Ordering::Acquire) || self.rows.is_closed() {
                return Ok(false);
            }
            if self.next >= end {
                std::thread::sleep(LOOK);
                continue;
            }
            let limits = BatchLimits { rows: 1024, bytes: 4 << 20 };
            for batch in spool.read(SHARD, self.next, end, Some(&COLUMNS), limits)? {
                match batch {
                    Ok(batch) if !self.hand_over(&batch) => return Ok(false),
                    Ok(_) => self.commit(&spool, committed)?,
                    // Retention has deleted rows meanwhile.
                    Err(Error::OutOfRange { .. }) => break,
                    Err(error) => {
                        let Some(offset) = error.resumes() else { return Err(error) };
                        let lost = offset.max(self.next + 1) - self.next;
                        self.counters.out_expired.fetch_add(lost, Ordering::Relaxed);
                        self.next += lost;
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Passes over rows that were deleted, because the spool was full.
    fn skip(&mut self, mark: &Mark) {
        if let Some(gone) = mark.earliest.checked_sub(self.next).filter(|gone| *gone > 0) {
            self.counters.out_expired.fetch_add(gone, Ordering::Relaxed);
            self.next = mark.earliest;
        }
    }

    /// Frees rows that the broker has acknowledged.
    fn commit(&self, spool: &Spool, (at, committed): &mut (Duration, u64)) -> Result<(), Error> {
        let (now, cursor) = (clock::now(), self.cursor.load(Ordering::Acquire));
        if cursor != *committed && now.mono.saturating_sub(*at) >= COMMIT {
            let micros = i64::try_from(now.wall.as_micros()).unwrap_or(i64::MAX);
            spool.commit(CONSUMER, [(0, cursor)].into(), micros)?;
            (*at, *committed) = (now.mono, cursor);
        }
        Ok(())
    }

    /// Hands rows to the connection; `false` if it has ended.
    fn hand_over(&mut self, batch: &RecordBatch) -> bool {
        let texts = |name| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        let octets = |name| batch.column_by_name(name).and_then(|column| column.as_binary_opt::<i32>());
        let offsets =
            batch.column_by_name("offset").and_then(|column| column.as_primitive_opt::<Int64Type>());
        let (Some(offsets), Some(keys)) = (offsets, texts("key")) else { return false };
        let (kinds, payloads) = (texts("kind"), octets("payload"));
        let (encodings, attachments) = (texts("encoding"), octets("attachment"));
        for row in 0..batch.num_rows() {
            let deleted = kinds.is_some_and(|kinds| kinds.value(row) == "del");
            let payload = payloads.filter(|_| !deleted).map(|all| Bytes::copy_from_slice(all.value(row)));
            let encoding = encodings.filter(|all| all.is_valid(row)).map(|all| all.value(row));
            let sample = Outgoing {
                key: keys.value(row),
                payload,
                encoding: encoding.filter(|text| *text != "zenoh/bytes").map(str::to_owned),
                attachment: attachments.filter(|all| all.is_valid(row)).map(|all| all.value(row)),
            };
            let message = match message(&self.options, sample, true) {
                Ok(message) => Some(message),
                Err(refused) => {
                    refuse(&self.counters, keys.value(row), refused);
                    None
                }
            };
            let offset = offsets.value(row).cast_unsigned();
            let len = message.as_ref().map_or(0, |(message, _)| message.octets());
            let wanted = room_of(len, self.all_room);
            let Ok(room) = self.runtime.block_on(self.room.clone().acquire_many_owned(wanted)) else {
                return false;
            };
            if self.rows.blocking_send(Row { offset, message, room }).is_err() {
                return false;
            }
            self.next = offset + 1;
        }
        true
    }
}

/// Counts a sample that does not pass.
pub(crate) fn refuse(counters: &Counters, key: &str, refused: Refused) {
    match refused {
        // A rule of the other kind takes it.
        Refused::NoRule => {}
        Refused::Looped => count(&counters.out_looped),
        Refused::Unmapped(reason) => {
            count(&counters.out_unmapped);
            tracing::debug!(target: "zwire.bridge.mqtt", key, "a sample has no topic: {reason}");
        }
    }
}
