//! `WhatAmIMatcher`: a set of roles.

use crate::{errors, zenoh::enums::PyWhatAmI};
use pyo3::{
    prelude::*,
    types::{PyString, PyType},
};
use zwire_proto::zenoh::WhatAmI;

const ROLES: [WhatAmI; 3] = [WhatAmI::Router, WhatAmI::Peer, WhatAmI::Client];

/// A set of node roles, written `"router|peer"`.
///
/// Raises:
///     InvalidValue: A part of the text is neither `router`, `peer` nor `client`.
#[pyclass(name = "WhatAmIMatcher", module = "zwire.zenoh", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyWhatAmIMatcher(u8);

impl PyWhatAmIMatcher {
    /// The roles in the set.
    pub(crate) fn roles(self) -> impl Iterator<Item = WhatAmI> {
        ROLES.into_iter().filter(move |role| self.0 & role.to_mask() != 0)
    }
}

fn role(py: Python<'_>, name: &str) -> PyResult<WhatAmI> {
    ROLES
        .into_iter()
        .find(|role| role.to_string() == name)
        .ok_or_else(|| errors::invalid(py, format!("`{name}` is no role; there are router, peer and client")))
}

/// Blanks around a name and empty parts are ignored.
fn parse(py: Python<'_>, text: &str) -> PyResult<u8> {
    let mut names = text.split('|').map(str::trim).filter(|name| !name.is_empty());
    names.try_fold(0, |mask, name| Ok(mask | role(py, name)?.to_mask()))
}

pickled! { PyWhatAmIMatcher, |this, _py| (this.__str__(),) }

methods! { PyWhatAmIMatcher, |this|
    /// Adds routers; returns a new set.
    router: PyWhatAmIMatcher = PyWhatAmIMatcher(this.0 | WhatAmI::Router.to_mask());
    /// Adds peers; returns a new set.
    peer: PyWhatAmIMatcher = PyWhatAmIMatcher(this.0 | WhatAmI::Peer.to_mask());
    /// Adds clients; returns a new set.
    client: PyWhatAmIMatcher = PyWhatAmIMatcher(this.0 | WhatAmI::Client.to_mask());
    /// Whether the set is empty.
    is_empty: bool = this.0 == 0;
}

#[pymethods]
impl PyWhatAmIMatcher {
    #[new]
    #[pyo3(signature = (matcher=None))]
    pub(crate) fn new(py: Python<'_>, matcher: Option<&str>) -> PyResult<Self> {
        parse(py, matcher.unwrap_or_default()).map(Self)
    }

    /// The empty set.
    #[classmethod]
    fn empty(_cls: &Bound<'_, PyType>) -> Self {
        Self(0)
    }

    /// Whether the set contains that role, or the role of that name.
    fn matches(&self, whatami: &Bound<'_, PyAny>) -> PyResult<bool> {
        let whatami = match whatami.cast::<PyString>() {
            Ok(name) => role(whatami.py(), name.to_str()?)?,
            Err(_) => whatami.extract::<PyWhatAmI>()?.0,
        };
        Ok(self.0 & whatami.to_mask() != 0)
    }

    fn __contains__(&self, whatami: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.matches(whatami)
    }

    fn __str__(&self) -> String {
        let names = ROLES.iter().filter(|role| self.0 & role.to_mask() != 0).map(WhatAmI::to_string);
        names.collect::<Vec<_>>().join("|")
    }

    fn __repr__(&self) -> String {
        format!("WhatAmIMatcher('{}')", self.__str__())
    }
}
