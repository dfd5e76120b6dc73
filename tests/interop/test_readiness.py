"""Readiness beside other implementations: each kind of neighbour acknowledges declarations."""

import json

import pytest
import zenoh as theirs

from interop.harness import ECLIPSE, OLD, free_port
from nodes import opened, settings

PATIENCE = 10.0


def eclipse(mode, **endpoints):
    config = theirs.Config()
    for key, value in settings(mode, **endpoints).items():
        config.insert_json5(key, json.dumps(value))
    return theirs.open(config)


@pytest.mark.parametrize("neighbour", ["router", "peer"])
@pytest.mark.parametrize("mode", ["client", "peer"])
def test_what_is_ready_receives_the_only_publication(mode, neighbour):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with eclipse(neighbour, listen=[endpoint]) as other:
        for number in range(20):
            with opened(mode, connect=[endpoint]) as session:
                subscriber = session.declare_subscriber(f"one/{number}")
                queryable = session.declare_queryable(f"q/{number}", lambda q: q.reply(q.key_expr, "x"))
                token = session.liveliness().declare_token(f"t/{number}")
                session.flush(PATIENCE)
                for declared in (subscriber, queryable, token):
                    declared.wait_ready(PATIENCE)
                publisher = other.declare_publisher(f"one/{number}")
                publisher.put("x")
                assert subscriber.recv(timeout=PATIENCE).payload.to_bytes() == b"x"
                assert len(list(other.get(f"q/{number}", timeout=PATIENCE))) == 1
                assert len(list(other.liveliness().get(f"t/{number}", timeout=PATIENCE))) == 1
                # And the other way.
                with session.declare_publisher(f"back/{number}") as back:
                    theirs_sub = other.declare_subscriber(f"back/{number}")
                    back.wait_matching(timeout=PATIENCE)
                    back.put("y")
                    assert theirs_sub.recv().payload.to_bytes() == b"y"


@pytest.mark.parametrize("hub", [ECLIPSE, OLD])
def test_the_hub_of_others_is_ready(net, hub):
    hub = net.hub(hub)
    subscribing = opened("client", connect=[hub.endpoint])
    publishing = opened("client", connect=[hub.endpoint])
    with subscribing, publishing:
        for number in range(20):
            subscriber = subscribing.declare_subscriber(f"one/{number}")
            subscriber.wait_ready(PATIENCE)
            publishing.put(f"one/{number}", "x")
            assert subscriber.recv(timeout=PATIENCE).payload.to_bytes() == b"x"
            publisher = publishing.declare_publisher(f"one/{number}")
            publisher.wait_matching(timeout=PATIENCE)
            publisher.put("y")
            assert subscriber.recv(timeout=PATIENCE).payload.to_bytes() == b"y"
        publishing.flush(PATIENCE)
