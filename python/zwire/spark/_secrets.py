"""Secrets of a session's configuration: referred to in the job, read where the session is opened.

A job is copied and shown: options appear in plans, readers and writers are pickled. So a secret can be
given as ``env:NAME`` (a variable of the process that opens the session) or ``file:/path`` (a file there), and
is only inserted where the session is opened.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from zwire.errors import ConfigError

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
    """Read the secret that a reference names, in this process.

    Raises:
        ConfigError: The variable or file is missing; the message has the reference.
    """
    kind, _, where = reference.partition(":")
    if kind == "env":
        found = os.environ.get(where)
        if found is None:
            raise ConfigError(
                f"{name}: the variable {where} is not set in this process; "
                f"executors get it by spark.executorEnv.{where}",
                path=name,
            )
        return found
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
    """Refuse a configuration (canonical JSON) with a literal secret.

    Raises:
        ConfigError: There is one. The secret is not in the message.
    """
    tree = json.loads(text)
    for path in SECRETS:
        value = _at(tree, path)
        if isinstance(value, str):
            check_referred(path, value)
    for path in ("connect/endpoints", "listen/endpoints"):
        if "private_key_base64=" in json.dumps(_at(tree, path)):
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
