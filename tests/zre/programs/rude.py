"""Does to nodes what no peer should: ``rude.py SETTINGS`` with ``address`` and ``broadcast``.

It speaks correct ZMTP by hand up to the point where it stops doing so.
"""

import asyncio
import json
import os
import random
import socket
import sys
import threading
from pathlib import Path

import lines
import zmtp_by_hand as zmtp


def resets():
    table = Path("/proc/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in table if line.startswith("Tcp:"))
    return int(values[names.index("OutRsts")])


def greeting36(endpoint, *, sequence=1, version=2, name="rude"):
    """A HELLO of 36/ZRE."""
    return (
        b"\xaa\xa1\x01"
        + bytes([version])
        + sequence.to_bytes(2, "big")
        + bytes([len(endpoint)])
        + endpoint.encode()
        + bytes(4)
        + b"\x00"
        + bytes([len(name)])
        + name.encode()
        + bytes(4)
    )


def where(endpoint):
    address, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return address, int(port)


class Rude:
    def __init__(self, settings):
        self.address = settings["address"]
        self.broadcast = settings["broadcast"]
        self.connections = {}
        self.held = []

    async def connect(self, endpoint, identity):
        """Opens a DEALER with that identity; gives its number."""
        connection = await zmtp.connect(
            *where(endpoint), "DEALER", bytes.fromhex(identity), "3.0", self.address
        )
        number = len(self.connections)
        self.connections[number] = connection
        return number

    async def send(self, number, content):
        """A message of those frames."""
        self.connections[number].send(lines.frames(content))
        await self.connections[number].writer.drain()

    async def octets(self, number, octets):
        """Whatever, after the handshake."""
        self.connections[number].send_octets(bytes.fromhex(octets))
        await self.connections[number].writer.drain()

    async def hello(self, number, endpoint, **fields):
        self.connections[number].send([greeting36(endpoint, **fields)])

    async def closed(self, number, seconds):
        """Whether the other side has ended the connection in that time."""
        try:
            return await asyncio.wait_for(self.connections[number].receive(), seconds) is None
        except TimeoutError:
            return False

    async def raw(self, endpoint, octets, seconds=0.5):
        """Connects, sends that in place of a greeting, and gives what comes back."""
        reader, writer = await asyncio.open_connection(*where(endpoint))
        writer.write(bytes.fromhex(octets))
        back = b""
        try:
            async with asyncio.timeout(seconds):
                while more := await reader.read(4096):
                    back += more
        except (TimeoutError, ConnectionError):
            pass
        writer.close()
        return back.hex()

    async def hold(self, endpoint, count, handshake=False):
        """Connections that say nothing, or nothing after the handshake, up to the first that fails."""
        place = where(endpoint)
        for _ in range(count):
            try:
                async with asyncio.timeout(1):
                    if handshake:
                        identity = b"\x01" + os.urandom(16)
                        connection = await zmtp.connect(*place, "DEALER", identity, "3.0", self.address)
                    else:
                        connection = await asyncio.open_connection(*place)
                self.held.append(connection)
            except (ConnectionError, TimeoutError, zmtp.Refused, zmtp.Broken):
                break
        return len(self.held)

    async def throw(self, octets, to=None, port=5670):
        """Send a datagram, by broadcast or to one address."""
        with self.udp() as s:
            s.sendto(bytes.fromhex(octets), (to or self.broadcast, port))

    async def listen(self):
        """A listener that takes connections and never speaks; gives its port."""
        stream = socket.create_server((self.address, 0), backlog=4096)
        self.held.append(stream)
        return stream.getsockname()[1]

    async def reset(self):
        """How many connections this host has refused, and so how many were asked for."""
        return resets()

    async def flood(self, count, to, seed=1, port=5670, mailbox=None):
        """Beacons of nodes that do not exist, at ports of ours without a listener, or at one of them."""
        chance, chosen = random.Random(seed), mailbox
        with self.udp() as s:
            for number in range(count):
                mailbox = (chosen or chance.randrange(1, 0x10000)).to_bytes(2, "big")
                s.sendto(b"ZRE\x01" + chance.randbytes(16) + mailbox, (to, port))
                if not number % 200:
                    # As fast as a network would bring them, not as fast as a veth can drop them.
                    await asyncio.sleep(0.005)
        return count

    async def greet(self, endpoint, count):
        """HELLOs of nodes that do not exist, each on a connection of its own."""
        refused = 0
        for _ in range(count):
            identity = b"\x01" + os.urandom(16)
            try:
                connection = await zmtp.connect(*where(endpoint), "DEALER", identity, "3.0", self.address)
            except (zmtp.Refused, zmtp.Broken):
                refused += 1
                continue
            connection.send([greeting36(f"tcp://{self.address}:9")])
            self.held.append(connection)
        return refused

    def udp(self):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.bind((self.address, 0))
        return s


async def main():
    rude = Rude(json.loads(sys.argv[1]))
    commands = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(commands.put_nowait, line)
        loop.call_soon_threadsafe(commands.put_nowait, '{"op": "quit"}')

    threading.Thread(target=read, daemon=True).start()
    lines.tell("STARTED")
    while True:
        command = json.loads(await commands.get())
        op = command.pop("op")
        if op == "quit":
            lines.say({"value": None})
            os._exit(0)
        try:
            lines.say({"value": await getattr(rude, op)(**command)})
        except Exception as e:  # noqa: BLE001 - the test is told
            lines.say({"error": f"{type(e).__name__}: {e}"})


asyncio.run(main())
