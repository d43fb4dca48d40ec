"""The ladder: the share of a head's attention that each rung explains on held-out documents.

Places are the positions of the window and the first token, which many heads attend to when they find
nothing. Explained share := 1 − KL(attention ‖ softmax(fitted scores)) / KL(attention ‖ uniform), summed over
rows. It is 1 for a rung that predicts the attention exactly, 0 for one that gives no information, and below 0
for one that misleads. A row in which a head attends to none of these places is left out for that head, in the
fit and in the share. The fit is a convex problem per head, solved by Newton steps: softmax(c_place + e_token
+ Σ β x) to attention rows by mean cross-entropy. Offsets c are the position profile, effects e the key
tokens. Without effects there are few coefficients and the Hessian is factored; with them, conjugate gradients
are used.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax

from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import Checked, checked, real_number
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import Advance, silent
from attomaton.base.tables import Bool, Float64, Int64, table_of
from attomaton.heads.audit.explanations import Rung
from attomaton.heads.audit.jackknife import (
    FEWEST_DOCUMENTS,
    Estimates,
    NullDistribution,
    Resampled,
    above_null,
)
from attomaton.heads.audit.rows import NOTHING, Rows
from attomaton.heads.model import Head

TINY = 1e-6
"""Ridge of offsets and scales: it only chooses among equal fits and bounds divergent coefficients."""

GRADIENT_TOLERANCE = 1e-8
"""The largest gradient entry at which a fit stops, in nats, for a head one nat away from uniform.

