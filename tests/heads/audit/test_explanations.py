"""Rungs that depend on tokens and places alone, against their definitions written as loops."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from attomaton.base.errors import UnsupportedOption
from attomaton.heads.audit.explanations import (
    PMI,
    Bigram,
    Delimiters,
    Duplicate,
    Frequency,
    Induction,
    Last,
    PreviousToken,
    SentenceStart,
    Sink,
    Table,
    TokenCounts,
)
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.rungs import OfModel, plain_rungs
from tests.heads.audit.standin import StandIn

TEXTS = ["a", " b", ".", ",", "\n", "end.", '!"', " ", "x\ny", "…", "3"]


def is_delimiter(text):
    return "\n" in text or (text.strip() != "" and all(not letter.isalnum() for letter in text))


def ends_sentence(text):
    bare = text
    while bare and bare[-1] in " \"'”’)":
        bare = bare[:-1]
    return "\n" in text or (bare != "" and bare[-1] in ".!?。")


def by_definition(name, ids, at, lag):
    """What a rung says about the position ``lag`` before the query at ``at`` of a document."""
    key = at - lag
    if name == "previous token":
        return lag == 1
    if name == "duplicate":
        return lag > 0 and ids[key] == ids[at]
    if name == "delimiters":
        return is_delimiter(TEXTS[ids[key]])
    if name == "sentence start":
        return key > 0 and ends_sentence(TEXTS[ids[key - 1]])
    length = {"induction": 1, "induction by 2": 2, "induction by 3": 3}[name]
    return (
        lag > 0 and key - length >= 0 and all(ids[key - 1 - back] == ids[at - back] for back in range(length))
    )


@given(st.integers(0, 10_000), st.integers(2, len(TEXTS)), st.integers(2, 7))
@settings(max_examples=25)
def test_rungs_are_their_definitions(seed, n_tokens, window):
    rng = np.random.default_rng(seed)
    documents = [rng.integers(0, n_tokens, window + 2 + one) for one in range(4)]
    rows = record(StandIn(n_layers=1, n_heads=1, n_tokens=n_tokens), documents, window=window).rows
    texts = TEXTS[:n_tokens]
    rungs = [PreviousToken(), Duplicate(), Induction(1), Induction(2), Induction(3)]
    rungs += [Delimiters.from_texts(texts), SentenceStart.from_texts(texts)]
    for rung in rungs:
        scores = rung.scores(rows)
        assert scores.shape == (len(rows), window)
        for row, (document, at) in enumerate(zip(rows.documents, rows.positions, strict=True)):
            ids = documents[document].tolist()
            expected = [float(by_definition(rung.name, ids, at, lag)) for lag in range(window)]
            assert scores[row].tolist() == expected, rung.name
    sink = Sink().scores(rows)
    assert sink[:, -1].min() == 1.0
    assert not sink[:, :-1].any()


def test_the_usual_rungs_need_texts_for_delimiters_only():
    assert not {"delimiters", "sentence start"} & {rung.name for rung in plain_rungs()}
    assert len(plain_rungs(TEXTS)) == len(plain_rungs()) + 2
    assert not any(isinstance(rung, OfModel) for rung in plain_rungs(TEXTS))


def test_induction_is_by_one_to_three_tokens():
    for length in (0, 4):
        with pytest.raises(UnsupportedOption, match="length"):
            Induction(length)


def test_scores_from_counts_and_tables():
    rows = record(StandIn(n_layers=1, n_heads=1, n_tokens=3), [[1, 1, 0, 1, 0, 1]] * 2, window=3).rows
    rows = rows.take(rows.positions == 4)
    assert rows.tokens.tolist() == [[0, 1, 0]] * 2
    counts = TokenCounts.of([[0, 1, 1]], n_tokens=3)
    after_query = {0: 0.1 / 1.3, 1: 1.1 / 1.3}  # of the query 0, which is followed once
    anywhere = {0: 1.5 / 4.5, 1: 2.5 / 4.5}
    np.testing.assert_array_equal(Last().scores(rows), [[1, 0, 0]] * 2)
    np.testing.assert_allclose(Frequency(counts).scores(rows)[0], np.log([1.5, 2.5, 1.5]))
    np.testing.assert_allclose(
        Bigram(counts).scores(rows)[0], np.log([after_query[one] for one in (0, 1, 0)])
    )
    pmi = [np.log(after_query[one] / anywhere[one]) for one in (0, 1, 0)]
    np.testing.assert_allclose(PMI(counts).scores(rows)[0], pmi)
    assert not PMI(TokenCounts.of([[1, 2]], n_tokens=3)).scores(rows).any()  # the query is never followed
    table = Table("pairs", np.array([0]), np.array([1]), np.array([2.0]), background=np.array([0.5, 0, 0]))
    assert table.scores(rows).tolist() == [[0.5, 2.0, 0.5]] * 2
