//! Parser of ZeroMQ endpoints of the form `tcp://host:port`.

use super::CloseReason;
use crate::{
    error::{ConnectReason, InvalidEndpoint},
    net::tcp,
};
use std::net::SocketAddr;

const SCHEME: &str = "tcp://";

fn split(endpoint: &str) -> Result<(&str, &str), InvalidEndpoint> {
    let address = endpoint.strip_prefix(SCHEME);
    let address = address.ok_or_else(|| InvalidEndpoint::Scheme(endpoint.to_owned()))?;
    let (host, port) = address.rsplit_once(':').ok_or_else(|| InvalidEndpoint::Port(endpoint.to_owned()))?;
    if host.is_empty() {
        return Err(InvalidEndpoint::Scheme(endpoint.to_owned()));
    }
    if port != "*" && port.parse::<u16>().is_err() {
        return Err(InvalidEndpoint::Port(endpoint.to_owned()));
    }
    Ok((host, port))
}

/// Address to connect to, as `host:port`.
pub(super) fn connect(endpoint: &str) -> Result<String, InvalidEndpoint> {
    let (host, port) = split(endpoint)?;
    if host == "*" || port == "*" || port == "0" {
        return Err(InvalidEndpoint::Anywhere(endpoint.to_owned()));
    }
    Ok(format!("{host}:{port}"))
}

/// Address to listen on, as `host:port`. `*` stands for all IPv4 addresses, or any free port.
pub(super) fn bind(endpoint: &str) -> Result<String, InvalidEndpoint> {
    let (host, port) = split(endpoint)?;
    let host = if host == "*" { "0.0.0.0" } else { host };
    let port = if port == "*" { "0" } else { port };
    Ok(format!("{host}:{port}"))
}

pub(super) async fn resolve(address: &str) -> Result<Vec<SocketAddr>, CloseReason> {
    tcp::resolve(address).await.map_err(|reason| match reason {
        ConnectReason::Io(error) => CloseReason::Io(error),
        _ => CloseReason::Unresolved,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_zeromq() {
        assert_eq!(bind("tcp://*:*").unwrap(), "0.0.0.0:0");
        assert_eq!(bind("tcp://127.0.0.1:0").unwrap(), "127.0.0.1:0");
        assert_eq!(bind("tcp://[::1]:5555").unwrap(), "[::1]:5555");
        assert_eq!(connect("tcp://robot.local:5555").unwrap(), "robot.local:5555");
        for wrong in
            ["", "5555", "ipc://x:1", "tcp://", "tcp://:1", "tcp://host", "tcp://host:", "tcp://host:65536"]
        {
            connect(wrong).unwrap_err();
            bind(wrong).unwrap_err();
        }
        for nowhere in ["tcp://*:1", "tcp://host:*", "tcp://host:0"] {
            assert_eq!(connect(nowhere), Err(InvalidEndpoint::Anywhere(nowhere.to_owned())));
        }
    }
}
