"""Dependencies of the crates, as resolved by cargo, stay within the layers.

Each guard also checks that it has read a dependency tree: with an empty one it would always pass.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (
    "zwire-proto",
    "zwire-shm",
    "zwire-dissect",
    "zwire-engine",
    "zwire-spool",
    "zwire-columns",
    "zwire-tier",
    "zwire-recorder",
    "zwire-kafka",
    "zwire-storage",
    "zwire-http",
    "zwire-bridge",
    "zwire-mqtt",
    "zwire-py",
)
WITHOUT_IO = ("zwire-proto", "zwire-dissect")

# Runtimes, sockets, randomness and Python: not available to the protocol crate.
NOT_IN_PROTO = re.compile(
    r"tokio.*|mio|async-.*|smol|socket2|getifaddrs|rand|rand_.*|getrandom|fastrand|pyo3.*|zwire-dissect|zwire-engine|zwire-py"
)
# The same for the packet analyser, which reads with the codecs of zwire-proto.
NOT_IN_DISSECT = re.compile(rf"(?!zwire-dissect)(?:{NOT_IN_PROTO.pattern})|zwire-spool")
# Not available to the spool crate: the same, and protocols. `getrandom` comes with the hasher of Arrow.
NOT_IN_SPOOL = re.compile(
    r"tokio.*|mio|async-.*|smol|socket2|getifaddrs|rand|rand_.*|fastrand|quinn.*|rustls.*|pyo3.*|zwire-.*"
)
# Not available to the columns: runtimes, sockets and Python. `getrandom` comes with the hasher of Arrow.
NOT_IN_COLUMNS = re.compile(
    r"tokio.*|mio|async-.*|smol|socket2|getifaddrs|rand|rand_.*|fastrand|pyo3.*|zwire-engine|zwire-recorder|zwire-py"
)
# The product has its own wire code: other implementations of the protocols are test oracles only.
NOT_IN_PRODUCT = re.compile(r"zenoh.*|zmq.*|zeromq.*|rzmq|libzmq.*|libsodium.*|sodiumoxide")


@functools.cache
def metadata() -> dict:
    cargo = shutil.which("cargo")
    assert cargo, "cargo is needed to read the dependency tree"
    out = subprocess.run(
        [cargo, "metadata", "--format-version", "1", "--locked"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=25,
    ).stdout
    return json.loads(out)


def dependencies(crate: str, *, dev: bool = False) -> set[str]:
    """Return the names of all dependencies of a crate, at any depth; with `dev` those of its tests too."""
    tree = metadata()
    names = {package["id"]: package["name"] for package in tree["packages"]}
    nodes = {node["id"]: node for node in tree["resolve"]["nodes"]}
    (root,) = (
        package["id"]
        for package in tree["packages"]
        if package["name"] == crate and package["id"] in tree["workspace_members"]
    )
    found: set[str] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        kinds = {None, "dev"} if dev and node == root else {None}
        for dependency in nodes[node]["deps"]:
            if dependency["pkg"] in found or not kinds & {kind["kind"] for kind in dependency["dep_kinds"]}:
                continue
            found.add(dependency["pkg"])
            todo.append(dependency["pkg"])
    return {names[package] for package in found}


def forbidden(names: set[str], pattern: re.Pattern[str]) -> list[str]:
    return sorted(name for name in names if pattern.fullmatch(name))


def test_the_proto_crate_reaches_no_runtime_no_socket_no_randomness_and_no_python():
    tree = dependencies("zwire-proto")
    assert "bytes" in tree, "the guard has read the wrong tree"
    assert forbidden(tree, NOT_IN_PROTO) == []


def test_the_dissect_crate_reaches_no_runtime_no_socket_no_randomness_and_no_python():
    tree = dependencies("zwire-dissect")
    assert {"zwire-proto", "hashbrown"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, NOT_IN_DISSECT) == []


def test_the_crates_without_io_ban_the_clock_sockets_files_and_threads_of_the_standard_library():
    bans = {crate: tomllib.loads((ROOT / "rust" / crate / "clippy.toml").read_text()) for crate in WITHOUT_IO}
    for crate, lists in bans.items():
        banned = {entry["path"] for entries in lists.values() for entry in entries}
        assert {
            "std::time::Instant::now",
            "std::time::SystemTime::now",
            "std::thread::spawn",
            "std::fs::File",
            "std::net::UdpSocket",
        } <= banned, crate
    assert bans["zwire-dissect"] == bans["zwire-proto"]


def test_the_engine_reaches_no_dissector_and_no_python():
    tree = dependencies("zwire-engine")
    assert {"zwire-proto", "tokio"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, re.compile(r"pyo3.*|zwire-py|zwire-recorder")) == []


def test_the_recorder_reaches_no_python():
    tree = dependencies("zwire-recorder")
    assert {"zwire-proto", "zwire-engine", "zwire-spool"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, re.compile(r"pyo3.*|zwire-dissect|zwire-py")) == []


def test_the_kafka_server_reaches_no_recorder_no_kafka_of_others_and_no_python():
    tree = dependencies("zwire-kafka")
    assert {"zwire-spool", "zwire-engine", "tokio"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, re.compile(r"pyo3.*|zwire-(recorder|tier|py)|kafka.*|rdkafka.*|rskafka")) == []


def test_the_storages_reach_no_kafka_and_no_python():
    tree = dependencies("zwire-storage")
    assert {"zwire-engine", "zwire-recorder", "redb"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, re.compile(r"pyo3.*|zwire-(kafka|py)|rocksdb|librocksdb.*")) == []


def test_the_http_server_reaches_no_spool_no_framework_and_no_python():
    tree = dependencies("zwire-http")
    assert {"zwire-engine", "hyper", "tungstenite"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, re.compile(r"pyo3.*|zwire-(spool|recorder|kafka|tier|py)|axum.*|tower-http")) == []


def test_the_bridge_to_mqtt_reaches_no_client_with_a_session_of_its_own_and_no_python():
    tree = dependencies("zwire-mqtt")
    assert {"zwire-engine", "zwire-recorder", "mqtt-protocol-core"} <= tree, (
        "the guard has read the wrong tree"
    )
    assert (
        forbidden(
            tree, re.compile(r"pyo3.*|zwire-(kafka|storage|http|py)|rumqttc|paho.*|openssl|openssl-sys")
        )
        == []
    )


def test_the_bridge_reaches_no_spool_no_http_and_no_python():
    tree = dependencies("zwire-bridge")
    assert {"zwire-engine", "zwire-proto", "serde_json"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, re.compile(r"pyo3.*|hyper|zwire-(spool|recorder|kafka|tier|http|py)")) == []


def test_the_spool_reaches_no_socket_no_randomness_no_protocol_and_no_python():
    tree = dependencies("zwire-spool")
    assert {"arrow-ipc", "crc32c"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, NOT_IN_SPOOL) == []


def test_the_tier_reaches_no_protocol_no_second_crypto_library_and_no_python():
    tree = dependencies("zwire-tier")
    assert {"zwire-spool", "object_store", "ring"} <= tree, "the guard has read the wrong tree"
    others = re.compile(r"pyo3.*|zwire-(?!spool|tier).*|aws-lc.*|openssl|openssl-sys|native-tls")
    assert forbidden(tree, others) == []


def test_the_columns_reach_no_runtime_no_socket_and_no_python():
    tree = dependencies("zwire-columns")
    assert {"zwire-proto", "zwire-dissect", "zwire-spool"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, NOT_IN_COLUMNS) == []


def test_shared_memory_reaches_no_runtime_no_protocol_and_no_python():
    tree = dependencies("zwire-shm")
    assert {"rustix", "parking_lot"} <= tree, "the guard has read the wrong tree"
    assert forbidden(tree, NOT_IN_SPOOL) == []


@pytest.mark.parametrize("crate", PRODUCT)
def test_no_product_crate_links_to_wire_code_of_others(crate):
    tree = dependencies(crate)
    assert len(tree) > 3, "the guard has read the wrong tree"
    assert forbidden(tree, NOT_IN_PRODUCT) == []


# Cargo features of the engine, and the crate of others for which each one exists.
FEATURES = {
    "tls": "rustls",
    "quic": "quinn",
    "ws": "tungstenite",
    "yaml": "saphyr-parser",
    "lz4": "lz4_flex",
    "curve": "curve25519-dalek",
}


def linked(crate: str, *arguments: str) -> set[str]:
    """Return the names of the crates that a build of one crate with these arguments links to."""
    cargo = shutil.which("cargo")
    assert cargo, "cargo is needed to read the dependency tree"
    out = subprocess.run(
        [cargo, "tree", "--locked", "--edges", "normal", "--prefix", "none", "--package", crate, *arguments],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=25,
        text=True,
    ).stdout
    return {line.split()[0] for line in out.splitlines() if line}


def test_the_features_of_the_engine_are_known():
    features = tomllib.loads((ROOT / "rust/zwire-engine/Cargo.toml").read_text())["features"]
    assert set(features) == {"default", *FEATURES}
    assert set(features["default"]) == set(FEATURES)


def test_an_engine_without_features_links_to_none_of_their_crates():
    tree = linked("zwire-engine", "--no-default-features")
    assert {"zwire-proto", "tokio"} <= tree, "the guard has read the wrong tree"
    assert tree.isdisjoint({*FEATURES.values(), "ring", "quinn-proto", "data-encoding"})
    assert tree.isdisjoint({"salsa20", "poly1305", "zeroize"})


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_links_to_its_own_crate_only(feature):
    tree = linked("zwire-engine", "--no-default-features", "--features", feature)
    own = {FEATURES[feature]} | ({FEATURES["tls"]} if feature == "quic" else set())
    assert tree & set(FEATURES.values()) == own


@pytest.mark.parametrize("crate", ["zwire-engine", "zwire-recorder", "zwire-py"])
def test_every_feature_is_on_by_default_and_in_the_wheel(crate):
    assert set(FEATURES.values()) <= linked(crate)


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.split(r"[-+]", text)[0].split("."))


def banned(packages: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the packages, by name and version, that `deny.toml` bans; `make deny` runs cargo-deny itself."""
    bans = tomllib.loads((ROOT / "deny.toml").read_text())["bans"]["deny"]
    assert len(bans) > 10, "the guard has read the wrong table"
    found = []
    for ban in bans:
        name, _, below = ban["crate"].partition(":<")
        found += [
            (package, has)
            for package, has in packages
            if package == name and (not below or version(has) < version(below))
        ]
    return sorted(found)


