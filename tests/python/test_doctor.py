"""Findings of `zwire doctor`; `tests/network/test_doctor.py` has networks with faults."""

import json

import pytest

from zwire.cli import main
from zwire.cli._doctor.findings import Finding, exit_code, show
from zwire.cli._doctor.keys import difference


def test_colours_are_for_terminals_that_want_them(capsys, monkeypatch):
    finding = Finding("port", "fault", "\x1b[2J", "means", "do")
    show(finding)
    assert capsys.readouterr().out == ("fault    port: \\u001b[2J\n         means: means\n         do: do\n")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for value, coloured in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        show(finding)
        assert capsys.readouterr().out.startswith("\x1b[31m") is coloured


def test_lines_are_as_long_as_the_terminal_is_wide(capsys, monkeypatch):
    finding = Finding("port", "fault", "refused", "no program listens there", f"open {'x' * 40}")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    show(finding)
    assert capsys.readouterr().out == (
        "fault    port: refused\n"
        "         means: no program\n"
        "         listens there\n"
        "         do: open\n"
        f"         {'x' * 40}\n"
    )


def test_the_worst_finding_is_the_exit_code():
    def code(*levels):
        return exit_code([Finding("x", level, "saw") for level in levels])

    assert (code(), code("ok", "note"), code("ok", "warning"), code("warning", "fault", "ok")) == (0, 0, 3, 1)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("fleet/+/x", "fleet/7/x", "wildcard of MQTT"),
        ("Fleet/7", "fleet/7", "upper and lower case"),
        ("fleet/7", "robots/fleet/*", "level"),
        ("fleet/7", "robots/fleet/7", "one begins with robots/"),
        ("fleet/*", "fleet/7/battery", "2 levels and the other 3"),
        ("fleet/7/pose", "fleet/8/pose", "level 2 differs: 7 and 8"),
        ("a/**/b", "a/c", "no key belongs to both"),
    ],
)
def test_keys_that_do_not_intersect_are_explained(one, other, words):
    assert words in difference(one, other)


def test_the_file_of_a_running_router_starts_no_storage_and_no_capture(
    endpoint, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("ZENOH_BACKEND_FS_ROOT", str(tmp_path))
    value, capture = tmp_path / "kept" / "a", tmp_path / "hub.pcap"
    value.parent.mkdir()
    value.write_text("precious")
    capture.write_text("of the router")
    volume = {"id": "fs", "dir": "kept", "on_closure": "delete_all"}
    storage = {"key_expr": "kept/**", "strip_prefix": "kept", "volume": volume}
    settings = {
        "mode": "client",
        "connect/endpoints": [endpoint],
        "scouting/multicast/enabled": False,
        "plugins/storage_manager": {"volumes": {"fs": {}}, "storages": {"kept": storage}},
    }
    file = tmp_path / "router.json5"
    file.write_text(json.dumps(settings))
    assert main(["put", "a", "x", "-c", str(file)]) == 0
    file.write_text(json.dumps({**settings, "zwire/tap": str(capture)}))
    assert main(["doctor", "-c", str(file), "--wait", "1"]) in {0, 3}
    assert "forwarding" in capsys.readouterr().out
    assert (value.read_text(), capture.read_text()) == ("precious", "of the router")
