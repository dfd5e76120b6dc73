"""`zwire router` in the place of zenohd: options, their order, files, signals."""

import argparse
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from nodes import LOCAL, client, eventually, free_port
from zwire import zenoh
from zwire.cli import main, router
from zwire.errors import ConfigError

FILE = "{id: 'f1', listen: {endpoints: ['tcp/127.0.0.1:1']}, metadata: {from: 'file'}}"


# Options of a server that is for the page.
ALONE = {"http_port": "127.0.0.1:8000", "rest": False, "origins": []}


def configured(*arguments):
    parser = argparse.ArgumentParser()
    router.configure(parser)
    return router.router_config(parser.parse_args(list(arguments)))


def value(config, key):
    return json.loads(config.get_json(key))


@pytest.mark.parametrize(
    ("arguments", "key", "expected"),
    [
        ((), "mode", "router"),
        ((), "adminspace/enabled", True),
        ((), "listen/endpoints", ["tcp/127.0.0.1:7447"]),
        (("-l", "tcp/[::]:1", "-l", "udp/[::]:1"), "listen/endpoints", ["tcp/[::]:1", "udp/[::]:1"]),
        (("-e", "tcp/h:1"), "connect/endpoints", ["tcp/h:1"]),
        (("-e", '{router: ["tcp/h:1"]}'), "connect/endpoints", {"router": ["tcp/h:1"]}),
        (("-i", "abc"), "id", "abc"),
        (("--id", "abc"), "id", "abc"),
        (("--no-timestamp",), "timestamping/enabled", False),
        (("--no-multicast-scouting",), "scouting/multicast/enabled", False),
        (("--rest-http-port", "8000"), "plugins/rest", {"http_port": "8000", "__required__": True}),
        (("--rest-http-port", "none"), "plugins", {}),
        (("--ui",), "plugins/rest", ALONE | {"ui": True, "read_only": True}),
        (("--ui-write",), "plugins/rest", ALONE | {"ui": "write", "read_only": False}),
        (
            ("--ui", "--rest-http-port", "8000"),
            "plugins/rest",
            {"http_port": "8000", "__required__": True, "ui": True},
        ),
        (("--ui", "--cfg", "plugins/rest/http_port:9000"), "plugins/rest/read_only", True),
        (("-P", "dds"), "plugins/dds", {"__required__": True}),
        (
            ("--plugin", "dds:/lib/x.so"),
            "plugins/dds",
            {"__required__": True, "__path__": "/lib/x.so"},
        ),
        (("--plugin-search-dir", "/a"), "plugins_loading/search_dirs", ["/a"]),
        (("--adminspace-permissions", "rw"), "adminspace/permissions", {"read": True, "write": True}),
        (("--adminspace-permissions", "w"), "adminspace/permissions", {"read": False, "write": True}),
        (("--adminspace-permissions", "none"), "adminspace/permissions", {"read": False, "write": False}),
        (("--cfg", "/metadata:{a: 1}"), "metadata", {"a": 1}),
        (("--cfg", 'metadata:"a:b"'), "metadata", "a:b"),
        # The keys come last, and beat the options.
        (("-l", "tcp/a:1", "--cfg", 'listen/endpoints:["tcp/b:2"]'), "listen/endpoints", ["tcp/b:2"]),
        (("--cfg", "adminspace/enabled:false"), "adminspace/enabled", False),
        (("--cfg", "metadata:1", "--cfg", "metadata:2"), "metadata", 2),
        # A whole configuration takes the place of the file.
        (("--cfg", ":{metadata: 3}", "--cfg", "id:'c'"), "metadata", 3),
    ],
)
def test_options_have_the_meaning_of_zenohd(arguments, key, expected):
    assert value(configured(*arguments), key) == expected


