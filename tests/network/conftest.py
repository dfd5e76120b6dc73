"""Fixtures of the tests of Zenoh on networks of our own, and the table that `make stress` ends with."""

import pytest

FIGURES = pytest.StashKey()


def pytest_configure(config):
    config.stash[FIGURES] = []


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "network":
            item.add_marker(pytest.mark.interop)


class Figures:
    """The figures of the measurements."""

    def __init__(self, rows):
        self.rows = rows

    def add(self, what, measured, bound):
        self.rows.append((what, measured, bound))
        print(f"{what}: {measured}; bound: {bound}")


@pytest.fixture
def figures(request):
    return Figures(request.config.stash[FIGURES])


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[FIGURES]
    if not rows:
        return
    head = ("measured", "figure", "bound")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    terminalreporter.section("figures")
    for row in (head, *rows):
        terminalreporter.write_line("  ".join(map(str.ljust, row, widths)).rstrip())
