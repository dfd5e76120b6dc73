"""The source distribution: complete, and its metadata too."""

import email
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

# Packing a thousand files takes seconds where others use the disk.
pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    command = [ROOT / ".ci" / "try-sdist", Path(sys.executable).parent, folder]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (path,) = folder.glob("zwire-*.tar.gz")
    with tarfile.open(path) as archive:
        yield archive


def test_it_has_every_file_and_resolves_its_dependencies(sdist):
    # try-sdist has compared it with the tree.
    names = {Path(*Path(name).parts[1:]).as_posix() for name in sdist.getnames()}
    assert {"Cargo.lock", "rust/zwire-py/Cargo.toml", "rust/zwire-http/js/zwire.js"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


def test_its_metadata_are_complete(sdist):
    (name,) = [name for name in sdist.getnames() if name.endswith("/PKG-INFO")]
    about = email.message_from_bytes(sdist.extractfile(name).read())
    for field in ("Summary", "Keywords", "Author", "License-Expression", "License-File", "Requires-Python"):
        assert about[field], field
    classifiers = about.get_all("Classifier")
    assert "Typing :: Typed" in classifiers
    assert "Programming Language :: Python :: Implementation :: CPython" in classifiers
    text = about.get_payload()
    assert text.startswith("# zwire")
    # Relative links lead nowhere on the page of an index.
    assert [link for link in re.findall(r"\]\(([^)]*)\)", text) if not link.startswith("https://")] == []
