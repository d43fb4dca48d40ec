"""The flow: against plain definitions on the whole vocabulary, the closed form, and symmetries."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import solve_ivp
from scipy.special import softmax

from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.theories.scansnap.classes import CorpusClasses, draw_linear_classes
from attomaton.theories.scansnap.flow import find_slope, solve_flow
from attomaton.theories.scansnap.heads import LearnedHead, MassHead, TiedHead
from attomaton.theories.scansnap.landmarks import find_snap, find_turn, measure_gain
from attomaton.theories.scansnap.law import Rates, SnapLaw
from attomaton.theories.scansnap.reduced import ReducedCorpus
from attomaton_experiments.scansnap.star import make_star, star_constant
from tests.strategies import vectors


def flow_by_definition(classes, rates, until):
    """Y and Z in full, one class after the other, as the equations are written."""
    size = classes.n_tokens

    def slope(_, state):
        decoder, scores = state.reshape(2, size, size)
        moved, lifted = np.zeros((size, size)), np.zeros((size, size))
        for number in range(len(classes)):
            weights = classes.dense[number] * np.exp(scores[classes.queries[number]])
            feature = weights / np.linalg.norm(weights)
            missed = np.eye(size)[classes.labels[number]] - softmax(decoder.T @ feature)
            share = classes.shares[number]
            moved += share * rates.decoder * np.outer(feature, missed)
            across = np.eye(size) - np.outer(feature, feature)
            lifted[classes.queries[number]] += share * rates.attention * feature * (across @ decoder @ missed)
        return np.concatenate([moved.ravel(), lifted.ravel()])

    found = solve_ivp(slope, (0, until), np.zeros(2 * size * size), rtol=1e-9, atol=1e-11)
    return found.y[:, -1].reshape(2, size, size)


def drawn(seed):
    """A corpus without any symmetry: two classes to a query, unequal shares, a label that is a key too."""
    rng = np.random.default_rng(seed)
    weights = rng.random((4, 9)) * (rng.random((4, 9)) < 0.6) + np.eye(4, 9)
    return CorpusClasses.from_table([6, 6, 7, 0], [8, 1, 8, 2], weights, shares=rng.uniform(0.5, 2, 4))


@pytest.mark.parametrize("seed", range(3))
def test_the_flow_is_that_of_the_definition(seed):
    classes, rates = drawn(seed), Rates(3.0, 2.0)
    decoder, scores = flow_by_definition(classes, rates, 20.0)
    flow = solve_flow(classes, rates, [20.0])
    used, labels = flow.reduced.keys, flow.reduced.labels
    np.testing.assert_allclose(flow.scores[-1], scores[flow.reduced.queries][:, used], atol=1e-6)
    np.testing.assert_allclose(flow.decoder[-1][:, :-1], decoder[used][:, labels], atol=1e-6)
    others = np.setdiff1d(np.arange(9), labels)
    column = np.broadcast_to(flow.decoder[-1][:, -1:], (len(used), len(others)))
    np.testing.assert_allclose(column, decoder[used][:, others], atol=1e-6)


def losses_by_definition(classes, head, decoders, scores):
    """The mean loss, one class after the other, for many Y and Z in full; also for complex numbers."""
    total = 0.0
    for law, share, query, label in zip(
        classes.dense, classes.shares, classes.queries, classes.labels, strict=True
    ):
        raised = law * np.exp(scores[:, query])
        attention = raised / raised.sum(axis=1, keepdims=True)
        if isinstance(head, MassHead):
            total -= share * np.log(attention[:, label])
        else:
            feature = attention / np.sqrt((attention**2).sum(axis=1, keepdims=True))
            logits = np.einsum("sk,skt->st", feature, decoders)
            total -= share * (logits[:, label] - np.log(np.exp(logits).sum(axis=1)))
    return total


def descent_by_definition(classes, head, decoder, scores):
    """−∂L/∂Y and −∂L/∂Z, entry by entry: L(x + ih)/h has the derivative as its imaginary part."""
    state = np.stack([decoder, scores])
    moved = state + 1e-30j * np.eye(state.size).reshape(-1, *state.shape)
    return -losses_by_definition(classes, head, *np.moveaxis(moved, 1, 0)).imag.reshape(state.shape) / 1e-30


@given(
    st.lists(st.integers(0, 35), min_size=1, max_size=4, unique=True),
    vectors(4, 6),
    vectors(4),
    st.sampled_from([MassHead(), LearnedHead(), TiedHead(2.0)]),
    st.data(),
)
def test_every_head_descends_its_loss(pairs, drawn, shares, head, data):
    size, n_classes = 6, len(pairs)
    queries, labels = np.divmod(pairs, size)
    weights = np.maximum(drawn[:n_classes], 0.0)
    weights[np.arange(n_classes), labels if isinstance(head, MassHead) else 0] += 0.3
    classes = CorpusClasses.from_table(queries, labels, weights, shares=0.5 + np.abs(shares[:n_classes]))
    reduced, rates = ReducedCorpus(classes), Rates(3.0, 2.0)
    decoder, scores = (data.draw(vectors(*shape)) for shape in reduced.shapes)
    whole, asked = np.zeros((size, size)), np.zeros((size, size))
    whole[reduced.keys] = decoder[:, -1:]  # tokens that are no label share the last column
    whole[np.ix_(reduced.keys, reduced.labels)] = decoder[:, :-1]
    asked[np.ix_(reduced.queries, reduced.keys)] = scores
    fixed = 2.0 * np.eye(size) if isinstance(head, TiedHead) else whole
    wanted = descent_by_definition(classes, head, fixed, asked)
    trained = decoder if head.trains_decoder else decoder[:, :0]
    moved, lifted, _ = find_slope(reduced, head, rates, trained, scores)
    np.testing.assert_allclose(
        lifted, rates.attention * wanted[1][np.ix_(reduced.queries, reduced.keys)], atol=1e-12
    )
    if head.trains_decoder:
        others = np.setdiff1d(np.arange(size), reduced.labels)[:1]
        columns = [*reduced.labels, *others]
        held = rates.decoder * wanted[0][np.ix_(reduced.keys, columns)]
        np.testing.assert_allclose(moved[:, : len(columns)], held, atol=1e-12)


def test_growth_is_left_out_where_it_is_not_asked_for():
    classes, rates = drawn(0), Rates(3.0, 2.0)
    grown, plain = solve_flow(classes, rates, [5.0]), solve_flow(classes, rates, [5.0], growth=False)
    np.testing.assert_allclose(grown.scores, plain.scores, atol=1e-7)
    owned = grown.reduced.is_distinct.any(axis=1)
    assert (np.isfinite(grown.growth) == owned).all()
    assert np.isnan(plain.growth).all()


def test_a_head_without_a_decoder_has_no_gain_and_long_flows_are_given_up():
    flow = solve_flow(drawn(0), Rates(3.0, 2.0), [1.0], head=TiedHead(2.0))
    assert flow.decoder.shape == (1, len(flow.reduced.keys), 0)
    with pytest.raises(UnsupportedOption, match="learned decoder"):
        measure_gain(flow)
    with pytest.raises(UncertifiedSolution, match="in 10 evaluations"):
        solve_flow(drawn(0), Rates(3.0, 2.0), [1.0], most_slopes=10)


def test_an_unused_vocabulary_costs_nothing_but_counts():
    small, large = (
        solve_flow(make_star(3, size, common=0.2), Rates(5.0, 1.0), [10.0]) for size in (10, 10**6)
    )
    assert small.decoder.shape == large.decoder.shape
    assert large.loss()[-1] > small.loss()[-1]


@pytest.mark.parametrize(("n_classes", "n_tokens"), [(3, 100), (10, 1000)])
def test_the_derived_constant_is_that_of_the_flow(n_classes, n_tokens):
    """The error of the closed form vanishes with the overlap of the classes, and only then."""
    errors = []
    for common in (0.1, 0.03, 0.01):
        rates = Rates(5.0, 5.0 / n_tokens)
        law = SnapLaw(n_classes, n_tokens, rates, start=star_constant(n_classes, n_tokens, common=common))
        times = np.geomspace(law.turn / 10, 20 * law.turn, 20)
        star = make_star(n_classes, n_tokens, common=common)
        grown = solve_flow(star, rates, times, rtol=1e-9, atol=1e-14).growth
        errors.append(np.abs(law.growth(times) / grown[:, 0] - 1).max())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 2e-3 < errors[0]


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_classes_of_one_query_pull_the_common_token_together(shared):
    """It falls as fast as all their distinct tokens rise, which is why 4B becomes 2 (1 + k) B."""
    star = make_star(4, 200, common=0.02)
    queries = star.queries[0] + np.arange(4) // shared
    together = CorpusClasses.from_table(queries, star.labels, star.dense)
    scores = solve_flow(together, Rates(5.0, 0.02), [50.0], rtol=1e-10, atol=1e-15).scores[-1][0]
    assert scores[0] / scores[1] == pytest.approx(-shared, rel=1e-6)


def test_turn_and_snap_of_the_flow_are_the_derived_ones():
    rates = Rates(5.0, 0.05)
    law = SnapLaw(10, 1000, rates)
    times = np.geomspace(law.turn / 50, 100 * law.turn, 400)
    flow = solve_flow(make_star(10, 1000, common=0.02), rates, times)
    turn = find_turn(times, measure_gain(flow)[:, 0])
    assert turn == pytest.approx(law.turn, rel=1e-3)
    assert find_snap(times, flow.growth[:, 0], turn) == pytest.approx(law.snap_of_slow_growth, rel=0.02)


def test_permuted_tokens_permute_the_flow():
    classes, order = drawn(0), np.random.default_rng(1).permutation(9)
    table = np.zeros_like(classes.dense)
    table[:, order] = classes.dense
    queries, labels = order[classes.queries], order[classes.labels]
    moved = CorpusClasses.from_table(queries, labels, table, shares=classes.shares)
    one, other = (solve_flow(each, Rates(3.0, 2.0), [5.0]) for each in (classes, moved))
    np.testing.assert_allclose(one.loss(), other.loss(), atol=1e-8)
    np.testing.assert_allclose(
        np.sort(one.attention()[-1], axis=1), np.sort(other.attention()[-1], axis=1), atol=1e-7
    )


def test_attention_leaves_common_tokens_for_the_most_frequent_distinct_ones():
    flow = solve_flow(draw_linear_classes(2), Rates(10.0, 10.0), [100.0])
    own = flow.attention()[-1][0][10:20]
    assert (np.diff(own) > 0).all()
    assert flow.attention()[-1][0][:10].sum() < 0.5 < flow.reduced.probabilities[0][:10].sum()
