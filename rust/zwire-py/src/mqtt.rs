//! `MqttHandle`: a bridge between a session and a broker of MQTT.

use crate::{
    errors::{self, OrRaise},
    loops::interrupt::waiting,
    spool::writer::clamped,
    zenoh::session::Session,
};
use pyo3::{prelude::*, types::PyDict};
use zwire_mqtt::{Bridge, Error, Options};

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        match self {
            Ok(done) => Ok(done),
            Err(Error::Recorder(error)) => Err(error).or_raise(py),
            Err(Error::Engine(error)) => Err(errors::engine(py, &error)),
            Err(Error::Broker { ref broker, ref problem }) => Err(errors::listening(
                py,
                format!("no connection with the broker {broker}: {problem}"),
                broker,
            )),
            Err(error @ Error::Io { .. }) => Err(errors::spool_io(py, error.to_string())),
            Err(error @ (Error::Usage(_) | Error::Tls(_))) => Err(errors::usage(py, &error.to_string())),
        }
    }
}

/// Bridge between a session and a broker of MQTT.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct MqttHandle(Bridge);

#[pymethods]
impl MqttHandle {
    /// Starts a bridge with options as JSON.
    #[new]
    fn new(py: Python<'_>, session: &Bound<'_, Session>, options: &str) -> PyResult<Self> {
        let engine = session.get().0.look(py)?;
        py.detach(|| Bridge::start(engine, Options::from_json(options)?)).map(Self).or_raise(py)
    }

    /// Waits until the broker has accepted the connection and answered the subscriptions.
    fn wait_connected(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        waiting(py, |interrupted| self.0.wait_connected(clamped(timeout), interrupted))?.or_raise(py)
    }

    /// Waits until the broker has acknowledged what came before; `False` if the timeout expires first.
    fn flush(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        waiting(py, |interrupted| self.0.flush(clamped(timeout), interrupted))?.or_raise(py)
    }

    /// Counters by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.0.stats());
        Ok(dict! { py;
            of stats: connected, connections, in_received, in_put, in_repeated, in_looped, in_unmapped, in_too_large,
            in_uncertain, out_sent, out_repeated, out_acked, out_looped, out_unmapped, out_too_large, out_refused,
            out_expired, out_waiting, out_dropped, out_missing, problem
        })
    }

    /// Ends the bridge.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.close()).or_raise(py)
    }
}

impl Drop for MqttHandle {
    /// Closes the bridge without the interpreter lock, for which its threads need not wait.
    fn drop(&mut self) {
        // A program that has to know of a failure calls `close`.
        let _ = Python::try_attach(|py| py.detach(|| self.0.close()));
    }
}
