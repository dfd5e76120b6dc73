//! Interfaces of this machine, and those on which nodes are discovered (`zre` 5.2, `zenoh-behaviour`
//! 1.6).

use core::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};
use getifaddrs::{Address, InterfaceFilter, InterfaceFlags};
use std::io;
use zwire_proto::zre::node::Interface;

/// Element of an interface selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Whether matching interfaces are excluded.
    pub exclude: bool,
    /// Interfaces that match.
    pub what: Selected,
}

/// Interfaces named by a [`Selector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// Interfaces of this name; `*` stands for any text, `?` for any character.
    Name(String),
    /// The interface with this address.
    Address(Ipv4Addr),
    /// Interfaces with an address in this network.
    Network(Interface),
}

/// Text that is not a valid selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name, pattern, IPv4 address or network such as 10.0.0.0/8")]
pub struct SelectorError(pub String);

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let wrong = || SelectorError(text.to_owned());
        let (exclude, word) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let what = if let Some((address, prefix)) = word.split_once('/') {
            let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
            let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or_else(wrong)?;
            Selected::Network(Interface { address: address.into(), prefix })
        } else if let Ok(address) = word.parse() {
            Selected::Address(address)
        } else if word.is_empty() || word.contains(char::is_whitespace) || word.contains(':') {
            return Err(wrong());
        } else {
            Selected::Name(word.to_owned())
        };
        Ok(Self { exclude, what })
    }
}

impl Selector {
    /// Selector of exactly this address.
    #[must_use]
    pub const fn address(address: Ipv4Addr) -> Self {
        Self { exclude: false, what: Selected::Address(address) }
    }

    fn matches(&self, candidate: &Candidate) -> bool {
        match &self.what {
            Selected::Name(pattern) => glob(pattern.as_bytes(), candidate.name.as_bytes()),
            Selected::Address(address) => candidate.address == *address,
            Selected::Network(network) => network.contains(candidate.address.into()),
        }
    }
}

/// Whether a name matches a glob pattern. Linear except for backtracking to the last star.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether an interface is used for discovery, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceVerdict {
    /// The interface is used.
    Used,
    /// The interface is down, or has no carrier.
    Down,
    /// The interface has no broadcast, like tunnels and point-to-point links.
    NoBroadcast,
    /// The interface has no multicast.
    NoMulticast,
    /// The interface reaches this machine only. Used if there is no other.
    Loopback,
    /// The address was self-assigned for lack of another one (169.254.0.0/16).
    LinkLocal,
    /// The configuration selects other interfaces.
    NotSelected,
}

impl fmt::Display for InterfaceVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Used => "used",
            Self::Down => "it is down",
            Self::NoBroadcast => "it has no broadcast",
            Self::NoMulticast => "it has no multicast",
            Self::Loopback => "it is the loopback",
            Self::LinkLocal => "its address is link-local",
            Self::NotSelected => "it is not selected",
        })
    }
}

/// Method of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Datagrams to all hosts of a network.
    Broadcast,
    /// Datagrams to a multicast group.
    Multicast,
}

/// An IPv4 address of an interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the interface.
    pub name: String,
    /// Address of the interface.
    pub address: Ipv4Addr,
    /// Length of the network prefix in bits.
    pub prefix: u8,
    /// Broadcast address, the destination of beacons.
    pub broadcast: Ipv4Addr,
    /// Whether the interface is used.
    pub verdict: InterfaceVerdict,
}

impl Candidate {
    /// Converts to the type that the state machine takes.
    #[must_use]
    pub const fn interface(&self) -> Interface {
        Interface { address: IpAddr::V4(self.address), prefix: self.prefix }
    }
}

