//! Conversion of the configuration tree to the types of the engine.

use core::time::Duration;
use std::{collections::BTreeMap, path::Path};

use serde_json::Value;
use zwire_proto::zenoh::{WhatAmI, intercept::Policy};

use super::{
    Budget, Config, ConfigError, Connect, ConnectRules, Endpoint, EndpointError, ErrorReply, LinkOptions,
    Listen, NodeConfig, Secret, SharedMessage, SnResolution, Target, TargetGroup, UserPassword,
    error::Result,
    intercept,
    reader::{Setting, TreeReader, below, key},
    tree, values,
};

/// Largest file of users: a hundred thousand of them.
const MAX_DICTIONARY: u64 = 8 << 20;

impl Config {
    /// Checks the values against each other and converts them for the engine; reads the file of users if
    /// one is configured.
    ///
    /// # Errors
    /// Values that exclude each other, invalid endpoint parameters, an unreadable file of users.
    pub fn resolve(&self) -> Result<NodeConfig> {
        let tree = TreeReader { config: self, mode: self.mode() };
        tree.read("gateway/south", values::south)?;
        if self.mode() == WhatAmI::Router {
            self.check_plugins()?;
        }
        let mut config: NodeConfig = tree.get("")?;
        config.zwire.idle_close = config.zwire.idle_close.filter(|idle| !idle.is_zero());
        config.check()?;
        Ok(config)
    }

    /// Warns of rules that take effect, and deny less than they seem to.
    ///
    /// # Errors
    /// A rule is not valid.
    pub(crate) fn warn_of_rules(&self) -> Result<()> {
        let tree = TreeReader { config: self, mode: self.mode() };
        if tree.get("access_control/enabled")? {
            let default_allow = tree.value("access_control/default_permission") == "allow";
            intercept::warn_of_wider_keys(default_allow, &tree.value("access_control/rules"))?;
        }
        Ok(())
    }

    /// Refuses plugins that a router cannot do without, and that nothing here takes the place of.
    fn check_plugins(&self) -> Result<()> {
        for path in self.plugins_without_effect() {
            let path = format!("{path}/__required__");
            if self.find(&path).is_some_and(|required| *required == true) {
                let expected = "false, because nothing here does the work of this plugin";
                return Err(ConfigError::value(&path, expected, "true"));
            }
        }
        Ok(())
    }
}

impl NodeConfig {
    /// The defaults of a mode.
    ///
    /// # Panics
    /// Never: a test resolves the defaults of each mode.
    #[must_use]
    pub fn for_mode(mode: WhatAmI) -> Self {
        let get = Config::default();
        let mut config = get.clone();
        let made = config.insert("mode", Value::from(mode.to_string())).and_then(|()| config.resolve());
        made.expect("the defaults are a valid configuration")
    }

    /// Checks rules between values. Each single value was checked when it entered the tree.
    fn check(&self) -> Result<()> {
        if self.unicast.compression && !cfg!(feature = "lz4") {
            let expected = "false, because this build has no LZ4 (feature `lz4`)";
            return Err(ConfigError::value("transport/unicast/compression/enabled", expected, "true"));
        }
        let (connect, listen) = (&self.connect, &self.listen);
        let retries = |rules: &ConnectRules| rules.retry.init > rules.retry.max;
        let rules = [
            (
                self.unicast.lowlatency && self.unicast.qos,
                "transport/unicast/lowlatency",
                "transport/unicast/qos/enabled",
                "only one of them can be true",
            ),
            (
                self.link.keep_alive_interval() < Duration::from_millis(1),
                "transport/link/tx/lease",
                "transport/link/tx/keep_alive",
                "less than a millisecond between keep-alives",
            ),
            (
                self.mode == WhatAmI::Client
                    && !self.scouting.multicast.enabled
                    && connect.targets().next().is_none(),
                "connect/endpoints",
                "scouting/multicast/enabled",
                "a client needs an endpoint to connect to, or scouting to find one",
            ),
            (
                retries(&connect.rules) || connect.targets().any(|t| retries(&t.rules)),
                "connect/retry/period_init_ms",
                "connect/retry/period_max_ms",
                "the first pause is longer than the longest",
            ),
            (
                retries(&listen.rules) || listen.targets.iter().any(|t| retries(&t.rules)),
                "listen/retry/period_init_ms",
                "listen/retry/period_max_ms",
                "the first pause is longer than the longest",
            ),
        ];
        match rules.into_iter().find(|(broken, ..)| *broken) {
            Some((_, first, second, rule)) => Err(ConfigError::Conflict { first, second, rule }),
            None => Ok(()),
        }
    }
}

