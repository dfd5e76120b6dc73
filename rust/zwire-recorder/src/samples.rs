//! Samples of Zenoh as rows.

use crate::{
    identity::{Identity, Recognition, id_bytes, id_octets, octets},
    numbers::{Number, Numbers, Publisher},
    taker::Rows,
    time::micros,
};
use bytes::Bytes;
use std::{collections::HashMap, sync::Arc};
use zwire_engine::{Origins, Queue};
use zwire_proto::zenoh::{
    CongestionControl, Encoding, KeyExpr, Reliability,
    advanced::Miss,
    session::{Sample, SampleKind},
};
use zwire_spool::{Error, Gap, LastNumber, Layout, ShardWriter, Value};

/// Most missed ranges that wait for the samples before them.
const MAX_AHEAD: usize = 1024;

/// Most links with a cached locator; beyond it all are looked up again.
const MAX_LINKS: usize = 4096;

/// Declares the parts of a sample, each with the column of files that stores it: rows are written in stored form.
macro_rules! fields {
    ($($name:literal => $field:ident,)+) => {
        #[derive(Clone, Copy)]
        enum Field {
            $($field,)+
            /// No part of a sample, such as a column that the shard fills.
            Other,
        }

        impl Field {
            fn of(column: &str) -> Self {
                match column {
                    $($name => Self::$field,)+
                    _ => Self::Other,
                }
            }
        }
    };
}

fields! {
    "key" => Key,
    "payload" => Payload,
    "kind" => Kind,
    "encoding" => Encoding,
    "ts" => Time,
    "hlc" => Hlc,
    "hlc_id" => HlcId,
    "source_zid" => SourceZid,
    "source_eid" => SourceEid,
    "source_sn" => SourceSn,
    "attachment" => Attachment,
    "priority" => Priority,
    "congestion_block" => Block,
    "express" => Express,
    "reliable" => Reliable,
    "link" => Link,
    "recv_ts" => Received,
}

pub(crate) struct Samples {
    /// Keys of earlier subscribers of the recorder, which record the samples on them.
    earlier: Vec<KeyExpr>,
    fields: Vec<Field>,
    numbers: Numbers,
    /// Samples that no cache has, and those of them that came before earlier samples.
    misses: Option<Arc<Queue<Miss>>>,
    ahead: Vec<Miss>,
    encoding: (Encoding, String),
    origins: Arc<Origins>,
    links: HashMap<u32, Option<Arc<str>>>,
    /// Link of the last sample, which is mostly that of the next one too.
    link: (u32, Option<Arc<str>>),
}

impl Samples {
    pub(crate) fn new(
        layout: &Layout,
        earlier: Vec<KeyExpr>,
        numbers: Numbers,
        misses: Option<Arc<Queue<Miss>>>,
        origins: Arc<Origins>,
    ) -> Self {
        let encoding = (Encoding::DEFAULT, Encoding::DEFAULT.to_string());
        let fields = layout.columns.iter().map(|column| Field::of(column.name)).collect();
        let links = HashMap::new();
        Self {
            earlier,
            fields,
            numbers,
            misses,
            ahead: Vec::new(),
            encoding,
            origins,
            links,
            link: (0, None),
        }
    }

    fn change_link(&mut self, number: u32) {
        if self.links.len() >= MAX_LINKS {
            self.links.clear();
        }
        let locator = self.links.entry(number).or_insert_with(|| self.origins.locator(number));
        self.link = (number, locator.clone());
    }
}

impl Rows for Samples {
    type Item = Sample;

    fn is_ours(&self, sample: &Sample) -> bool {
        !self.earlier.iter().any(|earlier| earlier.intersects(&sample.key))
    }

