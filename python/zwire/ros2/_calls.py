"""Services and their clients (`zenoh-services` 6.5): queries with a request, and one reply to each."""

from __future__ import annotations

import contextlib
import itertools
import time
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, Final

from zwire import zenoh
from zwire._failure import describe, restore
from zwire.errors import DecodeError, TimedOut, ZwireError
from zwire.ros2._endpoint import Endpoint, EndpointEvent, Owner
from zwire.ros2._keys import Attachment, EntityKind, read_attachment
from zwire.ros2._pubsub import _takes_two
from zwire.ros2._refused import LOG
from zwire.zenoh import handlers

if TYPE_CHECKING:
    from collections.abc import Callable

    from zwire.ros2._qos import QoSProfile
    from zwire.ros2._store import ServiceType
    from zwire.zenoh import Query, Reply

YEAR: Final = 366 * 86400.0
"""Seconds of a call without a timeout: results of actions may take as long as they want."""


class Service(Endpoint):
    """A service; :meth:`zwire.ros2.Node.create_service` makes one.

    A callback that raises gives the client an error reply, and the log the traceback.
    """

    def __init__(
        self,
        owner: Owner,
        type_: ServiceType,
        name: str,
        qos: QoSProfile,
        callback: Callable[..., Any],
        on_event: Callable[[EndpointEvent], object] | None,
    ) -> None:
        super().__init__(owner, EntityKind.SERVICE, name, (type_.name, type_.hash), qos, on_event)
        self.type: Final = type_
        self._callback = callback
        self._with_response = _takes_two(callback)
        session = owner.context.session
        self._queryable = session.declare_queryable(
            self.key, handlers.Callback(self._on_query), complete=True
        )
        self._announce()

    def _on_query(self, query: Query) -> None:
        try:
            octets = query.attachment
            attachment = read_attachment(None if octets is None else bytes(octets))
            request = self._request(query)
        except ZwireError as error:
            self._refused.add("request", error)
            query.reply_err(str(error))
            return
        try:
            with self._owner.turn:
                if self._with_response:
                    answer = self._callback(request, self.type.response.cls())
                else:
                    answer = self._callback(request)
        except Exception as error:  # noqa: BLE001 - the client gets any error of the program
            LOG.exception("%s: the service raised", self.name)
            _reply_error(query, error)
            return
        if isinstance(answer, Future):
            answer.add_done_callback(lambda done: self._answer_later(query, attachment, done))
        else:
            self._answer(query, attachment, answer)

    def _request(self, query: Query) -> Any:  # noqa: ANN401 - a message of the type
        payload = query.payload
        if payload is None:
            raise DecodeError("payload: the request has none", reading="payload", offset=0)
        return self.type.request.decode(payload)

    def _answer(self, query: Query, attachment: Attachment, answer: object) -> None:
        octets = Attachment(attachment.sequence, time.time_ns(), attachment.gid).pack()
        try:
            payload = self.type.response.encode(answer)
        except Exception as error:  # noqa: BLE001 - the program may return any object
            LOG.exception("%s: the answer is no %s", self.name, self.type.response.name)
            _reply_error(query, error)
            return
        query.reply(self.key, payload, attachment=octets)

    def _answer_later(self, query: Query, attachment: Attachment, done: Future[Any]) -> None:
        # The client may be gone, and the session closed.
        with contextlib.suppress(ZwireError), query:
            error = done.exception() if not done.cancelled() else TimedOut("the request was cancelled")
            if error is None:
                self._answer(query, attachment, done.result())
            else:
                _reply_error(query, error)

    def _undeclare(self) -> None:
        self._queryable.undeclare()


def _reply_error(query: Query, error: BaseException) -> None:
    payload, encoding = describe(error, traceback=False)
    query.reply_err(payload, encoding=encoding)


