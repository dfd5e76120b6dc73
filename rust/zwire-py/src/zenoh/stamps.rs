//! Instrumentation: time stamps along the way of a message.
//!
//! A session uses its clock for that, or a function of the program. The engine never calls that function,
//! because it would wait for the interpreter with locks held: an outgoing message is stamped before the
//! engine gets it, and an incoming one when the program takes it.

use crate::{
    errors,
    zenoh::{
        enums::{Point, PyInterceptionPoint, PyWhatAmI, title},
        handle::Handle,
        timestamp::PyTimestamp,
        zid::PyZenohId,
    },
};
use pyo3::{exceptions::PyTypeError, prelude::*, types::PyBytes};
use std::sync::Arc;
use zwire_engine::Session as Engine;
use zwire_proto::zenoh::{
    Timestamp, WhatAmI, ZenohId,
    session::Stamps,
    wire::{TsRecord, TsStack},
};

/// Function of the program that makes the stamps of a session.
#[derive(Debug)]
pub(crate) struct Callback {
    function: Py<PyAny>,
    zid: ZenohId,
    whatami: WhatAmI,
}

impl Callback {
    /// Sets the function for a session.
    pub(crate) fn install(function: &Bound<'_, PyAny>, engine: &Engine) -> PyResult<Arc<Self>> {
        if !function.is_callable() {
            return Err(errors::wrong_type("a callable", function));
        }
        let (zid, whatami) = (engine.zid(), engine.config().mode);
        let callback = Arc::new(Self { function: function.clone().unbind(), zid, whatami });
        engine.set_stamper(callback.clone());
        Ok(callback)
    }

    /// Makes a stamp; `None` if the function raises, which is reported to `sys.unraisablehook`.
    fn record(&self, py: Python<'_>, point: u8) -> Option<TsRecord> {
        let context = TimestampContext { zid: self.zid, whatami: self.whatami };
        let bytes = self.function.bind(py).call1((context,)).and_then(|made| bytes(&made));
        match bytes {
            Ok(bytes) => Some(TsRecord { flags: point | TsRecord::USER, bytes: bytes.into() }),
            Err(error) => {
                error.write_unraisable(py, Some(self.function.bind(py)));
                None
            }
        }
    }
}

fn bytes(made: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    made.extract().map_err(|_| PyTypeError::new_err("a timestamp callback must return bytes"))
}

/// Stamps of a message that a session sends, if the caller wants them.
pub(crate) fn wanted(
    py: Python<'_>,
    session: &Handle,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Box<Stamps>>> {
    let Some(given) = given else { return Ok(None) };
    let Ok(given) = given.cast::<PyTimestampInstrumentation>() else {
        return Err(errors::wrong_type("a TimestampInstrumentation", given));
    };
    let stack = TsStack { flags: given.get().0, records: Vec::new() };
    let clock = || session.run(py, |engine, _| engine.new_timestamp());
    sent(py, stack, session.0.stamper.as_deref(), clock).map(Some)
}

/// Stamps of a message being sent: existing ones, and the one for sending.
pub(crate) fn sent(
    py: Python<'_>,
    mut stack: TsStack,
    callback: Option<&Callback>,
    clock: impl Fn() -> PyResult<Timestamp>,
) -> PyResult<Box<Stamps>> {
    let make = |point: u8| -> PyResult<Option<TsRecord>> {
        if stack.flags & point == 0 {
            return Ok(None);
        }
        match callback {
            Some(callback) => Ok(callback.record(py, point)),
            None => Ok(Some(TsRecord::new(point, &clock()?))),
        }
    };
    let (send, route) = (make(TsStack::SEND)?, make(TsStack::ROUTE)?);
    if let Some(send) = send {
        stack.stamp(TsStack::SEND, || send);
    }
    Ok(Box::new(Stamps { stack, route, pending: None }))
}

/// The stack of a received message, completed by the stamps of the program's function, and that function.
pub(crate) fn taken(py: Python<'_>, stamps: Stamps) -> (TsStack, Option<Arc<Callback>>) {
    let Stamps { mut stack, pending, .. } = stamps;
    let Some((stamper, count)) = pending else { return (stack, None) };
    let open = stack.records.split_off(stack.records.len().saturating_sub(count));
    // The stamper is the object passed to the engine by `install`.
    let callback = stamper.downcast::<Callback>().ok();
    if let Some(callback) = &callback {
        let made = open.iter().filter_map(|record| callback.record(py, record.flags & !TsRecord::USER));
        stack.records.extend(made);
    }
    (stack, callback)
}

/// As [`taken`], but returns the stack only.
pub(crate) fn arrived(py: Python<'_>, stamps: Option<Box<Stamps>>) -> Option<TsStack> {
    stamps.map(|stamps| taken(py, *stamps).0)
}

/// Converts a stack to its Python object.
pub(crate) fn shown(stack: Option<&TsStack>) -> Option<PyTimestampStack> {
    stack.cloned().map(PyTimestampStack)
}

/// A record or a stack in the form used by pickle.
pub(crate) type RecordParts = (u8, Vec<u8>);
pub(crate) type StackParts = (u8, Vec<RecordParts>);

fn record_parts(record: &TsRecord) -> RecordParts {
    (record.flags, record.bytes.to_vec())
}

fn record_of((flags, bytes): RecordParts) -> TsRecord {
    TsRecord { flags, bytes: bytes.into() }
}

/// Converts to the form used by pickle.
pub(crate) fn parts(stack: &TsStack) -> StackParts {
    (stack.flags, stack.records.iter().map(record_parts).collect())
}

/// Converts from the form used by pickle.
pub(crate) fn of_parts((flags, records): StackParts) -> TsStack {
    TsStack { flags, records: records.into_iter().map(record_of).collect() }
}

/// Node in which a timestamp callback is called.
#[pyclass(module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct TimestampContext {
    zid: ZenohId,
    whatami: WhatAmI,
}

