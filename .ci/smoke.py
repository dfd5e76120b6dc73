"""Uses an installed wheel: ``python -I .ci/smoke.py [--emulated]``, outside of the source tree.

Two sessions publish, subscribe and query over loopback, the capture of one of them is decoded, and the SBOM
is compared with the crates that the compiled module names. With an emulated processor, the time of the
import is not judged.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from zwire import zenoh
from zwire.capture import decode

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 20.0
# Milliseconds of `import zwire.zenoh` that no machine may exceed; about 3 are normal.
SLOW_IMPORT = 20.0
IMPORT = "import time; a = time.perf_counter(); import zwire.zenoh; print(1e3 * (time.perf_counter() - a))"


def eventually(what: str, condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {PATIENCE:g} s")
        time.sleep(0.01)


def config(**settings: object) -> zenoh.Config:
    """Return a configuration without discovery; ``__`` stands for ``/``."""
    result = zenoh.Config()
    settings = {"scouting__multicast__enabled": False, "scouting__gossip__enabled": False, **settings}
    for key, value in settings.items():
        result.insert_json5(key.replace("__", "/"), json.dumps(value))
    return result


def messages(capture: Path) -> None:
    """Publish, subscribe, query, and decode the capture of it."""
    first = config(mode="peer", listen__endpoints=["tcp/127.0.0.1:0"], zwire__tap=str(capture))
    with zenoh.open(first) as server:
        received: list[bytes] = []
        server.declare_subscriber("smoke/*", lambda sample: received.append(bytes(sample.payload)))
        server.declare_queryable("smoke/asked", lambda query: query.reply("smoke/asked", b"answered"))
        with zenoh.open(config(mode="client", connect__endpoints=server.listening())) as client:

            def arrives() -> bool:
                # The first ones may be earlier than the declaration of the subscriber.
                client.put("smoke/one", b"by the wheel")
                return b"by the wheel" in received

            eventually("a publication", arrives)
            replies = [bytes(reply.ok.payload) for reply in client.get("smoke/asked") if reply.ok]
            assert replies == [b"answered"], replies
    text = "".join(part.decode() for part in iter(decode(capture).text, b""))
    assert "smoke/one" in text, text
    print(f"published, queried, and decoded {len(text.splitlines())} messages of the capture")


def imported(*, judged: bool) -> None:
    """Measure the import in new interpreters."""
    command = [sys.executable, "-I", "-c", IMPORT]
    times = [float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(20)]
    print(f"import zwire.zenoh: {min(times):.1f} ms, the best of {len(times)}")
    assert not judged or min(times) < SLOW_IMPORT


def sbom() -> None:
    """Compare the SBOM with the crates that texts of the compiled module name."""
    installed = files("zwire") or []
    (module,) = (file.read_binary() for file in installed if file.name.endswith((".abi3.so", ".pyd")))
    (bill,) = (json.loads(file.read_binary()) for file in installed if file.name == "zwire.cdx.json")
    linked = {(c["name"], c["version"]) for c in bill["components"] if c["scope"] == "required"}
    # Texts of panics name files of crates; .ci/wheel replaces the folder of the registry by this one.
    found = re.findall(rb"/cargo[/\\]+([\w-]+?)-(\d+\.\d+\.[^/\\]+)[/\\]", module)
    named = {(name.decode(), version.decode()) for name, version in found}
    assert len(named) > 10, f"the module names {len(named)} crates"
    assert named <= linked, f"not in the SBOM: {named - linked}"
    assert f"{Path.home()}/".encode() not in module, "the module names a path of this machine"
    print(f"the SBOM lists all {len(named)} crates that texts of the module name")


def main() -> None:
    """Use the wheel."""
    assert zenoh.KeyExpr("demo/**").intersects(zenoh.KeyExpr("demo/a/b"))
    # Spark finds its data sources by the names of modules.
    assert find_spec("pyspark_zwire")
    print(f"zwire works from {zenoh.__file__} with Python {sys.version.split()[0]} on {sys.platform}")
    with tempfile.TemporaryDirectory() as folder:
        messages(Path(folder) / "capture.pcap")
    imported(judged="--emulated" not in sys.argv)
    sbom()


if __name__ == "__main__":
    main()
