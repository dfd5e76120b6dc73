"""Runs a build by cargo and tells how far it is: ``python3 .ci/progress.py COMMAND...``.

Cargo names each crate that it begins to compile. One line says how many of them have begun, of how many, and
for how long: it is renewed on a terminal, and printed every 15 seconds elsewhere. The output of a build that
fails follows; the exit code is that of the command.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time

# Seconds between two lines: on a terminal, where the line is renewed, and in a log.
EVERY = {True: 0.5, False: 15.0}

_BEGUN = re.compile(r"\s*Compiling (\S+) v")


def crates() -> int:
    """Return the number of crates in the extension, or 0 if cargo cannot tell."""
    command = ["cargo", "tree", "--locked", "--package", "zwire-py", "--edges", "normal,build"]
    try:
        done = subprocess.run(
            [*command, "--prefix", "none", "--format", "{p}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return len({line.removesuffix(" (*)") for line in done.stdout.splitlines() if line})


def line(begun: int, of: int, last: str, seconds: float) -> str:
    """Return the line that says how far the build is."""
    took = f"{seconds // 60:.0f}:{seconds % 60:02.0f}"
    if not begun:
        return f"   {took}  reading what is built already"
    whole = f" of at most {of}" if of >= begun else ""
    if last == "zwire-py":
        return f"   {took}  compiling zwire-py, the last crate: to optimize it takes minutes"
    return f"   {took}  compiling crate {begun}{whole}: {last}"


def main(command: list[str]) -> int:
    """Run a command, and show its progress."""
    if not command:
        print("usage: progress.py COMMAND...", file=sys.stderr)
        return 2
    terminal = sys.stderr.isatty()
    of, begun, last = crates(), 0, ""
    output: list[str] = []
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(EVERY[terminal]):
            text = line(begun, of, last, time.monotonic() - started)
            sys.stderr.write(f"\r\x1b[K{text[:100]}" if terminal else f"{text}\n")
            sys.stderr.flush()

    thread = threading.Thread(target=show)
    thread.start()
    assert process.stdout is not None
    try:
        for text in process.stdout:
            output.append(text)
            if found := _BEGUN.match(text):
                begun, last = begun + 1, found[1]
        code = process.wait()
    finally:
        ended.set()
        thread.join()
        if terminal:
            sys.stderr.write("\r\x1b[K")
    if code:
        sys.stderr.writelines(output)
    elif begun:
        sys.stderr.write(f"   compiled {begun} crates in {time.monotonic() - started:.0f} s\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
