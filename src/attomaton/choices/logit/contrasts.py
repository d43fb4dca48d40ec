"""What the data say about a contrast f·β: one of five classes, with its proof.

f outside R: not identified. f in S: finite. f in cone(D) but not in S: +∞; −f there: −∞. Else undecided: the
supremum of the likelihood is approached with f·β tending to anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.printing import show_count
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.curvature import solve_information
from attomaton.choices.logit.face import PROGRAM_CHUNK, distinct_directions, run_highs, solve_cone
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import Span, span_of_vectors
from attomaton.choices.spread import student_quantile

CLOSE = 1e-8
"""The part of a contrast of length 1 that may be outside a span or cone it is said to be in."""

SURELY_INSIDE = 2e-14
"""Up to here that part is rounding (1.5e-15 at most in what was measured); between the two, a tiny difference
decides and is treated as none."""

DOUBLINGS = 64
"""How often a point is doubled until all that happened is probable enough there."""

BOUND_STEPS = 200
"""Newton steps, and changes of the price, in the search for a bound."""


class ContrastKind(Enum):
    """What is known about a contrast; the value is the printed word.

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
    """A contrast f·β of the parameters: its class, its numbers and the evidence for them.

    Attributes
    ----------
    label : str
        f in words, such as ``a - b``.
    kind : ContrastKind
        One of the five classes.
    value : float
        The estimate; ±inf; NaN where it is undecided or not identified.
    standard_error, robust_error : float or None
        Of a finite contrast, from the information matrix and from the sandwich; otherwise None.
    bound : float or None
        For an infinite contrast: with confidence ``level``, it is at least (+inf) or at most (−inf) this.
    level : float
        The confidence of the bound and of :meth:`interval`.
    comparisons : float
        The number of choices that show it to be infinite; for other contrasts, the number of all choices on
        the face.
    settle : str
        What would make it finite, or decide it; empty where it is finite.
    degrees : float
        The degrees of freedom of Student's t for :meth:`interval`; infinite without clusters.
    certified : bool
        Whether ``kind`` is proved. If not, it depends on differences below 1e-8 relative to the contrast,
        which were taken as 0.

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
    degrees: float = np.inf
    certified: bool = True

    def interval(self, *, robust: bool = False) -> tuple[float, float]:
        """Where the contrast lies with confidence ``level``; one end is infinite where the estimate is."""
        error = self.robust_error if robust else self.standard_error
        if self.kind is ContrastKind.FINITE and error is not None:
            reach = float(student_quantile(0.5 + self.level / 2, self.degrees)) * error
            return self.value - reach, self.value + reach
        low = self.bound if self.kind is ContrastKind.PLUS and self.bound is not None else -np.inf
        high = self.bound if self.kind is ContrastKind.MINUS and self.bound is not None else np.inf
        return low, high

    @property
    def reading(self) -> str:
        """For a contrast that is not finite: how many choices show it and the bound, or its class."""
        if self.kind is ContrastKind.FINITE:
            return ""
        if self.kind in (ContrastKind.UNDECIDED, ContrastKind.UNIDENTIFIED):
            return self.kind.value
        many = f"{show_count(self.comparisons)} comparison{'' if self.comparisons == 1 else 's'}"
        return ": ".join(filter(None, [many, self.bound_reading]))

    @property
    def bound_reading(self) -> str:
        """The bound of an infinite contrast, such as "+0.789 or more (95 %)"; empty without one."""
        if self.bound is None:
            return ""
        side = "or more" if self.kind is ContrastKind.PLUS else "or less"
        return f"{self.bound:+z.3f} {side} ({100 * self.level:g} %)"

    def __str__(self) -> str:
        return self._words() + ("" if self.certified else " (treating differences below 1e-8 as none)")

    def _words(self) -> str:
        if self.kind is ContrastKind.FINITE:
            robust = "" if self.robust_error is None else f", robust {self.robust_error:.3f}"
            error = "no s.e." if self.standard_error is None else f"s.e. {self.standard_error:.3f}"
            return f"{self.label}: {self.value:+z.3f} ({error}{robust})"
        if self.kind in (ContrastKind.PLUS, ContrastKind.MINUS):
            side = "at least" if self.kind is ContrastKind.PLUS else "at most"
            bound = "" if self.bound is None else f": {side} {self.bound:.3f} ({100 * self.level:g} %)"
            many = (
                f"all {show_count(self.comparisons)} comparisons"
                if self.comparisons != 1
                else "the comparison"
            )
            bear = "bear" if self.comparisons != 1 else "bears"
            reading = f"{self.label}: {self.kind.value}, in {many} that {bear} on it{bound}"
            return f"{reading}; what would make it finite: {self.settle}"
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
        return cls(problem, rows, problem.slopes(complement, rows), complement, complement.T @ direction)

    def decide(self, contrast: Float64) -> Proof:
        """+∞, −∞ or undecided, for a contrast in R and not in S."""
        target = self.complement.T @ contrast
        target = target / np.linalg.norm(target)
        down, up = self._lowest(target), self._lowest(-target)
        if down.height >= -CLOSE:
            return Proof(ContrastKind.PLUS, down.distance <= SURELY_INSIDE and up.height < -CLOSE)
        if up.height >= -CLOSE:
            return Proof(ContrastKind.MINUS, up.distance <= SURELY_INSIDE and down.height < -CLOSE)
        return Proof(ContrastKind.UNDECIDED, True)

    def binding(self, contrast: Float64) -> Bool | None:
        """Dying rows that cannot be raised without raising an infinite contrast: those that say it is so.

        None where differences of rows are too small to tell.
        """
        target = self.complement.T @ contrast
        line = span_of_vectors(target[None], len(target))
        units, number = distinct_directions(self.slopes)
        inside = units @ line.complement
        steep = np.abs(inside).max(axis=1, initial=0.0) > CLOSE
        free = np.zeros(len(units), bool)
        if steep.any():
            directions, position = distinct_directions(inside[steep])
            try:
                free[np.flatnonzero(steep)] = solve_cone(directions).dies[position]
            except UncertifiedSolution:
                return None
        return None if free.all() else ~free[number]

    def _lowest(self, target: Float64) -> "Lowest":
        """The least target·w over w in the cone and the unit box; and how far the target is from cone(D)."""
        from scipy.optimize import nnls

        units = self.units
        use = np.zeros(len(units), bool)
        use[:PROGRAM_CHUNK] = True
        box = np.array([(-1.0, 1.0)] * len(target))
        while True:
            rows = np.flatnonzero(use)
            answer = run_highs(target, A_ub=-units[rows], b_ub=np.zeros(len(rows)), bounds=box)
            point = np.asarray(answer.x)
            low = np.flatnonzero((units @ point < -1e-9) & ~use)
            if not len(low):
                break
            use[low[:PROGRAM_CHUNK]] = True
        heights = units @ point
        lift = max(-float(heights.min(initial=0.0)), 0.0)  # v raises all by 1 or more: add what is missing
        lifting = self.direction / float((units @ self.direction).min())
        raised = float(target @ (point + lift * lifting))
        weight = -np.asarray(answer.ineqlin.marginals)
        support = units[rows[weight > 1e-12]]
        return Lowest(raised, float(nnls(support.T, target)[1]) if len(support) else 1.0)

    @cached_property
    def units(self) -> Float64:
        """The directions of dying pairs, equal ones once."""
        return distinct_directions(self.slopes)[0]


class Lowest(NamedTuple):
    """The lowest height of a contrast in the cone, and its distance from the cone of the pairs."""

    height: float
    distance: float


def classify(contrast: Float64, finite: Span, identified: Span, cone: Callable[[], Cone]) -> Proof:
    """The class of a contrast in scaled coordinates."""
    length = float(np.linalg.norm(contrast))
    if length == 0:
        return Proof(ContrastKind.FINITE, True)
    outside = float(np.linalg.norm(identified.reject(contrast))) / length
    if outside > CLOSE:
        return Proof(ContrastKind.UNIDENTIFIED, True)
    off = float(np.linalg.norm(finite.reject(contrast))) / length
    if off <= CLOSE:
        return Proof(ContrastKind.FINITE, max(off, outside) <= SURELY_INSIDE)
    proof = cone().decide(contrast)
    return Proof(proof.kind, proof.certified and outside <= SURELY_INSIDE)


def classify_all(contrasts: Float64, finite: Span, identified: Span, cone: Cone) -> Any:
    """The class of each of many contrasts, shape (n, n_parameters), as :func:`classify` has it.

    What is outside S is decided once for each direction, and without a linear program if it is the direction
    of a dying pair.
    """
    from scipy.spatial import cKDTree

    length = np.linalg.norm(contrasts, axis=1)
    kinds = np.full(len(contrasts), ContrastKind.FINITE, object)
    kinds[np.linalg.norm(contrasts @ identified.complement, axis=1) > CLOSE * length] = (
        ContrastKind.UNIDENTIFIED
    )
    steep = np.linalg.norm(contrasts @ finite.complement, axis=1) > CLOSE * length
    undecided = np.flatnonzero(steep & (kinds == ContrastKind.FINITE))
    if not len(undecided):
        return kinds
    directions, number = distinct_directions(contrasts[undecided] @ cone.complement, digits=None)
    classes = np.full(len(directions), None, object)
    tree: Any = cKDTree(cone.units)
    for sign, kind in ((1.0, ContrastKind.PLUS), (-1.0, ContrastKind.MINUS)):
        classes[np.isfinite(tree.query(sign * directions, distance_upper_bound=SURELY_INSIDE)[0])] = kind
    for row in np.flatnonzero(classes == None).tolist():  # noqa: E711  one by one
        classes[row] = cone.decide(cone.complement @ directions[row]).kind
    kinds[undecided] = classes[number]
    return kinds


def bound_below(
    cone: Cone, contrast: Float64, binding: Bool, log_odds: Float64, level: float, clusters: Int64 | None
) -> float | None:
    """The least f·γ over γ ⟂ S for which all that happened on ``binding`` rows has probability 1 − level.

    min f·γ subject to Σ_i N_i log P_i(face) ≥ log(1 − level); rows that can be raised at no cost are gone in
    the limit. What is returned is the value of the dual problem, which is never above the minimum; None
    where no price was found at which it is near. ``log_odds`` are those of each dying row against the face of
    its situation, at β*.
    """
    problem, rows = cone.problem, cone.rows[binding]
    situation = problem.situation_of(rows)
    owners, position = np.unique(situation, return_inverse=True)
    basis = span_of_vectors(cone.slopes[binding], cone.slopes.shape[1]).basis
    slopes = cone.slopes[binding] @ basis
    target = basis.T @ (cone.complement.T @ contrast)
    unit = float(np.linalg.norm(target))
    target = target / unit
    totals = count_once(problem.totals[owners], None if clusters is None else clusters[owners])
    merged = merge(slopes, log_odds[binding], position, totals)
    point = basis.T @ cone.direction
    height = lowest_height(target, merged, point / max(float((slopes @ point).min()), 1e-12), level)
    return None if height is None else unit * height


def count_once(totals: Float64, clusters: Int64 | None) -> Float64:
    """How often each situation counts if all choices of a cluster count as one."""
    if clusters is None:
        return totals
    _, number = np.unique(clusters, return_inverse=True)
    return totals / np.bincount(number, totals)[number]


def lowest_height(target: Float64, merged: "Merged", point: Float64, level: float) -> float | None:
    """The least target·w for which Σ N log P ≥ log(1 − level); ``point`` raises every row by 1 or more."""
    limit = float(np.log1p(-level))
    for _ in range(DOUBLINGS):
        if merged.measure(point)[0] >= limit:
            break
        point = 2.0 * point
    else:  # up to rounding it raises no row
        return None
    while merged.measure(0.5 * point)[0] >= limit and np.linalg.norm(point) > 1e-12:
        point = 0.5 * point  # nearer, where few rows have probabilities without digits
    low, high, best = -np.inf, np.inf, -np.inf
    under, over = np.nan, np.nan  # log-probabilities at both ends, less the limit
    middle = float(np.log(np.linalg.norm(target) / max(-limit, 1e-3)))
    for step in range(BOUND_STEPS):
        price = float(np.exp(middle))
        end, value, left = _minimise(target, price, merged, point, 4.0 * limit - 20.0)
        if left is not None:
            point = end if value >= limit else point
            best = max(best, float(target @ end) - price * (value - limit) - left)
            if abs(value - limit) < 1e-6 * abs(limit):  # the error of the dual value is quadratic in it
                return best
        if value < limit:
            low, under = middle, value - limit
        else:
            high, over = middle, value - limit
        if high - low < 1e-12:
            return best if np.isfinite(best) else None
        if np.isinf(high - low):
            middle = middle + 3.0 if high == np.inf else middle - 3.0
        else:  # where a straight line between the ends meets the limit, and half-way every third time
            share = 0.5 if step % 3 == 2 else min(max(under / (under - over), 0.02), 0.98)
            middle = low + share * (high - low)
    return None


class Merged(NamedTuple):
    """Situations with dying alternatives, equal ones once: P = 1 / (1 + Σ exp(start − slope·w))."""

    slopes: Float64
    start: Float64
    situation: Int64
    totals: Float64

    def measure(self, point: Float64) -> tuple[float, Float64, Float64]:
        """Σ N log P at w, the probability of each dying row there, and P, that of each situation's face."""
        height = self.start - self.slopes @ point
        top = np.zeros(len(self.totals))
        np.maximum.at(top, self.situation, height)
        odds = np.exp(height - top[self.situation])
        sums: Any = np.exp(-top) + np.bincount(self.situation, odds, len(self.totals))
        value = -float(self.totals @ (top + np.log(sums)))
        return value, odds / sums[self.situation], np.exp(-top) / sums