/// All IPv4 addresses of this machine, each with its verdict.
///
/// Without a selection, every interface that is up and suits the purpose is used, or the loopback if
/// there is none. An interface selected by its address or its full name is used even if it would not suit
/// by itself.
///
/// # Errors
/// The operating system does not report the interfaces.
pub fn list(purpose: Purpose, selectors: &[Selector]) -> io::Result<Vec<Candidate>> {
    let mut all = Vec::new();
    for found in InterfaceFilter::new().v4().get()? {
        let Address::V4(v4) = &found.address else { continue };
        let prefix = v4.netmask.map_or(32, |mask| mask.to_bits().leading_ones());
        let host = u32::MAX.checked_shr(prefix).unwrap_or(0);
        // Linux reports the peer of a point-to-point link in the same field.
        let told = v4.associated_address.filter(|_| found.flags.contains(InterfaceFlags::BROADCAST));
        let verdict = verdict(purpose, found.flags, v4.address, prefix);
        all.push(Candidate {
            name: found.name,
            address: v4.address,
            #[allow(clippy::cast_possible_truncation, reason = "a count of 32 bits")]
            prefix: prefix as u8,
            broadcast: told
                .filter(|told| *told != v4.address)
                .unwrap_or(Ipv4Addr::from_bits(v4.address.to_bits() | host)),
            verdict,
        });
    }
    judge(&mut all, selectors);
    Ok(all)
}

/// Addresses of this machine, but link-local IPv6 ones: they need an interface name of the other side.
pub(crate) fn addresses() -> io::Result<Vec<IpAddr>> {
    let up = InterfaceFlags::UP | InterfaceFlags::RUNNING;
    let all = InterfaceFilter::new().get()?.filter(|found| found.flags.contains(up));
    let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    Ok(all.filter_map(|found| found.address.ip_addr()).filter(|ip| !link_local(ip)).collect())
}

/// Addresses of this machine, each with its network.
pub(crate) fn networks() -> io::Result<Vec<Interface>> {
    let network = |found: getifaddrs::Interface| {
        #[allow(clippy::cast_possible_truncation, reason = "a count of at most 128 bits")]
        let (address, prefix) = match found.address {
            Address::V4(v4) => {
                (v4.address.into(), v4.netmask.map_or(32, |mask| mask.to_bits().leading_ones() as u8))
            }
            Address::V6(v6) => {
                (v6.address.into(), v6.netmask.map_or(128, |mask| mask.to_bits().leading_ones() as u8))
            }
            Address::Mac(_) => return None,
        };
        Some(Interface { address, prefix })
    };
    Ok(InterfaceFilter::new().get()?.filter_map(network).collect())
}

fn verdict(purpose: Purpose, flags: InterfaceFlags, address: Ipv4Addr, prefix: u32) -> InterfaceVerdict {
    if !flags.contains(InterfaceFlags::UP) || !flags.contains(InterfaceFlags::RUNNING) {
        InterfaceVerdict::Down
    } else if flags.contains(InterfaceFlags::LOOPBACK) {
        InterfaceVerdict::Loopback
    } else if purpose == Purpose::Multicast && !flags.contains(InterfaceFlags::MULTICAST) {
        InterfaceVerdict::NoMulticast
    } else if purpose == Purpose::Broadcast
        && (flags.contains(InterfaceFlags::POINTTOPOINT)
            || !flags.contains(InterfaceFlags::BROADCAST)
            || prefix > 30)
    {
        InterfaceVerdict::NoBroadcast
    } else if address.is_link_local() {
        InterfaceVerdict::LinkLocal
    } else {
        InterfaceVerdict::Used
    }
}

fn judge(all: &mut [Candidate], selectors: &[Selector]) {
    let choosy = selectors.iter().any(|selector| !selector.exclude);
    for candidate in all.iter_mut() {
        let hit = |exclude| selectors.iter().filter(move |s| s.exclude == exclude);
        let excluded = hit(true).any(|selector| selector.matches(candidate));
        let chosen = hit(false).filter(|selector| selector.matches(candidate));
        // Only a full name or an address overrides an unsuitable interface; a pattern may match by accident.
        let meant = chosen.clone().any(|selector| match &selector.what {
            Selected::Name(name) => *name == candidate.name,
            Selected::Address(_) => true,
            Selected::Network(_) => candidate.verdict == InterfaceVerdict::Loopback,
        });
        if excluded || choosy && chosen.count() == 0 {
            candidate.verdict = InterfaceVerdict::NotSelected;
        } else if meant && candidate.verdict != InterfaceVerdict::Down {
            candidate.verdict = InterfaceVerdict::Used;
        }
    }
    if !all.iter().any(|candidate| candidate.verdict == InterfaceVerdict::Used) {
        for candidate in all.iter_mut().filter(|candidate| candidate.verdict == InterfaceVerdict::Loopback) {
            candidate.verdict = InterfaceVerdict::Used;
        }
    }
}

