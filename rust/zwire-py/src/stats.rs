//! Dictionaries returned by `Session.stats`; `zwire.stats` has their types.

use pyo3::{prelude::*, types::PyDict};
use zwire_engine::{
    queue::QueueStats,
    stats::{ConsumerKind, LinkReport, Report},
};
use zwire_proto::zenoh::{KeyExpr, Priority};

const fn word(priority: Priority) -> &'static str {
    match priority {
        Priority::Control => "control",
        Priority::RealTime => "real_time",
        Priority::InteractiveHigh => "interactive_high",
        Priority::InteractiveLow => "interactive_low",
        Priority::DataHigh => "data_high",
        Priority::Data => "data",
        Priority::DataLow => "data_low",
        Priority::Background => "background",
    }
}

/// Report of the engine, plus the number of exceptions in callbacks, which the engine does not know.
pub(crate) fn session<'py>(py: Python<'py>, report: &Report, errors: u64) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in &report.counters {
        dict.set_item(name, value)?;
    }
    dict.set_item("handler.errors", errors)?;
    dict.set_item("drops.per_second", report.drop_rate)?;
    dict.set_item("drops.seconds", report.drop_rate_seconds)?;
    let links = report.links.iter().map(|found| link(py, found)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("per_link", links)?;
    let of = |queryables: bool| {
        let found =
            report.consumers.iter().filter(|(kind, ..)| (*kind == ConsumerKind::Queryable) == queryables);
        found.map(|(kind, key, stats)| consumer(py, *kind, key, stats)).collect::<PyResult<Vec<_>>>()
    };
    dict.set_item("per_subscriber", of(false)?)?;
    dict.set_item("per_queryable", of(true)?)?;
    Ok(dict)
}

fn link<'py>(py: Python<'py>, link: &LinkReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = dict! { py;
        zid = link.zid.map(|zid| zid.to_string()),
        whatami = link.whatami.map(|whatami| whatami.to_string());
        of link: src, dst;
        seconds = link.age.as_secs_f64()
    };
    for (name, value) in link.counters {
        dict.set_item(name, value)?;
    }
    let lanes = PyDict::new(py);
    for lane in &link.lanes {
        let of = dict! { py; of lane: tx_messages, tx_dropped, waiting_bytes, capacity_bytes, producers };
        lanes.set_item(word(lane.lane), of)?;
    }
    dict.set_item("lanes", lanes)?;
    dict.set_item("lending", link.lending.word())?;
    Ok(dict)
}

fn consumer<'py>(
    py: Python<'py>,
    kind: ConsumerKind,
    key: &KeyExpr,
    stats: &QueueStats,
) -> PyResult<Bound<'py, PyDict>> {
    let kind = match kind {
        ConsumerKind::Subscriber => "subscriber",
        ConsumerKind::Liveliness => "liveliness",
        ConsumerKind::Queryable => "queryable",
    };
    Ok(dict! { py;
        key_expr = key.as_str(), kind = kind;
        of stats: received, dropped, replaced, waiting, waiting_bytes;
        capacity = stats.bounds.messages, capacity_bytes = stats.bounds.bytes, full = stats.bounds.overflow.word();
        of stats: stalled
    })
}
