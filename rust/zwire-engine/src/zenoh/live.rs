//! [`LiveConfig`]: the configuration of an open session as it is now.

use crate::{
    config::{AdminSpace, Config, NodeConfig, Target},
    zenoh::link::Link,
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Weak},
};
use tokio::task::AbortHandle;

/// Keys, and branches of keys, that may change while a session is open.
pub(crate) const LIVE: &[&str] = &[
    "access_control",
    "adminspace/permissions",
    "connect/endpoints",
    "downsampling",
    "low_pass_filter",
    "metadata",
    "plugins",
    "qos/network",
    "zwire/log/level",
];

/// Changes that are remembered for readers of the admin space, and as many refused ones: a peer without permission
/// does not make the node forget what was changed.
const REMEMBERED: usize = 64;

/// Function that applies a changed section of `plugins`: before and after. An error refuses the change.
pub type PluginSection = Arc<dyn Fn(&Value, &Value) -> Result<(), String> + Send + Sync>;

/// The link to the node that one of several targets has led to.
#[derive(Clone, Default)]
pub(crate) struct Current(Arc<Mutex<CurrentLink>>);

#[derive(Default)]
struct CurrentLink {
    link: Weak<Link>,
    ended: bool,
}

impl Current {
    /// Sets the link; false if a change has taken the targets away while it was dialled.
    pub(crate) fn set(&self, link: &Arc<Link>) -> bool {
        let mut state = self.0.lock();
        state.link = Arc::downgrade(link);
        !state.ended
    }

    pub(crate) fn get(&self) -> Option<Arc<Link>> {
        self.0.lock().link.upgrade()
    }

    /// Refuses links from now on, and returns the present one.
    pub(crate) fn end(&self) -> Option<Arc<Link>> {
        let mut state = self.0.lock();
        state.ended = true;
        state.link.upgrade()
    }
}

/// Endpoints that are kept connected.
pub(crate) struct Kept {
    pub(crate) targets: Vec<Target>,
    pub(crate) task: AbortHandle,
    pub(crate) current: Current,
}

/// The present configuration of a session.
pub(crate) struct LiveConfig {
    state: Mutex<LiveState>,
    turn: Mutex<()>,
}

struct LiveState {
    tree: Config,
    admin: AdminSpace,
    /// The last changes, applied and refused, by their numbers.
    applied: VecDeque<(u64, Value)>,
    refused: VecDeque<(u64, Value)>,
    told: u64,
    kept: Vec<Kept>,
    sections: BTreeMap<String, PluginSection>,
}

impl LiveConfig {
    pub(crate) fn new(tree: Config, config: &NodeConfig) -> Self {
        let (admin, sections) = (config.adminspace, BTreeMap::new());
        let (applied, refused, kept) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let state = LiveState { tree, admin, applied, refused, told: 0, kept, sections };
        Self { state: Mutex::new(state), turn: Mutex::new(()) }
    }

    pub(crate) fn tree(&self) -> Config {
        self.state.lock().tree.clone()
    }

    pub(crate) fn admin(&self) -> AdminSpace {
        self.state.lock().admin
    }

    pub(crate) fn metadata(&self) -> Value {
        self.state.lock().tree.get("metadata").cloned().unwrap_or_default()
    }

    /// What may change, and what has: for readers of the admin space.
    pub(crate) fn status(&self) -> Value {
        let state = self.state.lock();
        let plugins: Vec<&String> = state.sections.keys().collect();
        let mut changes: Vec<&(u64, Value)> = state.applied.iter().chain(&state.refused).collect();
        changes.sort_by_key(|(number, _)| *number);
        let changes: Vec<&Value> = changes.into_iter().map(|(_, change)| change).collect();
        json!({ "writable": LIVE, "plugins": plugins, "changes": changes })
    }

    /// Sets the function that applies changes of `plugins/<name>`.
    pub(crate) fn set_section(&self, name: &str, section: PluginSection) {
        self.state.lock().sections.insert(name.to_owned(), section);
    }

    pub(crate) fn section(&self, name: &str) -> Option<PluginSection> {
        self.state.lock().sections.get(name).cloned()
    }

    /// Held during a change: one at a time.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Puts a changed configuration into force.
    pub(crate) fn set(&self, tree: Config, admin: AdminSpace) {
        let mut state = self.state.lock();
        (state.tree, state.admin) = (tree, admin);
    }

    /// Calls a function with the endpoints that are kept connected.
    pub(crate) fn with_kept<R>(&self, f: impl FnOnce(&mut Vec<Kept>) -> R) -> R {
        f(&mut self.state.lock().kept)
    }

    pub(crate) fn remember(&self, change: Value, applied: bool) {
        let mut state = self.state.lock();
        state.told += 1;
        let number = state.told;
        let list = if applied { &mut state.applied } else { &mut state.refused };
        if list.len() >= REMEMBERED {
            list.pop_front();
        }
        list.push_back((number, change));
    }
}
