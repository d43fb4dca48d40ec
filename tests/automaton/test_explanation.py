"""One context, looked at: the numbers are those of the automaton, and every rule has its words."""

import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.context_view import POSITIONS
from attomaton.automaton.explanation import Rule
from attomaton.base.printing import PRINTED_ROWS

SAMPLES = at.Samples.from_lists(
    [[0, 1, 3], [1, 0, 3], [1, 2, 3], [4, 5, 3], [0, 1, 3], [6, 2]], [0, 1, 1, 4, 0, 6], n_tokens=8
)
AUTO = at.learn(SAMPLES)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=2 * POSITIONS))
def test_the_numbers_shown_are_those_of_the_automaton(context):
    shown = AUTO.show(context)
    html, text = shown._repr_html_(), repr(shown)
    probabilities = AUTO.predict_proba(context)
    for token in np.flatnonzero(probabilities)[:PRINTED_ROWS]:
        assert f"{probabilities[token]:.6f}" in html
        assert re.search(rf"^  {token} +{probabilities[token]:.6f}", text, re.M)
    attention = AUTO.attention(context)
    notes = re.findall(r"<br><span[^>]*>([\d.]+)%<", html)
    assert notes == [f"{100 * weight:.1f}" for weight in attention[-POSITIONS:] if weight]
    if len(context) > POSITIONS:
        assert f"{attention[:-POSITIONS].sum():.1%} of attention" in html
    assert text.count("[") == sum(attention[-POSITIONS:] > 0)


@pytest.mark.parametrize(
    ("context", "rule", "words"),
    [
        ([0, 2, 3], Rule.DETERMINED, "beats 2: direct, support 1: 1 → 2 ×1"),
        ([0, 4, 3], Rule.INCOMPARABLE, "are retrieved; no path orders them"),
        ([4, 2, 3], Rule.INCOMPARABLE, "a lower hard score, although no path orders them: 2"),
        ([0, 7, 3], Rule.UNSEEN_IGNORED, "no evidence about them under this query: 7"),
        ([0, 7], Rule.NO_EVIDENCE, "by convention"),
    ],
)
def test_every_rule_is_told(context, rule, words):
    shown = AUTO.show(context)
    assert shown.explanation.rule is rule
    for told in (repr(shown), shown._repr_html_()):
        assert rule.words in told
    assert words in repr(shown)


def test_attention_at_a_finite_step_is_shown_too():
    shown = AUTO.at(50).show([0, 2, 3])
    assert shown.explanation.rule is Rule.SCORED
    assert repr(shown).count("#") >= 19
    assert shown == AUTO.at(50).show([0, 2, 3])


def test_a_long_path_and_long_lists_are_cut():
    n_tokens = 60
    contexts = [[one, one + 1, n_tokens - 1] for one in range(n_tokens - 2)]
    auto = at.learn(at.Samples.from_lists(contexts, list(range(n_tokens - 2)), n_tokens=n_tokens))
    shown = auto.show([*range(n_tokens - 1), n_tokens - 1])
    assert f"and {n_tokens - 1 - PRINTED_ROWS} more" in repr(shown)
    far = auto.show([0, n_tokens - 3, n_tokens - 1])
    assert "57 steps" in repr(far)
    assert "and 52 more steps" in repr(far)
    assert len(far._repr_html_()) < 10_000
