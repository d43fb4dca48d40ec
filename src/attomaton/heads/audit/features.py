"""The scores of rungs on attention rows (``Features``), and the fit of one head (``climb_head``)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from attomaton.base.errors import MismatchedParts
from attomaton.base.tables import Float64, Int64
from attomaton.heads.audit.explanations import KeyToken, LadderRung, Position, Rung
from attomaton.heads.audit.fitting import Design, fit_head
from attomaton.heads.audit.rows import Rows


@dataclass(frozen=True, eq=False)
class Features:
    """Rows with the scores of every rung, for all heads."""

    rows: Rows
    rungs: tuple[LadderRung, ...]
    scores: tuple[Float64 | None, ...]  # by rung, (n_rows, n_keys) or (n_rows, n_heads, n_keys); None if free
    tokens: Int64  # (n_rows, n_keys): the number of the token at each key, the last for all first positions
    n_tokens: int

    @classmethod
    def of(cls, rungs: Sequence[LadderRung], *sets: Rows) -> "list[Features]":
        """Score several sets of rows, in which a token has the same number."""
        distinct = np.unique(np.concatenate([rows.tokens.ravel() for rows in sets]))
        n = len(distinct)
        features: list[Features] = []
        for rows in sets:
            scores = tuple(
                None if isinstance(rung, Position | KeyToken) else score_rows(rung, rows) for rung in rungs
            )
            # The first position is one more key on the right, with the number n.
            tokens = np.pad(np.searchsorted(distinct, rows.tokens), ((0, 0), (0, 1)), constant_values=n)
            features.append(cls(rows, tuple(rungs), scores, tokens, n + 1))
        return features

    def attending(self, index: int) -> "Features":
        """The rows in which one head attends to any key."""
        attends = self.rows.attends[:, index]
        if attends.all():
            return self
        scores = tuple(None if by_rung is None else by_rung[attends] for by_rung in self.scores)
        return replace(self, rows=self.rows.take(attends), scores=scores, tokens=self.tokens[attends])

    def design(self, used: Sequence[int], index: int, spreads: Float64) -> Design:
        """The regressors of one head, from the rungs ``used``; scores are divided by ``spreads``."""
        rungs = [self.rungs[number] for number in used]
        ridges = [rung.ridge for rung in rungs if isinstance(rung, KeyToken)]
        scored = [number for number in used if self.scores[number] is not None]
        scores = [self.scores_of(number, index) / spreads[number] for number in scored]
        return Design(
            profile=any(isinstance(rung, Position) for rung in rungs),
            tokens=self.tokens if ridges else None,
            n_tokens=self.n_tokens,
            features=np.array(scores) if scores else np.empty((0, *self.tokens.shape)),
            ridge=ridges[0] if ridges else 1e-3,
        )

    def scores_of(self, rung: int, index: int) -> Float64:
        """The scores of one rung for one head, shape (n_rows, n_keys); zeros if the rung is free."""
        scores = self.scores[rung]
        if scores is None:
            return np.zeros(self.tokens.shape)
        return scores[:, index] if scores.ndim == 3 else scores

    def spreads(self, index: int) -> Float64:
        """The standard deviation of each rung's scores within rows, shape (n_rungs,); 1 where it is 0."""
        deviations = np.ones(len(self.rungs))
        for number, scores in enumerate(self.scores):
            if scores is not None:
                spread = float(np.sqrt(np.mean(self.scores_of(number, index) ** 2)))
                deviations[number] = spread if spread > 0 else 1.0
        return deviations


def score_rows(rung: Rung, rows: Rows) -> Float64:
    """The checked scores of a rung for all keys, minus their mean in each row."""
    scores = np.asarray(rung.scores(rows), np.float64)
    n, window = rows.tokens.shape
    if scores.shape in ((n, window), (n, len(rows.heads), window)):
        # A first token without score gets the median of the row, which is 0 if most scores are 0.
        scores = np.concatenate([scores, np.median(scores, -1, keepdims=True)], -1)
    if scores.shape not in ((n, window + 1), (n, len(rows.heads), window + 1)):
        raise MismatchedParts(
            f"the rung {rung.name!r} returned scores of shape {scores.shape} for {n} rows, a window of "
            f"{window} and {len(rows.heads)} heads; return the shape (rows, window) or (rows, heads, window)"
        )
    if not np.isfinite(scores).all():
        raise MismatchedParts(f"the rung {rung.name!r} returned NaN or ∞; return finite scores")
    centred: Float64 = scores - scores.mean(-1, keepdims=True)
    centred[np.abs(centred) <= 1e-13 * np.abs(scores).max(initial=0.0)] = 0.0  # rounding of a constant
    return centred


class RungFit(NamedTuple):
    """A fitted rung: ``logs`` (n_rows, n_keys) of the attention it predicts, and β, NaN for free rungs."""

    logs: Float64
    scale: float


def climb_head(fitted: Features, scored: Features, index: int, *, nested: bool = True) -> Iterator[RungFit]:
    """Fit every rung of one head on some rows, alone or with all rungs before, and evaluate it on others."""
    fitted = fitted.attending(index)
    if not len(fitted.rows):
        uniform = np.full(scored.tokens.shape, -np.log(scored.tokens.shape[1]))
        yield from (RungFit(uniform, np.nan) for _ in fitted.rungs)
        return
    attention = fitted.rows.on_keys(index)
    spreads = fitted.spreads(index)
    before = fitted.design([], index, spreads)
    coefficients = np.zeros(before.size)
    for number, scores in enumerate(fitted.scores):
        used = range(number + 1) if nested else [number]
        design = fitted.design(used, index, spreads)
        # Nested fits start from the fit of the rungs before.
        start = _extend(coefficients, before, design) if nested else np.zeros(design.size)
        coefficients = fit_head(design, attention, start)
        logs = log_softmax(scored.design(used, index, spreads).scores(coefficients), axis=-1)
        # The scale of a rung with scores comes last; its scores were divided by their spread.
        yield RungFit(logs, np.nan if scores is None else float(coefficients[-1] / spreads[number]))
        before = design


# Coefficients of one design, with zeros for what the next design adds.
def _extend(coefficients: Float64, before: Design, after: Design) -> Float64:
    offsets, effects, scales = np.split(coefficients, before.borders)
    offsets_end, effects_end = after.borders
    extended = np.zeros(after.size)
    extended[: len(offsets)] = offsets
    extended[offsets_end : offsets_end + len(effects)] = effects
    extended[effects_end : effects_end + len(scales)] = scales
    return extended
