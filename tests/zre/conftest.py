"""Fixtures of the tests on networks of our own."""

import contextlib

import pytest

from zre import network
from zre.peers import Party


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "zre":
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def namespaces():
    """Skips where there can be no network of our own, and says why."""
    reason = network.missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def networks(namespaces):
    """Makes networks that end after the test: ``networks()`` or ``networks({"loss": 0.05})``."""
    with contextlib.ExitStack() as stack:

        def make(spoil=None):
            made = network.Network(spoil)
            stack.callback(made.end)
            return made

        yield make


@pytest.fixture
def parties(networks):
    """Makes parties of peers, each on a network of its own; a peer that failed fails the test."""
    made = []

    def make(spoil=None):
        made.append(Party(networks(spoil)))
        return made[-1]

    yield make
    for party in made:
        party.end()


@pytest.fixture
def party(parties):
    return parties()
