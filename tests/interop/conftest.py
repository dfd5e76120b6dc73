"""Fixtures of the tests against other implementations."""

import pytest

from interop.harness import Net


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "interop":
            item.add_marker(pytest.mark.interop)


@pytest.fixture
def net():
    """The nodes of one test; they are ended after it, and their end must not hang."""
    made = Net()
    yield made
    made.end()
