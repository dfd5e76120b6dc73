"""The types of ``zwire.bridge.zre``."""

from typing import Any, assert_type

from zwire import zenoh, zre
from zwire.bridge import zre as bridge


def bridges(session: zenoh.Session, config: zenoh.Config) -> None:
    rules: list[str | bridge.Rule] = ["chat", bridge.Rule("robot-*", to_zre=False, rate=10)]
    with bridge.Bridge(session, rules, mode="mirror", node=zre.Config(name="b")) as running:
        assert_type(running, bridge.Bridge)
        assert_type(running.uuid, str)
        assert_type(running.stats(), dict[str, Any])
    bridge.Bridge(session, network="lab", whispers=False, node={"interfaces": "eth0"}).close(1.0)
    assert_type(bridge.configured(session, config), list[bridge.Bridge])
    assert_type(bridge.without_bridges(config), zenoh.Config)
    assert_type(bridge.uuid_of(session.zid()), str)
    bridge.Bridge(session, mode="all")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
