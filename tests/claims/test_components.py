"""Components read off trained weights: against a plain reading, and runs that must hold or fail."""

from dataclasses import replace

import numpy as np
import pytest

import attomaton as at
from attomaton.claims.components import GROWTH, count_components
from attomaton.claims.limits import solve_trials
from attomaton.claims.mechanics import MECHANICS_CLAIMS
from attomaton.claims.verdicts import VerdictStatus
from attomaton.training.models.embeddings import Orthonormal
from attomaton.training.steps import GradientDescent
from tests.claims import campaign
from tests.claims.runs import global_run, plain_run
from tests.claims.test_bounds import evidence_of

CLAIM = next(one for one in MECHANICS_CLAIMS if one.name == "components")


def read_by_definition(trace, trial):
    """The sets of tokens of each query whose gaps stand still, joined pair by pair."""
    table, middle = trace.embeddings[trial], int(np.abs(trace.steps - trace.steps[-1] / 2).argmin())
    moved = trace.weights[-1, trial] - trace.weights[middle, trial]
    groups = {}
    for context, label in trace.samples[trial]:
        query = context[-1]
        for token in context:
            groups.setdefault((query, token), {token})
        for token in set(context) - {label}:
            if abs((table[label] - table[token]) @ moved @ table[query]) <= GROWTH:
                joined = groups[query, label] | groups[query, token]
                for member in joined:
                    groups[query, member] = joined
    return {(query, frozenset(group)) for (query, _), group in groups.items()}


@pytest.mark.parametrize("make", [global_run, plain_run])
def test_counts_are_those_of_the_definition(make):
    trace = make()
    for trial, automaton in enumerate(solve_trials(trace)):
        components = automaton.components
        graph = {
            (int(components.query_of[number]), frozenset(components.tokens(number).tolist()))
            for number in range(len(components))
        }
        count = count_components(trace, components, trial=trial)
        found = read_by_definition(trace, trial)
        assert count.all == len(graph)
        assert count.recovered == len(graph & found) == len(graph)


def test_what_stands_still_is_merged_and_what_parts_is_split():
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [0, 3, 2]], [0, 1, 0])  # 0 ties 1, above 3 and 2
    model = at.AttentionModel(Orthonormal())
    trace = at.train(samples, model, GradientDescent(1.0), steps=2000)
    components = at.learn(samples).components
    late = trace.steps > 1000

    def moved(token, size):
        weights = trace.weights.copy()
        weights[late, 0, token, 2] += size
        return count_components(replace(trace, weights=weights), components)

    assert count_components(trace, components).recovered == 3
    torn = moved(1, 5.0)
    assert (torn.recovered, torn.merged, torn.split) == (2, 0, 1)
    rises = np.log(2.0) * np.subtract(*at.learn(samples).hard.scores.column("score").to_numpy()[[0, 3]])
    gained = moved(3, float(rises))  # 3 gains as much as 0 does
    assert (gained.merged, gained.split) == (2, 0)
    overtaken = moved(3, 5.0)  # nothing is merged or split, but the order is wrong
    assert (overtaken.merged, overtaken.split) == (0, 0)
    assert overtaken.recovered < 3


def test_a_run_that_stops_fails_and_a_short_one_is_too_early():
    trace = plain_run()
    assert CLAIM.check(evidence_of(trace)).status is VerdictStatus.HOLDS
    still = trace.weights.copy()
    still[len(still) // 2 :] = still[len(still) // 2]
    failed = CLAIM.check(evidence_of(replace(trace, weights=still)))
    assert failed.status is VerdictStatus.FAILS
    assert "merged" in failed.reason
    samples = at.Samples.from_lists([[0, 1, 2]] * 3, [0, 0, 1])
    short = at.train(samples, at.AttentionModel(Orthonormal()), GradientDescent(0.01), steps=100)
    early = CLAIM.check(evidence_of(short))
    assert early.status is VerdictStatus.TOO_EARLY
    assert early.more_steps > 100


@pytest.mark.slow  # trains runs of several thousand steps
def test_no_sound_run_fails_and_no_broken_one_holds():
    kinds = campaign.BREAKING["components"]
    for name in ("sound", "broken"):
        counts, wrong, _ = campaign.play(name, len(kinds), 11, only="components", kinds=kinds)
        assert wrong == []
        assert sum(counts.values()) == len(kinds)
