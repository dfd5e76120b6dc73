//! `ZBytes`: a payload as a read-only buffer, and conversion of Python objects to payloads.

use crate::{
    errors,
    zenoh::loan::{Loan, ZShm},
};
use bytes::Bytes;
use core::{ffi::c_int, ops::Range, str};
use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::PyTypeError,
    ffi,
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyByteArray, PyBytes, PyList, PyMemoryView, PySlice, PyString, PyTuple},
};
use std::borrow::Cow;
use zwire_proto::zenoh::{Payload, PayloadParts, Revocable};

/// Size from which on a `bytes` object is kept alive instead of being copied.
///
/// Releasing it needs the interpreter lock or, without it, a list that the next call empties; that costs
/// more than copying a small one.
const SHARE_FROM: usize = 8 * 1024;

/// Bytes: a payload or an attachment.
///
/// A read-only buffer, so that `memoryview(z)`, `numpy.frombuffer(z, ...)` and `pyarrow.py_buffer(z)`
/// read it without a copy. With `zwire/shared_memory/borrow` it may be memory of eclipse-zenoh, which that process may
/// take back: `is_valid()` tells, and every copy is checked. It is made of anything that is a buffer, of text (as UTF-8), of a list or
/// tuple of buffers, or empty. Buffers of a list are joined when they are first read; `put` sends them
/// without joining. Equal to and hashed like the `bytes` of the same content; slices share its memory.
///
/// Raises:
///     TypeError: The argument is neither a buffer nor text nor a list or tuple of buffers.
#[pyclass(name = "ZBytes", module = "zwire.zenoh", frozen, skip_from_py_object)]
#[derive(Clone)]
pub(crate) struct PyZBytes(Payload);

impl From<Payload> for PyZBytes {
    fn from(payload: Payload) -> Self {
        Self(payload)
    }
}

impl From<Bytes> for PyZBytes {
    fn from(bytes: Bytes) -> Self {
        Self(bytes.into())
    }
}

/// Extracts the bytes of one buffer: a `ZBytes` and large `bytes` are shared, everything else is copied once.
pub(crate) fn extract(obj: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let one = one(obj)?.ok_or_else(|| errors::wrong_type("bytes, a buffer, a str or ZBytes", obj))?;
    Ok(one.into_bytes())
}

