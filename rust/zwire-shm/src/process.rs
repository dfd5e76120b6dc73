//! [`generation`]: tells a process from the children that it forks; [`hasten`]: a thread that must not be late.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Once;

static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCHED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that a process has in common with none of its ancestors. It costs no system call, because it is asked for
/// with each payload.
pub(crate) fn generation() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler only touches an atomic, which is all that a child of a threaded process may do.
        if unsafe { libc::pthread_atfork(None, None, Some(in_child)) } == 0 {
            WATCHED.store(true, Ordering::Release);
        }
    });
    if WATCHED.load(Ordering::Acquire) {
        FORKS.load(Ordering::Relaxed)
    } else {
        // The system has no memory for a handler.
        std::process::id()
    }
}

/// Has this thread run before all others that are not urgent, on a machine without an idle processor. False if the system
/// does not allow it: that takes the capability `CAP_SYS_NICE`, or a limit for priorities (`ulimit -r`).
pub fn hasten() -> bool {
    // All that the kernel's `sched_param` has. That of musl has more, and its `sched_setscheduler` always fails.
    let least: libc::c_int = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread, and the parameters are a local variable. No process or thread inherits it.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const least) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_hastened_says_so() {
        let policy = std::thread::spawn(|| {
            let allowed = hasten();
            // SAFETY: 0 is the calling thread.
            (allowed, unsafe { libc::sched_getscheduler(0) } & libc::SCHED_FIFO != 0)
        });
        let (allowed, found) = policy.join().unwrap();
        assert_eq!(allowed, found);
        // SAFETY: 0 is the calling thread.
        assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
    }

    #[test]
    fn a_child_has_another_number() {
        let own = generation();
        // SAFETY: the child touches atomics and leaves by `_exit`; no lock, no allocation.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let same = generation() == own;
            // SAFETY: ends the child without the destructors of the parent.
            unsafe { libc::_exit(i32::from(same)) };
        }
        let mut status = -1;
        // SAFETY: `status` is a local variable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((status, generation()), (0, own));
    }
}
