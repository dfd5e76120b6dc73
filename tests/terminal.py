"""Commands in a process of their own."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

from nodes import eventually


def shown(command, **options):
    """The output of a command on a terminal that is its standard error; it must succeed."""
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stderr=follower, **options) as process:
        os.close(follower)
        seen = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # Linux: the other end is closed
                break
            if not piece:
                break
            seen += piece
        assert process.wait(timeout=20) == 0
    os.close(leader)
    return seen


def handles_signals(process):
    """Wait until a command has its handlers: a signal before that ends the interpreter while it starts."""
    status = Path(f"/proc/{process.pid}/status")

    def has_handlers():
        (caught,) = re.findall(r"^SigCgt:\s*(\w+)$", status.read_text(), re.MULTILINE)
        return int(caught, 16) >> (signal.SIGTERM - 1) & 1

    eventually(has_handlers, "a handler of SIGTERM")


@contextlib.contextmanager
def running(*arguments):
    """Run `zwire` with these arguments until SIGTERM; yield its first line. It must succeed."""
    process = subprocess.Popen([sys.executable, "-m", "zwire", *arguments], stderr=subprocess.PIPE, text=True)
    try:
        yield process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.wait()
