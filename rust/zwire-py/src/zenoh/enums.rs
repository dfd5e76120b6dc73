//! Conversion of enumerations. Python sees members of `enum.Enum` classes (`zwire.zenoh`), which iterate,
//! pickle and can be dictionary keys; the types here convert from and to them.

use crate::{errors, loops::once::Once};
use pyo3::{Borrowed, prelude::*};
use zwire_proto::zenoh::{
    CongestionControl, Priority, Reliability, SetIntersectionLevel, WhatAmI,
    session::{Locality, SampleKind},
    wire::{Consolidation, QueryTarget, TsRecord, TsStack},
};

/// Module of the Python classes.
const MODULE: &str = "zwire.zenoh._enums";

/// Whether replies have to match the key of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKey {
    Any,
    MatchingQuery,
}

macro_rules! enumeration {
    ($py:ident, $name:literal, $rust:ty { $($variant:ident = $member:literal),+ $(,)? }) => {
        #[doc = concat!("A member of the Python class `", $name, "`.")]
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $py(pub(crate) $rust);

        impl $py {
            const VARIANTS: &[$rust] = &[$(<$rust>::$variant),+];
            const MEMBERS: &[&str] = &[$($member),+];

            /// The members, in the order of `VARIANTS`.
            fn members(py: Python<'_>) -> PyResult<&'static [Py<PyAny>]> {
                static CACHE: Once<Vec<Py<PyAny>>> = Once::new();
                let members = CACHE.get(|| {
                    let class = py.import(MODULE)?.getattr($name)?;
                    Self::MEMBERS.iter().map(|name| Ok(class.getattr(*name)?.unbind())).collect::<PyResult<_>>()
                })?;
                Ok(members)
            }
        }

        impl<'py> IntoPyObject<'py> for $py {
            type Target = PyAny;
            type Output = Bound<'py, PyAny>;
            type Error = PyErr;
            fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
                let members = Self::members(py)?;
                // Every variant is listed; a test on the Python side checks each member.
                let at = Self::VARIANTS.iter().position(|variant| *variant == self.0);
                match at.and_then(|at| members.get(at)) {
                    Some(member) => Ok(member.bind(py).clone()),
                    None => Err(errors::invalid(py, format!("{:?} has no name in Python", self.0))),
                }
            }
        }

        impl<'py> FromPyObject<'_, 'py> for $py {
            type Error = PyErr;
            fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let members = Self::members(obj.py())?;
                match members.iter().position(|member| obj.is(member)) {
                    Some(at) => Ok(Self(Self::VARIANTS[at])),
                    None => Err(errors::wrong_type(concat!("a member of ", $name), &obj)),
                }
            }
        }
    };
}

enumeration!(PyCongestionControl, "CongestionControl", CongestionControl {
    Drop = "DROP",
    Block = "BLOCK",
    BlockFirst = "BLOCK_FIRST",
});
enumeration!(PyPriority, "Priority", Priority {
    RealTime = "REAL_TIME",
    InteractiveHigh = "INTERACTIVE_HIGH",
    InteractiveLow = "INTERACTIVE_LOW",
    DataHigh = "DATA_HIGH",
    Data = "DATA",
    DataLow = "DATA_LOW",
    Background = "BACKGROUND",
});
enumeration!(PyReliability, "Reliability", Reliability {
    BestEffort = "BEST_EFFORT",
    Reliable = "RELIABLE",
});
enumeration!(PySampleKind, "SampleKind", SampleKind { Put = "PUT", Delete = "DELETE" });
enumeration!(PyQueryTarget, "QueryTarget", QueryTarget {
    BestMatching = "BEST_MATCHING",
    All = "ALL",
    AllComplete = "ALL_COMPLETE",
});
enumeration!(PyConsolidationMode, "ConsolidationMode", Consolidation {
    Auto = "AUTO",
    None = "NONE",
    Monotonic = "MONOTONIC",
    Latest = "LATEST",
});
enumeration!(PyReplyKeyExpr, "ReplyKeyExpr", ReplyKey { Any = "ANY", MatchingQuery = "MATCHING_QUERY" });
enumeration!(PyLocality, "Locality", Locality {
    SessionLocal = "SESSION_LOCAL",
    Remote = "REMOTE",
    Any = "ANY",
});
enumeration!(PyWhatAmI, "WhatAmI", WhatAmI { Router = "ROUTER", Peer = "PEER", Client = "CLIENT" });
enumeration!(PySetIntersectionLevel, "SetIntersectionLevel", SetIntersectionLevel {
    Disjoint = "DISJOINT",
    Intersects = "INTERSECTS",
    Includes = "INCLUDES",
    Equals = "EQUALS",
});

enumeration!(PyInterceptionPoint, "InterceptionPoint", Point {
    Send = "SEND",
    Route = "ROUTE",
    Receive = "RECEIVE",
});

/// Consolidation of replies to a get: a `ConsolidationMode` as an object. Methods accept either.
#[pyclass(name = "QueryConsolidation", module = "zwire.zenoh", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PyQueryConsolidation(Consolidation);

/// Extracts the mode of a `ConsolidationMode` or a `QueryConsolidation`; automatic if left out.
pub(crate) fn consolidation(obj: Option<&Bound<'_, PyAny>>) -> PyResult<Consolidation> {
    let Some(obj) = obj else { return Ok(Consolidation::Auto) };
    match obj.cast::<PyQueryConsolidation>() {
        Ok(consolidation) => Ok(consolidation.get().0),
        Err(_) => Ok(obj.extract::<PyConsolidationMode>()?.0),
    }
}

attributes! { PyQueryConsolidation, |this|
    /// The mode.
    mode: PyConsolidationMode = PyConsolidationMode(this.0);
}

pickled! { PyQueryConsolidation, |this, _py| (this.mode(),) }

#[pymethods]
impl PyQueryConsolidation {
    /// Chosen by the session: latest, or none if the query selects a time.
    #[classattr]
    const AUTO: Self = Self(Consolidation::Auto);
    /// The same as `AUTO`.
    #[classattr]
    const DEFAULT: Self = Self(Consolidation::Auto);

    #[new]
    fn new(mode: PyConsolidationMode) -> Self {
        Self(mode.0)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("QueryConsolidation({})", self.mode().into_pyobject(py)?.repr()?))
    }
}

/// Role with a capital, for the start of a sentence.
pub(crate) const fn title(role: WhatAmI) -> &'static str {
    match role {
        WhatAmI::Router => "Router",
        WhatAmI::Peer => "Peer",
        WhatAmI::Client => "Client",
    }
}

/// Where a stamp was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Send,
    Route,
    Receive,
}

impl Point {
    /// Flag of the point on the wire.
    pub(crate) const fn flag(self) -> u8 {
        match self {
            Self::Send => TsStack::SEND,
            Self::Route => TsStack::ROUTE,
            Self::Receive => TsStack::RECEIVE,
        }
    }

    /// Point of a record.
    pub(crate) const fn of(record: &TsRecord) -> Self {
        match record.flags & !TsRecord::USER {
            TsStack::SEND => Self::Send,
            TsStack::ROUTE => Self::Route,
            _ => Self::Receive,
        }
    }
}
