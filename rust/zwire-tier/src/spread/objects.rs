//! Pulses of spoolers in a store: JSON with a checksum.

use super::Pulse;
use crate::{
    manifest::SPREAD,
    store::{AT_ONCE, Store},
    writer::put,
};
use futures_util::{StreamExt as _, stream};
use object_store::ObjectStoreExt as _;
use serde_json::{Value as Json, json};
use zwire_spool::{Error, Result, SpoolId, hex, open_json, seal_json};

fn name(writer: &str) -> String {
    format!("live/{writer}.beat")
}

impl Pulse {
    fn encode(self, spool: &SpoolId) -> Vec<u8> {
        seal_json(
            json!({ "v": 1, "spool": hex(spool), "number": self.number, "age": self.age, "reads": self.reads }),
        )
    }

    fn decode(octets: &[u8], spool: &SpoolId) -> core::result::Result<Self, String> {
        let json = open_json(octets)?;
        if json.get("spool").and_then(Json::as_str) != Some(&hex(spool)) {
            return Err("is of another spool".to_owned());
        }
        match json.get("v").and_then(Json::as_u64) {
            Some(1) => {}
            other => return Err(format!("has version {}, this program knows 1", other.unwrap_or(0))),
        }
        Ok(Self {
            number: json.get("number").and_then(Json::as_u64).ok_or("no number")?,
            age: match json.get("age").ok_or("no age")? {
                Json::Null => None,
                age => Some(age.as_u64().ok_or("an age that is none")?),
            },
            // The first spoolers with spread did not tell it.
            reads: json.get("reads").map_or(Some(SPREAD), Json::as_u64).ok_or("no version of entries")?,
        })
    }
}

impl Store {
    /// Writes the pulse of a spooler.
    pub fn beat(&self, spool: &SpoolId, writer: &str, pulse: Pulse) -> Result<()> {
        let (name, octets) = (name(writer), pulse.encode(spool));
        self.call(|client| async move { put(&client, &name, octets.into()).await })
    }

    /// Reads the pulses of spoolers, some at once; `None` of one that has none.
    pub fn pulses(&self, spool: &SpoolId, writers: &[String]) -> Result<Vec<Result<Option<Pulse>>>> {
        let (names, spool): (Vec<String>, SpoolId) =
            (writers.iter().map(|each| name(each)).collect(), *spool);
        self.call(|client| async move {
            let reads = names.into_iter().map(|name| {
                let client = client.clone();
                async move {
                    let Some(octets) = client.read(&name).await? else { return Ok(None) };
                    let bad = |problem| Error::BadFile { path: client.shown(&name), problem };
                    Pulse::decode(&octets, &spool).map(Some).map_err(bad)
                }
            });
            let reads: Vec<_> = reads.collect();
            Ok(stream::iter(reads).buffered(AT_ONCE).collect().await)
        })
    }

    /// Deletes the pulse of a spooler that has ended.
    pub fn forget_pulse(&self, writer: &str) -> Result<()> {
        let name = name(writer);
        self.call(|client| async move {
            let path = client.path(&name);
            match client.store.delete(&path).await.map_err(|error| client.failed(&path, "delete", &error)) {
                Ok(()) | Err(Error::Io { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOOL: SpoolId = [7; 16];

    #[test]
    fn pulses_are_read_as_they_were_written_and_changed_ones_are_refused() {
        let pulse = Pulse::new(9, Some(4));
        let octets = pulse.encode(&SPOOL);
        assert_eq!(Pulse::decode(&octets, &SPOOL), Ok(pulse));
        assert!(Pulse::decode(&octets, &[8; 16]).is_err());
        let first = seal_json(json!({ "v": 1, "spool": hex(&SPOOL), "number": 9, "age": 4 }));
        assert_eq!(Pulse::decode(&first, &SPOOL), Ok(Pulse { reads: 3, ..pulse }));
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 1;
            assert!(Pulse::decode(&changed, &SPOOL).is_err(), "octet {at}");
        }
    }
}
