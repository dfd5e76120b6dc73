"""Scouting on the loopback, each test with a port of its own."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

import nodes
from zwire import zenoh
from zwire.errors import ConnectError, InvalidValue, TimedOut, ZwireError

PATIENCE = 10.0


@pytest.fixture
def group():
    """A group that no other test uses."""
    return f"224.0.0.224:{nodes.free_port(socket.SOCK_DGRAM)}"


def settings(group, **more):
    return {
        "scouting/multicast/address": group,
        "scouting/multicast/interface": "lo",
        **{key.replace("__", "/"): value for key, value in more.items()},
    }


def opened(mode, group, **more):
    listen = [] if mode == "client" else ["tcp/127.0.0.1:0"]
    return zenoh.open({"mode": mode, "listen/endpoints": listen, **settings(group, **more)})


def test_who_is_there(group):
    with (
        opened("router", group) as router,
        opened("peer", group, scouting__multicast__autoconnect=[]) as peer,
        zenoh.scout(config=settings(group)) as scout,
    ):
        hellos = {}
        while len(hellos) < 2:
            hello = scout.recv(timeout=PATIENCE)
            hellos[hello.zid] = hello
        assert hellos[router.zid()].whatami == zenoh.WhatAmI.ROUTER
        assert hellos[router.zid()].locators == router.listening()
        assert hellos[peer.zid()].whatami == zenoh.WhatAmI.PEER
        assert hellos[peer.zid()].source.startswith("127.0.0.1:")
        text = str(hellos[peer.zid()])
        assert str(peer.zid()) in text
        assert peer.listening()[0] in text


@pytest.mark.parametrize(
    "what", ["router", zenoh.WhatAmI.ROUTER, zenoh.WhatAmIMatcher.empty().router()], ids=repr
)
def test_one_role(group, what):
    with (
        opened("router", group) as router,
        opened("peer", group, scouting__multicast__autoconnect=[]),
        zenoh.scout(what=what, config=settings(group)) as scout,
    ):
        roles = {scout.recv(timeout=PATIENCE).zid}
        end = time.monotonic() + 0.5
        while (left := end - time.monotonic()) > 0:
            try:
                roles.add(scout.recv(timeout=left).zid)
            except TimedOut:
                break
        assert roles == {router.zid()}


def test_what_is_no_role_is_refused(group):
    with pytest.raises(InvalidValue, match="bogus"):
        zenoh.scout(what="bogus", config=settings(group))
    with pytest.raises(InvalidValue):
        zenoh.scout(what="", config=settings(group))
    with pytest.raises(TypeError):
        zenoh.scout(what=3, config=settings(group))


def test_a_callback_and_its_end(group):
    heard, ended = threading.Event(), threading.Event()
    with opened("router", group):
        scout = zenoh.scout(zenoh.handlers.Callback(lambda _: heard.set(), ended.set), config=settings(group))
        assert heard.wait(PATIENCE)
        assert scout.handler is None
        scout.stop()
        assert ended.wait(PATIENCE)
        scout.stop()


def test_a_stopped_search_ends_its_readers(group):
    scout = zenoh.scout(config=settings(group))
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(scout))
    reader.start()
    scout.stop()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    with pytest.raises(ZwireError):
        scout.recv()


def test_the_newest_answers(group):
    with (
        opened("router", group),
        opened("peer", group, scouting__multicast__autoconnect=[]),
        zenoh.scout(zenoh.handlers.RingChannel(1), config=settings(group)) as scout,
    ):
        end = time.monotonic() + PATIENCE
        while not scout.dropped:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert scout.try_recv() is not None
        assert scout.try_recv() is None


def test_a_client_without_endpoints_finds_a_router(group):
    with opened("router", group) as router:
        start = time.monotonic()
        with opened("client", group) as client:
            assert time.monotonic() - start < 1
            assert list(client.info.routers_zid()) == [router.zid()]


def test_a_client_that_finds_nobody_says_where_it_asked(group):
    with pytest.raises(ConnectError, match=f"{group}.*lo") as caught:
        opened("client", group, scouting__timeout=200)
    assert caught.value.endpoint is None


def test_a_program_may_end_in_the_middle_of_a_search(group):
    code = (
        "import sys; from zwire import zenoh\n"
        f"config = {settings(group)!r}\n"
        "zenoh.scout(lambda hello: None, config=config)\n"
        "kept = zenoh.scout(config=config)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def zwire(*args):
    command = [sys.executable, "-m", "zwire", "scout", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_the_command(group):
    place = ["--address", group, "--interface", "lo"]
    with (
        opened("router", group) as router,
        opened("peer", group, scouting__multicast__autoconnect=[]) as peer,
    ):
        done = zwire(*place, "-n", "2")
        assert done.returncode == 0, done.stderr
        head, first, second = done.stdout.splitlines()
        assert head.split() == ["ROLE", "ID", "LOCATORS"]
        assert first.split() == ["router", str(router.zid()), *router.listening()]
        assert second.split() == ["peer", str(peer.zid()), *peer.listening()]
        done = zwire(*place, "peer", "-n", "1", "--format", "jsonl")
        expected = {"zid": str(peer.zid()), "whatami": "peer", "locators": peer.listening()}
        assert json.loads(done.stdout) == expected
    done = zwire(*place, "--timeout", "0.2")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no node answered within 0.2 s" in done.stderr
    assert zwire("robot").returncode == 2


def test_the_environment_chooses_interfaces(group):
    code = (
        "from zwire import zenoh\n"
        f"with zenoh.scout(config={{'scouting/multicast/address': {group!r}}}) as scout:\n"
        "    print(scout.recv(timeout=5).zid)\n"
    )
    with opened("router", group) as router:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "ZWIRE_SCOUTING_INTERFACE": "lo"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert done.stdout.strip() == str(router.zid())
