"""Keys as channels of a Foxglove server: discovery, conversion, and subscriptions on demand."""

from __future__ import annotations

import json
import queue
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zwire._lazy import library
from zwire._text import is_json, printable, strict_json
from zwire.errors import KeyExprError
from zwire.zenoh import SampleKind
from zwire.zenoh.handlers import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zwire.recording import McapSchema
    from zwire.zenoh import Sample, Session, Subscriber

_QUEUE = 4096
"""Samples that wait while keys are looked for; more come again in the next look."""

_PAUSE = 0.05
"""Seconds between two reads of the samples by which keys are found."""

_AT_ONCE = 256
"""Samples that are looked at before subscriptions of clients are dealt with again."""

_BACKLOG = 1024
"""Messages that wait for a client; the SDK drops the oldest of a slow one."""

_LONGEST = 64 << 20
"""Bytes of a payload that is shown; Foxglove cannot show larger ones."""

_IMAGES = {"image/jpeg": "jpeg", "image/png": "png", "image/webp": "webp", "image/avif": "avif"}

_BINARY = {
    "application/protobuf": "protobuf",
    "application/cdr": "cdr",
    "application/flatbuffer": "flatbuffer",
}
"""Encodings that Foxglove shows by a definition of their schema."""


@dataclass
class Counts:
    """Counts of a bridge."""

    channels: int = 0
    sent: int = 0
    """Messages given to the server; it sends each to the clients that have subscribed."""
    unfit: int = 0
    """Samples that were not of the encoding of their channel, or too large."""
    refused: set[str] = field(default_factory=set)
    """Keys beyond the largest number of channels, at most as many again."""


class _Served:
    """A key that is a channel."""

    def __init__(
        self,
        key: str,
        encoding: str,
        channel: Any,  # noqa: ANN401 - of the SDK
        convert: Callable[[Sample], bytes | None],
    ) -> None:
        self.key = key
        self.encoding = encoding
        self.channel = channel
        self.convert = convert
        self.clients: set[int] = set()
        self.subscriber: Subscriber[None] | None = None