def merge(slopes: Float64, start: Float64, situation: Int64, totals: Float64) -> Merged:
    """Situations with a single dying row that agree in slope and start are added up."""
    alone = np.bincount(situation)[situation] == 1
    if not alone.all() or len(start) < 2:
        return Merged(slopes, start, situation, totals)
    key = np.round(np.column_stack([slopes, start]), 12) + 0.0
    _, first, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
    summed: Any = np.bincount(number.ravel(), totals[situation])
    return Merged(slopes[first], start[first], np.arange(len(first)), summed)


def _minimise(
    target: Float64, price: float, data: Merged, point: Float64, least: float
) -> tuple[Float64, float, float | None]:
    """Min f·w − price · Σ N log P(w) by Newton's method: w, Σ N log P there, and what may be left.

    Nothing is said about what is left if Σ N log P falls and stays below ``least`` on the way: the price is
    too low, and nothing holds the contrast up.
    """
    value, share, face = data.measure(point)
    n_low = 0
    for _ in range(BOUND_STEPS):
        weight = data.totals[data.situation] * share
        gradient = target - price * (data.slopes.T @ weight)
        means = np.add.reduceat(
            data.slopes * share[:, None], np.flatnonzero(np.diff(data.situation, prepend=-1))
        )
        away = data.slopes - means[data.situation]
        # the face itself has slope 0 and the rest of the probability, of which no digits may be lost
        curvature = price * ((away.T * weight) @ away + (means.T * (data.totals * face)) @ means)
        step = -solve_information(curvature, gradient)
        exact = float(np.abs(curvature @ step + gradient).max()) <= 1e-6 * float(np.abs(gradient).max())
        if not exact:  # nearly flat along some direction: go down there, but do not call it solved
            lift = 1e-8 * float(np.trace(curvature)) * np.eye(len(gradient))
            step = -solve_information(curvature + lift, gradient)
        left = float(-gradient @ step)
        if exact and left < 1e-13 * max(1.0, abs(float(target @ point))):
            return point, value, max(left, 0.0)
        before = float(target @ point) - price * value
        rise = -(data.slopes @ step)  # by at most 4, but freely where a row is far behind
        room = 4.0 + np.maximum(-10.0 - (data.start - data.slopes @ point), 0.0)
        length = min(1.0, float((room / np.maximum(rise, 1e-300)).min()))
        while length > 1e-18:
            reached, *shares = data.measure(point + length * step)
            here = float(target @ (point + length * step)) - price * reached
            if here <= before - 1e-4 * length * left + 1e-13 * abs(before):
                point, value, (share, face) = point + length * step, reached, shares
                break
            length /= 2
        else:
            break
        n_low = n_low + 1 if value < least else 0
        if n_low > 10:
            break
    return point, value, None


