"""Arrays of NumPy as payloads, and payloads as arrays."""

from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import zwire.zenoh as zenoh
from zwire import zmtp, zre


def sending(session: zenoh.Session, publisher: zenoh.Publisher, query: zenoh.Query) -> None:
    array = np.arange(4, dtype="uint16")
    session.put("a", array, attachment=np.zeros((2, 3)))
    session.put("a", [b"head", array])
    session.get("a", payload=array)
    publisher.put(array)
    query.reply("a", array)
    assert_type(zenoh.ZBytes(array), zenoh.ZBytes)
    session.put("a", np)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def to_other_protocols(node: zre.Node, socket: zmtp.Dealer) -> None:
    array = np.arange(4)
    node.shout("g", [b"head", array])
    socket.send([b"head", array])


def receiving(sample: zenoh.Sample) -> None:
    pixels: npt.NDArray[Any] = np.frombuffer(sample.payload, dtype="uint16")
    assert_type(np.frombuffer(sample.payload, np.uint8).size, int)
    assert_type(pixels.reshape(2, -1).nbytes, int)
    assert_type(sample.payload[1:], zenoh.ZBytes)
    assert_type(sample.payload[0], int)
    np.asarray(memoryview(sample.payload))
