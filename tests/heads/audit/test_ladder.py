"""The ladder: nested rungs, each alone, shares on documents held back."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax

import attomaton as at
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.tables import column
from attomaton.heads.audit.explanations import (
    PMI,
    AttentionRung,
    Bigram,
    Duplicate,
    Frequency,
    Induction,
    KeyToken,
    Last,
    Position,
    Table,
    TokenCounts,
    first_looks,
)
from attomaton.heads.audit.jackknife import Estimates
from attomaton.heads.audit.ladder import Ladder, climb
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.rows import EARLIER
from tests.heads.audit.standin import StandIn, draw_documents

DOCUMENTS = draw_documents(40)
COUNTS = TokenCounts.of(DOCUMENTS[:24], n_tokens=12)
MODEL = StandIn(slope=0.1)
ROWS = record(MODEL, DOCUMENTS, window=8).rows
FITTED, SCORED = ROWS.take(ROWS.documents < 24), ROWS.take(ROWS.documents >= 24)
PLAIN = [
    Position(),
    Duplicate(),
    Induction(),
    Last(),
    Frequency(COUNTS),
    Bigram(COUNTS),
    PMI(COUNTS),
    KeyToken(),
]


def stand_for(scores, first=None):
    """Rows whose only head attends by softmax of scores; the first token has the median unless given."""
    first = np.median(scores, 1) if first is None else first
    places = np.exp(log_softmax(np.c_[scores, first], axis=-1))[:, None].astype(np.float32)
    inside = places[..., :-1].sum(2)
    attention = places[..., :-1] / inside[..., None]
    return replace(ROWS, heads=ROWS.heads[:1], attention=attention, inside=inside, first=places[..., -1])


@pytest.mark.parametrize("rung", [Duplicate(), Induction(), Last(), Frequency(COUNTS), PMI(COUNTS)])
def test_a_head_made_of_a_rung_is_explained_by_it(rung):
    rows = stand_for(1.5 * rung.scores(ROWS))
    ladder = climb(rows.take(rows.documents < 24), rows.take(rows.documents >= 24), [rung], nested=False)
    assert ladder.mean[0] == pytest.approx(1.0, abs=1e-4)
    assert ladder.scales[0, 0] == pytest.approx(1.5, abs=1e-2)


def test_counts_say_nothing_of_what_they_have_not_seen():
    known = TokenCounts.of([[0, 1, 2, 0, 1, 1, 3, 0, 2, 1]], n_tokens=6)  # 4 and 5 never occur
    tokens = np.array([[0, 1, 2, 4, 5], [5, 1, 4, 2, 3], [4, 4, 4, 4, 4]])
    rows = replace(ROWS.take(np.arange(3)), past=np.pad(tokens, ((0, 0), (0, EARLIER))))
    pmi = PMI(known).scores(rows)
    seen = [2.1 / 3.6 / (4.5 / 13), 1.1 / 3.6 / (2.5 / 13)]  # 0 is followed three times: by 1, 1 and 2
    own = 0.1 / 3.6 / (3.5 / 13)
    np.testing.assert_allclose(pmi[0, :3], np.log([own, *seen]))
    np.testing.assert_allclose(pmi[0, 3:], pmi[0, :3].mean())
    assert np.ptp(pmi[1]) == np.ptp(pmi[2]) == 0  # from a query that never occurs nothing is said
    assert np.ptp(Bigram(known).scores(rows)[1]) == 0
    bigram, frequency = Bigram(known).scores(rows)[0], Frequency(known).scores(rows)[0]
    assert bigram[3] == bigram[0] == bigram.min()  # as a token that never followed the query
    assert frequency[3] == np.log(0.5) < frequency[:3].min()


def test_a_table_says_when_a_rung_harms_most_heads():
    shares = [Estimates(np.array(one), np.array([one, one])) for one in ([0.5, 0.4, 0.3], [-0.1, -0.2, 0.0])]
    ladder = Ladder(ROWS.heads[:3], ("position", "PMI"), True, tuple(shares), tuple(shares), np.ones((2, 3)))
    assert ladder.harm == ["0", "2, more than half"]
    assert "more than half" in str(ladder)


def test_a_head_of_two_rungs_is_explained_by_both_in_order():
    same = Duplicate().scores(ROWS)
    rows = stand_for(np.linspace(1, -1, 8) + 2.0 * same, first=0.5 + 2.0 * np.median(same, 1))
    parts = rows.take(rows.documents < 24), rows.take(rows.documents >= 24)
    ladder = climb(*parts, [Position(), Duplicate()])
    assert ladder.shares[:, 0].tolist() == sorted(ladder.shares[:, 0])
    assert ladder.shares[1, 0] == pytest.approx(1.0, abs=1e-4)
    assert ladder.added[1].low[0] > 0.05
    assert ladder.holds.all()


def test_nested_rungs_only_add_where_they_are_fitted():
    ladder = climb(FITTED, FITTED, PLAIN)
    assert (np.diff(ladder.shares, axis=0) > -1e-5).all()
    assert climb(FITTED, SCORED, PLAIN).mean[-1] > climb(FITTED, SCORED, PLAIN[:1]).mean[0]


def test_shares_follow_their_definition():
    ladder = climb(FITTED, SCORED, [Position()])
    for place in range(4):
        fitted, a = (rows.on_keys(place)[rows.attends[:, place]] for rows in (FITTED, SCORED))
        profile = fitted.mean(0)
        left = (a * np.log(a / profile)).sum()
        assert ladder.shares[0, place] == pytest.approx(1 - left / (a * np.log(a * 9)).sum(), abs=1e-3)


def test_a_table_may_differ_between_heads():
    tokens = np.arange(12)
    query, token = (one.ravel() for one in np.meshgrid(tokens, tokens, indexing="ij"))
    model = StandIn(n_layers=1)
    rows = record(model, DOCUMENTS, window=8).rows
    usual = np.exp(np.median(np.log(rows.attention), 2))  # what a rung without a score for it says
    rows = replace(rows, first=rows.inside * usual)
    values = np.array([model.score_tokens(head, tokens, tokens).T.ravel() for head in rows.heads])
    own = Table("own scores", query, token, values, np.zeros(12))
    other = Table("others' scores", query, token, values[::-1].copy(), np.zeros(12))
    parts = rows.take(rows.documents < 24), rows.take(rows.documents >= 24)
    ladder = climb(*parts, [own, other], nested=False)
    assert ladder.shares[0] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert (ladder.shares[1] < 0.5).all()
    shared = climb(*parts, [Table("first", query, token, values[0], np.zeros(12))], nested=False)
    assert shared.shares[0, 0] == pytest.approx(1.0, abs=1e-5)


def test_attention_of_our_own_explains_itself():
    samples = at.Samples.from_windows(
        np.concatenate(DOCUMENTS), window=8, documents=np.arange(41) * 40, n_tokens=12
    )
    auto, shrunk = at.learn(samples), at.shrink(samples, strength=0.5)
    rungs = [
        AttentionRung("automaton", auto),
        AttentionRung("shrink", shrunk),
        AttentionRung("step 20", auto.at(step=20)),
    ]
    for rung in rungs:
        rows = stand_for(rung.scores(ROWS))
        parts = rows.take(rows.documents < 24), rows.take(rows.documents >= 24)
        assert climb(*parts, [rung], nested=False).mean[0] == pytest.approx(1.0, abs=1e-4)
    by_position = [auto.attention(row[::-1]) for row in ROWS.tokens[:20]]
    expected = np.log(0.72 * np.array(by_position)[:, ::-1] + 0.28 / 8)
    np.testing.assert_allclose(rungs[0].scores(ROWS)[:20], expected, atol=1e-9)
    parts = [column(shrunk.scores, part) for part in ("query", "token", "score")]
    table = Table("table", *parts, shrunk.background)
    np.testing.assert_allclose(log_softmax(table.scores(ROWS), axis=-1), rungs[1].scores(ROWS), atol=1e-9)


def test_the_beginning_is_a_rung():
    beginning = at.begin([ids.tolist() for ids in DOCUMENTS], window=8)
    rung = first_looks(beginning)
    scores = rung.scores(ROWS)
    looks = beginning.first_looks(int(ROWS.queries[0]))
    gain = dict(zip(looks.tokens.tolist(), looks.gains.tolist(), strict=True))
    assert scores[0].tolist() == [gain.get(token, 0.0) for token in ROWS.tokens[0].tolist()]


@pytest.mark.slow  # campaign
def test_random_heads_pass_by_probability_only():
    rungs = [Position(), KeyToken(), Induction(), PMI(COUNTS)]
    random = []
    for seed in range(10):
        rows = record(StandIn(n_layers=1, n_heads=20, seed=seed + 1), DOCUMENTS, window=8).rows
        random.append(climb(rows.take(rows.documents < 24), rows.take(rows.documents >= 24), rungs))
    z = np.array([one.against(random[:at_] + random[at_ + 1 :]).z for at_, one in enumerate(random)])
    assert (np.mean(np.abs(z) > 2, axis=(0, 2)) <= 0.08).all()
    with pytest.raises(MismatchedParts, match="other rungs"):
        random[0].against([climb(FITTED, SCORED, [Position()])])


def test_a_ladder_prints_and_is_a_table():
    ladder = climb(FITTED, SCORED, [Position(), KeyToken()])
    assert "+ key token" in str(ladder)
    assert ladder.table().num_rows == 8
    assert {"explained", "added", "z", "z_documents", "holds", "scale"} <= set(ladder.table().column_names)


def test_wrong_rungs_are_refused():
    with pytest.raises(UnsupportedOption, match="different names"):
        climb(FITTED, SCORED, [Position(), Position()])
    with pytest.raises(UnsupportedOption, match="different names"):
        climb(FITTED, SCORED, [])

    class Wrong:
        name = "wrong"

        def scores(self, rows):
            return np.full((len(rows), 3), 1.0)

    class Infinite(Wrong):
        def scores(self, rows):
            return np.full(rows.tokens.shape, np.inf)

    with pytest.raises(MismatchedParts, match="shape"):
        climb(FITTED, SCORED, [Wrong()])
    with pytest.raises(MismatchedParts, match="return finite scores"):
        climb(FITTED, SCORED, [Infinite()])


@pytest.mark.parametrize("window", [6, 7, 8])
def test_of_a_head_that_looks_everywhere_alike_nothing_is_explained(window):
    model = StandIn(n_layers=1)
    model.qk[0, 0] = 0.0  # the other head looks somewhere
    rows = record(model, DOCUMENTS, window=window).rows
    ladder = climb(rows.take(rows.documents < 24), rows.take(rows.documents >= 24), [Position(), KeyToken()])
    assert not ladder.shares[:, 0].any()
    assert not ladder.z[:, 0].any()
    assert not ladder.holds[:, 0].any()
    assert ladder.shares[-1, 1] > 0.01


def watch_scaled(scale):
    """The rows of heads whose scores are scaled: the smaller, the nearer to uniform they attend."""
    model = StandIn(slope=0.1 * scale)
    model.qk = model.qk * scale
    rows = record(model, DOCUMENTS, window=8).rows
    return rows.take(rows.documents < 24), rows.take(rows.documents >= 24)


def test_heads_that_are_nearly_uniform_are_explained_as_well_as_others():
    rungs = [Position(), KeyToken(), Duplicate()]
    one, other = (climb(*watch_scaled(scale), rungs).shares for scale in (1e-2, 1e-4))
    assert one[2].min() > 0.1
    np.testing.assert_allclose(one, other, atol=0.01)


def test_of_a_uniform_head_nothing_is_explained_and_means_stay_numbers():
    rows = replace(ROWS, **{name: getattr(ROWS, name).copy() for name in ("attention", "inside", "first")})
    rows.attention[:, 1], rows.inside[:, 1], rows.first[:, 1] = 1 / 8, 8 / 9, 1 / 9
    parts = rows.take(rows.documents < 24), rows.take(rows.documents >= 24)
    ladder = climb(*parts, [Position(), KeyToken(), Duplicate()])
    assert not ladder.shares[:, 1].any()
    assert not ladder.holds[:, 1].any()
    assert np.isfinite(ladder.mean).all()