class Bridge:
    """A server of Foxglove for keys of a session.

    Args:
        session: The session.
        keys: Key expressions. Each key of them that is seen while the bridge looks becomes a channel.
        host: Address at which the server listens.
        port: Port; 0 takes a free one.
        most: Most channels.
        schemas: Definitions of schemas that encodings name.

    Raises:
        ImportError: The SDK is not installed.
        OSError: The server cannot listen.
    """

    def __init__(
        self,
        session: Session,
        keys: list[str],
        *,
        host: str,
        port: int,
        most: int,
        schemas: Mapping[str, McapSchema],
    ) -> None:
        self._sdk: Any = library("foxglove", "foxglove")
        self._session = session
        self._keys = keys
        self._most = most
        self._schemas = schemas
        self._context = self._sdk.Context()
        self._served: dict[str, _Served] = {}
        self._of_channel: dict[int, _Served] = {}
        self._looking: list[Subscriber[Any]] = []
        # Filled by threads of the SDK, which must not wait for the session.
        self._events: queue.SimpleQueue[tuple[int, int, bool]] = queue.SimpleQueue()
        self.counts = Counts()
        try:
            self._server = self._sdk.start_server(
                name="zwire",
                host=host,
                port=port,
                capabilities=[],
                server_listener=_Listener(self._events),
                context=self._context,
                message_backlog_size=_BACKLOG,
            )
        except RuntimeError as error:
            raise OSError(f"no server at {host}:{port}: {error}") from error

    @property
    def port(self) -> int:
        """Port at which the server listens."""
        return int(self._server.port)

    @property
    def app_url(self) -> str:
        """Address that opens the app with this server."""
        return str(self._server.app_url())

    def subscribed(self) -> list[str]:
        """Return the keys that clients listen to."""
        return sorted(key for key, served in self._served.items() if served.subscriber is not None)

    def look(self) -> None:
        """Begin to look for keys, which takes a subscription to all of them."""
        if not self._looking:
            made = Channel[Any](_QUEUE, full="drop_oldest")
            self._looking = [self._session.declare_subscriber(key, made) for key in self._keys]

    def stop_looking(self) -> None:
        """End the subscriptions to all keys."""
        # A signal may end this between two lines, and `close` comes next.
        while self._looking:
            self._looking.pop().undeclare()

    def step(self, seconds: float) -> None:
        """Deal with what clients have subscribed to, and with the keys that were seen; wait for a time."""
        end = time.monotonic() + seconds
        while True:
            for subscriber in self._looking:
                for sample in subscriber.recv_many(_AT_ONCE, timeout=0):
                    self._see(sample)
            left = end - time.monotonic()
            # Keys are looked for between short waits.
            wait = min(left, _PAUSE) if self._looking else left
            try:
                client, channel, there = self._events.get(timeout=max(0.0, wait))
            except queue.Empty:
                if left <= 0:
                    return
            else:
                self._change(client, channel, there=there)

    def close(self) -> None:
        """Stop the server, and end all subscriptions."""
        self.stop_looking()
        for served in self._served.values():
            _end(served)
        self._server.stop()

    def _see(self, sample: Sample) -> None:
        key = str(sample.key_expr)
        if key in self._served or sample.kind == SampleKind.DELETE or "*" in key:
            return
        if len(self._served) >= self._most:
            if len(self.counts.refused) < self._most:
                self.counts.refused.add(key)
            return
        encoding = str(sample.encoding)
        form, schema, convert = self._form(encoding)
        channel = self._sdk.Channel(
            key,
            message_encoding=form,
            schema=schema,
            context=self._context,
            metadata={"zwire.encoding": printable(encoding)},
        )
        served = _Served(key, encoding, channel, convert)
        self._served[key] = self._of_channel[channel.id()] = served
        self.counts.channels += 1

    def _form(self, encoding: str) -> tuple[str, Any, Callable[[Sample], bytes | None]]:
        """Return the encoding of a channel, its schema, and the conversion of samples."""
        name, _, schema = encoding.partition(";")
        if name in _IMAGES:
            messages = library("foxglove.messages", "foxglove")
            return "protobuf", messages.CompressedImage.get_schema(), _image(messages, _IMAGES[name])
        known = self._schemas.get(schema)
        if name in _BINARY and known is not None:
            return _BINARY[name], self._schema(schema, known.encoding, known.data), _unchanged
        if is_json(name) or is_text(name):
            data = b"" if known is None else known.data
            return "json", self._schema(schema if is_json(name) else "", "jsonschema", data), as_object
        # Clients list it with its encoding, and cannot show it.
        return name, self._schema(schema, "", b""), _unchanged

    def _schema(self, name: str, encoding: str, data: bytes) -> Any:  # noqa: ANN401
        return self._sdk.Schema(name=printable(name), encoding=encoding, data=data)

    def _change(self, client: int, channel: int, *, there: bool) -> None:
        served = self._of_channel.get(channel)
        if served is None:
            return
        if there:
            served.clients.add(client)
        else:
            served.clients.discard(client)
        if served.clients and served.subscriber is None:
            try:
                served.subscriber = self._session.declare_subscriber(served.key, self._forward(served))
            except KeyExprError:
                served.clients.clear()
        elif not served.clients:
            _end(served)

    def _forward(self, served: _Served) -> Callable[[Sample], None]:
        counts = self.counts

        def forward(sample: Sample) -> None:
            if sample.kind == SampleKind.DELETE:
                return
            fits = str(sample.encoding) == served.encoding and len(sample.payload) <= _LONGEST
            message = served.convert(sample) if fits else None
            if message is None:
                counts.unfit += 1
                return
            served.channel.log(message, log_time=time.time_ns())
            counts.sent += 1

        return forward


def _end(served: _Served) -> None:
    """End the subscription to a key, if there is one."""
    subscriber, served.subscriber = served.subscriber, None
    if subscriber is not None:
        subscriber.undeclare()


class _Listener:
    """Notes of the SDK about clients; called in its threads."""

    def __init__(self, events: queue.SimpleQueue[tuple[int, int, bool]]) -> None:
        self._events = events

    def on_subscribe(self, client: Any, channel: Any) -> None:  # noqa: ANN401
        self._events.put((client.id, channel.id, True))

    def on_unsubscribe(self, client: Any, channel: Any) -> None:  # noqa: ANN401
        self._events.put((client.id, channel.id, False))


def is_text(name: str) -> bool:
    """Return whether payloads of an encoding may be a text or a number."""
    return name in {"zenoh/string", "zenoh/bytes", "text/plain"}


def as_object(sample: Sample) -> bytes | None:
    """Return a payload as a JSON object, which Foxglove demands: ``{"value": ...}`` for another value."""
    data = bytes(sample.payload)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    try:
        value: Any = strict_json(text)
    except (ValueError, RecursionError):
        if is_json(str(sample.encoding).partition(";")[0]):
            return None
        value = text
    return data if isinstance(value, dict) else json.dumps({"value": value}).encode()


def _unchanged(sample: Sample) -> bytes:
    return bytes(sample.payload)


def _image(messages: Any, form: str) -> Callable[[Sample], bytes]:  # noqa: ANN401
    def convert(sample: Sample) -> bytes:
        now = messages.Timestamp.from_epoch_secs(time.time())
        frame, data = printable(str(sample.key_expr)), bytes(sample.payload)
        image = messages.CompressedImage(timestamp=now, frame_id=frame, data=data, format=form)
        return bytes(image.encode())

    return convert
