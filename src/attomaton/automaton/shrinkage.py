"""Shrinkage: scores for each query, shrunk towards scores pooled over all queries. Not part of the theory.

The scores s_k of query k minimise Σ_{samples with query k} −ln p(label) + ½ r Σ_j (s_kj − u_j)² over whole
contexts, where u are the Luce scores of all samples, whatever their query. With a small strength r the scores
are close to the limit, with a large one close to u. The best r for new text is in between, and is chosen on
held-out samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import pyarrow as pa

from attomaton.automaton.finite import FiniteAttention
from attomaton.automaton.scoring import Score
from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import real_number
from attomaton.base.solutions import score_table
from attomaton.base.tables import Float64, column, table_of
from attomaton.corpora.samples import Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.choices import ChoiceTable, extract_choices
from attomaton.solvers.soft.likelihood import LuceProblem, context_problem, pooled_problem
from attomaton.solvers.soft.newton import Newton

CANDIDATE_STRENGTHS = (0.03, 0.1, 0.2, 0.3, 0.5, 0.8, 1.5, 5.0, 50.0)  # tried by default
HELD_OUT_SHARE = 10  # the last 1/HELD_OUT_SHARE of the samples chooses the strength
SCORE_COLUMNS = tuple(field.name for field in fields(Score) if field.name != "unknown")

# Largest gradient entry: the summed loss of n scores is then within n ATOL² / (2 r) of its minimum.
ATOL = 1e-6


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """The problem of finding shrunken scores, for every strength: the choices in whole contexts.

    ``pairs`` are the (query, token) pairs that get a score, and ``background`` are the pooled scores u.
    """

    pairs: pa.Table
    problem: LuceProblem
    background: Float64

    def solve(self, strength: float, *, vocabulary: Vocabulary | None = None) -> FiniteAttention:
        _check_positive(strength, "strength")
        pooled = self.background[column(self.pairs, "token")]
        scores = Newton(atol=ATOL).solve(self.problem, anchor=pooled, stiffness=strength)
        return FiniteAttention(score_table(self.pairs, scores), self.background, vocabulary)


@dataclass(frozen=True)
class Tuning(Tabular):
    """The score of each strength on held-out samples."""

    strengths: tuple[float, ...]
    scores: tuple[Score, ...]

    def _table(self) -> pa.Table:
        numbers = {name: [getattr(score, name) for score in self.scores] for name in SCORE_COLUMNS}
        return table_of({"strength": list(self.strengths), **numbers})

    @property
    def best(self) -> float:
        """The strength with the smallest log-loss."""
        return min(zip(self.scores, self.strengths, strict=True), key=lambda pair: pair[0].log_loss)[1]


def shrink(
    samples: Samples,
    *,
    strength: float | None = None,
    ridge: float = 1.0,
    vocabulary: Vocabulary | None = None,
) -> FiniteAttention:
    """Learn attention that generalises: the scores of each query are shrunk towards pooled scores.

    Parameters
    ----------
    samples : Samples
        The corpus. Samples whose label is not in the context are ignored.
    strength : float, optional
        The strength of shrinkage. None chooses the best of nine values from 0.03 to 50 on the last tenth of
        the samples, and then computes the scores from all samples.
    ridge : float
        The ridge penalty on the pooled scores, which makes them finite.
    vocabulary : Vocabulary, optional
        The text of each token id. With a vocabulary, a context may be a text.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1, 2]] * 3 + [[1, 0, 2]], [0, 0, 0, 1])
    >>> shrink(samples, strength=0.01).predict_proba([1, 0, 2]).round(3).tolist()
    [0.747, 0.248, 0.006]
    """
    _check_positive(ridge, "ridge")
    if strength is not None:
        _check_positive(strength, "strength")
    else:
        cut = len(samples) - len(samples) // HELD_OUT_SHARE
        training, held_back = samples.take(slice(0, cut)), samples.take(slice(cut, None))
        if not find_realisable(held_back).any():
            raise InvalidSamples(
                f"no strength can be chosen: of the held-out last tenth ({len(held_back)} samples), none "
                "has its label in its context; set strength"
            )
        strength = choose_strength(training, held_back, ridge=ridge).best
    return prepare_shrinkage(samples, ridge=ridge).solve(strength, vocabulary=vocabulary)


def choose_strength(
    samples: Samples,
    held_back: Samples,
    *,
    strengths: Sequence[float] = CANDIDATE_STRENGTHS,
    ridge: float = 1.0,
) -> Tuning:
    if not len(strengths):
        raise UnsupportedOption("strengths is empty; give at least one strength to try")
    for strength in strengths:
        _check_positive(strength, "strength")
    shrinkage = prepare_shrinkage(samples, ridge=ridge)
    scores = tuple(shrinkage.solve(strength).score(held_back) for strength in strengths)
    return Tuning(tuple(strengths), scores)


def prepare_shrinkage(samples: Samples, *, ridge: float = 1.0) -> Shrinkage:
    choices = extract_choices(samples)
    return Shrinkage(*context_problem(choices), pool_scores(choices, samples.n_tokens, ridge=ridge))


def pool_scores(choices: ChoiceTable, n_tokens: int, *, ridge: float = 1.0) -> Float64:
    """One Luce score per token over all queries, shape (n_tokens,): the minimum of Σ −ln p + ½ ridge Σ u²."""
    _check_positive(ridge, "ridge")
    return Newton(atol=ATOL).solve(pooled_problem(choices, n_tokens), stiffness=ridge)


def _check_positive(number: float, name: str) -> None:
    real_number(number, f"{name} (which must be positive to make scores finite)", above=0)