It is far below ``TINY``, which alone bounds the offsets of positions that a sharp head never attends to. It
is scaled by the root of the distance to uniform, so that the share is equally exact for all heads.
"""

LOSS_ROUNDING = 1e-14
"""By how much rounding may raise a loss."""

MOST_NEWTON_STEPS = 60
MOST_CONJUGATE_STEPS = 60
"""Newton steps of a fit, and conjugate-gradient iterations of each."""


@dataclass(frozen=True, eq=False)
class Design:
    """The regressors for the attention rows of one head.

    An offset for every place (``profile``), an effect of every token if ``tokens`` (n_rows, n_places) are
    given, shrunk by ``ridge``, and the scores of rungs, ``features`` (n_features, n_rows, n_places).
    """

    profile: bool
    tokens: Int64 | None
    n_tokens: int
    features: Float64
    ridge: float = 1e-3

    @property
    def borders(self) -> tuple[int, int]:
        """Where offsets end and effects end among the coefficients; the scales β follow."""
        lags = self.features.shape[2] if self.profile else 0
        return lags, lags + (0 if self.tokens is None else self.n_tokens)

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return self.borders[1] + len(self.features)

    @property
    def penalty(self) -> Float64:
        """The ridge penalty of each coefficient, shape (size,)."""
        lags, tokens = self.borders
        penalty = np.full(self.size, TINY)
        penalty[lags:tokens] = 2.0 * self.ridge
        return penalty

    @cached_property
    def occurrences(self) -> Any:
        """Which token each place holds, as a sparse matrix of shape (n_rows · n_places, n_tokens)."""
        tokens = np.empty(0, np.int64) if self.tokens is None else self.tokens.ravel()
        entries = (np.ones(len(tokens)), tokens, np.arange(len(tokens) + 1))
        return sparse.csr_matrix(entries, shape=(len(tokens), self.n_tokens))

    @cached_property
    def sums(self) -> Any:
        """The same, transposed: it sums over the places of each token."""
        return self.occurrences.T

    def scores(self, coefficients: Float64) -> Float64:
        """The scores of all places, shape (n_rows, n_places)."""
        lags, tokens = self.borders
        total = np.tensordot(coefficients[tokens:], self.features, 1)
        if lags:
            total += coefficients[:lags]
        if self.tokens is not None:
            total += (self.occurrences @ coefficients[lags:tokens]).reshape(total.shape)
        return total

    def collect(self, weights: Float64) -> Float64:
        """The adjoint of :meth:`scores`: sums of place weights by coefficient, shape (size,)."""
        sums = [weights.sum(0)] if self.profile else []
        if self.tokens is not None:
            sums.append(self.sums @ weights.ravel())
        sums.append(self.features.reshape(len(self.features), weights.size) @ weights.ravel())
        return np.concatenate(sums)

    def squares(self, weights: Float64) -> Float64:
        """Sums of position weights times squared entries, by coefficient, shape (size,)."""
        sums = self.collect(weights)
        sums[self.borders[1] :] = np.einsum("fnw,fnw,nw->f", self.features, self.features, weights)
        return sums


def fit_head(design: Design, attention: Float64, start: Float64 | None = None) -> Float64:
    """The coefficients that explain attention rows of shape (n_rows, n_places) best, shape (size,).

    The loss is convex: mean cross-entropy in nats plus half the penalties. It is minimised by damped Newton
    steps until no entry of the gradient is above ``GRADIENT_TOLERANCE``
    times the root of the mean KL(attention ‖ uniform).
    """
    penalty, n = design.penalty, len(attention)
    find_step = _newton_step if design.tokens is None else _conjugate_step
    coefficients = np.zeros(design.size) if start is None else start.copy()
    logs = log_softmax(design.scores(coefficients), axis=-1)
    value = -np.vdot(attention, logs) / n + 0.5 * np.vdot(penalty, coefficients**2)
    flat = np.full((1, attention.shape[1]), -np.log(attention.shape[1]))
    enough = GRADIENT_TOLERANCE * np.sqrt(np.clip(divergence(attention, flat).mean(), 1e-12, 1.0))
    for _ in range(MOST_NEWTON_STEPS):
        probabilities = np.exp(logs)
        gradient = design.collect((probabilities - attention) / n) + penalty * coefficients
        if np.abs(gradient).max(initial=0.0) <= enough:
            break
        step = find_step(design, probabilities, penalty, gradient)
        slope, size = np.vdot(gradient, step), 1.0
        while True:
            tried = coefficients + size * step
            logs = log_softmax(design.scores(tried), axis=-1)
            new = -np.vdot(attention, logs) / n + 0.5 * np.vdot(penalty, tried**2)
            if new <= value + 1e-4 * size * slope + LOSS_ROUNDING or size < 1e-6:
                break
            size *= 0.5
        coefficients, value = tried, new
    return coefficients


def _newton_step(design: Design, probabilities: Float64, penalty: Float64, gradient: Float64) -> Float64:
    """−H⁻¹ g by Cholesky's factorisation of H: offsets and scales only."""
    n, lags = len(probabilities), design.borders[0]
    weighted = design.features * probabilities
    means = weighted.sum(2)  # (n_features, n_rows)
    hessian = np.empty((design.size, design.size))
    hessian[lags:, lags:] = np.tensordot(weighted, design.features, ((1, 2), (1, 2))) - means @ means.T
    if lags:
        hessian[:lags, :lags] = np.diag(probabilities.sum(0)) - probabilities.T @ probabilities
        hessian[lags:, :lags] = weighted.sum(1) - means @ probabilities
        hessian[:lags, lags:] = hessian[lags:, :lags].T
    hessian /= n
    hessian[np.diag_indices(design.size)] += penalty
    return -cho_solve(cho_factor(hessian), gradient)


def _conjugate_step(design: Design, probabilities: Float64, penalty: Float64, gradient: Float64) -> Float64:
    """−H⁻¹ g by conjugate gradients with the diagonal of H as preconditioner."""
    n = len(probabilities)
    diagonal = design.squares(probabilities / n) + penalty
    step, residual = np.zeros(len(gradient)), -gradient
    scaled = residual / diagonal
    direction, product = scaled.copy(), np.vdot(residual, scaled)
    enough = min(0.1, np.sqrt(product)) * np.sqrt(product)
    for _ in range(MOST_CONJUGATE_STEPS):
        slopes = design.scores(direction)
        slopes -= np.einsum("nw,nw->n", probabilities, slopes)[:, None]
        bent = design.collect(probabilities * slopes / n) + penalty * direction
        size = product / np.vdot(direction, bent)
        step += size * direction
        residual = residual - size * bent
        scaled = residual / diagonal
        product, old = np.vdot(residual, scaled), product
        if np.sqrt(product) <= enough:
            break
        direction = scaled + (product / old) * direction
    return step


