//! Parameters of an endpoint, parsed once (`zenoh-behaviour` 1.1).

use core::{ops::RangeInclusive, str::FromStr, time::Duration};
use std::net::{IpAddr, SocketAddr};

use zwire_proto::zenoh::{Priority, Reliability};

use super::{
    ConnectRules, Endpoint, EndpointError, Part, TlsSettings,
    endpoint::{PROTOCOLS, RELIABLE_UDP},
    nearest::nearest,
    tls::TLS_CONFIG,
};

/// Config parameters of every endpoint.
const RULES: &[&str] =
    &["exit_on_failure", "retry_period_increase_factor", "retry_period_init_ms", "retry_period_max_ms"];

/// Config parameters of links over IP.
const IP: &[&str] = &["bind", "dscp", "iface"];

/// Config parameters of links over TCP.
const BUFFERS: &[&str] = &["so_rcvbuf", "so_sndbuf"];

/// Config parameters of multicast groups.
const GROUP: &[&str] = &["join", "ttl"];

/// Config parameters of QUIC.
const QUIC: &[&str] = &["initial_mtu", "mtu_discovery_interval_secs"];

fn is_group(endpoint: &Endpoint) -> bool {
    endpoint.address().parse().is_ok_and(|address: SocketAddr| address.ip().is_multicast())
}

/// The config parameters of a protocol, in groups; `None` if this build does not support the protocol.
fn known(endpoint: &Endpoint) -> Option<&'static [&'static [&'static str]]> {
    let protocol = endpoint.protocol();
    let known: &[&[_]] = match protocol {
        "udp" if is_group(endpoint) => &[RULES, IP, BUFFERS, GROUP],
        // Reliable UDP runs over QUIC.
        "udp" if endpoint.metadata_value("rel") == Some("1") => match cfg!(feature = "quic") {
            true => &[RULES, IP, BUFFERS, QUIC],
            false => return None,
        },
        // UDP sockets have these buffers as well.
        "tcp" | "udp" | "ws" => &[RULES, IP, BUFFERS],
        "tls" => &[RULES, IP, BUFFERS, &TLS_CONFIG],
        "quic" => &[RULES, IP, BUFFERS, &TLS_CONFIG, QUIC],
        _ => &[RULES],
    };
    PROTOCOLS.contains(&protocol).then_some(known)
}

/// Whether a feature is used: never, always, or if the other side supports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// `0`: never.
    No,
    /// `1`: always; links without it are refused.
    Yes,
    /// `auto`: if the other side supports it.
    Auto,
}