def test_a_file_is_the_base_unless_a_whole_configuration_is_given(tmp_path):
    path = tmp_path / "zenohd.json5"
    path.write_text(FILE)
    config = configured("-c", str(path), "-i", "c2")
    assert value(config, "listen/endpoints") == ["tcp/127.0.0.1:1"]
    assert (value(config, "id"), value(config, "metadata")) == ("c2", {"from": "file"})
    config = configured("-c", str(path), "--cfg", ":{id: 'd3'}")
    assert (value(config, "id"), value(config, "metadata")) == ("d3", None)
    # The default of zenohd, not that of a router without a file.
    path.write_text("{}")
    assert value(configured("-c", str(path)), "listen/endpoints") == value(zenoh.Config(), "listen/endpoints")


@pytest.mark.parametrize("word", ["peer", "router"])
def test_a_file_may_choose_the_mode(tmp_path, word):
    path = tmp_path / "zenohd.yaml"
    path.write_text(f"mode: {word}\n")
    assert value(configured("-c", str(path)), "mode") == word
    assert value(configured("-c", str(path), "-m", "router"), "mode") == "router"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cfg", "metadata"], "KEY:VALUE"),
        (["--cfg", "metadat:1"], "did you mean"),
        (["-i", "XYZ"], "hexadecimal"),
        (["-c", "/nowhere/x.json5"], "x.json5"),
        (["-c", "/nowhere/x.ini"], "json5, json, yaml or yml"),
        (["--adminspace-permissions", "x"], "expected one of r, w, rw, none"),
        (["-P", "dds", "-l", "tcp/127.0.0.1:0"], "nothing here does the work of this plugin"),
        (["-l", "tcp/127.0.0.1"], "the port is missing"),
        (["-m", "client"], 'not "client"'),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(capsys, arguments, words):
    assert main(["router", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    assert words in err


ZENOHD = """\
// A configuration as sites have it: rules, TLS that is not in use, and plugins of zenohd.
{
  mode: "router",
  metadata: { name: "attic", location: "Penny Lane" },
  listen: { timeout_ms: 0, endpoints: { router: ["tcp/127.0.0.1:0"], peer: ["tcp/127.0.0.1:0"] } },
  connect: { endpoints: { router: [], peer: [] }, exit_on_failure: { router: false, peer: false } },
  scouting: { multicast: { enabled: false, autoconnect: { router: [], peer: ["router", "peer"] } } },
  timestamping: { enabled: { router: true, peer: false, client: false }, drop_future_timestamp: false },
  region_name: null,
  gateway: { south: "auto" },
  stats: { filters: [] },
  transport: {
    unicast: { qos: { enabled: true }, max_links: 1 },
    link: { tx: { queue: { allocation: { mode: "lazy" } } }, tls: { root_ca_certificate: null } },
    shared_memory: { enabled: true, mode: "lazy" },
    auth: { pubkey: { key_size: null } },
  },
  adminspace: { enabled: true, permissions: { read: true, write: false } },
  plugins_loading: { enabled: true, search_dirs: [{ kind: "current_exe_parent" }, "/usr/lib"] },
  plugins: {
    webserver: { http_port: 8080, private: { token: "hidden" } },
    mqtt: { __path__: ["/usr/lib/libzenoh_plugin_mqtt.so"], port: "0.0.0.0:1883" },
  },
}
"""


@pytest.fixture
def daemon(tmp_path):
    """Starts `zwire router`, and gives the process with its first endpoint."""
    running = []

    def start(*arguments):
        with (tmp_path / "log").open("w") as log:
            command = [sys.executable, "-m", "zwire", "router", *arguments]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        running.append(process)
        return process, process.stdout.readline().strip()

    start.log = (tmp_path / "log").read_text
    yield start
    for process in running:
        process.kill()
        process.wait(10)
        process.stdout.close()


def test_a_file_of_zenohd_runs_unchanged_and_unused_plugins_are_named_once(daemon, tmp_path):
    path = tmp_path / "zenohd.json5"
    path.write_text(ZENOHD)
    process, endpoint = daemon("-c", str(path))
    with zenoh.open({"mode": "client", "connect/endpoints": [endpoint]}) as session:
        (reply,) = session.get("@/*/router", timeout=10)
        assert json.loads(reply.ok.payload.to_bytes())["metadata"]["name"] == "attic"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    log = daemon.log()
    for plugin in ("plugins/webserver", "plugins/mqtt"):
        assert log.count(plugin) == 1, log
    assert "hidden" not in log


def test_sighup_reads_the_file_again(daemon, tmp_path):
    path = tmp_path / "router.json5"
    port = free_port()

    def write(permission, **more):
        access = {
            "enabled": True,
            "default_permission": permission,
            "rules": [],
            "subjects": [],
            "policies": [],
        }
        settings = {
            "listen": {"endpoints": [f"tcp/127.0.0.1:{port}"]},
            "scouting": {"multicast": {"enabled": False}},
            "access_control": access,
            **more,
        }
        path.write_text(json.dumps(settings))

    write("deny")
    process, endpoint = daemon("-c", str(path), "-v")
    ends = {"mode": "client", "connect/endpoints": [endpoint]}
    with zenoh.open(ends) as robot, zenoh.open(ends) as desk:
        subscriber = desk.declare_subscriber("a/b")
        desk.ready(timeout=10)
        robot.put("a/b", "refused")
        robot.flush(timeout=10)
        write("allow", metadata={"new": True}, zwire={"threads": 3, "log": {"level": "info"}})
        process.send_signal(signal.SIGHUP)
        eventually(lambda: "zwire/threads (it needs a restart)" in daemon.log(), "the file is read")
        robot.put("a/b", "passes")
        assert subscriber.recv(timeout=10).payload.to_string() == "passes"
        (reply,) = robot.get("@/*/router", timeout=10)
        assert json.loads(reply.ok.payload.to_bytes())["metadata"] == {"new": True}
        # A file that is wrong changes nothing.
        path.write_text("{access_control: {enabled: 1}}")
        process.send_signal(signal.SIGHUP)
        eventually(lambda: "the configuration is as before" in daemon.log(), "the file is refused")
        robot.put("a/b", "still passes")
        assert subscriber.recv(timeout=10).payload.to_string() == "still passes"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_sighup_replaces_http_servers_whose_section_differs(daemon, tmp_path):
    path, port = tmp_path / "router.json5", free_port()

    def write(token, **more):
        rest = {"http_port": f"127.0.0.1:{port}", "tokens": [{"token": token, "user": "ann"}], **more}
        settings = {
            "listen": {"endpoints": LOCAL},
            "scouting": {"multicast": {"enabled": False}},
            "plugins": {"rest": rest},
        }
        path.write_text(json.dumps(settings))

    def status(token):
        url, head = f"http://127.0.0.1:{port}/@/local/router", {"Authorization": f"Bearer {token}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=head), timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return None

    write("old")
    process, _ = daemon("-c", str(path))
    eventually(lambda: status("old") == 200, "the server answers")
    write("new")
    process.send_signal(signal.SIGHUP)
    eventually(lambda: status("new") == 200, "the server has its new token")
    assert status("old") == 401
    write("new", htp_port=1)
    process.send_signal(signal.SIGHUP)
    eventually(lambda: "nothing runs for this section" in daemon.log(), "the error is told")
    assert status("new") is None
    write("new")
    process.send_signal(signal.SIGHUP)
    eventually(lambda: status("new") == 200, "the server runs again")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_a_required_plugin_that_is_not_here_is_named():
    with pytest.raises(ConfigError) as caught:
        zenoh.open({"mode": "router", "listen/endpoints": LOCAL, "plugins": {"dds": {"__required__": True}}})
    assert caught.value.path == "plugins/dds/__required__"
    with (
        zenoh.open({"mode": "router", "listen/endpoints": LOCAL, "plugins": {"dds": {}}}) as hub,
        client(hub),
    ):
        pass
