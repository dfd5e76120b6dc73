"""The examples of the guide on handlers run as they stand."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "handlers.md"


def test_the_examples_run():
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {})
