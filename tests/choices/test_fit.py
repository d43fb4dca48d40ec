"""Choice models: right where choix is, right where choix is not, and silent where nothing is known."""

import sys
from itertools import product

import choix
import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.optimize import minimize
from tests.drawn import unroll_rankings
from tests.strategies import many

import attomaton
from attomaton.base.errors import InvalidSamples, UncertifiedSolution, UndeterminedChoice, UnknownToken
from attomaton.base.solutions import Status
from attomaton.choices.fit import fit_choices


def draw(seed, *, n_items=6, n_choices=12, longest=4, repeats=False):
    """Random choices; the fewer, the less connected."""
    rng = np.random.default_rng(seed)
    sets = []
    for _ in range(n_choices):
        size = int(rng.integers(1, min(longest, n_items), endpoint=True))
        sets.append([f"item {i}" for i in rng.choice(n_items, size, replace=repeats).tolist()])
    return [str(rng.choice(members)) for members in sets], sets


@st.composite
def choices(draw, n_items=6, max_choices=14, longest=4, repeats=False):
    """Choices from up to ``longest`` items each: who won, and among whom; the fewer, the less connected."""
    winners, sets = [], []
    for row in draw(many(st.binary(min_size=1, max_size=longest), max_choices, fewest=1)):
        numbers = [byte % n_items for byte in row]
        sets.append([f"item {number}" for number in (numbers if repeats else dict.fromkeys(numbers))])
        winners.append(sets[-1][0])
    return winners, [sorted(members) for members in sets]


def beats_graph(winners, sets):
    graph = nx.DiGraph()
    for winner, members in zip(winners, sets, strict=True):
        graph.add_nodes_from(members)
        graph.add_edges_from((winner, other) for other in members if other != winner)
    return graph


def check_against_networkx(fit, graph):
    """Components, their order and the comparisons that are missing, all by other means."""
    named = {frozenset(members) for members in fit.components}
    assert named == {frozenset(members) for members in nx.strongly_connected_components(graph)}
    condensed = nx.condensation(graph)
    place = {frozenset(condensed.nodes[node]["members"]): node for node in condensed}
    numbers = [place[frozenset(members)] for members in fit.components]
    ours = nx.DiGraph([(numbers[above], numbers[below]) for above, below in fit.order])
    ours.add_nodes_from(numbers)
    assert set(ours.edges) == set(nx.transitive_reduction(condensed).edges)
    joined = graph.copy()
    joined.add_edges_from(fit.missing)
    assert nx.is_strongly_connected(joined)
    return {item: place[frozenset(members)] for members in fit.components for item in members}, condensed


@given(choices() | choices(repeats=True))
def test_components_and_order(drawn):
    winners, sets = drawn
    fit = fit_choices(winners, sets).expect()
    check_against_networkx(fit, beats_graph(winners, sets))
    for members in fit.components:
        values = [fit.scores[item] for item in members]
        if len(values) == 1:
            assert np.isnan(values[0])
            continue
        assert abs(sum(values)) < 1e-9
        assert values == sorted(values, reverse=True)


@pytest.mark.slow  # campaign
def test_no_number_is_invented_in_2000_cases_that_are_not_connected():
    """Every pair of items: a probability inside a component, 0 or 1 along the order, else nothing."""
    rng, seen = np.random.default_rng(0), 0
    while seen < 2_000:
        n_items = int(rng.integers(2, 8))
        winners, sets = draw(int(rng.integers(2**32)), n_items=n_items, n_choices=int(rng.integers(1, 12)))
        graph = beats_graph(winners, sets)
        if nx.is_strongly_connected(graph):
            continue
        seen += 1
        fit = fit_choices(winners, sets)
        assert not fit.connected
        component, condensed = check_against_networkx(fit, graph)
        below = {node: nx.descendants(condensed, node) for node in condensed}
        for one, other in product(graph, repeat=2):
            here, there = component[one], component[other]
            if here == there:
                assert 0.0 < fit.probability(one, [one, other]) < 1.0 or one == other
            elif there in below[here] or here in below[there]:
                assert fit.probability(one, [one, other]) == float(there in below[here])
            else:
                with pytest.raises(UndeterminedChoice, match="neither is preferred"):
                    fit.probability(one, [one, other])


