"""Metrics of spools and spoolers, and the alerts and the dashboard that name them."""

from __future__ import annotations

import json
import random
import re
import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import snippets
from nodes import client, eventually, free_port, router
from terminal import running
from zwire import metrics, spool, stats, zenoh
from zwire.cli import main

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = {"congestion_control": zenoh.CongestionControl.BLOCK}
RULES = snippets.ROOT / "deploy/prometheus/zwire-spool.rules.yml"
BOARD = snippets.ROOT / "deploy/grafana/zwire-spool.json"


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples of each metric, by its name in the text, as a strict parser reads them."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(found: dict[str, list[tuple[dict[str, str], float]]], name: str, **labels: str) -> float:
    (one,) = [value for given, value in found[name] if labels.items() <= given.items()]
    return one


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    with spool.Appender(folder, shards=2) as appender:
        for number in range(100):
            appender.append(key="k", payload=f"{number}", recv_ts=1_000_000 * number, shard=number % 2)
        appender.append_gap(1, "drop", count=2)
        appender.append_gap(1, "gap", count=5)
    return folder


def test_a_spool_tells_how_far_each_consumer_is_behind_and_what_is_missing(filled):
    view = spool.open(filled)
    view.commit("near", {0: 50, 1: 48})
    view.commit("far", {0: 10, 1: 0})
    text = metrics.prometheus(view)
    found = samples(text)
    own = {"spool": view.id, "path": str(filled)}
    assert value(found, "zwire_spool_rows", **own) == 100
    assert value(found, "zwire_spool_appended_total", shard="1") == 50
    assert value(found, "zwire_spool_consumer_lag_rows", consumer="near") == 2
    assert value(found, "zwire_spool_consumer_lag_rows", consumer="far") == 90
    # Offset 48 of shard 1 was received at 97 s, the newest row of it at 99 s.
    assert value(found, "zwire_spool_consumer_lag_seconds", consumer="near") == 2
    assert value(found, "zwire_spool_consumer_lag_seconds", consumer="far") == 98
    assert value(found, "zwire_spool_consumer_committed_timestamp_seconds", consumer="far") > 1e9
    assert value(found, "zwire_spool_last_received_timestamp_seconds", shard="1") == 99
    assert value(found, "zwire_spool_gaps_total", reason="drop") == 1
    assert value(found, "zwire_spool_missing_total", reason="drop") == 2
    assert value(found, "zwire_spool_missing_total", reason="gap") == 5
    files = sum(file.stat().st_size for file in filled.rglob("*") if file.is_file())
    assert value(found, "zwire_spool_folder_bytes") == files
    assert 0 < value(found, "zwire_spool_disk_free_bytes") < value(found, "zwire_spool_disk_size_bytes")
    assert not [name for name in found if "tier" in name]
    # The log of gaps is read once, however often it is asked for.
    with spool.Appender(filled, shards=2) as appender:
        appender.append_gap(0, "gap", count=7)
    again = samples(metrics.prometheus(view))
    assert value(again, "zwire_spool_missing_total", reason="gap") == 12
    assert value(again, "zwire_spool_gaps_total", reason="drop") == 1
    sums = samples(metrics.prometheus(view, detail=False))
    assert not [name for name, found in sums.items() for labels, _ in found if "shard" in labels]


def test_a_spooler_tells_of_its_queue_its_compression_and_its_tier(hub, tmp_path, monkeypatch):
    tier = tmp_path / "tier"
    with (
        client(hub) as publisher,
        client(hub) as session,
        spool.Spooler(
            tmp_path / "spool",
            "k",
            session=session,
            compression="zstd",
            segment_bytes=20_000,
            tier=f"file://{tier}",
        ) as spooler,
    ):
        spooler.ready(5)
        for number in range(50):
            publisher.put("k", b"all the same " * 100, **BLOCK)
            if number % 10 == 9:
                eventually(lambda: spooler.stats()["rows"] == number + 1)  # noqa: B023 - done before the next
                assert spooler.flush(5)
        found = samples(metrics.prometheus(spooler, session))
        assert value(found, "zwire_spooler_received_total") == 50
        assert value(found, "zwire_spooler_payload_bytes_total") == 50 * 1300
        assert value(found, "zwire_spooler_raw_bytes_total") > 50 * 1300
        assert 0 < value(found, "zwire_spooler_stored_bytes_total") < 50 * 200
        assert value(found, "zwire_spooler_compression_ratio") > 5
        assert value(found, "zwire_spooler_failing") == 0
        assert value(found, "zwire_spooler_tier_failures_total") == 0
        assert value(found, "zwire_spool_tier_reachable") == 1
        assert "zwire_links_open" in found
        # A store that is taken away: uploads fail, and the spool can still be read.
        eventually(tier.exists)
        tier.rename(tmp_path / "gone")
        tier.write_text("in the way")
        random_ = random.Random(1)

        def fails() -> bool:
            publisher.put("k", random_.randbytes(10_000), **BLOCK)
            assert spooler.flush(5)
            return spooler.stats()["tier"]["failures"] > 0

        eventually(fails, within=20)
        found = samples(metrics.prometheus(spooler))
        assert value(found, "zwire_spooler_tier_failing") == 1
        assert value(found, "zwire_spool_tier_reachable") == 0
        assert value(found, "zwire_spool_rows") > 50
        assert value(found, "zwire_spooler_tier_behind_segments") > 0
        assert value(found, "zwire_spooler_tier_behind_bytes") > 0
        tier.unlink()
        (tmp_path / "gone").rename(tier)


