"""Payloads of the packets in a capture: a few lines for pcap, IP and TCP, independent of the decoder."""

import gzip
import ipaddress
import struct
from pathlib import Path

CAPTURES = Path(__file__).resolve().parent / "vectors" / "captures"

TCP, UDP = 6, 17


def path(name):
    (found,) = CAPTURES.glob(f"zenoh-{name}.pcap*.gz")
    return found


def frames(name, protocol):
    """Yield tuples (data, src, dst, seconds) of the segments or datagrams with data, in order."""
    file = gzip.decompress(path(name).read_bytes())
    fraction = {0xA1B2C3D4: 1e6, 0xA1B23C4D: 1e9}[int.from_bytes(file[:4], "little")]
    at, fragments = 24, {}
    while at < len(file):
        seconds, part, length = struct.unpack_from("<III", file, at)
        ip = whole(file[at + 16 + 14 : at + 16 + length], fragments)
        data, src, dst = packet(ip, protocol) if ip else (b"", "", "")
        at += 16 + length
        if data:
            yield data, src, dst, seconds + part / fraction


def whole(ip, fragments):
    """A packet of IPv4, reassembled from fragments that come in order; empty until the last one."""
    offset = int.from_bytes(ip[6:8], "big")
    if ip[0] >> 4 != 4 or offset & 0x3FFF == 0:
        return ip
    number = ip[4:6], ip[12:20]
    head, end = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big")
    if offset & 0x1FFF == 0:
        fragments[number] = bytearray(ip[:end])
    else:
        fragments[number] += ip[head:end]
    if offset & 0x2000:
        return b""
    made = fragments.pop(number)
    made[2:4] = len(made).to_bytes(2, "big")
    return bytes(made)


def packet(ip, protocol):
    """Data, sender and receiver; empty for another protocol."""
    if ip[0] >> 4 == 4:
        kind, at, end = ip[9], (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big")
        addresses = ip[12:16], ip[16:20]
    else:
        kind, at, end = ip[6], 40, 40 + int.from_bytes(ip[4:6], "big")
        addresses = ip[8:24], ip[24:40]
    if kind != protocol:
        return b"", "", ""
    ports = struct.unpack_from(">HH", ip, at)
    src, dst = (
        f"{host}:{port}" if host.version == 4 else f"[{host}]:{port}"
        for host, port in zip(map(ipaddress.ip_address, addresses), ports, strict=True)
    )
    head = 8 if protocol == UDP else (ip[at + 12] >> 4) * 4
    return ip[at + head : end], src, dst


def batches(chunks):
    """The same, cut into batches, each with the time of its last byte."""
    rest = {}
    for data, src, dst, ts in chunks:
        waiting = rest.get((src, dst), b"") + data
        while len(waiting) >= 2 and len(waiting) >= 2 + (size := int.from_bytes(waiting[:2], "little")):
            yield waiting[2 : 2 + size], src, dst, ts
            waiting = waiting[2 + size :]
        rest[src, dst] = waiting