class Client(Endpoint):
    """A client of a service; :meth:`zwire.ros2.Node.create_client` makes one."""

    def __init__(
        self,
        owner: Owner,
        type_: ServiceType,
        name: str,
        qos: QoSProfile,
        on_event: Callable[[EndpointEvent], object] | None,
    ) -> None:
        super().__init__(owner, EntityKind.CLIENT, name, (type_.name, type_.hash), qos, on_event)
        self.type: Final = type_
        self._numbers = itertools.count(1)
        # Other programs show a token before queries reach the service: its matching says when they do.
        self._querier = owner.context.session.declare_querier(self.key, target=zenoh.QueryTarget.ALL_COMPLETE)
        self._announce()

    def service_is_ready(self) -> bool:
        """Return whether a service of this name, type and hash is there."""
        return self.matched > 0 and self._querier.matching_status.matching

    def wait_for_service(self, timeout: float | None = None) -> bool:
        """Wait for a service of this name, type and hash.

        Args:
            timeout: Seconds; without a limit if left out.

        Returns:
            Whether one is there.
        """
        end = None if timeout is None else time.monotonic() + timeout
        try:
            self._owner.context.graph.wait_for(
                lambda graph: any(e.key == self.key for e in graph.endpoints(self.name, EntityKind.SERVICE)),
                timeout,
            )
            self._querier.wait_matching(timeout=None if end is None else max(0.0, end - time.monotonic()))
        except TimedOut:
            return False
        return True

    def call(self, request: Any, timeout: float | None = None) -> Any:  # noqa: ANN401 - messages of the type
        """Call the service, and wait for its response.

        Args:
            request: A request of the type.
            timeout: Seconds; a year if left out.

        Raises:
            TimedOut: There is no service, or it did not answer in time.
            QueryError: The service answered with an error; ``RemoteError`` if its callback raised.
            PayloadError: A value of the request is none of its field.
        """
        return self.call_async(request, timeout).result()

    def call_async(self, request: Any, timeout: float | None = None) -> Future[Any]:  # noqa: ANN401
        """Call the service; return a future of its response, with the errors of :meth:`call`.

        Cancelling the future ends the call here, not at the service.
        """
        number = next(self._numbers)
        call = _Call(self, number, timeout)
        self._owner.context.session.get(
            self.key,
            handlers.Callback(call.on_reply, call.on_end),
            target=zenoh.QueryTarget.ALL_COMPLETE,
            consolidation=zenoh.ConsolidationMode.NONE,
            timeout=YEAR if timeout is None else max(timeout, 0.001),
            payload=self.type.request.encode(request),
            attachment=Attachment(number, time.time_ns(), self.gid).pack(),
            cancellation_token=call.token,
        )
        return call.future

    def _undeclare(self) -> None:
        self._querier.undeclare()


class _Call:
    """One request, until its response."""

    def __init__(self, client: Client, number: int, timeout: float | None) -> None:
        self._client = client
        self._number = number
        self._timeout = timeout
        self._error: Exception | None = None
        self.token = zenoh.CancellationToken()
        self.future: Future[Any] = Future()
        self.future.add_done_callback(self._done)

    def _done(self, future: Future[Any]) -> None:
        if future.cancelled():
            self.token.cancel()

    def on_reply(self, reply: Reply) -> None:
        """Take the first reply that is one to this request."""
        client = self._client
        if reply.ok is None:
            if reply.err is not None:
                self._error = restore(bytes(reply.err.payload), str(reply.err.encoding))
            return
        try:
            octets = reply.ok.attachment
            attachment = read_attachment(None if octets is None else bytes(octets))
            if (attachment.sequence, attachment.gid) != (self._number, client.gid):
                raise DecodeError("attachment: it is that of another request", reading="attachment", offset=0)
            response = client.type.response.decode(reply.ok.payload)
        except ZwireError as error:
            client._refused.add("response", error)  # noqa: SLF001 - a part of the client
            self._error = error
            return
        with contextlib.suppress(InvalidStateError):
            self.future.set_result(response)

    def on_end(self) -> None:
        """Give the error if no response came."""
        if self.future.done():
            return
        error = self._error
        if error is None or str(error) == "Timeout":
            error = TimedOut(f"{self._client.name}: no service answered", seconds=self._timeout)
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)
