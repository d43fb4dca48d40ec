"""What the data say about a contrast f·β: one of five classes, with its proof.

f outside R: not identified. f in S: finite. f in cone(D) but not in S: +∞; −f there: −∞. Else undecided: the
supremum of the likelihood is approached with f·β tending to anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.face import CHUNK, distinct_directions, solve_cone, solve_program
from attomaton.choices.logit.newton import solve_information
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import Span, span_of_vectors

CLOSE = 1e-8
"""The part of a contrast of length 1 that may be outside a span or cone it is said to be in."""

SURE = 1e-11
"""Up to here that part is rounding; between the two, a tiny difference decides and is treated as none."""

MOST_STEPS = 200
"""Newton steps, and changes of the price, in the search for a bound."""


class ContrastKind(Enum):
    """What is known about a contrast; the value is its word.

    Examples
    --------
    >>> [kind.value for kind in ContrastKind]
    ['finite', '+inf', '-inf', 'undecided', 'not identified']
    """

    FINITE = "finite"
    PLUS = "+inf"
    MINUS = "-inf"
    UNDECIDED = "undecided"
    UNIDENTIFIED = "not identified"


@dataclass(frozen=True, eq=False)
class Contrast:
    """A contrast f·β of the parameters: its class, its numbers, and what is behind them.

    Attributes
    ----------
    label : str
        f in words, such as ``a - b``.
    kind : ContrastKind
        One of the five classes.
    value : float
        The estimate; ±inf; NaN where it is undecided or not identified.
    standard_error, robust_error : float or None
        Of a finite contrast: by the information, and by the sandwich.
    bound : float or None
        Of an infinite one: at least (+inf) or at most (−inf) this, with confidence ``level``.
    level : float
        The confidence of the bound and of :meth:`interval`.
    comparisons : float
        How many choices say that it is infinite; of other contrasts, all choices on the face.
    settle : str
        What would make it finite, or decide it; empty where it is finite.
    certified : bool
        Whether its class is proved; else differences below 1e-8 of the contrast decide, and were treated as
        none.

    Examples
    --------
    >>> from attomaton.choices.logit import ChoiceProblem, fit_logit
    >>> problem = ChoiceProblem.from_rows([[1.0, 0.0], [0.0, 1.0]], [2], [8, 0], names=["a", "b"])
    >>> print(fit_logit(problem).contrast("a", "b"))
    a - b: +inf, in all 8 comparisons that bear on it: at least 0.789 (95 %); what would make it finite: a
    comparison of a with b in which b wins
    """

    label: str
    kind: ContrastKind
    value: float
    standard_error: float | None = None
    robust_error: float | None = None
    bound: float | None = None
    level: float = 0.95
    comparisons: float = 0.0
    settle: str = ""
    certified: bool = True

    def interval(self, *, robust: bool = False) -> tuple[float, float]:
        """Where the contrast lies with confidence ``level``; one end is infinite where the estimate is."""
        error = self.robust_error if robust else self.standard_error
        if self.kind is ContrastKind.FINITE and error is not None:
            reach = NormalDist().inv_cdf(0.5 + self.level / 2) * error
            return self.value - reach, self.value + reach
        low = self.bound if self.kind is ContrastKind.PLUS and self.bound is not None else -np.inf
        high = self.bound if self.kind is ContrastKind.MINUS and self.bound is not None else np.inf
        return low, high

    def __str__(self) -> str:
        return self._words() + ("" if self.certified else " (treating differences below 1e-8 as none)")

    def _words(self) -> str:
        if self.kind is ContrastKind.FINITE:
            robust = "" if self.robust_error is None else f", robust {self.robust_error:.3f}"
            return f"{self.label}: {self.value:+.3f} (s.e. {self.standard_error:.3f}{robust})"
        if self.kind in (ContrastKind.PLUS, ContrastKind.MINUS):
            side = "at least" if self.kind is ContrastKind.PLUS else "at most"
            bound = "" if self.bound is None else f": {side} {self.bound:.3f} ({100 * self.level:g} %)"
            many = f"all {self.comparisons:,.12g} comparisons" if self.comparisons != 1 else "the comparison"
            bear = "bear" if self.comparisons != 1 else "bears"
            said = f"{self.label}: {self.kind.value}, in {many} that {bear} on it{bound}"
            return f"{said}; what would make it finite: {self.settle}"
        return f"{self.label}: {self.kind.value}; what would decide it: {self.settle}"


class Proof(NamedTuple):
    """The class of a contrast and how well it is proved."""

    kind: ContrastKind
    certified: bool


@dataclass(frozen=True, eq=False)
class Cone:
    """The directions in which dying pairs run, in coordinates w of the complement of S."""

    problem: ChoiceProblem
    rows: Int64  # dying rows
    slopes: Float64  # (n_rows, q): d·B of each
    complement: Float64  # B
    direction: Float64  # w of a certified v

    @classmethod
    def of(cls, problem: ChoiceProblem, dying: Bool, finite: Span, direction: Float64) -> "Cone":
        """The cone of a face."""
        rows = np.flatnonzero(dying)
        complement = finite.complement
        slopes = np.empty((len(rows), complement.shape[1]))
        for place, column in enumerate(np.ascontiguousarray(complement.T)):
            slopes[:, place] = problem.gaps(column)[rows]
        return cls(problem, rows, slopes, complement, complement.T @ direction)

    def decide(self, contrast: Float64) -> Proof:
        """+∞, −∞ or undecided, for a contrast in R and not in S."""
        target = self.complement.T @ contrast
        target = target / np.linalg.norm(target)
        down, up = self._lowest(target), self._lowest(-target)
        if down.height >= -CLOSE:
            return Proof(ContrastKind.PLUS, down.distance <= SURE and up.height < -CLOSE)
        if up.height >= -CLOSE:
            return Proof(ContrastKind.MINUS, up.distance <= SURE and down.height < -CLOSE)
        return Proof(ContrastKind.UNDECIDED, True)

    def binding(self, contrast: Float64) -> Bool:
        """Dying rows that cannot be raised without raising an infinite contrast: those that say it is so."""
        target = self.complement.T @ contrast
        along = span_of_vectors(target[None], len(target))
        units, number = distinct_directions(self.slopes)
        inside = units @ along.complement
        steep = np.abs(inside).max(axis=1, initial=0.0) > CLOSE
        free = np.zeros(len(units), bool)
        if steep.any():
            turned, which = distinct_directions(inside[steep])
            free[np.flatnonzero(steep)] = solve_cone(turned).dies[which]
        return ~free[number]

    def _lowest(self, target: Float64) -> "Lowest":
        """The least target·w over w in the cone and the unit box; and how far the target is from cone(D)."""
        from scipy.optimize import nnls

        units = self._units
        use = np.zeros(len(units), bool)
        use[:CHUNK] = True
        box = np.array([(-1.0, 1.0)] * len(target))
        while True:
            rows = np.flatnonzero(use)
            answer = solve_program(target, A_ub=-units[rows], b_ub=np.zeros(len(rows)), bounds=box)
            point = np.asarray(answer.x)
            low = np.flatnonzero((units @ point < -1e-9) & ~use)
            if not len(low):
                break
            use[low[:CHUNK]] = True
        heights = units @ point
        lift = max(-float(heights.min(initial=0.0)), 0.0)  # v raises all by 1 or more: add what is missing
        raised = float(target @ (point + lift * self._lifting))
        weight = -np.asarray(answer.ineqlin.marginals)
        support = units[rows[weight > 1e-12]]
        return Lowest(raised, float(nnls(support.T, target)[1]) if len(support) else 1.0)

    @cached_property
    def _units(self) -> Float64:
        return distinct_directions(self.slopes)[0]

    @cached_property
    def _lifting(self) -> Float64:
        return self.direction / float((self._units @ self.direction).min())


class Lowest(NamedTuple):
    """The lowest height of a contrast in the cone, and its distance from the cone of the pairs."""

    height: float
    distance: float


def classify(contrast: Float64, finite: Span, identified: Span, cone: Cone) -> Proof:
    """The class of a contrast in scaled coordinates."""
    length = float(np.linalg.norm(contrast))
    if length == 0:
        return Proof(ContrastKind.FINITE, True)
    outside = float(np.linalg.norm(identified.complement.T @ contrast)) / length
    if outside > CLOSE:
        return Proof(ContrastKind.UNIDENTIFIED, True)
    off = float(np.linalg.norm(finite.complement.T @ contrast)) / length
    if off <= CLOSE:
        return Proof(ContrastKind.FINITE, max(off, outside) <= SURE)
    proof = cone.decide(contrast)
    return Proof(proof.kind, proof.certified and outside <= SURE)


def bound_below(cone: Cone, contrast: Float64, binding: Bool, behind: Float64, level: float) -> float | None:
    """The least f·γ over γ ⟂ S for which all that happened on ``binding`` rows has probability 1 − level.

    min f·γ subject to Σ_i N_i log P_i(face) ≥ log(1 − level); rows that can be raised at no cost are gone in
    the limit. What is returned is the value of the dual problem, which is never above the minimum; None
    where no price was found at which it is near.

    Parameters
    ----------
    cone : Cone
        The dying pairs.
    contrast : float64 array
        f, whose class is +∞.
    binding : bool array
        Which rows of the cone say so.
    behind : float64 array, shape (n_rows of the cone,)
        log odds of each dying row against the face of its situation, at β*.
    level : float
        The confidence.
    """
    problem, rows = cone.problem, cone.rows[binding]
    situation = problem.situation_of(rows)
    owners, place = np.unique(situation, return_inverse=True)
    basis = span_of_vectors(cone.slopes[binding], cone.slopes.shape[1]).basis
    slopes = cone.slopes[binding] @ basis
    target = basis.T @ (cone.complement.T @ contrast)
    merged = _merge(slopes, behind[binding], place, problem.totals[owners])
    limit = float(np.log1p(-level))
    point = basis.T @ cone.direction
    point = point / max(float((slopes @ point).min()), 1e-12)
    while merged.measure(point)[0] < limit:
        point = 2.0 * point
    low, high, best = -np.inf, np.inf, -np.inf
    middle = float(np.log(np.linalg.norm(target) / max(-limit, 1e-3)))
    for _ in range(MOST_STEPS):
        price = float(np.exp(middle))
        end, value, left = _minimise(target, price, merged, point, 4.0 * limit - 20.0)
        if left is not None:
            point = end if value >= limit else point
            best = max(best, float(target @ end) - price * (value - limit) - left)
            if abs(value - limit) < 1e-10 * abs(limit):
                return best
        low, high = (middle, high) if value < limit else (low, middle)
        if high - low < 1e-12:
            return best if np.isfinite(best) else None
        middle = middle + 3.0 if high == np.inf else middle - 3.0 if low == -np.inf else 0.5 * (low + high)
    return None


class Merged(NamedTuple):
    """Situations with dying alternatives, equal ones once: P = 1 / (1 + Σ exp(start − slope·w))."""

    slopes: Float64
    start: Float64
    place: Int64
    totals: Float64

    def measure(self, point: Float64) -> tuple[float, Float64]:
        """Σ N log P at w, and the probability of each dying row there."""
        odds = np.exp(np.minimum(self.start - self.slopes @ point, 700.0))
        sums = 1.0 + np.bincount(self.place, odds, len(self.totals))
        return -float(self.totals @ np.log(sums)), odds / sums[self.place]

    def rest(self, point: Float64) -> Float64:
        """P of each situation at w: the probability of its face."""
        odds = np.exp(np.minimum(self.start - self.slopes @ point, 700.0))
        sums: Any = 1.0 + np.bincount(self.place, odds, len(self.totals))
        return 1.0 / sums


def _merge(slopes: Float64, start: Float64, place: Int64, totals: Float64) -> Merged:
    """Situations with a single dying row that agree in slope and start are added up."""
    alone = np.bincount(place)[place] == 1
    if not alone.all() or len(start) < 2:
        return Merged(slopes, start, place, totals)
    key = np.round(np.column_stack([slopes, start]), 12) + 0.0
    _, first, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
    summed: Any = np.bincount(number.ravel(), totals[place])
    return Merged(slopes[first], start[first], np.arange(len(first)), summed)


def _minimise(
    target: Float64, price: float, data: Merged, point: Float64, least: float
) -> tuple[Float64, float, float | None]:
    """Min f·w − price · Σ N log P(w) by Newton's method: w, Σ N log P there, and what may be left.

    Nothing is said about what is left if Σ N log P falls below ``least`` on the way: the price is too low,
    and nothing holds the contrast up.
    """
    value, share = data.measure(point)
    for _ in range(MOST_STEPS):
        weight = data.totals[data.place] * share
        gradient = target - price * (data.slopes.T @ weight)
        means = np.zeros((len(data.totals), len(target)))
        np.add.at(means, data.place, data.slopes * share[:, None])
        away = data.slopes - means[data.place]
        # the face itself has slope 0 and the rest of the probability, of which no digits may be lost
        rest = data.totals * data.rest(point)
        curvature = price * ((away.T * weight) @ away + (means.T * rest) @ means)
        step = -solve_information(curvature, gradient)
        left = float(-gradient @ step)
        if float(np.abs(curvature @ step + gradient).max()) > 1e-6 * float(np.abs(gradient).max()):
            break
        if left < 1e-13 * max(1.0, abs(float(target @ point))):
            return point, value, max(left, 0.0)
        before = float(target @ point) - price * value
        length = min(1.0, 4.0 / max(float(np.abs(data.slopes @ step).max()), 1e-300))
        while length > 1e-12:
            reached, probability = data.measure(point + length * step)
            here = float(target @ (point + length * step)) - price * reached
            if here <= before - 1e-4 * length * left + 1e-13 * abs(before):
                point, value, share = point + length * step, reached, probability
                break
            length /= 2
        else:
            break
        if value < least:
            break
    return point, value, None


def describe_contrast(weights: Mapping[str, float]) -> str:
    """A contrast in words: ``a - b``, ``2 a + c``."""
    parts = list[str]()
    for name, weight in sorted(weights.items(), key=lambda entry: entry[1] < 0):
        sign = ("- " if weight < 0 else "+ ") if parts else ("-" if weight < 0 else "")
        size = "" if abs(weight) == 1 else f"{abs(weight):g} "
        parts.append(f"{sign}{size}{name}")
    return " ".join(parts) or "0"


def describe_settling(weights: Mapping[str, float], kind: ContrastKind) -> str:
    """Which further choice would make an infinite contrast finite, or decide one that is open."""
    up = [name for name, weight in weights.items() if weight == 1]
    down = [name for name, weight in weights.items() if weight == -1]
    label = describe_contrast(weights)
    if len(weights) == 2 and up and down:
        ahead, behind = up[0], down[0]
        if kind is ContrastKind.PLUS:
            return f"a comparison of {ahead} with {behind} in which {behind} wins"
        if kind is ContrastKind.MINUS:
            return f"a comparison of {ahead} with {behind} in which {ahead} wins"
        return f"a comparison of {ahead} with {behind}, and one that the other wins to make it finite"
    if kind is ContrastKind.PLUS:
        return f"a choice of an alternative over another that is ahead in {label} and equal otherwise"
    if kind is ContrastKind.MINUS:
        return f"a choice of an alternative over another that is behind in {label} and equal otherwise"
    return f"choices between alternatives that differ in {label} and are equal otherwise"
