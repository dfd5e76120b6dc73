"""Fixtures of the tests on networks of our own."""

import concurrent.futures
import contextlib

import pytest

from network.namespaces import Network, missing
from zre.peers import Party

FAULTS = "test_faults.py"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "zre":
            item.add_marker(pytest.mark.interop)
    # Their cases run from the start, and take most of a minute.
    items.sort(key=lambda item: item.path.name == FAULTS)


@pytest.fixture(scope="session", autouse=True)
def outcomes(request):
    """The events of each case of the fault matrix: they run side by side, and beside the other tests.

    They mostly wait.
    """
    chosen = [
        item for item in request.session.items if item.path.name == FAULTS and hasattr(item, "callspec")
    ]
    if not chosen or missing():
        yield {}
        return
    cases = [item.callspec.params["case"] for item in chosen]
    run = chosen[0].module.run
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        yield {case.name: pool.submit(run, case) for case in cases}


@pytest.fixture(scope="session")
def namespaces():
    """Skip where no network of our own is possible, with the reason."""
    reason = missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def networks(namespaces):
    """Makes networks that end after the test: ``networks()`` or ``networks({"loss": 0.05})``."""
    with contextlib.ExitStack() as stack:

        def make(spoil=None):
            made = Network(spoil)
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
