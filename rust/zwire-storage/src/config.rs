//! Section `plugins/storage_manager` of the configuration, as zenohd reads it (`zenoh-services` 4.1).

use crate::{
    disk::CACHE_BYTES,
    error::{Error, Result},
    files::FolderSettings,
    replication::ReplicaSettings,
    storage::{Collection, Settings},
};
use core::time::Duration;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    env,
    path::{Component, PathBuf},
};
use zwire_proto::zenoh::KeyExpr;
use zwire_tier::BucketSettings;

/// Path of the volumes.
const VOLUMES: &str = "plugins/storage_manager/volumes";

/// Largest number of seconds: `Duration` panics far beyond it.
const MAX_SECONDS: f64 = 1e9;

/// Words of zenohd that have no effect here: no library is loaded.
const IGNORED: [&str; 5] = ["backend_search_dirs", "__path__", "__required__", "__config__", "__plugin__"];

/// Volume that a storage is kept in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In memory.
    Memory,
    /// On the disk, in a folder.
    Disk {
        /// Folder of the storage.
        dir: PathBuf,
        /// Memory for pages of the database, in octets.
        cache: usize,
    },
    /// On the disk, with every update of the past.
    Spool {
        /// Folder of the storage.
        dir: PathBuf,
        /// Memory for pages of the database, in octets.
        cache: usize,
    },
    /// In a bucket of S3.
    Objects {
        /// The bucket, and how it is reached.
        bucket: BucketSettings,
        /// Whether updates are refused.
        read_only: bool,
        /// Whether all objects are deleted when the storage ends.
        delete_at_end: bool,
    },
    /// As plain files in a folder.
    Files {
        /// Folder of the storage.
        dir: PathBuf,
        /// What may be done there.
        settings: FolderSettings,
    },
}

/// A storage as configured.
#[derive(Clone, Debug)]
pub struct Configured {
    /// What the storage does.
    pub settings: Settings,
    /// Where it keeps its values.
    pub kind: Kind,
    /// The section as written, without what is private, for the admin space.
    pub shown: Value,
}

impl Configured {
    /// Whether a storage with these settings need not start again.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.shown == other.shown && self.kind == other.kind
    }
}

/// A volume as configured.
#[derive(Clone, Debug, Default)]
pub struct VolumeSection {
    backend: String,
    /// Options that all storages in the volume share.
    options: Value,
}

/// Volumes by their names.
pub type Volumes = BTreeMap<String, VolumeSection>;

fn refuse(path: &str, problem: impl Into<String>) -> Error {
    Error::Setting { path: path.to_owned(), problem: problem.into() }
}

fn object<'v>(path: &str, value: &'v Value) -> Result<&'v Map<String, Value>> {
    value.as_object().ok_or_else(|| refuse(path, "expected an object"))
}

/// Reads the fields of an object; one that is not asked for is an error.
struct Fields<'v> {
    path: String,
    fields: &'v Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'v> Fields<'v> {
    fn new(path: &str, value: &'v Value) -> Result<Self> {
        Ok(Self { path: path.to_owned(), fields: object(path, value)?, known: IGNORED.to_vec() })
    }

    fn get(&mut self, name: &'static str) -> Option<&'v Value> {
        self.known.push(name);
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    fn text(&mut self, name: &'static str) -> Result<Option<&'v str>> {
        let value = self.get(name);
        value
            .map(|value| value.as_str().ok_or_else(|| refuse(&self.place(name), "expected a text")))
            .transpose()
    }

    fn key(&mut self, name: &'static str) -> Result<Option<KeyExpr>> {
        let text = self.text(name)?;
        text.map(|text| KeyExpr::autocanonize(text).map_err(|e| refuse(&self.place(name), e.to_string())))
            .transpose()
    }

    /// A boolean, or its text as zenohd takes it.
    fn flag(&mut self, name: &'static str) -> Result<bool> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(refuse(&self.place(name), "expected true or false")),
        }
    }

    fn seconds(&mut self, name: &'static str) -> Result<Option<Duration>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let seconds = value.as_f64().filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds));
        let seconds = seconds.ok_or_else(|| refuse(&self.place(name), "expected a number of seconds"))?;
        Ok(Some(Duration::from_secs_f64(seconds)))
    }

    fn number(&mut self, name: &'static str) -> Result<Option<u64>> {
        let value = self.get(name);
        value
            .map(|value| value.as_u64().ok_or_else(|| refuse(&self.place(name), "expected a number")))
            .transpose()
    }

    fn end(self) -> Result<()> {
        match self.fields.keys().find(|name| !self.known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let known = self.known[IGNORED.len()..].join(", ");
                Err(refuse(&self.place(name), format!("unknown; known here: {known}")))
            }
        }
    }
}

