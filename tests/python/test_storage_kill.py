"""A router that is killed while it stores: acknowledged puts are there afterwards, none is half there."""

import hashlib
import json
import random
import subprocess
import sys
import threading
import time

import pytest

import nodes
from zwire import errors, zenoh

BLOCK = zenoh.CongestionControl.BLOCK


def payload(number):
    """Bytes that only this number has, of a length of its own; a large one now and then."""
    digest = hashlib.sha256(str(number).encode()).digest()
    return digest * (500 if number % 97 == 0 else 1 + number % 7)


class Router:
    """`zwire router` with a storage on the disk."""

    def __init__(self, folder):
        self.file = folder / "router.json5"
        self.port = nodes.free_port()
        storages = {
            "k": {"key_expr": "k/**", "strip_prefix": "k", "volume": {"id": "disk", "dir": str(folder / "k")}}
        }
        config = {
            "mode": "router",
            "listen": {"endpoints": [f"tcp/127.0.0.1:{self.port}"]},
            "scouting": {"multicast": {"enabled": False}},
            "plugins": {"storage_manager": {"__required__": True, "storages": storages}},
        }
        self.file.write_text(json.dumps(config))
        self.start()

    def start(self):
        command = [sys.executable, "-m", "zwire", "router", "--config", str(self.file)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().strip(), self.process.stderr.read()

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=20)

    def client(self):
        return nodes.opened("client", connect=[f"tcp/127.0.0.1:{self.port}"])


class Load(threading.Thread):
    """Puts numbers and asks now and then whether they are durable, until the router is gone."""

    def __init__(self, router, first, random):
        super().__init__(daemon=True)
        self.session = router.client()
        self.next = first
        self.random = random
        self.safe = first
        self.begun = threading.Event()

    def run(self):
        try:
            while True:
                for _ in range(self.random.randint(1, 200)):
                    self.session.put(f"k/{self.next}", payload(self.next), congestion_control=BLOCK)
                    self.next += 1
                last = self.next - 1
                replies = list(self.session.get(f"k/{last}?_durable", timeout=20.0))
                if not (replies and replies[0].ok):
                    return
                assert replies[0].ok.payload.to_bytes() == payload(last)
                self.safe = self.next
                self.begun.set()
        except errors.ZwireError:
            return


def check(router, upto, safe):
    """Every acknowledged number is there, and whatever is there is whole."""
    with router.client() as session:
        found = {}
        for reply in session.get("k/**"):
            assert reply.ok, reply.err.payload.to_string()
            number = int(str(reply.ok.key_expr).removeprefix("k/"))
            assert reply.ok.payload.to_bytes() == payload(number), f"{number} is half there"
            found[number] = True
    missing = [number for number in range(safe) if number not in found]
    assert not missing, f"{len(missing)} acknowledged puts are gone, the first is {missing[0]}"
    assert all(number < upto for number in found)


def kills(folder, count, seed):
    rng = random.Random(seed)
    router = Router(folder)
    known = upto = 0
    try:
        for _ in range(count):
            load = Load(router, known, rng)
            load.start()
            assert load.begun.wait(20), "no put was acknowledged"
            time.sleep(rng.random() * 0.15)
            router.kill()
            load.session.close()
            load.join(20)
            assert not load.is_alive()
            router.start()
            upto = max(upto, load.next)
            check(router, upto, load.safe)
            known = load.safe
    finally:
        router.kill()


@pytest.mark.slow
def test_acknowledged_puts_survive_kills(tmp_path):
    kills(tmp_path, 4, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_acknowledged_puts_survive_two_hundred_kills(tmp_path):
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kills(folder, 20, seed)
