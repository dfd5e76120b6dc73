"""Claims of README in prose; ``test_snippets.py`` runs its code blocks."""

import re
import tomllib

import pytest

import snippets
from zwire.cli import COMMANDS

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


def settings():
    """The section ``project`` of ``pyproject.toml``."""
    return tomllib.loads((snippets.ROOT / "pyproject.toml").read_text())["project"]


def test_the_description_of_the_package_has_no_link_that_breaks():
    """Package indexes show it alone, where relative links lead nowhere; its program is that of README."""
    text = (snippets.ROOT / settings()["readme"]).read_text()
    assert re.findall(r"\]\((?!https://)[^)]*\)|(?:href|src)=", text) == []
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    first = next(block for block in snippets.blocks("README.md") if block.language == "python")
    assert program.rstrip() == first.text.rstrip()
    named = set(re.findall(r"`zwire\[(\w+)\]`", text))
    assert named <= settings()["optional-dependencies"].keys()
    assert f"CPython {settings()['requires-python'].removeprefix('>=')} or newer" in text


@pytest.mark.parametrize(
    ("page", "name"), [("README.md", r"`zwire\[(\w+)\]`"), ("docs/guide/getting-started.md", r"`(\w+)`")]
)
def test_every_extra_is_listed(page, name):
    section = (snippets.ROOT / page).read_text().partition("## Install\n")[2].partition("\n## ")[0]
    assert set(re.findall(name, section)) == settings()["optional-dependencies"].keys()


@pytest.mark.parametrize("page", ["README.md", "docs/guide/getting-started.md"])
def test_platforms_are_those_of_the_package(page):
    section = (snippets.ROOT / page).read_text().partition("## Install\n")[2].partition("\n## ")[0]
    assert f"CPython {settings()['requires-python'].removeprefix('>=')} or newer" in " ".join(section.split())
    systems = {
        name.rpartition(" ")[2] for name in settings()["classifiers"] if name.startswith("Operating System")
    }
    assert systems == {name for name in ("Linux", "MacOS", "Windows") if name in section}


def test_a_feature_has_one_row():
    text = (snippets.ROOT / "docs" / "features.md").read_text()
    rows = re.findall(r"^\| (?:\[([^\]]+)\]|([^|:]+))", text, re.MULTILINE)
    names = [linked or plain.strip() for linked, plain in rows]
    assert len(names) > 40, "the rows are not found"
    assert sorted({name for name in names if names.count(name) > 1}) == []


@pytest.mark.parametrize("page", ["docs/features.md", "docs/guide/cli.md"])
def test_every_command_is_listed(page):
    text = (snippets.ROOT / page).read_text()
    assert [name for name in COMMANDS if not re.search(rf"`(zwire )?{name}[` ]", text)] == []


def test_the_demo_takes_as_long_in_each_text():
    texts = ["Makefile", "docs/guide/cli.md", "python/zwire/cli/demo.py"]
    assert all("about a minute" in (snippets.ROOT / text).read_text() for text in texts)


def anchors(path):
    """The anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_links_of_pages_outside_of_the_documentation_lead_somewhere():
    """Sphinx checks those between the pages of ``docs``."""
    pages = [*snippets.ROOT.glob("*.md")]
    pages += [
        page for folder in ("benches", "examples", "tests") for page in (snippets.ROOT / folder).rglob("*.md")
    ]
    assert len(pages) > 10, "the pages are not found"
    broken = []
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(\s*([^)\s]+)\s*\)", text):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if re.match("[a-z]+:", link):
                continue
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.name}: {link}")
    assert broken == []


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


def test_the_page_on_debugging_names_a_line_of_code():
    page = (snippets.ROOT / "docs" / "debugging.md").read_text()
    name, line = re.search(r"break (\w+\.rs):(\d+)", page).groups()
    sources = [path.read_text().splitlines() for path in (snippets.ROOT / "rust").glob(f"*/src/**/{name}")]
    texts = [source[int(line) - 1].strip() for source in sources if len(source) >= int(line)]
    assert any(text.endswith((";", "{")) for text in texts), "no statement begins there"
    assert {"put", "decode", "trace"} <= set(re.findall(r"zwire (\w+)", page)) & set(COMMANDS)