@given(choices(n_items=4, max_choices=60))
def test_equal_to_choix_where_choix_applies(drawn):
    winners, sets = drawn
    fit = fit_choices(winners, sets).expect()
    assume(fit.connected)
    number = {item: place for place, item in enumerate(fit.items)}
    data = [
        (number[winner], [number[item] for item in members if item != winner])
        for winner, members in zip(winners, sets, strict=True)
        if len(members) > 1
    ]
    theirs = choix.opt_top1(len(number), data, tol=1e-12)
    if len(number) > 1:
        np.testing.assert_allclose(list(fit.scores.values()), theirs - theirs.mean(), atol=1e-5)


@given(many(st.lists(st.integers(0, 3), min_size=2, max_size=4, unique=True), 20))
def test_rankings_equal_choix(rankings):
    fit = fit_choices(*unroll_rankings(rankings))
    assume(fit.connected and len(fit.items) == 4)
    theirs = choix.opt_rankings(4, rankings, tol=1e-12)
    ours = [fit.scores[item] for item in range(4)]
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-5)


def test_repeated_items_where_choix_is_wrong():
    """ "a" stands twice, "b" once, and each is chosen half of the time: e^{s_a − s_b} = ½, by hand."""
    fit = fit_choices(["a", "b"] * 10, [["a", "a", "b"]] * 20).expect()
    np.testing.assert_allclose(fit.scores["a"] - fit.scores["b"], -np.log(2.0), rtol=1e-9)
    np.testing.assert_allclose(fit.probability("a", ["a", "a", "b"]), 0.5, rtol=1e-9)
    np.testing.assert_allclose(fit.probability("a", ["a", "b"]), 1 / 3, rtol=1e-9)
    theirs = choix.opt_top1(2, [(0, [0, 1]), (1, [0, 0])] * 10)
    assert abs(theirs[0] - theirs[1] + np.log(2.0)) > 0.1


def test_data_on_which_choix_fails_or_invents():
    """0 and 1 beat each other, so do 2 and 3, and 0 beats 2: ilsr and mm raise, opt returns numbers."""
    data = [(0, [1]), (1, [0]), (2, [3]), (3, [2]), (0, [2])]
    with pytest.raises(ValueError, match="more than one absorbing class"):
        choix.ilsr_top1(4, data)
    with pytest.raises(RuntimeError, match="Did not converge"):
        choix.mm_top1(4, data, max_iter=500)
    assert np.isfinite(choix.opt_top1(4, data)).all()
    fit = fit_choices([winner for winner, _ in data], [[winner, *losers] for winner, losers in data])
    assert (fit.components, fit.order) == (((0, 1), (2, 3)), ((0, 1),))
    assert fit.scores == pytest.approx(dict.fromkeys(range(4), 0.0))
    assert fit.probability(2, [0, 2]) == 0.0
    assert fit.probability(2, [2, 3]) == pytest.approx(0.5)


@given(choices(n_items=4, max_choices=10), st.lists(st.integers(1, 3), min_size=10, max_size=10))
def test_counts_are_repetitions(drawn, times):
    winners, sets = drawn
    counts = times[: len(sets)]
    counted = fit_choices(winners, sets, counts=counts)
    which = np.repeat(np.arange(len(sets)), counts)
    repeated = fit_choices([winners[choice] for choice in which], [sets[choice] for choice in which])
    assert set(map(frozenset, counted.components)) == set(map(frozenset, repeated.components))
    assert counted.scores == pytest.approx(repeated.scores, abs=1e-9, nan_ok=True)
    assert counted.standard_errors == pytest.approx(repeated.standard_errors, abs=1e-9, nan_ok=True)


def test_incomparable_items_above_another():
    """a and b both beat c: c is never chosen beside them, but between a and b nothing is known."""
    fit = fit_choices(["a", "b"], [["a", "c"], ["b", "c"]])
    assert fit.probability("c", ["a", "b", "c"]) == 0.0
    with pytest.raises(UndeterminedChoice, match="from 'a' to 'b' or back"):
        fit.probability("a", ["a", "b", "c"])
    assert len(fit.missing) == 2


def test_a_ridge_acts_inside_components_only():
    winners, sets = ["a", "a", "b", "a"], [["a", "b"]] * 3 + [["a", "c"]]
    plain, pulled = fit_choices(winners, sets), fit_choices(winners, sets, ridge=1.0)
    assert 0.0 < pulled.scores["a"] < plain.scores["a"]
    assert pulled.probability("c", ["a", "c"]) == 0.0
    assert pulled.standard_errors["a"] < plain.standard_errors["a"]
    assert np.isnan(plain.standard_errors["c"])


