//! Calls of Python functions, and the threads in which the end of the interpreter overtakes them.

use crate::loops::pool;
use pyo3::{ffi, prelude::*, types::PyTuple};
use std::{
    sync::OnceLock,
    thread::{self, ThreadId},
};

/// The thread that ends the interpreter, once it has begun to.
static EXIT: OnceLock<ThreadId> = OnceLock::new();

/// The interpreter has begun to end, and closes what is open.
pub(crate) fn exit_begins() {
    EXIT.get_or_init(|| thread::current().id());
}

/// Whether this is a thread that the end of the interpreter leaves behind, and that must not ask for it any
/// more: its state is gone, or about to be.
pub(crate) fn is_left_behind() -> bool {
    let this = thread::current();
    EXIT.get().is_some_and(|exit| *exit != this.id()) && this.name() != Some(pool::NAME)
}

/// Does not return in a thread that the end of the interpreter leaves behind.
///
/// What such a daemon thread hears is that its session is closed, and it would print that: while the
/// interpreter ends, `CPython` aborts the process for it if it comes at the wrong moment. Threads of
/// callbacks are waited for.
pub(crate) fn stay_at_exit(py: Python<'_>) {
    if is_left_behind() {
        py.detach(|| {
            loop {
                thread::park();
            }
        });
    }
}

#[allow(unsafe_code, reason = "the declaration is that of the stable ABI")]
unsafe extern "C-unwind" {
    /// As in `pyo3::ffi`, but allowed to unwind, which is what [`Stay`] is there for.
    fn PyObject_CallObject(callable: *mut ffi::PyObject, arguments: *mut ffi::PyObject)
    -> *mut ffi::PyObject;
}

/// Calls what the user gave us; the thread may never come back, see [`Stay`].
#[allow(unsafe_code, reason = "calls of PyO3 do not let an unwinding stack through")]
pub(crate) fn call(callable: &Py<PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
    let stay = Stay;
    // SAFETY: both are live objects, the arguments a tuple, and we hold the interpreter, as `arguments`
    // proves.
    let result = unsafe { PyObject_CallObject(callable.as_ptr(), arguments.as_ptr()) };
    core::mem::forget(stay);
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(arguments.py(), result) }.map(core::mem::drop)
}

/// Keeps a thread where it is when `CPython` wants to end it in the middle of a callback.
///
/// Before 3.14 a thread that asks for the interpreter during its finalization is ended by `pthread_exit`,
/// which unwinds the stack. That cannot cross the start of a Rust thread: the process would abort, and
/// a program that has done its work would end with an error. So the thread stays in this drop, and goes
/// with the process.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        // A panic of ours is another matter, and goes on.
        while !thread::panicking() {
            thread::park();
        }
    }
}
