"""Prints its endpoints, one per line, as soon as clients can connect, and runs until SIGINT or SIGTERM.

It takes the options and configuration files of zenohd. SIGHUP reads the file again.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import logging
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, cast

from zwire import __version__, http, zenoh
from zwire.bridge import zre as bridge
from zwire.cli import _log, _options
from zwire.errors import ConfigError, ZwireError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from types import FrameType

EPILOG = """\
examples:
  zwire router
      a hub for this machine, on tcp/127.0.0.1:7447
  zwire router --listen tcp/0.0.0.0:7447
      a hub for the network
  zwire router -c /etc/zenohd/zenohd.json5 --cfg 'metadata:{site: "attic"}'
      a configuration of zenohd, and one more key
  zwire router --rest-http-port 8000
      a hub that browsers and curl reach as well: GET, PUT, DELETE, events, WebSockets
  zwire router --ui
      a hub with a page at http://127.0.0.1:8000/ that shows its keys, nodes, links and drops
  zwire router --listen tcp/127.0.0.1:0 --tap hub.pcap
      a hub on a free port that writes all its traffic to a capture
"""

# A signal that reaches another thread, or this one just before it sleeps, is handled when the sleep ends.
_LOOK_SECONDS = 0.2

_PERMISSIONS = {"r": (True, False), "w": (False, True), "rw": (True, True), "none": (False, False)}
"""Words of ``--adminspace-permissions``: whether the admin space may be read, and written."""

_SECTIONS = ("rest", "remote_api", "zre")
"""Sections of ``plugins`` with HTTP servers or bridges."""

_FAILED = object()
"""In the place of the section of a server that could not start: it differs from each section."""

_LEVEL = "zwire/log/level"
"""Key of the level of the log, which may change while the router runs."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    _options.add_network(parser, router=True)
    group = parser.add_argument_group("router", "The options of zenohd, with their meaning.")
    group.add_argument("-i", "--id", metavar="HEX", help="id of the node: lower-case hexadecimal digits")
    _options.add_several(
        group,
        "-P",
        "--plugin",
        metavar="NAME[:PATH]",
        help="require a plugin: the router ends if nothing here does its work; PATH is ignored",
    )
    _options.add_several(
        group, "--plugin-search-dir", metavar="PATH", help="accepted without effect: plugins are built in"
    )
    group.add_argument(
        "--no-timestamp", action="store_true", help="do not stamp publications that have no stamp"
    )
    group.add_argument(
        "--no-multicast-scouting", action="store_true", help="do not look for nodes by multicast, nor answer"
    )
    group.add_argument(
        "--rest-http-port",
        metavar="[HOST:]PORT",
        help="serve HTTP and WebSockets, on all addresses without a host; plugins/rest has more options",
    )
    group.add_argument(
        "--ui",
        action="store_true",
        help=f"serve the live page: on the port of --rest-http-port, else on {http.LISTEN}",
    )
    group.add_argument("--ui-write", action="store_true", help="--ui with a page that also publishes")
    group.add_argument(
        "--adminspace-permissions",
        choices=_PERMISSIONS,
        metavar="r|w|rw|none",
        help="whether the admin space may be read and written (default: r)",
    )
    group.add_argument(
        "--authoriser",
        metavar="MODULE:FUNCTION",
        help="ask a Python function about messages which no rule of access control is about",
    )
    group.add_argument("-V", action="version", version=f"zwire {__version__}", help="print the version")


def router_config(args: argparse.Namespace) -> zenoh.Config:
    """Return the configuration that file and options describe, applied in the order of zenohd."""
    inline = [text for text in args.cfg if text.partition(":")[:2] == ("", ":")]
    config = zenoh.Config()
    if inline:
        # As in zenohd, a whole configuration on the command line takes the place of the file.
        config = zenoh.Config.from_json5(inline[-1][1:])
    elif args.config is not None:
        config = zenoh.Config.from_file(args.config)
    elif not args.listen:
        args.listen = [_options.DEFAULT_ENDPOINT]
    if args.mode is not None or not _options.given(config, "mode"):
        _set(config, "mode", args.mode or "router")
    _set(config, "id", args.id)
    if args.rest_http_port not in {None, "none"}:
        _set(config, "plugins/rest/http_port", args.rest_http_port)
        _set(config, "plugins/rest/__required__", value=True)
    if args.ui or args.ui_write:
        http.with_page(config, write=args.ui_write)
    config.insert_json5("adminspace/enabled", "true")
    for plugin in args.plugin:
        name, _, path = plugin.partition(":")
        _set(config, f"plugins/{name}/__required__", value=True)
        _set(config, f"plugins/{name}/__path__", path or None)
    _set(config, "plugins_loading/search_dirs", args.plugin_search_dir or None)
    for key, endpoints in (("connect/endpoints", args.connect), ("listen/endpoints", args.listen)):
        if endpoints and endpoints[-1].lstrip().startswith(("{", "[")):
            config.insert_json5(key, endpoints[-1])
        elif endpoints:
            _set(config, key, endpoints)
    _set(config, "timestamping/enabled", False if args.no_timestamp else None)
    _set(config, "scouting/multicast/enabled", False if args.no_multicast_scouting else None)
    if args.adminspace_permissions is not None:
        read, write = _PERMISSIONS[args.adminspace_permissions]
        config.insert_json5("adminspace/permissions", {"read": read, "write": write})
    if args.tap is not None:
        _set(config, "zwire/tap", str(args.tap))
    _options.apply_keys(config, [text for text in args.cfg if text not in inline])
    # A file of zenohd may ask for a peer; a client has no use for this command.
    if (mode := json.loads(config.get_json("mode"))) == "client":
        raise ConfigError(f'a hub has mode "router" or "peer", not "{mode}"', path="mode")
    _options.check_endpoints(config)
    return config


