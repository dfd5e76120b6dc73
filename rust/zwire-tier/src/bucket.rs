//! Objects of a bucket of S3 by their names, for storages.

use crate::{
    place::{BucketSettings, Place, connect_bucket, failed},
    runtime::wait,
};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, ObjectStoreExt as _, PutOptions, PutPayload,
    path::Path as ObjectPath,
};
use std::sync::Arc;
use zwire_spool::{Error, Result};

/// Objects whose labels are requested at the same time.
const HEADS: usize = 32;

/// Codes of servers for objects that they do not take.
const FINAL: [&str; 7] = [
    "KeyTooLongError",
    "MetadataTooLarge",
    "EntityTooLarge",
    "InvalidArgument",
    "InvalidURI",
    "XMinioInvalidObjectName",
    "413 Payload Too Large",
];

/// An object: its octets, media type and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labelled {
    /// Octets of the object.
    pub octets: Bytes,
    /// Media type.
    pub media: Option<String>,
    /// Metadata of the user by name.
    pub labels: Vec<(String, String)>,
}

impl Labelled {
    /// Metadata of that name.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }
}

/// A bucket. Calls block, and may come from any thread but those of a runtime.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    place: Place,
}

impl Bucket {
    /// A client of a bucket; nothing is requested yet.
    ///
    /// # Errors
    /// The settings contradict each other.
    pub fn new(settings: &BucketSettings) -> Result<Self> {
        let place = Place::parse(&format!("s3://{}", settings.bucket))?;
        let store = connect_bucket(settings, &place)?;
        Ok(Self { store, place })
    }

    /// Address of the bucket.
    #[must_use]
    pub fn address(&self) -> &str {
        self.place.as_str()
    }

    fn path(name: &str) -> Result<ObjectPath> {
        ObjectPath::parse(name)
            .map_err(|error| Error::Usage(format!("{name:?} is no name of an object: {error}")))
    }

    fn done<T>(
        &self,
        path: &ObjectPath,
        doing: &'static str,
        result: std::io::Result<object_store::Result<T>>,
    ) -> Result<T> {
        let unreachable = |error: std::io::Error| Error::Unreachable {
            place: self.place.to_string(),
            problem: format!("no threads: {error}"),
            at: None,
        };
        result.map_err(unreachable)?.map_err(|error| failed(&self.place, path, doing, &error))
    }

    /// Stores an object, in place of one of that name.
    ///
    /// # Errors
    /// The bucket does not take it, or does not answer.
    pub fn put(&self, name: &str, object: Labelled) -> Result<()> {
        let path = Self::path(name)?;
        let mut attributes = Attributes::new();
        if let Some(media) = object.media {
            attributes.insert(Attribute::ContentType, media.into());
        }
        for (label, text) in object.labels {
            attributes.insert(Attribute::Metadata(label.into()), text.into());
        }
        let options = PutOptions { attributes, ..PutOptions::default() };
        let put = self.store.put_opts(&path, PutPayload::from(object.octets), options);
        match self.done(&path, "write", wait(put)) {
            Err(Error::Unreachable { problem, .. }) if is_final(&problem) => Err(Error::Usage(problem)),
            done => done.map(drop),
        }
    }

    /// An object; `None` if there is none.
    ///
    /// # Errors
    /// The bucket does not answer, or refuses.
    pub fn get(&self, name: &str) -> Result<Option<Labelled>> {
        let path = Self::path(name)?;
        let got = wait(async {
            let got = self.store.get(&path).await?;
            let mut object = labelled(&got.attributes);
            object.octets = got.bytes().await?;
            Ok(object)
        });
        self.absent(&path, got)
    }

    /// `None` for an object that does not exist in a bucket that does.
    fn absent<T>(
        &self,
        path: &ObjectPath,
        got: std::io::Result<object_store::Result<T>>,
    ) -> Result<Option<T>> {
        match self.done(path, "read", got) {
            Ok(found) => Ok(Some(found)),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object, if there is one.
    ///
    /// # Errors
    /// The bucket does not answer, or refuses.
    pub fn delete(&self, name: &str) -> Result<()> {
        let path = Self::path(name)?;
        self.absent(&path, wait(self.store.delete(&path))).map(drop)
    }

    /// All objects with their labels, without octets: a request for each.
    ///
    /// # Errors
    /// The bucket does not answer, or refuses.
    pub fn list(&self) -> Result<Vec<(String, Labelled)>> {
        let head = |path: ObjectPath| async move {
            let options = GetOptions { head: true, ..GetOptions::default() };
            match self.store.get_opts(&path, options).await {
                Ok(got) => Ok(Some((path.to_string(), labelled(&got.attributes)))),
                // It was deleted since the list was made.
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let all = wait(async {
            let names: Vec<ObjectPath> =
                self.store.list(None).map_ok(|meta| meta.location).try_collect().await?;
            stream::iter(names.into_iter().map(head)).buffer_unordered(HEADS).try_collect().await
        });
        let all: Vec<Option<_>> = self.done(&ObjectPath::default(), "list", all)?;
        Ok(all.into_iter().flatten().collect())
    }
}

/// Whether a server refuses this object, and will refuse it again. Of other answers with status 400 some are of the moment,
/// such as `RequestTimeout`.
fn is_final(problem: &str) -> bool {
    FINAL.iter().any(|code| problem.contains(code))
}

fn labelled(attributes: &Attributes) -> Labelled {
    let mut object = Labelled::default();
    for (attribute, text) in attributes {
        match attribute {
            Attribute::ContentType => object.media = Some(text.to_string()),
            Attribute::Metadata(name) => object.labels.push((name.to_string(), text.to_string())),
            _ => {}
        }
    }
    object
}
