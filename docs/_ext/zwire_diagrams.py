"""Diagrams of the documentation: ``python docs/_ext/zwire_diagrams.py`` writes them to ``_static``.

Boxes and arrows have coordinates; this file has the style. Each diagram has a white ground of its own, so
that it looks the same on light and dark pages, and a description for screen readers.
"""

from __future__ import annotations

import html
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "_static"

WIDTH = 900

# Fill and dashes of each kind of box. All texts are #111111 on these, a contrast of 15 and more.
_KINDS = {
    "box": ("#eef3fa", ""),
    "part": ("#ffffff", ""),
    "store": ("#f7efdd", ""),
    "optional": ("#ffffff", "6 4"),
    "frame": ("#ffffff", "2 4"),
}

# Layers of packages and crates, from top to bottom: the height of a row, and its boxes.
LAYERS = [
    (20, [("zwire.spark", "partitions, frames"), ("zwire", "Python: context managers, types, commands")]),
    (110, [("zwire-py", "the binding: converts, releases the GIL")]),
    (
        200,
        [
            ("zwire-storage", "values by key"),
            ("zwire-http", "REST, WebSockets"),
            ("zwire-bridge", "ZRE and Zenoh"),
            ("zwire-kafka", "spools as topics"),
            ("zwire-mqtt", "bridge to a broker"),
        ],
    ),
    (260, [("zwire-recorder", "recording into a spool"), ("zwire-columns", "rows as Arrow columns")]),
    (
        320,
        [
            ("zwire-engine", "sockets, tasks, timers"),
            ("zwire-tier", "object stores"),
            ("zwire-dissect", "captures"),
        ],
    ),
    (
        410,
        [
            ("zwire-shm", "shared memory"),
            ("zwire-proto", "bytes, rules, state machines"),
            ("zwire-spool", "files, offsets"),
        ],
    ),
]


