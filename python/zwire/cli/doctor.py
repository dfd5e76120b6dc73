"""Run it where a program gets nothing, with the configuration of that program.

Each check says what it saw, what that means and what to do: interfaces, routes, names, ports, firewalls,
protocol and version of the node, certificates, users, multicast, whether the node forwards, access rules,
clocks, key expressions that do not intersect, and losses. With ENDPOINT it looks at the way there; without,
at what the configuration names, or at nodes that are found by multicast. --key looks at one key; --write
publishes a value of 8 bytes on it. Otherwise nothing is published that another program receives.

The exit code is 1 if there is a fault, 3 if there is a warning, else 0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zwire.cli import _admin, _options
from zwire.cli._doctor import host, keys, multicast, reach, session
from zwire.cli._doctor.findings import Finding, exit_code, show, worst
from zwire.cli._doctor.multicast import value

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from zwire import zenoh

EPILOG = """\
examples:
  zwire doctor tcp/192.168.1.5:7447
      the way to a router
  zwire doctor -c robot.json5 --key 'fleet/7/pose' --write
      as the program with this configuration, which publishes there
  zwire doctor --zre
      what multicast finds, and what the doctor of ZRE says
  zwire doctor --json | jq -r '.findings[] | select(.level == "fault") | .do'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "endpoint", nargs="?", help="endpoint of the other node, such as tcp/192.168.1.5:7447"
    )
    parser.add_argument("--key", type=_options.key, help="also look whether this key comes through")
    parser.add_argument("--write", action="store_true", help="publish a value on the key of --key")
    parser.add_argument("--zre", action="store_true", help="run a ZRE node as well, and say what it hears")
    _options.add_seconds(parser, "--wait", default=2.0, help="for each answer of a node (default: 2)")
    _options.add_json(parser)
    _options.add_network(parser)


def run(args: argparse.Namespace) -> int:
    """Check, and print each finding as it comes."""
    if args.write and (args.key is None or "*" in args.key):
        return _options.refuse("doctor", "--write needs --key with a key without wildcards", 2)
    if args.endpoint is not None:
        args.connect = [args.endpoint]
    # Without an endpoint it looks for nodes, and not for a router on this machine.
    config = _options.session_config(args, default=False)
    findings: list[Finding] = []
    with _options.stop_signals():
        for finding in _checks(args, config):
            findings.append(finding)
            if args.format == "text":
                show(finding)
    if args.format == "json":
        report = {"worst": worst(findings), "findings": [finding.fields() for finding in findings]}
        _options.show(*json.dumps(report, indent=2).split("\n"))
    return exit_code(findings)


def _checks(args: argparse.Namespace, config: zenoh.Config) -> Iterator[Finding]:
    known = host.interfaces()
    endpoints = _endpoints(config)
    # The loopback is always up.
    local = bool(endpoints) and all(_is_local(each) for each in endpoints)
    yield from host.check_interfaces(known, needed=not local)
    yield from _configured(config)
    reachable: list[str] = []
    for text in endpoints:
        good = True
        for finding in _way(text, config, args.wait):
            good = good and finding.level != "fault"
            yield finding
        if good:
            reachable.append(text)
    yield from multicast.check(config, known, args.wait, needed=not endpoints)
    if reachable or not endpoints:
        yield from _with_session(args, config, reachable[0] if reachable else None)
    if args.zre:
        from zwire.cli import _zre

        yield from _zre.diagnosed(args.wait)


def _endpoints(config: zenoh.Config) -> list[str]:
    found = value(config, "connect/endpoints")
    if isinstance(found, dict):
        found = found.get(str(value(config, "mode"))) or []
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _is_local(text: str) -> bool:
    endpoint = reach.Endpoint.of(text)
    return endpoint is not None and (
        endpoint.name in {"localhost", "::1"} or endpoint.name.startswith("127.")
    )


def _configured(config: zenoh.Config) -> Iterator[Finding]:
    """Report keys of the configuration that keep others away, or do nothing."""
    if ignored := config.ignored():
        means = "zwire knows these keys and does not act on them"
        yield Finding("config-ignored", "note", ", ".join(ignored), means)
    if namespace := value(config, "namespace"):
        yield Finding(
            "namespace",
            "note",
            f"namespace: {namespace}",
            f"each key of this session begins with {namespace}/ for other nodes",
            "other sessions need the same namespace, or the prefix in their keys",
        )
    listening = value(config, "listen/endpoints")
    texts = [each for each in listening if isinstance(each, str)] if isinstance(listening, list) else []
    # Parameters may be secrets.
    texts = [each.partition("#")[0].partition("?")[0] for each in texts]
    local = [each for each in texts if each.partition("/")[2].startswith(("127.", "localhost:", "[::1]"))]
    if texts and len(local) == len(texts):
        yield Finding(
            "listen-local",
            "warning",
            f"listen/endpoints: {', '.join(local)}",
            "only programs of this host can connect to this node",
            "listen on 0.0.0.0, [::] or the address of an interface",
        )


def _way(text: str, config: zenoh.Config, wait: float) -> Iterator[Finding]:
    """Follow the way to an endpoint until something stops it."""
    endpoint = reach.Endpoint.of(text)
    if endpoint is None:
        return
    addresses, problem = reach.check_name(endpoint)
    if problem is not None:
        yield problem
        return
    problems = []
    for address in addresses:
        blocked = host.route_to(address, endpoint.port)
        if blocked is None and endpoint.protocol not in reach.STREAMS:
            return
        found = blocked or reach.check_port(endpoint, address, wait)
        if found.level == "fault":
            problems.append(found)
            continue
        yield found
        if endpoint.protocol == "tcp":
            greeting = reach.greeted(address, endpoint.port, wait)
            if isinstance(greeting, Finding):
                yield greeting
            elif greeting is not None:
                own = value(config, "id")
                own = own if isinstance(own, str) else None
                yield from reach.check_version(greeting, f"{address}:{endpoint.port}", own)
        return
    # One address that can be reached is enough: the others are reported if there is none.
    yield from problems


def _with_session(args: argparse.Namespace, config: zenoh.Config, endpoint: str | None) -> Iterator[Finding]:
    if endpoint is None and value(config, "scouting/multicast/enabled") is False:
        return
    own = session.prepared(config, endpoint=endpoint, wait=args.wait)
    pair = session.opened(own, args.wait)
    if isinstance(pair, Finding):
        # Without an endpoint the findings about scouting say it.
        if endpoint is not None:
            yield pair
        return
    try:
        told = _admin.roots(pair.near, args.wait, stats=True)
        yield from session.check_neighbours(pair.near, told)
        yield from session.check_forwarding(pair, own, args.wait)
        ours = {str(pair.near.zid()), str(pair.far.zid())}
        declared = _admin.declared(pair.near, args.wait) if told else []
        if args.key is not None:
            yield from session.check_key(pair, own, args.key, args.wait, write=args.write)
            if told and (found := keys.check_one(args.key, declared, ours)) is not None:
                yield found
        else:
            yield from keys.check(declared, ours)
        yield from session.check_drops(told)
    finally:
        pair.close()
