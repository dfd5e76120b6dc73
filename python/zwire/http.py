"""HTTP access to a session: REST, server-sent events, counters, and WebSockets for web pages.

Paths are keys, in the form of zenoh-plugin-rest: ``GET /demo/**`` queries, ``PUT`` publishes, ``DELETE``
deletes, and ``GET`` with ``Accept: text/event-stream`` subscribes. Web pages use the module ``/zwire.js``, or
zenoh-ts, over a WebSocket. ``/health``, ``/ready`` and ``/metrics`` are for monitoring. With ``ui`` the
server has a page at ``/`` that shows keys, nodes, links and drops while they change.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from zwire._closing import Closing
from zwire._zwire import HttpServer
from zwire.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from zwire.zenoh import Config, Session

__all__ = [
    "LISTEN",
    "Limits",
    "Server",
    "Tls",
    "Token",
    "configured",
    "serve",
    "with_page",
    "without_servers",
]

LISTEN = "127.0.0.1:8000"
"""Default address: the port of zenoh-plugin-rest, for clients on this machine."""


@dataclass(frozen=True)
class Tls:
    """Files of TLS, in PEM.

    ::

        tls = http.Tls("/etc/zwire/server.pem", "/etc/zwire/server.key", client_ca="/etc/zwire/clients.pem")

        def start(session: zenoh.Session) -> http.Server:
            return http.serve(session, "0.0.0.0:8443", tls=tls)
    """

    certificate: str | os.PathLike[str]
    """Certificate of the server, with its chain up to the authority."""
    private_key: str | os.PathLike[str]
    """Private key of that certificate."""
    client_ca: str | os.PathLike[str] | None = None
    """Authorities of client certificates. If set, clients have to present one."""


@dataclass(frozen=True)
class Token:
    """Bearer token with the user that it stands for."""

    token: str
    """The secret."""
    user: str
    """Name of the user, as in ``access_control/subjects``."""
    expires: float | None = None
    """Seconds since 1970 from which on the token is refused. Streams that it opened end then."""

    def __repr__(self) -> str:
        """Show the user without the secret."""
        return f"Token(user={self.user!r}, expires={self.expires!r})"


@dataclass(frozen=True)
class Limits:
    """Bounds on clients.

    ::

        few = http.Limits(connections=100, streams=10, body=1 << 20)
        with http.serve(session, "127.0.0.1:0", limits=few) as server:
            print(server.url.startswith("http://127.0.0.1:"))  # True
    """

    connections: int = 4096
    """Most connections at once. A new one replaces the one that is without a request for longest."""
    streams: int = 2048
    """Most event streams and WebSockets at once."""
    body: int = 16 << 20
    """Most octets of the body of a request, or of a message of a WebSocket."""


class Server(Closing):
    """Serves a session, from its creation until :meth:`close`. A context manager.

    It does not close the session, and answers 503 once that is closed.
    """

    def __init__(self, session: Session, options: dict[str, Any]) -> None:
        """Start with options as in ``plugins/rest``; :func:`serve` has them as arguments."""
        self._server = HttpServer(session, json.dumps(options))
        self._scheme = "http" if options.get("tls") is None else "https"

    def __repr__(self) -> str:
        """Show the address."""
        return f"Server({self.url!r})"

    @property
    def address(self) -> str:
        """Address that it listens on, ``host:port``."""
        return self._server.address

    @property
    def port(self) -> int:
        """Port that it listens on."""
        return int(self.address.rpartition(":")[2])

    @property
    def url(self) -> str:
        """Address for clients, such as ``http://127.0.0.1:8000``."""
        return f"{self._scheme}://{self.address}"

    def close(self) -> None:
        """Stop listening, and close all connections. A second call does nothing."""
        self._server.close()


