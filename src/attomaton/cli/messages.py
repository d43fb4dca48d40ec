"""What commands print on stderr: errors and warnings, one line each, in words of the command line."""

import re
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from attomaton.base.printing import clean
from attomaton.base.progress import silent

# A sign and its stand-in, alternating.
_SIGNS = (
    '→ -> × x … ... “ " ” " − - – - · * ± +/- ≥ >= ≤ <= ‖ | ⊥ perp √ sqrt ∞ inf ’ \' ₀ 0 ₁ 1 '
    "¹ ^1 ² ^2 ³ ^3 ⁰ ^0 ⁴ ^4 ⁵ ^5 ⁶ ^6 ⁷ ^7 ⁸ ^8 ⁹ ^9 ⁻ ^- ᵀ ^T"
)
_LETTERS = (
    "ε eps η eta λ lambda μ mu γ gamma θ theta π pi ρ rho σ sigma τ tau χ chi ω omega "
    "Γ Gamma Δ Delta Π Pi Σ sum"
)
_PAIRS = f"{_SIGNS} ¼ 1/4 ½ 1/2 {_LETTERS}".split()
# Sign → what is printed if the output cannot encode it; any other such character becomes "?".
STAND_INS = {
    **dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True)),
    "\u0304": "",  # the line above a letter
    **dict.fromkeys("─━", "-"),
    "▁": "_",  # a space in SentencePiece
    **dict.fromkeys("│┃", "|"),
    **dict.fromkeys("┌┐└┘┬┴┏┓┡┩┳╇", "+"),
}


def encodable(text: str, encoding: str) -> str:
    return text if can_encode(encoding, text) else text.translate(str.maketrans(STAND_INS))


def can_encode(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


# What errors advise in Python → the options of the command line.
OPTIONS = {
    "Reading(documents='line')": "--documents line",
    "Reading(max_bytes=…)": "--max-document, in megabytes",
}

# A parameter that an error names, and its value if that is a list.
_PARAMETER = re.compile(
    r"(?<![\w(-])(winner|loser|choice_set|first|second|outcome|drop|ranking|ranks|scores|best|worst|situation|"
    r"alternative|chosen|available|tied|count|cluster|by|task|tokenizer|revision)"
    r"=(?:\[(.*?)\](?=$|[;,. ]))?(?![{\w'\"])"
)


def name_options(text: str) -> str:
    """The text of an error, with options of the command line in place of parameters of Python."""
    for parameter, option in OPTIONS.items():
        text = text.replace(parameter, option)
    return _PARAMETER.sub(_name_option, text)


def _name_option(parameter: re.Match[str]) -> str:
    # "choice_set=" → "--choice-set", and "loser=[a, b]" → "--loser a --loser b"
    name = f"--{parameter[1].replace('_', '-')}"
    return " ".join(f"{name} {value}" for value in parameter[2].split(", ")) if parameter[2] else name


# What a command that reads a corpus adds to its JSON: how many documents it skipped, and why the first.
SKIPPED: ContextVar[Mapping[str, Any]] = ContextVar("SKIPPED", default={})  # noqa: B039  never changed


def print_error(text: str) -> None:
    sys.stderr.write(encodable(clean(name_options(text)), sys.stderr.encoding or "utf-8") + "\n")


@contextmanager
def warnings_as_lines(kind: type[Warning], heed: Callable[[Any], object] = silent) -> Generator[None]:
    """Print each warning of this kind as a line on stderr, and call ``heed`` with it."""
    show_other = warnings.showwarning

    def print_warning(message: Warning | str, *location: Any, **more: Any) -> None:
        if not isinstance(message, kind):
            show_other(message, *location, **more)
            return
        print_error(f"Warning: {message}.")
        heed(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", kind)
        warnings.showwarning = print_warning
        yield


@contextmanager
def counting_skipped() -> Generator[None]:
    """Count the documents that are skipped in the block in SKIPPED, and print a line for each warning."""
    from attomaton.base.errors import SkippedDocuments

    counted: dict[str, Any] = {"skipped": 0, "first_skipped": None}

    def count(warning: SkippedDocuments) -> None:
        counted["skipped"] += warning.count
        counted["first_skipped"] = counted["first_skipped"] or name_options(str(warning.first))

    before = SKIPPED.set(counted)
    try:
        with warnings_as_lines(SkippedDocuments, count):
            yield
    finally:
        SKIPPED.reset(before)
