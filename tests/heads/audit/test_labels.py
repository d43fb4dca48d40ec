"""Labels: the rule on given shares, and heads that were built for each label."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attomaton.heads.audit.ceiling import Ceiling
from attomaton.heads.audit.heads import Audit, audit_heads
from attomaton.heads.audit.jackknife import Estimates, NullDistribution
from attomaton.heads.audit.labels import LABELS, divide, label_heads
from attomaton.heads.audit.ladder import Ladder
from attomaton.heads.audit.randomised import rotate_beside
from attomaton.heads.audit.rungs import plain_rungs
from attomaton.heads.audit.seeking import Seeking
from attomaton.heads.model import Head
from attomaton.heads.patterns import PatternModel
from tests.heads.audit.built import TEXTS, build_labelled, build_seekers, draw_sentences

NAMES = tuple(rung.name for rung in plain_rungs(TEXTS))
HOW = Audit(window=16, per_document=8)


def settled(values):
    """Estimates that are the same without any document."""
    return Estimates(np.asarray(values, float), np.tile(values, (9, 1)))


def label(pairs=None, *, excess=0.0, null=None, **shares_of):
    """The label of one head, from what some rungs add; the ceiling is what all explain unless it is given."""
    parts = np.array([shares_of.get(name.replace(" ", "_"), 0.0) for name in NAMES])
    shares = tuple(settled([one]) for one in parts.cumsum())
    heads = (Head(0, 0),)
    added = tuple(settled([one]) for one in parts)
    ladder = Ladder(heads, NAMES, True, shares, added, np.ones((len(NAMES), 1)))
    seeking = Seeking(heads, settled([0.1]), settled([0.0]), settled([excess]), 90, 9)
    if null is not None:
        many = tuple(Head(0, number) for number in range(20))
        spread = NullDistribution(many, np.linspace(-null, null, 20), np.zeros(20))
        ladder, seeking = replace(ladder, null=(spread,) * len(NAMES)), replace(seeking, null=spread)
    ceiling = Ceiling(settled([parts.sum() if pairs is None else pairs]), np.zeros(1, int))
    [found] = label_heads(ladder, seeking, ceiling, np.zeros(1))
    assert found.name in LABELS
    return found.name


def test_the_rule_on_given_shares():
    assert label(sink=0.95) == "sink"
    assert label(sink=0.9, induction=0.03, pairs=0.9) == "induction"  # 30 % of what is beside the sink
    assert label(sink=0.9, induction=0.01, pairs=0.9) == "sink"
    assert label(induction=0.12, induction_by_2=0.1, pairs=0.0) == "induction"
    assert label(previous_token=0.45, position=0.4) == "previous token"
    assert label(previous_token=0.3, position=0.4) == "position"
    assert label(duplicate=0.25, key_token=0.6) == "duplicate"
    assert label(delimiters=0.4, sentence_start=0.2) == "delimiter"
    assert label(key_token=0.2, position=0.1, pairs=0.8) == "token-specific"
    assert label(key_token=0.2, pairs=0.3) == "contextual"
    assert label(key_token=0.3, position=0.3, pairs=0.6) == "mixed"
    assert label() == "uniform"
    assert label(pairs=0.1) == "contextual"


def test_a_head_that_attends_uniformly_is_uniform():
    def patterns(ids):
        below = torch.ones(ids.shape[1], ids.shape[1]).tril()
        return [(below / below.sum(1, keepdim=True)).expand(len(ids), 1, -1, -1)]

    model = PatternModel.from_function(patterns, n_tokens=9)
    documents = np.random.default_rng(0).integers(0, 9, (30, 40))
    [found] = audit_heads(model, documents, how=HOW).labels
    assert str(found) == "uniform: 100 % of attention"


def test_random_heads_must_be_exceeded_where_they_were_measured():
    assert label(induction=0.5, null=0.01, pairs=0.0) == "induction"
    assert label(induction=0.5, null=2.0, pairs=0.0) == "contextual"
    assert label(key_token=0.2, excess=0.5, null=0.01) == "label seeking"
    assert label(key_token=0.2, excess=0.5) == "contextual"  # without random heads nothing is called so
    assert label(key_token=0.8, excess=0.5, null=0.01) == "token-specific"


def test_parts_add_up_to_one():
    rng = np.random.default_rng(0)
    added = rng.dirichlet(np.ones(len(NAMES) + 2), 5).T[: len(NAMES)]
    heads = tuple(Head(0, number) for number in range(5))
    shares = tuple(settled(one) for one in added.cumsum(0))
    ladder = Ladder(heads, NAMES, True, shares, tuple(map(settled, added)), np.ones(added.shape))
    parts = divide(ladder, Ceiling(settled(shares[-1].value), np.zeros(5, int)))
    beside = sum(part for name, part in parts.items() if name not in ("sink", "previous token"))
    np.testing.assert_allclose(beside, 1.0)


@pytest.fixture(scope="module")
def built():
    rng = np.random.default_rng(7)
    model, labels = build_labelled(rng)
    return audit_heads(model, draw_sentences(rng), rungs=plain_rungs(TEXTS), how=HOW), labels


def test_built_heads_get_their_labels(built):
    audit, labels = built
    assert set(labels) == set(LABELS) - {"label seeking", "uniform", "outside the window"}
    right = [one.name == label for one, label in zip(audit.labels, labels, strict=True)]
    assert np.mean(right) >= 0.94


def test_heads_that_seek_the_label_are_found():
    rng = np.random.default_rng(8)
    seeker, model, labels = build_seekers(rng, n_heads=4)
    random = [rotate_beside(model, seed=seed) for seed in range(2)]
    found = audit_heads(seeker, draw_sentences(rng), rungs=plain_rungs(TEXTS), random=random, how=HOW).labels
    assert [one.name for one in found] == labels
