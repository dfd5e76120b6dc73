//! Volume with a history: every update is a row of a spool, and the latest value of each key lies in a volume `disk`
//! beside it.
//!
//! The folder is a spool, which all readers of spools take, with a folder `latest` in it.

use crate::{
    Disk,
    error::{Error, Result},
    place::{Place, Span},
    rules::{Mark, Table, Update, Value},
    volume::{Capability, Counts, History, Page, Past, Persistence, Reach, Store},
    wildcards::Wildcard,
};
use arrow_array::{
    Array, BinaryArray, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type,
};
use bytes::Bytes;
use core::time::Duration;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use zwire_proto::zenoh::{Encoding, KeyExpr, Ntp64, TimeRange, Timestamp, ZenohId};
use zwire_recorder::{Appender, Cell, Clock};
use zwire_spool::{
    BatchLimits, Durability, KeyChoice, Layout, Options, Rule, Selection, Shard, Spool, Wanted,
    layout::SAMPLES,
};

/// Folder of the latest values.
const LATEST: &str = "latest";

/// Columns of a value of the past.
const COLUMNS: [&str; 6] = ["key", "payload", "encoding", "hlc", "hlc_id", "attachment"];

/// Rows read at once: a bound of the memory of a query.
const LIMITS: BatchLimits = BatchLimits { rows: 256, bytes: 1 << 20 };

/// How much earlier than its stamp an update can come: more than the lead that nodes accept.
const LEAD: Duration = Duration::from_secs(60);

/// Volume with a history.
pub struct Spooled {
    dir: PathBuf,
    latest: Disk,
    appender: Appender,
    spool: Spool,
}

impl Spooled {
    /// Opens the volume in a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be written, is in use, is another spool, or its file is damaged.
    pub fn open(dir: &Path, cache_bytes: usize) -> Result<Self> {
        let failed = |error: zwire_recorder::Error| of_recorder(dir, error);
        let wanted = Wanted { layout: Layout::whole(&SAMPLES), shards: 1, rule: Rule::Hash };
        // Rows that a flush has written are there after a crash of the machine.
        let options = Options { durability: Durability::Disk, ..Options::default() };
        let appender = Appender::open(dir, &wanted, &options, Clock::default()).map_err(failed)?;
        let latest = Disk::open(&dir.join(LATEST), cache_bytes)?;
        let spool = Spool::open(dir).map_err(|error| of_spool(dir, error))?;
        Ok(Self { dir: dir.to_owned(), latest, appender, spool })
    }

    fn flush(&self) -> Result<()> {
        self.appender.flush().map_err(|error| of_recorder(&self.dir, error))
    }

    /// Cells of an update in the order of the columns.
    fn row(&self, key: &str, update: &Update) -> Vec<Option<Cell>> {
        let cell = |name: &str| {
            let Some(value) = &update.value else {
                return match name {
                    "key" => Some(Cell::Text(key.to_owned())),
                    "kind" => Some(Cell::Int(1)),
                    _ => None,
                };
            };
            match name {
                "key" => Some(Cell::Text(key.to_owned())),
                "payload" => Some(Cell::Bytes(value.payload.clone())),
                "encoding" => Some(Cell::Text(value.encoding.to_string())),
                "attachment" => value.attachment.clone().map(Cell::Bytes),
                _ => None,
            }
        };
        let Timestamp { time, id } = update.shown.unwrap_or(update.stamp);
        let id = Bytes::copy_from_slice(&id.to_le_bytes()[..id.wire_len()]);
        let stamped = |name: &str| match name {
            "ts" => i64::try_from(time.to_duration().as_micros()).ok().map(Cell::Int),
            "hlc" => Some(Cell::Int(time.0.cast_signed())),
            "hlc_id" => Some(Cell::Bytes(id.clone())),
            _ => cell(name),
        };
        self.appender.columns().map(|(_, column)| stamped(column.name)).collect()
    }
}

fn of_spool(dir: &Path, error: zwire_spool::Error) -> Error {
    use zwire_spool::Error as Spooling;
    let file = dir.to_owned();
    match error {
        Spooling::Locked { .. } => Error::InUse { file },
        Spooling::Corrupt { .. }
        | Spooling::Missing { .. }
        | Spooling::BadFile { .. }
        | Spooling::Mismatch { .. } => Error::Damaged { file, key: None, problem: error.to_string() },
        other => Error::Io { file, source: std::io::Error::other(other) },
    }
}

fn of_recorder(dir: &Path, error: zwire_recorder::Error) -> Error {
    match error {
        zwire_recorder::Error::Spool(error) => of_spool(dir, error),
        other => Error::Io { file: dir.to_owned(), source: std::io::Error::other(other) },
    }
}

impl Store for Spooled {
    fn capability(&self) -> Capability {
        Capability { persistence: Persistence::Durable, history: History::All }
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        self.latest.get(key)
    }

