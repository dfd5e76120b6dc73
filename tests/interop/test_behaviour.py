"""What programs see of eclipse-zenoh and of this package, side by side."""

import pytest
import zenoh as theirs

import zwire.zenoh as ours
from interop.behaviour import outcome, same, topics
from interop.differences import VALUES

TOPICS = topics()


def test_there_is_something_to_compare():
    assert sum(map(len, TOPICS.values())) > 500


@pytest.mark.parametrize("topic", TOPICS)
def test_values_are_the_same(topic, tmp_path):
    path = tmp_path / "config.json5"
    seen = [(code, outcome(code, theirs, path), outcome(code, ours, path)) for code in TOPICS[topic]]
    assert [
        f"{code}: {there} there, {here} here" for code, there, here in seen if not same(there, here)
    ] == []


def says(outcome, text):
    """As the list has it."""
    start, ellipsis, _ = text.partition("…")
    return str(outcome).startswith(start) if ellipsis else str(outcome) == text


@pytest.mark.parametrize("what", VALUES)
def test_differences_are_as_listed(what, tmp_path):
    for code, there, here in VALUES[what].outcomes:
        seen = outcome(code, theirs, tmp_path / "config.json5")
        assert says(seen, there), f"there: {code}: {seen}"
        seen = outcome(code, ours, tmp_path / "config.json5")
        assert says(seen, here), f"here: {code}: {seen}"
