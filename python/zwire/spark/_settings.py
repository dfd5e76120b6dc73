"""The configuration of a session as one text: picklable, comparable, the same everywhere."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from zwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zwire.config import SessionConfig
    from zwire.zenoh import Config

    IntoConfig: TypeAlias = str | Config | SessionConfig | Mapping[str, Any]


def settings(config: IntoConfig) -> str:
    """Return a configuration as canonical JSON.

    A text that starts with ``{`` is JSON5, any other one an endpoint. A session of a Spark task is a client
    unless it is configured as a router: hundreds of workers that listen and search for each other only add
    load.
    """
    from zwire.zenoh import Config

    if isinstance(config, str):
        if config.lstrip().startswith("{"):
            made = Config.from_json5(config)
        else:
            made = Config({"connect/endpoints": [config]})
    else:
        made = Config(config)
    if json.loads(made.get_json("mode")) != "router":
        made.insert_json5("mode", '"client"')
    if json.loads(made.get_json("zwire/tap")) is not None:
        raise ConfigError(
            "zwire/tap: workers cannot share one file; give the tap to the hub instead", path="zwire/tap"
        )
    return str(made)


@functools.lru_cache(maxsize=64)
def value(text: str, path: str) -> Any:  # noqa: ANN401 - whatever the key holds
    """Return the value of a key of a canonical configuration."""
    from zwire.zenoh import Config

    return json.loads(Config.from_json5(text).get_json(path))
