"""Check the numbers, names and paths that users pass, in Python and on the command line alike.

They are checked before any work and before anything is written, so that a wrong value costs nothing.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from errno import ELOOP
from functools import partial
from numbers import Real
from operator import ge, gt, index, le, lt
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attomaton.base.errors import UnsupportedOption

if TYPE_CHECKING:
    import numpy as np

LARGEST_WHOLE = 2**63 - 1  # kernels and files store whole numbers in 64 bits
# Most threads or processes: more than any machine has processors, and few enough to start.
MOST_THREADS = 1024

MOST_TRAINING_STEPS = 10**12  # steps of training: at a million per second, eleven days
# Most trials of an experiment: each draws a corpus of its own.
MOST_TRIALS = 1_000_000

VALUE_LENGTH = 60  # characters of a wrong value that an error message repeats
LONGEST_NUMBER = 480  # bits of an integer that a message writes out; of a longer one it gives the length
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a single letter is a Windows drive


def whole_number(value: object, name: str, *, least: int = 0, most: int = LARGEST_WHOLE) -> int:
    """The value as an int, if it is a whole number from ``least`` to ``most``; the error calls it ``name``.

    Floats without a fractional part, such as ``1e6``, are whole numbers; booleans and texts are not.
    """
    number = _as_whole(value)
    if number is None or not least <= number <= most:
        # the default limit is mentioned only if the number is above it
        is_limited = most < LARGEST_WHOLE or (number is not None and number > most)
        limits = f" from {least:,} to {most:,}" if is_limited else f", {least:,} or more"
        raise UnsupportedOption(f"{name} is {show(value)}; give a whole number{limits}")
    return number


def check_threads(threads: int | None) -> int | None:
    return None if threads is None else whole_number(threads, "threads", least=1, most=MOST_THREADS)


def real_number(
    value: object,
    name: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> float:
    """The value as a float, if it is a finite number within the limits; the error calls it ``name``.

    ``least`` and ``most`` are inclusive limits, ``above`` and ``below`` exclusive ones.
    """
    number = _as_real(value)
    # words of each limit → the limit, and the comparison number ○ limit
    tests = {"of at least": (least, ge), "above": (above, gt), "of at most": (most, le), "below": (below, lt)}
    limits = [(word, limit, is_within) for word, (limit, is_within) in tests.items() if limit is not None]
    if number is None or not all(is_within(number, limit) for _, limit, is_within in limits):
        words = " and ".join(f"{word} {limit:g}" for word, limit, _ in limits)
        raise UnsupportedOption(f"{name} is {show(value)}; give a finite number {words}".rstrip())
    return number


def share(value: object, name: str) -> float:
    """The value as a float, if it is above 0 and at most 1."""
    number = _as_real(value)
    if number is None or not 0 < number <= 1:
        raise UnsupportedOption(f"{name} is {show(value)}; give a fraction above 0 and at most 1")
    return number


def choice(value: object, name: str, *, options: Collection[str]) -> str:
    """The value, if it is one of the ``options``, of which there are at least two."""
    if not isinstance(value, str) or value not in options:
        *earlier, last = options
        raise UnsupportedOption(f"{name} is {show(value)}; choose {', '.join(earlier)} or {last}")
    return value


def flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise UnsupportedOption(f"{name} is {show(value)}; give True or False")
    return value


def given_path(value: object, name: str) -> Path:
    """The value as a path; a URL, or an empty path (the working directory), is refused."""
    text = check_path(value, name)
    check_text(text, name)
    if _URL.match(text):
        raise UnsupportedOption(f"{name} is the URL {show(text)}; give a path on this machine")
    try:
        Path(text).stat()
    except OSError as error:  # other errors, as of a path that does not exist yet, are left to the caller
        if error.errno == ELOOP:
            raise UnsupportedOption(f"{name} is {show(text)}, a link to itself; correct the link") from error
    return Path(text)


def check_path(value: Any, name: str) -> str:
    text = cast("object", fspath(value) if hasattr(value, "__fspath__") else value)
    if not isinstance(text, str) or not text.strip() or "\0" in text:  # not a path, or one in bytes
        raise UnsupportedOption(f"{name} is {show(value)}; give a path ('.' is the working directory)")
    return text


def check_text(text: str, name: str) -> str:
    """The text, if it can be encoded in UTF-8; the command line passes other bytes through."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnsupportedOption(
            f"{name} is {show(text)}, which is not UTF-8; write it in UTF-8, or rename the file"
        ) from error
    return text


def make_rng(seed: object) -> "np.random.Generator":
    """The random generator of a seed; a generator is returned unchanged, and None gives a new one."""
    import numpy as np

    if seed is None or isinstance(seed, np.random.Generator):
        return np.random.default_rng(seed)
    return np.random.default_rng(whole_number(seed, "the seed"))


def named_instance(
    value: object, name: str, classes: Mapping[str, Callable[[], Any]], methods: Sequence[str]
) -> Any:
    """An instance of the class with this name; or the value itself, if it has the methods of such a class."""
    if isinstance(value, str) and value.lower().replace("_", "-") in classes:
        return classes[value.lower().replace("_", "-")]()
    has_methods = all(callable(getattr(value, method, None)) for method in methods)
    if isinstance(value, str | type) or not has_methods:
        names = ", ".join(map(repr, classes))
        shown = value.__name__ if isinstance(value, type) else show(value)
        needed = f"{'methods' if len(methods) > 1 else 'method'} {' and '.join(methods)}"
        raise UnsupportedOption(f"{name} is {shown}; give one of {names}, or an object with the {needed}")
    return value


def settle(owner: object, **values: object) -> None:
    """Set fields of a frozen dataclass to checked values, from its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


def checked(check: Callable[..., Any], **limits: Any) -> dict[str, Any]:
    """The metadata of a field with a check, which gets value, name and limits, and returns the value."""
    return {"check": partial(check, **limits)}


class Checked:
    """Base of frozen dataclasses whose fields have checks (:func:`checked`); defaults are not checked."""

    def __post_init__(self) -> None:
        for field in fields(cast("Any", self)):
            value = getattr(self, field.name)
            if "check" in field.metadata and value is not field.default:
                object.__setattr__(self, field.name, field.metadata["check"](value, field.name))


def show(value: object) -> str:
    """The value as messages show it: on one line, cut if it is long."""
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER:
        return f"a whole number of about {round(value.bit_length() * math.log10(2)):,} digits"
    # the repr of a number of NumPy would name its type
    text = str(cast("object", value)) if isinstance(value, Real) else repr(value)
    line = " ".join(text.split())
    return line if len(line) <= VALUE_LENGTH else f"{line[:VALUE_LENGTH]}…"


# The number in an array without axes; any other value unchanged.
def _scalar(value: Any) -> Any:
    return value[()] if getattr(value, "ndim", None) == 0 and not isinstance(value, str | bytes) else value


def _as_whole(value: Any) -> int | None:  # None if it is not a whole number
    import numpy as np  # not at the top: importing attomaton must stay fast

    value = _scalar(value)
    if isinstance(value, bool | np.bool_ | np.ndarray):
        return None
    if isinstance(value, float | np.floating):
        number = float(cast("float", value))
        return int(number) if number.is_integer() else None
    try:
        return index(value)
    except TypeError:
        return None


def _as_real(value: Any) -> float | None:  # None if it is not a finite number
    value = value if isinstance(value, Real) else _scalar(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
