"""The blocks of the documentation, found and run: ``python tests/snippets.py docs/guide/ready.md``.

A page runs from top to bottom, in one interpreter and one folder with nothing in it but ``examples``:

- ``python`` runs, all blocks of a page with the same names;
- ``console`` runs each line behind ``$``; where output is shown, it has to come, ``...`` for what varies;
- ``sh`` runs as one script, which has to succeed;
- ``json5`` is read as the configuration of a session.

A comment above a block describes its special treatment:

- ``<!-- not run: REASON -->``: nothing checks this one;
- ``<!-- output -->``: the block is what the ``python`` block before it has printed;
- ``<!-- raises: NAME -->``: the ``python`` block ends with this exception;
- ``<!-- stays -->``: a terminal of its own; the one command of this ``console`` block goes on beside what
  follows, and what it is to print has to be there at the end of the page;
- ``<!-- needs: COMMAND; COMMAND -->``: these run beside the page, from here on;
- ``<!-- run by FILE -->``: another test has what it needs. At the top of a page it holds for all of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import faulthandler
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Time limits in seconds: for a whole page, for a command, and for the output of a background command.
PAGE, COMMAND, PATIENCE = 25, 20, 10

RUN = {"python", "console", "sh", "json5"}
SHOWN = {"text", "toml", "rust", "make"}

_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^>]*?) -->\n+)?(?P<tics>```+|:::+)(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=tics)$",
    re.DOTALL | re.MULTILINE,
)
_MARK = re.compile(r"(not run|raises|needs|run by):? (.+)|output|stays", re.DOTALL)
_PAGE_BY = re.compile(r"\A# .*\n\n<!-- run by (\S+) -->\n\n")


@dataclasses.dataclass
class Block:
    """A fenced block: ``mark`` is the word of the comment above it, ``detail`` what follows."""

    line: int
    language: str
    text: str
    mark: str = ""
    detail: str = ""


def pages():
    """All pages with blocks to run, as paths from the root."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
    found += sorted((ROOT / "examples").rglob("README.md"))
    found += sorted((ROOT / "docs").rglob("*.md"))
    return [str(path.relative_to(ROOT)) for path in found if "_build" not in path.parts]


def blocks(page):
    """The blocks of a page; ``ValueError`` for an unknown kind."""
    text = (ROOT / page).read_text(encoding="utf-8")
    everywhere = _PAGE_BY.match(text)
    found = []
    for fence in _FENCE.finditer(text):
        language = fence["language"].strip()
        line = text.count("\n", 0, fence.start("text")) + 1
        where = f"{page}:{line}"
        if language.startswith("{"):  # a directive of Sphinx
            continue
        if language not in RUN | SHOWN:
            raise ValueError(f"{where}: blocks of {language or 'no language'!r} are not known")
        block = Block(line, language, fence["text"])
        comment = (fence["mark"] or "").strip()
        if mark := _MARK.fullmatch(comment):
            block.mark = mark[1] or comment
            block.detail = mark[2] or ""
        elif comment.split(":")[0] in {"not run", "raises", "needs", "run by", "output", "stays"}:
            raise ValueError(f"{where}: {comment!r} says too little or too much")
        if everywhere and not block.mark:
            block.mark, block.detail = "run by", everywhere[1]
        found.append(block)
    return found


def to_run(page, by=None):
    """The blocks to run: here, or in the test ``by``."""
    found = [b for b in blocks(page) if b.mark != "not run" and (b.language in RUN or b.mark == "output")]
    return [b for b in found if (b.detail if b.mark == "run by" else None) == by]


def module(page, first=""):
    """The Python blocks of a page as one module, each line at its place; ``first`` is the first line."""
    lines = [first]
    for block in blocks(page):
        if block.language == "python" and block.mark != "not run":
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def same(expected, got):
    """Whether the output equals the one shown."""
    return doctest.OutputChecker().check_output(
        expected, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )


class Background:
    """A command that runs beside the page."""

    def __init__(self, command, expected, environment):
        self.command, self.expected = command, expected
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        # Each program of ours prints in its first line that it is ready.
        self.await_output(lambda: "\n" in self.so_far())

    def so_far(self):
        self.output.seek(0)
        return self.output.read()

    def await_output(self, done):
        end = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > end or self.process.poll() not in {None, 0}:
                raise AssertionError(f"$ {self.command}\nexpected:\n{self.expected}\ngot:\n{self.so_far()}")
            time.sleep(0.01)

    def end(self):
        try:
            if self.expected:
                self.await_output(lambda: same(self.expected, self.so_far()))
        finally:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
            finally:
                self.output.close()


class Runner:
    """Runs the blocks of one page."""

    def __init__(self, page, names=None):
        self.page = page
        # An existing module: dataclasses and pickle look their names up in it.
        self.module = types.ModuleType("__main__")
        self.module.__dict__.update(names or {})
        self.printed = ""
        self.stack = contextlib.ExitStack()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return self.stack.__exit__(kind, error, trace)

    def run(self, block):
        """Run one block; raise if the result differs from the page."""
        if block.mark == "needs":
            for command in block.detail.split(";"):
                self.start(command.strip(), "")
        if block.mark == "output":
            if not same(block.text, self.printed):
                raise AssertionError(f"expected:\n{block.text}\ngot:\n{self.printed}")
        else:
            getattr(self, block.language)(block)

    def start(self, command, expected):
        self.stack.callback(Background(command, expected, self.environment).end)

    def python(self, block):
        # Tracebacks shall name the lines of the page.
        code = compile("\n" * (block.line - 1) + block.text, str(ROOT / self.page), "exec")
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, self.module.__dict__)
        except Exception as error:
            if block.mark != "raises" or type(error).__name__ != block.detail:
                raise
        else:
            assert block.mark != "raises", f"{block.detail} was not raised"
        self.printed = printed.getvalue()

    def console(self, block):
        commands = re.findall(r"^\$ (.*(?:\\\n.*)*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
        assert commands, "nothing behind a `$`"
        if block.mark == "stays":
            ((command, expected),) = commands
            self.start(command, expected)
            return
        for command, expected in commands:
            got = self.command(command, check=not expected)
            if expected and not same(expected, got):
                raise AssertionError(f"$ {command}\nexpected:\n{expected}\ngot:\n{got}")

    def sh(self, block):
        self.command(f"set -eu\n{block.text}", check=True)

    def command(self, text, *, check):
        done = subprocess.run(
            ["bash", "-c", text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND,
            env=self.environment,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{text}\nexit code {done.returncode}:\n{done.stdout}")
        return done.stdout

    def json5(self, block):
        from zwire import zenoh

        zenoh.Config.from_json5(block.text)


def main(page):
    """Run a page; the first line of an error names the block."""
    faulthandler.dump_traceback_later(PAGE, exit=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), Runner(page) as runner:
        Path("examples").symlink_to(ROOT / "examples")
        before, sys.modules["__main__"] = sys.modules["__main__"], runner.module
        try:
            for block in to_run(page):
                try:
                    runner.run(block)
                except BaseException:
                    print(f"{page}:{block.line}: this block does not do what it says", file=sys.stderr)
                    raise
        finally:
            sys.modules["__main__"] = before


if __name__ == "__main__":
    main(sys.argv[1])
