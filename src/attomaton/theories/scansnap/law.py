"""The closed form of the second theory: the rise and fall of the gain, and the growth of attention.

Under the paper's assumptions (long sequences, η_Y ≫ η_Z, nearly orthogonal classes) the decoder's logits of
class n are h·(M x_n − 1), with

    (M − 1) h + (e^{M h} − 1)/M = η_Y t / K,        γ = (M − 1)² h / (M − 1 + e^{M h})

where γ is the gain that is back-propagated to attention, and Γ = η_Z ∫γ = (η_Z/η_Y) K (M − 1)² h²/2, for K
equally frequent classes over M tokens. With one common token the growth factor obeys Ḃ = η_Z γ e^{−4B}/C₀, so
that B = ¼ ln(1 + 4Γ/C₀), where C₀ is a constant of the start. The paper prints ¼ ln(C₀ + 4Γ), which is not 0
at t = 0, and γ in two pieces; here it is one function. :class:`SnapLaw` has γ, Γ, B and their landmarks.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import Checked, checked, real_number, whole_number
from attomaton.base.tables import Float64

# Learning rates beyond these leave no significant digits in the results.
SLOWEST, FASTEST = 1e-12, 1e12

# C₀ for slow attention, where B ∝ Γ.
SLOW_ATTENTION = 1e9


@dataclass(frozen=True)
class Rates(Checked):
    """The learning rates of decoder and attention.

    Attributes
    ----------
    decoder, attention : float
        The learning rates η_Y and η_Z of the flow; they include any momentum (:meth:`with_momentum`).

    Examples
    --------
    >>> Rates(decoder=5.0, attention=0.5).ratio
    10.0
    """

    decoder: float = field(metadata=checked(real_number, least=SLOWEST, most=FASTEST))
    attention: float = field(metadata=checked(real_number, least=SLOWEST, most=FASTEST))

    @classmethod
    def with_momentum(cls, decoder: float, attention: float, momentum: float) -> "Rates":
        """Return the rates at which the flow matches SGD with momentum μ: η/(1 − μ)."""
        plain = cls(decoder, attention)
        # 12 digits, so that a momentum of 0.9 multiplies by 10 and not by 10.000000000000002
        scale = round(1 / (1 - real_number(momentum, "momentum", least=0, below=1)), 12)
        return cls(plain.decoder * scale, plain.attention * scale)

    @property
    def ratio(self) -> float:
        """The learning rate of the decoder divided by that of attention, η_Y/η_Z."""
        return self.decoder / self.attention


def solve_exponent(clock: ArrayLike, n_tokens: int) -> Float64:
    """w = M h at η_Y t/K = ``clock``: the root of (M − 1) w/M + (e^w − 1)/M = clock."""
    target = np.asarray(clock, np.float64)
    if not (np.isfinite(target) & (target >= 0)).all():
        raise UnsupportedOption("times must be finite and at least 0")
    size = float(whole_number(n_tokens, "n_tokens", least=2))
    # Newton's method on M times the equation, from an upper bound: the roots if either term is left out
    root = np.minimum(target * size / (size - 1), np.log1p(size * target))
    for _ in range(100):  # far more than needed: convergence is quadratic
        raised = np.exp(root)
        step = ((size - 1) * root + raised - 1 - size * target) / (size - 1 + raised)
        root = np.maximum(root - step, 0.0)
        if np.abs(step).max(initial=0.0) <= 1e-15 * max(float(root.max(initial=0.0)), 1.0):
            break
    return root


@dataclass(frozen=True)
class SnapLaw(Checked):
    """The growth of attention in closed form, for K equally frequent classes over M tokens.

    Attributes
    ----------
    n_classes, n_tokens : int
        The number of classes K and the size of the vocabulary M.
    rates : Rates
        The learning rates η_Y and η_Z; for SGD with momentum use :meth:`Rates.with_momentum`.
    start : float, optional
        The constant C₀ of the start; by default 1/K, as in Figure 3 of the paper.

    Examples
    --------
    >>> law = SnapLaw(10, 1000, Rates(decoder=5.0, attention=0.5))
    >>> round(law.turn, 2), round(law.snap, 2), law.growth(280.0).round(4).item()
    (11.28, 14.41, 1.9809)
    """

    n_classes: int = field(metadata=checked(whole_number, least=1))
    n_tokens: int = field(metadata=checked(whole_number, least=2))
    rates: Rates
    start: float | None = field(default=None, metadata=checked(real_number, above=0))

    @property
    def constant(self) -> float:
        """The constant C₀."""
        return 1 / self.n_classes if self.start is None else self.start

    def clock(self, time: ArrayLike) -> Float64:
        """Return the rescaled time η_Y t/K."""
        return self.rates.decoder * np.asarray(time, np.float64) / self.n_classes

    def exponent(self, time: ArrayLike) -> Float64:
        """Return M h(t), the logit of the label minus the logit of any other token."""
        return solve_exponent(self.clock(time), self.n_tokens)

    def gain(self, time: ArrayLike) -> Float64:
        """Return the gain γ(t) that is back-propagated to attention."""
        exponent = self.exponent(time)
        n_wrong = self.n_tokens - 1
        return n_wrong**2 / self.n_tokens * exponent / (n_wrong + np.exp(exponent))

    def integral(self, time: ArrayLike) -> Float64:
        """Return Γ(t) = η_Z ∫γ."""
        scale = (self.n_tokens - 1) ** 2 / (2 * self.n_tokens**2)
        return self.n_classes / self.rates.ratio * scale * self.exponent(time) ** 2

    def growth(self, time: ArrayLike) -> Float64:
        """Return the growth factor of attention B(t) = ¼ ln(1 + 4Γ/C₀)."""
        return 0.25 * np.log1p(4 * self.integral(time) / self.constant)

    def growth_as_printed(self, time: ArrayLike) -> Float64:
        """Return ¼ ln(C₀ + 4Γ), the growth factor as printed; too small by ¼ ln(1/C₀) at late times."""
        return 0.25 * np.log(self.constant + 4 * self.integral(time))

    @cached_property
    def turn(self) -> float:
        """The time of the largest gain, (M h − 1) e^{M h} = M − 1, solved by Lambert's W."""
        exponent = 1 + float(lambertw((self.n_tokens - 1) / np.e).real)
        clock = ((self.n_tokens - 1) * exponent + np.expm1(exponent)) / self.n_tokens
        return float(clock * self.n_classes / self.rates.decoder)

    @property
    def scan_end(self) -> float:
        """The time t₀' = K ln M/η_Y of Theorem 4; until then e^{4B} − 1 grows like t²."""
        return self.n_classes * np.log(self.n_tokens) / self.rates.decoder

    @cached_property
    def snap_start(self) -> float:
        """The time t₀ = 2 (1 + ω₁) K ln M/η_Y of Theorem 4; later e^{4B} − 1 grows like ln²(M η_Y t/K)."""
        root = -float(lambertw(-1 / max(self.n_tokens - 1, np.e), -1).real)
        return 2 * root * self.n_classes / self.rates.decoder

    @cached_property
    def snap(self) -> float:
        """The time when d ln B/d ln t has fallen to half its value at half of the turn."""
        from scipy.optimize import brentq

        half = self.steepness(self.turn / 2) / 2
        low, high = self.turn / 2, self.turn  # steepness falls, and is above half at `low`
        while self.steepness(high) > half:
            low, high = high, 2 * high
        root: Any = brentq(lambda time: float(self.steepness(time) - half), low, high, rtol=1e-12)
        return root

    @cached_property
    def snap_of_slow_growth(self) -> float:
        """The snap if 4Γ ≪ C₀ and M is large, t = (K/η_Y)(w + w/(w − 2)) with w = ln M + ln(w/(w − 2))."""
        logarithm = np.log(self.n_tokens)
        exponent = max(logarithm, 2.0) + 1.0  # w, by fixed-point iteration from above its pole at 2
        for _ in range(200):
            exponent = logarithm + np.log(exponent / (exponent - 2))
        return (exponent + exponent / (exponent - 2)) * self.n_classes / self.rates.decoder

    def steepness(self, time: ArrayLike) -> Float64:
        """Return d ln B/d ln t = t η_Z γ e^{−4B}/(C₀ B)."""
        grown = self.growth(time)
        pace = self.rates.attention * self.gain(time) * np.exp(-4 * grown) / self.constant
        return np.asarray(time, np.float64) * pace / grown


def find_class_times(shares: Float64, n_tokens: int, rates: Rates) -> tuple[Float64, Float64]:
    """The turns and snaps of classes with these shares of the corpus, for slow attention."""
    # a class with share π learns like one of 1/π equal classes: the times of one class at rate 1, over η_Y π
    single = SnapLaw(1, n_tokens, Rates(decoder=1.0, attention=1.0), start=SLOW_ATTENTION)
    return single.turn / (rates.decoder * shares), single.snap / (rates.decoder * shares)
