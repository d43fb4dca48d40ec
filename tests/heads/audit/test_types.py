"""Types: the rule on given shares, and heads that were built for each type."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attomaton.heads import AuditSettings, PatternModel, audit_heads, plain_rungs, rotate_beside
from attomaton.heads.audit.ceiling import Ceiling
from attomaton.heads.audit.jackknife import Estimates, NullDistribution
from attomaton.heads.audit.ladder import Ladder
from attomaton.heads.audit.seeking import Seeking
from attomaton.heads.audit.types import TESTED, TYPES, divide_into_types, type_heads
from attomaton.heads.model import Head
from tests.heads.audit.built import BUILT, TEXTS, build_seekers, build_typed, draw_sentences

NAMES = tuple(rung.name for rung in plain_rungs(TEXTS))
HOW = AuditSettings(window=16, per_document=8)


def settled(values):
    """Estimates that are the same without any document."""
    return Estimates(np.asarray(values, float), np.tile(values, (9, 1)))


def find_type(pairs=None, *, excess=0.0, null=None, away=(), **shares_of):
    """The type of one head, from what some rungs add; the ceiling is what all explain unless it is given.

    ``null`` is where the arcsine of the root of shares of twenty random heads lies, for every type; the head
    looks away from what the rungs ``away`` point to.
    """
    parts = np.array([shares_of.get(name.replace(" ", "_"), 0.0) for name in NAMES])
    shares = tuple(settled([one]) for one in parts.cumsum())
    heads = (Head(0, 0),)
    added = tuple(settled([one]) for one in parts)
    scales = np.array([[-1.0 if name in away else 1.0] for name in NAMES])
    ladder = Ladder(heads, NAMES, True, shares, added, scales)
    seeking = Seeking(heads, settled([0.1]), settled([0.0]), settled([excess]), 90, 9)
    nulls = ()
    if null is not None:
        many = np.zeros(20, np.int64)
        nulls = (NullDistribution(many, null + np.linspace(-0.1, 0.1, 20), np.zeros(20)),) * len(TESTED)
        spread = NullDistribution(many, np.linspace(-0.1, 0.1, 20), np.zeros(20))
        seeking = replace(seeking, null=spread)
    ceiling = Ceiling(settled([parts.sum() if pairs is None else pairs]), np.zeros(1, int))
    [found] = type_heads(ladder, seeking, ceiling, np.zeros(1), nulls)
    assert found.name in TYPES
    return found


def name_type(*given, **shares_of):
    return find_type(*given, **shares_of).name


def test_the_rule_on_given_shares():
    assert name_type(sink=0.95) == "sink"
    assert name_type(sink=0.9, induction=0.03, pairs=0.9) == "induction"  # 30 % of what is beside the sink
    assert name_type(sink=0.9, induction=0.01, pairs=0.9) == "sink"
    assert name_type(induction=0.12, induction_by_2=0.1, pairs=0.0) == "induction"
    assert name_type(previous_token=0.45, position=0.4) == "previous token"
    assert name_type(previous_token=0.3, position=0.4) == "position"
    assert name_type(duplicate=0.25, key_token=0.6) == "duplicate"
    assert name_type(delimiters=0.4, sentence_start=0.2) == "delimiter"
    assert name_type(key_token=0.2, position=0.1, pairs=0.8) == "token-specific"
    assert name_type(key_token=0.2, pairs=0.3) == "contextual"
    assert name_type(key_token=0.3, position=0.3, pairs=0.6) == "mixed"
    assert name_type() == "uniform"
    assert name_type(pairs=0.1) == "contextual"


def test_a_head_that_looks_away_is_not_of_that_type():
    assert name_type(sink=0.95, away=["sink"]) == "mixed"
    assert name_type(delimiters=0.7, away=["delimiters"]) == "mixed"
    assert name_type(duplicate=0.5, key_token=0.5, away=["duplicate"]) == "token-specific"


def test_a_head_that_attends_uniformly_is_uniform():
    def patterns(ids):
        below = torch.ones(ids.shape[1], ids.shape[1]).tril()
        return [(below / below.sum(1, keepdim=True)).expand(len(ids), 1, -1, -1)]

    model = PatternModel.from_function(patterns, n_tokens=9)
    documents = np.random.default_rng(0).integers(0, 9, (30, 40))
    [found] = audit_heads(model, documents, settings=HOW).types
    assert str(found) == "uniform: 100 % of attention"


def test_a_specific_type_must_exceed_random_heads():
    assert name_type(induction=0.5, null=0.3, pairs=0.0) == "induction"
    assert name_type(induction=0.5, null=0.8, pairs=0.0) == "contextual"  # the next larger part
    assert name_type(key_token=0.8, null=0.3) == "token-specific"
    assert name_type(key_token=0.8, null=1.1) == "like random weights"
    assert name_type(sink=0.95, null=1.3) == "like random weights"
    assert name_type(position=0.7, null=1.0) == "like random weights"
    assert name_type(key_token=0.2, pairs=0.3, null=1.0) == "contextual"
    assert name_type(key_token=0.2, excess=0.5, null=0.3) == "next-token seeking"
    assert name_type(key_token=0.8, excess=0.5, null=1.1) == "next-token seeking"
    assert name_type(key_token=0.8, excess=0.5, null=0.3) == "token-specific"


def test_a_type_says_what_it_was_compared_with():
    assert "z +" in str(find_type(key_token=0.8, null=0.3))
    alike = find_type(key_token=0.8, null=1.1)
    assert str(alike).startswith(
        "like random weights: token-specific has 80 % of the attention beside the sink, but"
    )
    assert f"(z {alike.z:+.1f})" in str(alike)
    alone = find_type(key_token=0.8)
    assert str(alone).endswith("there are no random heads to compare with, so random weights may do the same")


def test_parts_add_up_to_one():
    rng = np.random.default_rng(0)
    added = rng.dirichlet(np.ones(len(NAMES) + 2), 5).T[: len(NAMES)]
    heads = tuple(Head(0, number) for number in range(5))
    shares = tuple(settled(one) for one in added.cumsum(0))
    ladder = Ladder(heads, NAMES, True, shares, tuple(map(settled, added)), np.ones(added.shape))
    parts = divide_into_types(ladder, Ceiling(settled(shares[-1].value), np.zeros(5, int)))
    beside = sum(part.value for name, part in parts.items() if name not in ("sink", "previous token"))
    np.testing.assert_allclose(beside, 1.0)


@pytest.fixture(scope="module")
def built():
    rng = np.random.default_rng(7)
    model, types = build_typed(rng)
    return audit_heads(model, draw_sentences(rng), rungs=plain_rungs(TEXTS), settings=HOW), types


@pytest.mark.costly("audits 18 built heads beside random heads")
def test_built_heads_get_their_types(built):
    audit, types = built
    assert set(types) == set(BUILT)
    right = [one.name == kind for one, kind in zip(audit.types, types, strict=True)]
    assert np.mean(right) >= 0.94


def test_heads_that_seek_the_next_token_are_found():
    rng = np.random.default_rng(8)
    seeker, model, types = build_seekers(rng, n_heads=4)
    random = [rotate_beside(model, seed=seed) for seed in range(2)]
    found = audit_heads(
        seeker, draw_sentences(rng), rungs=plain_rungs(TEXTS), random=random, settings=HOW
    ).types
    assert [one.name for one in found] == types
