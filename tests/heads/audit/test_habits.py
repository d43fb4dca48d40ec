"""What heads give to tokens by habit."""

from dataclasses import replace

import numpy as np

from attomaton.heads.audit.explanations import TokenCounts
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.seeking import PSEUDO_COUNTS, Habits, seek_labels
from tests.heads.audit.standin import StandIn, draw_documents


def expect_by_definition(fitted, row, head):
    """The attention of a head by habit in the first of some rows, position by position."""
    profile, strength = fitted.profile[head], PSEUDO_COUNTS / fitted.window
    attention = fitted.attention[:, head].astype(np.float64)
    usual = np.broadcast_to(profile, attention.shape)
    expected = np.empty(fitted.window)
    for place, token in enumerate(row.tokens[0].tolist()):
        mine = fitted.tokens == token
        factor = (attention[mine].sum() + strength) / (usual[mine].sum() + strength)
        both = mine & (fitted.queries == row.queries[0])[:, None]
        factor = (attention[both].sum() + strength * factor) / (usual[both].sum() + strength)
        expected[place] = profile[place] * factor
    return expected / expected.sum()


DOCUMENTS = draw_documents(60)
ROWS = record(StandIn(), DOCUMENTS, window=8).rows
FITTED, SCORED = ROWS.take(ROWS.documents < 30), ROWS.take(ROWS.documents >= 30)


def test_the_fast_habits_are_the_definition():
    habits = Habits.of(FITTED)
    for head in range(len(ROWS.heads)):
        expected = habits.expect(SCORED, head)
        for place in range(0, len(SCORED), 37):
            own = expect_by_definition(FITTED, SCORED.take(np.array([place])), head)
            np.testing.assert_allclose(expected[place], own, rtol=1e-10)


def test_a_pair_that_was_never_seen_has_its_tokens_habit():
    habits = Habits.of(FITTED.take(FITTED.queries != 3))
    asked = SCORED.take(SCORED.queries == 3)
    plain = habits.profile[0] * habits.tokens[0][asked.tokens]
    np.testing.assert_allclose(habits.expect(asked, 0), plain / plain.sum(1, keepdims=True), rtol=1e-12)


def test_of_a_head_that_likes_pairs_by_accident_most_is_taken_away():
    """Labels follow from queries, and a head likes what follows by query and token alone: habit says most.

    Not all: factors are means over rows with and without the liked token, and are shrunk.
    """
    rng = np.random.default_rng(0)
    step = rng.permutation(12)
    documents = []
    for _ in range(80):
        ids = [0]
        while len(ids) < 60:
            ids.append(int(step[ids[-1]]) if rng.random() < 0.5 else int(rng.integers(12)))
        documents.append(np.array(ids))
    rows = record(StandIn(), documents, window=8).rows
    liked = np.where(rows.tokens == step[rows.queries][:, None], 3.0, 1.0)
    attention = np.repeat((liked / liked.sum(1, keepdims=True))[:, None], len(rows.heads), 1)
    rows = replace(rows, attention=attention.astype(np.float32))
    fitted, scored = rows.take(rows.documents < 40), rows.take(rows.documents >= 40)
    found = seek_labels(fitted, scored, TokenCounts.of(documents, n_tokens=12))
    assert found.over_profile.z.min() > 5
    assert np.abs(found.excess.value).max() < 0.4 * found.over_profile.value.min()
