"""The configuration of a session as one text: picklable, comparable, the same everywhere.

A job is copied and shown: options appear in plans, readers and writers are pickled. So a secret can be
given as ``env:NAME`` (a variable of the process that opens the session) or ``file:/path`` (a file there), and
is only inserted where the session is opened.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
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

    if isinstance(config, str) and config.lstrip().startswith("{"):
        made = Config.from_json5(config)
    else:
        made = Config({"connect/endpoints": [config]} if isinstance(config, str) else config)
    if json.loads(made.get_json("mode")) != "router":
        made.insert_json5("mode", '"client"')
    if json.loads(made.get_json("zwire/tap")) is not None:
        problem = "zwire/tap: workers cannot share one file; give the tap to the hub instead"
        raise ConfigError(problem, path="zwire/tap")
    # The text of a configuration has no secrets.
    tree = json.loads(made.get_json(""))
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@functools.lru_cache(maxsize=64)
def value(text: str, path: str) -> Any:  # noqa: ANN401 - whatever the key holds
    """Return the value of a key of a canonical configuration."""
    from zwire.zenoh import Config

    return json.loads(Config.from_json5(text).get_json(path))


SECRETS = (
    "transport/auth/usrpwd/password",
    "transport/auth/pubkey/private_key_pem",
    "transport/link/tls/connect_private_key_base64",
    "transport/link/tls/listen_private_key_base64",
)
"""Keys with secret values; in an endpoint, parameters that end like the last two."""

_HOW = "give env:NAME or file:/path, which is read where it is needed"


def is_reference(value: str) -> bool:
    """Whether a text refers to a secret, rather than being it."""
    return value.startswith(("env:", "file:"))


def fetch(name: str, reference: str) -> str:
    """Read the secret that a reference names, in this process; errors have the reference."""
    kind, _, where = reference.partition(":")
    if kind == "env":
        if where not in os.environ:
            problem = f"{name}: the variable {where} is not set in this process"
            raise ConfigError(f"{problem}; executors get it by spark.executorEnv.{where}", path=name)
        return os.environ[where]
    try:
        return Path("/" + where.lstrip("/")).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"{name}: {reference}: {reason}", path=name) from None


def check_referred(name: str, value: str) -> str:
    """Return a reference unchanged; refuse a literal secret, without repeating it."""
    if not is_reference(value):
        raise ConfigError(f"{name}: a secret would be in plans and pickles; {_HOW}", path=name)
    return value


def refuse_inline(text: str) -> None:
    """Refuse a configuration (canonical JSON) with a literal secret, without repeating it."""
    from zwire.zenoh import Config

    tree, shown = json.loads(text), json.loads(str(Config.from_json5(text)))
    for path in SECRETS:
        value = _at(tree, path)
        if isinstance(value, str):
            check_referred(path, value)
    for path in ("connect/endpoints", "listen/endpoints"):
        if _at(tree, path) != _at(shown, path):
            key = f"transport/link/tls/{path.partition('/')[0]}_private_key_base64"
            raise ConfigError(f"{path}: a secret would be in plans and pickles; use {key}: {_HOW}", path=path)


def resolved(text: str) -> str:
    """Replace the references in a configuration by secrets; for the process that opens the session."""
    if '"env:' not in text and '"file:' not in text:
        return text
    tree = json.loads(text)
    for path in SECRETS:
        value = _at(tree, path)
        if isinstance(value, str) and is_reference(value):
            *branches, last = path.split("/")
            _at(tree, "/".join(branches))[last] = fetch(path, value)
    return json.dumps(tree)


def _at(tree: Any, path: str) -> Any:  # noqa: ANN401 - whatever the key holds
    for name in path.split("/"):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree
