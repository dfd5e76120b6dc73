"""Refused connections: certificates, passwords, links of another kind.

On our side each refusal is a typed error with a reason, soon, and costs neither side a descriptor. With the
right certificate or password a node gets in before and after.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from interop.certificates import Authority
from interop.harness import ECLIPSE, QUIET, ZWIRE, PeerError, eventually, free_port
from zwire import errors, zenoh

LISTENERS = [ZWIRE, ECLIPSE]

# A refusal takes milliseconds; a wait for a silent peer is set by `tls_handshake_timeout_ms`.
SOON = 3.0


class Certificates:
    """Settings by name, of hubs and of the nodes that connect."""

    def __init__(self, folder):
        folder.mkdir()
        self.authority = Authority(folder)
        self.strangers = Authority(folder, "strangers")
        for name in ("hub", "robot"):
            self.authority.issue(name)
        self.authority.issue("expired", expired=True)
        self.authority.issue("elsewhere", hosts=["elsewhere.example"])
        self.strangers.issue("thief")
        self.folder = folder

    def hub(self, name="hub", *, mutual=False):
        tls = {
            "root_ca_certificate": self.authority.file,
            "listen_certificate": self.folder / f"{name}.pem",
            "listen_private_key": self.folder / f"{name}.key",
        }
        return self._settings(tls, mutual)

    def caller(self, name=None, *, authority=None):
        tls = {"root_ca_certificate": (authority or self.authority).file}
        if name is not None:
            tls |= {
                "connect_certificate": self.folder / f"{name}.pem",
                "connect_private_key": self.folder / f"{name}.key",
            }
        return self._settings(tls, name is not None)

    @staticmethod
    def _settings(tls, mutual):
        settings = {f"transport/link/tls/{key}": str(value) for key, value in tls.items()}
        return settings | {"transport/link/tls/enable_mtls": mutual}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("refusals") / "certificates")


@pytest.fixture(autouse=True, scope="module")
def runtime():
    """Open the resources that the first session of a process creates for all later ones."""
    zenoh.open(zenoh.Config({**QUIET, "mode": "peer", "listen/endpoints": []})).close()


@pytest.fixture
def users(tmp_path):
    """Settings of a hub that knows one user."""
    file = tmp_path / "users"
    file.write_text("robot:hunter2\n")
    return {"transport/auth/usrpwd/dictionary_file": str(file)}


def password(word):
    return {"transport/auth/usrpwd/user": "robot", "transport/auth/usrpwd/password": word}


def listening(net, implementation, protocol, settings):
    """A hub and its endpoint."""
    endpoint = f"{protocol}/localhost:{free_port()}"
    return net.node(implementation, "router", listen=[endpoint], **settings), endpoint


def opened(endpoint, settings):
    config = {**QUIET, "mode": "client", "connect/endpoints": [endpoint], **settings}
    return zenoh.open(zenoh.Config(config))


def descriptors(process="self"):
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def refused(endpoint, settings):
    """The error, which comes soon and leaves nothing behind."""
    before = descriptors()
    start = time.monotonic()
    with pytest.raises(errors.HandshakeError) as caught:
        opened(endpoint, settings)
    assert time.monotonic() - start < SOON
    assert caught.value.endpoint.startswith(endpoint.split("#")[0])
    eventually("nothing is left behind", lambda: descriptors() <= before)
    return caught.value


@pytest.mark.parametrize("implementation", LISTENERS)
@pytest.mark.parametrize(
    ("hub", "authority", "word"),
    [
        ("expired", None, "expired"),
        ("elsewhere", None, "name"),
        ("hub", "strangers", "unknown-authority"),
    ],
)
def test_a_hub_with_a_certificate_that_does_not_fit(net, certificates, implementation, hub, authority, word):
    _, endpoint = listening(net, implementation, "tls", certificates.hub(hub))
    error = refused(endpoint, certificates.caller(authority=authority and certificates.strangers))
    assert isinstance(error, errors.AuthenticationError)
    assert error.reason == word


@pytest.mark.parametrize("implementation", LISTENERS)
def test_certificates_that_a_hub_does_not_take(net, certificates, implementation):
    hub, endpoint = listening(net, implementation, "tls", certificates.hub(mutual=True))
    opened(endpoint, certificates.caller("robot")).close()
    before = eventually("it settles", lambda: descriptors(hub.process.pid))
    for name in (None, "expired", "thief"):
        error = refused(endpoint, certificates.caller(name))
        assert isinstance(error, errors.AuthenticationError)
        assert error.reason == "refused", name
    if implementation == ZWIRE:
        eventually("the hub forgets them", lambda: descriptors(hub.process.pid) <= before)
    opened(endpoint, certificates.caller("robot")).close()


@pytest.mark.parametrize("implementation", LISTENERS)
@pytest.mark.parametrize("protocol", ["tcp", "tls", "ws"])
def test_wrong_passwords(net, certificates, users, implementation, protocol):
    tls, our_tls = (certificates.hub(), certificates.caller()) if protocol == "tls" else ({}, {})
    hub, endpoint = listening(net, implementation, protocol, {**users, **tls})
    opened(endpoint, {**our_tls, **password("hunter2")}).close()
    before = eventually("it settles", lambda: descriptors(hub.process.pid))
    for settings, word in ((password("hunter3"), "denied"), ({}, "demanded")):
        error = refused(endpoint, {**our_tls, **settings})
        assert isinstance(error, errors.AuthenticationError)
        assert error.reason == word
        assert "hunter" not in str(error)
    if implementation == ZWIRE:
        eventually("the hub forgets them", lambda: descriptors(hub.process.pid) <= before)
    opened(endpoint, {**our_tls, **password("hunter2")}).close()


@pytest.mark.parametrize("implementation", LISTENERS)
def test_links_of_another_kind(net, certificates, implementation):
    _, tls = listening(net, implementation, "tls", certificates.hub())
    _, tcp = listening(net, implementation, "tcp", {})
    assert refused(tls.replace("tls/", "tcp/"), {}).reason == "not-understood"
    wrong = tcp.replace("tcp/", "tls/") + "#tls_handshake_timeout_ms=500"
    # Our listeners know TLS by its first bytes; the reference waits for the batch that it seems to be.
    word = "closed-in-handshake" if implementation == ZWIRE else "timeout"
    assert refused(wrong, certificates.caller()).reason == word


@pytest.mark.parametrize("case", ["unknown authority", "no certificate", "plain", "password"])
def test_a_foreign_node_that_may_not_come_in(net, certificates, users, case):
    mutual = case == "no certificate"
    hub, endpoint = listening(net, ZWIRE, "tls", {**certificates.hub(mutual=mutual), **users})
    right = {**certificates.caller("robot" if mutual else None), **password("hunter2")}
    net.node(ECLIPSE, "client", connect=[endpoint], **right).close()
    before = eventually("it settles", lambda: descriptors(hub.process.pid))
    wrong = {
        "unknown authority": {**right, **certificates.caller(authority=certificates.strangers)},
        "no certificate": {**right, **certificates.caller()},
        "plain": password("hunter2"),
        "password": {**right, **password("hunter3")},
    }[case]
    where = endpoint.replace("tls/", "tcp/") if case == "plain" else endpoint
    start = time.monotonic()
    with pytest.raises(PeerError):
        net.node(ECLIPSE, "client", connect=[where], **wrong)
    assert time.monotonic() - start < 2 * SOON, "a process starts, too"
    eventually("the hub forgets it", lambda: descriptors(hub.process.pid) <= before)
    net.node(ECLIPSE, "client", connect=[endpoint], **right).close()


def test_settings_of_no_use_are_errors_of_the_configuration(certificates, tmp_path):
    with pytest.raises(errors.ConfigError, match="root_ca_certificate is not set") as caught:
        opened("tls/localhost:1", {})
    assert caught.value.path == "transport/link/tls/root_ca_certificate"
    missing = {"transport/link/tls/root_ca_certificate": str(tmp_path / "nowhere.pem")}
    with pytest.raises(errors.ConfigError, match=r"nowhere\.pem: No such file"):
        opened("tls/localhost:1", missing)
    with pytest.raises(errors.ConfigError, match=r"vsock.*it speaks tcp, .*tls"):
        opened("vsock/1:2", {})
    with pytest.raises(errors.ConfigError, match=r"unknown to tls, .*root_ca_certificate_file"):
        opened("tls/localhost:1#certificate=x", certificates.caller())


@pytest.mark.parametrize("caller", LISTENERS)
def test_an_id_belongs_to_its_user(net, tmp_path, caller):
    file = tmp_path / "users"
    file.write_text("robot:hunter2\nguest:pass\n")
    bindings = [{"zids": ["a1b2"], "usernames": ["robot"]}, {"roles": ["router"], "usernames": ["hub"]}]
    settings = {"transport/auth/usrpwd/dictionary_file": str(file), "zwire/auth/bindings": bindings}
    hub, endpoint = listening(net, ZWIRE, "tcp", settings)
    robot = password("hunter2")
    guest = {"transport/auth/usrpwd/user": "guest", "transport/auth/usrpwd/password": "pass"}
    # A stranger with the id is refused; other ids are free.
    if caller == ZWIRE:
        assert refused(endpoint, {**guest, "id": "a1b2"}).reason == "refused"
    else:
        with pytest.raises(PeerError):
            net.node(ECLIPSE, "client", connect=[endpoint], id="a1b2", **guest)
    net.node(caller, "client", connect=[endpoint], **guest)
    net.node(caller, "client", connect=[endpoint], id="a1b2", **robot)
    # One that claims to be a router opens, and is not connected.
    net.node(caller, "router", connect=[endpoint], **guest)
    peer = net.node(caller, "peer", connect=[endpoint], **guest)
    eventually("the peer is connected", lambda: peer.info()["routers"])
    assert hub.info()["routers"] == []


def test_the_owner_of_an_id_takes_the_place_of_a_dead_session(net, tmp_path):
    file = tmp_path / "users"
    file.write_text("robot:hunter2\n")
    bindings = [{"zids": ["a1b2"], "usernames": ["robot"]}]
    settings = {"transport/auth/usrpwd/dictionary_file": str(file), "zwire/auth/bindings": bindings}
    _, endpoint = listening(net, ZWIRE, "tcp", settings)
    robot = {**password("hunter2"), "id": "a1b2"}
    # As after a cable was pulled: the connection is open, and at its other end there is no life.
    old = net.node(ZWIRE, "client", connect=[endpoint], **robot)
    os.kill(old.process.pid, signal.SIGSTOP)
    try:
        with opened(endpoint, robot) as new, opened(endpoint, password("hunter2")) as other:
            subscriber = new.declare_subscriber("k")
            subscriber.wait_ready(5)
            other.put("k", "for the owner", congestion_control=zenoh.CongestionControl.BLOCK)
            assert subscriber.recv(timeout=5).payload.to_string() == "for the owner"
    finally:
        os.kill(old.process.pid, signal.SIGCONT)