    fn key<'a>(&self, sample: &'a Sample) -> &'a str {
        sample.key.as_str()
    }

    fn look(&mut self, sample: &Sample) -> Option<Gap> {
        let info = sample.source_info.as_ref()?;
        let (kind, numbers, count) = match self.numbers.see(info) {
            Number::Next | Number::Late => return None,
            Number::Missing(from, to) => ("gap", (from, to), u64::from(to.wrapping_sub(from)) + 1),
            Number::Again => ("duplicate", (info.sn, info.sn), 1),
        };
        Some(Gap {
            kind,
            source: Some((id_bytes(info.zid), info.eid)),
            numbers: Some(numbers),
            count: Some(count),
            detail: sample.key.as_str().to_owned(),
            ..Gap::default()
        })
    }

    fn misses(&mut self, is_idle: bool, place: &dyn Fn(Publisher) -> Option<usize>) -> Vec<(usize, Gap)> {
        let Some(queue) = &self.misses else { return Vec::new() };
        while let Ok(Some(miss)) = queue.try_recv() {
            self.ahead.push(miss);
        }
        let mut gaps = Vec::new();
        let all = is_idle || self.ahead.len() > MAX_AHEAD;
        let numbers = &mut self.numbers;
        self.ahead.retain(|miss| {
            let Some(shard) = place((miss.source.zid, miss.source.eid)) else { return true };
            if !all && numbers.is_ahead(miss) {
                return true;
            }
            let gap = |(from, to): (u32, u32)| Gap {
                kind: "gap",
                source: Some((id_bytes(miss.source.zid), miss.source.eid)),
                numbers: Some((from, to)),
                count: Some(u64::from(to.wrapping_sub(from)) + 1),
                detail: "a heartbeat of the publisher tells of them, and no cache has them".to_owned(),
                ..Gap::default()
            };
            gaps.extend(numbers.miss(miss).map(|missing| (shard, gap(missing))));
            false
        });
        self.ahead.drain(..self.ahead.len().saturating_sub(MAX_AHEAD));
        gaps
    }

    fn publishers(&self) -> Vec<LastNumber> {
        self.numbers.last()
    }

    fn publisher(&self, sample: &Sample) -> Option<Publisher> {
        sample.source_info.as_ref().map(|info| (info.zid, info.eid))
    }

    fn identify(&self, sample: &Sample, recognition: &Recognition) -> Option<Identity> {
        Some(recognition.of_sample(sample))
    }

    fn detach(sample: &mut Sample) {
        // A small payload would keep the octets of everything that came with it.
        sample.payload = Bytes::copy_from_slice(&sample.payload).into();
        sample.attachment = sample.attachment.take().map(|octets| Bytes::copy_from_slice(&octets));
    }

    fn stand_by(&mut self) {
        let Some(queue) = &self.misses else { return };
        while let Ok(Some(miss)) = queue.try_recv() {
            self.ahead.push(miss);
        }
        self.ahead.drain(..self.ahead.len().saturating_sub(MAX_AHEAD));
    }

    fn begin(&mut self, numbers: Numbers) {
        self.numbers.learn(numbers);
    }

    fn push(&mut self, writer: &mut ShardWriter, sample: &Sample, time: i64) -> Result<Option<u64>, Error> {
        if self.encoding.0 != sample.encoding {
            self.encoding = (sample.encoding.clone(), sample.encoding.to_string());
        }
        if self.link.0 != sample.link {
            self.change_link(sample.link);
        }
        let hlc_id = sample.timestamp.map(|timestamp| id_octets(timestamp.id));
        let zid = sample.source_info.as_ref().map(|info| id_octets(info.zid));
        // More columns than any table has.
        let mut row = [Value::Null; 24];
        for (field, value) in self.fields.iter().zip(&mut row) {
            *value = match field {
                Field::Key => Value::Text(sample.key.as_str()),
                Field::Payload if sample.kind == SampleKind::Delete => Value::Null,
                Field::Payload => Value::Shared(&sample.payload),
                Field::Kind => Value::Int((sample.kind == SampleKind::Delete).into()),
                Field::Encoding => Value::Text(&self.encoding.1),
                Field::Time => {
                    sample.timestamp.and_then(|timestamp| micros(timestamp.time.to_duration())).into()
                }
                Field::Hlc => sample.timestamp.map(|timestamp| timestamp.time.0.cast_signed()).into(),
                Field::HlcId => hlc_id.as_ref().map(octets).into(),
                Field::SourceZid => zid.as_ref().map(octets).into(),
                Field::SourceEid => sample.source_info.as_ref().map(|info| i64::from(info.eid)).into(),
                Field::SourceSn => sample.source_info.as_ref().map(|info| i64::from(info.sn)).into(),
                Field::Attachment => sample.attachment.as_ref().into(),
                Field::Priority => Value::Int(sample.qos.priority() as i64),
                Field::Block => Value::Bool(sample.qos.congestion() != CongestionControl::Drop),
                Field::Express => Value::Bool(sample.qos.express()),
                Field::Reliable => Value::Bool(sample.reliability == Reliability::Reliable),
                Field::Link => self.link.1.as_deref().into(),
                Field::Received => Value::Int(time),
                Field::Other => Value::Null,
            };
        }
        writer.push(&row[..self.fields.len()])?;
        Ok(Some(sample.payload.len() as u64))
    }
}
