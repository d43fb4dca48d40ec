"""Coefficients of position, features and ties: in the unit of ratings, as JSON, and as a printed list."""

from collections.abc import Mapping
from dataclasses import replace
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any

from attomaton.base.printing import Listing, shorten, show_count

if TYPE_CHECKING:
    from attomaton.choices.logit.contrasts import Contrast


def rescale(coefficients: "Mapping[str, Contrast]", unit: float) -> "dict[str, Contrast]":
    """The coefficients in log odds times ``unit``."""
    return {
        name: replace(
            contrast,
            value=unit * contrast.value,
            standard_error=None if contrast.standard_error is None else unit * contrast.standard_error,
            bound=None if contrast.bound is None else unit * contrast.bound,
        )
        for name, contrast in coefficients.items()
    }


def record_coefficient(contrast: "Contrast") -> dict[str, Any]:
    return {
        "name": contrast.label,
        "kind": contrast.kind.value,
        "estimate": contrast.value if isfinite(contrast.value) else None,
        "standard_error": contrast.standard_error,
        "degrees": contrast.degrees if isfinite(contrast.degrees) else None,
        "bound": contrast.bound,
        "comparisons": contrast.comparisons,
        "reading": contrast.settle,
    }


def list_coefficients(coefficients: "Mapping[str, Contrast]", scale: str) -> Listing:
    """The coefficients: estimate, standard error, and what an infinite or open one means."""
    cells = list[list[str]]()
    for name, contrast in coefficients.items():
        # as many decimals as show two digits of the error, between those that suit the scale and 9
        error = contrast.standard_error or 1.0
        digits = f".{max(3 if scale == 'log-odds' else 1, min(1 - floor(log10(error)), 9))}f"
        reading = contrast.settle if contrast.kind.value == "not identified" else ""
        if contrast.bound is not None:
            evidence = f"{show_count(contrast.comparisons)} comparison{'s' * (contrast.comparisons != 1)}"
            side = "or more" if contrast.value > 0 else "or less"
            reading = f"{evidence}: {contrast.bound:+{digits}} {side} ({100 * contrast.level:g} %)"
        estimate = f"{contrast.value:+{digits}}" if isfinite(contrast.value) else contrast.kind.value
        spread = "-" if contrast.standard_error is None else f"{contrast.standard_error:{digits}}"
        cells.append([shorten(name), estimate, spread, reading])
    return Listing(["coefficient", "estimate", "s.e.", ""], cells)
