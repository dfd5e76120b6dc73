//! `StorageHandle`: a storage that Python starts, and volumes that a program supplies.

use crate::{
    errors::{self, OrRaise},
    loops::interrupt::waiting,
    options::Options,
    zenoh::{encoding, encoding::PyEncoding, keyexpr, session::Session, timestamp::PyTimestamp, zbytes},
};
use core::time::Duration;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};
use zwire_engine::{Config, Session as Engine};
use zwire_proto::zenoh::Timestamp;
use zwire_storage::{
    BucketSettings, Error, FolderSettings, KeyValue, Keyed, Memory, ReplicaSettings, Result, Settings, Stats,
    Storage, StorageManager, Timely,
    config::Kind,
    manager::SECTION,
    rules::Value,
    volume::{Persistence, Store},
};

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| errors::storage(py, &error))
    }
}

/// Volume of a program: an object with the methods `put`, `get`, `delete`, `keys` and `close`.
struct Map {
    object: Py<PyAny>,
    durable: bool,
}

impl Map {
    /// Calls the program; an exception becomes the text of the failure.
    fn call<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        let called =
            Python::try_attach(|py| work(py, self.object.bind(py)).map_err(|error| error.to_string()));
        let problem = match called {
            Some(Ok(value)) => return Ok(value),
            Some(Err(problem)) => problem,
            None => "the interpreter has ended".to_owned(),
        };
        Err(Error::Volume { action, problem })
    }
}

/// A value as the program stores it: payload, encoding, time, attachment.
type Stored<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyTimestamp>, Option<Bound<'py, PyAny>>);

impl KeyValue for Map {
    fn persistence(&self) -> Persistence {
        if self.durable { Persistence::Durable } else { Persistence::Volatile }
    }

    fn put(&self, key: &str, stamp: Timestamp, value: &Value) -> Result<()> {
        self.call("store a value", |py, object| {
            let payload = PyBytes::new(py, &value.payload);
            let attachment = value.attachment.as_ref().map(|bytes| PyBytes::new(py, bytes));
            let encoding = PyEncoding(value.encoding.clone());
            object.call_method1("put", (key, payload, encoding, PyTimestamp(stamp), attachment)).map(drop)
        })
    }

    fn delete(&self, key: &str, stamp: Timestamp) -> Result<()> {
        self.call("delete a key", |_, object| {
            object.call_method1("delete", (key, PyTimestamp(stamp))).map(drop)
        })
    }

    fn get(&self, key: &str) -> Result<Option<(Timestamp, Value)>> {
        self.call("return a value", |_, object| {
            let found: Option<Stored<'_>> = object.call_method1("get", (key,))?.extract()?;
            let Some((payload, encoding, stamp, attachment)) = found else { return Ok(None) };
            let value = Value {
                payload: zbytes::extract(&payload)?,
                encoding: encoding::extract(&encoding)?,
                attachment: attachment.map(|bytes| zbytes::extract(&bytes)).transpose()?,
            };
            Ok(Some((stamp.get().0, value)))
        })
    }

