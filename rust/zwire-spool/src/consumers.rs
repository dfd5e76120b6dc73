//! Positions of consumers: rows that a consumer has not read are not deleted because of their age.

use crate::{
    error::{Error, Result},
    head::{SpoolId, hex},
    meta::{make_folder, open_json, read_json, seal_json, write_json},
    read_at::names,
    retain::delete,
    tier::Tier,
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

/// Name of the file of a consumer, and its content. Fails with [`Error::Usage`] for an invalid name.
fn encode(id: &SpoolId, name: &str, consumer: &Consumer) -> Result<(String, Json)> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(legal) {
        return Err(Error::Usage(format!(
            "consumer {name:?}: a name is 1 to 100 letters, digits, '-', '_' or '.', and begins with no '.'"
        )));
    }
    let offsets: Map<String, Json> =
        consumer.offsets.iter().map(|(shard, offset)| (shard.to_string(), json!(offset))).collect();
    let json = json!({ "v": 1, "spool": hex(id), "s": offsets, "at": consumer.at });
    Ok((format!("{name}.json"), json))
}

/// Consumer in the content of a file.
fn decode(id: &SpoolId, path: &Path, json: &Json) -> Result<Consumer> {
    if json.get("spool").and_then(Json::as_str) != Some(&hex(id)) {
        return Err(Error::Mismatch {
            path: path.to_owned(),
            problem: "a consumer of another spool".to_owned(),
        });
    }
    let number = |(shard, offset): (&String, &Json)| Some((shard.parse().ok()?, offset.as_u64()?));
    let offsets = json.get("s").and_then(Json::as_object);
    let offsets: Option<Offsets> = offsets.and_then(|offsets| offsets.iter().map(number).collect());
    let (Some(offsets), Some(at)) = (offsets, json.get("at").and_then(Json::as_i64)) else {
        let problem = "is no commit of a consumer".to_owned();
        return Err(Error::BadFile { path: path.to_owned(), problem });
    };
    Ok(Consumer { offsets, at })
}

pub(crate) fn commit(dir: &Path, id: &SpoolId, name: &str, consumer: &Consumer) -> Result<()> {
    let (file, json) = encode(id, name, consumer)?;
    let folder = dir.join(FOLDER);
    make_folder(&folder)?;
    write_json(&folder.join(file), json)
}

pub(crate) fn commit_in(tier: &dyn Tier, id: &SpoolId, name: &str, consumer: &Consumer) -> Result<()> {
    let (file, json) = encode(id, name, consumer)?;
    tier.write_consumer(&file, seal_json(json))
}

/// Consumers that have committed in a store.
pub(crate) fn all_in(tier: &dyn Tier, id: &SpoolId) -> Result<BTreeMap<String, Consumer>> {
    let mut found = BTreeMap::new();
    for (file, octets) in tier.consumers(MAX_CONSUMERS)? {
        let Some(name) = file.strip_suffix(".json") else { continue };
        let path = Path::new(tier.place()).join(FOLDER).join(&file);
        let json = open_json(&octets).map_err(|problem| Error::BadFile { path: path.clone(), problem })?;
        found.insert(name.to_owned(), decode(id, &path, &json)?);
    }
    Ok(found)
}

pub(crate) fn all(dir: &Path, id: &SpoolId) -> Result<BTreeMap<String, Consumer>> {
    let folder = dir.join(FOLDER);
    let mut found = BTreeMap::new();
    for file in names(&folder)?.into_iter().take(MAX_CONSUMERS) {
        let path = folder.join(&file);
        let Some(name) = file.strip_suffix(".json") else { continue };
        let Some(json) = read_json(&path)? else { continue };
        found.insert(name.to_owned(), decode(id, &path, &json)?);
    }
    Ok(found)
}

pub(crate) fn forget(dir: &Path, name: &str) -> Result<()> {
    delete(&dir.join(FOLDER).join(format!("{name}.json")))
}
