"""Attention with finite scores: what is left of the limit when training stops, or when scores are held back.

The limit gives no chance to tokens that are not retrieved. Finite scores give every token of the context one:
p(y | X) = m_y e^{s_ky} / Σ_{j∈X} m_j e^{s_kj}, the layer itself at some weights.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import MismatchedParts
from attomaton.graphs.bags import Bags, count_all_tokens, count_tokens
from attomaton.graphs.grouping import find_rows, pack_pairs
from attomaton.limit.explanation import Explanation, Rule
from attomaton.limit.prediction import BatchPrediction, largest_of
from attomaton.limit.reading import Context, Reading, read_context
from attomaton.limit.scoring import Score, mix_uniform, score_prediction
from attomaton.limit.showing import Shown
from attomaton.tables import Bool, Float64, Int64, Integers, column, sum_at


@dataclass(frozen=True, eq=False)
class _Reading(Reading):
    """A context with the score of each of its distinct tokens."""

    scores: Float64


@dataclass(frozen=True, eq=False, repr=False)
class FiniteAttention:
    """Softmax attention over a table of finite scores.

    Attributes
    ----------
    scores : pyarrow.Table
        Columns query, token (int32), score (float64), sorted: the (query, token) pairs that samples speak
        about.
    background : float64 array, shape (n_tokens,)
        The score of each token where the table has no row: zeros (where training starts), or scores pooled
        over queries. So every context has an answer; that it is used is our choice, not the theory's.
    vocabulary : Vocabulary, optional
        Lets contexts be given as text.

    Examples
    --------
    >>> from attomaton.solutions import SCORE_SCHEMA
    >>> table = pa.table({"query": [2, 2], "token": [0, 1], "score": [np.log(3), 0.0]}, schema=SCORE_SCHEMA)
    >>> attention = FiniteAttention(table, np.array([0.0, 0.0, -50.0]))
    >>> attention.predict_proba([0, 1, 1, 2]).round(3).tolist()  # odds 1·3 to 2·1
    [0.6, 0.4, 0.0]
    >>> attention.attention([0, 1, 1, 2]).round(3).tolist()
    [0.6, 0.2, 0.2, 0.0]
    >>> attention.explain([0, 1, 1, 2]).rule.name
    'UNSEEN_BACKGROUND'
    >>> print(str(attention.show([0, 1, 1, 2])).splitlines()[1])  # in brackets: what has attention
    [0] [1] [1] [2]
    >>> samples = Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 0])
    >>> attention.predict_samples(samples).of_labels().round(3).tolist()
    [0.75, 0.75]
    >>> round(attention.score(samples).log_loss, 4)  # −ln ¾
    0.2877
    """

    scores: pa.Table
    background: Float64
    vocabulary: Vocabulary | None = None

    def __post_init__(self) -> None:
        numbers = column(self.scores, "token")
        rising = bool((np.diff(self._keys) > 0).all())
        if not rising or numbers.max(initial=-1) >= self.n_tokens or numbers.min(initial=0) < 0:
            raise MismatchedParts(
                "the scores must be sorted by query and token, each pair once, with tokens below "
                f"{self.n_tokens} (the length of background); give a table and a background of one corpus"
            )
        if not (np.isfinite(self._values).all() and np.isfinite(self.background).all()):
            raise MismatchedParts("a score is not finite; the limit itself is what Automaton is for")

    def __repr__(self) -> str:
        return f"FiniteAttention({self.scores.num_rows:,} scores, {self.n_tokens:,} tokens)"

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary."""
        return len(self.background)

    def predict_proba(self, context: Context) -> Float64:
        """The chance of every token to be the next one, shape (n_tokens,)."""
        return self._read(context).chances(self.n_tokens)

    def attention(self, context: Context) -> Float64:
        """The attention weight of every position, shape (len(context),)."""
        return self._read(context).attention()

    def explain(self, context: Context) -> Explanation:
        """Which rule answered, the chances, and the tokens without evidence; no component is retrieved."""
        reading = self._read(context)
        return Explanation(
            context=tuple(reading.ids.tolist()),
            rule=_rule(reading),
            retrieved=(),
            probabilities=dict(zip(reading.tokens.tolist(), reading.probabilities.tolist(), strict=True)),
            beaten=(),
            incomparable=(),
            unseen=tuple(reading.tokens[~reading.seen].tolist()),
        )

    def show(self, context: Context) -> Shown:
        """The same to be looked at: a notebook draws it, a terminal prints it."""
        texts = self.vocabulary
        return Shown(self.explain(context), str if texts is None else texts.tokens.__getitem__)

    def predict_samples(self, samples: Samples) -> BatchPrediction:
        """The same as :meth:`predict_proba`, for many contexts at once; ``rows`` are those of ``scores``.

        Ids beyond the vocabulary are unseen tokens with the background score 0.
        """
        return self._predict(count_all_tokens(samples))

    def score(self, samples: Samples, *, epsilon: float = 0.0) -> Score:
        """Log-loss and top-1 on the realisable samples among these, of (1 − ε) · this + ε · uniform."""
        return score_prediction(mix_uniform(self._predict(count_tokens(samples)), epsilon))

    def _predict(self, bags: Bags) -> BatchPrediction:
        rows, seen = self._rows(bags.samples.queries[bags.sample], bags.token)
        scores = self._look_up(rows, seen, bags.token) + np.log(bags.multiplicity)
        size = len(bags.samples)
        odds = np.exp(scores - largest_of(bags.sample, scores, size)[bags.sample])
        return BatchPrediction(bags, rows, seen, odds / sum_at(bags.sample, odds, size)[bags.sample])

    def _read(self, context: Context) -> _Reading:
        ids = read_context(context, self.n_tokens, self.vocabulary)
        tokens, multiplicity = np.unique(ids, return_counts=True)
        rows, seen = self._rows(np.full(len(tokens), ids[-1]), tokens)
        scores = self._look_up(rows, seen, tokens)
        odds = multiplicity * np.exp(scores - scores.max())
        return _Reading(ids, tokens, multiplicity, seen, odds / odds.sum(), scores)

    def _rows(self, queries: Integers, tokens: Integers) -> tuple[Int64, Bool]:
        """The row of ``scores`` of each (query, token), and which of them have one."""
        return find_rows(self._keys, pack_pairs(queries, tokens))

    def _look_up(self, rows: Int64, seen: Bool, tokens: Integers) -> Float64:
        found = np.zeros(len(tokens))
        known = tokens < self.n_tokens
        found[known] = self.background[tokens[known]]
        found[seen] = self._values[rows[seen]]
        return found

    @cached_property
    def _keys(self) -> Int64:
        return pack_pairs(column(self.scores, "query"), column(self.scores, "token"))

    @cached_property
    def _values(self) -> Float64:
        return column(self.scores, "score")


def _rule(reading: _Reading) -> Rule:
    if reading.seen.all():
        return Rule.SCORED
    if reading.seen.any():
        return Rule.UNSEEN_BACKGROUND
    return Rule.BACK_OFF if np.ptp(reading.scores) == 0 else Rule.BACKGROUND
