//! Writing of a spool.

use crate::{
    column::Value,
    consumers::{self, Consumer},
    error::{Error, Result},
    head::SpoolId,
    layout::{GAPS, Layout, MAX_SHARDS, Shard},
    meta::{Meta, Rule, boot_id, make_folder, private},
    recover::{self, Left, Recovered, Site},
    shard::{Options, ShardWriter},
};
use std::{
    collections::BTreeMap,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
};

const LOCK: &str = "LOCK";

/// Description of a new spool; an existing one has to match it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Columns.
    pub layout: Layout,
    /// Number of shards.
    pub shards: u32,
    /// Assignment of messages to shards.
    pub rule: Rule,
}

impl Wanted {
    /// Description of a new spool, made at a time in microseconds since 1970.
    pub fn meta(&self, id: SpoolId, now: i64) -> Meta {
        let Self { layout, shards, rule } = self.clone();
        let (created, epoch, boot, clean) = (now, 0, String::new(), true);
        Meta { id, layout, shards, rule, created, epoch, boot, clean }
    }

    /// Checks that an existing spool is as wanted. Fails with [`Error::Mismatch`] if not; `place` is named there.
    pub fn check(&self, meta: &Meta, place: &Path) -> Result<()> {
        let differs = |problem: String| Err(Error::Mismatch { path: place.to_owned(), problem });
        if meta.shards != self.shards {
            return differs(format!("this spool has {} shards, not {}", meta.shards, self.shards));
        }
        if meta.rule != self.rule {
            return differs(format!("this spool has the shard rule {:?}, not {:?}", meta.rule, self.rule));
        }
        if meta.layout != self.layout {
            let names = |layout: &Layout| {
                let names: Vec<_> =
                    (0..layout.columns.len()).map(|position| layout.read_column(position).name).collect();
                format!("{} ({})", layout.table.name, names.join(", "))
            };
            return differs(format!("this spool has {}, not {}", names(&meta.layout), names(&self.layout)));
        }
        Ok(())
    }
}

/// Record of one or more messages that are not in the spool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gap {
    /// Shard that they belong to.
    pub shard: u32,
    /// Offset of the first row after them.
    pub offset: u64,
    /// `gap`, `drop`, `reconnect`, `epoch` or `duplicate`.
    pub kind: &'static str,
    /// Publisher of the messages, if known: id of the node and number of the entity.
    pub source: Option<(Vec<u8>, u32)>,
    /// First and last of their sequence numbers.
    pub numbers: Option<(u32, u32)>,
    /// Number of the messages, if known.
    pub count: Option<u64>,
    /// Time at which the loss was noticed, in microseconds since 1970.
    pub time: i64,
    /// Description.
    pub detail: String,
}

/// Exclusive right to write a spool, and the state common to all shards, each with its own writer.
pub struct Writer {
    pub(crate) dir: PathBuf,
    meta: Meta,
    recovered: Vec<Recovered>,
    // Held as long as the writer exists.
    lock: File,
}

/// Shard writers of a spool: one for each shard of messages, and one for the gap log.
pub struct Shards {
    /// Shards with messages.
    pub data: Vec<ShardWriter>,
    /// Gap log: messages that are not in the spool.
    pub gaps: ShardWriter,
}

