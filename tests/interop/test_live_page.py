"""The live page of a network of eclipse-zenoh, in a real browser."""

import pytest

import browser as browsers
import nodes
from interop.harness import ECLIPSE, OLD, eventually
from zwire import http as zwire_http
from zwire import zenoh

PATIENCE = 20.0


@pytest.mark.parametrize("implementation", [ECLIPSE, pytest.param(OLD, marks=pytest.mark.long)])
def test_the_page_shows_a_router_of_eclipse_zenoh(net, implementation, tmp_path):
    hub = net.hub(implementation, **{"adminspace/enabled": True, "metadata": {"name": "theirs"}})
    robot = net.client(implementation, hub)
    with (
        zenoh.open(nodes.settings("client", connect=[hub.endpoint])) as session,
        zwire_http.serve(session, "127.0.0.1:0", rest=False, ui=True, read_only=True, origins=[]) as server,
        browsers.running(tmp_path) as browser,
    ):
        page = browser.open(f"{server.url}/")

        def shows(selector, part):
            eventually(f"{part} in {selector}", lambda: part in page.text(selector), within=PATIENCE)

        # The router, their client, and the page.
        shows("#graph-note", "3 nodes, 2 linked pairs")
        shows("#links-note", "do not tell rates")
        page.click("#tab-nodes")
        shows("#nodes", hub.opened["zid"])
        shows("#nodes", "theirs")
        if implementation == ECLIPSE:
            # The first release has no tokens in Python.
            robot.token(name="t", key="there/alive")
            page.click("#tab-tokens")
            shows("#tokens", "there/alive")
        shows("#state", "live")
        robot.put(key="there/speed", payload="1.5", encoding="text/plain")
        shows("#tree", "1.5")
        assert page.problems == []
        assert page.hosts == {server.address}
