"""Lists actions, and sends goals. Exit code 1: the goal was rejected or did not succeed; 3: no server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zwire.cli import _options, _ros2
from zwire.errors import TimedOut
from zwire.ros2 import EntityKind, GoalStatus

if TYPE_CHECKING:
    import argparse

    from zwire import ros2

EPILOG = """\
examples:
  zwire ros2 action list --show-types
  zwire ros2 action info /fibonacci
  zwire ros2 action send_goal /fibonacci example_interfaces/action/Fibonacci '{order: 5}' --feedback
"""

_VERBS = {
    "list": "names",
    "info": "servers and clients of NAME",
    "send_goal": "send a goal of TYPE with VALUES, and print its result",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _ros2.add_verb(parser, _VERBS, "name", "type", "values")
    parser.add_argument("--show-types", "-t", action="store_true", help="list: types, too")
    parser.add_argument("--feedback", "-f", action="store_true", help="send_goal: print feedback, too")
    _options.add_seconds(parser, "--timeout", help="send_goal: for each step (default: 5 to find a server)")
    _options.add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    if args.verb != "list":
        _ros2.need(args, "name")
    with _options.stop_signals(), _ros2.node(args) as node:
        try:
            return int(_RUN[args.verb](args, node))
        except (TimedOut, _ros2.NotThereError) as error:
            return _options.refuse("ros2 action", str(error), 3)


def _list(args: argparse.Namespace, node: ros2.Node) -> int:
    _ros2.listing(node.graph.actions(), args)
    return 0


def _info(args: argparse.Namespace, node: ros2.Node) -> int:
    name = node.resolve_topic_name(args.name)
    found = node.graph.endpoints(f"{name}/_action/send_goal", EntityKind.SERVICE, EntityKind.CLIENT)
    if not found:
        raise _ros2.NotThereError(f"action {name} is not there")
    for entity in sorted(found, key=lambda e: (e.kind.value, e.node_name)):
        kind = "server" if entity.kind is EntityKind.SERVICE else "client"
        row = {"kind": kind, "node": entity.node_name, "type": entity.type.removesuffix("_SendGoal")}
        _options.show(json.dumps(row) if args.format == "jsonl" else " ".join(row.values()))
    return 0


def _send_goal(args: argparse.Namespace, node: ros2.Node) -> int:
    name = node.resolve_topic_name(args.name)
    client = node.create_action_client(args.type or _ros2.action_type(node, name), name)
    goal = _ros2.filled(client.type.goal, args.values)
    if not client.wait_for_server(5.0 if args.timeout is None else args.timeout):
        raise _ros2.NotThereError(f"action {name} has no server")

    def feedback(message: Any) -> None:  # noqa: ANN401 - a message of the type
        _ros2.show(message, args.format)

    handle = client.send_goal_async(goal, feedback if args.feedback else None, args.timeout).result()
    if not handle.accepted:
        return _options.refuse("ros2 action", "the server rejected the goal", 1)
    response = handle.get_result(args.timeout)
    _ros2.show(response.result, args.format, whole=True)
    status = GoalStatus(int(response.status))
    if status is not GoalStatus.SUCCEEDED:
        return _options.refuse("ros2 action", f"the goal ended as {status.name.lower()}", 1)
    return 0


_RUN = {"list": _list, "info": _info, "send_goal": _send_goal}
