"""Metrics: text that a strict parser takes, instruments that a reader of OpenTelemetry sees."""

import asyncio
import gc
import re
import subprocess
import sys
import time

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

import nodes
from zwire import aio, metrics, stats, zenoh, zre
from zwire.aio import zre as loops
from zwire.zenoh.handlers import Channel

PATIENCE = 10


@pytest.fixture
def busy(hub, session):
    """A session that has sent, dropped and still holds something."""
    full = session.declare_subscriber('k/"quoted"', Channel(3))
    for number in range(10):
        session.put('k/"quoted"', str(number), congestion_control=zenoh.CongestionControl.BLOCK)
    session.flush(PATIENCE)
    nodes.all_counted(session, hub)
    yield session
    full.undeclare()


def families(text, parse):
    found = {}
    for family in parse(text):
        assert family.name not in found, "each family comes once"
        found[family.name] = family
    return found


def value(family, **labels):
    """The sum of the samples that have some labels."""
    chosen = [s.value for s in family.samples if labels.items() <= s.labels.items()]
    assert chosen, (family, labels)
    return sum(chosen)


@pytest.mark.parametrize("form", ["prometheus", "openmetrics"])
def test_a_strict_parser_reads_what_stats_says(form, busy):
    if form == "prometheus":
        found = families(metrics.prometheus(busy), text_string_to_metric_families)
    else:
        found = families(
            metrics.prometheus(busy, openmetrics=True), openmetrics.text_string_to_metric_families
        )
    numbers = busy.stats()
    own = {"local_id": str(busy.zid())}
    (link,) = numbers["per_link"]
    assert value(found["zwire_session_samples_delivered"], **own) == 10
    assert value(found["zwire_session_dropped"], reason="put_no_link", **own) == 0
    assert value(found["zwire_handler_dropped"], **own) == 7
    assert value(found["zwire_drops"], **own) == 7
    assert value(found["zwire_links_open"], **own) == 1
    assert value(found["zwire_link_tx_bytes"], **own) == link["tx_bytes"]
    ends = {"peer": link["zid"], "link": link["dst"]} | own
    assert value(found["zwire_peer_tx_bytes"], **ends) == link["tx_bytes"]
    assert value(found["zwire_peer_connected_seconds"], **ends) > 0
    assert value(found["zwire_lane_tx_messages"], priority="data", **ends) == 10
    assert len(found["zwire_lane_waiting_bytes"].samples) == 8
    consumer = {"key_expr": 'k/"quoted"', "kind": "subscriber"} | own
    assert value(found["zwire_subscriber_received"], **consumer) == 10
    assert value(found["zwire_subscriber_dropped"], **consumer) == 7
    assert value(found["zwire_subscriber_waiting"], **consumer) == 3
    assert found["zwire_subscriber_received"].type == "counter"
    assert found["zwire_subscriber_waiting"].type == "gauge"
    assert all(family.documentation for family in found.values())
    if form == "openmetrics":
        assert found["zwire_link_tx_bytes"].unit == "bytes"
        assert found["zwire_peer_connected_seconds"].unit == "seconds"


def test_names_follow_the_conventions(busy, hub):
    for line in metrics.prometheus(busy, hub).splitlines():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            assert re.fullmatch(r"zwire_[a-z_]+", name)
            assert name.endswith("_total") == (kind == "counter"), line
    names = sorted(metrics._FAMILIES)
    nested = [a for a in names for b in names if b.startswith(a + ".")]
    assert nested == [], "a name of OpenTelemetry is no beginning of another one"


def test_every_number_of_stats_is_exported(hub):
    with zre.Node("one", interfaces=["lo"]) as node:
        text = metrics.prometheus(hub, node)
    for name in stats.SESSION:
        if not name.startswith("drops."):
            family, labels = metrics._place(name)
            label = "".join(f',{key}="{found}"' for key, found in labels)
            pattern = rf'zwire_{family.replace(".", "_")}(_total)?{{local_id="{hub.zid()}"{label}}} \d+'
            assert re.search(pattern, text), name
    for name in stats.NODE:
        assert f'zwire_zre_{name}_total{{node="{node.uuid}",name="one"}}' in text
    assert f'zwire_zre_peers{{node="{node.uuid}",name="one"}} 0' in text


