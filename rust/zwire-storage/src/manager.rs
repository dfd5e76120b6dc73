//! [`StorageManager`]: the storages of a session, as configured and as changed while it runs.

use crate::{
    Disk, Folder, Keyed, Memory, Objects, Spooled,
    config::{self, Configured, Kind, Volumes},
    error::{Error, Result},
    storage::Storage,
    volume::Store,
};
use core::time::Duration;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};
use zwire_engine::{PLUGIN_PATH, Session, StatusEntry, plugin_report};
use zwire_proto::zenoh::Encoding;

/// Path of the section in the configuration.
pub const SECTION: &str = "plugins/storage_manager";

/// Longest time for the last updates of a storage that is removed.
const CLOSE: Duration = Duration::from_secs(10);

struct Running {
    storage: Storage,
    configured: Configured,
}

/// The storages of a session.
pub struct StorageManager {
    session: Session,
    volumes: Mutex<Volumes>,
    storages: Mutex<BTreeMap<String, Running>>,
}

/// Opens the volume of a storage.
///
/// # Errors
/// The folder cannot be used.
pub fn open(kind: &Kind) -> Result<Box<dyn Store>> {
    Ok(match kind {
        Kind::Memory => Box::new(Memory::default()),
        Kind::Disk { dir, cache } => Box::new(Disk::open(dir, *cache)?),
        Kind::Spool { dir, cache } => Box::new(Spooled::open(dir, *cache)?),
        Kind::Objects { bucket, read_only, delete_at_end } => {
            Box::new(Keyed::open(Objects::new(bucket, *read_only, *delete_at_end)?)?)
        }
        Kind::Files { dir, settings } => Box::new(Keyed::open(Folder::open(dir, *settings)?)?),
    })
}

/// Settings and counters of the replication of a storage.
fn replication(running: &Running) -> Option<Value> {
    let settings = running.configured.settings.replication?;
    let (fingerprint, events) = running.storage.replication()?;
    let stats = running.storage.stats().ok()?;
    Some(json!({
        "interval": settings.interval.as_secs_f64(),
        "sub_intervals": settings.sub_intervals,
        "hot": settings.hot,
        "warm": settings.warm,
        "propagation_delay": u64::try_from(settings.delay.as_millis()).unwrap_or(u64::MAX),
        // A number of JSON is not exact beyond 2^53.
        "fingerprint": fingerprint.to_string(),
        "events": events,
        "digests": stats.digests,
        "differences": stats.differences,
        "aligned": stats.aligned,
        "malformed": stats.malformed,
        "ahead": stats.ahead,
    }))
}

impl StorageManager {
    /// Starts the storages of a section. As in zenohd a storage that fails is logged and left out, unless the section
    /// has `__required__: true`.
    ///
    /// # Errors
    /// The section is not of its form, or it is required and a storage fails.
    pub fn start(session: &Session, section: &Value) -> Result<Arc<Self>> {
        let required = section.get("__required__").and_then(Value::as_bool).unwrap_or(false);
        let volumes = config::volumes(SECTION, section)?;
        let manager = Arc::new(Self {
            session: session.clone(),
            volumes: Mutex::new(volumes),
            storages: Mutex::default(),
        });
        let weak = Arc::downgrade(&manager);
        session.add_status(Arc::new(move || weak.upgrade().map(|manager| manager.status())));
        let weak = Arc::downgrade(&manager);
        session.on_section(
            "storage_manager",
            Arc::new(move |_, after| {
                let manager = weak.upgrade().ok_or("the storages are closed")?;
                manager.apply(after).map_err(|error| error.to_string())
            }),
        );
        for (id, storage) in section.get("storages").and_then(Value::as_object).into_iter().flatten() {
            if let Err(error) = manager.add(id, storage) {
                if required {
                    return Err(error);
                }
                tracing::error!(storage = id, %error, "a configured storage did not start: the others go on without it");
            }
        }
        Ok(manager)
    }