attributes! { TimestampContext, |this|
    /// Id of the node.
    zid: PyZenohId = PyZenohId(this.zid);
    /// Role of the node.
    whatami: PyWhatAmI = PyWhatAmI(this.whatami);
}

#[pymethods]
impl TimestampContext {
    fn __repr__(&self) -> String {
        format!("TimestampContext(zid={}, whatami={})", self.zid, title(self.whatami))
    }
}

/// Points at which a message is stamped; made by a `TimestampInstrumentationBuilder`.
#[pyclass(name = "TimestampInstrumentation", module = "zwire.zenoh", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyTimestampInstrumentation(u8);

pickled! { PyTimestampInstrumentation by _restore, |this, _py| (this.0,) }

#[pymethods]
impl PyTimestampInstrumentation {
    /// Whether the message is stamped at that point.
    fn is_instrumented(&self, point: PyInterceptionPoint) -> bool {
        self.0 & point.0.flag() != 0
    }

    fn __repr__(&self) -> String {
        format!("TimestampInstrumentation {{ conf_flags: {} }}", self.0)
    }

    #[staticmethod]
    const fn _restore(flags: u8) -> Self {
        Self(flags)
    }
}

/// Selects the points at which messages are stamped. Each method returns a builder with that point changed.
#[pyclass(name = "TimestampInstrumentationBuilder", module = "zwire.zenoh", frozen, skip_from_py_object)]
#[derive(Clone, Copy)]
pub(crate) struct PyTimestampInstrumentationBuilder(u8);

represented! { PyTimestampInstrumentationBuilder, |slf| format!("conf_flags: {}", slf.get().0) }

impl PyTimestampInstrumentationBuilder {
    const fn with(self, point: Point, enabled: bool) -> Self {
        Self(if enabled { self.0 | point.flag() } else { self.0 & !point.flag() })
    }
}

#[pymethods]
impl PyTimestampInstrumentationBuilder {
    #[new]
    const fn new() -> Self {
        Self(0)
    }

    /// Enables or disables the stamp for sending.
    const fn set_send(&self, enabled: bool) -> Self {
        self.with(Point::Send, enabled)
    }

    /// Enables or disables stamps at each node on the way, including those of sender and receiver.
    const fn set_route(&self, enabled: bool) -> Self {
        self.with(Point::Route, enabled)
    }

    /// Enables or disables the stamp for receiving in a session.
    const fn set_receive(&self, enabled: bool) -> Self {
        self.with(Point::Receive, enabled)
    }

    /// Makes the instrumentation.
    ///
    /// Raises:
    ///     InvalidValue: No point is enabled.
    fn build(&self, py: Python<'_>) -> PyResult<PyTimestampInstrumentation> {
        match self.0 {
            0 => Err(errors::invalid(py, "an instrumentation needs at least one point".to_owned())),
            flags => Ok(PyTimestampInstrumentation(flags)),
        }
    }
}

/// Stamp of a message.
#[pyclass(name = "TimestampStackRecord", module = "zwire.zenoh", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PyTimestampStackRecord(TsRecord);

attributes! { PyTimestampStackRecord, |this|
    /// Point at which the stamp was made.
    point: PyInterceptionPoint = PyInterceptionPoint(Point::of(&this.0));
    /// Whether a function of a program made the stamp, instead of a clock.
    is_custom: bool = this.0.timestamp().is_none();
}

pickled! { PyTimestampStackRecord by _restore, |this, _py| (record_parts(&this.0),) }

#[pymethods]
impl PyTimestampStackRecord {
    /// The stamp: a `Timestamp`, or `bytes` of a function.
    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.0.timestamp() {
            Some(timestamp) => Ok(Bound::new(py, PyTimestamp(timestamp))?.into_any()),
            None => Ok(PyBytes::new(py, &self.0.bytes).into_any()),
        }
    }

    fn __repr__(&self) -> String {
        let stamp = match self.0.timestamp() {
            Some(timestamp) => format!("UHLC({})", timestamp.exact()),
            None => format!("Custom({:?})", &self.0.bytes[..]),
        };
        format!("TimestampStackRecord {{ point: {:?}, timestamp: {stamp} }}", Point::of(&self.0))
    }

    #[staticmethod]
    fn _restore(parts: RecordParts) -> Self {
        Self(record_of(parts))
    }
}

/// Stamps of a message in the order of its way. The stack of a reply continues that of its query.
#[pyclass(name = "TimestampStack", module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct PyTimestampStack(TsStack);

attributes! { PyTimestampStack, |this|
    /// Points at which stamps were requested.
    instrumentation: PyTimestampInstrumentation = PyTimestampInstrumentation(this.0.flags);
    /// The stamps.
    records: Vec<PyTimestampStackRecord> =
        this.0.records.iter().cloned().map(PyTimestampStackRecord).collect();
}

pickled! { PyTimestampStack by _restore, |this, _py| (parts(&this.0),) }

#[pymethods]
impl PyTimestampStack {
    fn __repr__(&self) -> String {
        let records: Vec<String> = self.records().iter().map(PyTimestampStackRecord::__repr__).collect();
        let instrumentation = self.instrumentation().__repr__();
        let records = records.join(", ");
        format!("TimestampStack {{ instrumentation: {instrumentation}, records: [{records}] }}")
    }

    #[staticmethod]
    fn _restore(parts: StackParts) -> Self {
        Self(of_parts(parts))
    }
}
