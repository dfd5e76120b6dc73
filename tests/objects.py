"""A server of S3 that fails on demand: `python tests/objects.py [ADDRESS]` prints its port, serves buckets.

A fault is a dict that a POST to `/faults` adds: requests with this `method` and these words in their `path`
fail `times` times. `status` and `code` are those of the answer; with `lost` the request is carried out first.
`torn` stores the first half of a body, and says that all is well; `cut` ends an answer in its middle.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Store:
    """The server, as tests see it."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self.endpoint = f"http://{address}:{port}"
        self.env = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send a request with a signature that moto does not check."""
        request = urllib.request.Request(f"{self.endpoint}{path}", data=body, method=method)
        date = "20260101/us-east-1/s3/aws4_request"
        signed = f"AWS4-HMAC-SHA256 Credential=key/{date}, SignedHeaders=host, Signature=0"
        request.add_header("Authorization", signed)
        request.add_header("Content-Type", "application/octet-stream")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()

    def bucket(self, name: str) -> str:
        """Make a bucket; return an address in it."""
        self.call("PUT", f"/{name}")
        return f"s3://{name}/a/spool"

    def fail(self, method: str, path: str = "", times: int = 1 << 30, **what: Any) -> None:
        """Add a fault."""
        fault = {"method": method, "path": path, "times": times, **what}
        self.call("POST", "/faults", json.dumps(fault).encode())

    def heal(self) -> dict[str, int]:
        """Remove all faults; return how often each kind has struck."""
        return json.loads(self.call("DELETE", "/faults"))


@contextlib.contextmanager
def store() -> Iterator[Store]:
    """Run a server."""
    server = subprocess.Popen([sys.executable, Path(__file__)], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdin is not None
    try:
        yield Store(int(server.stdout.readline()))
    finally:
        # It ends with its standard input.
        server.stdin.close()
        server.stdout.close()
        server.wait(10)


class Faulty:
    """The application of moto, with faults."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.faults: list[dict[str, Any]] = []
        self.struck: dict[str, int] = {}
        self.lock = threading.Lock()

    def find(self, method: str, path: str) -> dict[str, Any] | None:
        with self.lock:
            for fault in self.faults:
                if fault["times"] > 0 and fault["method"] == method and fault["path"] in path:
                    fault["times"] -= 1
                    kind = str(fault.get("code") or next(k for k in ("torn", "cut") if k in fault))
                    self.struck[kind] = self.struck.get(kind, 0) + 1
                    return fault
        return None

    def control(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with self.lock:
            answer = json.dumps(self.struck).encode()
            if environ["REQUEST_METHOD"] == "POST":
                self.faults.append(json.loads(body))
            else:
                self.faults, self.struck = [], {}
        start("200 OK", [("Content-Length", str(len(answer)))])
        return [answer]

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/faults":
            return self.control(environ, start)
        fault = self.find(environ["REQUEST_METHOD"], path)
        if fault is None:
            return self.inner(environ, start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if "torn" in fault:
            body = body[: len(body) // 2]
            environ["CONTENT_LENGTH"] = str(len(body))
        environ["wsgi.input"] = io.BytesIO(body)
        if "status" in fault:
            if fault.get("lost"):
                for _ in self.inner(environ, lambda *_: None):
                    pass
            said = f"<Error><Code>{fault['code']}</Code><Message>as the test wants it</Message></Error>"
            start(f"{fault['status']} {fault['code']}", [("Content-Type", "application/xml")])
            return [b'<?xml version="1.0" encoding="UTF-8"?>\n', said.encode()]
        answer = b"".join(self.inner(environ, start))
        return [answer[: len(answer) // 2]] if "cut" in fault else [answer]


def serve() -> None:
    """Serve until standard input ends."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            pass

    app = Faulty(DomainDispatcherApplication(create_backend_app))
    address = sys.argv[1] if sys.argv[1:] else "127.0.0.1"
    server = make_server(address, 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()