def test_several_sources_and_consumers_of_one_key_are_told_apart_or_added(hub, session):
    kept = [session.declare_subscriber("k") for _ in range(2)]
    session.put("k", "x", allowed_destination=zenoh.Locality.SESSION_LOCAL)
    found = families(metrics.prometheus(hub, session), text_string_to_metric_families)
    assert len(found["zwire_links_open"].samples) == 2
    assert value(found["zwire_subscriber_waiting"], key_expr="k", local_id=str(session.zid())) == len(kept)
    assert len(found["zwire_subscriber_waiting"].samples) == 1


def test_without_detail_there_are_the_sums_alone(busy):
    text = metrics.prometheus(busy, detail=False)
    assert "zwire_link_tx_bytes_total{" in text
    assert not re.search(r"zwire_(peer|lane|subscriber|queryable)_", text)


def test_sessions_and_nodes_of_event_loops_are_sources_too(hub, reader, provider):
    async def run():
        async with (
            aio.open({"mode": "client", "connect/endpoints": hub.listening()}) as session,
            loops.Node("one", interfaces=["lo"]) as node,
        ):
            metrics.otel(session, node, meter_provider=provider)
            return metrics.prometheus(session, node), points(reader)

    text, found = asyncio.run(run())
    assert "zwire_links_open{" in text
    assert 'name="one"} 0' in text
    assert {"zwire.links.open", "zwire.zre.peers"} <= set(found)


def test_what_does_not_run_is_left_out():
    node = zre.Node("one", interfaces=["lo"])
    assert metrics.prometheus(node) == ""
    assert metrics.prometheus(node, openmetrics=True) == "# EOF\n"


def test_importing_metrics_loads_no_other_package():
    code = (
        "import sys, zwire.metrics;"
        "print([name for name in ('opentelemetry', 'prometheus_client', 'http') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "[]\n"


def test_a_missing_opentelemetry_names_the_extra(monkeypatch, hub):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"pip install 'zwire\[otel\]'"):
        metrics.otel(hub)


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader):
    provider = MeterProvider(metric_readers=[reader])
    yield provider
    provider.shutdown()


def points(reader):
    """Each instrument by its name, with what it shows by attributes."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    found = [m for r in data.resource_metrics for scope in r.scope_metrics for m in scope.metrics]
    return {m.name: (m, {tuple(p.attributes.items()): p.value for p in m.data.data_points}) for m in found}


def test_instruments_show_what_stats_says(busy, reader, provider):
    metrics.otel(busy, meter_provider=provider)
    found = points(reader)
    own = (("local_id", str(busy.zid())),)
    instrument, samples = found["zwire.link.tx_bytes"]
    assert (instrument.unit, instrument.data.is_monotonic) == ("By", True)
    assert samples == {own: busy.stats()["link.tx_bytes"]}
    instrument, samples = found["zwire.subscriber.waiting"]
    assert instrument.unit == "{messages}"
    assert samples == {(*own, ("key_expr", 'k/"quoted"'), ("kind", "subscriber")): 3}
    assert found["zwire.drops"][1] == {own: 7}
    busy.put('k/"quoted"', "x")
    assert points(reader)["zwire.drops"][1] == {own: 8}, "each collection looks again"


def test_nodes_have_instruments_too(reader, provider):
    with zre.Node("one", interfaces=["lo"]) as node:
        metrics.otel(node, meter_provider=provider)
        assert points(reader)["zwire.zre.messages_out"][1] == {(("node", node.uuid), ("name", "one")): 0}
    assert "zwire.zre.messages_out" not in points(reader)


def test_instruments_keep_no_session_open(hub, reader, provider):
    session = zenoh.open({"mode": "client", "connect/endpoints": hub.listening()})
    metrics.otel(session, meter_provider=provider)
    assert "zwire.links.open" in points(reader)
    del session
    gc.collect()
    end = time.monotonic() + PATIENCE
    while hub.stats()["links"]:
        assert time.monotonic() < end
        time.sleep(0.005)
    assert points(reader) == {}


def test_the_provider_of_the_program_is_the_default(hub):
    code = f"""
from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from zwire import metrics, zenoh

reader = InMemoryMetricReader()
api.set_meter_provider(MeterProvider(metric_readers=[reader]))
with zenoh.open({{"mode": "client", "connect/endpoints": {hub.listening()!r}}}) as session:
    metrics.otel(session)
    print(len(reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics) > 20)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "True\n", done.stderr