def divergence(attention: Float64, logs: Float64) -> Float64:
    """KL(attention ‖ exp(logs)) of each row, in nats, shape (n_rows,)."""
    negative_entropy = np.where(attention > 0, attention * np.log(np.maximum(attention, NOTHING)), 0.0)
    return (negative_entropy - attention * logs).sum(-1)


UNIFORM = 1e-12
"""Mean KL(attention ‖ uniform) over rows, in nats, up to which a head counts as uniform."""

SHARE_ROUNDING = 1e-9
"""A share of attention below which a rung neither adds nor removes anything."""


@dataclass(frozen=True)
class Position:
    """The position profile: one offset per lag, fitted for each head.

    Examples
    --------
    >>> Position().name
    'position'
    """

    name: str = "position"


@dataclass(frozen=True)
class KeyToken(Checked):
    """One effect per token, fitted for each head and shrunk by a ridge.

    Attributes
    ----------
    ridge : float
        How strongly effects are shrunk: ridge × their squares is added to the loss, in nats per row.
    name : str
        What tables call it.

    Examples
    --------
    >>> KeyToken(ridge=0.01).name
    'key token'
    """

    ridge: float = field(default=1e-3, metadata=checked(real_number, above=0.0))
    name: str = "key token"


LadderRung = Position | KeyToken | Rung
"""A rung of the ladder: free offsets, free effects, or scores with one fitted scale."""


class Fitted(NamedTuple):
    """One rung of one head: its fit on the scored rows, and its scale.

    ``logs`` are ln(fitted attention), shape (n_rows, n_places); ``scale`` is β, NaN for offsets and effects.
    """

    name: str
    logs: Float64
    scale: float


