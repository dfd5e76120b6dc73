"""Three spoolers of one spool on hosts of a network of ours; further hosts have an S3 store and publishers.

Spoolers are killed, paused, cut off from the store or from the publishers; their clocks differ by hours. Each
sample is in the spool once or named by its log of gaps, in order of its key, and a lease is taken over within
10 s.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import shared
from network.namespaces import Network, missing
from objects import Store

pytest.importorskip("pyarrow")
pytest.importorskip("moto")

TESTS = Path(__file__).parents[1]
NAMES = ["a", "b", "c"]

# Wall clock of a process, moved by a number of seconds; without it (no C compiler), clocks are equal.
SKEW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, time);
    const char *skew = getenv("SKEW");
    if (skew && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += atol(skew);
    return done;
}
"""


def skewed(folder, seconds):
    """The environment of a process with another wall clock."""
    library = folder / "skew.so"
    if not library.exists():
        compiler = shutil.which("cc")
        if compiler is None:
            return {}
        source = folder / "skew.c"
        source.write_text(SKEW)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=30)
    return {"LD_PRELOAD": str(library), "SKEW": str(seconds)}


class Chaos:
    """The network, and what runs in it."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.network = Network()
        self.hub, self.store_host, self.publisher, *self.hosts = [self.network.host() for _ in range(6)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        moto = self.store_host.python(TESTS / "objects.py", self.store_host.address, **pipes)
        self.store = Store(int(moto.stdout.readline()), self.store_host.address)
        self.endpoint = f"tcp/{self.hub.address}:7447"
        command = [sys.executable, "-m", "zwire", "router", "--listen", self.endpoint]
        router = subprocess.Popen(
            self.hub.command(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.hub.processes.append(router)
        assert self.endpoint in router.stdout.readline()
        self.url = "s3://shared/a/spool"
        self.ask_store("PUT", "/shared")
        self.spoolers = [self.start(number) for number in range(3)]
        self.took = []

    def ask_store(self, method, path):
        program = "import objects, sys; objects.Store(int(sys.argv[1]), sys.argv[2]).call(*sys.argv[3:])"
        port = self.store.endpoint.rpartition(":")[2]
        command = [sys.executable, "-c", program, port, self.store_host.address, method, path]
        subprocess.run(self.store_host.command(*command), check=True, timeout=30, cwd=TESTS)

    def start(self, number):
        # Hours ahead, hours behind, and right.
        env = {**self.store.env, **skewed(self.folder, [7200, -10800, 0][number])}
        host = self.hosts[number]
        folder = self.folder / f"host-{number}"
        return shared.Process(folder, self.url, self.endpoint, env=env, prefix=host.command())

    def publish(self):
        command = [sys.executable, str(TESTS / "shared.py"), "publish", self.endpoint, *NAMES]
        command = self.publisher.command(*command)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **pipes)
        self.publisher.processes.append(process)
        assert process.stdout.readline() == "publishing\n"
        return process

    def holder(self):
        return shared.holder(self.spoolers, within=30)

    def cut(self, number, other):
        """Lose all frames from a spooler to another host, without a word."""
        lost = f"neigh replace {other.address} lladdr 02:00:00:00:00:99 nud permanent dev eth0"
        self.hosts[number].namespace.ip(lost)

    def heal(self, number, other):
        self.hosts[number].namespace.ip(f"neigh del {other.address} dev eth0")

    def taken_over(self, number, begin):
        """Wait until another spooler has the lease."""
        others = [each for other, each in enumerate(self.spoolers) if other != number]
        end = time.monotonic() + 20
        while not (times := [at for each in others if (at := each.since(begin)) is not None]):
            assert time.monotonic() < end, shared.said(self.spoolers, begin)
            time.sleep(0.02)
        self.took.append(min(times))

    def round(self, fault):
        """One fault, of the holder or of another spooler."""
        held = self.spoolers.index(self.holder())
        number = held if self.random.random() < 0.7 else self.random.randrange(3)
        victim, begin = self.spoolers[number], time.monotonic()
        match fault:
            case "kill":
                victim.kill()
                if number == held:
                    self.taken_over(number, begin)
                self.spoolers[number] = self.start(number)
            case "pause":
                victim.stop()
                if number == held:
                    self.taken_over(number, begin)
                time.sleep(self.random.uniform(0, 3))
                victim.go_on()
            case "store":
                self.cut(number, self.store_host)
                if number == held:
                    self.taken_over(number, begin)
                time.sleep(self.random.uniform(0, 3))
                self.heal(number, self.store_host)
            case "publishers":
                self.cut(number, self.hub)
                time.sleep(self.random.uniform(0.5, 4))
                self.heal(number, self.hub)
        time.sleep(self.random.uniform(0, 2))

    def check(self, publisher):
        """The sums, after a last sample on each key."""
        self.holder()
        print("end", file=publisher.stdin, flush=True)
        publisher.stdout.readline()
        command = self.store_host.command(sys.executable, str(TESTS / "shared.py"), "sums", self.url)
        env = {**os.environ, **self.store.env}
        end = time.monotonic() + 60
        while True:
            time.sleep(2)
            # The last sample of a spooler that was lost is named by the next one.
            print("again", file=publisher.stdin, flush=True)
            sent = publisher.stdout.readline()
            time.sleep(4)
            done = subprocess.run(
                command, input=sent, text=True, capture_output=True, env=env, timeout=60, check=False
            )
            if done.returncode == 0:
                return done.stdout.strip()
            assert time.monotonic() < end, f"{done.stdout}{done.stderr}"

    def end(self):
        for each in self.spoolers:
            if each.process.poll() is None:
                each.go_on()
                each.kill()
        self.network.end()


def run(folder, seed, faults):
    if reason := missing():
        pytest.skip(reason)
    chaos = Chaos(folder, seed)
    try:
        chaos.holder()
        publisher = chaos.publish()
        for fault in faults(chaos.random):
            chaos.round(fault)
        sums = chaos.check(publisher)
        took = [round(seconds, 1) for seconds in chaos.took]
        print(f"seed {seed}: {sums}; takeovers after {took} s")
        assert all(seconds <= 10 for seconds in took), took
    finally:
        chaos.end()


@pytest.mark.timeout(120)
def test_a_kill_and_a_cut_lose_no_sample_unnamed(tmp_path):
    run(tmp_path, 1, lambda _: ["publishers", "kill"])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ten_rounds_of_chaos_lose_no_sample_unnamed(tmp_path, seed):
    kinds = ["kill", "pause", "store", "publishers"]
    run(tmp_path, seed, lambda chosen: [chosen.choice(kinds) for _ in range(10)])
