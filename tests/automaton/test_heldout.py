"""Held-out use: scores of predictions, finite attention, shrinkage, and contexts without evidence."""

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, strategies as st

import attomaton as at
from attomaton.automaton.finite import FiniteAttention
from attomaton.automaton.scoring import PROBABILITY_TIE, fit_epsilon, mix_uniform, score_prediction
from attomaton.automaton.shrinkage import (
    CANDIDATE_STRENGTHS,
    choose_strength,
    pool_scores,
    prepare_shrinkage,
    shrink,
)
from attomaton.base.errors import InvalidSamples, MismatchedParts, UnsupportedOption
from attomaton.base.solutions import SCORE_SCHEMA
from attomaton.graphs.bags import count_tokens
from tests.drawn import learn_parts, paper_draw
from tests.strategies import paper_draws, realisable_sets, sample_sets, vectors
from tests.trajectory.definition import descend_by_definition

CONTEXTS = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@st.composite
def finite_attentions(draw, n_tokens=6):
    """Any scores for none, some or all pairs, over any background, flat ones too."""
    scores, least = draw(vectors(n_tokens, n_tokens)), draw(st.sampled_from([np.inf, 0.1, -np.inf]))
    query, token = np.nonzero(scores >= least)
    columns = {"query": query, "token": token, "score": 2 * scores[query, token]}
    background = draw(vectors(n_tokens)) * draw(st.sampled_from([0.0, 1.0]))
    return FiniteAttention(pa.table(columns, schema=SCORE_SCHEMA), background)


def probabilities_by_definition(attention, context):
    """token → m_j e^{s_kj} / Σ, word for word."""
    own = {(row["query"], row["token"]): row["score"] for row in attention.scores.to_pylist()}
    odds = {
        token: times * math.exp(own.get((context[-1], token), attention.background[token]))
        for token, times in Counter(context).items()
    }
    return {token: odd / sum(odds.values()) for token, odd in odds.items()}


def realisable_part(samples):
    return [(context, label) for context, label in samples if label in context]


def score_by_loop(predict, samples, epsilon=0.0):
    """Mean −ln p, mean 1/ties of the hits and the share of zeros, one sample after the other."""
    losses, hits, zeros = [], [], []
    for context, label in realisable_part(samples):
        probabilities = (1 - epsilon) * np.asarray(predict(context))
        for token in context:
            probabilities[token] += epsilon / len(context)
        gaps = {token: 1 - probabilities[token] / max(probabilities) for token in set(context)}
        assume(
            not any(PROBABILITY_TIE / 10 < gap < 10 * PROBABILITY_TIE for gap in gaps.values())
        )  # equal or not, clearly
        best = [token for token, gap in gaps.items() if gap < PROBABILITY_TIE]
        losses.append(-math.log(probabilities[label]) if probabilities[label] else math.inf)
        hits.append(1 / len(best) if label in best else 0.0)
        zeros.append(probabilities[label] == 0)
    return np.mean(losses), np.mean(hits), np.mean(zeros)


def figures(score):
    return score.log_loss, score.top1, score.zero_share


@given(finite_attentions(), CONTEXTS)
def test_finite_attention_is_the_formula(attention, context):
    expected = probabilities_by_definition(attention, context)
    probabilities = attention.predict_proba(context)
    np.testing.assert_allclose(probabilities[list(expected)], list(expected.values()), rtol=1e-12)
    np.testing.assert_allclose([probabilities.sum(), attention.attention(context).sum()], 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        np.bincount(context, attention.attention(context), 6), probabilities, rtol=1e-12
    )
    explanation = attention.explain(context)
    assert explanation.probabilities == {token: probabilities[token] for token in sorted(set(context))}


@given(finite_attentions(), CONTEXTS)
def test_the_rule_says_whether_the_background_answered(attention, context):
    own = {(row["query"], row["token"]) for row in attention.scores.to_pylist()}
    unseen = sorted(token for token in set(context) if (context[-1], token) not in own)
    rule = attention.explain(context).rule
    assert attention.explain(context).unseen == tuple(unseen)
    if not unseen:
        assert rule is at.automaton.Rule.SCORED
    elif len(unseen) < len(set(context)):
        assert rule is at.automaton.Rule.UNSEEN_BACKGROUND
    else:
        flat = len({attention.background[token] for token in context}) == 1
        assert rule is (at.automaton.Rule.NO_EVIDENCE if flat else at.automaton.Rule.BACKGROUND)
        if flat:
            np.testing.assert_allclose(attention.attention(context), 1 / len(context))