@dataclass(frozen=True, eq=False, repr=False)
class Ladder(Tabular):
    """The explained share of every head after each rung, with intervals over documents.

    Attributes
    ----------
    heads : tuple of Head
        The heads.
    names : tuple of str
        The rungs, in order.
    nested : bool
        Whether each rung is fitted together with those before it; otherwise each is fitted alone.
    explained, added : tuple of Estimates
        For each rung the explained share of all heads, and its increase over the rung before. The share is 0
        for a head with nothing to explain, which attends uniformly, or to no place in nearly all documents.
    scales : float64 array, shape (n_rungs, n_heads)
        β; NaN for free offsets and effects.
    null : tuple of NullDistribution
        For each rung the null distribution from random heads, if they were measured.
    """

    heads: tuple[Head, ...]
    names: tuple[str, ...]
    nested: bool
    explained: tuple[Estimates, ...]
    added: tuple[Estimates, ...]
    scales: Float64
    null: tuple[NullDistribution, ...] = ()

    def __repr__(self) -> str:
        n, rungs = len(self.heads), len(self.names)
        kind = "nested" if self.nested else "each alone"
        return f"Ladder({n:,} head{'s' * (n != 1)}, {rungs} rung{'s' * (rungs != 1)}, {kind})"

    @property
    def shares(self) -> Float64:
        """The explained share, shape (n_rungs, n_heads)."""
        return np.array([share.value for share in self.explained])

    @property
    def mean(self) -> Float64:
        """The mean explained share over heads, shape (n_rungs,)."""
        return self.shares.mean(1)

    @property
    def harm(self) -> list[str]:
        """For each rung, how many heads it harms on held-out documents, and whether more than half."""
        counts = [int((share.value < -SHARE_ROUNDING).sum()) for share in self.added]
        return [f"{n}, more than half" if 2 * n > len(self.heads) else str(n) for n in counts]

    @property
    def z(self) -> Float64:
        """z of what each rung adds, shape (n_rungs, n_heads).

        With random heads: √(added share), with the sign of the scale, relative to the same number of random
        heads. Without: the added share divided by its error over documents. This tests whether a rung helps
        on other documents, not whether training made the head so: many rungs help to explain a head with
        random weights.
        """
        if not self.null:
            return np.array([share.z for share in self.added])
        signed = [self._signed(number) for number in range(len(self.names))]
        return np.array([null.z(self.heads, share) for null, share in zip(self.null, signed, strict=True)])

    @property
    def holds(self) -> Bool:
        """Where a rung adds more than the null, corrected over heads, shape (n_rungs, n_heads)."""
        return np.array([above_null(row) for row in self.z])

    def against(self, random: Sequence["Ladder"], *, shared: bool = False) -> "Ladder":
        """The same ladder compared with ladders of random heads, on the same rungs and text.

        ``shared`` says that the random heads of a layer share their rotations.
        """
        if any(ladder.names != self.names or ladder.nested != self.nested for ladder in random):
            raise MismatchedParts(
                "the ladders of random heads differ in rungs or in nested; use the same for all"
            )
        rungs = range(len(self.names))
        return replace(
            self,
            null=tuple(
                NullDistribution.of([(ladder.heads, ladder._signed(at)) for ladder in random], shared=shared)
                for at in rungs
            ),
        )

    def _signed(self, rung: int) -> Estimates:
        """√(added share) with the sign of its scale: nearly normal for random heads, unlike shares."""
        scales = self.scales[rung]
        sign = np.where(np.isnan(scales), 1.0, np.sign(scales))
        added = self.added[rung]
        return Estimates(
            sign * np.sqrt(np.maximum(added.value, 0.0)), sign * np.sqrt(np.maximum(added.without, 0.0))
        )

    def _table(self) -> pa.Table:
        n = len(self.heads)
        holds = self.holds
        columns: dict[str, Any] = {
            "head": [str(head) for head in self.heads] * len(self.names),
            "rung": np.repeat(np.array(self.names, dtype=object), n).tolist(),
        }
        for prefix, estimates in (("", self.explained), ("added_", self.added)):
            columns["added" if prefix else "explained"] = np.concatenate([share.value for share in estimates])
            columns[f"{prefix}low"] = np.concatenate([share.low for share in estimates])
            columns[f"{prefix}high"] = np.concatenate([share.high for share in estimates])
        columns["z_documents"] = np.concatenate([share.z for share in self.added])
        return table_of(
            {**columns, "z": self.z.ravel(), "holds": holds.ravel(), "scale": self.scales.ravel()}
        )

    def _blocks(self) -> list[Block]:
        rows = [
            (str(head), *(f"{share.value[at]:.3f}" for share in self.explained))
            for at, head in enumerate(self.heads)
        ]
        rows.append(("mean", *(f"{share:.3f}" for share in self.mean)))
        before = "+ " if self.nested else ""
        rows.append(("heads it harms", *self.harm))
        headers = [f"{before * bool(at)}{name}" for at, name in enumerate(self.names)]
        return [repr(self), Grid("Explained share on held-out documents", ["head", *headers], rows)]


def name_column(kind: str, name: str) -> str:
    """The column of a measure of a rung or a type."""
    return kind + "_" + re.sub(r"\W+", "_", name)