impl Writer {
    /// Opens the spool in a folder, or creates one with this id; `now` is in microseconds since 1970.
    /// Fails with [`Error::Locked`] if another writer has it open, [`Error::Mismatch`] if it differs from
    /// `wanted`.
    pub fn open(
        dir: &Path,
        wanted: &Wanted,
        id: SpoolId,
        options: &Options,
        now: i64,
    ) -> Result<(Self, Shards)> {
        if !(1..=MAX_SHARDS).contains(&wanted.shards) {
            return Err(Error::Usage(format!("{} shards: 1 to {MAX_SHARDS} are possible", wanted.shards)));
        }
        make_folder(dir)?;
        let path = dir.join(LOCK);
        let lock = private().truncate(false).open(&path).map_err(Error::io("open", &*path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
        }
        let boot = boot_id();
        let (mut meta, left) = match Meta::read(dir)? {
            Some(meta) => {
                wanted.check(&meta, dir)?;
                let whole = meta.clean || (meta.boot == boot && !boot.is_empty());
                (meta, if whole { Left::Whole } else { Left::Torn })
            }
            None => {
                let meta = wanted.meta(id, now);
                if dir.join(recover::MARKS).exists() {
                    let problem = "has segments of a spool, and no meta.json".to_owned();
                    return Err(Error::BadFile { path: dir.to_owned(), problem });
                }
                meta.write(dir)?;
                (meta, Left::Whole)
            }
        };
        meta.epoch += 1;
        meta.boot = boot;
        meta.clean = false;
        let shards = meta.shards as usize + 1;
        let mut data = Vec::new();
        let mut recovered = Vec::new();
        let site = |index: usize| Site { dir, id: meta.id, index, shards, left, epoch: meta.epoch };
        for number in 0..meta.shards {
            let site = site(number as usize);
            let opened = recover::open(&site, Shard::Data(number), meta.layout.clone(), options.clone())?;
            data.push(opened.0);
            recovered.push(opened.1);
        }
        let gap_site = site(meta.shards as usize);
        let (gaps, found) = recover::open(&gap_site, Shard::Gaps, Layout::whole(&GAPS), options.clone())?;
        recovered.push(found);
        // A writer that is stopped before this point leaves the state of the previous writer.
        meta.write(dir)?;
        let mut shards = Shards { data, gaps };
        shards.tell_start(&recovered, meta.epoch, now)?;
        Ok((Self { dir: dir.to_owned(), meta, recovered, lock }, shards))
    }

    /// Description of the spool.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Checks that the folder is the one that was opened. Fails with [`Error::Removed`] if not: files that are written
    /// have no name then.
    pub fn check_folder(&self) -> Result<()> {
        if is_at(&self.lock, &self.dir.join(LOCK)) {
            return Ok(());
        }
        Err(Error::Removed { dir: self.dir.clone() })
    }

    /// Result of the recovery: of each shard, and finally of the gap log.
    pub fn recovered(&self) -> &[Recovered] {
        &self.recovered
    }

    /// Positions of all consumers.
    pub fn consumers(&self) -> Result<BTreeMap<String, Consumer>> {
        consumers::all(&self.dir, &self.meta.id)
    }

    /// Removes a consumer.
    pub fn forget(&self, consumer: &str) -> Result<()> {
        consumers::forget(&self.dir, consumer)
    }

    /// Records that all shards were closed.
    pub fn close(mut self) -> Result<()> {
        self.meta.clean = true;
        self.meta.write(&self.dir)
    }
}

/// Whether a path leads to an open file. A path that cannot be looked at is taken for one that does.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::{fs, os::unix::fs::MetadataExt};
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        (_, Err(error)) => error.kind() != std::io::ErrorKind::NotFound,
        (Err(_), _) => true,
    }
}

/// Whether a path leads to an open file: an open file cannot be removed.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

impl Shards {
    /// Writes a loss to the gap log.
    pub fn tell(gaps: &mut ShardWriter, gap: &Gap) -> Result<()> {
        let number = |number: Option<u32>| Value::from(number.map(i64::from));
        gaps.push(&[
            Value::Int(gap.shard.into()),
            Value::Int(gap.offset.cast_signed()),
            Value::Text(gap.kind),
            gap.source.as_ref().map(|source| source.0.as_slice()).into(),
            number(gap.source.as_ref().map(|source| source.1)),
            number(gap.numbers.map(|numbers| numbers.0)),
            number(gap.numbers.map(|numbers| numbers.1)),
            gap.count.map(u64::cast_signed).into(),
            Value::Int(gap.time),
            Value::Text(&gap.detail),
        ])
    }

    /// Records that an existing spool has missed the messages sent while no writer was running.
    fn tell_start(&mut self, recovered: &[Recovered], epoch: u32, now: i64) -> Result<()> {
        if epoch <= 1 {
            return Ok(());
        }
        for found in recovered {
            let Shard::Data(shard) = found.shard else { continue };
            let gap = |kind, count, detail| Gap {
                shard,
                offset: found.next,
                kind,
                count,
                time: now,
                detail,
                ..Gap::default()
            };
            let detail = format!(
                "epoch {epoch} begins; what was sent since the last row, at {} us since 1970, is not in the spool",
                found.last_time
            );
            Self::tell(&mut self.gaps, &gap("epoch", None, detail))?;
            if let Some((path, problem)) = &found.damaged {
                let detail = format!("{} is damaged and was left as it is: {problem}", path.display());
                Self::tell(&mut self.gaps, &gap("gap", None, detail))?;
            }
            if found.hole < found.next {
                let count = found.next - found.hole;
                let detail = format!(
                    "offsets {} to {} (exclusive) have no rows: the machine stopped, or a file is damaged; {} \
                     octets that were not written to their end were cut off",
                    found.hole, found.next, found.cut
                );
                Self::tell(&mut self.gaps, &gap("gap", Some(count), detail))?;
            }
        }
        self.gaps.flush(now)
    }
}