impl Choice {
    /// Whether the choice accepts a link with (`done`) or without the feature.
    #[must_use]
    pub fn allows(self, done: bool) -> bool {
        self == Self::Auto || (self == Self::Yes) == done
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "0" => Some(Self::No),
            "1" => Some(Self::Yes),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

/// Options of a link, from the parameters of its endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// `?prio=a-b`: the priorities that this link serves, first and last.
    pub priorities: Option<(Priority, Priority)>,
    /// `?rel=0|1`; absent: the natural reliability of the protocol.
    pub reliability: Option<Reliability>,
    /// `?multistream=0|1|auto`, of QUIC: a stream for each priority.
    pub multistream: Option<Choice>,
    /// `?mixed_rel=0|1|auto`, of QUIC: best-effort messages travel as datagrams beside the streams.
    pub mixed_rel: Option<Choice>,
    /// `#initial_mtu=bytes`, of QUIC: the packet size used before the path is probed.
    pub initial_mtu: Option<u16>,
    /// `#mtu_discovery_interval_secs=n`, of QUIC: the interval at which larger packets are probed.
    pub mtu_discovery_interval: Option<Duration>,
    /// `#iface=name`: bind to this device (Linux).
    pub interface: Option<String>,
    /// `#bind=addr:port`: local address of an outgoing link.
    pub bind: Option<SocketAddr>,
    /// `#so_sndbuf=bytes`.
    pub so_sndbuf: Option<u32>,
    /// `#so_rcvbuf=bytes`.
    pub so_rcvbuf: Option<u32>,
    /// `#dscp=a|b`: the raw TOS or traffic-class byte, all given values or-ed.
    pub tos: Option<u8>,
    /// `#join=a|b`: further groups that a multicast endpoint receives from.
    pub join: Vec<IpAddr>,
    /// `#ttl=n`: the TTL of datagrams to a group, one more than the routers that they may pass.
    pub ttl: Option<u32>,
    /// Parameters for certificates.
    pub tls: TlsSettings,
}

impl LinkOptions {
    /// Reads the parameters of an endpoint.
    ///
    /// # Errors
    /// A protocol that this build does not support, an unknown parameter, or one with an invalid value.
    pub fn of(endpoint: &Endpoint) -> Result<Self, EndpointError> {
        let protocol = endpoint.protocol();
        let known = known(endpoint).ok_or_else(|| EndpointError::Protocol {
            // Reliable UDP is the only protocol of which a part is missing.
            protocol: if protocol == "udp" { RELIABLE_UDP } else { protocol }.to_owned(),
            supported: PROTOCOLS.join(", "),
        })?;
        for (key, _) in endpoint.config() {
            if !known.iter().any(|group| group.contains(&key)) {
                let mut known = known.concat();
                known.sort_unstable();
                return Err(EndpointError::UnknownParameter {
                    protocol: protocol.to_owned(),
                    key: key.to_owned(),
                    nearest: nearest(key, &known).unwrap_or_default(),
                    known: known.join(", "),
                });
            }
        }
        let options = Self {
            priorities: metadata(endpoint, "prio", "<first>-<last>, both 0 to 7", priorities)?,
            reliability: if is_group(endpoint) {
                metadata(endpoint, "rel", "0, because groups are best effort", |text| {
                    (text == "0").then_some(Reliability::BestEffort)
                })?
            } else {
                metadata(endpoint, "rel", "0 or 1", |text| match text {
                    "0" => Some(Reliability::BestEffort),
                    "1" => Some(Reliability::Reliable),
                    _ => None,
                })?
            },
            multistream: choice(endpoint, "multistream")?,
            mixed_rel: choice(endpoint, "mixed_rel")?,
            initial_mtu: config(endpoint, "initial_mtu", "bytes, 1200 to 65527", within(1200..=65_527))?,
            mtu_discovery_interval: config(endpoint, "mtu_discovery_interval_secs", SECONDS, |text| {
                within(1..=u32::MAX)(text).map(|seconds| Duration::from_secs(seconds.into()))
            })?,
            interface: config(endpoint, "iface", "the name of a network interface", |text| {
                // IFNAMSIZ counts the final zero byte.
                (1..16).contains(&text.len()).then(|| text.to_owned())
            })?,
            bind: config(endpoint, "bind", "<address>:<port>", |text| text.parse().ok())?,
            so_sndbuf: config(endpoint, "so_sndbuf", BYTES, within(BUFFER))?,
            so_rcvbuf: config(endpoint, "so_rcvbuf", BYTES, within(BUFFER))?,
            tos: config(endpoint, "dscp", "numbers 0 to 255 (0x and 0b allowed) with |", tos)?,
            join: config(endpoint, "join", "multicast addresses with |", groups)?.unwrap_or_default(),
            ttl: config(endpoint, "ttl", "1 to 255", within(1..=255))?,
            tls: TlsSettings::of(endpoint)?,
        };
        if options.interface.is_some() && options.bind.is_some() {
            return Err(EndpointError::Conflict { first: "iface", second: "bind" });
        }
        Ok(options)
    }
}

impl ConnectRules {
    /// These rules with the endpoint's own parameters for retrying.
    ///
    /// # Errors
    /// A parameter with an invalid value.
    pub fn overridden_by(mut self, endpoint: &Endpoint) -> Result<Self, EndpointError> {
        let ms = |key, or| {
            let ms = config(endpoint, key, "milliseconds, 1 to 4294967295", within(1..=u32::MAX))?;
            Ok::<_, EndpointError>(ms.map_or(or, |ms| Duration::from_millis(ms.into())))
        };
        let exit = config(endpoint, "exit_on_failure", "true or false", |text| text.parse().ok())?;
        self.exit_on_failure = exit.unwrap_or(self.exit_on_failure);
        self.retry.init = ms("retry_period_init_ms", self.retry.init)?;
        self.retry.max = ms("retry_period_max_ms", self.retry.max)?;
        let factor =
            config(endpoint, "retry_period_increase_factor", "a number 1 to 100", within(1.0..=100.0))?;
        self.retry.factor = factor.unwrap_or(self.retry.factor);
        Ok(self)
    }
}

const SECONDS: &str = "seconds, 1 to 4294967295";
const BYTES: &str = "bytes, 1 to 2147483647";
const BUFFER: RangeInclusive<u32> = 1..=i32::MAX as u32;

/// Parser of numbers in a range.
pub(super) fn within<T: FromStr + PartialOrd>(range: RangeInclusive<T>) -> impl Fn(&str) -> Option<T> {
    move |text| text.parse().ok().filter(|number| range.contains(number))
}

fn priorities(text: &str) -> Option<(Priority, Priority)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let one = |text: &str| match text.as_bytes() {
        [digit @ b'0'..=b'7'] => Some(Priority::from_bits(digit - b'0')),
        _ => None,
    };
    let (first, last) = (one(first)?, one(last)?);
    (first <= last).then_some((first, last))
}