def climb(
    fitted: Rows,
    scored: Rows,
    rungs: Sequence[LadderRung],
    *,
    nested: bool = True,
    progress: Advance = silent,
) -> Ladder:
    """Fit rungs on some rows and score them on others, for every head.

    Parameters
    ----------
    fitted, scored : Rows
        Rows from different documents, with the same heads and window.
    rungs : sequence of Position, KeyToken or Rung
        The rungs, in order.
    nested : bool
        Whether each rung is fitted together with all before it. Otherwise each is fitted alone,
        as softmax(β · score).
    progress : callable, optional
        Called with the number of heads done and the total.

    Examples
    --------
    >>> from attomaton.heads.audit.rows import watch_rows
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> rows = watch_rows(model, documents, window=8)
    >>> fitted, scored = rows.take(rows.documents < 12), rows.take(rows.documents >= 12)
    >>> climb(fitted, scored, [Position(), KeyToken()])
    Ladder(2 heads, 2 rungs, nested)
    """
    names = tuple(rung.name for rung in rungs)
    if not names or len({name_column("", name) for name in names}) < len(names):
        raise UnsupportedOption(f"the rungs of a ladder need different names, not {list(names)}")
    if fitted.heads != scored.heads or fitted.window != scored.window:
        raise MismatchedParts("the rows to fit on and those to score differ in heads or window")
    features = Features.of(rungs, fitted, scored)
    n_heads = len(scored.heads)
    unexplained, scales = np.empty((len(rungs), len(scored), n_heads)), np.empty((len(rungs), n_heads))
    for index in range(n_heads):
        attention = scored.of_head(index)
        for number, step in enumerate(climb_head(features[0], features[1], index, nested=nested)):
            unexplained[number, :, index] = divergence(attention, step.logs)
            scales[number, index] = step.scale
        progress(index + 1, n_heads)
    shares = explain_rows(scored, unexplained)
    added = [share.minus(shares[at - 1]) if nested and at else share for at, share in enumerate(shares)]
    return Ladder(scored.heads, names, nested, tuple(shares), tuple(added), scales)


def explain_rows(scored: Rows, unexplained: Float64) -> list[Estimates]:
    """The explained share of each fit, from its KL(attention ‖ fit), shape (n_fits, n_rows, n_heads)."""
    drawn = Resampled.over(scored.documents)
    flat = np.full((1, scored.window + 1), -np.log(scored.window + 1))
    uniform = np.empty(unexplained.shape[1:])
    for index in range(len(scored.heads)):
        uniform[:, index] = divergence(scored.of_head(index), flat)
    measured = drawn.sums(scored.attends.astype(np.float64)) > 0
    everywhere = (uniform.mean(0) <= UNIFORM) | (
        measured.sum(0) < FEWEST_DOCUMENTS
    )  # nothing is there to explain
    uniform[:, everywhere] = 1.0
    ratios = [drawn.ratio(np.where(everywhere, 1.0, fit), uniform) for fit in unexplained]
    return [Estimates(1.0 - ratio.value, 1.0 - ratio.without) for ratio in ratios]


@dataclass(frozen=True, eq=False)
class Features:
    """Rows with the scores of every rung, shared by all heads.

    ``scores`` has one array per rung, of shape (n_rows, n_places) or (n_rows, n_heads, n_places), None for
    free offsets and effects. ``tokens`` (n_rows, n_places) are numbered among the ``n_tokens`` that occur;
    the first token of a context, whatever it is, has a number of its own.
    """

    rows: Rows
    rungs: tuple[LadderRung, ...]
    scores: tuple[Float64 | None, ...]
    tokens: Int64
    n_tokens: int

    @classmethod
    def of(cls, rungs: Sequence[LadderRung], *sets: Rows) -> "list[Features]":
        """Compute the scores of every rung for several parts, whose tokens have the same numbers."""
        tokens_seen = np.unique(np.concatenate([rows.tokens.ravel() for rows in sets]))
        features: list[Features] = []
        for rows in sets:
            scores = [
                None if isinstance(rung, Position | KeyToken) else check_rung_scores(rung, rows)
                for rung in rungs
            ]
            tokens = np.pad(
                np.searchsorted(tokens_seen, rows.tokens), ((0, 0), (0, 1)), constant_values=len(tokens_seen)
            )
            features.append(cls(rows, tuple(rungs), tuple(scores), tokens, len(tokens_seen) + 1))
        return features

    def attending(self, index: int) -> "Features":
        """The rows in which one head attends to any of the places."""
        attends = self.rows.attends[:, index]
        if attends.all():
            return self
        scores = tuple(None if by_rung is None else by_rung[attends] for by_rung in self.scores)
        return replace(self, rows=self.rows.take(attends), scores=scores, tokens=self.tokens[attends])

    def design(self, used: Sequence[int], index: int, spreads: Float64) -> Design:
        """The design of one head from some rungs, their scores divided by ``spreads``."""
        kinds = [self.rungs[number] for number in used]
        keys = [kind for kind in kinds if isinstance(kind, KeyToken)]
        scores = [
            self.of_head(number, index) / spreads[number]
            for number in used
            if self.scores[number] is not None
        ]
        features = np.array(scores) if scores else np.empty((0, *self.tokens.shape))
        return Design(
            any(isinstance(kind, Position) for kind in kinds),
            self.tokens if keys else None,
            self.n_tokens,
            features,
            keys[0].ridge if keys else 1e-3,
        )

    def of_head(self, rung: int, index: int) -> Float64:
        """The scores of one rung for one head, shape (n_rows, n_places); zeros if the rung has none."""
        scores = self.scores[rung]
        if scores is None:
            return np.zeros(self.tokens.shape)
        return scores[:, index] if scores.ndim == 3 else scores

    def spreads(self, index: int) -> Float64:
        """The standard deviation of each rung's scores within rows, shape (n_rungs,); 1 where it is 0."""
        deviations = np.ones(len(self.rungs))
        for number, scores in enumerate(self.scores):
            if scores is not None:
                spread = float(np.sqrt(np.mean(self.of_head(number, index) ** 2)))
                deviations[number] = spread if spread > 0 else 1.0
        return deviations