def test_no_product_crate_links_to_what_deny_toml_bans():
    names = {name for crate in PRODUCT for name in dependencies(crate)}
    linked = {(p["name"], p["version"]) for p in metadata()["packages"] if p["name"] in names}
    assert len(linked) > 50, "the guard has read the wrong tree"
    assert banned(linked) == []


def test_the_guard_of_bans_compares_versions():
    assert banned({("pyo3", "0.29.1"), ("zmq", "1.0.0"), ("bytes", "1.0.0")}) == [
        ("pyo3", "0.29.1"),
        ("zmq", "1.0.0"),
    ]
    assert banned({("pyo3", "0.29.2"), ("pyo3", "0.30.0"), ("lz4_flex", "0.12.1")}) == []


def test_the_guards_see_what_they_forbid():
    # The oracles of the codec's tests and the sockets of the engine match the patterns.
    assert "zenoh-codec" in forbidden(dependencies("zwire-proto", dev=True), NOT_IN_PRODUCT)
    assert {"socket2", "tokio", "getrandom"} <= set(forbidden(dependencies("zwire-engine"), NOT_IN_PROTO))


def test_every_workspace_member_is_a_product_crate():
    tree = metadata()
    members = {p["name"] for p in tree["packages"] if p["id"] in tree["workspace_members"]}
    assert members == set(PRODUCT), "a new crate has to be added to the guards"


