"""Fixtures of tests that need a router or a program in a process of its own."""

import contextlib
import subprocess
import sys

import pytest

import nodes

# What the programs of `program` start with.
PRELUDE = """
import gc, json, os, sys, threading, time
from zwire import zenoh

def opened(mode, **settings):
    config = zenoh.Config()
    config.insert_json5("mode", json.dumps(mode))
    config.insert_json5("scouting/multicast/enabled", "false")
    for key, value in settings.items():
        config.insert_json5(key.replace("__", "/"), json.dumps(value))
    return zenoh.open(config)

def client(**settings):
    return opened("client", connect__endpoints=[sys.argv[1]], **settings)

def thread(call):
    # As a program does that means to be left alone at its end.
    def run():
        try:
            call()
        except zenoh.ZError:
            pass
    threading.Thread(target=run, daemon=True).start()

def ready():
    print("ready", flush=True)
"""


@pytest.fixture
def hub():
    """A router in this process."""
    with nodes.router() as session:
        yield session


@pytest.fixture
def endpoint(hub):
    """Where it listens."""
    return hub.listening()[0]


@pytest.fixture
def session(hub):
    """A client of the hub."""
    with nodes.client(hub) as session:
        yield session


@pytest.fixture
def start(endpoint):
    """Starts `zwire` with arguments and the endpoint of the hub; what still runs at the end is killed."""
    with contextlib.ExitStack() as stack:

        def begin(*arguments):
            process = subprocess.Popen(
                [sys.executable, "-m", "zwire", *arguments, "-e", endpoint],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


@pytest.fixture
def router():
    """`zwire router`, which may be stopped by a signal; ``endpoint`` is where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "zwire", "router", "--listen", "tcp/127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        process.endpoint = process.stdout.readline().strip()
        yield process
        process.kill()


class Program(subprocess.Popen):
    """Python code, after the prelude; its arguments are endpoint and process id of a router."""

    def __init__(self, code, router):
        super().__init__(
            [sys.executable, "-c", PRELUDE + code, router.endpoint, str(router.pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rest(self, within):
        """The output that is left until the process ends; it must end by itself."""
        try:
            self.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end within {within} s\n{self.stderr.read()}") from None
        # `communicate` would forget what `readline` has read already.
        return self.stdout.read(), self.stderr.read()


@pytest.fixture
def program(router):
    """Starts a program beside the router."""
    started = []

    def start(code):
        started.append(Program(code, router))
        return started[-1]

    yield start
    for process in started:
        with process:
            process.kill()
