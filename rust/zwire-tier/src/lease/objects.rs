//! Objects of a lease in a store: JSON with a checksum.

use super::{Answer, Author, Beat, LeaseObject, Record, Request};
use crate::{
    manifest::Manifest,
    place::{Access, Place},
    store::{Clock, Store},
    writer::{create, put},
};
use serde_json::{Value as Json, json};
use zwire_spool::{Error, Result, SpoolId, hex, open_json, seal_json};

impl LeaseObject {
    pub(crate) fn name(self) -> String {
        let (epoch, ending) = match self {
            Self::Claim(epoch) => (epoch, "claim"),
            Self::Start(epoch) => (epoch, "start"),
            Self::Beat(epoch) => (epoch, "beat"),
        };
        format!("lease/{epoch:010}.{ending}")
    }
}

impl Record {
    pub(crate) fn encode(&self, spool: &SpoolId) -> Vec<u8> {
        let mut json = match self {
            Self::Claim(Author { writer, host }) => json!({ "writer": writer, "host": host }),
            Self::Start(offsets) => json!({ "offsets": offsets }),
            Self::Beat(Beat { number, released }) => json!({ "number": number, "released": released }),
        };
        json["v"] = 1.into();
        json["spool"] = hex(spool).into();
        seal_json(json)
    }

    /// Reads an object; returns why it is invalid.
    pub(crate) fn decode(
        object: LeaseObject,
        octets: &[u8],
        spool: &SpoolId,
    ) -> core::result::Result<Self, String> {
        let json = open_json(octets)?;
        let text = |name: &str| json.get(name).and_then(Json::as_str).ok_or(format!("no {name}"));
        match json.get("v").and_then(Json::as_u64) {
            Some(1) => {}
            other => return Err(format!("has version {}, this program knows 1", other.unwrap_or(0))),
        }
        if text("spool")? != hex(spool) {
            return Err(format!("is of spool {}, not of {}", text("spool")?, hex(spool)));
        }
        match object {
            LeaseObject::Claim(_) => {
                let (writer, host) = (text("writer")?.to_owned(), text("host")?.to_owned());
                Ok(Self::Claim(Author { writer, host }))
            }
            LeaseObject::Start(_) => {
                let offsets = json.get("offsets").and_then(Json::as_array).ok_or("no offsets")?;
                let offsets = offsets.iter().map(Json::as_u64).collect::<Option<_>>();
                Ok(Self::Start(offsets.ok_or("an offset that is none")?))
            }
            LeaseObject::Beat(_) => Ok(Self::Beat(Beat {
                number: json.get("number").and_then(Json::as_u64).ok_or("no number")?,
                released: json.get("released").and_then(Json::as_bool).ok_or("no released")?,
            })),
        }
    }
}

impl Store {
    /// Store with an address, for the calls of a lease: they fail where those of a writer would be repeated.
    pub fn of_lease(url: &str, clock: Clock) -> Result<Self> {
        Ok(Self::at(Place::parse(url)?, Access::Lease, clock))
    }

    /// Epoch of the last entry of the manifest; 0 if there is none.
    pub fn epoch(&self, spool: &SpoolId) -> Result<u32> {
        let spool = *spool;
        self.call(|client| async move {
            let mut manifest = Manifest::default();
            client.follow(&spool, &mut manifest).await?;
            Ok(manifest.author.epoch)
        })
    }

    /// Carries out a call of the lease of a spool. Fails if the store does, so that the answer is
    /// [`Answer::Failed`], and with [`Error::BadFile`] for an object that cannot be read.
    pub fn lease(&self, spool: &SpoolId, request: &Request) -> Result<Answer> {
        let spool = *spool;
        let request = request.clone();
        self.call(|client| async move {
            match request {
                Request::Get(object) => {
                    let name = object.name();
                    let Some(octets) = client.read(&name).await? else { return Ok(Answer::Found(None)) };
                    let record = Record::decode(object, &octets, &spool);
                    let bad = |problem| Error::BadFile { path: client.shown(&name), problem };
                    Ok(Answer::Found(Some(record.map_err(bad)?)))
                }
                Request::Create(object, record) => {
                    let created = create(&client, &object.name(), record.encode(&spool).into()).await?;
                    Ok(if created { Answer::Done } else { Answer::Exists })
                }
                Request::Put(object, record) => {
                    put(&client, &object.name(), record.encode(&spool).into()).await?;
                    Ok(Answer::Done)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lease::{Event, Lease},
        place::{Access, Place},
    };
    use core::time::Duration;

    const SPOOL: SpoolId = [7; 16];

    #[test]
    fn objects_are_read_as_they_were_written_and_changed_ones_are_refused() {
        let author = Author { writer: "ab".to_owned(), host: "here".to_owned() };
        let records = [
            (LeaseObject::Claim(3), Record::Claim(author)),
            (LeaseObject::Start(3), Record::Start(vec![0, u64::MAX])),
            (LeaseObject::Beat(3), Record::Beat(Beat { number: 9, released: true })),
        ];
        for (object, record) in records {
            let octets = record.encode(&SPOOL);
            assert_eq!(Record::decode(object, &octets, &SPOOL), Ok(record));
            assert!(Record::decode(object, &octets, &[8; 16]).is_err_and(|problem| problem.contains("0707")));
            for at in 0..octets.len() {
                let mut changed = octets.clone();
                changed[at] ^= 1;
                assert!(Record::decode(object, &changed, &SPOOL).is_err(), "octet {at}");
            }
        }
    }

    #[test]
    fn two_spoolers_take_turns_in_a_folder() {
        let folder = std::env::temp_dir().join(format!("zwire-lease-{}", std::process::id()));
        let place = Place::of_folder(&folder).unwrap();
        let stores = [(); 2].map(|()| Store::at(place.clone(), Access::Lease, || Duration::ZERO));
        let author = |number: usize| Author { writer: number.to_string(), host: "here".to_owned() };
        let mut leases = [0, 1].map(|number| Lease::new(author(number), 0, Duration::ZERO));
        let mut events = Vec::new();
        let mut alive = vec![0, 1];
        for half in 0..60 {
            let now = Duration::from_millis(half * 500);
            if half == 20 {
                alive.retain(|&number| !leases[number].holds());
                assert_eq!(alive.len(), 1, "one of two holds");
            }
            for &number in &alive {
                while let Some(request) = leases[number].next(now) {
                    let answer = stores[number].lease(&SPOOL, &request).unwrap();
                    let event = leases[number].answer(answer, now);
                    if let Some(Event::Claimed { epoch, floors }) = &event {
                        leases[number].start(*epoch, vec![floors.as_ref().map_or(5, |floors| floors[0] + 5)]);
                    }
                    events.extend(event.map(|event| (half, event)));
                }
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        let held: Vec<_> = events.iter().filter(|(_, event)| matches!(event, Event::Holding(_))).collect();
        assert!(matches!(held[..], [(_, Event::Holding(1)), (20..=40, Event::Holding(2))]), "{events:?}");
        let floors = Some(vec![5]);
        assert!(
            events.iter().any(|(_, event)| *event == Event::Claimed { epoch: 2, floors: floors.clone() })
        );
    }
}
