//! [`Source`]: reading from the `handler` attribute of subscribers, queryables and listeners.

use crate::{errors, zenoh::handlers::Handler};
use pyo3::prelude::*;

/// Source of the items of a receiver: a channel of zwire, or an object given with the callback that has these
/// methods itself.
pub(crate) enum Source<'py> {
    Channel(Bound<'py, Handler>),
    Own(Bound<'py, PyAny>),
}

impl<'py> Source<'py> {
    /// What is behind a `handler` attribute.
    pub(crate) fn of(py: Python<'py>, handler: &Py<PyAny>) -> PyResult<Self> {
        let handler = handler.bind(py);
        if handler.is_none() || handler.is_instance_of::<Handler>() {
            return Ok(Self::Channel(channel(py, handler.as_unbound())?));
        }
        Ok(Self::Own(handler.clone()))
    }

    pub(crate) fn try_recv(&self, py: Python<'py>) -> PyResult<Option<Py<PyAny>>> {
        match self {
            Self::Channel(channel) => channel.get().try_recv(py),
            Self::Own(own) => {
                let item = own.call_method0("try_recv")?;
                Ok((!item.is_none()).then(|| item.unbind()))
            }
        }
    }

    pub(crate) fn recv(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        match (self, timeout) {
            (Self::Channel(channel), _) => channel.get().recv(py, timeout),
            (Self::Own(own), None) => Ok(own.call_method0("recv")?.unbind()),
            (Self::Own(own), Some(timeout)) => Ok(own.call_method1("recv", (timeout,))?.unbind()),
        }
    }

    pub(crate) fn iter(&self) -> PyResult<Py<PyAny>> {
        match self {
            Self::Channel(channel) => Ok(Handler::iter(channel.clone())?.into_any().unbind()),
            Self::Own(own) => Ok(own.try_iter()?.into_any().unbind()),
        }
    }
}

/// The channel behind a `handler` attribute.
pub(crate) fn channel<'py>(py: Python<'py>, handler: &Py<PyAny>) -> PyResult<Bound<'py, Handler>> {
    handler
        .bind(py)
        .cast::<Handler>()
        .cloned()
        .map_err(|_| errors::usage(py, "this has a callback: items go there, not through a channel"))
}