    /// Starts a storage, in place of one of that name. A section that is the same changes nothing.
    ///
    /// # Errors
    /// The section is wrong, or the volume cannot be opened; a storage of that name goes on.
    pub fn add(&self, name: &str, section: &Value) -> Result<()> {
        let path = format!("{SECTION}/storages/{name}");
        let configured = config::storage(&path, name, section, &self.volumes.lock())?;
        let mut storages = self.storages.lock();
        if storages.get(name).is_some_and(|running| running.configured.is_same(&configured)) {
            return Ok(());
        }
        let old = storages.remove(name);
        let closed = old.as_ref().map_or(Ok(()), |old| old.storage.close(CLOSE));
        // The volume of the old one is free from here on.
        let old = old.map(|old| old.configured);
        match self.run(configured) {
            Ok(running) => drop(storages.insert(name.to_owned(), running)),
            Err(error) => {
                match old.map(|old| self.run(old)) {
                    Some(Ok(running)) => drop(storages.insert(name.to_owned(), running)),
                    Some(Err(error)) => {
                        tracing::error!(path, %error, "the storage is off: neither its new settings nor its earlier ones start");
                    }
                    None => {}
                }
                return Err(error);
            }
        }
        closed
    }

    fn run(&self, configured: Configured) -> Result<Running> {
        let store = open(&configured.kind)?;
        let storage = Storage::start(&self.session, configured.settings.clone(), store)?;
        tracing::info!(storage = storage.name(), key = %storage.key(), "storage started");
        Ok(Running { storage, configured })
    }

    /// Ends a storage. What a volume on the disk holds stays there.
    ///
    /// # Errors
    /// No storage has that name, or its last updates are not stored.
    pub fn remove(&self, name: &str) -> Result<()> {
        let removed = self.storages.lock().remove(name);
        let Some(removed) = removed else {
            let path = format!("{SECTION}/storages/{name}");
            return Err(Error::Setting { path, problem: "no storage has this name".to_owned() });
        };
        removed.storage.close(CLOSE)
    }

    /// Applies a changed section: ends the storages that are gone from it, then starts those that are new or differ. In
    /// order that a refused section changes nothing, all of it is read first.
    ///
    /// # Errors
    /// A setting is wrong, and nothing has changed; or a volume cannot be opened.
    pub fn apply(&self, section: &Value) -> Result<()> {
        let volumes = config::volumes(SECTION, section)?;
        let none = Map::new();
        let wanted = section.get("storages").and_then(Value::as_object).unwrap_or(&none);
        for (name, storage) in wanted {
            config::storage(&format!("{SECTION}/storages/{name}"), name, storage, &volumes)?;
        }
        *self.volumes.lock() = volumes;
        let gone: Vec<String> =
            self.storages.lock().keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            self.remove(&name)?;
        }
        wanted.iter().try_for_each(|(name, storage)| self.add(name, storage))
    }

    /// Keys of the admin space, with encodings and payloads.
    fn status(&self) -> Vec<StatusEntry> {
        const VERSION: &str = env!("CARGO_PKG_VERSION");
        const STATUS: &str = "status/plugins/storage_manager";
        let json = |path: String, value: Value| {
            (format!("{STATUS}/{path}"), Encoding::APPLICATION_JSON, value.to_string().into_bytes())
        };
        let text = |path: String| {
            (format!("{STATUS}/{path}"), Encoding::TEXT_PLAIN, PLUGIN_PATH.as_bytes().to_vec())
        };
        let mut all = vec![
            plugin_report("storage_manager", VERSION),
            json("version".to_owned(), VERSION.into()),
            text("__path__".to_owned()),
        ];
        for name in self.volumes.lock().keys() {
            all.push(plugin_report(&format!("storage_manager/{name}"), VERSION));
            all.push(json(format!("volumes/{name}"), Value::Object(Map::new())));
            all.push(text(format!("volumes/{name}/__path__")));
        }
        for (name, running) in &*self.storages.lock() {
            let mut shown = Map::new();
            for field in ["key_expr", "strip_prefix", "volume"] {
                shown.extend(
                    running.configured.shown.get(field).map(|value| (field.to_owned(), value.clone())),
                );
            }
            all.push(json(format!("storages/{name}"), shown.into()));
            if let Some(state) = replication(running) {
                all.push(json(format!("storages/{name}/replication"), state));
            }
        }
        all
    }

    /// Ends all storages; the first failure is returned.
    ///
    /// # Errors
    /// The last updates of a storage are not stored.
    pub fn close(&self) -> Result<()> {
        let storages = core::mem::take(&mut *self.storages.lock());
        storages.into_values().map(|running| running.storage.close(CLOSE)).fold(Ok(()), Result::and)
    }
}
