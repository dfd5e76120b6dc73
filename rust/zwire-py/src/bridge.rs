//! `ZreBridgeHandle`: a bridge between a ZRE network and the Zenoh network of a session.

use crate::{
    errors::{self, OrRaise},
    options::{OptionValue, Options},
    zenoh::session::Session,
    zre::settings,
};
use core::time::Duration;
use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyDict};
use std::sync::{Arc, Weak};
use zwire_bridge::{Error, Mode, Options as BridgeOptions, Result, ZreBridge};
use zwire_engine::zre::NodeOptions;
use zwire_proto::{
    bridge::{GroupRule, Network, uuid_of},
    zenoh::ZenohId,
};

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| match &error {
            Error::Engine(error) => errors::engine(py, error),
            Error::Network(problem) => errors::option(py, "network", &problem.to_string()),
            Error::Pattern(problem) => errors::option(py, "groups", &problem.to_string()),
            Error::Twice(_) | Error::Usage(_) | Error::Thread(_) => errors::usage(py, &error.to_string()),
        })
    }
}

/// Rules of groups: pattern, directions to Zenoh and to ZRE, most messages of a sender in a second.
struct Groups(Vec<(String, bool, bool, Option<u32>)>);

impl OptionValue for Groups {
    const WANTED: &'static str = "rules of groups, with rates above 0";

    fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        let rules: Vec<(String, bool, bool, Option<u32>)> = value.extract().ok()?;
        rules.iter().all(|rule| rule.3 != Some(0)).then_some(Self(rules))
    }
}

fn options(py: Python<'_>, from: &Options<'_, '_>, node: NodeOptions) -> PyResult<BridgeOptions> {
    let name = from.take::<String>("network")?.unwrap_or_else(|| "zre".to_owned());
    let network = Network::new(&name).map_err(Error::from).or_raise(py)?;
    let mut options = BridgeOptions::new(network, node);
    if let Some(word) = from.take::<String>("mode")? {
        options.mode = Mode::of(&word)
            .ok_or_else(|| from.wrong("mode", format!("expected one, mirror or observer, not {word:?}")))?;
    }
    for (pattern, to_zenoh, to_zre, rate) in from.take::<Groups>("groups")?.map_or_else(Vec::new, |it| it.0) {
        let mut rule = GroupRule::new(&pattern).map_err(Error::from).or_raise(py)?;
        (rule.to_zenoh, rule.to_zre, rule.rate) = (to_zenoh, to_zre, rate);
        options.groups.push(rule);
    }
    from.set("whispers", &mut options.whispers)?;
    from.set("log", &mut options.log)?;
    options.whisper_rate = from.take("whisper_rate")?;
    from.set("virtual_nodes", &mut options.virtual_nodes)?;
    from.set("queue", &mut options.lanes.messages)?;
    from.set("queue_bytes", &mut options.lanes.bytes)?;
    from.set("total_bytes", &mut options.lanes.total)?;
    from.set("patience", &mut options.patience)?;
    Ok(options)
}

/// A bridge of a session.
#[pyclass(module = "zwire._zwire", frozen)]
pub(crate) struct ZreBridgeHandle(Arc<ZreBridge>);

/// Bridges that the exit of the interpreter has to close.
static OPEN: Mutex<Vec<Weak<ZreBridge>>> = Mutex::new(Vec::new());

/// Time for the goodbyes of a bridge that the program has not closed.
const LAST: Duration = Duration::from_secs(2);

/// Closes bridges that the program has left open: ZRE peers hear a goodbye.
pub(crate) fn close_all(py: Python<'_>) {
    let open: Vec<Weak<ZreBridge>> = core::mem::take(&mut *OPEN.lock());
    py.detach(|| {
        for bridge in open.iter().filter_map(Weak::upgrade) {
            // In a forked child this does nothing.
            let _ = bridge.close(LAST);
        }
    });
}

impl Drop for ZreBridgeHandle {
    /// Closes the bridge without the interpreter lock.
    fn drop(&mut self) {
        // In a forked child, and after a close, this does nothing; without an interpreter the bridge ends by itself.
        let _ = Python::try_attach(|py| py.detach(|| self.0.close(LAST)));
    }
}

attributes! { ZreBridgeHandle, |this|
    /// UUID of its ZRE node.
    uuid: String = this.0.uuid().to_string();
}

#[pymethods]
impl ZreBridgeHandle {
    #[new]
    fn new(
        py: Python<'_>,
        session: &Bound<'_, Session>,
        given: &Bound<'_, PyDict>,
        node: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let engine = session.get().0.look(py)?;
        engine.check().or_raise(py)?;
        let node = Options::read(node, settings::read)?;
        let options = Options::read(given, |from| options(py, from, node))?;
        let bridge = Arc::new(py.detach(|| ZreBridge::start(engine, options)).or_raise(py)?);
        let mut open = OPEN.lock();
        open.retain(|known| known.strong_count() > 0);
        open.push(Arc::downgrade(&bridge));
        Ok(Self(bridge))
    }

    /// Counters and state by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.0.stats()).or_raise(py)?;
        let state = &stats.state;
        let dict = dict! { py;
            of state: active, term, other_bridges, peers, far_peers, groups, virtual_nodes, problem
        };
        for (name, value) in stats.named() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Ends the bridge.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let timeout = Duration::try_from_secs_f64(timeout.clamp(0.0, 1e6)).unwrap_or(LAST);
        py.detach(|| self.0.close(timeout)).or_raise(py)
    }
}

/// UUID of a program of Zenoh in a bridged network, from the text of its id.
#[pyfunction]
pub(crate) fn zre_uuid_of(py: Python<'_>, zid: &str) -> PyResult<String> {
    let zid: ZenohId = zid.parse().map_err(|error: <ZenohId as core::str::FromStr>::Err| {
        errors::invalid(py, format!("{zid:?} is no id of a session: {error}"))
    })?;
    Ok(uuid_of(zid).to_string().to_lowercase())
}
