"""Configurations: texts, trees and typed."""

from pathlib import Path
from typing import assert_type

from zwire.config import Credentials, SessionConfig, SharedMemory, Timeouts
from zwire.zenoh import Config, open


def typed() -> None:
    config = SessionConfig(
        mode="client",
        connect="tcp/127.0.0.1:7447",
        timeouts=Timeouts(lease_ms=5000),
        credentials=Credentials(),
        shared_memory=SharedMemory(pool_size=1 << 20, messages=["put"]),
    )
    open(config)
    assert_type(Config(config), Config)
    SessionConfig(mode="hub")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    SessionConfig(endpoint="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    SessionConfig("client")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    config.mode = "peer"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def trees() -> None:
    config = Config({"mode": "client", "connect": {"endpoints": ["tcp/127.0.0.1:7447"]}})
    assert_type(config.get_json("mode"), str)
    assert_type(config.ignored(), list[str])
    assert_type(Config.from_file(Path("x.json5")), Config)
    assert_type(Config.from_env(), Config)
    config.insert_json5("mode", '"peer"')
    print({config: 1})
    Config(["mode"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