def check_rung_scores(rung: Rung, rows: Rows) -> Float64:
    """The scores of a rung about their mean in each row, if they fit the rows and are finite.

    Where a rung has none, the first token gets the median of its row: 0 for a rung of zeros and few ones.
    """
    scores = np.asarray(rung.scores(rows), np.float64)
    n, window = rows.tokens.shape
    if scores.shape in ((n, window), (n, len(rows.heads), window)):
        scores = np.concatenate([scores, np.median(scores, -1, keepdims=True)], -1)
    if scores.shape not in ((n, window + 1), (n, len(rows.heads), window + 1)):
        raise MismatchedParts(
            f"the rung {rung.name!r} gives scores of shape {scores.shape} for {n} rows of {window} positions "
            f"and {len(rows.heads)} heads"
        )
    if not np.isfinite(scores).all():
        raise MismatchedParts(f"the rung {rung.name!r} gives a score that is not finite")
    centred: Float64 = scores - scores.mean(-1, keepdims=True)
    centred[np.abs(centred) <= 1e-13 * np.abs(scores).max(initial=0.0)] = 0.0  # rounding of a constant
    return centred


def climb_head(fitted: Features, scored: Features, index: int, *, nested: bool = True) -> Iterator[Fitted]:
    """Every rung of one head, fitted on one part and evaluated on the other."""
    fitted = fitted.attending(index)
    if not len(fitted.rows):
        flat = np.full(scored.tokens.shape, -np.log(scored.tokens.shape[1]))
        yield from (Fitted(rung.name, flat, np.nan) for rung in fitted.rungs)
        return
    attention = fitted.rows.of_head(index)
    spreads, start, used = fitted.spreads(index), np.empty(0), list[int]()
    before = fitted.design([], index, spreads)
    for number, rung in enumerate(fitted.rungs):
        if not nested:
            used, start, before = [], np.empty(0), fitted.design([], index, spreads)
        used.append(number)
        design = fitted.design(used, index, spreads)
        start = fit_head(design, attention, _extend(before, design, start))
        logs = log_softmax(scored.design(used, index, spreads).scores(start), axis=-1)
        free = fitted.scores[number] is None
        yield Fitted(rung.name, logs, np.nan if free else float(start[-1] / spreads[number]))
        before = design


def _extend(before: Design, design: Design, start: Float64) -> Float64:
    """Coefficients of one design, extended by zeros to the size of the next."""
    lags, tokens = before.borders
    groups = [start[:lags], start[lags:tokens], start[tokens:]]
    sizes = [design.borders[0], design.borders[1] - design.borders[0], len(design.features)]
    return np.concatenate(
        [
            np.concatenate([group, np.zeros(size - len(group))])
            for group, size in zip(groups, sizes, strict=True)
        ]
    )
