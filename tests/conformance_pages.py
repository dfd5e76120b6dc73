"""Judge zwire and its peers by the conformance suite, and write the pages in `docs/conformance`.

``make conformance`` installs each release of eclipse-zenoh of the 1.x line into `.tools/conformance`, starts
a node of each implementation in a process of its own, and judges one after another. ``--only PROTOCOL``
judges one protocol; its page alone is written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interop.compatibility import table
from nodes import free_port
from zwire import __version__, conformance
from zwire.conformance._run import judge
from zwire.conformance.zre import BOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "conformance"
INSTALLED = ROOT / ".tools" / "conformance"
SECONDS = 600
"""Longest time of an installation."""
MARKS = {"failed": "?", "deviates": "**-**", "conforms": "+"}
KNOWN = {
    "zenoh-wire-9.2/no-close": "CLOSE INVALID comes first, so that the other side can log a reason",
    "zenoh-behaviour-2.3/second-link-differs": "MAX_LINKS for each second link, whatever its parameters",
    "zenoh-behaviour-2.5/express-of-reply": "a RESPONSE keeps the QoS that its sender gave it",
    "zenoh-behaviour-4.3/keyexprs-have-no-interest": "answers to interests have whole keys",
    "zenoh-behaviour-4.4/token-interest-is-passed-on": "a peer answers from what peers have declared",
    "zenoh-behaviour-5.3/peer-to-peer": "a router forwards between its peers",
    "zenoh-behaviour-5.5/peer-asks-peer": "a router forwards between its peers",
    "zenoh-wire-4.4/budget-without-effect": "the budget of a REQUEST bounds its replies",
    "zre-11.8/goodbye": "GOODBYE ends a session in every mode",
    "zre-11.2/hello-number": "a HELLO begins a session, whatever its number",
    "zre-11.3/gap-alone": "before generation 36 a peer that has missed a message is told only by a "
    "new start, which all peers notice (`zre` 15.5)",
    "zre-21.1/truncated-header": "the same new start",
}
"""Rules that zwire does not keep, and what it does instead."""
TITLES = {"zenoh": "Zenoh", "zmtp": "ZMTP", "zre": "ZRE"}


@dataclass(frozen=True)
class Judged:
    """Implementation in one release and one role, with its report."""

    implementation: str
    release: str
    role: str
    report: conformance.Report

    @property
    def column(self) -> str:
        """Heading of its column: all roles of an implementation share one, and all releases of a line."""
        if self.implementation == "zwire":
            return "zwire"
        return f"{self.implementation} {'.'.join(self.release.split('.')[:2])}"


# ---- Zenoh ----

SERVE = """
import json, sys
module = __import__(sys.argv[1], fromlist=["open"])
config = module.Config()
for path, value in json.loads(sys.argv[2]).items():
    config.insert_json5(path, json.dumps(value))
