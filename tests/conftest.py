"""Settings and fixtures common to all tests."""

import contextlib
import gc
import os
import signal

import pytest

# Sessions with the interfaces of their default configuration scout nowhere: no test reaches the network of
# the machine, and two that run at once do not find each other. Programs that tests start inherit it.
os.environ["ZWIRE_SCOUTING_INTERFACE"] = "none"

# A shell that starts the tests in the background has them ignore Ctrl-C, and each program that they start
# would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the modules of the tests out of garbage collections, each of which would go through them again."""
    # It warns of sources of random numbers that no collected object refers to. The environments of
    # `make smoke-spark` are without it.
    with contextlib.suppress(ModuleNotFoundError):
        import hypothesis  # noqa: F401

    gc.disable()
    found = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return found
