//! Threads that wait for the network, common to all stores of the process.

use parking_lot::Mutex;
use std::{future::Future, io};
use tokio::runtime::{Builder, Runtime};

/// Threads: one decrypts and copies while the other receives.
const THREADS: usize = 2;

/// Runtime of a process, by its id: a forked child has none of the threads of its parent.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// The runtime of this process. One that was inherited from a parent is left as it is: its threads are not here.
pub(crate) fn runtime() -> io::Result<&'static Runtime> {
    let here = std::process::id();
    let mut place = RUNTIME.lock();
    if let Some((process, runtime)) = *place
        && process == here
    {
        return Ok(runtime);
    }
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(THREADS).thread_name("zwire-tier").enable_all().build()?;
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    *place = Some((here, runtime));
    Ok(runtime)
}

/// Waits for a future.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> io::Result<T> {
    Ok(runtime()?.block_on(future))
}
