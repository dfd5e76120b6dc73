"""Runs on this machine alone, with a hub of its own.

Several processes publish positions, battery and images of robots. A spooler uploads them to a tier and is
killed, and its folder deleted. A PySpark job reads the tier, decodes the hub's capture of this traffic,
queries the robots, and publishes its results; a subscriber prints them. The hub stores the latest values on
the disk; it is killed and started again, and prints the values that it has. If the counts of all stations
differ at the end, or a value is missing after the kill, the exit code is 1.

Leaves hub.pcap, store, tier, fleet.png, counts.json and spark.log in a folder. Needs zwire[spark,plot] and a
JDK.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from zwire.cli import _options

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  zwire demo
      about a minute
  zwire demo --processes 8 --robots 20 --seconds 20 --out big
      more of everything
  zwire decode demo-out/hub.pcap
      what crossed the wire, afterwards
  zwire spool stat demo-out/tier
      what the lost host has left
"""

_NEEDS = {"pyspark": "spark", "pyarrow": "spark", "pandas": "spark", "matplotlib": "plot"}
"""Packages, and the extra that brings each."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("demo-out"),
        help="folder for what it leaves (default: demo-out)",
    )
    _options.add_count(parser, "--processes", default=4, help="processes of the fleet (default: 4)")
    _options.add_count(parser, "--robots", default=6, help="robots in each process (default: 6)")
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=_options.seconds,
        default=5.0,
        help="how long the fleet publishes (default: 5)",
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=_options.seconds,
        default=300.0,
        help="give up after that time (default: 300)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo."""
    missing = [package for package in _NEEDS if importlib.util.find_spec(package) is None]
    if missing:
        extras = ",".join(sorted({_NEEDS[package] for package in missing}))
        return _options.refuse("demo", f"needs {', '.join(missing)}: pip install 'zwire[{extras}]'", 1)
    if not _java():
        return _options.refuse("demo", "needs a JDK 17 or newer for Spark: install one, or set JAVA_HOME", 1)
    if args.seconds <= 0 or args.timeout <= 0:
        return _options.refuse("demo", "--seconds and --timeout must be positive", 2)
    from zwire.demo import road

    options = road.Options(args.out, args.processes, args.robots, args.seconds, args.timeout)
    with _options.stop_signals():
        return road.run(options)


def _java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return os.access(Path(home, "bin", "java"), os.X_OK) if home else shutil.which("java") is not None