fn groups(text: &str) -> Option<Vec<IpAddr>> {
    text.split('|').map(|group| group.parse().ok().filter(IpAddr::is_multicast)).collect()
}

fn tos(text: &str) -> Option<u8> {
    text.split('|').try_fold(0, |all, one| {
        let value = match one.as_bytes() {
            [b'0', b'x' | b'X', ..] => u8::from_str_radix(&one[2..], 16),
            [b'0', b'b' | b'B', ..] => u8::from_str_radix(&one[2..], 2),
            _ => one.parse(),
        };
        value.ok().map(|value| all | value)
    })
}

/// Reads a choice of links with QUIC streams; refused for others, on which it would have no effect.
fn choice(endpoint: &Endpoint, key: &'static str) -> Result<Option<Choice>, EndpointError> {
    let rel = endpoint.metadata_value("rel");
    match endpoint.protocol() {
        "quic" if rel != Some("0") => metadata(endpoint, key, "0, 1 or auto", Choice::read),
        // Reliable UDP: QUIC without encryption.
        "udp" if rel == Some("1") => metadata(endpoint, key, "0, 1 or auto", Choice::read),
        "quic" => metadata(endpoint, key, "absent, because with rel=0 there are no streams", |_| None),
        _ => metadata(endpoint, key, "absent, because only links over QUIC have it", |_| None),
    }
}