    fn mark(&self, key: &str) -> Result<Option<Mark>> {
        self.latest.mark(key)
    }

    fn page(&self, span: &Span, after: Option<&str>, wanted: &dyn Fn(&str) -> bool) -> Result<Page> {
        self.latest.page(span, after, wanted)
    }

    fn append(&self, place: &Place, updates: &[Update], done: &mut usize) -> Result<()> {
        for update in &updates[*done..] {
            let key = place.strip(&update.key).unwrap_or(&update.key);
            let row = self.row(key, update);
            self.appender.append(Some(0), row).map_err(|error| of_recorder(&self.dir, error))?;
            *done += 1;
        }
        Ok(())
    }

    fn past(
        &self,
        place: &Place,
        asked: &KeyExpr,
        times: TimeRange<Duration>,
        each: &mut dyn FnMut(Past) -> Result<()>,
    ) -> Result<()> {
        // What was appended before the query is to be seen.
        self.flush()?;
        let failed = |error| of_spool(&self.dir, error);
        let mark = self.spool.mark(Shard::Data(0)).map_err(failed)?;
        let since = match times.start {
            core::ops::Bound::Unbounded => None,
            core::ops::Bound::Included(start) | core::ops::Bound::Excluded(start) => {
                i64::try_from(start.saturating_sub(LEAD).as_micros()).ok()
            }
        };
        let (asked_for, of_place) = (asked.clone(), place.clone());
        let wants =
            Arc::new(move |key: &str| of_place.restore_of(key, &asked_for).is_some_and(|key| !key.is_wild()));
        // The expressions select segments; the function decides about a row.
        let literal = place.span(asked).root.map_or_else(|| "**".to_owned(), |root| format!("{root}/**"));
        let keys = Some(KeyChoice::new(&[literal], wants));
        let selection = Arc::new(Selection { keys, since, until: None });
        let rows = self.spool.read(Shard::Data(0), mark.earliest, mark.end, Some(&COLUMNS), LIMITS);
        let mut rows = rows.and_then(|rows| rows.select(selection)).map_err(failed)?;
        while let Some(batch) = rows.next_batch().map_err(failed)? {
            for past in Rows::of(&batch).into_iter().flat_map(|rows| rows.all()) {
                if times.contains_ntp64(past.stamp.time) {
                    each(past)?;
                }
            }
        }
        Ok(())
    }

    fn change(&self, reach: Reach, work: &mut dyn FnMut(&mut dyn Table) -> Result<()>) -> Result<()> {
        if reach == Reach::Durable {
            self.flush()?;
        }
        self.latest.change(reach, work)
    }

    fn wildcards(&self) -> Result<Vec<Wildcard>> {
        self.latest.wildcards()
    }

    fn counts(&self) -> Result<Counts> {
        self.latest.counts()
    }

    fn reopen(&self) -> Result<()> {
        // The appender has kept the rows that the disk did not take.
        self.latest.reopen()
    }

    fn close(&self) -> Result<()> {
        self.appender.close().map_err(|error| of_recorder(&self.dir, error))?;
        self.latest.close()
    }
}

/// Columns of a batch.
struct Rows<'a> {
    key: &'a StringArray,
    payload: &'a BinaryArray,
    encoding: &'a StringArray,
    time: &'a Int64Array,
    id: &'a BinaryArray,
    attachment: &'a BinaryArray,
}

impl<'a> Rows<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        let column = |name: &str| batch.column_by_name(name);
        Some(Self {
            key: column("key")?.as_string_opt()?,
            payload: column("payload")?.as_binary_opt()?,
            encoding: column("encoding")?.as_string_opt()?,
            time: column("hlc")?.as_primitive_opt::<Int64Type>()?,
            id: column("hlc_id")?.as_binary_opt()?,
            attachment: column("attachment")?.as_binary_opt()?,
        })
    }

    fn all(self) -> impl Iterator<Item = Past> + 'a {
        (0..self.key.len()).filter_map(move |row| self.row(row))
    }

    /// A row with its stamp; `None` for a row of another writer without one.
    fn row(&self, row: usize) -> Option<Past> {
        if self.time.is_null(row) || self.id.is_null(row) {
            return None;
        }
        let stamp = Timestamp {
            time: Ntp64(self.time.value(row).cast_unsigned()),
            id: ZenohId::from_wire(self.id.value(row))?,
        };
        let octets =
            |column: &BinaryArray| (!column.is_null(row)).then(|| Bytes::copy_from_slice(column.value(row)));
        let value = octets(self.payload).map(|payload| Value {
            payload,
            encoding: if self.encoding.is_null(row) {
                Encoding::DEFAULT
            } else {
                Encoding::from_text(self.encoding.value(row).to_owned())
            },
            attachment: octets(self.attachment),
        });
        Some(Past { key: self.key.value(row).to_owned(), stamp, value })
    }
}
