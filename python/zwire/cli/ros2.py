"""Topics, nodes, services, actions, parameters and bags of ROS 2 over rmw_zenoh, without ROS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zwire.cli import _ros2

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire ros2 topic list
  zwire ros2 topic echo /chatter
  zwire ros2 service call /add example_interfaces/srv/AddTwoInts '{a: 1, b: 2}'
  zwire ros2 bag record --output run /chatter
"""

SUBCOMMANDS = {
    "topic": "list, echo, measure and publish topics",
    "node": "list nodes and what they use",
    "service": "list and call services",
    "action": "list actions, send goals",
    "param": "list, get and set parameters",
    "bag": "record, play and describe bags",
}
"""Name of each subcommand, which is also that of its module, and its purpose."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options that the subcommands share."""
    _ros2.add_ros(parser)
