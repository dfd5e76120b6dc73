//! `Loan`: memory for a payload that a program writes in place; `SharedPool` and `ZShm` of `zwire.zenoh.shm`.

use crate::{errors, loops::ending::import, zenoh::zbytes};
use bytes::Bytes;
use core::{
    ffi::c_int,
    sync::atomic::{AtomicUsize, Ordering},
};
use parking_lot::Mutex;
use pyo3::{
    exceptions::PyMemoryError,
    ffi,
    prelude::*,
    types::{PyBytes, PyMemoryView, PyTuple},
};
use zwire_engine::{PayloadBuffer, Session as Engine, SharedPool as Pool};
use zwire_proto::zenoh::Payload;

/// Memory for one payload: written in place, then sent without a copy by `put(loan)`.
///
/// A writable buffer until it is sent, and a read-only one afterwards: `memoryview(loan)`, `loan[0:4] = b"head"`, or
/// the NumPy array of `loan.array`. Processes on this host read it in place; over other links it is sent as bytes. Its
/// contents are undefined at first. A loan that is dropped without being sent is free again.
#[pyclass(module = "zwire.zenoh.shm", frozen)]
pub(crate) struct Loan {
    state: Mutex<LoanState>,
    len: usize,
    shared: bool,
    /// Type and shape of `array`.
    dtype: Option<Py<PyAny>>,
    shape: Option<Py<PyAny>>,
    /// Weak references to arrays that were handed out.
    arrays: Mutex<Vec<Py<PyAny>>>,
    /// Buffers that were handed out and are not released, those of arrays included.
    exports: AtomicUsize,
}

enum LoanState {
    Open(PayloadBuffer),
    /// Can be sent again.
    Sent(Bytes),
}

impl Loan {
    fn new(buffer: PayloadBuffer, len: usize) -> Self {
        Self {
            shared: buffer.is_shared(),
            state: Mutex::new(LoanState::Open(buffer)),
            len,
            dtype: None,
            shape: None,
            arrays: Mutex::default(),
            exports: AtomicUsize::new(0),
        }
    }

    /// A loan of a session: of a number of bytes, or of the shape and type of an array.
    pub(crate) fn of_session(
        engine: &Engine,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = shape.py();
        let Some(dtype) = dtype else {
            let len: usize = shape.extract()?;
            return Ok(Self::new(engine.buffer(len).ok_or_else(|| no_memory(len))?, len));
        };
        let dtype = import(py, "numpy")?.getattr("dtype")?.call1((dtype,))?;
        if dtype.getattr("hasobject")?.is_truthy()? {
            return Err(errors::invalid(
                py,
                format!("an array of {dtype} has references to objects, not values"),
            ));
        }
        let sides: Vec<usize> = if let Ok(side) = shape.extract::<usize>() {
            vec![side]
        } else {
            shape.extract::<Vec<usize>>()?
        };
        let size: usize = dtype.getattr("itemsize")?.extract()?;
        let len = sides.iter().try_fold(size, |len, side| len.checked_mul(*side));
        let len = len.ok_or_else(|| no_memory(usize::MAX))?;
        let buffer = engine.buffer(len).ok_or_else(|| no_memory(len))?;
        let shape = PyTuple::new(py, sides)?.into_any().unbind();
        Ok(Self { dtype: Some(dtype.unbind()), shape: Some(shape), ..Self::new(buffer, len) })
    }

    /// The payload. From now on nothing writes to it: arrays that were handed out become read-only, and other views
    /// must not exist.
    pub(crate) fn payload(&self, py: Python<'_>) -> PyResult<Bytes> {
        if let LoanState::Sent(bytes) = &*self.state.lock() {
            return Ok(bytes.clone());
        }
        let mut arrays = Vec::new();
        // Not under the lock: this calls Python.
        let known: Vec<_> = self.arrays.lock().iter().map(|array| array.clone_ref(py)).collect();
        for array in known {
            let array = array.bind(py).call0()?;
            if !array.is_none() {
                arrays.push(array);
            }
        }
        if self.exports.load(Ordering::Acquire) > arrays.len() {
            return Err(errors::exported());
        }
        for array in arrays {
            array.getattr("flags")?.setattr("writeable", false)?;
        }
        let mut state = self.state.lock();
        let bytes = match core::mem::replace(&mut *state, LoanState::Sent(Bytes::new())) {
            LoanState::Open(buffer) => buffer.freeze(),
            LoanState::Sent(bytes) => bytes,
        };
        *state = LoanState::Sent(bytes.clone());
        Ok(bytes)
    }
}

fn no_memory(len: usize) -> PyErr {
    PyMemoryError::new_err(format!("no memory for a payload of {len} bytes"))
}

