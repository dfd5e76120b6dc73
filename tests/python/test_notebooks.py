"""The tutorials run as they stand; ``notebooks.py`` has how. That of Spark is run by ``tests/spark``."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

import notebooks
import snippets

ELSEWHERE = dict.fromkeys(("mcap-to-spark", "bag-to-lakehouse"), "tests/spark/test_notebooks.py")

BOOKS = sorted(path for path in notebooks.FOLDER.glob("*.ipynb") if path.stem not in ELSEWHERE)

PATH = [snippets.ROOT / "tests"]

# A cell that hangs is named by its traceback.
RUN = (
    "import faulthandler, pathlib, sys, notebooks; faulthandler.dump_traceback_later(45, exit=True); "
    "notebooks.run(pathlib.Path(sys.argv[1]))"
)


def test_the_tutorials_are_found():
    assert {"fleet-dashboard", "asyncio-service", "zre-processes"} == {path.stem for path in BOOKS}
    for name, other in ELSEWHERE.items():
        assert f'"{name}.ipynb"' in (snippets.ROOT / other).read_text()


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_the_tutorial_runs(path, tmp_path):
    command = [sys.executable, "-W", "error", "-c", RUN, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, PATH), *sys.path])}
    with (
        (tmp_path / "said").open("w+") as said,
        subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=said, stderr=said, start_new_session=True
        ) as process,
    ):
        try:
            code = process.wait(timeout=50)
        finally:
            # Also what a failed notebook has started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        said.seek(0)
        assert code == 0, said.read()


@pytest.mark.parametrize(
    ("source", "output"), [("assert False", ""), ("print(1)", "2\n"), ("print(1)", ""), ("await 1", "")]
)
def test_a_cell_that_does_not_do_what_it_shows_is_seen(tmp_path, source, output):
    outputs = [{"name": "stdout", "output_type": "stream", "text": [output]}] if output else []
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": outputs, "source": [source]}
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    with pytest.raises((AssertionError, TypeError)):
        notebooks.run(path)


def test_cells_share_names_and_their_loop(tmp_path):
    sources = [
        "import asyncio\nhere = asyncio.get_running_loop()\nawait asyncio.sleep(0)",
        "async def same():\n    return asyncio.get_running_loop() is here\n\nprint(await same())",
    ]
    made = [
        {"cell_type": "code", "id": str(n), "metadata": {}, "outputs": [], "source": [text]}
        for n, text in enumerate(sources)
    ]
    made[1]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["True\n"]}]
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert notebooks.run(path) == 2