session = module.open(config)
print("open", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def zenoh_node(module: str, role: str, folder: Path | None = None) -> Iterator[str]:
    """Endpoint of a node in a process of its own; ``folder`` has the release of the module."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    settings = {"mode": role, "listen/endpoints": [endpoint], "scouting/multicast/enabled": False}
    settings |= {"adminspace/enabled": True}
    environment = {**os.environ, **({} if folder is None else {"PYTHONPATH": str(folder)})}
    node = subprocess.Popen(
        [sys.executable, "-c", SERVE, module, json.dumps(settings)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert node.stdout is not None
    assert node.stderr is not None
    timer = threading.Timer(30, node.kill)
    timer.start()
    try:
        if node.stdout.readline() != "open\n":
            raise RuntimeError(f"{module} {role} does not open: {node.stderr.read()[-400:]}")
        timer.cancel()
        yield endpoint
    finally:
        timer.cancel()
        node.kill()
        node.communicate()


def releases() -> list[str]:
    """Releases of eclipse-zenoh in the package index, from 1.0.0 on, oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "eclipse-zenoh"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout
    found = re.search(r"Available versions: (.*)", listed)
    assert found, f"pip lists no releases of eclipse-zenoh: {listed!r}"
    versions = [release for release in found[1].split(", ") if not release.startswith("0.")]
    return sorted(versions, key=lambda release: [int(part) for part in release.split(".")])


def installed(release: str) -> Path | None:
    """Folder with a release of eclipse-zenoh, installed when first asked for; None without a wheel."""
    folder = INSTALLED / f"eclipse-zenoh-{release}"
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.partial")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command += ["--target", str(partial), f"eclipse-zenoh=={release}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if "No matching distribution found" in done.stderr:
            return None
        done.check_returncode()
        partial.rename(folder)
    return folder


def judge_zenoh() -> Iterator[Judged]:
    """Judge zwire and each release of eclipse-zenoh, as router and, zwire and the newest one, as peer."""
    listed = releases()
    for role in ("router", "peer"):
        with zenoh_node("zwire.zenoh", role) as endpoint:
            yield Judged("zwire", __version__, role, conformance.run(endpoint))
    for release in listed:
        folder = installed(release)
        if folder is None:
            print(f"eclipse-zenoh {release} has no wheel for this platform and is not judged")
            continue
        for role in ("router", "peer") if release == listed[-1] else ("router",):
            with zenoh_node("zenoh", role, folder) as endpoint:
                yield Judged("eclipse-zenoh", release, role, conformance.run(endpoint))


# ---- ZMTP and ZRE ----


def judge_zmtp() -> Iterator[Judged]:
    """Judge each type of socket of zwire and libzmq, and a ROUTER with each mechanism."""
    import zmq

    import conformance_zmtp_peers as peers

    for of, kinds, release in (
        ("zwire", peers.ZWIRE, __version__),
        ("libzmq", peers.LIBZMQ, zmq.zmq_version()),
    ):
        for kind, mechanism in [
            *((kind, "NULL") for kind in kinds),
            ("ROUTER", "PLAIN"),
            ("ROUTER", "CURVE"),
        ]:
            with peers.target(of, kind, mechanism) as (endpoint, options):
                report = conformance.run(endpoint, protocol="zmtp", **options)
            yield Judged(of, release, kind if mechanism == "NULL" else f"{kind} {mechanism}", report)


def judge_zre() -> Iterator[Judged]:
    """Judge each node of ZRE that can be started here, in network namespaces."""
    from zre.peers import targets

    for name, release, generation, target in targets():
        with target:
            yield Judged(name, release, f"generation {generation}", judge(BOOK, target))


JUDGES: dict[str, Callable[[], Iterator[Judged]]] = {
    "zenoh": judge_zenoh,
    "zmtp": judge_zmtp,
    "zre": judge_zre,
}


# ---- Pages ----

HEAD = """\
# Conformance of {title} nodes

{rules} rules, judged from outside by raw bytes. {hidden} further rules that no test from outside reaches are
listed at the end. [The overview](index.md) says how to judge a node of your own. `make conformance` writes
this page.

## Nodes
"""

RULES = """\
## Rules

`+`: kept, **-**: broken by any node of the column, empty: not applicable. A column has the newest release of
its line.
"""


def linked(rule: conformance.Rule) -> str:
    """Id of a rule, with a link to its section."""
    document = re.sub(r"-[0-9A-C][0-9.]*$", "", rule.section)
    return f"[{rule.id}](../protocol/{document}.md#{rule.section})"


def columns(judged: list[Judged]) -> dict[str, list[Judged]]:
    """All roles in the newest release of each column, by its heading."""
    found: dict[str, list[Judged]] = {}
    for one in judged:
        others = found.setdefault(one.column, [])
        if others and others[0].release != one.release:
            others.clear()
        others.append(one)
    return found


def mark(nodes: list[Judged], at: int) -> str:
    """Cell of a rule: broken by any node, kept by any, or neither."""
    outcomes = {one.report.verdicts[at].outcome for one in nodes}
    return next((sign for outcome, sign in MARKS.items() if outcome in outcomes), "")


def counts(judged: list[Judged]) -> str:
    """Table with one row for each node that was judged."""
    rows = []
    for one in judged:
        broken = [str(len(one.report.of("deviates", level=level))) for level in conformance.Level]
        rest = [str(len(one.report.of(outcome))) for outcome in ("conforms", "not applicable")]
        rows.append([one.implementation, one.release, one.role, rest[0], *broken, rest[1]])
    head = [
        "Implementation",
        "Release",
        "Role",
        "Kept",
        "Broken MUST",
        "SHOULD",
        "observed",
        "Not applicable",
    ]
    return table(head, *rows)


def deviations(shown: dict[str, list[Judged]]) -> str:
    """Table of the rules that a column breaks, with what was seen."""
    rows = []
    nodes = [(heading, one) for heading, ones in shown.items() for one in ones]
    for at, verdict in enumerate(nodes[0][1].report.verdicts):
        seen: dict[str, dict[str, list[str]]] = {}
        for heading, one in nodes:
            found = one.report.verdicts[at]
            if found.outcome in {"deviates", "failed"}:
                seen.setdefault(told(found.detail), {}).setdefault(heading, []).append(one.role)
        rows += [
            [linked(verdict.rule), verdict.rule.level.value, named(by), detail, reason(verdict.rule, by)]
            for detail, by in seen.items()
        ]
    return table(["Rule", "Level", "Node", "Seen", "Reason of zwire"], *rows) if rows else "None.\n"


def reason(rule: conformance.Rule, by: dict[str, list[str]]) -> str:
    """Reason why zwire differs, if it does."""
    return KNOWN.get(rule.id, "**a defect**") if "zwire" in by else ""


def named(by: dict[str, list[str]]) -> str:
    """Columns and the roles in them."""
    return "; ".join(f"{heading} ({', '.join(roles)})" for heading, roles in by.items())


def told(detail: str) -> str:
    """Text of what was seen for a cell, without values that differ in each run."""
    text = re.sub(r"conformance/\d+-[0-9a-f]{8}/\d+", "KEY", detail)
    text = re.sub(r"\b[0-9a-f]{24,}\b", "…", text)
    return f"`` {text.replace(chr(10), ' ').replace('``', '')[:200]} ``"


def page(protocol: str, judged: list[Judged]) -> str:
    """Page of a protocol: counts, deviations, and all rules."""
    shown = columns(judged)
    rules = [verdict.rule for verdict in judged[0].report.verdicts]
    rows = [
        [
            linked(rule),
            rule.level.value if rule.seen is None else f"{rule.level.value}: {rule.seen}",
            rule.sentence,
            *(mark(nodes, at) for nodes in shown.values()),
        ]
        for at, rule in enumerate(rules)
        if rule.unreachable is None
    ]
    hidden = [
        [linked(rule), rule.level.value, rule.sentence, rule.unreachable]
        for rule in rules
        if rule.unreachable
    ]
    parts = [
        HEAD.format(title=TITLES[protocol], rules=len(rows), hidden=len(hidden)),
        counts(judged),
        "## Deviations\n",
        deviations(shown),
        RULES,
        table(["Rule", "Level", "Sentence", *shown], *rows),
    ]
    if hidden:
        head = ["Rule", "Level", "Sentence", "Reason"]
        parts += [
            "## Rules that no test reaches\n",
            table(head, *([str(cell) for cell in row] for row in hidden)),
        ]
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=sorted(JUDGES), help="one protocol")
    args = parser.parse_args()
    failed = False
    for protocol, judge_all in JUDGES.items():
        if args.only not in {None, protocol}:
            continue
        judged = []
        for one in judge_all():
            judged.append(one)
            print(f"{one.implementation} {one.release} {one.report.summary()}", flush=True)
            broken = {verdict.rule.id for verdict in one.report.of("deviates", "failed")}
            failed |= one.implementation == "zwire" and not broken <= KNOWN.keys()
        (PAGES / f"{protocol}.md").write_text(page(protocol, judged))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