attributes! { Loan, |this|
    /// Number of bytes.
    nbytes: usize = this.len;
    /// Whether processes on this host read it in place; without room in shared memory it is sent as bytes.
    shared: bool = this.shared;
    /// Whether it was sent, and can only be read.
    sent: bool = matches!(&*this.state.lock(), LoanState::Sent(_));
}

#[pymethods]
impl Loan {
    /// The memory as a NumPy array, of one dimension of bytes unless the loan has a shape.
    ///
    /// Sending the loan makes the array read-only; slices of it that still exist must not be written to.
    #[getter]
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let numpy = import(py, "numpy")?;
        let dtype =
            this.dtype.as_ref().map_or_else(|| numpy.getattr("uint8"), |dtype| Ok(dtype.bind(py).clone()))?;
        let array = numpy.getattr("frombuffer")?.call1((slf, dtype))?;
        // A view in any case: a slice of it refers to the array below, and not to the one that is handed out.
        let array = match &this.shape {
            Some(shape) => array.call_method1("reshape", (shape,))?,
            None => array.call_method0("view")?,
        };
        let weak = py.import("weakref")?.getattr("ref")?.call1((&array,))?;
        let mut alive = vec![weak.unbind()];
        // Not under the lock: this calls Python.
        let known = core::mem::take(&mut *this.arrays.lock());
        for weak in known {
            if !weak.bind(py).call0()?.is_none() {
                alive.push(weak);
            }
        }
        this.arrays.lock().append(&mut alive);
        Ok(array)
    }

    fn __len__(&self) -> usize {
        self.len
    }

    fn __bytes__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyMemoryView::from(slf.as_any())?.call_method0("tobytes")?.cast_into()?)
    }

    fn __str__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::__bytes__(slf)?.call_method0("decode")
    }

    fn __repr__(&self) -> String {
        let state = if matches!(&*self.state.lock(), LoanState::Sent(_)) { ", sent" } else { "" };
        let place = if self.shared { "shared" } else { "private" };
        format!("<Loan of {} bytes, {place}{state}>", self.len)
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        PyMemoryView::from(slf.as_any())?.get_item(index)
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        PyMemoryView::from(slf.as_any())?.set_item(index, value)
    }

    /// Implements `memoryview` under the name by which `collections.abc.Buffer` recognises a buffer.
    fn __buffer__<'py>(slf: &Bound<'py, Self>, flags: c_int) -> PyResult<Bound<'py, PyMemoryView>> {
        if flags & ffi::PyBUF_WRITABLE != 0 && slf.get().sent() {
            return Err(errors::read_only());
        }
        PyMemoryView::from(slf.as_any())
    }

    #[allow(unsafe_code, reason = "the buffer protocol is a C interface")]
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let mut state = this.state.lock();
        let (pointer, len, read_only) = match &mut *state {
            LoanState::Open(buffer) => {
                let bytes = buffer.as_mut_slice();
                (bytes.as_mut_ptr(), bytes.len(), false)
            }
            LoanState::Sent(bytes) => (bytes.as_ptr().cast_mut(), bytes.len(), true),
        };
        if read_only && flags & ffi::PyBUF_WRITABLE != 0 {
            return Err(errors::read_only());
        }
        // SAFETY: the interpreter passes a valid view. The memory does not move as long as `slf`, which the view keeps
        // alive, exists. Views that can write exist only before the loan is sent.
        let result = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                pointer.cast(),
                isize::try_from(len)?,
                c_int::from(read_only),
                flags,
            )
        };
        if result != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        this.exports.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    #[allow(unsafe_code, reason = "the buffer protocol is a C interface")]
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.exports.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Shared memory of a program, beside that of its sessions.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SharedPool(Pool);

attributes! { SharedPool, |this|
    /// Bytes that are left.
    available: usize = this.0.available();
}

#[pymethods]
impl SharedPool {
    #[new]
    fn new(size: usize) -> Self {
        Self(Pool::new(size))
    }

    /// Takes back what receivers have returned.
    fn collect(&self) {
        self.0.collect();
    }

    /// Memory for a payload, or None if there is no room.
    fn allocate(&self, len: usize) -> Option<Loan> {
        self.0.allocate(len).map(|buffer| Loan::new(buffer, len))
    }
}

/// A payload in shared memory. It stays valid as long as this object exists, unless it is borrowed from eclipse-zenoh.
#[pyclass(module = "zwire.zenoh.shm", frozen)]
pub(crate) struct ZShm(pub(crate) Payload);

methods! { ZShm, |this|
    /// Whether the bytes are those that were sent: false for borrowed memory that its sender has taken back.
    is_valid: bool = zbytes::is_valid(&this.0);
}

#[pymethods]
impl ZShm {
    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        zbytes::to_bytes(py, &self.0)
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(zbytes::text(py, &self.0)?.into_owned())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("<ZShm of {} bytes>", self.0.len())
    }
}
