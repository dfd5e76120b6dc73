//! The tokio runtime: one per process, and a new one after a fork.
//!
//! A runtime does not survive a fork: the child has the object but none of its threads. So it lies in a
//! [`PerProcess`].

use crate::error::Error;
use core::{
    convert::Infallible,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{
    runtime::{Builder, Handle, Runtime as Tokio},
    task::JoinHandle,
};

/// Worker threads of a runtime unless configured: one for sockets, one for timers and a second socket. A
/// Spark executor already runs one Python process per core.
pub const DEFAULT_WORKERS: usize = 2;

static SLOT: PerProcess<Tokio> = PerProcess::new();
static WORKERS: AtomicUsize = AtomicUsize::new(DEFAULT_WORKERS);

/// Sets the number of worker threads of this process's runtime, if it is not built yet.
pub fn set_workers(workers: usize) {
    WORKERS.store(workers.max(1), Ordering::Relaxed);
}

/// A handle to the runtime of this process; builds it on first use.
///
/// # Errors
/// The operating system refuses the threads.
pub fn handle() -> Result<Handle, Error> {
    let build = || {
        Builder::new_multi_thread()
            .worker_threads(WORKERS.load(Ordering::Relaxed))
            .thread_name("zwire-io")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|source| Error::Runtime { source: Arc::new(source) })
    };
    // A runtime that another thread forestalled has run nothing yet, so it may be shut down.
    SLOT.try_get(build, Tokio::shutdown_background).map(|runtime| runtime.handle().clone())
}

/// Calls `turn` once every `period` on the runtime, until it returns false. It must be quick.
///
/// # Errors
/// The operating system refuses the threads.
pub fn every(period: Duration, mut turn: impl FnMut() -> bool + Send + 'static) -> Result<(), Error> {
    handle()?.spawn(async move {
        loop {
            tokio::time::sleep(period).await;
            if !turn() {
                return;
            }
        }
    });
    Ok(())
}

/// Number of forks between the first process and this one, counted in the children.
static FORKS: AtomicU32 = AtomicU32::new(0);

#[cfg(unix)]
#[allow(unsafe_code, reason = "registering a fork handler; it does nothing but add to an atomic")]
fn watch_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static WATCH: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler is a static function that only touches an atomic, which is all that a child
    // of a threaded process may do. Registering fails only for want of memory, and then every check
    // below still compares process ids.
    WATCH.call_once(|| {
        if unsafe { libc::pthread_atfork(None, None, Some(in_child)) } == 0 {
            WATCHED.store(true, Ordering::Release);
        }
    });
}

#[cfg(not(unix))]
fn watch_forks() {
    // Without fork there is nothing to watch.
    WATCHED.store(true, Ordering::Release);
}

static WATCHED: AtomicBool = AtomicBool::new(false);

/// Identity of the process that made an object, to detect use after a fork.
///
/// Checked by every call, so it must not cost a system call: a fork handler counts, and equal counts
/// mean the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    pid: u32,
    forks: u32,
}

impl Birth {
    /// The current process.
    #[must_use]
    pub fn here() -> Self {
        watch_forks();
        Self { pid: std::process::id(), forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Fails in any other process than that of [`Birth::here`].
    ///
    /// # Errors
    /// [`Error::Forked`] names both processes.
    pub fn check(self) -> Result<(), Error> {
        if self.is_here() { Ok(()) } else { Err(Error::Forked { born: self.pid, here: std::process::id() }) }
    }

    /// Number of forks before the process of birth: differs between a process and its children.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.forks
    }

    /// Whether the current process is the process of birth.
    #[must_use]
    pub fn is_here(self) -> bool {
        if WATCHED.load(Ordering::Acquire) {
            FORKS.load(Ordering::Relaxed) == self.forks
        } else {
            std::process::id() == self.pid
        }
    }
}

/// Task of a server, which is aborted by [`Self::close`] or when this is dropped. A forked child has no task to end.
#[derive(Debug)]
pub struct ServerTask {
    birth: Birth,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl ServerTask {
    /// Starts the task on the runtime of this process.
    ///
    /// # Errors
    /// The operating system refuses the threads of the runtime.
    pub fn start(server: impl Future<Output = ()> + Send + 'static) -> Result<Self, Error> {
        Ok(Self { birth: Birth::here(), task: Mutex::new(Some(handle()?.spawn(server))) })
    }

    /// Aborts the task and waits for its end. A second call does nothing.
    ///
    /// # Errors
    /// The operating system refuses the threads of the runtime.
    pub fn close(&self) -> Result<(), Error> {
        let Some(task) = self.task.lock().take() else { return Ok(()) };
        if self.birth.is_here() {
            task.abort();
            // The only result is that it was aborted.
            let _ = handle()?.block_on(task);
        }
        Ok(())
    }
}

impl Drop for ServerTask {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut()
            && self.birth.is_here()
        {
            task.abort();
        }
    }
}

/// Slot of a value that does not survive a fork, such as one with threads.
///
/// The first use in a process makes the value. A forked child makes its own and leaks the inherited one on
/// purpose: dropping it could join threads that do not exist there.
#[derive(Debug)]
pub struct PerProcess<T>(AtomicPtr<(Birth, T)>);

impl<T: Send + Sync + 'static> PerProcess<T> {
    /// An empty slot.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a slot is a static")]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The value of this process; `make` makes it on first use.
    pub fn get(&'static self, make: impl Fn() -> T) -> &'static T {
        let Ok(value) = self.try_get(|| Ok::<_, Infallible>(make()), drop);
        value
    }

    /// Same as [`get`](Self::get) for a value that may fail to be made. `discard` takes the value of a thread
    /// that made one while another thread published its own.
    ///
    /// # Errors
    /// Those of `make`.
    #[allow(unsafe_code, reason = "values are leaked boxes and never freed, so the pointer stays valid")]
    pub fn try_get<E>(
        &'static self,
        make: impl Fn() -> Result<T, E>,
        discard: impl Fn(T),
    ) -> Result<&'static T, E> {
        loop {
            let current = self.0.load(Ordering::Acquire);
            // SAFETY: a non-null pointer comes from Box::into_raw below and is never freed. No lock is taken,
            // so a lock that was held at the time of a fork cannot cause a hang.
            if let Some((birth, value)) = unsafe { current.as_ref() }
                && birth.is_here()
            {
                return Ok(value);
            }
            let fresh = Box::into_raw(Box::new((Birth::here(), make()?)));
            if self.0.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: `fresh` was not published, so this is its only owner.
                discard(unsafe { Box::from_raw(fresh) }.1);
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code, reason = "a test of fork has to fork")]
    fn a_child_knows_that_it_is_one() {
        let birth = Birth::here();
        assert!(birth.is_here());
        // SAFETY: the child touches atomics and leaves by `_exit`; no lock, no allocation.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let strange = !birth.is_here();
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(i32::from(!strange)) };
        }
        let mut status = -1;
        // SAFETY: `status` is a local variable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0, "the child saw that it is another process");
        assert!(birth.is_here(), "the parent still is the same");
    }
}
