"""What the data say about a contrast f·β of the parameters, in numbers and in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.printing import show_count
from attomaton.choices.spread import student_quantile


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
        The contrast in words, such as ``a - b``.
    kind : ContrastKind
        One of the five classes.
    value : float
        The estimate, ±inf, or NaN where it is undecided or not identified.
    standard_error, robust_error : float or None
        From the information matrix and from the sandwich, for a finite contrast.
    bound : float or None
        For an infinite contrast: with confidence ``level`` it is at least (+inf) or at most (−inf) this.
    level : float
        The confidence of the bound and of :meth:`interval`.
    comparisons : float
        The number of choices that prove an infinite contrast; for a finite one, of all that are informative.
    settle : str
        What would make it finite, or decide it, in words; empty where it is finite.
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
    a - b: +inf in all 8 comparisons that bear on it, at least 0.789 (95 %); a comparison of a with b in which
    b wins would make it finite
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
        """The confidence interval; one end is infinite where the estimate is."""
        error = self.robust_error if robust else self.standard_error
        if self.kind is ContrastKind.FINITE and error is not None:
            half_width = float(student_quantile(0.5 + self.level / 2, self.degrees)) * error
            return self.value - half_width, self.value + half_width
        low = self.bound if self.kind is ContrastKind.PLUS and self.bound is not None else -np.inf
        high = self.bound if self.kind is ContrastKind.MINUS and self.bound is not None else np.inf
        return low, high

    @property
    def reading(self) -> str:
        """What the data say about a contrast that is not finite: the number of choices and the bound."""
        if self.kind is ContrastKind.FINITE:
            return ""
        if self.kind in (ContrastKind.UNDECIDED, ContrastKind.UNIDENTIFIED):
            return self.kind.value
        evidence = f"{show_count(self.comparisons)} comparison{'' if self.comparisons == 1 else 's'}"
        return ": ".join(filter(None, [evidence, self.bound_reading]))

    @property
    def bound_reading(self) -> str:
        """The bound of an infinite contrast, such as "+0.789 or more (95 %)"; empty without one."""
        if self.bound is None:
            return ""
        side = "or more" if self.kind is ContrastKind.PLUS else "or less"
        return f"{self.bound:+z.3f} {side} ({100 * self.level:g} %)"

    def __str__(self) -> str:
        words = f"{self.label}: {self._describe()}"
        return words if self.certified else f"{words} (differences below 1e-8 count as 0)"

    # The contrast in a sentence, without its label.
    def _describe(self) -> str:
        if self.kind is ContrastKind.FINITE:
            robust = "" if self.robust_error is None else f", robust {self.robust_error:.3f}"
            error = "no s.e." if self.standard_error is None else f"s.e. {self.standard_error:.3f}"
            return f"{self.value:+z.3f} ({error}{robust})"
        if self.kind in (ContrastKind.UNDECIDED, ContrastKind.UNIDENTIFIED):
            return f"{self.kind.value}; {self.settle}"
        side = "at least" if self.kind is ContrastKind.PLUS else "at most"
        bound = "" if self.bound is None else f", {side} {self.bound:.3f} ({100 * self.level:g} %)"
        size = show_count(self.comparisons)
        single = self.comparisons == 1
        evidence = "the comparison that bears" if single else f"all {size} comparisons that bear"
        return f"{self.kind.value} in {evidence} on it{bound}; {self.settle}"


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


def contrast_without_numbers(weights: Mapping[str, float], kind: ContrastKind, level: float) -> Contrast:
    """A contrast of this class with its words: the label, and what would settle it."""
    settle = describe_settling(weights, kind)
    return Contrast(describe_contrast(weights), kind, np.nan, level=level, settle=settle)


def describe_contrast(weights: Mapping[str, float]) -> str:
    """The contrast as a sum of names, positive weights first."""
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
    """Say which further choice would make an infinite contrast finite, or decide an open one."""
    up = [name for name, weight in weights.items() if weight == 1]
    down = [name for name, weight in weights.items() if weight == -1]
    label = describe_contrast(weights)
    if len(weights) == 2 and up and down:
        comparison = f"a comparison of {up[0]} with {down[0]}"
        if kind in (ContrastKind.PLUS, ContrastKind.MINUS):
            loser = down[0] if kind is ContrastKind.PLUS else up[0]
            return f"{comparison} in which {loser} wins would make it finite"
        return (
            f"{comparison} would decide it, and a second one that the loser of the first wins would make it "
            "finite"
        )
    if kind in (ContrastKind.PLUS, ContrastKind.MINUS):
        size = "higher" if kind is ContrastKind.PLUS else "lower"
        return f"a choice against an alternative with a {size} {label}, all else equal, would make it finite"
    return f"choices between alternatives that differ in {label} only would decide it"
