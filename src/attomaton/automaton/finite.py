"""Attention with finite scores: training stopped early, or regularised scores.

The limit gives probability 0 to tokens that are not retrieved. Finite scores give every token of the context
a positive probability, p(y | X) = m_y e^{s_ky} / Σ_{j∈X} m_j e^{s_kj}. This is the layer itself at some
weights.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from attomaton.automaton.attention import Attention
from attomaton.automaton.drawing import MOST_RANKED, Ranking, check_ranked
from attomaton.automaton.explanation import Explanation, Rule
from attomaton.automaton.prediction import BatchPrediction
from attomaton.base.errors import MismatchedParts
from attomaton.base.frames import Tabular
from attomaton.base.ragged import softmax
from attomaton.base.tables import Bool, Float64, Int64, column
from attomaton.corpora.prompts import Context
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.graphs.bags import Bags
from attomaton.graphs.grouping import find_rows, pack_pairs


@dataclass(frozen=True, eq=False, repr=False)
class FiniteAttention(Tabular, Attention):
    """Softmax attention over a table of finite scores.

    ``scores`` has the columns query, token (int32) and score (float64), sorted, with a row for each pair with
    evidence. ``background``, shape (n_tokens,), is the score of a token where the table has no row: zero,
    where training starts, or a score pooled over queries. So every context has an answer, by our convention.
    ``vocabulary`` and ``window`` are those of an automaton.
    """

    scores: pa.Table
    background: Float64
    vocabulary: Vocabulary | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        numbers = column(self.scores, "token")
        rising = bool((np.diff(self._keys) > 0).all())
        if not rising or numbers.max(initial=-1) >= self.n_tokens or numbers.min(initial=0) < 0:
            raise MismatchedParts(
                "the table of scores must be sorted by query and token, without repeated pairs, and its "
                f"tokens must be below {self.n_tokens}, the length of background; use scores and background "
                "of one corpus"
            )
        if not (np.isfinite(self._values).all() and np.isfinite(self.background).all()):
            raise MismatchedParts("some scores are not finite; use Automaton for the limit")

    def __repr__(self) -> str:
        return f"FiniteAttention({self.scores.num_rows:,} scores, {self.n_tokens:,} tokens)"

    def _table(self) -> pa.Table:
        return self.scores

    def _words(self) -> Vocabulary | None:
        return self.vocabulary

    @property
    def n_tokens(self) -> int:
        """The size of the vocabulary."""
        return len(self.background)

    def predict_bags(self, bags: Bags) -> BatchPrediction:
        """Predict the next tokens of many contexts; unknown words have the background score 0."""
        has_score, scores = self._scores_of(bags)
        probabilities = softmax(bags.sample, scores + np.log(bags.multiplicity), len(bags.samples))
        return BatchPrediction(bags, np.zeros(len(has_score), np.int64), has_score, probabilities)

    def explain(self, context: Context) -> Explanation:
        """Explain one context: the rule, the probabilities, and the tokens without evidence."""
        prediction, names = self._predict_one(context)
        tokens = prediction.bags.token
        has_score = prediction.is_node
        rule = Rule.SCORED if has_score.all() else Rule.UNSEEN_BACKGROUND
        if not has_score.any():
            is_uniform = np.ptp(self._scores_of(prediction.bags)[1]) == 0
            rule = Rule.NO_EVIDENCE if is_uniform else Rule.BACKGROUND
        return Explanation(
            context=tuple(prediction.bags.samples.values.tolist()),
            rule=rule,
            retrieved=(),
            probabilities=dict(zip(tokens.tolist(), prediction.probabilities.tolist(), strict=True)),
            beaten=(),
            incomparable=(),
            unseen=tuple(tokens[~has_score].tolist()),
            unknown=names.unknown,
            name=names,
        )

    def _ranking(self, query: int) -> Ranking:
        first, stop = np.searchsorted(column(self.scores, "query"), [query, query + 1])
        check_ranked(self.name(query), stop - first)
        tokens = column(self.scores, "token")[first:stop]
        scores = self._values[first:stop]
        best = np.lexsort((tokens, -scores))[:MOST_RANKED]
        names = [self.name(int(token)) for token in tokens[best]]
        notes = [""] * len(best)
        return Ranking(self.name(query), names, scores[best].tolist(), notes, int(stop - first), "score")

    # Whether each entry of the bags is in the table of scores, and its score, both (n_entries,).
    def _scores_of(self, bags: Bags) -> tuple[Bool, Float64]:
        rows, has_score = find_rows(self._keys, pack_pairs(bags.samples.queries[bags.sample], bags.token))
        scores = np.zeros(len(bags.token))  # unknown words keep 0
        in_vocabulary = bags.token < self.n_tokens
        scores[in_vocabulary] = self.background[bags.token[in_vocabulary]]
        scores[has_score] = self._values[rows[has_score]]
        return has_score, scores

    @cached_property
    def _keys(self) -> Int64:
        return pack_pairs(column(self.scores, "query"), column(self.scores, "token"))

    @cached_property
    def _values(self) -> Float64:
        return column(self.scores, "score")
