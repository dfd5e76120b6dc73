"""The scripts of ``make attack`` run, with little load, and their measures can fail.

Bounds of time are those of a machine that does nothing else, so they are not checked here.
"""

import sys

import pytest

import attack
import attack_batches
import attack_groups
import attack_quic
import attack_routes
import attack_zre
from attack import OURS, Attack, Measure

TIMES = ("p99", "rate", "waits", "seconds")
"""Measures that depend on the load of the machine."""


@pytest.fixture(autouse=True)
def little(monkeypatch):
    monkeypatch.setattr(attack, "SECONDS", 0.5)
    monkeypatch.setattr(attack, "SCALE", 0.02)


@pytest.mark.parametrize(
    "run",
    [
        attack_routes.claims_in_the_middle,
        attack_routes.many_links,
        attack_batches.damaged,
        attack_batches.many_messages,
        attack_groups.forged,
        attack_quic.streams,
        attack_quic.moving,
        attack_quic.datagrams,
    ],
    ids=lambda run: f"{run.__module__}.{run.__name__}",
)
def test_an_attack_runs_and_disturbs_nobody(run):
    measures = run(OURS)
    checked = [each for each in measures if not any(word in each.name for word in TIMES)]
    assert [each for each in checked if not each.holds()] == []
    assert len(checked) < len(measures), "the times of others are measured, too"
    assert any(each.run is run for each in attack.ATTACKS)


def test_an_attack_on_zre_runs():
    assert [each for each in attack_zre.forged_lines(OURS) if not each.holds()] == []


def test_others_that_receive_nothing_are_noticed():
    with attack.calm(OURS) as (router, others, _):
        router.end()
        assert not router.lives()
        assert router.mib() == 0
        others.process.kill()
        assert [each.holds() for each in attack.undisturbed(others.seen())] == [False, False, False]


@pytest.mark.parametrize(("value", "code", "word"), [(1, 0, "ok"), (2, 1, "EXCEEDED")])
def test_an_exceeded_bound_fails_the_command(monkeypatch, capsys, value, code, word):
    only = Attack("an attack", lambda implementation: [Measure(f"of {implementation}", value, most=1)])
    monkeypatch.setattr(attack, "ATTACKS", [only])
    monkeypatch.setattr(sys, "argv", ["attack", "--ours"])
    assert attack.main() == code
    out = capsys.readouterr().out
    assert "of zwire" in out
    assert out.split()[-1] == word
