"""The star, on which the closed form of the second paper is derived, and the closed form's own definition."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import real_number, whole_number
from attomaton.base.tables import Float64
from attomaton.corpora.samples import MAX_TOKENS
from attomaton.theories.scansnap.classes import CorpusClasses
from attomaton.theories.scansnap.flow import integrate_flow
from attomaton.theories.scansnap.law import SnapLaw


def make_star(n_classes: int, n_tokens: int, *, common: float) -> CorpusClasses:
    """Classes with a query and one distinct token each, around one common token of probability ``common``.

    The corpus on which the closed form (:func:`star_constant`) is derived.

    Parameters
    ----------
    n_classes, n_tokens : int
        K and M ≥ 3 K + 1.
    common : float
        The probability of the common token.

    Examples
    --------
    >>> star = make_star(3, 20, common=0.1)
    >>> star, star.common().tolist(), star.distinct().tolist()
    (CorpusClasses(3 classes of 3 queries, 20 tokens), [0], [1, 2, 3])
    """
    n_classes = whole_number(n_classes, "n_classes", least=1, most=MAX_TOKENS)
    n_tokens = whole_number(n_tokens, "n_tokens", least=2, most=MAX_TOKENS)
    common = real_number(common, "common", least=0, most=1)
    if n_tokens < 3 * n_classes + 1:
        raise InvalidSamples(
            f"{n_classes} classes need {3 * n_classes + 1} tokens (common, distinct, queries, labels); "
            f"got {n_tokens}"
        )
    distinct = 1 + np.arange(n_classes)
    weights = np.zeros((n_classes, n_tokens))
    weights[:, 0] = common
    weights[np.arange(n_classes), distinct] = 1 - common
    return CorpusClasses.from_table(distinct + n_classes, distinct + 2 * n_classes, weights)


def star_constant(n_classes: int, n_tokens: int, *, common: float) -> float:
    """Compute C₀ of :func:`make_star`, tan²θ₀ K (M − 1)²/((K − 1) M).

    A class has a common token, with the share ``common`` = p before the query, and a distinct one, so that
    f_n = (cos θ, sin θ) with tan θ = e^{z_d − z_c} (1 − p)/p. Y has h (M x_n' − 1) in the direction of every
    f_n'. Its own direction is projected out; each of the K − 1 others contributes −γ M/(M − 1)² times cos²θ,
    and a class occurs once in K = ``n_classes``, with M = ``n_tokens``. Hence
    Ḃ = η_Z γ cos²θ (K − 1) M/(K (M − 1)²), ż_d = sin²θ Ḃ and ż_c = −sin²θ Ḃ, so tan²θ grows as e^{4B}; where
    it is large, this is the law of :mod:`~attomaton.theories.scansnap.law`.

    Examples
    --------
    >>> round(star_constant(10, 1000, common=0.05), 1)
    400309.3
    """
    n_classes = whole_number(n_classes, "n_classes (that share a common token)", least=2)
    n_tokens = whole_number(n_tokens, "n_tokens", least=2)
    common = real_number(common, "common", least=1e-100, below=1)
    square = ((1 - common) / common) ** 2
    return square * n_classes * (n_tokens - 1) ** 2 / ((n_classes - 1) * n_tokens)


def integrate_law(law: SnapLaw, times: ArrayLike) -> tuple[Float64, Float64]:
    """γ and B at ascending times by integrating ẇ and Ḃ themselves: the definition of the closed form.

    Examples
    --------
    >>> from attomaton.theories import Rates
    >>> law = SnapLaw(10, 1000, Rates(decoder=5.0, attention=0.5))
    >>> gain, growth = integrate_law(law, [10.0, 280.0])
    >>> np.abs(growth - law.growth([10.0, 280.0])).max() < 1e-6
    np.True_
    """
    n_others, size = law.n_tokens - 1, law.n_tokens

    def gain_at(exponent: Any) -> Any:
        return n_others**2 / size * exponent / (n_others + np.exp(exponent))

    def slope(state: Float64) -> Float64:
        exponent, grown = state
        pace = law.rates.attention * gain_at(exponent) * np.exp(-4 * grown) / law.constant
        return np.array([size * law.rates.decoder / law.n_classes / (n_others + np.exp(exponent)), pace])

    exponent, grown = integrate_flow(slope, 2, times, rtol=1e-10, atol=1e-12).T
    return gain_at(exponent), grown
