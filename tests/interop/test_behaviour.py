"""The behaviour of eclipse-zenoh and of this package for programs, side by side."""

import pytest
import zenoh as theirs

import zwire.zenoh as ours
from interop import compatibility, differences
from interop.behaviour import attempt, outcome, same, topics
from interop.differences import VALUES
from interop.scenes import SCENES

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


def played(scene, zenoh):
    """The notes of a scene, in order."""
    notes = []
    scene(zenoh, lambda label, run: notes.append((label, attempt(zenoh, run))))
    return notes


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_sessions_do_the_same(scene):
    # One after the other: some wait for what does not come.
    there, here = dict(played(scene, theirs)), dict(played(scene, ours))
    assert list(there) == list(here)
    expected = {label for name, label in differences.SCENES if name == scene.__name__}
    seen = {label for label in there if not same(there[label], here[label])}
    differ = [f"{label}: {there[label]} there, {here[label]} here" for label in sorted(seen ^ expected)]
    assert differ == [], "as listed or not at all"


def test_the_page_says_what_is_so():
    path = compatibility.PAGE
    assert path.read_text() == compatibility.page(), f"write it anew: python {compatibility.__file__}"