def weights_of(names: tuple[Any, ...]) -> dict[str, float]:
    """The weights of a contrast by name, from one name, two, or a mapping."""
    if len(names) == 1 and isinstance(names[0], Mapping):
        mapping = cast("Mapping[Any, Any]", names[0])
        return {str(name): float(weight) for name, weight in mapping.items() if weight}
    if len(names) == 1:
        return {str(names[0]): 1.0}
    if len(names) == 2:
        first, second = map(str, names)
        return {first: 1.0, second: -1.0} if first != second else {}
    raise UnsupportedOption("give one name, two names for their difference, or a mapping of names to weights")


def describe_contrast(weights: Mapping[str, float]) -> str:
    """A contrast in words: ``a - b``, ``2 a + c``."""
    return add_up(dict(sorted(weights.items(), key=lambda entry: entry[1] < 0)))


def add_up(weights: Mapping[str, float]) -> str:
    """A sum of names with these weights, in their order."""
    terms = list[str]()
    for name, weight in weights.items():
        sign = ("- " if weight < 0 else "+ ") if terms else ("-" if weight < 0 else "")
        size = "" if abs(weight) == 1 else f"{abs(weight):g} "
        terms.append(f"{sign}{size}{name}")
    return " ".join(terms) or "0"


def describe_settling(weights: Mapping[str, float], kind: ContrastKind) -> str:
    """Which further choice would make an infinite contrast finite, or decide one that is open."""
    up = [name for name, weight in weights.items() if weight == 1]
    down = [name for name, weight in weights.items() if weight == -1]
    label = describe_contrast(weights)
    if len(weights) == 2 and up and down:
        leading, trailing = up[0], down[0]
        if kind is ContrastKind.PLUS:
            return f"a comparison of {leading} with {trailing} in which {trailing} wins"
        if kind is ContrastKind.MINUS:
            return f"a comparison of {leading} with {trailing} in which {leading} wins"
        return f"a comparison of {leading} with {trailing}, and one that the other wins to make it finite"
    if kind is ContrastKind.PLUS:
        return f"an alternative chosen over one with a higher {label}, all else equal"
    if kind is ContrastKind.MINUS:
        return f"an alternative chosen over one with a lower {label}, all else equal"
    return f"choices between alternatives that differ in {label} and are equal otherwise"