/// Backend of the volume of that name.
///
/// # Errors
/// It is not one of this program.
fn backend(path: &str, name: &str) -> Result<()> {
    let instead = match name {
        "memory" | "disk" | "redb" | "fs" | "filesystem" | "spool" | "s3" => return Ok(()),
        "rocksdb" => "its files cannot be read; the volume `disk` takes its place",
        "influxdb" | "influxdb2" => {
            "this release does not have it; its volumes are `memory`, `disk`, `spool`, `fs` and `s3`"
        }
        _ => "no backend has this name; known: memory, disk, spool, fs, s3",
    };
    Err(refuse(path, format!("{name}: {instead}")))
}

/// Reads the volumes. Those named like their backends need no entry.
///
/// # Errors
/// A backend that this program does not have.
pub fn volumes(path: &str, section: &Value) -> Result<Volumes> {
    let usual = ["memory", "disk", "redb", "fs", "filesystem", "spool", "s3"];
    let built_in = |name: &str| VolumeSection { backend: name.to_owned(), ..VolumeSection::default() };
    let mut volumes: Volumes = usual.map(|name| (name.to_owned(), built_in(name))).into();
    let mut fields = Fields::new(path, section)?;
    let (all, _) = (
        fields.get("volumes"),
        fields.get("storages").map(|all| object(&fields.place("storages"), all)).transpose()?,
    );
    fields.end()?;
    let path = format!("{path}/volumes");
    for (name, volume) in all.map_or(Ok(&Map::new()), |all| object(&path, all))? {
        let of_volume = format!("{path}/{name}");
        let used = object(&of_volume, volume)?.get("backend").and_then(Value::as_str).unwrap_or(name);
        backend(&of_volume, used)?;
        volumes.insert(name.clone(), VolumeSection { backend: used.to_owned(), options: volume.clone() });
    }
    Ok(volumes)
}

/// Reads one storage.
///
/// # Errors
/// The first setting that is unknown, of the wrong type, or out of range.
pub fn storage(path: &str, name: &str, section: &Value, volumes: &Volumes) -> Result<Configured> {
    let mut fields = Fields::new(path, section)?;
    let key = fields.key("key_expr")?.ok_or_else(|| refuse(path, "key_expr is missing"))?;
    let mut settings = Settings { name: name.to_owned(), ..Settings::new(key) };
    settings.prefix = fields.key("strip_prefix")?;
    settings.complete = fields.flag("complete")?;
    settings.commit = fields.seconds("commit_interval")?.unwrap_or(Settings::COMMIT);
    if let Some(collection) = fields.get("garbage_collection") {
        settings.collection = self::collection(&fields.place("garbage_collection"), collection)?;
    }
    if let Some(section) = fields.get("replication") {
        settings.replication = Some(replication(&fields.place("replication"), section)?);
    }
    let volume = fields.get("volume").ok_or_else(|| refuse(path, "volume is missing"))?;
    let kind = kind(&fields.place("volume"), name, volume, volumes)?;
    fields.end()?;
    crate::place::Place::new(settings.key.clone(), settings.prefix.clone()).map_err(|error| match error {
        Error::Setting { path: field, problem } => refuse(&format!("{path}/{field}"), problem),
        other => other,
    })?;
    let mut shown = section.clone();
    public(&mut shown);
    Ok(Configured { settings, kind, shown })
}

