"""The example of the guide to finding nodes."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "finding.md"


def test_the_example_finds_itself(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "peer True True\n"
