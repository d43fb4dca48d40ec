"""First against last: rank agreement by query, against scipy's, on texts whose answer can be seen."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import attomaton as at
from attomaton.base.errors import MismatchedParts
from attomaton.claims.ends import FEWEST_TOKENS, compare_ends, correlate_ranks


def test_ranks_are_correlated_inside_groups_with_ties():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 30, 600)
    first, second = (rng.integers(0, 6, 600).astype(float) for _ in range(2))
    found = correlate_ranks(group, first, second, 30)
    for one in range(30):
        told = spearmanr(first[group == one], second[group == one]).statistic
        assert found[one] == pytest.approx(told, abs=1e-12)


def both_ends(text, window=6):
    return at.learn([text], window=window), at.begin([text], window=window)


def test_agreement_is_spearmans_query_by_query():
    text = np.random.default_rng(1).choice(list("abcdefghij"), 400).tolist()
    automaton, beginning = both_ends(text)
    ends = compare_ends(automaton, beginning)
    assert len(ends) == 10
    scores = automaton.hard.scores
    looks = beginning.statistics.looks.toarray()
    for place, query in enumerate(ends.queries.tolist()):
        rows = scores.filter(scores["query"].to_numpy() == query)
        tokens, limit = rows["token"].to_numpy(), np.round(rows["score"].to_numpy(), 9)
        if np.ptp(limit) == 0:
            assert np.isnan(ends.agreements[place])
            continue
        told = spearmanr(looks[query, tokens], limit).statistic
        assert ends.agreements[place] == pytest.approx(told, abs=1e-9)
        assert looks[query, ends.first[place]] == looks[query, tokens].max()
        assert limit[tokens == ends.last[place]] == limit.max()
        assert ends.sizes[place] == len(tokens) >= FEWEST_TOKENS
    assert ends.samples.sum() == beginning.statistics.n_positions
    assert not (ends.keeps & ends.turns).any()


def test_it_is_a_table_with_names():
    text = np.random.default_rng(2).choice(list("abcdefgh"), 300).tolist()
    ends = compare_ends(*both_ends(text))
    table = ends.table()
    assert set(table["course"].to_pylist()) <= {"keeps", "turns", "neither"}
    assert set(ends.named("keep", 3) + ends.named("turn", 3)) <= set("abcdefgh")


def test_ends_of_other_vocabularies_are_refused():
    automaton, _ = both_ends(list("abcdabcd"), window=5)
    _, beginning = both_ends(list("ababab"), window=2)
    with pytest.raises(MismatchedParts, match="one tokenizer"):
        compare_ends(automaton, beginning)