impl Setting for Policy {
    fn at(tree: &TreeReader<'_>, _: &str) -> Result<Self> {
        let access_control = if tree.get("access_control/enabled")? {
            let default_allow = tree.value("access_control/default_permission") == "allow";
            Some(intercept::access_control(default_allow, |path| tree.value(path))?)
        } else {
            None
        };
        Ok(Self {
            downsampling: tree.read("downsampling", intercept::downsampling)?,
            access_control,
            qos: tree.read("qos/network", intercept::qos_network)?,
            low_pass: tree.read("low_pass_filter", intercept::low_pass)?,
        })
    }
}

impl Setting for Connect {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        let rules = tree.get(path)?;
        Ok(Self { groups: groups(tree, path, true, rules)?, rules })
    }
}

impl Setting for Listen {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        let rules = tree.get(path)?;
        let groups = groups(tree, path, false, rules)?;
        Ok(Self { targets: groups.into_iter().flat_map(|group| group.targets).collect(), rules })
    }
}

impl Setting for SnResolution {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        Ok(match tree.get::<String>(path)?.as_str() {
            "8bit" => Self::Bits8,
            "16bit" => Self::Bits16,
            "64bit" => Self::Bits64,
            // The table allows no other word.
            _ => Self::Bits32,
        })
    }
}

impl Setting for ErrorReply {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        Ok(match tree.get::<String>(path)?.as_str() {
            "none" => Self::Nothing,
            "traceback" => Self::Traceback,
            // The table allows no other word.
            _ => Self::Message,
        })
    }
}

impl Setting for UserPassword {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        let [user, password] = ["user", "password"].map(|name| key(&below(path, name)).path);
        let own = match (tree.get(user)?, tree.get(password)?) {
            (Some(user), Some(password)) => Some((user, Secret::new(password))),
            (None, None) => None,
            _ => {
                let rule = "set both or neither";
                return Err(ConfigError::Conflict { first: user, second: password, rule });
            }
        };
        let file: Option<String> = tree.get(&below(path, "dictionary_file"))?;
        let dictionary = file.map(|file| read_dictionary(Path::new(&file))).transpose()?;
        Ok(Self { own, dictionary })
    }
}

impl Setting for Vec<SharedMessage> {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        let words: Vec<String> = tree.get(path)?;
        let message = |word: String| match word.as_str() {
            "put" => Ok(SharedMessage::Put),
            "query" => Ok(SharedMessage::Query),
            "reply" => Ok(SharedMessage::Reply),
            _ => Err(ConfigError::value(path, "a list of put, query and reply", word)),
        };
        words.into_iter().map(message).collect()
    }
}

/// The range in the table allows -1 as the only negative value.
impl Setting for Budget {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        Ok(match u64::try_from(tree.get::<i64>(path)?) {
            Err(_) => Self::Forever,
            Ok(0) => Self::Once,
            Ok(ms) => Self::Within(Duration::from_millis(ms)),
        })
    }
}

/// Reads the endpoints of a section.
fn groups(
    tree: &TreeReader<'_>,
    section: &str,
    groups: bool,
    rules: ConnectRules,
) -> Result<Vec<TargetGroup>> {
    let path = below(section, "endpoints");
    let protocols: Option<Vec<String>> = tree.get("transport/link/protocols")?;
    let groups = tree.read(&path, |path, value| values::endpoints(groups, path, value))?;
    let resolve = |(i, (strategy, endpoints)): (usize, (_, Vec<Endpoint>))| {
        let target = |endpoint| target(&format!("{path}/{i}"), endpoint, rules, protocols.as_deref());
        Ok(TargetGroup { strategy, targets: endpoints.into_iter().map(target).collect::<Result<_>>()? })
    };
    groups.into_iter().enumerate().map(resolve).collect()
}

fn target(path: &str, endpoint: Endpoint, rules: ConnectRules, allowed: Option<&[String]>) -> Result<Target> {
    let wrap = |source: EndpointError| ConfigError::Endpoint { path: path.to_owned(), source };
    let options = LinkOptions::of(&endpoint).map_err(wrap)?;
    let rules = rules.overridden_by(&endpoint).map_err(wrap)?;
    if let Some(allowed) = allowed
        && !allowed.iter().any(|protocol| protocol == endpoint.protocol())
    {
        let expected = format!("a protocol of transport/link/protocols: {}", allowed.join(", "));
        return Err(ConfigError::value(path, expected, endpoint.to_string()));
    }
    Ok(Target { endpoint, options, rules })
}

/// Reads lines `user:password`; empty ones are skipped. The password may contain colons.
fn read_dictionary(file: &Path) -> Result<BTreeMap<String, Secret>> {
    let text = tree::read(file, MAX_DICTIONARY)?;
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(file)
        && std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o004 != 0
    {
        tracing::warn!(file = %file.display(), "every user of this machine can read the passwords: chmod o-r it");
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| match line.trim().split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                Ok((user.to_owned(), Secret::new(password.to_owned())))
            }
            _ => Err(ConfigError::Credentials { file: file.to_owned(), line: i + 1 }),
        })
        .collect()
}
