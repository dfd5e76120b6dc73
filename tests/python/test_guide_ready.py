"""The examples of the guide on readiness run as they stand."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "ready.md"


def test_the_examples_run(capsys):
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 4
    names = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    assert capsys.readouterr().out.splitlines() == ["21.5", "22.0", "disconnected closed-by-peer"]
