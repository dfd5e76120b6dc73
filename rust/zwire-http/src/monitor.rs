//! Health, readiness and counters, for monitoring.

use crate::{
    body::{Body, packed, text},
    client::{Client, Site},
    error::Problem,
};
use core::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};
use hyper::{Response, StatusCode};
use serde_json::json;
use zwire_proto::zenoh::WhatAmI;

/// Media type of the counters.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the process lives: 200 as long as it answers.
pub(crate) fn health() -> Response<Body> {
    text(StatusCode::OK, "application/json", r#"{"status":"ok"}"#)
}

/// Whether the session can be used: it is open, and connected if it is that of a client.
pub(crate) fn ready(site: &Site) -> Response<Body> {
    let session = &site.session;
    let (open, links) = (!session.is_closed(), session.links().len());
    let mode = session.config().mode;
    let ready = open && (mode != WhatAmI::Client || links > 0);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body =
        json!({ "ready": ready, "zid": session.zid().to_string(), "mode": mode.to_string(), "links": links });
    text(status, "application/json", body.to_string())
}

/// Counters of the session, as in its admin space and for the clients that may read them there, and of this server, in the text format of `OpenMetrics`.
pub(crate) fn metrics(client: &Client) -> Result<Response<Body>, Problem> {
    client.gate.admin("metrics")?;
    let site = &client.site;
    let whole = site.session.open_metrics();
    let mut out = whole.strip_suffix("# EOF\n").unwrap_or(&whole).to_owned();
    let zid = site.session.zid();
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    // Writing to a `String` does not fail.
    out.push_str("# TYPE zwire_http_answers counter\n");
    for (class, counter) in site.counters.answers.iter().enumerate().skip(1) {
        let _ = writeln!(
            out,
            "zwire_http_answers_total{{local_id=\"{zid}\",status=\"{class}xx\"}} {}",
            get(counter)
        );
    }
    for (name, counter) in [
        ("connections_evicted", &site.counters.evicted),
        ("connections_refused", &site.counters.refused),
        ("events_dropped", &site.counters.events_dropped),
    ] {
        let _ = writeln!(
            out,
            "# TYPE zwire_http_{name} counter\nzwire_http_{name}_total{{local_id=\"{zid}\"}} {}",
            get(counter)
        );
    }
    let streams = site.options.limits.streams.saturating_sub(site.streams.available_permits());
    let _ =
        writeln!(out, "# TYPE zwire_http_streams gauge\nzwire_http_streams{{local_id=\"{zid}\"}} {streams}");
    out.push_str("# EOF\n");
    Ok(packed(client.gzip, OPEN_METRICS, out.into_bytes()))
}
