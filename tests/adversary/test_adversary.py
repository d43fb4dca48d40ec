"""The adversary for some seconds, with fixed seeds.

``.ci/run --full`` runs each target of ``python -m tests.adversary`` for minutes, with a fresh seed.
"""

import numpy as np
import pytest

from tests.adversary.finding import Finding, Target
from tests.adversary.registry import TARGETS
from tests.adversary.runner import Outcome, attempt, run_trials, table_of
from tests.sizes import some

SEED = 17
COSTLY = {"hard-weights", "hard-embedded", "fast-forward"}
"""Targets of which a few trials take seconds."""


@pytest.mark.parametrize("name", some(TARGETS, TARGETS.keys() - COSTLY))
def test_some_trials_break_no_promise(name):
    outcome = run_trials(name, SEED, -(-TARGETS[name].trials // 60))
    assert not outcome.violations, table_of([outcome])


@pytest.mark.slow  # minutes for all targets
@pytest.mark.parametrize("name", TARGETS)
def test_promises_hold(name):
    outcome = run_trials(name, SEED, TARGETS[name].trials)
    assert not outcome.violations, table_of([outcome])
    assert outcome.judged >= TARGETS[name].least_judged * outcome.trials, table_of([outcome])


BROKEN = [
    ("hard-embedded", 90001, 9457),  # rows 1e-13 apart, tied through a third
    ("hard-embedded", 3, 471),  # rows 1e-14 apart were called the same
    ("hard-embedded", 3, 793),  # scores as large as 1e8 miss by their own rounding
    ("separation", 17, 2),  # more nodes than the linear program takes
    ("winners", 2901, 72),  # tokens with ρ = 1 beside shares that are no fixed point
    ("winners", 2901, 99),  # a prompt exactly between two limits
    ("margins", 2911, 3),  # the margin of Muon falls for 2,000 steps before it rises
    ("ladder", 29, 252),  # the fit of a sharp head ended before its offsets had settled
    ("fast-forward", 77, 256),  # roundings that grow while the loss is too curved
]


@pytest.mark.parametrize(("name", "seed", "number"), BROKEN)
def test_what_was_broken_once_stays_mended(name, seed, number):
    outcome = Outcome(name, TARGETS[name], seed)
    outcome.add(number, attempt(name, seed, number))
    assert not outcome.violations, outcome.story()


def test_a_broken_promise_is_seen():
    target = Target("nothing above 1e-9", lambda _: Finding(0.0, 0.0), trials=3, share_above_one=0.001)
    outcome = Outcome("some", target, seed=4)
    outcome.add(0, Finding(1e-10, 1e-9, "small", size=9))
    assert not outcome.violations
    outcome.add(1, Finding(np.nan, 1e-9, "not a number", size=9, case={"large": True}))
    outcome.add(2, Finding(1e-8, 1e-9, "too large", size=2, case={"small": True}))
    outcome.add(3, Finding(1e-8, 1e-9, "no promise", judged=False))
    assert (outcome.trials, outcome.judged, outcome.violations) == (4, 3, 2)
    assert "--seed 4 --trial 2" in outcome.story()
    assert "small" in outcome.story()


def test_a_trial_can_be_repeated():
    one, other = (run_trials("soft", 5, 3).worst for _ in range(2))
    assert one == other


def test_too_many_above_one_are_seen():
    target = Target("covered", lambda _: Finding(0.0, 0.0), trials=3, share_above_one=0.001)
    outcome = Outcome("some", target, seed=4)
    for number in range(2000):
        outcome.add(number, Finding(1.5 if number < 20 else 0.1, 2.0))
    assert not outcome.broken
    assert outcome.violations == 20