    fn keys(&self) -> Result<Vec<(String, Timestamp)>> {
        self.call("list its keys", |_, object| {
            let mut keys = Vec::new();
            for pair in object.call_method0("keys")?.try_iter()? {
                let (key, stamp): (String, Bound<'_, PyTimestamp>) = pair?.extract()?;
                keys.push((key, stamp.get().0));
            }
            Ok(keys)
        })
    }

    fn close(&self) -> Result<()> {
        self.call("close", |_, object| object.call_method0("close").map(drop))
    }
}

/// The volume that the options describe.
fn volume(py: Python<'_>, from: &Options<'_, '_>) -> PyResult<Box<dyn Store>> {
    let deadline: Duration = from.take("deadline")?.unwrap_or(Duration::from_secs(5));
    let durable = from.take("durable")?.unwrap_or(false);
    let (dir, cache) = (from.take::<String>("dir")?, from.take("cache_bytes")?);
    if let Some(object) = from.get("object")? {
        let map = Map { object: object.unbind(), durable };
        let open = || -> Result<Box<dyn Store>> { Ok(Box::new(Keyed::open(Timely::new(map, deadline)?)?)) };
        return py.detach(open).or_raise(py);
    }
    if let Some(bucket) = from.take::<String>("bucket")? {
        let keys = from.take("access_key")?.zip(from.take("secret_key")?);
        let bucket =
            BucketSettings { bucket, endpoint: from.take("url")?, region: from.take("region")?, keys };
        let flag = |name| PyResult::Ok(from.take(name)?.unwrap_or(false));
        let (read_only, delete_at_end) = (flag("read_only")?, flag("delete_at_end")?);
        let kind = Kind::Objects { bucket, read_only, delete_at_end };
        return py.detach(|| zwire_storage::manager::open(&kind)).or_raise(py);
    }
    let Some(dir) = dir.map(PathBuf::from) else { return Ok(Box::new(Memory::default())) };
    let cache = cache.unwrap_or(zwire_storage::disk::CACHE_BYTES);
    let kind = match from.take::<String>("kind")?.as_deref() {
        Some("history") => Kind::Spool { dir, cache },
        Some("files") => Kind::Files { dir, settings: files(from)? },
        _ => Kind::Disk { dir, cache },
    };
    py.detach(|| zwire_storage::manager::open(&kind)).or_raise(py)
}

fn files(from: &Options<'_, '_>) -> PyResult<FolderSettings> {
    let flag = |name| PyResult::Ok(from.take(name)?.unwrap_or(false));
    Ok(FolderSettings {
        read_only: flag("read_only")?,
        follow_links: flag("follow_links")?,
        guess_encoding: flag("guess_encoding")?,
        delete_at_end: flag("delete_at_end")?,
    })
}

fn settings(from: &Options<'_, '_>) -> PyResult<Settings> {
    let given = |name| from.get(name)?.map(|value| keyexpr::extract(&value)).transpose();
    let key = given("key_expr")?.ok_or_else(|| from.wrong("key_expr", "it is missing"))?;
    let mut settings = Settings { prefix: given("strip_prefix")?, ..Settings::new(key) };
    from.set("name", &mut settings.name)?;
    from.set("complete", &mut settings.complete)?;
    from.set("commit_interval", &mut settings.commit)?;
    from.set("gc_period", &mut settings.collection.period)?;
    from.set("gc_lifespan", &mut settings.collection.lifespan)?;
    settings.replication = replication(from)?;
    Ok(settings)
}

/// Parameters of replication, if the first one is given.
fn replication(from: &Options<'_, '_>) -> PyResult<Option<ReplicaSettings>> {
    let Some(interval) = from.take("replication_interval")? else { return Ok(None) };
    let mut settings = ReplicaSettings { interval, ..ReplicaSettings::default() };
    from.set("replication_sub_intervals", &mut settings.sub_intervals)?;
    from.set("replication_hot", &mut settings.hot)?;
    from.set("replication_warm", &mut settings.warm)?;
    from.set("replication_delay", &mut settings.delay)?;
    Ok(Some(settings))
}

/// Starts the storages that the configuration of a session names.
pub(crate) fn of_config(
    py: Python<'_>,
    config: &Config,
    engine: &Engine,
) -> PyResult<Option<Arc<StorageManager>>> {
    let section = config.find(SECTION).filter(|section| !section.is_null()).cloned();
    let section = match section {
        Some(section) => section,
        // Writes to the admin space may name the first storage.
        None if engine.config().adminspace.enabled && engine.config().adminspace.write => {
            Config::parse_json5("{}").or_raise(py)?
        }
        None => return Ok(None),
    };
    py.detach(|| {
        StorageManager::start(engine, &section).inspect_err(|_| {
            // The error is about the storages; the session goes with it.
            let _ = engine.close();
        })
    })
    .or_raise(py)
    .map(Some)
}

/// A storage of a session.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct StorageHandle(Arc<Storage>);

/// Storages that the exit of the interpreter has to close.
static OPEN: Mutex<Vec<Weak<Storage>>> = Mutex::new(Vec::new());

/// Time for the last updates of a storage that the program has not closed.
const LAST: Duration = Duration::from_secs(5);

/// Closes storages that the program has left open: what they have received is stored.
pub(crate) fn close_all(py: Python<'_>) {
    let open: Vec<Weak<Storage>> = core::mem::take(&mut *OPEN.lock());
    py.detach(|| {
        for storage in open.iter().filter_map(Weak::upgrade) {
            if let Err(error) = storage.close(LAST) {
                tracing::error!(storage = storage.name(), %error, "a storage ended without its last updates");
            }
        }
    });
}

impl Drop for StorageHandle {
    /// Closes the storage without the interpreter lock, which its volume may need.
    fn drop(&mut self) {
        // In a forked child, and after a close, this does nothing; without an interpreter the storage ends by itself.
        let _ = Python::try_attach(|py| py.detach(|| self.0.close(LAST)));
    }
}

#[pymethods]
impl StorageHandle {
    #[new]
    fn new(py: Python<'_>, session: &Bound<'_, Session>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let engine = session.get().0.look(py)?;
        engine.check().or_raise(py)?;
        let (settings, store) = Options::read(options, |from| Ok((settings(from)?, volume(py, from)?)))?;
        let storage = Arc::new(py.detach(|| Storage::start(engine, settings, store)).or_raise(py)?);
        let mut open = OPEN.lock();
        open.retain(|known| known.strong_count() > 0);
        open.push(Arc::downgrade(&storage));
        Ok(Self(storage))
    }

    /// Waits until everything that came before is durable.
    fn flush(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let timeout = seconds(timeout);
        waiting(py, |interrupted| self.0.flush(timeout, interrupted))?.or_raise(py)
    }

    /// Counters by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.0.stats()).or_raise(py)?;
        let Stats { contents, .. } = &stats;
        Ok(dict! { py;
            of stats: received, dropped, waiting, stored, deleted, outdated, wildcards, refused, expired, commits,
            failures, queries, replies, lost, problem, digests, differences, aligned, malformed, ahead;
            of contents: keys, tombstones, bytes
        })
    }

    /// Ends the storage.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        py.detach(|| self.0.close(seconds(timeout))).or_raise(py)
    }
}

/// Seconds of Python as a duration, at most a million; NaN and negative numbers are zero.
fn seconds(seconds: f64) -> Duration {
    let longest = Duration::from_secs(1_000_000);
    Duration::try_from_secs_f64(seconds.max(0.0)).map_or(longest, |time| time.min(longest))
}
