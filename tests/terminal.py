"""Commands in a process of their own."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys


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