def _authoriser(name: str | None) -> Callable[[zenoh.AccessRequest], bool] | None:
    """Return the function of ``--authoriser``; its module may be in the present folder."""
    if name is None:
        return None
    module, _, path = name.partition(":")
    sys.path.insert(0, "")
    try:
        found: Any = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"--authoriser {name}: expected MODULE:FUNCTION: {error}") from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise ConfigError(f"--authoriser {name}: a {type(found).__name__} cannot be called")
    return cast("Callable[[zenoh.AccessRequest], bool]", found)


def _set(config: zenoh.Config, key: str, value: object) -> None:
    """Set a key; None leaves it as it is."""
    if value is not None:
        config.insert_json5(key, json.dumps(value))


def _level(session: zenoh.Session, args: argparse.Namespace) -> int | None:
    """Return the level that the configuration gives the log; None where options of the command decide."""
    word = json.loads(session.config().get_json(_LEVEL))
    return None if word is None or args.log_level or args.verbose else _log.LEVELS[word]


class _Servers:
    """HTTP servers and bridges of the router by their sections of the configuration."""

    def __init__(self, session: zenoh.Session, config: zenoh.Config) -> None:
        """Start the servers that a configuration asks for; an error ends those that run already."""
        self._session = session
        self._running: dict[str, tuple[object, list[http.Server] | list[bridge.Bridge]]] = {}
        try:
            for name in _SECTIONS:
                self._start(name, config)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, config: zenoh.Config) -> None:
        section = _section(config, name)
        only = zenoh.Config()
        _set(only, "plugins", {name: section})
        configured = bridge.configured if name == "zre" else http.configured
        self._running[name] = section, configured(self._session, only)

    def urls(self) -> list[str]:
        """Addresses of the servers."""
        return [server.url for server in self._http()]

    def _http(self) -> list[http.Server]:
        started = [server for _, servers in self._running.values() for server in servers]
        return [server for server in started if isinstance(server, http.Server)]

    def pages(self) -> list[str]:
        """Addresses of the servers with a live page."""
        found = []
        for section, servers in self._running.values():
            if isinstance(section, dict) and section.get("ui"):
                found += [server.url for server in servers if isinstance(server, http.Server)]
        return found

    def reload(self, config: zenoh.Config) -> list[str]:
        """Replace what has a changed section; return the sections for which nothing runs now."""
        failed = []
        for name in _SECTIONS:
            before, servers = self._running.get(name, (_FAILED, []))
            if before == _section(config, name):
                continue
            # The new one may have the same port. What the old one allows may be what the change takes away.
            for server in servers:
                server.close()
            self._running.pop(name, None)
            try:
                self._start(name, config)
            except ZwireError as error:
                failed.append(f"plugins/{name}: {error}")
        return failed

    def close(self) -> None:
        """Close servers and bridges."""
        for _, servers in self._running.values():
            for server in servers:
                server.close()


def _without_servers(config: zenoh.Config) -> zenoh.Config:
    """Return the configuration of the session itself."""
    return bridge.without_bridges(http.without_servers(config))


def _section(config: zenoh.Config, name: str) -> object:
    """Return a section of ``plugins``; None if there is none."""
    plugins = json.loads(config.get_json("plugins")) or {}
    return plugins.get(name)


def _reload(session: zenoh.Session, servers: _Servers, args: argparse.Namespace) -> None:
    """Read the file again and apply what can change while the router runs."""
    logger = logging.getLogger("zwire.zenoh.session")
    try:
        config = router_config(args)
        restart = session.reconfigure(_without_servers(config))
    except (ConfigError, OSError) as error:
        logger.warning("SIGHUP: the configuration is as before: %s", error)
        return
    if restart:
        logger.warning("SIGHUP: these keys differ in the file, and need a restart: %s", ", ".join(restart))
    for problem in servers.reload(config):
        logger.error("SIGHUP: nothing runs for this section until it is corrected: %s", problem)
    _options.say("the configuration was read again")


def run(args: argparse.Namespace) -> int:
    """Run the hub until it is interrupted."""
    # No Event: a handler that interrupts `clear` would wait for the lock of the event, held by this thread.
    again = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal again
        again = True

    # First of all: without it SIGHUP would end a router that is starting.
    before = signal.signal(signal.SIGHUP, note) if hasattr(signal, "SIGHUP") else None
    logger = logging.getLogger("zwire")
    try:
        config = router_config(args)
        authoriser = _authoriser(args.authoriser)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_options.running(endless=True))
            opened = zenoh.open(_without_servers(config), authoriser=authoriser)
            session = stack.enter_context(opened)
            servers = stack.enter_context(contextlib.closing(_Servers(session, config)))
            _options.show(*session.listening(), *servers.urls())
            mode = json.loads(config.get_json("mode"))
            for url in servers.pages():
                _options.say(f"the live page is at {url}/")
            _options.say(f"{'hub' if mode == 'router' else mode} {session.zid()} is ready, Ctrl-C ends it")
            while True:
                if (level := _level(session, args)) is not None and level != logger.level:
                    logger.setLevel(level)
                if again:
                    again = False
                    _reload(session, servers, args)
                # No wait for an Event: a signal within its Python code can raise RuntimeError for its lock.
                time.sleep(_LOOK_SECONDS)
    finally:
        if before is not None:
            signal.signal(signal.SIGHUP, before)
    return 0
