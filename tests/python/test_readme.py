"""What README promises in words; ``test_snippets.py`` runs its blocks."""

import re

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
