"""The commands of ``zwire zre``, on hosts of a network of our own."""

import base64
import json
import signal
import subprocess
import sys

import pytest

from zre.peers import PATIENCE


@pytest.fixture
def start(party):
    """Starts a command on a host of its own, or on a given one."""

    def begin(*arguments, host=None):
        host = host or party.network.host()
        process = subprocess.Popen(
            host.command(sys.executable, "-m", "zwire", "zre", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        host.processes.append(process)
        return process

    return begin


def ended(process, code=0):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    return out, err


def test_peers(party, start):
    a = party.pyre("alice", headers={"X-ROLE": "edge"}, groups=["CHAT"])
    b = party.zwire("bob")
    a.wait("ENTER", b)
    out, _ = ended(start("peers", "-n", "2"))
    first, second = out.splitlines()
    assert first == f"{a.uuid} alice {a.endpoint} 36 CHAT X-ROLE=edge"
    assert second == f"{b.uuid} bob {b.endpoint} 36 -"
    out, _ = ended(start("peers", "-n", "2", "--format", "jsonl"))
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0] == {
        "peer": a.uuid,
        "name": "alice",
        "address": a.endpoint,
        "generation": "36",
        "groups": ["CHAT"],
        "headers": {"X-ROLE": "edge"},
    }
    out, err = ended(start("peers", "-n", "3", "--wait", "1.5"), code=3)
    assert len(out.splitlines()) == 2
    assert "2 of 3" in err


def test_nobody_is_there(start):
    out, err = ended(start("peers", "--wait", "0.2"), code=3)
    assert (out, err.startswith("zwire zre peers: no peer was seen within 0.2 s")) == ("", True)
    _, err = ended(start("shout", "CHAT", "hello", "--wait", "0.2"), code=3)
    assert "0 of 1 members of CHAT were seen within 0.2 s" in err
    _, err = ended(start("whisper", "alice", "hello", "--wait", "0.2"), code=3)
    assert "no peer named 'alice', or with that UUID, was seen within 0.2 s" in err


def test_shout(party, start):
    a = party.pyre("alice", groups=["CHAT"])
    b = party.zwire("bob", groups=["CHAT"])
    a.wait("ENTER", b)
    _, err = ended(start("shout", "CHAT", "hello", "everybody", "--peers", "2", "--name", "me"))
    assert "2 queued, 0 not responding, 0 refused" in err
    for peer in (a, b):
        told = peer.wait("SHOUT", group="CHAT")
        assert (told["name"], told["content"]) == ("me", [b"hello", b"everybody"])


def test_whisper(party, start):
    a = party.pyre("alice")
    _, err = ended(start("whisper", "alice", "psst"))
    assert "alice: queued" in err
    assert a.wait("WHISPER")["content"] == [b"psst"]
    ended(start("whisper", a.uuid[:10].lower(), "by its uuid"))
    a.wait("WHISPER", content=[b"by its uuid"])


def test_chat(party, start):
    a = party.pyre("alice", groups=["CHAT"])
    chat = start("chat", "--name", "me", "--header", "X-ROLE=console")
    assert chat.stderr.readline().startswith("me joined CHAT at tcp://")
    assert chat.stdout.readline().startswith("alice entered from tcp://")
    assert chat.stdout.readline() == "alice joined CHAT\n"
    assert a.wait("ENTER")["headers"] == {"X-ROLE": "console"}
    a.wait("JOIN", group="CHAT")
    print("hello from me", file=chat.stdin, flush=True)
    assert a.wait("SHOUT")["content"] == [b"hello from me"]
    a.shout("CHAT", ["hello", b"\x00"])
    assert chat.stdout.readline() == 'alice to CHAT: hello | "\\u0000"\n'
    a.stop()
    assert chat.stdout.readline() == "alice is gone\n"
    ended(chat)


def test_chat_ends_with_a_signal(party, start):
    chat = start("chat", "--format", "jsonl")
    chat.stderr.readline()
    a = party.pyre("alice")
    told = json.loads(chat.stdout.readline())
    assert (told["type"], told["peer"], told["name"]) == ("ENTER", a.uuid, "alice")
    a.wait("ENTER")
    (uuid,) = {e["peer"] for e in a.told("ENTER")}
    a.whisper(uuid, b"\xff")
    told = json.loads(chat.stdout.readline())
    assert [base64.b64decode(c) for c in told["content"]] == [b"\xff"]
    chat.send_signal(signal.SIGINT)
    ended(chat, 130)
    a.wait("EXIT", within=2)


def test_doctor(party, start):
    a = party.pyre("alice")
    a.wait("STARTED")
    out, _ = ended(start("doctor", "--wait", "2"))
    assert "interfaces:" in out
    assert "eth0" in out
    assert "alice" in out
    host = party.network.host()
    out, _ = ended(
        start("doctor", "--wait", "2", "--format", "json", "--interface", "eth9", host=host), code=1
    )
    report = json.loads(out)
    assert "no address" in report["node"]["problem"]
    (eth0,) = [i for i in report["interfaces"] if i["name"] == "eth0"]
    assert eth0["used"] is False
    assert eth0["why"]
    assert report["peers"] == []


def test_static_peers_need_no_beacon(party, start):
    a = party.zwire("alice", beacons=False, groups=["CHAT"])
    _, err = ended(start("shout", "CHAT", "hello", "--no-beacons", "--connect", a.endpoint))
    assert "1 queued" in err
    a.wait("SHOUT")


def test_wrong_arguments(start):
    _, err = ended(start("peers", "--header", "nonsense"), code=2)
    assert "NAME=VALUE" in err
    _, err = ended(start("peers", "--connect", "nonsense"), code=2)
    assert "nonsense" in err


def test_log(party, start):
    host = party.network.host()
    log = start("log", "-g", "20", "-g", "36", "-n", "1", "--timeout", "20", "--format", "jsonl", host=host)
    assert "collects at tcp://" in log.stderr.readline()
    node = party.scripted("20")
    node.wait("ENTER")
    # A record that is sent before the collector has a connection for it is lost.
    for _ in range(200):
        node.ask("send_log", level="INFO", event="JOIN", data="LOGGED")
        if log.poll() is not None:
            break
        host.run("sleep", "0.1")
    out, _ = ended(log)
    record = json.loads(out)
    assert (record["level"], record["event"], record["data"]) == ("INFO", "JOIN", "LOGGED")
