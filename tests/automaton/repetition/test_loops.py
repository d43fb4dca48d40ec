"""Finite windows: the loops by their law are the closed sets of all windows."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import attomaton as at
from attomaton.automaton.repetition.loops import WindowTokens, find_loops, list_cycles, next_windows
from attomaton.automaton.repetition.odds import Odds
from attomaton.base.errors import UnsupportedOption
from attomaton.corpora.prompts import Names


def draw_odds(rng: np.random.Generator, size: int, n_levels: int) -> Odds:
    """Levels with ties, some pairs of which no sample speaks, and scores."""
    levels = rng.integers(0, n_levels, (size, size)).astype(float)
    levels[rng.random((size, size)) < 0.2] = -np.inf
    return Odds(np.arange(size, dtype=np.int32), levels, rng.normal(size=(size, size)), Names())


def loops_by_definition(odds: Odds, window: int) -> list[WindowTokens]:
    """The cycles by definition: visit all K^T windows, and find the sets that no text leaves."""
    size = len(odds.tokens)
    states = [tuple(tokens) for tokens in np.indices((size,) * window).reshape(window, -1).T.tolist()]
    number_of = {state: index for index, state in enumerate(states)}
    edges = [(number_of[a], number_of[b]) for a in states for b in next_windows(odds, a, window)]
    source, target = np.array(edges).T
    graph = csr_array((np.ones(len(edges)), (source, target)), shape=(len(states), len(states)))
    components = connected_components(graph, directed=True, connection="strong")[1]
    left = np.unique(components[source[components[source] != components[target]]])
    closed = np.flatnonzero(~np.isin(components, left))  # windows of components that no text leaves
    return sorted({_cycle_of(odds, states[index], window) for index in closed})


def _cycle_of(odds: Odds, state: WindowTokens, window: int) -> WindowTokens:
    """The cycle in which this window of a closed component is, from its lowest token."""
    walked = [state[-1]]
    for _ in range(len(odds.tokens) * window):
        (state,) = next_windows(odds, state, window)
        if state[-1] == walked[0]:
            break
        walked.append(state[-1])
    lowest = walked.index(min(walked))
    return (*walked[lowest:], *walked[:lowest])


@given(seed=st.integers(0, 10**9), size=st.integers(1, 4), window=st.integers(1, 4))
def test_loops_are_the_closed_sets_of_windows(seed: int, size: int, window: int) -> None:
    rng = np.random.default_rng(seed)
    odds = draw_odds(rng, size, int(rng.integers(1, 6)))
    assert list_cycles(odds, window) == loops_by_definition(odds, window)


def test_loops_of_learned_automata_are_the_closed_sets() -> None:
    rng, lengths = np.random.default_rng(5), set()
    for _ in range(10):
        samples = at.synthetic.draw_ordered(
            rng, n_tokens=4, n_samples=20, window=3, n_queries=4, cyclic=bool(rng.random() < 0.5)
        )
        found = find_loops(at.learn(samples), window=4)
        assert list_cycles(found.odds, 4) == loops_by_definition(found.odds, 4)
        lengths |= {len(loop) for loop in found.loops}
    assert len(lengths) > 1


def test_probabilities_of_loops_are_those_of_drawn_texts() -> None:
    table = np.exp(np.random.default_rng(2).normal(size=(3, 3)))
    found = find_loops(table, [0, 1, 2], window=3)
    assert found.loops == ((0,), (1,), (2,))
    assert found.probabilities is not None
    assert found.steps is not None
    assert found.probabilities.sum() == pytest.approx(1)
    rng, ends, steps = np.random.default_rng(0), np.zeros(3), 0
    for _ in range(2000):
        text = [0, 1, 2]
        while len(set(text[-3:])) > 1:
            weights = np.bincount(text[-3:], minlength=3) * table[text[-1]]
            text.append(int(rng.choice(3, p=weights / weights.sum())))
        ends[text[-1]] += 1
        steps += len(text) - 3
    assert np.abs(ends / 2000 - found.probabilities).max() < 0.04
    assert steps / 2000 == pytest.approx(found.steps, rel=0.08)


def test_too_many_windows_leave_the_probabilities_untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attomaton.automaton.repetition.loops.MOST_WINDOWS", 5)
    found = find_loops(np.ones((3, 3)), [0, 1, 2], window=5)
    assert found.probabilities is None
    assert found.steps is None
    assert len(found.loops) == 3


def test_probabilities_are_told_only_where_doubles_can():
    """Two tokens that ask for each other: being caught takes 10^16 steps and more."""
    assert find_loops([[1, 100], [100, 1]], [0, 1], window=12).probabilities is None
    told = find_loops([[1, 3], [3, 1]], [0, 1], window=4)
    assert told.probabilities.sum() == pytest.approx(1)


def test_many_windows_are_solved_by_iteration_to_the_same_probabilities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = np.exp(np.random.default_rng(0).normal(size=(4, 4)))
    at_once = find_loops(table, [0, 1, 2, 3], window=4)
    monkeypatch.setattr("attomaton.automaton.repetition.loops.MOST_SOLVED_DIRECTLY", 10)
    iterated = find_loops(table, [0, 1, 2, 3], window=4)
    assert at_once.probabilities is not None
    assert iterated.probabilities == pytest.approx(at_once.probabilities, abs=1e-9)
    assert iterated.steps == pytest.approx(at_once.steps, rel=1e-9)


@pytest.mark.slow  # measures memory
def test_a_loop_of_many_tokens_is_found_in_little_memory() -> None:
    """Each of 200 tokens retrieves the next one."""
    size = 200
    levels = np.zeros((size, size))
    levels[np.arange(size), (np.arange(size) + 1) % size] = 1.0
    circle = Odds(np.arange(size, dtype=np.int32), levels, np.zeros((size, size)), Names())
    tracemalloc.start()
    found = list_cycles(circle, size)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(found, key=len) == tuple(range(size))
    assert peak < 30 * size**2  # a table of size³ would be more


def test_too_many_paths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attomaton.automaton.repetition.loops.MOST_PATHS", 3)
    with pytest.raises(UnsupportedOption, match="paths to try; use a prompt"):
        find_loops(np.eye(4) + 1.0, window=3)


def test_wide_windows_are_given_up_before_they_fill_the_memory() -> None:
    tracemalloc.start()
    found = find_loops([[2.0, 1.0], [1.0, 2.0]], [0, 1] * 60_000, window=100_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.probabilities is None
    assert peak < 1e9


def test_a_short_prompt_that_goes_round_its_loop_is_caught_at_once() -> None:
    """The window holds the loop's tokens alone from the beginning, though it is not full."""
    found = find_loops([[0.0, 1.0], [1.0, 0.0]], [0, 1], window=5)
    assert found.steps == 0.0
    assert found.probabilities is not None
    assert found.probabilities.tolist() == [0.0, 1.0, 0.0]
