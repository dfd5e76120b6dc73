//! Conversion of keyword arguments of sockets to options of the engine.

use crate::{loops::ending, options::Options, zenoh::zbytes};
use bytes::Bytes;
use core::time::Duration;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyTuple},
};
use std::{net::SocketAddr, sync::Arc};
use zwire_engine::zmtp::{MISSED, SocketOptions, Verdict};
use zwire_proto::zmtp::{
    crypto::{KeyPair, PublicKey, SecretKey},
    link::{AuthRequest, CurveClient, CurveServer, Denial, Heartbeat, PlainCredentials, Security, Version},
    wire::{Metadata, Property, SocketType},
};

/// Reads a CURVE key: 32 bytes, or Z85.
fn key(from: &Options<'_, '_>, name: &'static str) -> PyResult<Option<[u8; 32]>> {
    let Some(value) = from.get(name)? else { return Ok(None) };
    let raw = zbytes::extract(&value)?;
    let key = <[u8; 32]>::try_from(&raw[..]).ok().or_else(|| zwire_proto::zre::z85::decode_key(&raw));
    key.map(Some).ok_or_else(|| from.wrong(name, "expected a key of 32 bytes or of 40 characters of Z85"))
}

/// Reads the options, and the time limit for closing.
pub(crate) fn read(kind: SocketType, from: &Options<'_, '_>) -> PyResult<(SocketOptions, Option<Duration>)> {
    let mut to = SocketOptions::new(kind);
    let handshake = &mut to.connection.handshake;
    if let Some(identity) = from.get("identity")? {
        let identity = zbytes::extract(&identity)?;
        *handshake =
            handshake.clone().with_identity(identity).map_err(|error| from.wrong("identity", error))?;
    }
    if let Some(metadata) = from.get("metadata")? {
        for (name, value) in metadata.extract::<std::collections::BTreeMap<String, Vec<u8>>>()? {
            if !name.to_ascii_lowercase().starts_with("x-") || name.len() > 255 {
                return Err(from.wrong("metadata", "names begin with X- and have at most 255 characters"));
            }
            handshake.properties.push(Property { name: name.into(), value: value.into() });
        }
    }
    match from.take::<String>("version")?.as_deref() {
        None | Some("3.1") => {}
        Some("3.0") => handshake.version = Version::V3_0,
        Some(_) => return Err(from.wrong("version", "expected \"3.1\" or \"3.0\"")),
    }
    handshake.security = security(from)?;
    to.authenticator = from.get("authenticator")?.map(|callable| authenticator(callable.unbind()));

    let (tx, rx) = (&mut to.connection.tx, &mut to.connection.rx);
    if let Some(both) = from.take("high_water_mark")? {
        (tx.max_messages, to.max_received) = both;
    }
    if let Some(both) = from.take("high_water_bytes")? {
        (tx.max_bytes, to.max_received_bytes) = both;
    }
    from.set("max_message_size", &mut rx.max_message_size)?;
    let heartbeat = match (from.given("heartbeat")?, from.take("heartbeat")?) {
        (None, _) => tx.heartbeat,
        (_, None | Some(Duration::ZERO)) => None,
        (_, Some(interval)) => Some(Heartbeat::every(interval, MISSED)),
    };
    let heartbeat = match (heartbeat, from.take("heartbeat_timeout")?) {
        (Some(heartbeat), Some(timeout)) => Some(Heartbeat { timeout, ttl: timeout, ..heartbeat }),
        (heartbeat, _) => heartbeat,
    };
    let also_to_3_0 = from.take("heartbeat_to_3_0")?.unwrap_or_default();
    let heartbeat = heartbeat.map(|heartbeat| Heartbeat { also_to_3_0, ..heartbeat });
    (tx.heartbeat, rx.heartbeat) = (heartbeat, heartbeat);
    from.set("handshake_timeout", &mut to.connection.handshake_timeout)?;
    from.set("max_connections", &mut to.connection.max_connections)?;
    from.set("max_handshakes", &mut to.connection.max_handshakes)?;
    if let Some(pauses) = from.take("reconnect")? {
        (to.reconnect.first, to.reconnect.max) = pauses;
    }
    from.set("immediate", &mut to.immediate)?;
    from.set("handover", &mut to.handover)?;
    from.set("mandatory", &mut to.mandatory)?;
    Ok((to, from.take("linger")?))
}

