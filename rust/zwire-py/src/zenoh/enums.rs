//! Conversion of enumerations. Python sees members of `enum.Enum` classes (`zwire.zenoh`), which iterate,
//! pickle and can be dictionary keys; the types here convert from and to them.

use crate::{errors, loops::once::Once};
use pyo3::{Borrowed, prelude::*};
use zwire_proto::{
    zenoh::{
        CongestionControl, Priority, Reliability, SetIntersectionLevel, WhatAmI,
        session::{Locality, SampleKind},
        wire::{Consolidation, QueryTarget, TsRecord, TsStack},
    },
    zre::node::Delivery,
};

/// Module of most of the Python classes.
const MODULE: &str = "zwire.zenoh._enums";

/// Whether replies have to match the key of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKey {
    Any,
    MatchingQuery,
}

/// Name of a member in Python: `BlockFirst` is `BLOCK_FIRST`.
fn member(variant: &str) -> String {
    let mut name = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

macro_rules! enumeration {
    ($py:ident, $name:literal $(in $module:literal)?, $rust:ident: $($variant:ident),+) => {
        #[doc = concat!("A member of the Python class `", $name, "`.")]
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $py(pub(crate) $rust);

        impl $py {
            const VARIANTS: &[$rust] = &[$($rust::$variant),+];

            /// The members, in the order of `VARIANTS`.
            fn members(py: Python<'_>) -> PyResult<&'static [Py<PyAny>]> {
                static CACHE: Once<Vec<Py<PyAny>>> = Once::new();
                let members = CACHE.get(|| {
                    let module = [$($module,)? MODULE][0];
                    let class = py.import(module)?.getattr($name)?;
                    let member = |variant| Ok(class.getattr(member(variant))?.unbind());
                    [$(stringify!($variant)),+].into_iter().map(member).collect()
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

enumeration!(PyCongestionControl, "CongestionControl", CongestionControl: Drop, Block, BlockFirst);
enumeration!(
    PyPriority, "Priority", Priority:
    RealTime, InteractiveHigh, InteractiveLow, DataHigh, Data, DataLow, Background
);
enumeration!(PyReliability, "Reliability", Reliability: BestEffort, Reliable);
enumeration!(PySampleKind, "SampleKind", SampleKind: Put, Delete);
enumeration!(PyQueryTarget, "QueryTarget", QueryTarget: BestMatching, All, AllComplete);
enumeration!(PyConsolidationMode, "ConsolidationMode", Consolidation: Auto, None, Monotonic, Latest);
enumeration!(PyReplyKeyExpr, "ReplyKeyExpr", ReplyKey: Any, MatchingQuery);
enumeration!(PyLocality, "Locality", Locality: SessionLocal, Remote, Any);
enumeration!(PyWhatAmI, "WhatAmI", WhatAmI: Router, Peer, Client);
enumeration!(
    PySetIntersectionLevel, "SetIntersectionLevel", SetIntersectionLevel: Disjoint, Intersects, Includes, Equals
);
enumeration!(PyDelivery, "Delivery" in "zwire.zre._delivery", Delivery: Queued, Full, NotResponding, Refused);
enumeration!(PyInterceptionPoint, "InterceptionPoint", Point: Send, Route, Receive);

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
