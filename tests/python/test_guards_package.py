"""Promises of the package: a light import, and a wrapper and types for each compiled name."""

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import zwire
from zwire import _zwire, capture, zenoh, zre
from zwire.zenoh import ext

ROOT = Path(zwire.__file__).parent

# Runs in a process that has imported nothing else.
PROBE = """
import sys, time
before = set(sys.modules)
start = time.process_time()
import zwire.zenoh
seconds = time.process_time() - start
loaded = sorted(set(sys.modules) - before)
import json, os
print(json.dumps([seconds, loaded, len(os.listdir('/proc/self/task'))]))
"""

# Exports for the package itself; programs use the wrappers built on them.
INNER = {
    "CdrColumns",
    "CdrPlan",
    "CdrSource",
    "column_tables",  # zwire.columns
    "ArrowBatch",
    "HttpServer",
    "MqttHandle",
    "Inbox",
    "Pending",
    "PutSummary",
    "SharedPool",
    "SpoolAnswer",
    "SpoolAppender",
    "SpoolCompactor",
    "SpoolReceiver",
    "SpoolResharding",
    "SpoolRows",
    "SpoolKafka",
    "StorageHandle",
    "ZreBridgeHandle",
    "zre_uuid_of",
    "SpoolServer",
    "SpoolView",
    "SpoolWriter",
    "Stopper",
    "WakeThread",
    "Wakeups",
    "ZmtpEvent",
    "ZmtpSocket",
    "ZreNode",
    "__version__",
    "begin_put",
    "config_check",  # these four: zwire.cli
    "config_explain",
    "tls_authority",
    "tls_certificate",
    "close_all",
    "config_defaults",
    "end_query",
    "end_turn",
    "failure_of",
    "log_close",
    "log_flush",
    "log_has_lines",
    "log_levels",
    "log_limit",
    "log_names",
    "log_reader",
    "log_take",
    "put_batch",
    "spend",
    "without_waiting",
    "zmtp_keypair",
    "zre_keypair",
    "zre_log_hash",
}


def probe():
    out = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, check=True, text=True, timeout=25, cwd=ROOT.parent
    )
    return json.loads(out.stdout)


def test_the_import_is_light():
    # Best of three runs, because other processes of the machine delay some of them.
    seconds, loaded, threads = min(probe() for _ in range(3))
    assert "zwire._zwire" in loaded
    assert threads == 1
    # A module of the standard library costs up to 3 ms. .ci/smoke.py measures the optimized module.
    others = {name for name in loaded if not name.startswith("zwire")}
    assert others <= {"__future__", "atexit"}
    assert {name for name in loaded if name.startswith("zwire")} == {
        "zwire",
        "zwire._zwire",
        "zwire.errors",
        "zwire.zenoh",
        "zwire.zenoh.handlers",
    }
    assert seconds < 0.05


def test_everything_compiled_is_wrapped():
    exported = set(_zwire.__all__)
    assert len(exported) > 30, "the guard has not found the exports"
    assert exported >= INNER
    wrapped = {
        *zenoh.__all__,
        *zenoh.handlers.__all__,
        *zenoh.shm.__all__,
        *ext.__all__,
        *capture.__all__,
        *zre.__all__,
    }
    assert exported - INNER - wrapped == set()


def test_everything_compiled_is_in_the_stub():
    names = set()
    for node in ast.parse((ROOT / "_zwire.pyi").read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
    assert set(_zwire.__all__) - names == {"__version__"}


def test_compiled_classes_cannot_be_changed_by_accident():
    classes = [value for name in _zwire.__all__ if isinstance(value := getattr(_zwire, name), type)]
    assert len(classes) > 30, "the guard has not found the classes"
    assert (ROOT / "py.typed").exists()
    for cls in classes:
        # Without an instance dictionary a misspelt attribute is an error, and objects stay small.
        assert cls.__dictoffset__ == 0, cls


def test_an_archive_that_cannot_be_imported_says_why(tmp_path):
    """Import from an archive, as with `--py-files` of Spark."""
    archive = tmp_path / "zwire.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for file in ROOT.glob("*.py"):
            made.write(file, f"zwire/{file.name}")
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); import zwire"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False
    )
    assert (
        "ImportError: zwire is compiled, and Python imports nothing compiled from an archive" in done.stderr
    )
    assert "--archives" in done.stderr
