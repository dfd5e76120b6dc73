"""HTTP and pages beside clients of eclipse-zenoh at one router of ours."""

import http.client
import json
from contextlib import closing

import nodes
from interop.harness import ECLIPSE, eventually, shown
from remote_api import RemoteClient, field, u32
from zwire import http as zwire_http


def test_eclipse_zenoh_http_and_a_page_meet(net):
    with (
        nodes.router() as router,
        zwire_http.serve(router, "127.0.0.1:0") as server,
        router.declare_publisher("http/in") as publisher,
        router.declare_querier("http/q") as querier,
        RemoteClient(server.port) as page,
        closing(http.client.HTTPConnection(server.address, timeout=20)) as connection,
        closing(http.client.HTTPConnection(server.address, timeout=20)) as stream,
    ):
        peer = net.node(ECLIPSE, "client", connect=router.listening())
        peer.subscribe(name="s", key="http/in")
        script = [{"do": "reply", "key": "http/q", "payload": "full", "encoding": "text/plain"}]
        peer.queryable(name="q", key="http/q", script=script)
        eventually("the subscriber is known", lambda: publisher.matching_status.matching)
        eventually("the queryable is known", lambda: querier.matching_status.matching)

        connection.request("PUT", "/http/in", body=b"21", headers={"Content-Type": "text/plain"})
        assert connection.getresponse().read() == b""
        page.send(14, field("http/in"), field("from a page"), b"\x04\0\0", b"\0\0", b"\xa5")
        samples = peer.received(name="s", count=2, seconds=10)
        assert [(s["payload"], s["encoding"]) for s in samples] == [
            (shown(b"21"), "text/plain"),
            (shown(b"from a page"), "text/plain"),
        ]

        connection.request("GET", "/http/q")
        (entry,) = json.loads(connection.getresponse().read())
        assert (entry["key"], entry["value"], entry["encoding"]) == ("http/q", "full", "text/plain")
        page.send(18, u32(0), field("http/q"), field(""), b"\0\0\0", b"\xad", b"\x10", u32(10_000))
        reply = page.event()
        assert (reply.u32(), reply.u8(), reply.sample()["payload"]) == (0, 1, b"full")

        stream.request("GET", "/http/event", headers={"Accept": "text/event-stream"})
        events = stream.getresponse()
        peer.put(key="http/event", payload="news", encoding="text/plain")
        assert events.readline() == b"event: PUT\n"
        assert json.loads(events.readline().removeprefix(b"data: "))["value"] == "news"
