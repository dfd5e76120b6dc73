//! Events of a ZRE network, and log records of its nodes, as rows.

use crate::{taker::Rows, time::micros};
use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use zwire_engine::zre::{LogRecord, NodeEvent};
use zwire_proto::zre::{
    Generation, Uuid,
    node::{EventKind, ZreEvent},
};
use zwire_spool::{Error, Gap, ShardWriter, Value};

/// Most peers remembered after they have left; beyond it the oldest are forgotten.
const MAX_GONE: usize = 4096;

/// Protocol version of a generation; 1 for generations without a version number in their messages.
fn version(generation: Generation) -> i64 {
    generation.version().map_or(1, i64::from)
}

/// Peers that have left, with their times of leaving.
#[derive(Default)]
pub(crate) struct Gone {
    since: BTreeMap<Uuid, Duration>,
    /// In the order of leaving; may still contain peers that have returned.
    order: VecDeque<(Uuid, Duration)>,
}

impl Gone {
    fn leaves(&mut self, peer: Uuid, time: Duration) {
        if self.order.len() >= MAX_GONE
            && let Some((oldest, at)) = self.order.pop_front()
            && self.since.get(&oldest) == Some(&at)
        {
            self.since.remove(&oldest);
        }
        self.since.insert(peer, time);
        self.order.push_back((peer, time));
    }

    /// Removes a peer; returns how long it was gone, `None` for a new peer.
    fn returns(&mut self, peer: &Uuid, time: Duration) -> Option<Duration> {
        self.since.remove(peer).map(|since| time.saturating_sub(since))
    }
}

pub(crate) struct Events {
    /// Column names of files: rows are written in stored form.
    pub(crate) columns: Vec<&'static str>,
    pub(crate) gone: Gone,
}

/// Gap for the messages that are missing by the sequence numbers of a peer.
fn lost(event: &ZreEvent, lost: u16) -> Gap {
    let (name, peer) = (event.name.as_str(), event.peer);
    // If the numbers went back, the number of missing messages is unknown.
    let first = event.sequence.filter(|_| lost > 0);
    let last = first.map(|first| first.wrapping_add(lost - 1));
    let detail = match lost {
        0 => format!("messages of the peer {name} ({peer}) are missing: its numbers went back"),
        _ => format!("messages of the peer {name} ({peer})"),
    };
    Gap {
        kind: "gap",
        source: Some((peer.as_bytes().to_vec(), 0)),
        numbers: first.zip(last).map(|(first, last)| (first.into(), last.into())),
        count: (lost > 0).then_some(lost.into()),
        detail,
        ..Gap::default()
    }
}

impl Rows for Events {
    type Item = NodeEvent;

    fn key<'a>(&self, item: &'a NodeEvent) -> &'a str {
        item.event.name.as_str()
    }

    fn look(&mut self, NodeEvent { event, time }: &NodeEvent) -> Option<Gap> {
        match &event.kind {
            EventKind::MessagesLost { lost: count } => Some(lost(event, *count)),
            EventKind::Exit => {
                self.gone.leaves(event.peer, *time);
                None
            }
            EventKind::Enter { .. } => {
                let away = self.gone.returns(&event.peer, *time)?.as_secs_f64();
                let (name, peer) = (event.name.as_str(), event.peer);
                Some(Gap {
                    kind: "reconnect",
                    source: Some((peer.as_bytes().to_vec(), 0)),
                    detail: format!("the peer {name} ({peer}) was gone for {away:.3} s"),
                    ..Gap::default()
                })
            }
            _ => None,
        }
    }

    fn push(
        &mut self,
        writer: &mut ShardWriter,
        NodeEvent { event, time }: &NodeEvent,
        _: i64,
    ) -> Result<Option<u64>, Error> {
        // Missing messages are in the gap log, and STOP is no event of the network.
        if matches!(event.kind, EventKind::MessagesLost { .. } | EventKind::Stop) {
            return Ok(None);
        }
        let frames = event.kind.content();
        let headers: Option<Vec<(&str, &str)>> = event
            .kind
            .headers()
            .map(|headers| headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect());
        let status = match &event.kind {
            EventKind::Enter { .. } | EventKind::Join { .. } | EventKind::Leave { .. } => event.status,
            _ => None,
        };
        let value = |column: &&'static str| match *column {
            "event" => Value::Text(event.kind.name()),
            "peer" => Value::Bytes(event.peer.as_bytes()),
            "peer_name" => Value::Text(event.name.as_str()),
            "group" => event.kind.group().into(),
            "headers" => headers.as_deref().map_or(Value::Null, Value::Map),
            "content" => frames.map_or(Value::Null, Value::List),
            "status" => status.map(i64::from).into(),
            "sequence" => event.sequence.map(i64::from).into(),
            "endpoint" => Value::Text(event.address.as_str()),
            "version" => event.generation.map(version).into(),
            "recv_ts" => micros(*time).into(),
            _ => Value::Null,
        };
        let row: Vec<_> = self.columns.iter().map(value).collect();
        writer.push(&row)?;
        Ok(Some(frames.unwrap_or_default().iter().map(|frame| frame.len() as u64).sum()))
    }
}

/// Conversion of the records of a ZRE/LOG collector, which have no numbers, to rows of the named columns.
pub(crate) struct Records(pub(crate) Vec<&'static str>);

impl Rows for Records {
    type Item = LogRecord;

    fn key<'a>(&self, _: &'a LogRecord) -> &'a str {
        "a record of ZRE/LOG"
    }

    fn push(
        &mut self,
        writer: &mut ShardWriter,
        LogRecord { log, .. }: &LogRecord,
        time: i64,
    ) -> Result<Option<u64>, Error> {
        let text: Cow<'_, str> = String::from_utf8_lossy(&log.data);
        let value = |column: &&'static str| match *column {
            // Values that the protocol leaves undefined are kept as they are.
            "level" => Value::Int(log.level.0.cast_signed().into()),
            "event" => Value::Int(log.event.0.cast_signed().into()),
            "node" => Value::Int(log.node.into()),
            "peer" => Value::Int(log.peer.into()),
            "time" => micros(log.timestamp()).into(),
            "data" => Value::Text(&text),
            "recv_ts" => Value::Int(time),
            _ => Value::Null,
        };
        let row: Vec<_> = self.0.iter().map(value).collect();
        writer.push(&row)?;
        Ok(Some(log.data.len() as u64))
    }
}
