"""Fixtures of the tests of Zenoh on networks of our own."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "network":
            item.add_marker(pytest.mark.interop)
