//! Bodies and settings of messages, from keyword arguments of publishers, queriers and sessions.

use crate::{
    errors,
    zenoh::{
        encoding, enums, sample, timestamp,
        zbytes::{self, Copier},
    },
};
use core::num::NonZeroU32;
use pyo3::prelude::*;
use zwire_engine::{Session as Engine, SharedMessage};
use zwire_proto::{
    Text,
    zenoh::{
        Encoding, Payload, Qos,
        session::Locality,
        wire::{Del, PushBody, Put, QueryBody},
    },
};

/// QoS from its optional parts; missing ones are those of `default`.
pub(crate) fn qos(
    default: Qos,
    congestion: Option<enums::PyCongestionControl>,
    priority: Option<enums::PyPriority>,
    express: Option<bool>,
) -> Qos {
    Qos::new(
        priority.map_or(default.priority(), |p| p.0),
        congestion.map_or(default.congestion(), |c| c.0),
        express.unwrap_or(default.express()),
    )
}

/// Body of a put, with the `default` encoding if none is given. `engine`: the session that sends it.
pub(crate) fn put_body(
    copier: Option<Copier<'_>>,
    payload: &Bound<'_, PyAny>,
    encoding: Option<&Bound<'_, PyAny>>,
    default: Encoding,
    attachment: Option<&Bound<'_, PyAny>>,
    timestamp: Option<&Bound<'_, PyAny>>,
    source_info: Option<&Bound<'_, PyAny>>,
) -> PyResult<PushBody> {
    Ok(PushBody::Put(Put {
        timestamp: timestamp::extract_option(timestamp)?,
        encoding: encoding::extract_option(encoding)?.unwrap_or(default),
        source_info: sample::source_info(source_info)?.map(Box::new),
        attachment: zbytes::attachment(attachment)?,
        payload: match copier {
            Some(copier) => zbytes::payload_for(copier, payload)?,
            None => zbytes::payload(payload, "payload")?,
        },
        ..Put::default()
    }))
}

/// Body of a delete.
pub(crate) fn del_body(
    attachment: Option<&Bound<'_, PyAny>>,
    timestamp: Option<&Bound<'_, PyAny>>,
    source_info: Option<&Bound<'_, PyAny>>,
) -> PyResult<PushBody> {
    Ok(PushBody::Del(Del {
        timestamp: timestamp::extract_option(timestamp)?,
        source_info: sample::source_info(source_info)?.map(Box::new),
        attachment: zbytes::attachment(attachment)?,
        ..Del::default()
    }))
}

/// Allowed destinations or origins of publications; any if left out.
pub(crate) fn locality(value: Option<enums::PyLocality>) -> Locality {
    value.map_or(Locality::Any, |l| l.0)
}

/// Most replies of a query.
pub(crate) fn budget(py: Python<'_>, budget: Option<u64>) -> PyResult<Option<NonZeroU32>> {
    let checked = |budget| u32::try_from(budget).ok().and_then(NonZeroU32::new);
    let wrong = |budget| errors::option(py, "budget", &format!("expected 1 to {}, not {budget}", u32::MAX));
    budget.map(|budget| checked(budget).ok_or_else(|| wrong(budget))).transpose()
}

/// Value sent with a query.
pub(crate) fn query_body(
    engine: &Engine,
    payload: Option<&Bound<'_, PyAny>>,
    encoding: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<QueryBody>> {
    if payload.is_none() && encoding.is_none() {
        return Ok(None);
    }
    Ok(Some(QueryBody {
        encoding: encoding::extract_option(encoding)?.unwrap_or(Encoding::DEFAULT),
        shm: false,
        payload: match payload {
            Some(payload) => zbytes::payload_for(&|bytes| engine.copy(SharedMessage::Query, bytes), payload)?,
            None => Payload::default(),
        },
    }))
}

/// Parameters given with a get of a querier.
pub(crate) fn parameters(given: Option<&Bound<'_, PyAny>>) -> PyResult<Text> {
    given.map_or(Ok(Text::EMPTY), |given| Ok(crate::zenoh::selector::parameters(given)?.text().clone()))
}

/// Keys of replies that a query accepts.
pub(crate) const fn reply_key(any: bool) -> enums::PyReplyKeyExpr {
    enums::PyReplyKeyExpr(if any { enums::ReplyKey::Any } else { enums::ReplyKey::MatchingQuery })
}
