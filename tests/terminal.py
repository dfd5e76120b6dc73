"""Commands on a terminal of their own."""

from __future__ import annotations

import os
import pty
import subprocess


def shown(command, **options):
    """What a command writes to a terminal that is its standard error; it must succeed."""
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stderr=follower, **options) as process:
        os.close(follower)
        seen = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # Linux: nobody has the other end any more
                break
            if not piece:
                break
            seen += piece
        assert process.wait(timeout=20) == 0
    os.close(leader)
    return seen
