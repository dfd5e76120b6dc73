//! Calls of Python functions, imports, and threads that are still in such a call when the interpreter ends.

use pyo3::{
    ffi,
    prelude::*,
    types::{PyModule, PyTuple},
};
use std::{
    sync::OnceLock,
    thread::{self, ThreadId},
};
use zwire_engine::pool;

/// Thread that ends the interpreter; set when the end begins.
static EXIT: OnceLock<ThreadId> = OnceLock::new();

/// Notes that the interpreter begins to end in this thread.
pub(crate) fn exit_begins() {
    EXIT.get_or_init(|| thread::current().id());
}

/// Whether the ending interpreter abandons this thread. Such a thread must not attach to the interpreter any more:
/// the state of the interpreter is destroyed, or about to be.
pub(crate) fn is_left_behind() -> bool {
    let this = thread::current();
    EXIT.get().is_some_and(|exit| *exit != this.id()) && this.name() != Some(pool::NAME)
}

/// Parks the thread, without ever returning, if the ending interpreter abandons it.
///
/// Otherwise the daemon thread would get the error that its session is closed, and print it; `CPython` may abort
/// the process for output at that stage of its end. Callback threads are not affected: the exit waits for them.
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
    /// As in `pyo3::ffi`, but allowed to unwind; [`Stay`] stops the unwinding.
    fn PyObject_CallObject(callable: *mut ffi::PyObject, arguments: *mut ffi::PyObject)
    -> *mut ffi::PyObject;
}

/// Calls a function of the program. May never return while the interpreter ends, see [`Stay`].
#[allow(unsafe_code, reason = "calls of PyO3 do not let an unwinding stack through")]
pub(crate) fn call<'py>(
    callable: &Py<PyAny>,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let stay = Stay;
    // SAFETY: both are live objects, the arguments a tuple, and we hold the interpreter, as `arguments`
    // proves.
    let result = unsafe { PyObject_CallObject(callable.as_ptr(), arguments.as_ptr()) };
    core::mem::forget(stay);
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(arguments.py(), result) }
}

/// Imports a module. May never return while the interpreter ends, see [`Stay`]: the import runs code of Python.
pub(crate) fn import<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let import = py.import("builtins")?.getattr("__import__")?.unbind();
    call(&import, &PyTuple::new(py, [name])?)?;
    // No code runs any more: the module is loaded.
    py.import(name)
}

/// Guard that parks a thread when `CPython` ends it in the middle of a callback.
///
/// Before 3.14 a thread that asks for the interpreter during its finalization is ended by `pthread_exit`,
/// which unwinds the stack. Unwinding beyond the start of a Rust thread aborts the process: a program that has done
/// its work would end with an error. The thread is therefore parked in this drop until the process ends.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        // A panic of Rust continues.
        while !thread::panicking() {
            thread::park();
        }
    }
}
