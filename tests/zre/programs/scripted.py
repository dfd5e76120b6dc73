"""A 20/ZRE node written from the published text, with no part of zwire in it: ``scripted.py SETTINGS``.

It behaves as the zyre of that time and judges as strictly: whatever made that zyre abort (a wrong sequence
number or status, a second HELLO, an unknown message), and whatever the text forbids, ends this process with
status 134 and the reason. With ``"generation": "zyre1"`` it is zyre 1.0.0: other lists in HELLO, and a second
HELLO is EXIT and ENTER.

Settings, a JSON object: ``address``, ``broadcast``; optional ``generation`` ("20"), ``uuid``, ``headers``,
``groups``, ``zmtp`` ("3.0" or "2.0"), ``identity`` ("binary" or "hex"), ``beacons`` (true), ``beacon_port``,
``interval``, ``evasive``, ``expired``, ``mute`` (answers no PING), ``collector`` (true: collects ZRE/LOG),
``milliseconds`` (of ZRE/LOG; zyre sent seconds).
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
import time
import uuid as uuids

import lines
import rfc20
import zmtp_by_hand as zmtp

RECONNECT = 0.1


class Aborts(Exception):  # noqa: N818 - it is what the process does
    """A failure at which a zyre of that time would have aborted by assertion."""


class Dealer:
    """Our one-way channel to a peer; it connects again by itself, as the library does."""

    def __init__(self, node, address, port):
        self.node = node
        self.endpoint = (address, port)
        self.queue = asyncio.Queue()
        self.connection = None
        self.task = node.start_task(self.run())

    async def run(self):
        while True:
            try:
                self.connection = await zmtp.connect(
                    *self.endpoint, "DEALER", self.node.identity, self.node.zmtp, self.node.address
                )
            except zmtp.Refused:
                await asyncio.sleep(RECONNECT)
                continue
            reading = asyncio.create_task(self.connection.receive())
            while True:
                getting = asyncio.create_task(self.queue.get())
                await asyncio.wait([reading, getting], return_when=asyncio.FIRST_COMPLETED)
                if getting.done():
                    self.connection.send_octets(getting.result())
                else:
                    getting.cancel()
                if reading.done():
                    if reading.result() is not None:
                        raise Aborts(f"a message on our DEALER: {reading.result()}")
                    break
            self.connection.close()
            await asyncio.sleep(RECONNECT)

    def send(self, frames):
        self.queue.put_nowait(zmtp.message(frames))

    def close(self):
        self.task.cancel()
        if self.connection:
            self.connection.close()


class Peer:
    def __init__(self, uuid, dealer):
        self.uuid = uuid
        self.dealer = dealer
        self.sent = 0
        self.received = 0
        self.status = 0
        self.ready = False
        self.groups = set()
        self.headers = {}
        self.address = ""
        self.heard = self.pinged = time.monotonic()

    @property
    def text(self):
        return self.uuid.hex().upper()

    def number(self):
        self.sent = (self.sent + 1) & 0xFFFF
        return self.sent


class Node:
    def __init__(self, settings):
        self.address = settings["address"]
        self.broadcast = settings.get("broadcast")
        self.generation = settings.get("generation", "20")
        self.uuid = bytes.fromhex(settings["uuid"]) if "uuid" in settings else b"\x20" + os.urandom(15)
        self.headers = dict(settings.get("headers", {}))
        self.groups = list(settings.get("groups", []))
        self.zmtp = settings.get("zmtp", "3.0")
        hexadecimal = settings.get("identity", "binary") == "hex"
        self.identity = self.uuid.hex().upper().encode() if hexadecimal else self.uuid
        self.beacons = settings.get("beacons", True)
        self.beacon_port = settings.get("beacon_port", 5670)
        self.interval = settings.get("interval", 1.0)
        self.evasive = settings.get("evasive", 5.0)
        self.expired = settings.get("expired", 10.0)
        self.mute = settings.get("mute", False)
        self.milliseconds = settings.get("milliseconds", False)
        self.collecting = settings.get("collector", False)
        self.status = len(self.groups)
        self.peers = {}
        self.pending = {}
        self.open = set()
        self.seen = []
        self.ignored = []
        self.complaints = []
        self.collectors = {}
        self.tasks = set()
        self.failed = asyncio.get_running_loop().create_future()

    # ---- Life ----

    def start_task(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task):
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() and not self.failed.done():
            self.failed.set_exception(task.exception())

    async def start(self):
        # "bind this to an ephemeral TCP port (in the range %C000x - %FFFFx)"
        for port in range(0xC000, 0x10000):
            with contextlib.suppress(OSError):
                server = await asyncio.start_server(self.accept, self.address, port)
                break
        self.port = server.sockets[0].getsockname()[1]
        if self.collecting:
            log = await asyncio.start_server(self.collect, self.address, 0)
            self.headers["X-ZRELOG"] = f"tcp://{self.address}:{log.sockets[0].getsockname()[1]}"
        if self.beacons:
            self.sender = self.udp((self.address, 0))
            self.listener = self.udp((self.broadcast, self.beacon_port))
            asyncio.get_running_loop().add_reader(self.listener, self.hear)
            self.start_task(self.cry())
        self.start_task(self.reap())
        lines.tell("STARTED", peer=self.uuid.hex().upper(), endpoint=f"tcp://{self.address}:{self.port}")

    def udp(self, where):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT, socket.SO_BROADCAST):
            s.setsockopt(socket.SOL_SOCKET, option, 1)
        s.bind(where)
        s.setblocking(False)
        return s

    def throw(self, datagram):
        # An interface that is down refuses; the next beacon tries again.
        with contextlib.suppress(OSError):
            self.sender.sendto(datagram, (self.broadcast, self.beacon_port))

    async def cry(self):
        while True:
            self.throw(rfc20.beacon(self.uuid, self.port))
            await asyncio.sleep(self.interval)

    async def reap(self):
        while True:
            await asyncio.sleep(0.1)
            now = time.monotonic()
            for peer in list(self.peers.values()):
                if now - peer.heard > self.expired:
                    self.remove(peer)
                elif now - peer.heard > self.evasive and now - peer.pinged >= 1 and peer.dealer:
                    peer.pinged = now
                    self.ping(peer.text)

    # ---- What comes ----

    def hear(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                datagram, (address, _) = self.listener.recvfrom(65536)
                self.beacon(datagram, address)

    def beacon(self, datagram, address):
        try:
            uuid, port = rfc20.read_beacon(datagram)
        except rfc20.Malformed as e:
            self.ignored.append(str(e))
            return
        peer = self.peers.get(uuid)
        if uuid == self.uuid:
            return
        if not port:
            if peer:
                self.remove(peer)
        elif peer:
            peer.heard = time.monotonic()
        else:
            if port < 0xC000:
                self.complaints.append(f"mailbox {port} is below %xC000")
            self.meet(uuid, address, port)

    def meet(self, uuid, address, port):
        dealer = self.pending.pop((address, port), None)
        peer = self.peers[uuid] = Peer(uuid, dealer or Dealer(self, address, port))
        if dealer:
            peer.sent = 1
        else:
            dealer = peer.dealer
            dealer.send([self.hello(peer.number())])
        return peer

    def hello(self, sequence):
        return rfc20.hello(
            sequence, self.address, self.port, self.groups, self.status, self.headers, self.generation
        )

    async def accept(self, reader, writer):
        self.start_task(self.serve(zmtp.Connection(reader, writer, "ROUTER", b"", self.zmtp)))

    async def serve(self, connection):
        try:
            await connection.handshake()
        except zmtp.Refused:
            connection.close()
            return
        identity = connection.identity
        uuid = identity
        if len(identity) == 32:
            with contextlib.suppress(ValueError):
                uuid = bytes.fromhex(identity.decode())
        if len(uuid) != 16:
            self.ignored.append(f"identity {identity.hex()}")
            uuid = None
        elif uuid in self.open:
            # A ROUTER without handover: the newcomer is never heard.
            self.ignored.append(f"second connection of {uuid.hex()}")
            uuid = None
        else:
            self.open.add(uuid)
        try:
            while (frames := await connection.receive()) is not None:
                if uuid:
                    self.take(uuid, frames)
        finally:
            self.open.discard(uuid)
            connection.close()

    def take(self, uuid, frames):
        peer = self.peers.get(uuid)
        try:
            fields = rfc20.decode(frames, self.generation)
        except rfc20.Malformed as e:
            if peer and peer.ready:
                raise Aborts(f"{e} from {peer.text}") from None
            self.ignored.append(str(e))
            return
        kept = {k: lines.content(v) if k == "content" else v for k, v in fields.items()}
        self.seen.append({"peer": uuid.hex().upper(), **kept})
        kind = fields["message"]
        if kind == "HELLO":
            peer = self.greet(uuid, peer, fields)
        elif not peer or not peer.ready:
            # "it SHALL silently ignore any commands that precede a HELLO command"
            self.ignored.append(f"{kind} before HELLO")
            return
        peer.heard = time.monotonic()
        peer.received = (peer.received + 1) & 0xFFFF
        if fields["sequence"] != peer.received:
            raise Aborts(f"{kind} number {fields['sequence']} in place of {peer.received} from {peer.text}")
        if kind == "WHISPER":
            lines.tell("WHISPER", peer=peer.text, content=kept["content"])
        elif kind == "SHOUT":
            lines.tell("SHOUT", peer=peer.text, group=fields["group"], content=kept["content"])
        elif kind in ("JOIN", "LEAVE"):
            self.change(peer, fields)
        elif kind == "PING" and not self.mute:
            peer.dealer.send([rfc20.header(rfc20.PING_OK, peer.number())])
        # "ZRE does not support multi-frame message contents."
        if self.generation == "20" and len(fields.get("content", ())) > 1:
            raise Aborts(f"{kind} with several frames from {peer.text}")

    def greet(self, uuid, peer, fields):
        if peer and peer.ready:
            if self.generation == "20":
                raise Aborts(f"a second HELLO from {peer.text}")
            self.remove(peer)
            peer = None
        if not peer:
            peer = self.meet(uuid, fields["address"], fields["port"])
        peer.ready = True
        peer.headers = fields["headers"]
        peer.address = f"tcp://{fields['address']}:{fields['port']}"
        lines.tell("ENTER", peer=peer.text, headers=peer.headers, address=peer.address)
        self.log("ENTER", peer.address, peer.address)
        for group in fields["groups"]:
            peer.groups.add(group)
            lines.tell("JOIN", peer=peer.text, group=group)
        peer.status = fields["status"]
        if "X-ZRELOG" in peer.headers:
            self.announce(peer.headers["X-ZRELOG"])
        return peer

    def change(self, peer, fields):
        peer.status = (peer.status + 1) & 0xFF
        if fields["status"] != peer.status:
            told = f"{fields['message']} with status {fields['status']}"
            raise Aborts(f"{told} in place of {peer.status} from {peer.text}")
        if fields["message"] == "JOIN":
            peer.groups.add(fields["group"])
        else:
            peer.groups.discard(fields["group"])
        lines.tell(fields["message"], peer=peer.text, group=fields["group"])

    def remove(self, peer):
        if peer.dealer:
            peer.dealer.close()
        del self.peers[peer.uuid]
        if peer.ready:
            lines.tell("EXIT", peer=peer.text)
            self.log("EXIT", peer.address, peer.address)

    # ---- ZRE/LOG ----

    async def collect(self, reader, writer):
        self.start_task(self.serve_log(zmtp.Connection(reader, writer, "SUB", b"", self.zmtp)))

    async def serve_log(self, connection):
        try:
            await connection.handshake()
        except zmtp.Refused:
            connection.close()
            return
        connection.send([b"\x01"])
        while (frames := await connection.receive()) is not None:
            try:
                fields = rfc20.read_log(frames)
            except rfc20.Malformed as e:
                raise Aborts(f"collector: {e}") from None
            when = fields.pop("time")
            lines.tell("LOG", stamp=when, **fields)

    def announce(self, endpoint):
        if endpoint not in self.collectors:
            address, _, port = endpoint.removeprefix("tcp://").rpartition(":")
            self.collectors[endpoint] = asyncio.Queue()
            self.start_task(self.publish(address, int(port), self.collectors[endpoint]))

    async def publish(self, address, port, queue):
        while True:
            try:
                connection = await zmtp.connect(address, port, "PUB", b"", self.zmtp, self.address)
            except zmtp.Refused:
                await asyncio.sleep(RECONNECT)
                continue
            subscription = await connection.receive()
            if subscription is None:
                continue
            if subscription != [b"\x01"]:
                raise Aborts(f"a collector that subscribes to {subscription}")
            while True:
                connection.send([await queue.get()])

    def log(self, event, peer, data, level="INFO"):
        """As zyre: the node by its address without the scheme, the peer by its whole endpoint."""
        node = rfc20.log_hash(f"{self.address}:{self.port}")
        now = int(time.time() * (1000 if self.milliseconds else 1))
        octets = rfc20.log(level, event, node, rfc20.log_hash(peer), now, data)
        for queue in self.collectors.values():
            queue.put_nowait(octets)

    # ---- Commands of the test ----

    def peer(self, text):
        return self.peers[uuids.UUID(text).bytes]

    def join(self, group):
        self.alter(rfc20.JOIN, group)

    def leave(self, group):
        self.alter(rfc20.LEAVE, group)

    def alter(self, kind, group):
        if kind == rfc20.JOIN:
            self.groups.append(group)
        else:
            self.groups.remove(group)
        self.status = (self.status + 1) & 0xFF
        for peer in self.peers.values():
            peer.dealer.send([rfc20.change(kind, peer.number(), group, self.status)])
        self.log(rfc20.NAMES[kind], "", group)

    def whisper(self, peer, content):
        peer = self.peer(peer)
        peer.dealer.send([rfc20.header(rfc20.WHISPER, peer.number()), *lines.frames(content)])

    def shout(self, group, content):
        reached = [p for p in self.peers.values() if group in p.groups]
        for peer in reached:
            peer.dealer.send([rfc20.shout(peer.number(), group), *lines.frames(content)])
        return len(reached)

    def ping(self, peer):
        peer = self.peer(peer)
        peer.dealer.send([rfc20.header(rfc20.PING, peer.number())])

    def connect(self, endpoint):
        """To a peer that no beacon announced."""
        address, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        dealer = self.pending[address, int(port)] = Dealer(self, address, int(port))
        dealer.send([self.hello(1)])

    def octets(self, peer, content):
        """A message of ours as it stands; takes a number as each message does."""
        peer = self.peer(peer)
        peer.number()
        peer.dealer.send(lines.frames(content))

    def skip(self, peer, messages=1):
        """Loses messages: their numbers are never sent."""
        peer = self.peer(peer)
        peer.sent = (peer.sent + messages) & 0xFFFF

    def misreport(self, change):
        """Makes our status wrong."""
        self.status = (self.status + change) & 0xFF

    def throw_beacon(self, octets):
        self.throw(bytes.fromhex(octets))

    def send_log(self, level, event, data, peer=""):
        self.log(event, peer, data, level)

    def state(self):
        return {
            "peers": [p.text for p in self.peers.values() if p.ready],
            "groups": {p.text: sorted(p.groups) for p in self.peers.values()},
            "headers": {p.text: p.headers for p in self.peers.values()},
            "received": {p.text: p.received for p in self.peers.values()},
            "ignored": self.ignored,
            "complaints": self.complaints,
        }

    def messages(self):
        return self.seen

    def stop(self):
        """Says goodbye: "If the port is zero, this signals that the peer is disconnecting"."""
        if self.beacons:
            self.throw(rfc20.beacon(self.uuid, 0))
        for peer in list(self.peers.values()):
            self.remove(peer)


async def main():
    node = Node(json.loads(sys.argv[1]))
    commands = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(commands.put_nowait, line)
        loop.call_soon_threadsafe(commands.put_nowait, '{"op": "quit"}')

    await node.start()
    threading.Thread(target=read, daemon=True).start()
    while True:
        command = asyncio.create_task(commands.get())
        await asyncio.wait([command, node.failed], return_when=asyncio.FIRST_COMPLETED)
        if node.failed.done():
            e = node.failed.exception()
            lines.tell("ABORT", reason=f"{e}")
            if not isinstance(e, (Aborts, zmtp.Broken)):
                raise e
            print(f"aborted: {e}", file=sys.stderr, flush=True)
            os._exit(134)
        if not lines.obey(command.result(), node):
            break
    # What asyncio still has open ends with the process, as in a crash: a goodbye is the command "stop".
    os._exit(0)


asyncio.run(main())