/// As [`extract`], for optional arguments.
pub(crate) fn extract_option(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Bytes>> {
    obj.map(extract).transpose()
}

/// Extracts a payload: as [`extract`], or a list or tuple of buffers, which are not joined. Errors call
/// it `name`.
#[inline]
pub(crate) fn payload(obj: &Bound<'_, PyAny>, name: &str) -> PyResult<Payload> {
    if obj.is_exact_instance_of::<PyList>() || obj.is_exact_instance_of::<PyTuple>() {
        return several(obj, name);
    }
    if let Some(sent) = loan(obj)? {
        return Ok(sent);
    }
    match one(obj)? {
        Some(payload) => Ok(payload),
        // A subclass that is not a buffer either.
        None if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() => several(obj, name),
        None => {
            Err(errors::wrong_type("bytes, a buffer, a str or ZBytes, or a list or tuple of buffers", obj))
        }
    }
}

/// Copies bytes to where a session or node sends them from.
pub(crate) type Copier<'a> = &'a dyn Fn(&[u8]) -> Bytes;

/// Extracts a payload to be sent by a session: as [`payload`], but what has to be copied is copied by `copier`, to the
/// shared memory of the session where it has readers.
#[inline]
pub(crate) fn payload_for(copier: Copier<'_>, obj: &Bound<'_, PyAny>) -> PyResult<Payload> {
    let found = if is_buffer(obj) { buffer_for(copier, obj)? } else { None };
    // Text, lists and errors are the business of `payload`.
    found.map_or_else(|| payload(obj, "payload"), Ok)
}

/// Payload of a loan or one buffer, to be sent by a session or node whose `copier` copies what has to be; `None` if the
/// object is neither.
#[inline]
pub(crate) fn buffer_for(copier: Copier<'_>, obj: &Bound<'_, PyAny>) -> PyResult<Option<Payload>> {
    if let Some(sent) = loan(obj)? {
        return Ok(Some(sent));
    }
    read(obj, |content| match content {
        Content::Borrowed(bytes) => copier(bytes).into(),
        Content::Kept(payload) => payload,
    })
}

/// The payload of a loan, to which nothing is written from now on.
fn loan(obj: &Bound<'_, PyAny>) -> PyResult<Option<Payload>> {
    match obj.cast_exact::<Loan>() {
        Ok(loan) => Ok(Some(loan.get().payload(obj.py())?.into())),
        Err(_) => Ok(None),
    }
}

/// Whether an object is neither text nor a list or tuple.
fn is_buffer(obj: &Bound<'_, PyAny>) -> bool {
    !(obj.is_instance_of::<PyString>() || obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>())
}

/// Extracts an optional attachment: as [`payload`], in one piece.
pub(crate) fn attachment(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Bytes>> {
    obj.map(|obj| payload(obj, "attachment").map(Payload::into_bytes)).transpose()
}

/// Payload of text or of one buffer; `None` if the object is neither.
#[inline]
pub(crate) fn one(obj: &Bound<'_, PyAny>) -> PyResult<Option<Payload>> {
    if let Ok(text) = obj.cast::<PyString>() {
        return Ok(Some(Bytes::copy_from_slice(text.to_str()?.as_bytes()).into()));
    }
    read(obj, kept)
}

#[cold]
fn several(list: &Bound<'_, PyAny>, name: &str) -> PyResult<Payload> {
    let mut parts = PayloadParts::default();
    for (at, item) in list.try_iter()?.enumerate() {
        let item = item?;
        if let Some(sent) = loan(&item)? {
            sent.parts().iter().for_each(|part| parts.push(part.clone()));
            continue;
        }
        match read(&item, |content| content.append_to(&mut parts)) {
            Ok(Some(())) => {}
            Ok(None) => return Err(errors::wrong_item(name, at, "bytes, a buffer or ZBytes", &item)),
            Err(error) => return Err(errors::of_item(list.py(), name, at, error)),
        }
    }
    Ok(parts.finish())
}

/// Bytes of a buffer; `None` if the object is not one.
pub(crate) fn of_buffer(obj: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    Ok(read(obj, kept)?.map(Payload::into_bytes))
}

/// Passes the bytes of a buffer to `take`, without a copy of contiguous ones; `None` if the object is not a buffer.
pub(crate) fn with_bytes<R>(obj: &Bound<'_, PyAny>, take: impl FnOnce(&[u8]) -> R) -> PyResult<Option<R>> {
    read(obj, |content| match content {
        Content::Borrowed(bytes) => take(bytes),
        Content::Kept(payload) => take(&payload.into_bytes()),
    })
}

/// Content of a buffer.
enum Content<'a> {
    /// Has to be copied: it is small, or may change.
    Borrowed(&'a [u8]),
    /// Can be kept.
    Kept(Payload),
}

#[inline]
fn kept(content: Content<'_>) -> Payload {
    match content {
        Content::Borrowed(bytes) => Bytes::copy_from_slice(bytes).into(),
        Content::Kept(payload) => payload,
    }
}

impl Content<'_> {
    fn append_to(self, parts: &mut PayloadParts) {
        match self {
            Self::Borrowed(bytes) => parts.copy(bytes),
            Self::Kept(payload) => payload.parts().iter().for_each(|part| parts.push(part.clone())),
        }
    }
}

/// Passes the content of a buffer to `take`; `None` if the object is not one.
#[inline]
fn read<R>(obj: &Bound<'_, PyAny>, take: impl FnOnce(Content<'_>) -> R) -> PyResult<Option<R>> {
    if let Ok(bytes) = obj.cast::<PyBytes>() {
        if bytes.as_bytes().len() < SHARE_FROM {
            return Ok(Some(take(Content::Borrowed(bytes.as_bytes()))));
        }
        let bytes = Bytes::from_owner(PyBackedBytes::from(bytes.clone()));
        return Ok(Some(take(Content::Kept(bytes.into()))));
    }
    if let Ok(zbytes) = obj.cast::<PyZBytes>() {
        return Ok(Some(take(Content::Kept(zbytes.get().kept(obj.py())?))));
    }
    if let Ok(shm) = obj.cast::<ZShm>() {
        return Ok(Some(take(Content::Kept(kept_payload(obj.py(), &shm.get().0)?))));
    }
    if let Ok(array) = obj.cast::<PyByteArray>() {
        return Ok(Some(take(Content::Kept(Bytes::from(array.to_vec()).into()))));
    }
    let buffer = match PyUntypedBuffer::get(obj) {
        Ok(buffer) if buffer.is_c_contiguous() => buffer,
        // Without dimensions, or with strides: rare, and left to Python.
        _ => {
            return match PyMemoryView::from(obj) {
                Ok(view) => read(&view.call_method0("tobytes")?, take),
                Err(error) if error.is_instance_of::<PyTypeError>(obj.py()) => Ok(None),
                Err(error) => Err(error),
            };
        }
    };
    if buffer.len_bytes() == 0 {
        return Ok(Some(take(Content::Borrowed(&[]))));
    }
    #[allow(unsafe_code, reason = "the buffer protocol hands out a pointer")]
    // SAFETY: a C-contiguous exporter keeps `len_bytes` readable bytes at `buf_ptr` while the buffer is
    // held. A thread that writes to them meanwhile without the lock causes a race of its own.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) };
    Ok(Some(take(Content::Borrowed(bytes))))
}

