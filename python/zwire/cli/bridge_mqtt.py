"""Topics of a broker are keys: `+` is `*`, `#` is `**`. Runs until Ctrl-C or SIGTERM."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from zwire.bridge.mqtt import MqttBridge, MqttTls, MqttWill, Rule
from zwire.cli import _options, _progress, _spool
from zwire.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from zwire.zenoh import Session

EPILOG = """\
examples:
  zwire bridge mqtt mqtt://127.0.0.1:1883 'robots/#' --spool /var/spool/mqtt
      everything below robots, both ways
  zwire bridge mqtt mqtt://broker --in 'sensors/#=2' --out 'orders/#=1' --spool /var/spool/mqtt
      sensors into Zenoh with QoS 2, orders to the broker with QoS 1
  zwire bridge mqtt mqtts://broker --ca ca.pem --user plant --password-file secret 'a/#' --spool DIR
      with TLS and a password
"""

_QUALITY = re.compile(r"(.*)=([012])", re.DOTALL)

_Direction = Literal["in", "out", "both"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("broker", metavar="BROKER", help="mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS")
    parser.add_argument(
        "topic", nargs="*", metavar="TOPIC[=QOS]", help="filters that pass both ways; a QoS of their own"
    )
    parser.add_argument("--spool", type=Path, required=True, metavar="DIR", help="folder of the bridge")
    _options.add_several(parser, "--in", dest="incoming", metavar="TOPIC[=QOS]", help="from the broker alone")
    _options.add_several(parser, "--out", dest="outgoing", metavar="TOPIC[=QOS]", help="to the broker alone")
    parser.add_argument(
        "--qos", type=int, choices=[0, 1, 2], default=1, help="of filters without their own (default: 1)"
    )
    parser.add_argument("--retain", action="store_true", help="the broker retains what comes from Zenoh")
    parser.add_argument("--prefix", default="", metavar="KEY", help="key above all topics")
    parser.add_argument(
        "--client-id",
        default="zwire",
        metavar="NAME",
        help="name of the session at the broker (default: zwire)",
    )
    parser.add_argument("--mqtt", choices=["3.1.1", "5"], default="5", help="version of MQTT (default: 5)")
    parser.add_argument("--user", metavar="NAME", help="user at the broker")
    parser.add_argument("--password-file", type=Path, metavar="FILE", help="file with the password")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="authorities that certify the broker")
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="certificate of the bridge")
    parser.add_argument("--private-key", type=Path, metavar="FILE", help="its private key")
    parser.add_argument(
        "--will",
        nargs=2,
        metavar=("TOPIC", "PAYLOAD"),
        help="retained when the connection of the bridge breaks",
    )
    parser.add_argument(
        "--status-key",
        type=_options.key,
        metavar="KEY",
        help="liveliness token while the broker is connected",
    )
    parser.add_argument(
        "--max-packet",
        type=_spool.size,
        default=16 << 20,
        metavar="BYTES",
        help="largest packet (default: 16M)",
    )
    parser.add_argument(
        "--max-bytes", type=_spool.size, default=1 << 30, metavar="BYTES", help="of the spool (default: 1G)"
    )
    parser.add_argument(
        "--metrics",
        type=_spool.address,
        metavar="HOST:PORT",
        help="serve metrics for Prometheus there, at /metrics",
    )
    parser.add_argument("--durability", choices=["os", "disk"], default="os", help="default: os")
    _options.add_network(parser)


def rules(args: argparse.Namespace) -> list[Rule]:
    """Return the rules that the options describe, those with a direction first."""
    found: list[Rule] = []
    given: list[tuple[_Direction, list[str]]] = [
        ("in", args.incoming),
        ("out", args.outgoing),
        ("both", args.topic),
    ]
    for direction, topics in given:
        for text in topics:
            match = _QUALITY.fullmatch(text)
            topic, qos = match.groups() if match else (text, args.qos)
            found.append(Rule(topic, direction=direction, qos=int(qos), retain=args.retain))
    if not found:
        raise ConfigError("TOPIC: give at least one filter, such as 'robots/#'", path="TOPIC")
    return found


def run(args: argparse.Namespace) -> int:
    """Pass messages until the command is interrupted."""
    from zwire import zenoh

    tls = None
    if args.ca is not None:
        tls = MqttTls(args.ca, args.certificate, args.private_key)
    elif args.certificate is not None or args.private_key is not None:
        raise ConfigError(
            "--certificate and --private-key need --ca, the authorities of the broker", path="--ca"
        )
    password = None
    if args.password_file is not None:
        password = args.password_file.read_text(encoding="utf-8").removesuffix("\n")
    will = None if args.will is None else MqttWill(args.will[0], args.will[1], qos=1, retain=True)
    with (
        _options.running(endless=True),
        zenoh.open(_options.session_config(args)) as session,
        MqttBridge(
            session,
            args.broker,
            rules(args),
            client_id=args.client_id,
            spool=args.spool,
            prefix=args.prefix,
            version=args.mqtt,
            user=args.user,
            password=password,
            tls=tls,
            will=will,
            status_key=args.status_key,
            max_packet_bytes=args.max_packet,
            spool_bytes=args.max_bytes,
            durability=args.durability,
        ) as bridge,
    ):
        _watch(args, bridge, session)
    return 0


def _watch(args: argparse.Namespace, bridge: MqttBridge, session: Session) -> NoReturn:
    """Wait for the signal to end; show progress on a terminal, and report each change once."""
    said: str | None = None
    connected = False

    def line(_seconds: float) -> str:
        stats = bridge.stats()
        lost = stats["in_uncertain"] + stats["out_expired"] + stats["out_dropped"]
        waiting = f"{stats['out_waiting']:,} waiting, {lost:,} lost"
        return f"{stats['in_put']:,} in, {stats['out_sent']:,} out, {waiting}"

    with _spool.metrics(args.metrics, bridge, session), _progress.drawn(line):
        while True:
            stats = bridge.stats()
            if stats["connected"] and not connected:
                _options.show(f"connected with {bridge.broker} as {bridge.client_id}")
            connected = stats["connected"]
            problem = stats["problem"]
            if problem not in {None, said}:
                _options.say(f"zwire bridge mqtt: {problem}")
            said = problem
            time.sleep(_spool.LOOK)
