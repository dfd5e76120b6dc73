//! Volume in a bucket of S3, in the layout of `zenoh-backend-s3`: the object of a key has the key as its name.

use crate::{
    error::{Error, Result},
    keyed::KeyValue,
    rules::Value,
    volume::Persistence,
};
use bytes::Bytes;
use std::path::PathBuf;
use zwire_proto::zenoh::{Encoding, Timestamp};
use zwire_tier::{Bucket, BucketSettings, Labelled};

/// Object of the prefix itself.
const ROOT: &str = "@@none_key@@";
/// Label with the time of a value, and its name in older releases of the original.
const STAMP: &str = "zenoh-timestamp";
const OLD_STAMP: &str = "timestamp_uhlc";
/// Label with the attachment of a value as hexadecimal digits; the original keeps none.
const ATTACHMENT: &str = "zwire-attachment";
/// Label with length and checksum of the octets.
const CHECK: &str = "zwire-check";

/// Longest attachment: all labels of an object together have 2 KiB.
const MAX_ATTACHMENT: usize = 512;

/// Longest name of an object.
const MAX_NAME: usize = 1024;

/// Objects of a bucket.
pub struct Objects {
    bucket: Bucket,
    read_only: bool,
    delete_at_end: bool,
}

impl Objects {
    /// A volume in a bucket that exists.
    ///
    /// # Errors
    /// The settings contradict each other.
    pub fn new(settings: &BucketSettings, read_only: bool, delete_at_end: bool) -> Result<Self> {
        let bucket = Bucket::new(settings).map_err(|error| refused("open the bucket", &error))?;
        Ok(Self { bucket, read_only, delete_at_end })
    }

    fn failed(&self, action: &'static str, error: zwire_spool::Error) -> Error {
        match error {
            // The storage waits, and tries again.
            error @ (zwire_spool::Error::Unreachable { .. } | zwire_spool::Error::Denied { .. }) => {
                Error::Io { file: PathBuf::from(self.bucket.address()), source: std::io::Error::other(error) }
            }
            error => refused(action, &error),
        }
    }

    fn writable(&self, action: &'static str) -> Result<()> {
        if self.read_only {
            return Err(Error::Volume { action, problem: "the volume is read-only".to_owned() });
        }
        Ok(())
    }
}

fn refused(action: &'static str, error: &zwire_spool::Error) -> Error {
    Error::Volume { action, problem: error.to_string() }
}

fn name(key: &str) -> &str {
    if key.is_empty() { ROOT } else { key }
}

fn check(octets: &[u8]) -> String {
    format!("{}-{:08x}", octets.len(), crc32c::crc32c(octets))
}

/// Refuses what no server takes: names of that length, and media types that are no header.
fn check_name(action: &'static str, key: &str, encoding: &Encoding) -> Result<()> {
    let refused = |problem| Err(Error::Volume { action, problem });
    if name(key).len() > MAX_NAME {
        return refused(format!("{key}: an object takes names up to {MAX_NAME} octets"));
    }
    let media = encoding.to_string();
    if !media.bytes().all(|octet| matches!(octet, b' '..=b'~')) {
        return refused(format!("{key}: the encoding {media:?} has characters that a header does not take"));
    }
    Ok(())
}

/// Time of an object; `None` for one of another program.
fn stamp(object: &Labelled) -> Option<Timestamp> {
    object.label(STAMP).or_else(|| object.label(OLD_STAMP))?.parse().ok()
}

impl KeyValue for Objects {
    fn persistence(&self) -> Persistence {
        Persistence::Durable
    }

    fn put(&self, key: &str, stamp: Timestamp, value: &Value) -> Result<()> {
        let action = "store a value";
        self.writable(action)?;
        check_name(action, key, &value.encoding)?;
        let mut labels =
            vec![(STAMP.to_owned(), stamp.exact().to_string()), (CHECK.to_owned(), check(&value.payload))];
        if let Some(attachment) = &value.attachment {
            if attachment.len() > MAX_ATTACHMENT {
                let problem = format!("{key}: an object takes attachments up to {MAX_ATTACHMENT} octets");
                return Err(Error::Volume { action, problem });
            }
            labels.push((ATTACHMENT.to_owned(), zwire_spool::hex(attachment)));
        }
        let object =
            Labelled { octets: value.payload.clone(), media: Some(value.encoding.to_string()), labels };
        self.bucket.put(name(key), object).map_err(|error| self.failed(action, error))
    }

    fn delete(&self, key: &str, _: Timestamp) -> Result<()> {
        let action = "delete a key";
        self.writable(action)?;
        self.bucket.delete(name(key)).map_err(|error| self.failed(action, error))
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        let object = self.bucket.get(name(key)).map_err(|error| self.failed("return a value", error))?;
        let Some(object) = object else { return Ok(None) };
        if object.label(CHECK).is_some_and(|noted| noted != check(&object.octets)) {
            let problem = "its octets differ from those that were stored".to_owned();
            let file = PathBuf::from(self.bucket.address());
            return Err(Error::Damaged { file, key: Some(key.to_owned()), problem });
        }
        let Some(stamp) = stamp(&object) else { return Ok(None) };
        let attachment = object.label(ATTACHMENT).and_then(zwire_spool::unhex).map(Bytes::from);
        let encoding = object.media.map_or(Encoding::DEFAULT, Encoding::from_text);
        Ok(Some((stamp, Value { payload: object.octets, encoding, attachment })))
    }

    fn keys(&self) -> Result<Vec<(String, Timestamp)>> {
        let all = self.bucket.list().map_err(|error| self.failed("list its keys", error))?;
        let key = |name: String| if name == ROOT { String::new() } else { name };
        Ok(all.into_iter().filter_map(|(name, object)| Some((key(name), stamp(&object)?))).collect())
    }

    fn close(&self) -> Result<()> {
        if self.delete_at_end && !self.read_only {
            let action = "delete its objects";
            for (name, _) in self.bucket.list().map_err(|error| self.failed(action, error))? {
                self.bucket.delete(&name).map_err(|error| self.failed(action, error))?;
            }
        }
        Ok(())
    }
}
