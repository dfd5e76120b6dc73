"""Parts shared by the subcommands of ``zwire ros2``: options, the node that they use, and values."""

from __future__ import annotations

import contextlib
import json
import os
import time
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zwire import ros2
from zwire._lazy import library
from zwire.cli import _options
from zwire.errors import ConfigError, InvalidValue
from zwire.ros2._plain import fill, plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from zwire import zenoh

SHOWN: Final = 128
"""Items of an array and characters of a text that are printed, as `ros2 topic echo` does."""

SETTLE: Final = 2.0
"""Seconds for the answers about the graph."""


def add_ros(parser: argparse.ArgumentParser) -> None:
    """Add the options of a node."""
    group = parser.add_argument_group("ROS")
    group.add_argument("--domain", metavar="N", help="domain, 0 to 232 (default: ROS_DOMAIN_ID, or 0)")
    _options.add_several(
        group, "--types", metavar="DIR", type=Path, help="folder with .msg, .srv and .action files"
    )
    _options.add_seconds(
        group, "--spin-time", default=0.0, help="wait so long for nodes that appear (default: 0)"
    )
    _options.add_network(parser)


def add_verb(parser: argparse.ArgumentParser, verbs: dict[str, str], *words: str) -> None:
    """Add the word that says what to do, and the words behind it."""
    listed = ", ".join(f"{name}: {text}" for name, text in verbs.items())
    parser.add_argument("verb", choices=list(verbs), metavar="VERB", help=listed)
    for word in words:
        parser.add_argument(word, nargs="?", metavar=word.upper())


def need(args: argparse.Namespace, *words: str) -> None:
    """Check that words are given.

    Raises:
        ConfigError: One is missing.
    """
    for word in words:
        if getattr(args, word) is None:
            raise ConfigError(f"{args.verb}: {word.upper()} is missing", path=word)


@contextlib.contextmanager
def node(args: argparse.Namespace) -> Iterator[ros2.Node]:
    """Open a node that knows the graph.

    Raises:
        ConfigError: An option is wrong.
    """
    store = ros2.TypeStore()
    for folder in args.types:
        store.add_folder(folder)
    if args.domain is not None and not str(args.domain).isdecimal():
        raise ConfigError(f"--domain {args.domain}: expected a number", path="--domain")
    with ros2.Node(
        f"zwire_cli_{os.getpid()}",
        config=_config(args),
        domain_id=None if args.domain is None else int(args.domain),
        store=store,
        start_parameter_services=False,
    ) as opened:
        time.sleep(args.spin_time)
        opened.graph.settle(SETTLE)
        yield opened


def _config(args: argparse.Namespace) -> zenoh.Config:
    given = (args.connect, args.listen, args.mode, args.config, args.cfg, args.tap)
    if not any(given):
        return ros2.session_config()
    config = _options.session_config(args)
    config.insert_json5("timestamping/enabled", "true")
    return config


def topic_type(found: ros2.Node, name: str) -> str:
    """Return the type of a topic.

    Raises:
        ConfigError: No endpoint of it is there, or it has several types.
    """
    return _only(name, "topic", found.graph.topics())


def service_type(found: ros2.Node, name: str) -> str:
    """Return the type of a service, with the errors of :func:`topic_type`."""
    return _only(name, "service", found.graph.services())


def action_type(found: ros2.Node, name: str) -> str:
    """Return the type of an action, with the errors of :func:`topic_type`."""
    return _only(name, "action", found.graph.actions())


def _only(name: str, what: str, known: dict[str, list[str]]) -> str:
    types = known.get(name, [])
    if len(types) == 1:
        return types[0]
    if types:
        raise ConfigError(f"{what} {name} has the types {', '.join(types)}: name one", path="type")
    raise NotThereError(f"{what} {name} is not there; its type, if given, lets the command wait for it")


class NotThereError(Exception):
    """A node, topic, service or action is missing: exit code 3."""


def values(text: str | None) -> dict[str, Any]:
    """Read fields of a message as YAML.

    Raises:
        ConfigError: The text is none.
    """
    if not text:
        return {}
    yaml = library("ruamel.yaml", "ros2")
    try:
        found = yaml.YAML(typ="safe", pure=True).load(text)
    except yaml.error.YAMLError as error:
        raise ConfigError(f"values: no YAML: {' '.join(str(error).split())}", path="values") from None
    if not isinstance(found, dict):
        raise ConfigError(f"values: expected fields, such as '{{data: hello}}', not {text!r}", path="values")
    return found


def filled(type_: ros2.MessageType[Any], text: str | None) -> Any:  # noqa: ANN401 - a message of the type
    """Return a message with the fields of a YAML text.

    Raises:
        ConfigError: The text is no YAML, or a field is unknown.
    """
    try:
        message = fill(type_.cls(), values(text))
        type_.encode(message)
    except InvalidValue as error:
        raise ConfigError(f"values: {error}", path="values") from None
    return message


def show(message: ros2.Message, form: str, *, whole: bool = False) -> None:
    """Print a message as YAML, or as a line of JSON."""
    if form == "jsonl":
        _options.show(json.dumps(plain(message), ensure_ascii=False))
        return
    _options.show(*as_yaml(plain(message, None if whole else SHOWN)).splitlines())


def as_yaml(value: dict[str, Any]) -> str:
    """Return plain values as YAML."""
    yaml = library("ruamel.yaml", "ros2").YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False
    out = StringIO()
    yaml.dump(value, out)
    return out.getvalue()


def listing(rows: dict[str, list[str]], args: argparse.Namespace) -> None:
    """Print names, with their types if wanted."""
    for name, types in rows.items():
        if args.format == "jsonl":
            _options.show(json.dumps({"name": name, "types": types}))
        else:
            _options.show(f"{name} [{', '.join(types)}]" if args.show_types else name)


def is_hidden(name: str) -> bool:
    """Return whether a name is left out of lists: one of its words begins with an underscore."""
    return any(word.startswith("_") for word in name.split("/"))
