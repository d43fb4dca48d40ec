"""One model at several steps of its training: which there are, in order, each opened when it is needed."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from glob import glob, has_magic
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.errors import MismatchedParts, UnreadableModel
from attomaton.base.options import whole_number
from attomaton.heads.model import HeadModel
from attomaton.heads.opening import is_run, open_checkpoint, open_model, read_run
from attomaton.heads.own import watch_trace

NAMED = re.compile(
    r"(?:step|checkpoint|ckpt|iteration|iter|epoch)s?[-_=. ]?([0-9]{1,18})(?![0-9A-Za-z])", re.I
)
"""A number that says itself what it counts."""

NUMBER = re.compile(r"(?<![0-9A-Za-z])([0-9]{1,18})(?![0-9A-Za-z])")
"""Any other whole number."""


@dataclass(frozen=True)
class ModelStep:
    """A model at a step of its training, which is opened when it is asked for.

    Attributes
    ----------
    step : int
        The step.
    name : str
        Where the model is, as users name it.
    open : callable
        Opens it.

    Examples
    --------
    >>> from attomaton.heads.arrays import from_arrays
    >>> ones = np.ones((1, 1, 2, 2))
    >>> ModelStep(100, "at 100", lambda: from_arrays(np.eye(3, 2), ones, ones, ones, ones)).open().shape
    ModelShape(n_layers=1, n_heads=1, n_tokens=3, longest=None)
    """

    step: int
    name: str
    open: Callable[[], HeadModel] = field(repr=False)


def find_steps(sources: Sequence[str], *, most: int | None = None) -> tuple[ModelStep, ...]:
    """The steps of a training, from where its models are; sorted by step, none of them opened.

    Parameters
    ----------
    sources : sequence of str
        Folders that are named after their steps, such as ``checkpoint-100``; runs of attomaton, or files of
        their ``training/checkpoints``; or globs of any of these.
    most : int, optional
        At most so many steps are taken, spread evenly, first and last among them. None means all folders and
        files, and of a run of attomaton the last step alone.

    Examples
    --------
    >>> [one.step for one in find_steps(["run/checkpoint-1000", "run/checkpoint-200"])]
    [200, 1000]
    >>> find_steps(["run/final"])
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableModel: run/final is not named after a step; give names with one whole
    number, such as checkpoint-100
    """
    read = cache(read_run)
    found: list[ModelStep] = []
    for source in expand(sources):
        found += _steps_of(source, read, whole=most is not None)
    found = sort_steps(found)
    return tuple(found) if most is None else spread(found, most)


def sort_steps(found: Iterable[ModelStep]) -> list[ModelStep]:
    """Models by their steps, if no two are of the same."""
    ordered = sorted(found, key=lambda one: one.step)
    for one, other in pairwise(ordered):
        if one.step == other.step:
            raise MismatchedParts(
                f"{one.name} and {other.name} are both of step {one.step:,}; give one model of each step"
            )
    return ordered


def expand(sources: Sequence[str]) -> list[str]:
    """The sources, with what stands there in place of each glob."""
    found: list[str] = []
    for source in sources:
        if not has_magic(source) or Path(source).exists():
            found.append(source)
            continue
        there = sorted(glob(source))  # noqa: PTH207  an absolute glob is one of a user's
        if not there:
            raise UnreadableModel(f"nothing stands at {source}; give folders of models, or a glob of them")
        found += there
    return found


def step_of(source: str) -> int:
    """The step that a folder or file is named after."""
    name = Path(source).name.removesuffix(".safetensors")
    numbers = NAMED.findall(name) or NUMBER.findall(name)
    if len(numbers) != 1:
        raise UnreadableModel(
            f"{source} is not named after a step; give names with one whole number, such as checkpoint-100"
        )
    return int(numbers[0])


def spread(found: Sequence[ModelStep], most: int) -> tuple[ModelStep, ...]:
    """At most so many of the steps, spread evenly over them, first and last among them; of one, the last."""
    most = whole_number(most, "most", least=1)
    if len(found) <= most:
        return tuple(found)
    places = [len(found) - 1] if most == 1 else np.linspace(0, len(found) - 1, most).round().astype(int)
    return tuple(found[int(place)] for place in places)


def _steps_of(source: str, read: Callable[[Path], Any], *, whole: bool) -> list[ModelStep]:
    """The steps of one source; of a run of attomaton all records if it is asked for whole, else the last."""
    place = Path(source)
    if is_run(place):
        trace = read(place)
        taken = trace.steps.tolist() if whole else [int(trace.steps[-1])]
        return [ModelStep(step, source, partial(watch_trace, trace, step=step)) for step in taken]
    step = step_of(source)
    if place.suffix == ".safetensors":
        return [ModelStep(step, source, partial(open_checkpoint, place, read=read))]
    return [ModelStep(step, source, partial(open_model, source))]