/// Removes what is private, at any depth.
fn public(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| name != "private");
            map.values_mut().for_each(public);
        }
        Value::Array(all) => all.iter_mut().for_each(public),
        _ => {}
    }
}

fn collection(path: &str, section: &Value) -> Result<Collection> {
    let mut fields = Fields::new(path, section)?;
    let usual = Collection::default();
    let (period, lifespan) = (fields.seconds("period")?, fields.seconds("lifespan")?);
    let period = period.unwrap_or(usual.period);
    if period < Duration::from_millis(10) {
        return Err(refuse(
            &fields.place("period"),
            "expected at least 0.01 s: each collection looks at every tombstone",
        ));
    }
    fields.end()?;
    Ok(Collection { period, lifespan: lifespan.unwrap_or(usual.lifespan) })
}

fn replication(path: &str, section: &Value) -> Result<ReplicaSettings> {
    let mut fields = Fields::new(path, section)?;
    let usual = ReplicaSettings::default();
    let settings = ReplicaSettings {
        interval: fields.seconds("interval")?.unwrap_or(usual.interval),
        sub_intervals: fields.number("sub_intervals")?.unwrap_or(usual.sub_intervals),
        hot: fields.number("hot")?.unwrap_or(usual.hot),
        warm: fields.number("warm")?.unwrap_or(usual.warm),
        delay: fields.number("propagation_delay")?.map_or(usual.delay, Duration::from_millis),
    };
    settings.check().map_err(|(field, problem)| refuse(&fields.place(field), problem))?;
    fields.end()?;
    Ok(settings)
}

fn kind(path: &str, storage: &str, volume: &Value, volumes: &Volumes) -> Result<Kind> {
    let id = volume.as_str().or_else(|| volume.get("id").and_then(Value::as_str));
    let id =
        id.ok_or_else(|| refuse(path, "expected the name of a volume, or an object with the name as `id`"))?;
    let Some(used) = volumes.get(id) else {
        backend(path, id)?;
        return Err(refuse(path, format!("{id}: no volume has this name")));
    };
    let named = Value::Object([("id".to_owned(), id.into())].into_iter().collect());
    let mut fields = Fields::new(path, if volume.is_string() { &named } else { volume })?;
    fields.text("id")?;
    let kind = match used.backend.as_str() {
        "memory" => Kind::Memory,
        "fs" | "filesystem" => files(&mut fields)?,
        "s3" => objects(&mut fields, id, &used.options)?,
        kept => disk(&mut fields, storage, kept == "spool")?,
    };
    fields.end()?;
    Ok(kind)
}

/// Options of the S3 backend of zenohd: of the storage, and of its volume.
fn objects(fields: &mut Fields<'_>, id: &str, options: &Value) -> Result<Kind> {
    let bucket = fields.text("bucket")?.ok_or_else(|| refuse(&fields.path, "bucket is missing"))?.to_owned();
    // The bucket has to exist in any case.
    fields.flag("reuse_bucket")?;
    let read_only = fields.flag("read_only")?;
    let delete_at_end = match fields.text("on_closure")? {
        None | Some("do_nothing") => false,
        Some("destroy_bucket") => true,
        Some(_) => return Err(refuse(&fields.place("on_closure"), "expected do_nothing or destroy_bucket")),
    };
    let none = Value::Object(Map::new());
    let path = format!("{}/{id}", VOLUMES);
    let mut of_volume = Fields::new(&path, if options.is_null() { &none } else { options })?;
    of_volume.text("backend")?;
    let text = |of: &mut Fields<'_>, name| Ok::<_, Error>(of.text(name)?.map(str::to_owned));
    let (endpoint, region) = (text(&mut of_volume, "url")?, text(&mut of_volume, "region")?);
    let keys = match of_volume.get("private") {
        None => None,
        Some(private) => {
            let mut private = Fields::new(&of_volume.place("private"), private)?;
            let keys = text(&mut private, "access_key")?.zip(text(&mut private, "secret_key")?);
            private.end()?;
            keys
        }
    };
    of_volume.end()?;
    Ok(Kind::Objects { bucket: BucketSettings { bucket, endpoint, region, keys }, read_only, delete_at_end })
}

