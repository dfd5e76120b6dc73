//! `SpoolKafka`: a server of spools for clients of Kafka.

use crate::errors::{self, OrRaise};
use pyo3::prelude::*;
use std::path::PathBuf;
use zwire_kafka::{Error, KafkaServer, Options};

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| match &error {
            Error::Listen { address, .. } => errors::listening(py, error.to_string(), address),
            Error::Usage(problem) => errors::usage(py, problem),
            Error::Spool(error) => errors::spool(py, error),
            Error::Engine(error) => errors::engine(py, error),
        })
    }
}

/// Server of spools for clients of Kafka.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct SpoolKafka(KafkaServer);

attributes! { SpoolKafka, |this|
    /// Address that it listens on, `host:port`.
    address: String = this.0.address().to_string();
}

#[pymethods]
impl SpoolKafka {
    #[new]
    fn new(
        py: Python<'_>,
        spools: Vec<(String, PathBuf)>,
        listen: String,
        advertised: Option<String>,
        commits: bool,
    ) -> PyResult<Self> {
        let server = py.detach(|| {
            let open = |(name, place): (String, PathBuf)| Ok((name, zwire_recorder::open_spool(&place)?));
            let spools = spools.into_iter().map(open).collect::<Result<_, Error>>()?;
            KafkaServer::start(spools, Options { listen, advertised, commits })
        });
        server.map(Self).or_raise(py)
    }

    /// Stops listening, and closes all connections.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.close()).or_raise(py)
    }
}
