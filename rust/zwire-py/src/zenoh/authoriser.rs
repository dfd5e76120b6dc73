//! Authorisers: functions of the program that decide about messages which no rule of access control is about.

use crate::{
    errors,
    loops::{
        ending::{call, is_left_behind},
        interrupt::seconds_of,
    },
    zenoh::{keyexpr::PyKeyExpr, zid::PyZenohId},
};
use core::time::Duration;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyBool, PyTuple},
};
use std::collections::BTreeSet;
use zwire_engine::{AccessRequest, Authorise, AuthorityOptions, Verdict};
use zwire_proto::zenoh::intercept::Flow;

/// Most kinds of failures that the log has once each.
const MAX_TOLD: usize = 64;

/// Message that an authoriser decides about.
#[pyclass(name = "AccessRequest", module = "zwire.zenoh", frozen, skip_from_py_object)]
pub(crate) struct PyAccessRequest(AccessRequest);

attributes! { PyAccessRequest, |this|
    /// Kind of the message, in the words of `access_control/rules/messages`.
    action: &'static str = this.0.inquiry.kind.name();
    /// Direction of the message: `ingress` from the peer, `egress` to it.
    flow: &'static str = match this.0.inquiry.flow {
        Flow::Ingress => "ingress",
        Flow::Egress => "egress",
    };
    /// Key expression of the message; None for an interest in the tokens of all keys.
    key_expr: Option<PyKeyExpr> = this.0.inquiry.key.clone().map(PyKeyExpr);
    /// Id of the node at the other end; None for messages to a multicast group, and for clients of HTTP.
    zid: Option<PyZenohId> = this.0.subject.zid.map(PyZenohId);
    /// Names of the interfaces of this node with the address of the link.
    interfaces: Vec<String> = this.0.subject.interfaces.clone();
    /// Protocol of the link, such as `tcp`.
    protocol: String = this.0.subject.protocol.clone();
    /// User name that the peer has authenticated with.
    user: Option<String> = this.0.subject.username.clone();
    /// Common name of the certificate of the peer.
    certificate: Option<String> = this.0.subject.common_name.clone();
}

#[pymethods]
impl PyAccessRequest {
    fn __repr__(&self) -> String {
        let key = self.0.inquiry.key.as_ref().map_or("None", |key| key.as_str());
        format!("<AccessRequest {} {} {key}>", self.flow(), self.action())
    }
}

/// Function of the program, with the kinds of failures that the log has.
struct Function {
    callable: Py<PyAny>,
    told: Mutex<BTreeSet<String>>,
}

impl Function {
    fn decide(&self, request: &AccessRequest) -> Verdict {
        // The interpreter is ending, or has ended: the session closes.
        if is_left_behind() {
            return Verdict::Failed;
        }
        Python::try_attach(|py| self.ask(py, request)).unwrap_or(Verdict::Failed)
    }

    fn ask(&self, py: Python<'_>, request: &AccessRequest) -> Verdict {
        let answer = Bound::new(py, PyAccessRequest(request.clone()))
            .and_then(|request| PyTuple::new(py, [request]))
            .and_then(|arguments| call(&self.callable, &arguments));
        let (kind, text) = match answer {
            Ok(answer) => match answer.cast::<PyBool>() {
                Ok(allowed) if allowed.is_true() => return Verdict::Allowed,
                Ok(_) => return Verdict::Denied,
                Err(_) => {
                    let name =
                        answer.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
                    let text = format!("it returned an object of type {name}, not a bool");
                    (text.clone(), text)
                }
            },
            Err(error) => {
                let name = error.get_type(py).name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
                (name, format!("it raised {error}"))
            }
        };
        let mut told = self.told.lock();
        if told.len() < MAX_TOLD && told.insert(kind) {
            let action = request.inquiry.kind.name();
            let key = request.inquiry.key.as_ref().map_or("**", |key| key.as_str());
            tracing::warn!(
                action,
                key,
                "the authoriser has failed, so that the message is refused: {text}; further failures of this kind are \
                 counted alone, as authoriser.raised in the statistics"
            );
        }
        Verdict::Failed
    }
}

/// The function for the engine.
pub(crate) fn function(callable: &Bound<'_, PyAny>) -> PyResult<Authorise> {
    if !callable.is_callable() {
        return Err(errors::wrong_type("a callable", callable));
    }
    let function = Function { callable: callable.clone().unbind(), told: Mutex::default() };
    Ok(Box::new(move |request| function.decide(request)))
}

/// Times of an authoriser.
pub(crate) fn options(py: Python<'_>, deadline: f64, ttl: f64, fallback: bool) -> PyResult<AuthorityOptions> {
    let time = |name: &str, value: f64| {
        let time = seconds_of(name, Some(value))?.unwrap_or_default();
        if time.is_zero() {
            Err(errors::invalid(py, format!("{name}: expected seconds above 0")))
        } else {
            Ok(time)
        }
    };
    let (deadline, ttl): (Duration, Duration) = (time("deadline", deadline)?, time("ttl", ttl)?);
    Ok(AuthorityOptions { deadline, ttl, fallback })
}