impl PyZBytes {
    /// The payload in memory that nothing takes back.
    pub(crate) fn kept(&self, py: Python<'_>) -> PyResult<Payload> {
        kept_payload(py, &self.0)
    }

    fn is_revocable(&self) -> bool {
        self.0.revocable().is_some()
    }

    /// Some of the bytes, which must be inside; without a copy, if they stay.
    fn part(&self, py: Python<'_>, range: Range<usize>) -> PyResult<Bytes> {
        let Some(memory) = self.0.revocable() else { return Ok(self.0.slice(range)) };
        let mut part = vec![0; range.len()];
        if memory.copy_to(range.start, &mut part) {
            Ok(part.into())
        } else {
            Err(errors::stale(py, memory.size()))
        }
    }
}

/// A payload in memory that nothing takes back: itself, or a copy.
fn kept_payload(py: Python<'_>, payload: &Payload) -> PyResult<Payload> {
    payload.secured().ok_or_else(|| errors::stale(py, payload.len()))
}

/// Whether nothing has taken the payload back.
pub(crate) fn is_valid(payload: &Payload) -> bool {
    payload.revocable().is_none_or(Revocable::is_valid)
}

/// A payload as `bytes`.
pub(crate) fn to_bytes<'py>(py: Python<'py>, payload: &Payload) -> PyResult<Bound<'py, PyBytes>> {
    let Some(memory) = payload.revocable() else { return Ok(PyBytes::new(py, payload)) };
    PyBytes::new_with(py, memory.size(), |to| {
        if memory.copy_to(0, to) { Ok(()) } else { Err(errors::stale(py, memory.size())) }
    })
}

/// A payload as text. Bytes of another process are copied first: it could change them after the check.
pub(crate) fn text<'a>(py: Python<'_>, payload: &'a Payload) -> PyResult<Cow<'a, str>> {
    let copy = match payload.revocable() {
        None if !zwire_engine::is_shared(payload) => {
            let text = str::from_utf8(payload).map_err(|error| errors::not_utf8(py, payload, error))?;
            return Ok(Cow::Borrowed(text));
        }
        None => payload.to_vec(),
        Some(memory) => {
            let mut copy = vec![0; memory.size()];
            if !memory.copy_to(0, &mut copy) {
                return Err(errors::stale(py, memory.size()));
            }
            copy
        }
    };
    let text = String::from_utf8(copy);
    text.map(Cow::Owned).map_err(|error| errors::not_utf8(py, error.as_bytes(), error.utf8_error()))
}

pickled! { PyZBytes, |this, py| (to_bytes(py, &this.0)?,) }