def features(*arguments: str) -> dict[str, set[str]]:
    """Return the features of each package of a dependency tree."""
    command = ["cargo", "tree", "--locked", "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}"]
    out = subprocess.run(
        [*command, *arguments], cwd=ROOT, check=True, capture_output=True, text=True, timeout=25
    ).stdout
    found: dict[str, set[str]] = {}
    for line in out.splitlines():
        package, _, given = line.partition("|")
        found.setdefault(package, set()).add(given)
    return found


def test_tests_and_the_compiled_module_share_one_build_of_each_package():
    """A package that has other features in one of `make ext` and `make test-rust` would be compiled twice."""
    (selected,) = re.findall(r"^SAME_PACKAGES := (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (given,) = re.findall(r"maturin develop --locked --features (\S+)", (ROOT / "Makefile").read_text())
    product = ("--package", "zwire-py", "--edges", "normal,build")
    module = features(*product, "--features", given)
    tests = features(*selected.split(), "--edges", "normal,build,dev")
    both = module.keys() & tests.keys()
    assert len(both) > 100, "the guard has read the wrong tree"
    assert {
        package: (module[package], tests[package]) for package in both if module[package] != tests[package]
    } == {}
    (tokio,) = (given for package, given in features(*product).items() if package.startswith("tokio v"))
    assert "test-util" not in str(tokio), "the wheel has a feature of tests"