/// Folder of a volume: below `root` unless the path is absolute.
fn folder(fields: &mut Fields<'_>, usual: Option<&str>, root: PathBuf) -> Result<PathBuf> {
    let dir = fields.text("dir")?.or(usual).ok_or_else(|| refuse(&fields.path, "dir is missing"))?;
    if PathBuf::from(dir).components().any(|part| part == Component::ParentDir) {
        return Err(refuse(&fields.place("dir"), "`..` is not allowed"));
    }
    Ok(root.join(dir))
}

/// Folder that a variable of the environment names, or one in that of Zenoh.
fn root(variable: &str, name: &str) -> PathBuf {
    let home = || {
        let zenoh = env::var_os("ZENOH_HOME").map(PathBuf::from);
        let user = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".zenoh");
        zenoh.unwrap_or_else(user).join(name)
    };
    env::var_os(variable).map_or_else(home, PathBuf::from)
}

fn disk(fields: &mut Fields<'_>, storage: &str, history: bool) -> Result<Kind> {
    let dir = folder(fields, Some(storage), root("ZWIRE_STORAGE_ROOT", "zwire_storage"))?;
    let cache = match fields.number("cache_bytes")? {
        None => CACHE_BYTES,
        Some(bytes) => usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes >= 1 << 20)
            .ok_or_else(|| refuse(&fields.place("cache_bytes"), "expected at least 1048576"))?,
    };
    Ok(if history { Kind::Spool { dir, cache } } else { Kind::Disk { dir, cache } })
}

