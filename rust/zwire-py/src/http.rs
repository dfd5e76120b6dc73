//! `HttpServer`: HTTP and WebSocket access to a session.

use crate::{
    errors::{self, OrRaise},
    zenoh::session::Session,
};
use pyo3::prelude::*;
use zwire_http::{Error, HttpServer, Options};

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| match &error {
            Error::Listen { address, .. } => errors::listening(py, error.to_string(), address),
            Error::Usage(problem) => errors::usage(py, problem),
            Error::Tls(_) => errors::usage(py, &error.to_string()),
            Error::Engine(error) => errors::engine(py, error),
        })
    }
}

/// Server of a session for clients of HTTP and WebSockets.
#[pyclass(module = "zwire._zwire", name = "HttpServer", frozen)]
pub(crate) struct PyHttpServer(HttpServer);

attributes! { PyHttpServer, |this|
    /// Address that it listens on, `host:port`.
    address: String = this.0.address().to_string();
}

#[pymethods]
impl PyHttpServer {
    /// Starts a server with options as JSON.
    #[new]
    fn new(py: Python<'_>, session: &Bound<'_, Session>, options: &str) -> PyResult<Self> {
        let engine = session.get().0.0.engine.clone();
        let server = py.detach(|| HttpServer::start(engine, Options::from_json(options)?));
        server.map(Self).or_raise(py)
    }

    /// Stops listening, and closes all connections.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.close()).or_raise(py)
    }
}