def test_a_summary_to_read():
    fit = fit_choices(["tea", "coffee", "tea", "tea"], [["tea", "coffee"]] * 3 + [["tea", "water"]])
    assert repr(fit) == str(fit)
    lines = str(fit).splitlines()
    assert lines[:6] == [
        "4 choices between 3 items: 2 components",
        "rank  ranks  item      rating   s.e.          interval  games",
        "   1    1–3  tea       +0.347  0.612  -0.854 to +1.547      4",
        "   2    1–3  coffee    -0.347  0.612  -1.547 to +0.854      3",
        "   3    1–3  water   ≤ +3.291      -                 -      1",
        "ratings are on the scale log-odds, with mean 0 in the largest component",
    ]
    assert lines[-1] == "  a comparison of 'water' with 'coffee' in which 'water' wins"
    many = fit_choices(range(40), [[item, item + 1] for item in range(40)])
    assert "and 21 more; .table() lists all" in str(many)
    assert len(many.missing) == 1
    alone = fit_choices([1, 2, 3], [[1], [2], [3]])
    assert [len(members) for members in alone.components] == [1, 1, 1]
    assert len(alone.missing) == 3


@pytest.mark.parametrize(
    ("winners", "sets", "counts", "message"),
    [
        ([1], [[1, 2], [2]], None, "1 winners, 2 choice_sets"),
        ([1, 2], [[1, 2], [2]], [1], "2 winners, 2 choice_sets, 1 counts\\); give one entry of each"),
        ([1, 3], [[1, 2], [1, 2]], None, "choice 1: the winner 3 is not in the choice set"),
        ([2, 1], [[2, 3], [2, 3]], None, "choice 1: the winner 1"),
        ([1], [[]], None, "choice 0"),
        ([1], [[1, 2]], [0], "all counts are 0"),
        ([1, 2], [[1, 2]] * 2, [[1], [2]], "one number for each choice"),
        ([1, 2], [[1, 2]] * 2, [[1], [2, 3]], "one number for each choice"),
        ([1, 2], [[1, 2]] * 2, [2**62, 2**62], "add up to more than 9,007,199,254,740,992; divide"),
        ([[1]], [[[1], [2]]], None, "not hashable .*tuples instead of lists"),
        ([[1]], [["a", "b"]], None, "not hashable"),
        (["a"], [iter(["a", "b"])], None, "choice set 0 is of type list_iterator; give a list"),
        (["a", "a"], [["a", "b"], {"a": 2, "b": 1}], None, "choice set 1 is of type dict; give a list"),
        ([1], iter([[1, 2]]), None, "type list_iterator of choice_sets has no length; give a list"),
    ],
)
def test_unsound_choices_are_refused(winners, sets, counts, message):
    with pytest.raises(InvalidSamples, match=message):
        fit_choices(winners, sets, counts=counts)


def ridge_path(winners, sets, items, ridge):
    """Scores of all items under the whole likelihood with a ridge, by Newton's method with halved steps."""
    place = {item: number for number, item in enumerate(items)}
    options = np.zeros((len(sets), len(items)))
    for row, members in enumerate(sets):
        options[row, [place[item] for item in members]] = 1.0
    chosen = np.bincount([place[item] for item in winners], minlength=len(items))

    def loss(scores):
        total = np.log((options * np.exp(scores - scores.max())).sum(axis=1)) + scores.max()
        return total.sum() - chosen @ scores + ridge / 2 * scores @ scores

    scores = np.zeros(len(items))
    for _ in range(200):
        probabilities = options * np.exp(scores - scores.max())
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        slope = probabilities.sum(axis=0) - chosen + ridge * scores
        curve = np.diag(probabilities.sum(axis=0) + ridge) - probabilities.T @ probabilities
        step, length = np.linalg.solve(curve, slope), 1.0
        while loss(scores - length * step) > loss(scores) and length > 1e-9:
            length /= 2
        scores = scores - length * step
    return scores