def serve(
    session: Session,
    listen: str = LISTEN,
    *,
    rest: bool = True,
    websocket: bool = True,
    ui: bool | Literal["write"] = False,
    read_only: bool = False,
    tls: Tls | None = None,
    origins: Iterable[str] = ("*",),
    tokens: Iterable[Token] = (),
    anonymous: bool | None = None,
    gzip: bool = True,
    limits: Limits | None = None,
) -> Server:
    """Serve a session to clients of HTTP and WebSockets.

    The rules of ``access_control`` apply to each request as if it came by a link of its user.

    Args:
        session: The session. Clients read and write with its id.
        listen: Address to listen on; port 0 takes a free one.
        rest: Whether keys are read and written by HTTP.
        websocket: Whether WebSockets with the remote API are accepted, and ``/zwire.js`` is served.
        ui: Whether the live page is served at ``/``; ``"write"`` for a page that also publishes.
        read_only: Whether publications, queryables and liveliness tokens of clients are refused.
        tls: Certificate and key. Without them the server is in clear.
        origins: Origins of web pages with scripts that may use the server, such as ``https://dash.example``;
            ``*`` for all.
        tokens: Bearer tokens with their users. Users of ``transport/auth/usrpwd`` may log in with their
            password.
        anonymous: Whether requests without a user are accepted. By default only if there are no tokens.
        gzip: Whether answers are compressed for clients that accept it.
        limits: Bounds on clients.

    Raises:
        ConnectError: The address cannot be listened on.
        UsageError: An option is not accepted, or a certificate cannot be used.
        SessionClosed: The session is closed.
    """
    options: dict[str, Any] = {
        "http_port": listen,
        "rest": rest,
        "websocket": websocket,
        "ui": ui,
        "read_only": read_only,
        "origins": _texts(origins, "origins"),
        "tokens": [asdict(token) for token in tokens],
        "anonymous": anonymous,
        "gzip": gzip,
        "limits": asdict(limits or Limits()),
    }
    if tls is not None:
        files = {name: value and str(value) for name, value in asdict(tls).items()}
        options["tls"] = {name: value for name, value in files.items() if value is not None}
    return Server(session, options)


def configured(session: Session, config: Config) -> list[Server]:
    """Start the servers that a configuration asks for: ``plugins/rest`` and ``plugins/remote_api``.

    Args:
        session: The session to serve.
        config: Configuration with the sections. A section without a port starts no server.

    Raises:
        ConfigError: A section is not accepted.
        ConnectError: An address cannot be listened on.
    """
    found: list[Server] = []
    try:
        for section, options in _sections(config).items():
            try:
                found.append(Server(session, options))
            except UsageError as error:
                raise ConfigError(str(error), path=f"plugins/{section}") from error
    except BaseException:
        for server in found:
            server.close()
        raise
    return found


def _plugins(config: Config) -> dict[str, Any]:
    plugins: Any = json.loads(config.get_json("plugins")) or {}
    if not isinstance(plugins, dict):
        raise ConfigError("`plugins`: expected an object with a section for each plugin", path="plugins")
    return plugins


def _sections(config: Config) -> dict[str, dict[str, Any]]:
    """Return the options of each server by its section."""
    plugins = _plugins(config)
    found: dict[str, dict[str, Any]] = {}
    rest = plugins.get("rest")
    if isinstance(rest, dict) and rest.get("http_port") not in (None, "none"):
        found["rest"] = rest
    elif isinstance(rest, dict) and rest.get("__required__") is True and rest.get("http_port") is None:
        path = "plugins/rest/http_port"
        raise ConfigError(f"`{path}`: a required server needs a port: --rest-http-port 8000", path=path)
    remote = plugins.get("remote_api")
    if isinstance(remote, dict):
        options = {name: value for name, value in remote.items() if name != "websocket_port"}
        options["http_port"] = remote.get("websocket_port", "[::]:10000")
        options.setdefault("rest", False)
        if (tls := options.pop("secure_websocket", None)) is not None:
            options["tls"] = tls
        found["remote_api"] = options
    return found


def without_servers(config: Config) -> Config:
    """Return a configuration without the sections that :func:`configured` reads, which no session acts on.

    Raises:
        ConfigError: ``plugins`` is not an object, or a required server has no port.
    """
    _sections(config)
    rest = {name: part for name, part in _plugins(config).items() if name not in ("rest", "remote_api")}
    left = type(config)(config)
    left.insert_json5("plugins", json.dumps(rest))
    return left


def with_page(config: Config, *, write: bool = False) -> None:
    """Add the live page to a configuration: to the server of ``plugins/rest``, or to one for the page alone.

    The latter listens on :data:`LISTEN`, serves WebSockets to its own page, and refuses publications unless
    the page may ``write``.

    Raises:
        ConfigError: ``plugins`` is not an object.
    """
    rest = _plugins(config).get("rest") or {}
    if not isinstance(rest, dict):
        raise ConfigError("`plugins/rest`: expected an object", path="plugins/rest")
    if rest.get("http_port") in (None, "none"):
        alone = {"http_port": LISTEN, "rest": False, "origins": [], "read_only": not write}
        rest = {**alone, **{name: value for name, value in rest.items() if name != "http_port"}}
    config.insert_json5("plugins/rest", json.dumps({**rest, "ui": "write" if write else True}))


def _texts(values: Iterable[str], name: str) -> list[str]:
    if isinstance(values, str):
        raise UsageError(f"{name}: expected a list of texts, not one text")
    return list(values)
