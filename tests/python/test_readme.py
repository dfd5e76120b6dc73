"""Claims of README in prose; ``test_snippets.py`` runs its code blocks."""

import re
import tomllib

import snippets

README = snippets.ROOT / "README.md"


def test_the_first_example_has_ten_lines():
    first = next(block for block in snippets.blocks("README.md") if block.language == "python")
    assert len(first.text.splitlines()) <= 10
    assert "zenoh.open" in first.text


def test_every_make_target_of_the_documents_exists():
    makefile = (README.parent / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    pages = [README, README.parent / "CONTRIBUTING.md"]
    named = {name for page in pages for name in re.findall(r"[`\n]make ([a-z-]+)", page.read_text())}
    assert len(named) > 5, "the guard has not found the commands"
    assert named <= targets


def test_versions_of_spark_are_promised_as_they_are_tried():
    root = README.parent
    (tried,) = re.findall(r"^SPARK_VERSIONS \?= (.+)$", (root / "Makefile").read_text(), re.MULTILINE)
    lines = tried.split()
    guide = (root / "docs" / "guide" / "spark.md").read_text()
    (first, last) = re.findall(r"PySpark ((?:\d\.\d, )+\d\.\d) or (\d\.\d)", guide)[0]
    assert [*first.split(", "), last] == lines
    extra = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    assert f"pyspark>={lines[0]}" in extra
    (pinned,) = re.findall(r"^pyspark==(\d\.\d)", (root / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned == lines[-1], "CI runs the newest of them"