@given(choices())
def test_the_direction_is_the_least_scores_with_all_gaps(drawn):
    winners, sets = drawn
    fit = fit_choices(winners, sets)
    place = {item: number for number, members in enumerate(fit.components) for item in members}
    rows = [
        (fit.items.index(winner), fit.items.index(other), float(place[winner] != place[other]))
        for winner, other in beats_graph(winners, sets).edges
    ]
    scores = np.array([fit.direction[item] for item in fit.items])
    for winner, loser, gap in rows:
        found = scores[winner] - scores[loser]
        assert found >= gap - 1e-9 if gap else abs(found) < 1e-9
    least = minimize(
        lambda s: s @ s,
        scores + 0.1,
        jac=lambda s: 2 * s,
        method="SLSQP",
        constraints=[
            {"type": "ineq" if gap else "eq", "fun": lambda s, w=w, x=x, gap=gap: s[w] - s[x] - gap}
            for w, x, gap in rows
        ],
        options={"ftol": 1e-12},
    )
    assert scores @ scores <= least.fun + 1e-6


def test_scores_with_a_vanishing_ridge_go_in_the_direction():
    winners = ["a", "b", "a", "b", "c", "d", "c", "d", "c", "e"]
    sets = [*["ab"] * 2, "abc", "bd", *["cd"] * 3, "de", "ce", "ef"]
    fit = fit_choices(winners, [list(members) for members in sets])
    assert fit.components == (("a", "b"), ("c", "d"), ("e",), ("f",))
    direction = np.array([fit.direction[item] for item in fit.items])
    paths = [ridge_path(winners, sets, fit.items, ridge) for ridge in (1e-4, 1e-8, 1e-12)]
    angles = [path @ direction / np.linalg.norm(path) / np.linalg.norm(direction) for path in paths]
    assert 0.98 < angles[0] < angles[1] < angles[2]
    growth = (paths[2] - paths[1]) / np.log(1e4)  # falls short by ln ln, about 1 in ln(1/ridge)
    assert np.allclose(growth, direction, atol=0.08 * np.abs(direction).max())


def test_unknown_items_are_refused():
    fit = fit_choices(["a", "b"], [["a", "b"]] * 2)
    with pytest.raises(UnknownToken, match="'z' occurs in no choice"):
        fit.probability("a", ["a", "z"])
    with pytest.raises(InvalidSamples, match="'a' is not in the choice set"):
        fit.probability("a", ["b"])


def test_no_choices_at_all():
    fit = fit_choices([], [])
    assert (fit.items, fit.components, fit.missing) == ((), (), ())
    assert "0 choices" in str(fit)


@pytest.mark.parametrize(
    "items",
    [(3, 1, 2), ("c", "a", "b"), ((0, 1), (0, 2), (1, 2)), (1.5, 1, 2), (2**70, -(2**70), 5), (1, "1", None)],
)
def test_items_may_be_anything_hashable(items):
    one, two, three = items
    fit = fit_choices([one, two, one, three], [[one, two], [one, two], [one, three], [three]])
    assert fit.components == ((one, two), (three,)) or fit.components == ((two, one), (three,))
    assert set(fit.items) == set(items)


@pytest.mark.slow  # solvers that must fail, many times
def test_scores_that_are_not_certified_are_no_numbers():
    """A cycle of 1,000, ten choices for each pair and one for the last: one choice holds all together."""
    pairs = [(item, (item + 1) % 1_000) for item in range(1_000)]
    fit = fit_choices(range(1_000), pairs, counts=[10] * 999 + [1])
    assert fit.soft.status is Status.UNCERTIFIED
    assert fit.connected
    for ask in (
        lambda: fit.scores,
        lambda: fit.standard_errors,
        lambda: fit.probability(0, [0, 1]),
        fit.expect,
    ):
        with pytest.raises(UncertifiedSolution, match="certified"):
            ask()
    with pytest.raises(UncertifiedSolution, match=r"read \.soft\.scores without a proof"):
        fit.scores  # noqa: B018
    assert fit.probability(0, [0]) == 1.0
    assert "scores uncertified" in str(fit)
    assert fit.soft.scores.num_rows == 1_001


def test_five_games_run_at_most_80_functions():
    def fit():
        return fit_choices(["a", "b", "a", "c", "b"], losers=["b", "a", "c", "a", "c"])

    fit()
    source, seen, before = attomaton.__path__[0], set(), sys.getprofile()

    def watch(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(source) and not code.co_name.startswith("<"):
            seen.add(code)

    sys.setprofile(watch)
    try:
        fit()
    finally:
        sys.setprofile(before)
    assert len(seen) <= 80