/// Names of the interfaces that have an address; empty if the system does not tell.
pub fn interfaces_with(address: IpAddr) -> Vec<String> {
    let address = address.to_canonical();
    let Ok(all) = getifaddrs::getifaddrs() else { return Vec::new() };
    let mut names: Vec<String> = all
        .filter(|interface| interface.address.ip_addr() == Some(address))
        .map(|interface| interface.name)
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, address: &str, verdict: InterfaceVerdict) -> Candidate {
        let address: Ipv4Addr = address.parse().unwrap();
        let broadcast = Ipv4Addr::from_bits(address.to_bits() | 0xff);
        Candidate { name: name.to_owned(), address, prefix: 24, broadcast, verdict }
    }

    fn used(selectors: &[&str]) -> Vec<String> {
        let selectors: Vec<Selector> = selectors.iter().map(|text| text.parse().unwrap()).collect();
        let mut all = vec![
            candidate("lo", "127.0.0.1", InterfaceVerdict::Loopback),
            candidate("eth0", "10.0.0.5", InterfaceVerdict::Used),
            candidate("eth1", "10.0.1.5", InterfaceVerdict::Used),
            candidate("docker0", "172.17.0.1", InterfaceVerdict::Used),
            candidate("tun0", "10.8.0.2", InterfaceVerdict::NoBroadcast),
            candidate("wlan0", "192.168.1.7", InterfaceVerdict::Down),
        ];
        judge(&mut all, &selectors);
        all.retain(|candidate| candidate.verdict == InterfaceVerdict::Used);
        all.into_iter().map(|candidate| candidate.name).collect()
    }

    #[test]
    fn a_choice_of_interfaces() {
        assert_eq!(used(&[]), ["eth0", "eth1", "docker0"]);
        assert_eq!(used(&["eth*"]), ["eth0", "eth1"]);
        assert_eq!(used(&["eth?", "!eth1"]), ["eth0"]);
        assert_eq!(used(&["!docker*"]), ["eth0", "eth1"]);
        assert_eq!(used(&["10.0.0.0/16"]), ["eth0", "eth1"]);
        assert_eq!(used(&["10.0.1.5"]), ["eth1"]);
        assert_eq!(used(&["lo"]), ["lo"], "the loopback is used if it is named");
        assert_eq!(used(&["127.0.0.0/8"]), ["lo"]);
        assert_eq!(used(&["tun0"]), ["tun0"]);
        assert_eq!(used(&["wlan0"]), [""; 0], "what is down cannot be used");
        assert_eq!(used(&["*"]), ["eth0", "eth1", "docker0"], "a pattern does not mean what does not suit");
    }

    #[test]
    fn the_loopback_when_there_is_nothing_else() {
        let mut all = vec![
            candidate("lo", "127.0.0.1", InterfaceVerdict::Loopback),
            candidate("wlan0", "192.168.1.7", InterfaceVerdict::Down),
        ];
        judge(&mut all, &[]);
        assert_eq!(all[0].verdict, InterfaceVerdict::Used);
    }

    #[test]
    fn words_that_select_nothing() {
        for text in ["", "!", "10.0.0.0/33", "10.0.0/8", "a b", "fe80::1", "eth0/24"] {
            assert_eq!(text.parse::<Selector>(), Err(SelectorError(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("en*", "enp3s0", true),
            ("en*s0", "enp3s0", true),
            ("en*s1", "enp3s0", false),
            ("*", "", true),
            ("?", "", false),
            ("*a*b", "aab", true),
            ("*a*b", "aba", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn this_machine_has_a_loopback() {
        let all = list(Purpose::Broadcast, &["lo*".parse().unwrap()]).unwrap();
        let lo = all.iter().find(|candidate| candidate.address == Ipv4Addr::LOCALHOST).unwrap();
        assert_eq!((lo.prefix, lo.broadcast), (8, Ipv4Addr::new(127, 255, 255, 255)));
        assert_eq!(lo.verdict, InterfaceVerdict::Used);
        assert!(addresses().unwrap().contains(&Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn the_loopback_address_is_of_an_interface() {
        assert_eq!(interfaces_with("127.0.0.1".parse().unwrap()).len(), 1);
        assert!(interfaces_with("192.0.2.1".parse().unwrap()).is_empty());
    }
}