class Diagram:
    """Diagram of boxes and arrows."""

    def __init__(self, name: str, height: int, label: str) -> None:
        self.name, self.height, self.label = name, height, label
        self.shapes: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, *lines: str, kind: str = "box") -> None:
        """Draw a box: the first line is its name. A frame has its lines at the top."""
        fill, dashes = _KINDS[kind]
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" '
            f'stroke="#333333"{dash}/>'
        )
        first = y + 20 if kind == "frame" else y + height / 2 - 9 * (len(lines) - 1) + 5
        for number, line in enumerate(lines):
            size = ' font-size="12"' if number else ""
            self.text(x + width / 2, first + 18 * number, line, size)

    def text(self, x: float, y: float, line: str, extra: str = ' font-size="12"') -> None:
        """Write a line, centred at a place."""
        self.shapes.append(f'<text x="{x:g}" y="{y:g}"{extra}>{html.escape(line, quote=False)}</text>')

    def arrow(self, *points: tuple[int, int], both: bool = False, dashed: bool = False) -> None:
        """Draw an arrow through points."""
        path = "L".join(f"{x} {y}" for x, y in points)
        start = ' marker-start="url(#tip)"' if both else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.shapes.append(
            f'<path d="M{path}" fill="none" stroke="#333333" stroke-width="1.5" '
            f'marker-end="url(#tip)"{start}{dash}/>'
        )

    def svg(self) -> str:
        """Return the text of the file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" role="img" font-family="sans-serif" font-size="14" '
            f'aria-label="{html.escape(self.label)}">\n'
            f'  <rect width="{WIDTH}" height="{self.height}" rx="8" fill="#ffffff"/>\n'
            '  <defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
            'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="#333333"/></marker></defs>\n'
            '  <g fill="#111111" text-anchor="middle">\n'
        )
        return head + "".join(f"    {shape}\n" for shape in self.shapes) + "  </g>\n</svg>\n"


def crates() -> Diagram:
    """Return the layers of packages and crates."""
    d = Diagram(
        "crates",
        500,
        "Layers of zwire. zwire.spark uses zwire, which uses the binding zwire-py. Below it are "
        "zwire-storage, zwire-http, zwire-bridge, zwire-kafka and zwire-mqtt, then zwire-recorder and "
        "zwire-columns, then zwire-engine, zwire-tier and zwire-dissect, and at the bottom zwire-shm, "
        "zwire-proto and zwire-spool, which depend on no other part.",
    )
    for y, boxes in LAYERS:
        gap, left, room = 14, 150, 730
        width = (room - gap * (len(boxes) - 1)) // len(boxes)
        for number, lines in enumerate(boxes):
            d.box(left + number * (width + gap), y, width, 48, *lines)
    for y, line in ((20, "Python"), (110, "PyO3"), (260, "Rust"), (410, "no tokio, no clock")):
        d.text(75, y + 28, line)
    for y in (70, 160, 370):
        d.arrow((515, y), (515, y + 38))
    d.text(450, 485, "A part uses parts of lower rows alone, never the other way.")
    return d


def message() -> Diagram:
    """Return the way of a message."""
    d = Diagram(
        "message",
        400,
        "Way of a message. The publishing thread converts the payload, the session finds the links of "
        "subscribers, each link has a bounded queue for each priority, a batch is written to the "
        "socket. A router reads it, matches the key and passes it on with the same payload. The "
        "receiving link decodes, the session matches subscribers, a bounded handler holds samples, and "
        "a callback, an iterator or a record batch takes them.",
    )
    d.box(15, 15, 870, 105, "publisher", kind="frame")
    d.box(15, 145, 870, 95, "router", kind="frame")
    d.box(15, 265, 870, 120, "subscriber", kind="frame")
    steps = [("put", "any buffer, no copy"), ("session", "key to links"), ("queue", "per priority, bounded")]
    steps.append(("batch", "64 KiB at most"))
    for number, lines in enumerate(steps):
        d.box(40 + number * 215, 50, 175, 52, *lines, kind="store" if lines[0] == "queue" else "box")
    for number in range(3):
        d.arrow((215 + number * 215, 76), (255 + number * 215, 76))
    d.arrow((772, 102), (772, 178))
    for number, lines in enumerate(
        [("queue", "per priority, bounded"), ("routes", "key to links"), ("read", "payload is a slice")]
    ):
        d.box(
            40 + 215 * (number + (number > 0)), 178, 175, 48, *lines, kind="store" if number == 0 else "box"
        )
    d.arrow((685, 202), (645, 202))
    d.arrow((470, 202), (215, 202))
    d.text(342, 194, "payload not copied")
    d.arrow((127, 226), (127, 305))
    ends = [
        ("decode", "slices of the buffer"),
        ("session", "key to subscribers"),
        ("handler", "bounded, counts drops"),
    ]
    ends.append(("program", "callback, for, Arrow"))
    for number, lines in enumerate(ends):
        d.box(40 + number * 215, 305, 175, 52, *lines, kind="store" if lines[0] == "handler" else "box")
    for number in range(3):
        d.arrow((215 + number * 215, 331), (255 + number * 215, 331))
    return d


def modes() -> Diagram:
    """Return the modes of nodes."""
    d = Diagram(
        "modes",
        330,
        "Modes of nodes. Clients have one link each, to a router. Peers have links to each other and "
        "forward nothing. Routers have links to routers, clients and peers, and forward for all of "
        "them.",
    )
    for x, name in ((15, "client"), (315, "peer"), (615, "router")):
        d.box(x, 15, 270, 300, name, kind="frame")
    d.box(95, 140, 110, 44, "router")
    for x, y in ((40, 60), (160, 60), (40, 220), (160, 220)):
        d.box(x, y, 100, 38, "client", kind="part")
        d.arrow((x + 50, y + 38 if y < 140 else y), (120 if x < 100 else 180, 140 if y < 140 else 184))
    d.text(150, 290, "one link each; nothing is forwarded")
    for x, y in ((340, 60), (460, 60), (340, 220), (460, 220)):
        d.box(x, y, 100, 38, "peer", kind="part")
    d.arrow((440, 79), (460, 79), both=True)
    d.arrow((440, 239), (460, 239), both=True)
    d.arrow((390, 98), (390, 220), both=True)
    d.arrow((510, 98), (510, 220), both=True)
    d.arrow((430, 98), (470, 220), both=True)
    d.arrow((470, 98), (430, 220), both=True)
    d.text(450, 290, "links to each other; no server")
    for x, y in ((635, 130), (765, 130)):
        d.box(x, y, 100, 44, "router")
    d.arrow((735, 152), (765, 152), both=True)
    d.box(635, 60, 100, 38, "client", kind="part")
    d.box(765, 60, 100, 38, "peer", kind="part")
    d.box(700, 220, 100, 44, "router")
    d.arrow((685, 98), (685, 130))
    d.arrow((815, 98), (815, 130), both=True)
    d.arrow((685, 174), (730, 220), both=True)
    d.arrow((815, 174), (770, 220), both=True)
    d.text(750, 290, "forward for all, round a lost router")
    return d


def spool() -> Diagram:
    """Return a spool and its tier."""
    d = Diagram(
        "spool",
        330,
        "Spool and tier. A spooler subscribes and appends samples to the open segment of a shard; rows "
        "have offsets. Full segments are sealed and uploaded to a bucket with a manifest. Readers read "
        "the folder on the host, a range server over the network, or the bucket when the host is gone, "
        "and commit their offsets.",
    )
    d.box(15, 120, 130, 60, "publishers", "zwire, zenoh, ZRE")
    d.box(185, 15, 420, 300, "host of the spooler: a folder", kind="frame")
    d.box(205, 120, 110, 60, "spooler", "subscribes")
    d.box(355, 55, 230, 90, "shard 0", kind="frame")
    d.box(355, 165, 230, 90, "shard 1", kind="frame")
    for y in (82, 192):
        d.box(368, y, 62, 46, "sealed", "0-99", kind="store")
        d.box(438, y, 66, 46, "sealed", "100-199", kind="store")
        d.box(512, y, 62, 46, "open", "200-", kind="optional")
    d.arrow((145, 150), (205, 150))
    d.arrow((315, 140), (355, 110))
    d.arrow((315, 160), (355, 205))
    d.text(395, 295, "offsets without holes; gaps are recorded")
    d.box(655, 15, 230, 62, "bucket: the tier", "sealed segments, manifest", kind="store")
    d.box(655, 130, 230, 62, "reader by range server", "newest rows, any host")
    d.box(655, 245, 230, 62, "reader of the folder", "same host")
    d.arrow((605, 46), (655, 46))
    d.text(630, 38, "upload")
    d.arrow((605, 160), (655, 160))
    d.arrow((605, 250), (655, 272))
    d.arrow((770, 77), (770, 130), dashed=True)
    d.text(830, 108, "older rows")
    return d


def spark() -> Diagram:
    """Return the ways of Spark."""
    d = Diagram(
        "spark",
        330,
        "Spark and zwire. The driver plans ranges of offsets of a spool. Executors read these ranges "
        "from the tier or a range server, and decode captures from files. Executors publish and query "
        "through one session each, to a router, which reaches robots and services.",
    )
    d.box(15, 30, 180, 62, "spool", "folder, server, tier", kind="store")
    d.box(15, 134, 180, 62, "captures", "pcap, pcapng", kind="store")
    d.box(15, 238, 180, 62, "tables", "Delta, Iceberg, Parquet", kind="store")
    d.box(265, 15, 370, 300, "Spark", kind="frame")
    d.box(290, 50, 320, 52, "driver", "plans ranges of offsets, commits them")
    for x in (290, 460):
        d.box(x, 150, 150, 82, "executor", "reads its ranges", "one session", kind="part")
        d.arrow((x + 75, 102), (x + 75, 150))
    d.text(450, 268, 'read: format("zwire"), format("zwire.pcap")')
    d.text(450, 292, "write and query: put, get, sinks")
    d.box(705, 60, 180, 62, "router", "zwire router, zenohd")
    d.box(705, 200, 180, 62, "robots, services", "subscribe, answer")
    d.arrow((195, 61), (290, 76), both=True)
    d.arrow((195, 80), (290, 170))
    d.arrow((195, 165), (290, 190))
    d.arrow((290, 215), (195, 262))
    d.arrow((610, 180), (705, 100), both=True)
    d.arrow((795, 122), (795, 200), both=True)
    d.text(662, 170, "put, get")
    return d


def mqtt() -> Diagram:
    """Return the bridge to a broker of MQTT."""
    d = Diagram(
        "mqtt",
        300,
        "Bridge to MQTT. Messages of the broker go through the bridge to the router of Zenoh; the bridge "
        "acknowledges them when the router has them. Samples from the router go into the spool of the "
        "bridge, and from there to the broker; a row leaves the spool when the broker has acknowledged it.",
    )
    d.box(15, 40, 130, 62, "MQTT clients", "3.1.1, 5")
    d.box(200, 40, 130, 62, "broker", "keeps the session")
    d.box(385, 15, 290, 270, "zwire bridge mqtt", kind="frame")
    d.box(410, 50, 240, 52, "into Zenoh", "a window of messages")
    d.box(410, 132, 240, 52, "to the broker", "in flight, by packet identifier")
    d.box(410, 214, 240, 52, "spool", "rows, state of the session", kind="store")
    d.box(740, 40, 145, 62, "router of Zenoh", "zwire router, zenohd")
    d.box(740, 190, 145, 62, "programs", "keys, attachments")
    d.arrow((145, 71), (200, 71), both=True)
    d.arrow((330, 62), (410, 67))
    d.text(368, 54, "PUBLISH")
    d.arrow((650, 67), (740, 62))
    d.text(705, 54, "put")
    d.arrow((740, 92), (702, 92), (702, 240), (650, 240))
    d.arrow((530, 214), (530, 184))
    d.arrow((410, 158), (265, 158), (265, 102))
    d.text(330, 150, "PUBLISH")
    d.arrow((812, 102), (812, 190), both=True)
    d.text(300, 205, "PUBACK, PUBCOMP: the row may go")
    return d


DIAGRAMS = (crates, message, modes, spool, spark, mqtt)


def main() -> None:
    """Write all diagrams."""
    for draw in DIAGRAMS:
        diagram = draw()
        (FOLDER / f"{diagram.name}.svg").write_text(diagram.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
