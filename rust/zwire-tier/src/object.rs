//! Ranged reads of one object, some of them ahead of the reader.

use crate::{place::Place, runtime::runtime};
use bytes::Bytes;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, path::Path as ObjectPath};
use parking_lot::Mutex;
use std::{collections::VecDeque, io, ops::Range, sync::Arc};
use tokio::task::JoinHandle;
use zwire_spool::{Error, ReadAt};

/// Octets of the first request, which tells the size: it has the head of a segment, or all of a small one.
const FIRST: u64 = 64 << 10;
/// Octets of a request, at most and at least.
const CHUNK: u64 = 4 << 20;
const LEAST: u64 = 256 << 10;
/// Requests in progress, and chunks not yet read: the memory of a reader. Chunks are read in order, so that one which is
/// late holds up the others; with fewer, a reader waits longer than it reads.
const AHEAD: usize = 12;

/// Octets that are fetched.
enum Fetch {
    Task(JoinHandle<Result<Bytes, Error>>),
    Done(Bytes),
}

struct Chunk {
    range: Range<u64>,
    fetch: Fetch,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Fetch::Task(task) = &self.fetch {
            task.abort();
        }
    }
}

/// Requests in progress, and octets that are still needed; without a hole between them.
struct Window {
    chunks: VecDeque<Chunk>,
    /// Position up to which octets are expected to be needed.
    until: u64,
}

/// Object that is read from positions.
pub(crate) struct Object {
    store: Arc<dyn ObjectStore>,
    place: Place,
    path: ObjectPath,
    size: u64,
    window: Mutex<Window>,
}

async fn get(
    store: Arc<dyn ObjectStore>,
    place: Place,
    path: ObjectPath,
    range: Range<u64>,
) -> Result<Bytes, Error> {
    let octets = store.get_range(&path, range.clone()).await;
    let octets = octets.map_err(|error| crate::place::failed(&place, &path, "read", &error))?;
    if octets.len() as u64 != range.end - range.start {
        let problem =
            format!("could not read {path}: {} octets of {} came", octets.len(), range.end - range.start);
        return Err(Error::Unreachable { place: place.to_string(), problem, at: None });
    }
    Ok(octets)
}

impl Object {
    /// Opens an object; reads its first octets.
    pub(crate) async fn open(
        store: Arc<dyn ObjectStore>,
        place: Place,
        path: ObjectPath,
    ) -> Result<Self, Error> {
        let failed = |error| crate::place::failed(&place, &path, "read", &error);
        let options = GetOptions { range: Some(GetRange::Bounded(0..FIRST)), ..GetOptions::default() };
        let (size, first) = match store.get_opts(&path, options).await {
            Ok(found) => (found.meta.size, found.bytes().await.map_err(failed)?),
            // An empty object has no range.
            Err(error) => match store.head(&path).await {
                Ok(found) if found.size == 0 => (0, Bytes::new()),
                _ => return Err(failed(error)),
            },
        };
        let chunk = Chunk { range: 0..first.len() as u64, fetch: Fetch::Done(first) };
        let window = Mutex::new(Window { chunks: VecDeque::from([chunk]), until: 0 });
        Ok(Self { store, place, path, size, window })
    }

    fn request(&self, from: u64, len: u64) -> io::Result<Chunk> {
        let range = from..(from + len.clamp(LEAST, CHUNK)).min(self.size);
        let task = get(self.store.clone(), self.place.clone(), self.path.clone(), range.clone());
        Ok(Chunk { range, fetch: Fetch::Task(runtime()?.spawn(task)) })
    }

    /// Octets from a position to the end of a request.
    fn fetch(&self, at: u64, wanted: u64) -> io::Result<Bytes> {
        let mut window = self.window.lock();
        let Window { chunks, until } = &mut *window;
        while chunks.front().is_some_and(|chunk| chunk.range.end <= at || chunk.range.start > at) {
            chunks.pop_front();
        }
        // A buffer may have room for more than is needed of the last octets.
        let until = if at < *until { *until } else { at + wanted }.min(self.size);
        loop {
            let next = chunks.back().map_or(at, |chunk| chunk.range.end);
            if next >= until || chunks.len() >= AHEAD {
                break;
            }
            chunks.push_back(self.request(next, until - next)?);
        }
        let Some(front) = chunks.front_mut() else { return Ok(Bytes::new()) };
        let octets = match &mut front.fetch {
            Fetch::Done(octets) => octets.clone(),
            Fetch::Task(task) => {
                let fetched = runtime()?.block_on(task);
                match fetched.map_err(io::Error::other).and_then(|fetched| fetched.map_err(io::Error::other))
                {
                    Ok(octets) => {
                        front.fetch = Fetch::Done(octets.clone());
                        octets
                    }
                    Err(error) => {
                        // The next call asks again.
                        chunks.clear();
                        return Err(error);
                    }
                }
            }
        };
        Ok(octets.slice((at - front.range.start) as usize..))
    }
}

impl ReadAt for Object {
    fn len(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn append_at(&self, buffer: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        let wanted = buffer.capacity() - buffer.len();
        if wanted == 0 || at >= self.size {
            return Ok(0);
        }
        let octets = self.fetch(at, wanted as u64)?;
        let len = octets.len().min(wanted);
        buffer.extend_from_slice(&octets[..len]);
        Ok(len)
    }

    fn expect(&self, until: u64) {
        self.window.lock().until = until;
    }
}
