//! Conversion of the configuration tree to the types of the engine.

use core::time::Duration;
use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use serde_json::Value;
use zwire_proto::zenoh::{Priority, WhatAmI, intercept::Policy};

use super::{
    AdminSpace, Aggregation, AutoConnect, Budget, Config, ConfigError, Connect, ConnectRules, Endpoint,
    EndpointError, GossipScouting, HandlerDefaults, KEYS, Key, LinkConfig, LinkOptions, Listen, Local,
    Multicast, MulticastScouting, NodeConfig, Pem, Retry, ReturnConditions, Roles, Scouting, Secret,
    SnResolution, Target, TargetGroup, Timestamping, TlsSettings, Unicast, UserPassword, intercept, tree,
    values,
};

type Result<T> = core::result::Result<T, ConfigError>;

/// Largest file of users: a hundred thousand of them.
const MAX_DICTIONARY: u64 = 8 << 20;

impl Config {
    /// Checks the values against each other and converts them for the engine; reads the file of users if
    /// one is configured.
    ///
    /// # Errors
    /// Values that exclude each other, invalid endpoint parameters, an unreadable file of users.
    pub fn resolve(&self) -> Result<NodeConfig> {
        let get = TreeReader { config: self, mode: self.mode() };
        let link = get.link()?;
        get.read("gateway/south", values::south)?;
        let config = NodeConfig {
            mode: get.mode,
            zid: get.optional("id", values::zid)?,
            connect: get.connect(&link)?,
            listen: get.listen(&link)?,
            open: ReturnConditions {
                connect_scouted: get.bool("open/return_conditions/connect_scouted")?,
                declares: get.bool("open/return_conditions/declares")?,
            },
            scouting: get.scouting()?,
            metadata: get.read("metadata", |_, value| Ok(value.clone()))?,
            timestamping: Timestamping {
                enabled: get.bool("timestamping/enabled")?,
                drop_future: get.bool("timestamping/drop_future_timestamp")?,
                max_drift: get.ms("zwire/timestamping/max_drift_ms")?,
            },
            queries_default_timeout: get.ms("queries_default_timeout")?,
            interests_timeout: get.ms("routing/interests/timeout")?,
            transport_weights: get.read("routing/router/linkstate/transport_weights", values::weights)?,
            namespace: get.optional("namespace", |path, value| values::key_expr(path, value, true))?,
            aggregation: Aggregation {
                subscribers: get.read("aggregation/subscribers", values::key_exprs)?,
                publishers: get.read("aggregation/publishers", values::key_exprs)?,
            },
            publication_qos: get.read("qos/publication", values::publication_qos)?,
            intercept: get.intercept()?,
            unicast: get.unicast()?,
            multicast: get.multicast()?,
            link,
            usrpwd: get.usrpwd()?,
            adminspace: AdminSpace {
                enabled: get.bool("adminspace/enabled")?,
                read: get.bool("adminspace/permissions/read")?,
                write: get.bool("adminspace/permissions/write")?,
            },
            zwire: get.local()?,
        };
        config.check()?;
        Ok(config)
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
        let rule = |broken: bool, first, second, rule| match broken {
            true => Err(ConfigError::Conflict { first, second, rule }),
            false => Ok(()),
        };
        rule(
            self.unicast.lowlatency && self.unicast.qos,
            "transport/unicast/lowlatency",
            "transport/unicast/qos/enabled",
            "only one of them can be true",
        )?;
        rule(
            self.link.keep_alive_interval() < Duration::from_millis(1),
            "transport/link/tx/lease",
            "transport/link/tx/keep_alive",
            "less than a millisecond between keep-alives",
        )?;
        rule(
            self.mode == WhatAmI::Client
                && !self.scouting.multicast.enabled
                && self.connect.targets().next().is_none(),
            "connect/endpoints",
            "scouting/multicast/enabled",
            "a client needs an endpoint to connect to, or scouting to find one",
        )?;
        let retries = |rules: &ConnectRules| rules.retry.init > rules.retry.max;
        rule(
            retries(&self.connect.rules) || self.connect.targets().any(|t| retries(&t.rules)),
            "connect/retry/period_init_ms",
            "connect/retry/period_max_ms",
            "the first pause is longer than the longest",
        )?;
        rule(
            retries(&self.listen.rules) || self.listen.targets.iter().any(|t| retries(&t.rules)),
            "listen/retry/period_init_ms",
            "listen/retry/period_max_ms",
            "the first pause is longer than the longest",
        )
    }
}

/// Reader of checked values for one mode.
struct TreeReader<'a> {
    config: &'a Config,
    mode: WhatAmI,
}

