"""Forecasts: the first movement of scores, what is distinct, what fades first, and when."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import InvalidSamples, UnknownToken, UnsupportedOption
from attomaton.theories.scansnap import pulls as module
from attomaton.theories.scansnap.assumptions import (
    check_assumptions,
    largest_overlap,
    mean_overlap,
)
from attomaton.theories.scansnap.classes import CorpusClasses, classes_of_contexts, draw_linear_classes
from attomaton.theories.scansnap.flow import solve_flow
from attomaton.theories.scansnap.followed import can_follow, follow_attention, half_time
from attomaton.theories.scansnap.forecast import (
    find_distinct,
    forecast_queries,
)
from attomaton.theories.scansnap.heads import MassHead
from attomaton.theories.scansnap.law import Rates, SnapLaw, find_class_times
from attomaton.theories.scansnap.pulls import find_pulls
from attomaton.theories.scansnap.survey import survey_samples
from tests.relabelling import relabel
from tests.strategies import orderings, paper_draws, vectors
from tests.theories.scansnap.definitions import define_distinct, define_overlaps, define_pull, entries_of
from tests.theories.scansnap.test_estimation import counted_sets

RATES = Rates(decoder=2.0, attention=0.5)
FIGURES = [(2, 1), (1, 2), (3, 2)]


@st.composite
def drawn_classes(draw, max_classes=5, n_tokens=7):
    """Classes with any laws, some labels under several queries; about half of the tokens are in each."""
    places = st.integers(0, n_tokens * n_tokens - 1)
    pairs = np.array(draw(st.lists(places, min_size=2, max_size=max_classes, unique=True)))
    weights = np.maximum(draw(vectors(len(pairs), n_tokens)), 0.0)
    weights[:, 0] += 0.1
    shares = np.abs(draw(vectors(len(pairs)))) + 0.1
    return CorpusClasses.from_table(pairs // n_tokens, pairs % n_tokens, weights, shares=shares)


@given(counted_sets(), st.integers(1, 30))
def test_pulls_are_what_the_definition_says(samples, at_once):
    classes = CorpusClasses.from_samples(samples)
    queries = np.unique(classes.queries)
    whole, module.VALUES_AT_ONCE = module.VALUES_AT_ONCE, at_once
    try:
        found = find_pulls(classes, queries)
    finally:
        module.VALUES_AT_ONCE = whole
    for query, (tokens, pulls) in zip(queries, found, strict=True):
        wanted = define_pull(classes, query)
        np.testing.assert_allclose(pulls, wanted[tokens], atol=1e-15)
        assert np.abs(np.delete(wanted, tokens)).sum() == 0


@given(drawn_classes())
def test_the_flow_begins_with_the_pull(classes):
    time = 1e-4
    flow = solve_flow(classes, RATES, [time], rtol=1e-10, atol=1e-18)
    scale = RATES.decoder * RATES.attention * time**2 / 2
    for row, query in enumerate(flow.reduced.queries):
        wanted = define_pull(classes, query)[flow.reduced.keys]
        np.testing.assert_allclose(flow.scores[-1, row] / scale, wanted, atol=2e-3 * np.abs(wanted).max())


@pytest.mark.parametrize(("n_queries", "classes_per_query"), FIGURES)
def test_where_labels_have_one_query_distinct_tokens_are_pulled_up_by_the_law(n_queries, classes_per_query):
    classes = draw_linear_classes(n_queries, classes_per_query=classes_per_query)
    overlaps = define_overlaps(classes)
    for n in range(len(classes)):
        tokens, _ = entries_of(classes, n)
        own = np.intersect1d(tokens, classes.distinct())
        feature = classes.dense[n, own] / np.linalg.norm(classes.dense[n])
        others = (classes.shares * overlaps[n]).sum() - classes.shares[n]
        wanted = classes.shares[n] * feature**2 * others / classes.n_tokens
        np.testing.assert_allclose(define_pull(classes, classes.queries[n])[own], wanted, rtol=1e-9)


def test_a_label_under_several_queries_pulls_its_distinct_tokens_down():
    table = [[1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]]
    apart = CorpusClasses.from_table([3, 4], [3, 4], table)
    shared = CorpusClasses.from_table([3, 4], [5, 5], table)
    assert define_pull(apart, 3)[1] > 0 > define_pull(shared, 3)[1]


@given(counted_sets(), st.sampled_from([0.0, 0.3, 0.6]))
def test_distinct_tokens_are_what_the_definition_says(samples, tolerance):
    classes = CorpusClasses.from_samples(samples)
    tokens, entries = find_distinct(classes, tolerance)
    wanted = define_distinct(classes, tolerance)
    assert tokens.tolist() == sorted(wanted)
    held = classes.shares[classes.rows] * classes.probabilities
    for token, entry in zip(tokens.tolist(), entries.tolist(), strict=True):
        assert classes.tokens[entry] == token
        best = (classes.rows == wanted[token]) & (classes.tokens == token)
        assert held[entry] == pytest.approx(held[best].item())


@given(counted_sets(), orderings(6))
def test_forecasts_follow_a_permutation_of_token_ids(samples, order):
    new = order[order < samples.n_tokens]
    before = forecast_queries(CorpusClasses.from_samples(samples), RATES)
    after = {
        one.query: one for one in forecast_queries(CorpusClasses.from_samples(relabel(samples, new)), RATES)
    }
    for one in before:
        other = after[new[one.query]]
        assert sorted(new[one.distinct].tolist()) == sorted(other.distinct.tolist())
        assert sorted(new[one.common].tolist()) == other.common.tolist()
        np.testing.assert_allclose(
            other.pulls[np.searchsorted(other.tokens, new[one.tokens])], one.pulls, atol=1e-15
        )
        np.testing.assert_allclose(other.snaps, one.snaps)
        assert other.upward == pytest.approx(one.upward)


@given(counted_sets())
def test_the_order_of_fading_is_that_of_the_pulls(samples):
    for one in forecast_queries(CorpusClasses.from_samples(samples), RATES, tolerance=0.2):
        assert (np.diff(one.pulls[np.searchsorted(one.tokens, one.distinct)]) >= 0).all()
        assert sorted([*one.distinct.tolist(), *one.common.tolist()]) == one.tokens.tolist()
        assert set(one.everywhere.tolist()) <= set(one.distinct.tolist())
        number = len(one.distinct)
        shown = [*one.first_to_fade(number).tolist(), *one.last_to_stay(number)[::-1].tolist()]
        assert shown == one.distinct.tolist()
        assert one.class_shares.sum() == pytest.approx(one.share)
        assert one.snaps[0] <= one.half_snap <= one.snaps[-1]


def test_in_a_class_the_order_of_fading_is_that_of_probability_and_of_the_flow():
    classes = draw_linear_classes(1, classes_per_query=2)
    [one] = forecast_queries(classes, RATES)
    assert one.upward == 1.0
    assert one.everywhere.tolist() == one.distinct.tolist()
    end = solve_flow(classes, RATES, [200.0])
    for number in range(2):
        own = one.distinct[one.owners == number]
        assert (np.diff(one.probabilities[one.owners == number]) > 0).all()
        assert (np.diff(end.scores[-1, 0][np.searchsorted(end.reduced.keys, own)]) > 0).all()
    assert one.lowered_first(30).tolist() == list(range(10))
    assert (end.scores[-1, 0, :10] < 0).all()


def test_times_are_those_of_as_many_equal_classes():
    rates = Rates(decoder=5.0, attention=0.5)
    law = SnapLaw(10, 1000, rates, start=1e9)
    (turn,), (snap,) = find_class_times(np.array([0.1]), 1000, rates)
    assert (turn, snap) == pytest.approx((law.turn, law.snap))
    _, (sooner,) = find_class_times(np.array([0.1]), 1000, Rates(decoder=10.0, attention=0.5))
    assert 2 * sooner == pytest.approx(law.snap)


@pytest.mark.parametrize(("common_weight", "least", "most"), [(0.1, 0.98, 1.05), (1.0, 1.3, 2.0)])
def test_the_law_of_time_is_that_of_the_flow_for_weakly_correlated_classes(common_weight, least, most):
    """The probability of the label passes ½ where the law has it; where classes overlap they wait."""
    classes = draw_linear_classes(3, classes_per_query=2, common_weight=common_weight)
    odds = classes.n_tokens - 1  # e^{M h} at probability ½
    told = len(classes) * (odds * np.log(odds) + odds - 1) / classes.n_tokens
    times = told * np.geomspace(0.5, 4, 60)
    losses = solve_flow(classes, Rates(decoder=1.0, attention=0.1), times).loss()
    passed = np.interp(-np.log(2), -losses, times)
    assert least < passed / told < most


def test_bad_options_are_refused():
    classes = draw_linear_classes(1)
    with pytest.raises(UnsupportedOption, match="tolerance"):
        forecast_queries(classes, RATES, tolerance=1.0)
    with pytest.raises(UnknownToken, match="not the query of a class"):
        find_pulls(classes, [0])
    with pytest.raises(UnsupportedOption, match="too large"):
        follow_attention(draw_linear_classes(20), RATES, until=1.0)
    with pytest.raises(UnsupportedOption, match="can be integrated"):
        solve_flow(draw_linear_classes(40), RATES, [1.0])
    unrealisable = CorpusClasses.from_table([2], [1], [[1, 0, 0]])
    with pytest.raises(InvalidSamples, match="no attention falls on it"):
        solve_flow(unrealisable, RATES, [1.0], head=MassHead())


@given(drawn_classes())
def test_mean_overlap_is_that_of_all_pairs(classes):
    pairs = np.outer(classes.shares, classes.shares)
    np.fill_diagonal(pairs, 0.0)
    overlaps = define_overlaps(classes)
    assert mean_overlap(classes) == pytest.approx((pairs * overlaps).sum() / pairs.sum())
    np.fill_diagonal(overlaps, 0.0)
    assert largest_overlap(classes) == pytest.approx(overlaps.max())


def test_assumptions_can_all_be_met_and_all_be_missed():
    weights = np.zeros((2, 2000))
    weights[0, :5], weights[1, 5:10], weights[:, 10] = 1.0, 1.0, 0.2
    good = CorpusClasses.from_table([11, 12], [13, 14], weights)
    assert all(one.met for one in check_assumptions(good, Rates(decoder=20.0, attention=1.0)))
    samples = at.Samples.from_lists([[0, 1, 2], [0, 1, 2], [0, 1, 3], [1, 0, 3]], [0, 1, 0, 1])
    bad = CorpusClasses.from_samples(samples)
    assert not any(one.met for one in check_assumptions(bad, Rates(decoder=1.0, attention=1.0)))


@given(paper_draws(n_tokens=5, n_samples=6, window=3).filter(lambda samples: (samples.lengths > 1).any()))
def test_the_layer_with_a_mass_head_descends_the_loss_of_the_first_paper(samples):
    n_tokens = samples.n_tokens
    classes = classes_of_contexts(samples, query_is_key=True)
    time = 1e-4
    flow = solve_flow(classes, Rates(decoder=1.0, attention=1.0), [time], head=MassHead())
    wanted = np.zeros((n_tokens, n_tokens))  # −∂L/∂S: where the mass goes minus where it is
    for context, label in samples:
        wanted[context[-1], label] += 1 / len(samples)
        wanted[context[-1]] -= np.bincount(context, minlength=n_tokens) / len(context) / len(samples)
    found = np.zeros((n_tokens, n_tokens))
    found[np.ix_(flow.reduced.queries, flow.reduced.keys)] = flow.scores[-1] / time
    np.testing.assert_allclose(found, wanted, atol=2e-3)


def test_what_the_flow_keeps_where_nothing_is_distinct():
    """Two labels under one query, told apart by how often two tokens stand there, not by which."""
    classes = CorpusClasses.from_table([2, 2], [3, 4], [[3, 1, 1, 0, 0, 0], [1, 3, 1, 0, 0, 0]])
    assert len(classes.distinct()) == 0
    assert can_follow(classes)
    [kept] = follow_attention(classes, RATES, until=half_time(classes, RATES))
    assert kept.tokens[0] == 2
    assert kept.scores.sum() == pytest.approx(0, abs=1e-6)
    assert kept.before.sum() == pytest.approx(1)
    assert kept.after.sum() == pytest.approx(1)
    ratios = kept.after / kept.before  # by symmetry the two others rise alike
    assert ratios[0] < 1 < ratios[1] == pytest.approx(ratios[2])


def test_a_survey_of_text_keeps_its_names():
    survey = survey_samples(["a b c a b d a b", "c d a b c"], RATES, window=4)
    assert set(survey.to_pandas()["query"]) <= {"a", "b", "c", "d"}
    assert {one["query"] for one in survey.to_dict()["forecasts"]} <= {"a", "b", "c", "d"}
    assert "│ a" in str(survey)