/// Options of the filesystem backend of zenohd.
fn files(fields: &mut Fields<'_>) -> Result<Kind> {
    let dir = folder(fields, None, root("ZENOH_BACKEND_FS_ROOT", "zenoh_backend_fs"))?;
    let keep = fields.get("keep_mime_types").is_none_or(|keep| keep != &Value::Bool(false));
    let delete_at_end = match fields.text("on_closure")? {
        None | Some("do_nothing") => false,
        Some("delete_all") => true,
        Some(_) => return Err(refuse(&fields.place("on_closure"), "expected do_nothing or delete_all")),
    };
    let (read_only, follow_links) = (fields.flag("read_only")?, fields.flag("follow_links")?);
    let settings = FolderSettings { read_only, follow_links, guess_encoding: !keep, delete_at_end };
    Ok(Kind::Files { dir, settings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(section: &Value) -> Result<Configured> {
        storage("s", "demo", section, &volumes("p", &json!({}))?)
    }

    #[test]
    fn settings_of_zenohd_are_read() {
        let configured = read(&json!({
            "key_expr": "demo/**", "strip_prefix": "demo", "complete": "true",
            "volume": {"id": "disk", "dir": "/data/demo"},
            "garbage_collection": {"period": 5, "lifespan": 60},
            "replication": {"interval": 10.0, "sub_intervals": 5, "hot": 6, "warm": 30, "propagation_delay": 250},
        }))
        .unwrap();
        assert_eq!(configured.kind, Kind::Disk { dir: "/data/demo".into(), cache: CACHE_BYTES });
        let settings = configured.settings;
        assert_eq!((settings.key.as_str(), settings.complete), ("demo/**", true));
        assert_eq!(settings.prefix.unwrap().as_str(), "demo");
        assert_eq!(settings.collection.lifespan, Duration::from_secs(60));
        assert_eq!(read(&json!({"key_expr": "a", "volume": "memory"})).unwrap().kind, Kind::Memory);
    }

    #[test]
    fn a_volume_may_have_another_name() {
        let volumes =
            volumes("p", &json!({"volumes": {"mine": {"backend": "memory"}, "memory": {}}})).unwrap();
        let section = json!({"key_expr": "a", "volume": {"id": "mine"}});
        assert_eq!(storage("s", "demo", &section, &volumes).unwrap().kind, Kind::Memory);
    }

    #[test]
    fn a_bucket_has_settings_in_two_places() {
        let section = json!({"volumes": {"s3": {
            "url": "http://localhost:9000", "region": "eu", "private": {"access_key": "a", "secret_key": "geheim"},
        }}});
        let volumes = volumes("p", &section).unwrap();
        let read =
            |volume: Value| storage("s", "demo", &json!({"key_expr": "a", "volume": volume}), &volumes);
        let kind = read(json!({"id": "s3", "bucket": "b", "reuse_bucket": true})).unwrap().kind;
        let bucket = BucketSettings {
            bucket: "b".to_owned(),
            endpoint: Some("http://localhost:9000".to_owned()),
            region: Some("eu".to_owned()),
            keys: Some(("a".to_owned(), "geheim".to_owned())),
        };
        assert_eq!(kind, Kind::Objects { bucket: bucket.clone(), read_only: false, delete_at_end: false });
        assert!(!format!("{kind:?}").contains("geheim"));
        assert!(read(json!("s3")).is_err());
    }

    #[test]
    fn wrong_settings_are_refused_with_their_path() {
        for (section, problem) in [
            (json!([]), "s: expected an object"),
            (json!({"volume": "memory"}), "s: key_expr is missing"),
            (json!({"key_expr": "a"}), "s: volume is missing"),
            (json!({"key_expr": "a//b", "volume": "memory"}), "s/key_expr: "),
            (
                json!({"key_expr": "a/**", "strip_prefix": "b", "volume": "memory"}),
                "s/strip_prefix: b is no prefix",
            ),
            (json!({"key_expr": "a", "volume": "memory", "complet": true}), "s/complet: unknown"),
            (
                json!({"key_expr": "a", "volume": "memory", "complete": 1}),
                "s/complete: expected true or false",
            ),
            (json!({"key_expr": "a", "volume": "rocksdb"}), "s/volume: rocksdb: its files cannot be read"),
            (json!({"key_expr": "a", "volume": "other"}), "s/volume: other: no backend has this name"),
            (json!({"key_expr": "a", "volume": {"id": "memory", "dir": "x"}}), "s/volume/dir: unknown"),
            (json!({"key_expr": "a", "volume": "fs"}), "s/volume: dir is missing"),
            (
                json!({"key_expr": "a", "volume": {"id": "fs", "dir": "x", "on_closure": "x"}}),
                "s/volume/on_closure: ",
            ),
            (json!({"key_expr": "a", "volume": {"id": "disk", "dir": "../x"}}), "s/volume/dir: `..`"),
            (
                json!({"key_expr": "a", "volume": "memory", "garbage_collection": {"period": 0}}),
                "s/garbage_collection/period: ",
            ),
            (
                json!({"key_expr": "a", "volume": "memory", "replication": {"sub_intervals": 0}}),
                "s/replication/sub_intervals: ",
            ),
            (
                json!({"key_expr": "a", "volume": "memory", "replication": {"interval": 0.001}}),
                "s/replication/interval: ",
            ),
            (
                json!({"key_expr": "a", "volume": "memory", "replication": {"propagation_delay": 5001}}),
                "s/replication/propagation_delay: ",
            ),
        ] {
            let error = read(&section).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.starts_with(problem), "{section}: {error}");
        }
    }

    #[test]
    fn private_parts_are_not_shown() {
        let mut value = json!({"a": {"private": {"key": 1}, "b": [{"private": 2, "c": 3}]}});
        public(&mut value);
        assert_eq!(value, json!({"a": {"b": [{"c": 3}]}}));
    }
}
