//! [`Declared`]: end of life of every declared object; [`Sender`]: base class of publishers and queriers.

use crate::{
    errors,
    loops::interrupt::seconds,
    zenoh::{handle::Handle, keyexpr::PyKeyExpr, zid::PyEntityGlobalId},
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use zwire_proto::zenoh::{
    KeyExpr,
    session::{Barrier, EntityId},
};

/// A declaration of a session, undeclared once: by `undeclare`, at the end of a `with` block, or when the
/// object is dropped.
pub(crate) struct Declared {
    pub(crate) session: Handle,
    pub(crate) id: EntityId,
    what: &'static str,
    /// With a callback the declaration outlives its object, as users of callbacks expect.
    background: bool,
    live: Mutex<bool>,
}

impl Declared {
    /// A declaration that ends with its object.
    pub(crate) const fn new(session: Handle, id: EntityId, what: &'static str) -> Self {
        Self { session, id, what, background: false, live: Mutex::new(true) }
    }

    /// As [`Self::new`]; with `background` the declaration ends with its session.
    pub(crate) const fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }

    pub(crate) fn global_id(&self) -> PyEntityGlobalId {
        self.session.global_id(self.id)
    }

    /// Marks it as undeclared; returns whether it was live. The lock is not held over the call of the
    /// engine, which releases the interpreter lock.
    fn take(&self) -> bool {
        core::mem::take(&mut *self.live.lock())
    }

    /// Fails if it was undeclared.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if *self.live.lock() { Ok(()) } else { Err(self.undeclared(py)) }
    }

    /// State of the declaration, as a word.
    pub(crate) fn state(&self) -> &'static str {
        match (self.session.0.engine.is_closed(), *self.live.lock()) {
            (true, _) => "closed",
            (false, true) => "declared",
            (false, false) => "undeclared",
        }
    }

    fn undeclared(&self, py: Python<'_>) -> PyErr {
        if self.session.0.engine.is_closed() {
            return errors::engine(py, &zwire_engine::Error::Closed);
        }
        errors::usage(py, &format!("the {} is undeclared", self.what))
    }

    /// Waits until all neighbours know the declaration.
    pub(crate) fn wait_ready(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = seconds(timeout)?;
        self.check(py)?;
        self.session
            .run(py, |engine, interrupted| engine.barrier(Barrier::Declarations, timeout, interrupted))
    }

    /// Waits until at least `n` counterparts are known.
    pub(crate) fn wait_matching(&self, py: Python<'_>, n: usize, timeout: Option<f64>) -> PyResult<()> {
        let timeout = seconds(timeout)?;
        self.check(py)?;
        let id = self.id;
        self.session.run(py, |engine, interrupted| engine.wait_matching(id, n, timeout, interrupted))
    }

    /// Undeclares it; a second call is an error.
    pub(crate) fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        if !self.take() {
            return Err(self.undeclared(py));
        }
        self.session.undeclare(py, self.id)
    }

    /// Undeclares it if it is still live, at the end of a `with` block.
    pub(crate) fn exit(&self, py: Python<'_>) -> PyResult<()> {
        if self.session.0.engine.is_closed() || !self.take() {
            return Ok(());
        }
        let id = self.id;
        self.session.run(py, move |engine, _| engine.undeclare(id))
    }
}

impl Drop for Declared {
    fn drop(&mut self) {
        if !self.background && self.take() {
            // A closed session and a forked process have nothing to undeclare.
            let _ = self.session.0.engine.undeclare(self.id);
        }
    }
}

/// A declaration that sends to matching subscribers or queryables. A context manager; it undeclares itself when it
/// is dropped.
#[pyclass(module = "zwire._zwire", frozen, subclass)]
pub(crate) struct Sender {
    pub(crate) declared: Declared,
    pub(crate) key: KeyExpr,
}

attributes! { Sender, |this|
    /// Id of the declaration.
    id: PyEntityGlobalId = this.declared.global_id();
    /// Key expression that it publishes on, or queries.
    key_expr: PyKeyExpr = PyKeyExpr(this.key.clone());
}

context_manager! { Sender, |this, py| this.declared.exit(py) }

represented! { Sender, |slf| format!("{} {}", slf.get().key, slf.get().declared.state()) }

#[pymethods]
impl Sender {
    /// Undeclares it. A second call is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.undeclare(py)
    }

    /// Waits until at least `n` subscribers of a publisher, or queryables of a querier, are known. Raises
    /// `TimedOut` after `timeout` seconds, if given.
    ///
    /// Subscribers and queryables of this session count one by one, remote ones as reported by the neighbours: a
    /// router reports each key expression once, however many are behind it.
    #[pyo3(signature = (n=1, timeout=None))]
    fn wait_matching(&self, py: Python<'_>, n: usize, timeout: Option<f64>) -> PyResult<()> {
        self.declared.wait_matching(py, n, timeout)
    }
}