@given(finite_attentions(), realisable_sets(), st.sampled_from([0.0, 0.3, 1.0]))
def test_many_contexts_at_once_score_like_one_after_the_other(attention, samples, epsilon):
    batch = attention.predict_samples(samples)
    for number, (context, _) in enumerate(samples):
        here = batch.bags.sample == number
        np.testing.assert_allclose(
            batch.probabilities[here],
            attention.predict_proba(list(context))[batch.bags.token[here]],
            rtol=1e-12,
        )
    score = attention.score(samples, epsilon=epsilon)
    expected = score_by_loop(lambda context: attention.predict_proba(list(context)), samples, epsilon)
    np.testing.assert_allclose(figures(score), expected, rtol=1e-9, atol=1e-12)
    rules = [attention.explain(list(context)).rule for context, _ in realisable_part(samples)]
    assert score.n_samples == len(rules)
    back = [rule in (at.automaton.Rule.NO_EVIDENCE, at.automaton.Rule.BACKGROUND) for rule in rules]
    assert score.no_evidence == pytest.approx(np.mean(back))
    assert score.unseen == pytest.approx(np.mean([rule is not at.automaton.Rule.SCORED for rule in rules]))


@given(sample_sets(min_samples=4), realisable_sets(), st.sampled_from([0.0, 0.25]))
def test_the_automaton_scores_as_it_predicts(samples, held_out, epsilon):
    assume(held_out.n_tokens <= samples.n_tokens)
    auto = at.Automaton(*learn_parts(samples))
    expected = score_by_loop(lambda context: auto.predict_proba(list(context)), held_out, epsilon)
    np.testing.assert_allclose(
        figures(auto.score(held_out, epsilon=epsilon)), expected, rtol=1e-9, atol=1e-12
    )


@given(sample_sets(min_samples=4), realisable_sets())
def test_no_other_share_of_uniform_is_better_than_the_fitted_one(samples, held_back):
    prediction = at.Automaton(*learn_parts(samples)).predict_bags(count_tokens(held_back))
    best = fit_epsilon(prediction)
    least = score_prediction(mix_uniform(prediction, best)).log_loss
    others = [score_prediction(mix_uniform(prediction, share)).log_loss for share in np.linspace(0, 1, 21)]
    assert least <= min(others) + 1e-9


@given(sample_sets(min_samples=4, max_samples=30), st.sampled_from([0.05, 0.5, 5.0]))
def test_shrunken_scores_are_stationary(samples, strength):
    """Σ −ln p + ½ r Σ (s − u)² has no slope, taken sample by sample; nor has the pooled loss."""
    attention = shrink(samples, strength=strength, ridge=0.7)
    pulls = {
        (row["query"], row["token"]): strength * (row["score"] - attention.background[row["token"]])
        for row in attention.scores.to_pylist()
    }
    pooled = 0.7 * attention.background
    nothing = FiniteAttention(attention.scores.slice(0, 0), attention.background)
    for context, label in realisable_part(samples):
        for token, probability in probabilities_by_definition(attention, context).items():
            if len(set(context)) > 1:
                pulls[context[-1], token] += probability - (token == label)
        for token, probability in probabilities_by_definition(nothing, context).items():
            pooled[token] += probability - (token == label)
    np.testing.assert_allclose([*pulls.values(), *pooled], 0.0, atol=1e-5)


@given(sample_sets(min_samples=4), CONTEXTS)
def test_an_infinite_pull_leaves_the_pooled_scores(samples, context):
    context = [token % samples.n_tokens for token in context]
    attention = shrink(samples, strength=1e9)
    pooled = FiniteAttention(attention.scores.slice(0, 0), attention.background)
    np.testing.assert_array_equal(
        attention.background, pool_scores(at.extract_choices(samples), samples.n_tokens)
    )
    np.testing.assert_allclose(attention.predict_proba(context), pooled.predict_proba(context), atol=1e-6)


@given(paper_draws(n_samples=12, repeats=True))
def test_without_a_pull_the_limit_comes_back_on_determined_contexts(samples):
    auto = at.Automaton(*learn_parts(samples))
    determined = [
        list(context)
        for context, _ in samples
        if auto.explain(list(context)).rule is at.automaton.Rule.DETERMINED
    ]
    assume(determined)
    shrinkage = prepare_shrinkage(samples)
    errors = []
    for strength in (1e-1, 1e-4, 1e-7):
        attention = shrinkage.solve(strength)
        errors.append(
            max(np.abs(attention.predict_proba(one) - auto.predict_proba(one)).max() for one in determined)
        )
    assert errors[2] < 0.02
    assert errors[2] <= errors[0] + 1e-6


