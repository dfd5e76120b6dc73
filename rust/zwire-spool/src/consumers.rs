//! Positions of consumers: rows that a consumer has not read are not deleted because of their age.

use crate::{
    error::{Error, Result},
    head::{SpoolId, hex},
    meta::{make_folder, read_json, write_json},
    read_at::names,
    retain::delete,
};
use serde_json::{Map, Value as Json, json};
use std::{collections::BTreeMap, path::Path};

const FOLDER: &str = "consumers";
/// Most consumers; all of their files are read when segments could be deleted.
const MAX_CONSUMERS: usize = 4096;

/// Offsets by shard.
pub type Offsets = BTreeMap<u32, u64>;

/// Position of a consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consumer {
    /// Offsets before which it has read everything.
    pub offsets: Offsets,
    /// Time of the commit, in microseconds since 1970.
    pub at: i64,
}

pub(crate) fn commit(dir: &Path, id: &SpoolId, name: &str, consumer: &Consumer) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(legal) {
        return Err(Error::Usage(format!(
            "consumer {name:?}: a name is 1 to 100 letters, digits, '-', '_' or '.', and begins with no '.'"
        )));
    }
    let folder = dir.join(FOLDER);
    make_folder(&folder)?;
    let offsets: Map<String, Json> =
        consumer.offsets.iter().map(|(shard, offset)| (shard.to_string(), json!(offset))).collect();
    let json = json!({ "v": 1, "spool": hex(id), "s": offsets, "at": consumer.at });
    write_json(&folder.join(format!("{name}.json")), json)
}

pub(crate) fn all(dir: &Path, id: &SpoolId) -> Result<BTreeMap<String, Consumer>> {
    let folder = dir.join(FOLDER);
    let mut found = BTreeMap::new();
    for file in names(&folder)?.into_iter().take(MAX_CONSUMERS) {
        let path = folder.join(&file);
        let Some(name) = file.strip_suffix(".json") else { continue };
        let Some(json) = read_json(&path)? else { continue };
        if json.get("spool").and_then(Json::as_str) != Some(&hex(id)) {
            return Err(Error::Mismatch { path, problem: "a consumer of another spool".to_owned() });
        }
        let number = |(shard, offset): (&String, &Json)| Some((shard.parse().ok()?, offset.as_u64()?));
        let offsets = json.get("s").and_then(Json::as_object);
        let offsets: Option<Offsets> = offsets.and_then(|offsets| offsets.iter().map(number).collect());
        let (Some(offsets), Some(at)) = (offsets, json.get("at").and_then(Json::as_i64)) else {
            return Err(Error::BadFile { path, problem: "is no commit of a consumer".to_owned() });
        };
        found.insert(name.to_owned(), Consumer { offsets, at });
    }
    Ok(found)
}

pub(crate) fn forget(dir: &Path, name: &str) -> Result<()> {
    delete(&dir.join(FOLDER).join(format!("{name}.json")))
}
