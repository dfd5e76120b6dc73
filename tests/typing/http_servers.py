"""The types of ``zwire.http``."""

from typing import assert_type

from zwire import http, zenoh


def serve(session: zenoh.Session, config: zenoh.Config) -> None:
    tokens = [http.Token("secret", "ann", expires=1.5)]
    with http.serve(session, "127.0.0.1:0", tls=http.Tls("a", "b"), tokens=tokens, origins=("*",)) as server:
        assert_type(server, http.Server)
        assert_type(server.url, str)
        assert_type(server.port, int)
    http.serve(session, limits=http.Limits(connections=10), anonymous=True, gzip=False, rest=False).close()
    assert_type(http.configured(session, config), list[http.Server])
    assert_type(http.without_servers(config), zenoh.Config)
    http.serve(session, limits=10)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