@given(sample_sets(), CONTEXTS)
def test_every_context_has_an_answer(samples, context):
    attention = shrink(samples, strength=0.5)
    context = [token % samples.n_tokens for token in context]
    probabilities = attention.predict_proba(context)
    assert (probabilities[context] > 0).all()
    assert probabilities.sum() == pytest.approx(1.0)
    assert isinstance(attention.explain(context).rule, at.automaton.Rule)


def test_the_strength_is_the_best_on_what_was_held_back():
    rng = np.random.default_rng(0)
    samples = at.synthetic.draw_random(rng, n_tokens=8, n_samples=400, window=5)
    first, last = samples.take(slice(0, 360)), samples.take(slice(360, None))
    tuning = choose_strength(first, last)
    losses = [shrink(first, strength=strength).score(last).log_loss for strength in CANDIDATE_STRENGTHS]
    assert [score.log_loss for score in tuning.scores] == pytest.approx(losses)
    assert tuning.best == CANDIDATE_STRENGTHS[int(np.argmin(losses))]
    assert shrink(samples).scores.equals(shrink(samples, strength=tuning.best).scores)


def test_tokens_beyond_the_vocabulary_are_unseen():
    attention = shrink(at.Samples.from_lists([[0, 1], [1, 0]], [0, 1]), strength=1.0)
    held_out = at.Samples.from_lists([[0, 7, 1], [0, 7]], [0, 7])
    assert attention.score(held_out).n_samples == 2
    assert attention.score(held_out).no_evidence == 0.5


def test_contexts_may_be_text():
    words = at.Vocabulary(("a", "b"))
    attention = shrink(at.Samples.from_lists([[0, 1], [1, 0]], [0, 1]), strength=1.0, vocabulary=words)
    np.testing.assert_array_equal(attention.predict_proba("b a"), attention.predict_proba([1, 0]))


def test_what_cannot_be_is_refused():
    samples = at.Samples.from_lists([[0, 1]], [0])
    with pytest.raises(UnsupportedOption, match=r"strength .* is 0\.0; give a finite number above 0"):
        shrink(samples, strength=0.0)
    with pytest.raises(UnsupportedOption, match=r"ridge .* is -1; give a finite number above 0"):
        shrink(samples, strength=1.0, ridge=-1)
    with pytest.raises(UnsupportedOption, match="epsilon is 2"):
        shrink(samples, strength=1.0).score(samples, epsilon=2)
    with pytest.raises(InvalidSamples, match="no sample has its label in its context"):
        shrink(samples, strength=1.0).score(at.Samples.from_lists([[0]], [1]))
    with pytest.raises(InvalidSamples, match="no sample has its label in its context"):
        at.learn(samples).score(at.Samples.from_lists([[0]], [1]))
    with pytest.raises(InvalidSamples, match=r"none has its label .* set strength"):
        shrink(samples)
    table = pa.table({"query": [1, 0], "token": [0, 0], "score": [0.0, 0.0]}, schema=SCORE_SCHEMA)
    with pytest.raises(MismatchedParts, match="sorted by query"):
        FiniteAttention(table, np.zeros(2))
    with pytest.raises(MismatchedParts, match="not finite"):
        FiniteAttention(table.slice(0, 1), np.array([0.0, np.inf]))


def test_training_can_be_stopped_at_any_step():
    samples = paper_draw(4, repeats=True)
    automaton = at.learn(samples)
    walked = descend_by_definition(samples, np.eye(6), step_size=1.0, n_steps=700)
    for context, _ in samples:
        odds = np.bincount(context, minlength=6) * np.exp(walked[:, context[-1]])
        assert np.allclose(automaton.predict_proba(context, step=700), odds / odds.sum(), atol=1e-9)
    late = automaton.at(1e12)
    for context, _ in samples:
        if automaton.explain(context).rule is at.automaton.Rule.DETERMINED:
            assert np.allclose(late.predict_proba(context), automaton.predict_proba(context), atol=1e-4)


def test_training_is_not_followed_for_what_was_not_trained():
    samples = paper_draw(4)
    with pytest.raises(UnsupportedOption, match="learned without embeddings"):
        at.learn(samples, embeddings=np.eye(6)).at(100)
    with pytest.raises(MismatchedParts, match="min_support=1"):
        at.learn(samples, keep=at.Selection(min_support=3)).at(100)
    with pytest.raises(MismatchedParts, match="different corpora"):
        at.learn(samples).at(100, samples=paper_draw(5))


def test_a_loaded_automaton_asks_for_the_samples(tmp_path):
    samples = paper_draw(4)
    loaded = at.Automaton.load(at.learn(samples, out=tmp_path / "run").save(tmp_path / "other"))
    with pytest.raises(MismatchedParts, match="samples=…"):
        loaded.at(100)
    assert loaded.at(100, samples=samples).predict_proba(samples[0].context).sum() == pytest.approx(1.0)
