//! `Liveliness` and `LivelinessToken`: announcing and watching live resources.

use crate::{
    loops::{interrupt::seconds, turn::Turn},
    zenoh::{
        declared::Declared,
        handle::Handle,
        handlers::HandlerArg,
        keyexpr,
        reply::{self, CancellationToken},
        subscriber::Subscriber,
    },
};
use pyo3::prelude::*;
use zwire_proto::zenoh::KeyExpr;

/// Liveliness tokens of this session and of others.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct Liveliness(pub(crate) Handle);

represented! { Liveliness, |slf| format!("of session {}", slf.get().0.0.engine.zid()) }

#[pymethods]
impl Liveliness {
    /// Declares a token: the key is alive as long as the token and the session exist.
    fn declare_token(&self, py: Python<'_>, key_expr: &Bound<'_, PyAny>) -> PyResult<LivelinessToken> {
        let key = keyexpr::extract(key_expr)?;
        let declared = key.clone();
        let id = self.0.run(py, move |engine, _| engine.declare_token(declared))?;
        Ok(LivelinessToken { declared: Declared::new(self.0.clone(), id, "token"), key })
    }

    /// Queries the live tokens; each arrives as the sample of a reply. Never waits, whatever the turn.
    #[pyo3(
        signature = (key_expr, handler=None, *, timeout=None, cancellation_token=None, _turn=None),
        text_signature = "($self, key_expr, handler=None, *, timeout=None, cancellation_token=None)"
    )]
    fn get(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        handler: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
        cancellation_token: Option<&Bound<'_, CancellationToken>>,
        _turn: Option<&Bound<'_, Turn>>,
    ) -> PyResult<Py<PyAny>> {
        let key = keyexpr::extract(key_expr)?;
        let handler = HandlerArg::parse(py, handler)?;
        let timeout = seconds(timeout)?;
        reply::start(py, handler, &self.0, cancellation_token, |handler| {
            self.0.run(py, move |engine, _| engine.liveliness_get(key, timeout, handler))
        })
    }

    /// Subscribes to tokens: PUT when one appears, DELETE when it is gone.
    #[pyo3(signature = (key_expr, handler=None, *, history=None))]
    fn declare_subscriber(
        &self,
        py: Python<'_>,
        key_expr: &Bound<'_, PyAny>,
        handler: Option<&Bound<'_, PyAny>>,
        history: Option<bool>,
    ) -> PyResult<Py<Subscriber>> {
        Subscriber::of_tokens(py, &self.0, keyexpr::extract(key_expr)?, handler, history)
    }
}

/// A declared token. A context manager; it undeclares itself when it is dropped.
#[pyclass(module = "zwire.zenoh", frozen, weakref)]
pub(crate) struct LivelinessToken {
    pub(crate) declared: Declared,
    key: KeyExpr,
}

represented! { LivelinessToken, |slf| format!("{} {}", slf.get().key, slf.get().declared.state()) }

context_manager! { LivelinessToken, |this, py| this.declared.exit(py) }

#[pymethods]
impl LivelinessToken {
    /// Undeclares the token. A second call is an error.
    fn undeclare(&self, py: Python<'_>) -> PyResult<()> {
        self.declared.undeclare(py)
    }

    /// Waits until all neighbours know the token: messages that they send from then on can arrive. Raises
    /// `TimedOut` after `timeout` seconds, if given.
    #[pyo3(signature = (timeout=None))]
    fn wait_ready(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.declared.wait_ready(py, timeout)
    }
}
