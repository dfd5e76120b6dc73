//! `meta.json`: description of a spool.

use crate::{
    error::{Error, Result},
    head::{FORMAT, SpoolId, hex, parse_id},
    layout::{Layout, MAX_SHARDS, Shard, table},
};
use serde_json::{Value as Json, json};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

const NAME: &str = "meta.json";
const MAX_JSON: u64 = 1 << 20;

/// Assignment of messages to shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Selection by the checksum of the key, modulo the number of shards.
    Hash,
    /// Selection by the first of these key expressions that matches; the first shard if none does.
    Keys(Vec<String>),
}

impl Rule {
    /// Shard for a key under [`Self::Hash`].
    #[allow(clippy::cast_possible_truncation, reason = "there are at most 1024 shards")]
    pub fn hash(key: &str, shards: usize) -> u32 {
        crc32c::crc32c(key.as_bytes()) % shards.max(1) as u32
    }
}

/// Description and state of a spool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Id of the spool.
    pub id: SpoolId,
    /// Columns of its rows.
    pub layout: Layout,
    /// Number of shards.
    pub shards: u32,
    /// Assignment of messages to shards.
    pub rule: Rule,
    /// Time of creation, in microseconds since 1970.
    pub created: i64,
    /// Number of times that it was opened for writing.
    pub epoch: u32,
    /// Boot id of the machine when it was last opened for writing.
    pub boot: String,
    /// Whether the last writer has closed it.
    pub clean: bool,
}

impl Meta {
    fn to_json(&self) -> Json {
        let columns = self.layout.names();
        let rule = match &self.rule {
            Rule::Hash => json!("crc32c"),
            Rule::Keys(keys) => json!(keys),
        };
        json!({
            "format": FORMAT, "spool": hex(&self.id), "table": self.layout.table.name, "columns": columns,
            "shards": self.shards, "rule": rule, "created": self.created, "epoch": self.epoch,
            "boot": self.boot, "clean": self.clean,
        })
    }

    fn from_json(json: &Json) -> core::result::Result<Self, String> {
        let text = |name: &str| json.get(name).and_then(Json::as_str).ok_or(format!("no {name}"));
        let number = |name: &str| json.get(name).and_then(Json::as_u64).ok_or(format!("no {name}"));
        if number("format")? != FORMAT {
            return Err(format!("has format {}, this program knows {FORMAT}", number("format")?));
        }
        let texts = |json: &Json| -> Option<Vec<String>> {
            json.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let columns = json.get("columns").and_then(texts).ok_or("no columns")?;
        let table = table(text("table")?).ok_or_else(|| format!("unknown table {:?}", text("table")))?;
        let layout = Layout::select(table, &columns).map_err(|name| format!("unknown column {name:?}"))?;
        let shards = u32::try_from(number("shards")?).ok().filter(|n| (1..=MAX_SHARDS).contains(n));
        let rule = match json.get("rule") {
            Some(Json::String(rule)) if rule == "crc32c" => Rule::Hash,
            Some(keys) => Rule::Keys(texts(keys).ok_or("no rule")?),
            None => return Err("no rule".to_owned()),
        };
        Ok(Self {
            id: parse_id(text("spool")?).ok_or("no spool id")?,
            layout,
            shards: shards.ok_or_else(|| format!("{} shards", number("shards").unwrap_or(0)))?,
            rule,
            created: json.get("created").and_then(Json::as_i64).ok_or("no time")?,
            epoch: u32::try_from(number("epoch")?).map_err(|_| "no epoch")?,
            boot: text("boot")?.to_owned(),
            clean: json.get("clean").and_then(Json::as_bool).ok_or("no state")?,
        })
    }

    /// Reads the description of the spool in a folder. `Ok(None)`: there is none.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(NAME);
        let Some(json) = read_json(&path)? else { return Ok(None) };
        Self::from_json(&json).map(Some).map_err(|problem| Error::BadFile { path, problem })
    }

    /// All shards of messages, and finally the gap log.
    pub fn shards(&self) -> Vec<Shard> {
        (0..self.shards).map(Shard::Data).chain([Shard::Gaps]).collect()
    }

    /// Octets of the description, as in `meta.json`.
    pub fn encode(&self) -> Vec<u8> {
        seal_json(self.to_json())
    }

    /// Reads the octets of a description; `path` is named in errors.
    pub fn decode(octets: &[u8], path: &Path) -> Result<Self> {
        let json = open_json(octets).and_then(|json| Self::from_json(&json));
        json.map_err(|problem| Error::BadFile { path: path.to_owned(), problem })
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        write_json(&dir.join(NAME), self.to_json())
    }

    /// The id as text.
    pub fn id_text(&self) -> String {
        hex(&self.id)
    }
}

/// Reads a JSON file that contains the checksum of its content. `Ok(None)`: it does not exist.
pub(crate) fn read_json(path: &Path) -> Result<Option<Json>> {
    let bad = |problem: &str| Error::BadFile { path: path.to_owned(), problem: problem.to_owned() };
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() > MAX_JSON => return Err(bad("is too long")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    }
    let text = fs::read(path).map_err(Error::io("read", path))?;
    open_json(&text).map(Some).map_err(|problem| bad(&problem))
}

/// Reads JSON that contains the checksum of its content; returns why it is invalid.
pub fn open_json(text: &[u8]) -> core::result::Result<Json, String> {
    let mut json: Json = serde_json::from_slice(text).map_err(|error| format!("is no JSON: {error}"))?;
    let crc = json.as_object_mut().and_then(|object| object.shift_remove("crc32c")).and_then(|n| n.as_u64());
    if crc != Some(u64::from(crc32c::crc32c(json.to_string().as_bytes()))) {
        return Err("its checksum is wrong".to_owned());
    }
    Ok(json)
}

/// Text of a JSON object, with the checksum of its content added.
pub fn seal_json(mut json: Json) -> Vec<u8> {
    let crc = crc32c::crc32c(json.to_string().as_bytes());
    if let Some(object) = json.as_object_mut() {
        object.insert("crc32c".to_owned(), crc.into());
    }
    json.to_string().into_bytes()
}

/// Replaces a JSON file atomically: a reader sees the old or the new content, also after a power failure.
pub(crate) fn write_json(path: &Path, json: Json) -> Result<()> {
    let mut draft = path.as_os_str().to_owned();
    // Several writers may write the same file at once; each has a draft of its own.
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    draft.push(format!(".{}-{}.new", std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed)));
    let draft = PathBuf::from(draft);
    let written = (|| {
        write_private(&draft, &seal_json(json))?.sync_data()?;
        fs::rename(&draft, path)
    })();
    written.map_err(|error| {
        // Removes the incomplete draft.
        let _ = fs::remove_file(&draft);
        Error::io("write", path)(error)
    })?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Options for a new file of a spool. Only the owner of this process may read it: it holds payloads.
pub(crate) fn private() -> OpenOptions {
    let mut options = File::options();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Writes a [`private`] file.
pub(crate) fn write_private(path: &Path, octets: &[u8]) -> io::Result<File> {
    let mut file = private().truncate(true).open(path)?;
    file.write_all(octets)?;
    Ok(file)
}

/// Makes a folder of a spool, and those above it, for the owner of this process only.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(Error::io("make", folder))
}

/// Waits until the names in a folder are on disk.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(Error::io("sync", folder))?;
    }
    let _ = folder;
    Ok(())
}

/// Boot id of the machine; empty if the system has none.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| String::new(), |id| id.trim().to_owned())
}