impl TreeReader<'_> {
    /// # Panics
    /// For a path that is not in the table, which any test would reveal.
    fn key(&self, path: &'static str) -> &'static Key {
        KEYS.iter().find(|key| key.path == path).expect("a key of the table")
    }

    fn read<T>(&self, path: &'static str, read: impl Fn(&str, &Value) -> Result<T>) -> Result<T> {
        read(path, &self.config.effective(self.key(path), self.mode))
    }

    /// Reads a key with the default `null`.
    fn optional<T>(&self, path: &'static str, read: impl Fn(&str, &Value) -> Result<T>) -> Result<Option<T>> {
        match self.config.effective(self.key(path), self.mode) {
            Value::Null => Ok(None),
            value => read(path, &value).map(Some),
        }
    }

    fn intercept(&self) -> Result<Policy> {
        let access_control = if self.bool("access_control/enabled")? {
            let of = |path| self.config.effective(self.key(path), self.mode);
            let default_allow = of("access_control/default_permission") == "allow";
            Some(intercept::access_control(default_allow, of)?)
        } else {
            None
        };
        Ok(Policy {
            downsampling: self.read("downsampling", intercept::downsampling)?,
            access_control,
            qos: self.read("qos/network", intercept::qos_network)?,
            low_pass: self.read("low_pass_filter", intercept::low_pass)?,
        })
    }

    fn bool(&self, path: &'static str) -> Result<bool> {
        self.read(path, values::boolean)
    }

    /// Reads an integer as the type that its range in the table fits.
    fn int<T: TryFrom<i64>>(&self, path: &'static str) -> Result<T> {
        self.read(path, |path, value| self.fit(path, value))
    }

    fn optional_int<T: TryFrom<i64>>(&self, path: &'static str) -> Result<Option<T>> {
        self.optional(path, |path, value| self.fit(path, value))
    }

    fn fit<T: TryFrom<i64>>(&self, path: &str, value: &Value) -> Result<T> {
        let key = KEYS.iter().find(|key| key.path == path).expect("a key of the table");
        let number = values::integer(key.kind, path, value)?;
        T::try_from(number).map_err(|_| ConfigError::Value {
            path: path.to_owned(),
            expected: format!("a number of {} bits", 8 * size_of::<T>()),
            got: number.to_string(),
        })
    }

    fn ms(&self, path: &'static str) -> Result<Duration> {
        self.int(path).map(Duration::from_millis)
    }

    fn us(&self, path: &'static str) -> Result<Duration> {
        self.int(path).map(Duration::from_micros)
    }

    fn text(&self, path: &'static str) -> Result<Option<String>> {
        let kind = self.key(path).kind;
        self.optional(path, |path, value| values::text(kind, path, value).map(str::to_owned))
    }

    fn roles(&self, path: &'static str) -> Result<Roles> {
        self.read(path, values::roles)
    }

    fn strategy(&self, path: &'static str) -> Result<AutoConnect> {
        self.read(path, values::auto_connect)
    }

    fn float(&self, path: &'static str) -> Result<f64> {
        let kind = self.key(path).kind;
        self.read(path, |path, value| values::float(kind, path, value))
    }

    fn connect(&self, link: &LinkConfig) -> Result<Connect> {
        let rules = ConnectRules {
            budget: budget(self.int("connect/timeout_ms")?),
            exit_on_failure: self.bool("connect/exit_on_failure")?,
            retry: Retry {
                init: self.ms("connect/retry/period_init_ms")?,
                max: self.ms("connect/retry/period_max_ms")?,
                factor: self.float("connect/retry/period_increase_factor")?,
            },
        };
        const PATH: &str = "connect/endpoints";
        let groups = self.read(PATH, |path, value| values::endpoints(true, path, value))?;
        let mut resolved = Vec::with_capacity(groups.len());
        for (i, (strategy, endpoints)) in groups.into_iter().enumerate() {
            let target = |endpoint| target(&format!("{PATH}/{i}"), endpoint, rules, link);
            let targets = endpoints.into_iter().map(target).collect::<Result<_>>()?;
            resolved.push(TargetGroup { strategy, targets });
        }
        Ok(Connect { groups: resolved, rules })
    }

    fn listen(&self, link: &LinkConfig) -> Result<Listen> {
        let rules = ConnectRules {
            budget: budget(self.int("listen/timeout_ms")?),
            exit_on_failure: self.bool("listen/exit_on_failure")?,
            retry: Retry {
                init: self.ms("listen/retry/period_init_ms")?,
                max: self.ms("listen/retry/period_max_ms")?,
                factor: self.float("listen/retry/period_increase_factor")?,
            },
        };
        const PATH: &str = "listen/endpoints";
        let groups = self.read(PATH, |path, value| values::endpoints(false, path, value))?;
        let endpoints = groups.into_iter().flat_map(|(_, endpoints)| endpoints).enumerate();
        let targets = endpoints.map(|(i, endpoint)| target(&format!("{PATH}/{i}"), endpoint, rules, link));
        Ok(Listen { targets: targets.collect::<Result<_>>()?, rules })
    }

    fn scouting(&self) -> Result<Scouting> {
        let interfaces = self.read("scouting/multicast/interface", values::interfaces)?;
        Ok(Scouting {
            timeout: self.ms("scouting/timeout")?,
            delay: self.ms("scouting/delay")?,
            multicast: MulticastScouting {
                enabled: self.bool("scouting/multicast/enabled")?,
                address: self.read::<SocketAddr>("scouting/multicast/address", values::group)?,
                interfaces,
                ttl: self.int("scouting/multicast/ttl")?,
                autoconnect: self.roles("scouting/multicast/autoconnect")?,
                strategy: self.strategy("scouting/multicast/autoconnect_strategy")?,
                listen: self.bool("scouting/multicast/listen")?,
            },
            gossip: GossipScouting {
                enabled: self.bool("scouting/gossip/enabled")?,
                multihop: self.bool("scouting/gossip/multihop")?,
                target: self.roles("scouting/gossip/target")?,
                autoconnect: self.roles("scouting/gossip/autoconnect")?,
                strategy: self.strategy("scouting/gossip/autoconnect_strategy")?,
            },
        })
    }

    fn unicast(&self) -> Result<Unicast> {
        Ok(Unicast {
            open_timeout: self.ms("transport/unicast/open_timeout")?,
            accept_timeout: self.ms("transport/unicast/accept_timeout")?,
            accept_pending: self.int("transport/unicast/accept_pending")?,
            max_sessions: self.int("transport/unicast/max_sessions")?,
            max_links: self.int("transport/unicast/max_links")?,
            lowlatency: self.bool("transport/unicast/lowlatency")?,
            qos: self.bool("transport/unicast/qos/enabled")?,
            compression: self.compression()?,
        })
    }

    fn compression(&self) -> Result<bool> {
        const PATH: &str = "transport/unicast/compression/enabled";
        let compression = self.bool(PATH)?;
        if compression && !cfg!(feature = "lz4") {
            return Err(ConfigError::Value {
                path: PATH.to_owned(),
                expected: "false, because this build has no LZ4 (feature `lz4`)".to_owned(),
                got: "true".to_owned(),
            });
        }
        Ok(compression)
    }

    fn multicast(&self) -> Result<Multicast> {
        Ok(Multicast {
            join_interval: self.ms("transport/multicast/join_interval")?,
            max_sessions: self.int("transport/multicast/max_sessions")?,
            qos: self.bool("transport/multicast/qos/enabled")?,
        })
    }

    fn link(&self) -> Result<LinkConfig> {
        let resolution = self.text("transport/link/tx/sequence_number_resolution")?;
        let mut queue_size = [0; Priority::COUNT];
        for (size, path) in queue_size.iter_mut().zip([
            "transport/link/tx/queue/size/control",
            "transport/link/tx/queue/size/real_time",
            "transport/link/tx/queue/size/interactive_high",
            "transport/link/tx/queue/size/interactive_low",
            "transport/link/tx/queue/size/data_high",
            "transport/link/tx/queue/size/data",
            "transport/link/tx/queue/size/data_low",
            "transport/link/tx/queue/size/background",
        ]) {
            *size = self.int(path)?;
        }
        Ok(LinkConfig {
            protocols: self.optional("transport/link/protocols", values::words)?,
            sn_resolution: match resolution.as_deref() {
                Some("8bit") => SnResolution::Bits8,
                Some("16bit") => SnResolution::Bits16,
                Some("64bit") => SnResolution::Bits64,
                // The table allows no other word.
                _ => SnResolution::Bits32,
            },
            lease: self.ms("transport/link/tx/lease")?,
            keep_alive: self.int("transport/link/tx/keep_alive")?,
            batch_size: self.int("transport/link/tx/batch_size")?,
            queue_size,
            wait_before_drop: self.us("transport/link/tx/queue/congestion_control/drop/wait_before_drop")?,
            max_wait_before_drop_fragments: self
                .us("transport/link/tx/queue/congestion_control/drop/max_wait_before_drop_fragments")?,
            wait_before_close: self
                .us("transport/link/tx/queue/congestion_control/block/wait_before_close")?,
            batching: self.bool("transport/link/tx/queue/batching/enabled")?,
            batching_time_limit: self.ms("transport/link/tx/queue/batching/time_limit")?,
            rx_buffer_size: self.int("transport/link/rx/buffer_size")?,
            max_message_size: self.int("transport/link/rx/max_message_size")?,
            so_sndbuf: self.optional_int("transport/link/tcp/so_sndbuf")?,
            so_rcvbuf: self.optional_int("transport/link/tcp/so_rcvbuf")?,
            tls: self.tls()?,
        })
    }

    fn tls(&self) -> Result<TlsSettings> {
        Ok(TlsSettings {
            root_ca_certificate: self.pem(
                "transport/link/tls/root_ca_certificate",
                "transport/link/tls/root_ca_certificate_base64",
            )?,
            listen_certificate: self.pem(
                "transport/link/tls/listen_certificate",
                "transport/link/tls/listen_certificate_base64",
            )?,
            listen_private_key: self.pem(
                "transport/link/tls/listen_private_key",
                "transport/link/tls/listen_private_key_base64",
            )?,
            connect_certificate: self.pem(
                "transport/link/tls/connect_certificate",
                "transport/link/tls/connect_certificate_base64",
            )?,
            connect_private_key: self.pem(
                "transport/link/tls/connect_private_key",
                "transport/link/tls/connect_private_key_base64",
            )?,
            enable_mtls: Some(self.bool("transport/link/tls/enable_mtls")?),
            verify_name_on_connect: Some(self.bool("transport/link/tls/verify_name_on_connect")?),
            close_link_on_expiration: Some(self.bool("transport/link/tls/close_link_on_expiration")?),
            handshake_timeout: None,
            so_sndbuf: self.optional_int("transport/link/tls/so_sndbuf")?,
            so_rcvbuf: self.optional_int("transport/link/tls/so_rcvbuf")?,
        })
    }

    fn pem(&self, file: &'static str, base64: &'static str) -> Result<Option<Pem>> {
        match (self.text(file)?, self.text(base64)?) {
            (None, None) => Ok(None),
            (Some(path), None) => Ok(Some(Pem::File(path.into()))),
            (None, Some(text)) => Ok(Some(Pem::Base64(Secret::new(text)))),
            (Some(_), Some(_)) => Err(ConfigError::Conflict {
                first: file,
                second: base64,
                rule: "only one of them can be set",
            }),
        }
    }

    fn usrpwd(&self) -> Result<UserPassword> {
        const USER: &str = "transport/auth/usrpwd/user";
        const PASSWORD: &str = "transport/auth/usrpwd/password";
        let own = match (self.text(USER)?, self.text(PASSWORD)?) {
            (Some(user), Some(password)) => Some((user, Secret::new(password))),
            (None, None) => None,
            _ => {
                let rule = "set both or neither";
                return Err(ConfigError::Conflict { first: USER, second: PASSWORD, rule });
            }
        };
        let file = self.text("transport/auth/usrpwd/dictionary_file")?;
        let dictionary = file.map(|file| read_dictionary(Path::new(&file))).transpose()?;
        Ok(UserPassword { own, dictionary })
    }

    fn local(&self) -> Result<Local> {
        let idle = self.ms("zwire/idle_close_ms")?;
        Ok(Local {
            tap: self.text("zwire/tap")?.map(Into::into),
            queue_bytes_per_priority: self.int("zwire/queue/bytes_per_priority")?,
            handler: HandlerDefaults {
                capacity_messages: self.int("zwire/handler/capacity_messages")?,
                capacity_bytes: self.int("zwire/handler/capacity_bytes")?,
                block_deadline: self.ms("zwire/handler/block_deadline_ms")?,
            },
            threads: self.int("zwire/threads")?,
            idle_close: (!idle.is_zero()).then_some(idle),
        })
    }
}

