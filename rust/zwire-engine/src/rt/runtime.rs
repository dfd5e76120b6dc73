//! The tokio runtime: one per process, and a new one after a fork.
//!
//! A runtime does not survive a fork: the child has the object but none of its threads. So the slot
//! holds the id of the process that built it. In a new process a fresh one is built, and the
//! inherited one is leaked on purpose: dropping it would join threads that do not exist.

use crate::error::Error;
use core::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};
use std::sync::{Arc, Once};
use tokio::runtime::{Builder, Handle, Runtime as Tokio};

/// Worker threads of a runtime unless configured: one for sockets, one for timers and a second socket. A
/// Spark executor already runs one Python process per core.
pub const DEFAULT_WORKERS: usize = 2;

struct Slot {
    pid: u32,
    runtime: Tokio,
}

static SLOT: AtomicPtr<Slot> = AtomicPtr::new(core::ptr::null_mut());
static WORKERS: AtomicUsize = AtomicUsize::new(DEFAULT_WORKERS);

/// Sets the number of worker threads of this process's runtime, if it is not built yet.
pub fn set_workers(workers: usize) {
    WORKERS.store(workers.max(1), Ordering::Relaxed);
}

/// A handle to the runtime of this process; builds it on first use.
///
/// # Errors
/// The operating system refuses the threads.
#[allow(unsafe_code, reason = "slots are leaked boxes and never freed, so the pointer stays valid")]
pub fn handle() -> Result<Handle, Error> {
    let pid = std::process::id();
    loop {
        let current = SLOT.load(Ordering::Acquire);
        // SAFETY: a non-null pointer in SLOT comes from Box::leak below and is never freed. No lock is
        // taken, so a lock that was held at the time of a fork cannot cause a hang.
        if let Some(slot) = unsafe { current.as_ref() }
            && slot.pid == pid
        {
            return Ok(slot.runtime.handle().clone());
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS.load(Ordering::Relaxed))
            .thread_name("zwire-io")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|source| Error::Runtime { source: Arc::new(source) })?;
        let fresh = Box::into_raw(Box::new(Slot { pid, runtime }));
        if SLOT.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            continue;
        }
        // Another thread was faster. This runtime has run nothing yet, so it may be shut down.
        // SAFETY: `fresh` was not published, so this is its only owner.
        let lost = unsafe { Box::from_raw(fresh) };
        lost.runtime.shutdown_background();
    }
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
    static WATCH: Once = Once::new();
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
