"""The reconnect matrix with the lease and the pauses of the default; `make stress` runs it."""

import concurrent.futures

import pytest

from network.namespaces import missing
from network.reconnect import DEFAULT, FAULTS, GRACE, SYSTEMS, run

# They wait for a lease, or for the end of the hole; all of them together.
AT_ONCE = 24


@pytest.fixture(scope="module")
def outcomes(request):
    """The outcome of each chosen case; they run side by side, and the longest begin first."""
    if reason := missing():
        pytest.skip(reason)
    chosen = [
        (item.callspec.params["system"], item.callspec.params["fault"])
        for item in request.session.items
        if item.module is request.module and hasattr(item, "callspec")
    ]
    chosen.sort(key=lambda case: FAULTS.index(case[1]), reverse=True)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case: pool.submit(run, *case, DEFAULT) for case in chosen}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.name)
def test_everything_is_as_before(outcomes, figures, system, fault):
    outcome = outcomes[system, fault].result(timeout=590)
    figures.add(
        f"{system.name}: {fault.name}",
        f"messages after {max(outcome.back):.1f} s, all declared after {outcome.whole:.1f} s",
        f"{DEFAULT.lease + GRACE:g} s",
    )