methods! { PyZBytes, |this, py|
    /// A copy as `bytes`.
    to_bytes: PyResult<Bound<'py, PyBytes>> = to_bytes(py, &this.0);
    /// The content as text.
    ///
    /// Raises:
    ///     UnicodeDecodeError: It is not UTF-8.
    to_string: PyResult<Cow<'_, str>> = text(py, &this.0);
    /// Whether the bytes are those that were sent: false for borrowed memory that its sender has taken back.
    is_valid: bool = is_valid(&this.0);
    /// The payload as memory that processes share, or None if it is not.
    as_shm: Option<ZShm> =
        (this.is_revocable() || zwire_engine::is_shared(&this.0)).then(|| ZShm(this.0.clone()));
}

#[pymethods]
impl PyZBytes {
    #[new]
    #[pyo3(signature = (bytes=None))]
    fn new(bytes: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        bytes.map_or_else(|| Ok(Payload::new()), |bytes| payload(bytes, "bytes")).map(Self)
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        to_bytes(py, &self.0)
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<Cow<'_, str>> {
        text(py, &self.0)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        const SHOWN: usize = 64;
        let len = self.0.len();
        let Ok(head) = self.part(py, 0..len.min(SHOWN)) else {
            return Ok(format!("<ZBytes of {len} bytes, taken back>"));
        };
        let shown = PyBytes::new(py, &head).repr()?;
        Ok(match len.checked_sub(SHOWN) {
            None | Some(0) => format!("ZBytes({shown})"),
            Some(_) => format!("<ZBytes of {len} bytes: {shown}...>"),
        })
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __bool__(&self) -> bool {
        !self.0.is_empty()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        to_bytes(py, &self.0)?.hash()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let equal = if let Ok(other) = other.cast::<PyBytes>() {
            self.kept(py)? == *other.as_bytes()
        } else if let Ok(other) = other.cast::<PyString>() {
            self.kept(py)? == *other.to_str()?.as_bytes()
        } else if let Some(other) = of_buffer(other)? {
            self.kept(py)? == other
        } else {
            return Ok(py.NotImplemented());
        };
        Ok(equal.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = index.py();
        let Ok(slice) = index.cast::<PySlice>() else {
            let index: isize = index.extract()?;
            let len = self.0.len();
            let at = if index < 0 { index.checked_add_unsigned(len) } else { Some(index) };
            let at = at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < len);
            let at = at.ok_or_else(|| errors::out_of_range("ZBytes"))?;
            let byte = self.part(py, at..at + 1)?[0];
            return Ok(byte.into_pyobject(py)?.into_any().unbind());
        };
        // A length is at most isize::MAX.
        let range = slice.indices(isize::try_from(self.0.len())?)?;
        let part: Bytes = if range.step == 1 && range.slicelength > 0 {
            let start = usize::try_from(range.start)?;
            self.part(py, start..start + range.slicelength)?
        } else {
            let (whole, at) = (self.kept(py)?, |n: usize| range.start + range.step * n as isize);
            (0..range.slicelength).map(|n| whole[at(n) as usize]).collect()
        };
        Ok(Py::new(py, Self::from(part))?.into_any())
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if slf.get().is_revocable() {
            return Ok(to_bytes(slf.py(), &slf.get().0)?.try_iter()?.into_any());
        }
        Ok(PyMemoryView::from(slf.as_any())?.try_iter()?.into_any())
    }

    /// Implements `memoryview` under the name by which `collections.abc.Buffer` recognises a buffer;
    /// interpreters before 3.12 do not add it automatically.
    fn __buffer__<'py>(slf: &Bound<'py, Self>, flags: c_int) -> PyResult<Bound<'py, PyMemoryView>> {
        if flags & ffi::PyBUF_WRITABLE != 0 {
            return Err(errors::read_only());
        }
        PyMemoryView::from(slf.as_any())
    }

    #[allow(unsafe_code, reason = "the buffer protocol is a C interface")]
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let payload = &slf.get().0;
        let start = match payload.revocable() {
            None => payload.as_ptr(),
            Some(memory) if memory.is_valid() => memory.start(),
            Some(memory) => return Err(errors::stale(slf.py(), memory.size())),
        };
        // SAFETY: the interpreter passes a valid view. The bytes never move while `slf`, which the view keeps alive,
        // exists; the view is marked read-only. Only those of other processes may change.
        let result = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                start.cast_mut().cast(),
                isize::try_from(payload.len())?,
                1,
                flags,
            )
        };
        if result == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