/// The range in the table allows -1 as the only negative value.
fn budget(ms: i64) -> Budget {
    match u64::try_from(ms) {
        Err(_) => Budget::Forever,
        Ok(0) => Budget::Once,
        Ok(ms) => Budget::Within(Duration::from_millis(ms)),
    }
}

fn target(path: &str, endpoint: Endpoint, rules: ConnectRules, link: &LinkConfig) -> Result<Target> {
    let wrap = |source: EndpointError| ConfigError::Endpoint { path: path.to_owned(), source };
    let options = LinkOptions::of(&endpoint).map_err(wrap)?;
    let rules = rules.overridden_by(&endpoint).map_err(wrap)?;
    if let Some(allowed) = &link.protocols
        && !allowed.iter().any(|protocol| protocol == endpoint.protocol())
    {
        return Err(ConfigError::Value {
            path: path.to_owned(),
            expected: format!("a protocol of transport/link/protocols: {}", allowed.join(", ")),
            got: endpoint.to_string(),
        });
    }
    Ok(Target { endpoint, options, rules })
}

/// Reads lines `user:password`; empty ones are skipped. The password may contain colons.
fn read_dictionary(file: &Path) -> Result<BTreeMap<String, Secret>> {
    let text = tree::read(file, MAX_DICTIONARY)?;
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
