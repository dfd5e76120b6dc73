"""The reconnect matrix, with a short lease; `make stress` runs it with that of the default."""

import concurrent.futures

import pytest

from network.namespaces import missing
from network.reconnect import FAULTS, SHORT, SYSTEMS, run

# They mostly wait, but three processes and a network have to start for each.
AT_ONCE = 8


@pytest.fixture(scope="module")
def outcomes(request):
    """The outcome of each chosen case; they run side by side."""
    if reason := missing():
        pytest.skip(reason)
    chosen = [
        item.callspec.params
        for item in request.session.items
        if item.module is request.module and hasattr(item, "callspec")
    ]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {(c["system"], c["fault"]): pool.submit(run, c["system"], c["fault"], SHORT) for c in chosen}


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_everything_is_as_before(outcomes, system, fault):
    print(outcomes[system, fault].result(timeout=150))