fn metadata<T>(
    endpoint: &Endpoint,
    key: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, EndpointError> {
    parameter(endpoint.metadata_value(key), Part::Metadata, key, expected, parse)
}

pub(super) fn config<T>(
    endpoint: &Endpoint,
    key: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, EndpointError> {
    parameter(endpoint.config_value(key), Part::Config, key, expected, parse)
}

fn parameter<T>(
    value: Option<&str>,
    part: Part,
    key: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, EndpointError> {
    let Some(text) = value else { return Ok(None) };
    match parse(text) {
        Some(value) => Ok(Some(value)),
        None => Err(EndpointError::Parameter { part, key, value: text.to_owned(), expected }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<LinkOptions, EndpointError> {
        LinkOptions::of(&Endpoint::new(text).expect(text))
    }

    #[test]
    fn every_parameter_is_read() {
        let text = "tcp/a:1?prio=1-4;rel=0#so_sndbuf=10;so_rcvbuf=20;dscp=0x20|0b1|4;iface=lo";
        let o = options(text).unwrap();
        assert_eq!(o.priorities, Some((Priority::RealTime, Priority::DataHigh)));
        assert_eq!(o.reliability, Some(Reliability::BestEffort));
        assert_eq!(o.interface.as_deref(), Some("lo"));
        assert_eq!((o.so_sndbuf, o.so_rcvbuf, o.tos), (Some(10), Some(20), Some(0x25)));
        let o = options("tcp/a:1#bind=127.0.0.1:9").unwrap();
        assert_eq!(o.bind, Some(([127, 0, 0, 1], 9).into()));
        assert_eq!(options("tcp/a:1").unwrap(), LinkOptions::default());
    }

    #[cfg(feature = "quic")]
    #[test]
    fn choices_are_those_of_quic() {
        let o = options("quic/a:1?multistream=1;mixed_rel=auto").unwrap();
        assert_eq!((o.multistream, o.mixed_rel), (Some(Choice::Yes), Some(Choice::Auto)));
        let o = options("quic/a:1?multistream=0").unwrap();
        assert_eq!((o.multistream, o.mixed_rel), (Some(Choice::No), None));
        let o =
            options("udp/a:1?rel=1;multistream=0#initial_mtu=1400;mtu_discovery_interval_secs=9").unwrap();
        assert_eq!((o.multistream, o.reliability), (Some(Choice::No), Some(Reliability::Reliable)));
        assert_eq!((o.initial_mtu, o.mtu_discovery_interval), (Some(1400), Some(Duration::from_secs(9))));
        for text in ["tcp/a:1?multistream=0", "udp/a:1?mixed_rel=auto", "quic/a:1?rel=0;multistream=auto"] {
            let e = options(text).expect_err(text).to_string();
            assert!(e.contains("absent, because"), "{text}: {e}");
        }
        // Metadata is not accepted as config parameter: eclipse-zenoh would ignore it there.
        let e = options("quic/a:1#multistream=1").unwrap_err().to_string();
        assert!(e.contains("multistream"), "{e}");
    }

    fn assert_named(bad: &[(&str, &str)]) {
        for (text, wrong) in bad {
            match options(text).expect_err(text) {
                EndpointError::Parameter { key, .. } => assert_eq!(key, *wrong, "{text}"),
                other => panic!("{text}: {other}"),
            }
        }
    }

    #[cfg(feature = "quic")]
    #[test]
    fn bad_values_of_quic_are_named() {
        assert_named(&[
            ("quic/a?multistream=2", "multistream"),
            ("quic/a?mixed_rel=yes", "mixed_rel"),
            ("quic/a?mixed_rel", "mixed_rel"),
            ("quic/a#initial_mtu=1199", "initial_mtu"),
            ("quic/a#mtu_discovery_interval_secs=0", "mtu_discovery_interval_secs"),
        ]);
    }

    #[test]
    fn bad_values_are_named() {
        assert_named(&[
            ("tcp/a?prio=4-1", "prio"),
            ("tcp/a?prio=8", "prio"),
            ("tcp/a?prio", "prio"),
            ("tcp/a?rel=2", "rel"),
            ("udp/224.0.0.1:7447?rel=1", "rel"),
            ("tcp/a#so_sndbuf=x", "so_sndbuf"),
            ("tcp/a#so_rcvbuf=0", "so_rcvbuf"),
            ("tcp/a#bind=nowhere", "bind"),
            ("tcp/a#iface=", "iface"),
            ("tcp/a#dscp=256", "dscp"),
            ("tcp/a#dscp=0x", "dscp"),
        ]);
        let e = options("tcp/a#iface=lo;bind=1.2.3.4:1").unwrap_err();
        assert_eq!(e, EndpointError::Conflict { first: "iface", second: "bind" });
        let e = options("tcp/a#ifcae=lo").unwrap_err().to_string();
        assert!(e.contains("`ifcae`") && e.contains("`iface`"), "{e}");
        assert!(e.contains("so_sndbuf"), "the others are named: {e}");
    }

    #[test]
    fn protocols_that_this_build_does_not_speak_are_named() {
        for text in ["vsock/1:2", "unixpipe/a", "serial/ttyS0", "tpc/a:1"] {
            let e = options(text).unwrap_err();
            assert!(matches!(e, EndpointError::Protocol { .. }), "{e}");
            let (e, protocol) = (e.to_string(), text.split('/').next().unwrap());
            assert!(e.contains(protocol) && e.contains("tcp, "), "{e}");
        }
    }

    #[test]
    fn a_protocol_that_is_switched_off_names_its_feature() {
        for (text, feature, on) in [
            ("tls/a:1", "no TLS (feature `tls`)", cfg!(feature = "tls")),
            ("ws/a:1", "no WebSocket (feature `ws`)", cfg!(feature = "ws")),
            ("quic/a:1", "no QUIC (feature `quic`)", cfg!(feature = "quic")),
            ("udp/a:1?rel=1#initial_mtu=1400", "no QUIC (feature `quic`)", cfg!(feature = "quic")),
        ] {
            match options(text) {
                Ok(_) => assert!(on, "{text}"),
                Err(error) => {
                    assert!(!on && matches!(error, EndpointError::Protocol { .. }), "{text}: {error}");
                    assert!(error.to_string().contains(feature), "{text}: {error}");
                }
            }
        }
    }

    #[test]
    fn each_protocol_has_its_own_parameters() {
        let e = options("unixsock-stream//tmp/a#iface=lo").unwrap_err().to_string();
        assert!(e.contains("unknown to unixsock-stream") && e.contains("retry_period_init_ms"), "{e}");
        for protocol in PROTOCOLS {
            assert!(options(&format!("{protocol}/a#retry_period_init_ms=5")).is_ok());
        }
    }

    #[test]
    fn an_endpoint_overrides_the_retry_rules() {
        let e = "tcp/a#exit_on_failure=true;retry_period_init_ms=10;retry_period_max_ms=20;\
                 retry_period_increase_factor=1.5";
        let rules = ConnectRules::default().overridden_by(&Endpoint::new(e).unwrap()).unwrap();
        assert!(rules.exit_on_failure);
        assert_eq!(rules.retry.init, Duration::from_millis(10));
        assert_eq!(rules.retry.max, Duration::from_millis(20));
        assert!((rules.retry.factor - 1.5).abs() < 1e-9);
        for bad in [
            "exit_on_failure=maybe",
            "retry_period_init_ms=0",
            "retry_period_increase_factor=0.5",
            "retry_period_increase_factor=NaN",
        ] {
            let e = Endpoint::new(&format!("tcp/a#{bad}")).unwrap();
            assert!(ConnectRules::default().overridden_by(&e).is_err(), "{bad}");
        }
    }
}
