#!/usr/bin/env python3
"""Measure zwire against its peers and print one table.

Each row is a ratio of two sides measured in this run, in turns. README.md beside this file says how,
and how far the numbers can be trusted. The exit code is 0 if all ran and nothing was lost, whatever the
ratios.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from python.against import compare
from python.children import machine
from python.plan import KIB, MIB, Plan
from python.record import PageError, read, section, write
from python.rows import Row, table

AREAS = [
    "codec",
    "pubsub",
    "aio",
    "roundtrip",
    "shm",
    "links",
    "fan",
    "zmtp",
    "hub",
    "chain",
    "zre",
    "bridge",
    "decode",
    "ros2",
    "ros2_images",
    "spool",
    "spool_range",
    "http_server",
    "spool_tier",
    "storage",
    "mqtt",
    "sink",
    "spool_plan",
    "spark",
]
# Areas that take minutes: only with --long, or if --only selects them.
LONG_AREAS = ["latency", "steady"]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--smoke", action="store_true", help="seconds instead of minutes: does it run, is nothing lost"
    )
    parser.add_argument(
        "--only", metavar="PATTERN", help="rows with matching area and name, such as 'pubsub 8 B'"
    )
    parser.add_argument("--long", action="store_true", help="what takes minutes, and nothing else")
    parser.add_argument("--link", metavar="KINDS", help="kinds in the area links, such as 'udp,quic'")
    parser.add_argument("--seconds", type=float, help="length of one trial (default 0.5)")
    parser.add_argument("--rounds", type=int, help="trials per side (default 5)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write everything measured to FILE")
    parser.add_argument(
        "--record",
        metavar="PAGE",
        type=Path,
        help="write the rows into the table of a page of the documentation",
    )
    parser.add_argument(
        "--against",
        metavar="DIR",
        type=Path,
        help="compare with another checkout, in which `make dev` has run; --only names the areas",
    )
    parser.add_argument("--passes", type=int, default=8, help="turns of each checkout (default 8)")
    args = parser.parse_args()
    if args.against:
        if args.smoke or args.long or args.link or args.json or args.record:
            parser.error("--against takes --only, --passes, --rounds and --seconds, and no other option")
        areas = [area for area in AREAS if not args.only or re.search(args.only, area)]
        given = {"--seconds": args.seconds, "--rounds": args.rounds or 1}
        options = [text for name, value in given.items() if value for text in (name, str(value))]
        text, passed = compare(args.against.resolve(), areas, args.passes, options)
        print(f"\n{text}\n\nload {os.getloadavg()[0]:.1f} after")
        return 0 if passed else 1

    if args.record:
        if args.smoke:
            parser.error("--smoke measures nothing that --record could keep")
        try:
            read(args.record.read_text(encoding="utf-8"))
        except (OSError, PageError) as error:
            parser.error(f"--record {args.record}: {error}")

    plan = Plan(smoke=args.smoke, only=re.compile(args.only) if args.only else None)
    if plan.smoke:
        plan.seconds, plan.rounds, plan.sizes = 0.1, 1, [8, KIB, MIB]
    plan.links = args.link.split(",") if args.link else None
    plan.seconds, plan.rounds = args.seconds or plan.seconds, args.rounds or plan.rounds

    about = machine() | {p: _version(p) for p in ("zwire", "eclipse-zenoh", "pyzmq", "pyarrow", "pyspark")}
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print(
        f"{plan.rounds} rounds of {plan.seconds:g} s per side, load {os.getloadavg()[0]:.1f} before",
        flush=True,
    )
    began = time.monotonic()
    rows: list[Row] = []
    areas = LONG_AREAS if args.long else [*AREAS, *(LONG_AREAS if args.only else [])]
    for area in areas:
        try:
            for row in importlib.import_module(f"python.{area}").measure(plan):
                rows.append(row)  # noqa: PERF402 what was measured before a failure stays
        except Exception as error:  # noqa: BLE001 the other areas still count, and the exit code tells
            traceback.print_exc()
            rows.append(Row(area, "-", "", "", failed=str(error).strip().splitlines()[-1]))
    taken, load = time.monotonic() - began, os.getloadavg()[0]
    print(f"\n{table(rows, judged=not plan.smoke)}\n\n{taken:.0f} s, load {load:.1f} after")
    if args.json:
        about |= {"seconds": plan.seconds, "rounds": plan.rounds, "load": load, "smoke": plan.smoke}
        out = {"about": about, "rows": [row.as_json(judged=not plan.smoke) for row in rows]}
        args.json.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if args.record:
        new = section(rows, about, time.strftime("%Y-%m-%d", time.gmtime()), plan.rounds, plan.seconds)
        if new.rows:
            page = args.record.read_text(encoding="utf-8")
            args.record.write_text(write(page, new), encoding="utf-8")
            print(f"{len(new.rows)} rows recorded in {args.record}")
    if not rows:
        print(f"nothing matches {args.only!r}", file=sys.stderr)
    return 1 if not rows or any(row.failed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