/// Security settings. Random parts are made anew for each connection.
fn security(from: &Options<'_, '_>) -> PyResult<Security> {
    let server_key = key(from, "server_key")?;
    let secret = key(from, "secret_key")?;
    let public = key(from, "public_key")?;
    let asks = from.get("authenticator")?.is_some();
    let plain = from.get("plain")?;
    if let Some(plain) = plain {
        if secret.is_some() || server_key.is_some() {
            return Err(from.wrong("plain", "PLAIN and CURVE exclude each other"));
        }
        if let Ok(true) = plain.extract::<bool>() {
            if !asks {
                return Err(from.wrong("plain", "a PLAIN server needs an authenticator"));
            }
            return Ok(Security::PlainServer);
        }
        let pair = plain.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
        let pair =
            pair.ok_or_else(|| from.wrong("plain", "expected (user, password), or True for a server"))?;
        let part = |at: usize| -> PyResult<Bytes> {
            let part = zbytes::extract(&pair.get_item(at)?)?;
            if part.len() > 255 {
                return Err(from.wrong("plain", "user and password have at most 255 bytes"));
            }
            Ok(part)
        };
        return Ok(Security::PlainClient(PlainCredentials { username: part(0)?, password: part(1)? }));
    }
    let Some(secret) = secret else {
        if server_key.is_some() || public.is_some() {
            return Err(from.wrong("secret_key", "CURVE needs the secret key of this side"));
        }
        return Ok(Security::Null { authenticate: asks });
    };
    let keys = KeyPair::of(SecretKey::new(secret));
    if public.is_some_and(|public| public != keys.public.0) {
        return Err(from.wrong("public_key", "it does not belong to secret_key"));
    }
    Ok(match server_key {
        Some(server) => Security::CurveClient(Box::new(CurveClient::new(keys, PublicKey(server), &[0; 48]))),
        None => Security::CurveServer(Box::new(CurveServer::new(keys, asks, &[0; 96]))),
    })
}

/// Wraps a callable as authenticator: it gets `(mechanism, address, credentials)`; True or the name of
/// the user accepts the peer, an int is a ZAP status code.
fn authenticator(callable: Py<PyAny>) -> zwire_engine::zmtp::Authenticator {
    Arc::new(move |remote: SocketAddr, request: &AuthRequest| {
        // Without an interpreter the callable cannot be asked, so the peer is refused.
        let verdict = Python::try_attach(|py| {
            ask(py, &callable, remote, request).unwrap_or_else(|error| {
                error.write_unraisable(py, Some(callable.bind(py)));
                Verdict::Deny(Denial::Internal)
            })
        });
        verdict.unwrap_or(Verdict::Deny(Denial::Temporary))
    })
}

fn ask(py: Python<'_>, callable: &Py<PyAny>, remote: SocketAddr, request: &AuthRequest) -> PyResult<Verdict> {
    let credentials = request.credentials.iter().map(|part| PyBytes::new(py, part));
    let credentials = PyTuple::new(py, credentials)?;
    let mechanism = request.mechanism.to_string();
    let arguments = (mechanism, remote.ip().to_string(), credentials).into_pyobject(py)?;
    // The interpreter may end in the middle of the call.
    let answer = ending::call(callable, &arguments)?;
    let user = |user_id: Bytes| Verdict::Allow { user_id, metadata: Metadata::default() };
    if answer.is_none() {
        return Ok(Verdict::Deny(Denial::Refused));
    }
    if let Ok(allowed) = answer.extract::<bool>() {
        return Ok(if allowed { Verdict::allow() } else { Verdict::Deny(Denial::Refused) });
    }
    if let Ok(status) = answer.extract::<u16>() {
        return Ok(match status {
            200 => Verdict::allow(),
            300 => Verdict::Deny(Denial::Temporary),
            400 => Verdict::Deny(Denial::Refused),
            _ => Verdict::Deny(Denial::Internal),
        });
    }
    zbytes::extract(&answer).map(user)
}
