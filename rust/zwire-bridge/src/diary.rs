//! Records of ZRE/LOG, on their way to Zenoh.

use crate::worker::{Kind, Peer, Role, Worker};
use serde_json::json;
use zwire_engine::zre::LogRecord;
use zwire_proto::{
    zenoh::{CongestionControl, Encoding, Priority, Qos},
    zre::Uuid,
};

/// Quality of records: they give way to everything else.
const RECORD: Qos = Qos::new(Priority::Background, CongestionControl::Drop, false);

/// Records that are published before messages have their turn.
const AT_ONCE: usize = 256;

impl Worker {
    /// Publishes the records that have come, if this bridge is the one that speaks for its LAN; whether any came.
    pub(crate) fn publish_records(&self) -> bool {
        let Some(log) = &self.log else { return false };
        let mut records = Vec::new();
        log.records().drain_into(&mut records, AT_ONCE);
        if self.role == Role::Active {
            records.iter().for_each(|record| self.publish_record(record));
        }
        !records.is_empty()
    }

    fn publish_record(&self, LogRecord { log, from }: &LogRecord) {
        // A record names its sender by a hash of its endpoint, which two peers may share.
        let host = format!("tcp://{}:", from.ip().to_canonical());
        let is_sender = |peer: &Peer| {
            peer.kind == Kind::Real && peer.log_hash == log.node && peer.address.starts_with(&host)
        };
        let sender = self.peers.iter().find(|(_, peer)| is_sender(peer)).map(|(uuid, _)| *uuid);
        let about = self.peers.iter().find(|(_, peer)| log.peer != 0 && peer.log_hash == log.peer);
        let Some(key) = sender.as_ref().and_then(|uuid| self.network.log(uuid)) else {
            return self.shared.counters.malformed.add(1);
        };
        let lower = |uuid: &Uuid| uuid.to_string().to_lowercase();
        let record = json!({
            "level": log.level.name(),
            "event": log.event.name(),
            "node": sender.as_ref().map(lower),
            "peer": about.map(|(uuid, _)| lower(uuid)),
            "time": log.timestamp().as_secs_f64(),
            "text": String::from_utf8_lossy(&log.data),
        });
        self.put(key, record.to_string().into(), Encoding::APPLICATION_JSON, RECORD);
    }
}
