//! `scout`: search for nodes.

use crate::{
    errors::{self, OrRaise},
    loops::calling::Life,
    zenoh::{
        enums::{PyWhatAmI, title},
        handlers::HandlerArg,
        matcher::PyWhatAmIMatcher,
        receiver::Source,
        zid::PyZenohId,
    },
};
use parking_lot::Mutex;
use pyo3::{exceptions::PyTypeError, prelude::*};
use std::sync::Arc;
use zwire_engine::{
    config::Roles,
    scouting::{self, Found, Listing},
};
use zwire_proto::zenoh::WhatAmI;

/// Answer of a node.
#[pyclass(module = "zwire.zenoh", frozen)]
pub(crate) struct Hello(Found);

attributes! { Hello, |this|
    /// The role of the node.
    whatami: PyWhatAmI = PyWhatAmI(this.0.whatami);
    /// The id of the node.
    zid: PyZenohId = PyZenohId(this.0.zid);
    /// Locators of the node, as far as they are usable from here.
    locators: Vec<String> = this.0.locators.iter().map(|locator| locator.as_str().to_owned()).collect();
    /// Address that the answer came from, such as `192.168.1.5:47123`.
    source: String = this.0.from.to_string();
}

text! { Hello, |this| {
    let locators = this.locators().join(", ");
    let role = title(this.0.whatami);
    format!("Hello {{ zid: {}, whatami: {role}, locators: [{locators}] }}", this.0.zid)
} }

items! { Found => Hello }

/// Searches that the exit of the interpreter has to end.
static RUNNING: Mutex<Vec<Arc<Listing>>> = Mutex::new(Vec::new());

/// Ends all searches.
pub(crate) fn stop_all() {
    let running = core::mem::take(&mut *RUNNING.lock());
    for listing in running {
        listing.stop();
    }
}

/// A search for nodes: a context manager, and an iterator over the answers unless it has a callback. It
/// ends with `stop()`, or when it is dropped unless it has a callback.
#[pyclass(module = "zwire.zenoh", frozen, weakref, generic)]
pub(crate) struct Scout {
    listing: Arc<Listing>,
    handler: Py<PyAny>,
    background: bool,
}

impl Drop for Scout {
    fn drop(&mut self) {
        if !self.background {
            self.listing.stop();
        }
    }
}

attributes! { Scout, |this, py|
    /// The channel, or the handler given with the callback.
    handler: Py<PyAny> = this.handler.clone_ref(py);
    /// Number of answers dropped because the handler was full.
    dropped: u64 = this.listing.queue().dropped();
}

receives! { Scout, "answer", |this, py| Source::of(py, &this.handler)? }

represented! { Scout, |slf| {
    let queue = slf.get().listing.queue();
    format!("{}, {} answers waiting", if queue.is_closed() { "ended" } else { "searching" }, queue.len())
} }

context_manager! { Scout, |this, _py| {
    this.listing.stop();
    Ok(())
} }

#[pymethods]
impl Scout {
    /// Ends the search. A second call does nothing.
    fn stop(&self) {
        self.listing.stop();
    }
}

/// Parses `None`, a role, a matcher, or its text.
fn roles(py: Python<'_>, what: Option<&Bound<'_, PyAny>>) -> PyResult<Roles> {
    let Some(what) = what else {
        return Ok([WhatAmI::Router, WhatAmI::Peer, WhatAmI::Client].into_iter().collect());
    };
    let roles = if let Ok(matcher) = what.cast::<PyWhatAmIMatcher>() {
        *matcher.get()
    } else if let Ok(text) = what.extract::<String>() {
        PyWhatAmIMatcher::new(py, Some(&text))?
    } else if let Ok(role) = what.extract::<PyWhatAmI>() {
        return Ok([role.0].into_iter().collect());
    } else {
        let kind = what.get_type().name()?;
        return Err(PyTypeError::new_err(format!("what must be a WhatAmIMatcher or its text, not {kind}")));
    };
    let roles: Roles = roles.roles().collect();
    if roles.is_empty() {
        return Err(errors::invalid(py, "what matches no role: no node would be asked".to_owned()));
    }
    Ok(roles)
}

/// Searches for nodes, with the settings of `scouting/multicast`: each answer goes to the handler. A node
/// answers each SCOUT, on each interface.
#[pyfunction]
#[pyo3(signature = (handler=None, what=None, config=None))]
pub(crate) fn scout(
    py: Python<'_>,
    handler: Option<&Bound<'_, PyAny>>,
    what: Option<&Bound<'_, PyAny>>,
    config: Option<&Bound<'_, PyAny>>,
) -> PyResult<Scout> {
    crate::log::attach(py)?;
    let handler = HandlerArg::parse(py, handler)?;
    let roles = roles(py, what)?;
    let config = crate::config::extract_option(config)?;
    let queued = handler.engine();
    let listing = py.detach(|| scouting::scout(&config, roles, queued));
    let listing = Arc::new(listing.or_raise(py)?);
    let background = matches!(handler, HandlerArg::Callback { .. });
    let handler = handler.attach(py, listing.queue(), None, &Arc::<Life>::default())?;
    let mut running = RUNNING.lock();
    running.retain(|known| !known.queue().is_closed());
    running.push(listing.clone());
    drop(running);
    Ok(Scout { listing, handler, background })
}