def test_without_compression_the_ratio_is_one(hub, tmp_path):
    with client(hub) as session, spool.Spooler(tmp_path, "k", session=session) as spooler:
        assert "zwire_spooler_compression_ratio" not in samples(metrics.prometheus(spooler))
        session.put("k", b"x" * 1000, **BLOCK)
        eventually(lambda: spooler.stats()["rows"] == 1)
        assert spooler.flush(5)
        assert value(samples(metrics.prometheus(spooler)), "zwire_spooler_compression_ratio") == 1


def test_the_command_prints_them(filled, capsys):
    assert main(["spool", "stat", str(filled), "--metrics"]) == 0
    assert value(samples(capsys.readouterr().out), "zwire_spool_rows") == 100
    assert main(["spool", "stat", str(filled / "nothing"), "--metrics"]) == 1


def test_a_running_spooler_serves_them(tmp_path):
    place = f"127.0.0.1:{free_port()}"
    address = f"http://{place}/metrics"
    with (
        router() as hub,
        client(hub) as publisher,
        running("spool", "keep", "--dir", tmp_path, "k", "-e", hub.listening()[0], "--metrics", place),
    ):
        publisher.put("k", b"x", **BLOCK)

        def asked(path: str = "") -> str:
            with urllib.request.urlopen(address + path, timeout=5) as answer:
                assert answer.headers["Content-Type"] == metrics.CONTENT_TYPE
                return answer.read().decode()

        eventually(lambda: listens(place))
        eventually(lambda: value(samples(asked()), "zwire_spool_rows") == 1)
        found = samples(asked("?name=x"))
        assert value(found, "zwire_spooler_rows_total") == 1
        assert {"zwire_links_open", "zwire_spool_disk_free_bytes"} <= set(found)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            asked("/other")


def listens(place: str) -> bool:
    host, _, port = place.partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize("given", ["9464", "host:", "host:x", "host:70000"])
def test_an_address_that_is_none_is_refused(given, tmp_path, capsys):
    assert main(["spool", "keep", "--dir", str(tmp_path), "k", "--metrics", given]) == 2
    assert "a host and a port, such as 127.0.0.1:9464" in capsys.readouterr().err


def exported() -> set[str]:
    """The names of all metrics, as they are in the text."""
    return {
        f"{family.flat}_total" if family.stat.kind == "counter" else family.flat
        for family in metrics._FAMILIES.values()
    }


def names(expression: str) -> set[str]:
    return set(re.findall(r"\bzwire_\w+", expression))


def check(expression: str) -> None:
    """Check what can be without Prometheus: parentheses, names, and `rate` of counters alone."""
    for opening, closing in ("()", "[]", "{}"):
        assert expression.count(opening) == expression.count(closing), expression
    assert names(expression) <= exported(), names(expression) - exported()
    for name in re.findall(r"(?:rate|increase)\((\w+)", expression):
        assert name.endswith("_total"), expression
    for function in re.findall(r"\b([a-z_]+)\(", expression):
        assert function in {"rate", "increase", "time", "predict_linear", "sum", "max", "by", "label_values"}


def test_alerts_name_metrics_that_exist():
    rules = yaml.safe_load(RULES.read_text())
    assert set(rules) == {"groups"}
    (group,) = rules["groups"]
    assert set(group) == {"name", "rules"}
    alerts = [rule["alert"] for rule in group["rules"]]
    assert len(set(alerts)) == len(alerts) > 8
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Zwire[A-Za-z]+", rule["alert"])
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        for text in rule["annotations"].values():
            assert text.count("{{") == text.count("}}")
        assert names(rule["expr"]) or rule["expr"].startswith("up{")
        check(rule["expr"])
    # What an operator has to hear of.
    together = " ".join(rule["expr"] for rule in group["rules"])
    for metric in (
        "consumer_lag_seconds",
        "disk_free_bytes",
        "tier_failures_total",
        "missing_total",
        "dropped_total",
    ):
        assert metric in together


def test_the_dashboard_shows_metrics_that_exist():
    board = json.loads(BOARD.read_text())
    assert {"title", "uid", "panels", "templating", "schemaVersion"} <= set(board)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids) > 8
    shown: set[str] = set()
    for panel in board["panels"]:
        assert {"title", "type", "gridPos", "targets", "datasource"} <= set(panel)
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            check(target["expr"])
            shown |= names(target["expr"])
    (variable,) = [each for each in board["templating"]["list"] if each["type"] == "query"]
    check(variable["query"]["query"])
    asked = {"lag_rows", "disk_free", "behind_bytes", "gaps_total", "compression_ratio", "tier_failures"}
    assert all(any(part in name for name in shown) for part in asked), shown


def test_every_number_is_exported():
    assert {f"spool.{name}" for name in stats.SPOOL} <= set(metrics._FAMILIES)
    assert {f"spooler.{name}" for name in stats.SPOOLER} <= set(metrics._FAMILIES)
