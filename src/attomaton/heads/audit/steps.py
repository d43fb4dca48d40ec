"""Models at the steps of a training: from paths, revisions or models in memory, each opened on demand.

:func:`find_steps` and :func:`find_revisions` list what users name; :func:`order_steps` also takes models.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from glob import glob, has_magic
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from attomaton.base.errors import MismatchedParts, UnreadableModel, UnsupportedOption
from attomaton.base.options import whole_number
from attomaton.heads.model import HeadModel, ModelShape
from attomaton.heads.opening import open_model
from attomaton.heads.trained import is_run, open_checkpoint, read_any_trace, watch_trace

# A number whose prefix says what it counts.
NAMED_NUMBER = re.compile(
    r"(?:step|checkpoint|ckpt|iteration|iter|epoch)s?[-_=. ]?([0-9]{1,18})(?![0-9A-Za-z])", re.I
)

BARE_NUMBER = re.compile(r"(?<![0-9A-Za-z])([0-9]{1,18})(?![0-9A-Za-z])")  # any other whole number


@dataclass(frozen=True)
class ModelStep:
    """A model at one ``step`` of its training, which ``open`` opens; ``name`` says where it is."""

    step: int
    name: str
    open: Callable[[], HeadModel] = field(repr=False)


def find_steps(sources: Sequence[str], *, most: int | None = None) -> tuple[ModelStep, ...]:
    """Find the steps of a training run from the paths of its models, sorted by step; no model is opened.

    ``sources`` are folders named after steps, such as ``checkpoint-100``; runs of attomaton, or files in
    their ``training/checkpoints``; or globs. At most ``most`` steps are kept, evenly spaced from the first to
    the last. If ``most`` is None, all folders and files are kept, but only the last step of a run of
    attomaton.

    Examples
    --------
    >>> [model.step for model in find_steps(["run/checkpoint-1000", "run/checkpoint-200"])]
    [200, 1000]
    """
    read = cache(read_any_trace)  # several checkpoints may be of the same run
    models: list[ModelStep] = []
    for source in expand_globs(sources):
        models += _steps_of(source, read, whole=most is not None)
    ordered = sort_steps(models)
    return tuple(ordered) if most is None else spread(ordered, most)


def find_revisions(repository: str, revisions: Sequence[str]) -> tuple[ModelStep, ...]:
    """List revisions of a hub model as steps of its training; no model is opened.

    If all revisions are named after steps, such as ``step1000``, they are sorted by step. Otherwise they are
    numbered from 0, in the order given.

    Examples
    --------
    >>> [model.name for model in find_revisions("owner/name", ["step1000", "step8"])]
    ['owner/name@step8', 'owner/name@step1000']
    """
    try:
        steps = [step_of(revision) for revision in revisions]
    except UnreadableModel:
        steps = list(range(len(revisions)))
    return tuple(
        sort_steps(
            ModelStep(step, f"{repository}@{revision}", partial(open_model, repository, revision=revision))
            for step, revision in zip(steps, revisions, strict=True)
        )
    )


def sort_steps(models: Iterable[ModelStep]) -> list[ModelStep]:
    """Models sorted by step; no two may have the same step."""
    ordered = sorted(models, key=lambda model: model.step)
    for first, second in pairwise(ordered):
        if first.step == second.step:
            step = f"step {first.step:,}"
            raise MismatchedParts(f"{first.name} and {second.name} are both at {step}; leave one of them out")
    return ordered


def expand_globs(sources: Sequence[str]) -> list[str]:
    """The sources, with each glob replaced by the paths it matches."""
    paths: list[str] = []
    for source in sources:
        if not has_magic(source) or Path(source).exists():
            paths.append(source)
            continue
        matches = sorted(glob(source))  # noqa: PTH207  an absolute glob is one of a user's
        if not matches:
            raise UnreadableModel(f"no file or folder matches {source}; check the pattern")
        paths += matches
    return paths


def step_of(source: str) -> int:
    """The step in the name of a file, folder or revision."""
    name = Path(source).name.removesuffix(".safetensors").removesuffix(".gguf")
    numbers = NAMED_NUMBER.findall(name) or BARE_NUMBER.findall(name)
    if len(numbers) != 1:
        raise UnreadableModel(
            f"{source} is not named after a step; give names with one whole number, such as checkpoint-100 "
            "(for one model and several documents, quote the pattern of the documents, or give their folder)"
        )
    return int(numbers[0])


def spread(models: Sequence[ModelStep], most: int) -> tuple[ModelStep, ...]:
    """At most ``most`` of the steps, evenly spaced, with the first and the last; a single one is the last."""
    most = whole_number(most, "most", least=1)
    if len(models) <= most:
        return tuple(models)
    indices = [len(models) - 1] if most == 1 else np.linspace(0, len(models) - 1, most).round().astype(int)
    return tuple(models[int(index)] for index in indices)


# The steps of one source; for a run of attomaton all records if ``whole``, else the last.
def _steps_of(source: str, read: Callable[[Path], Any], *, whole: bool) -> list[ModelStep]:
    path = Path(source)
    if is_run(path):
        trace = read(path)
        steps = trace.steps.tolist() if whole else [int(trace.steps[-1])]
        return [ModelStep(step, source, partial(watch_trace, trace, step=step)) for step in steps]
    step = step_of(source)
    if path.suffix == ".safetensors":
        return [ModelStep(step, source, partial(open_checkpoint, path, read=read))]
    return [ModelStep(step, source, partial(open_model, source))]


def order_steps(models: Sequence[Any], steps: Sequence[int] | None) -> list[ModelStep]:
    """Models, or anything that can be opened as a model, with their ``steps`` or those in their names."""
    if not len(models):
        raise UnsupportedOption("models is empty; give at least one model")
    if steps is not None and len(steps) != len(models):
        raise MismatchedParts(f"there are {len(models)} models and {len(steps)} steps; give one step each")
    numbers = [None] * len(models) if steps is None else [whole_number(step, "steps") for step in steps]
    return sort_steps(map(_as_step, models, numbers))


def check_alike(first: tuple[str, ModelShape], second: tuple[str, ModelShape]) -> None:
    """Refuse a model, by name and shape, whose shape differs from the first, and say how."""
    sentences = {  # with name and size of each model
        "n_layers": "{} has {} layers, but {} has {}",
        "n_heads": "{} has {} heads per layer, but {} has {}",
        "n_tokens": "{} has a vocabulary of {} tokens, but {} has {}",
        "longest": "{} reads contexts of up to {} tokens, but {} of up to {}",
    }
    for name, sentence in sentences.items():
        sizes = [getattr(shape, name) for _, shape in (first, second)]
        if sizes[0] != sizes[1]:
            # ``longest`` is None if contexts may have any length.
            written = ["any number of" if size is None else size for size in sizes]
            difference = sentence.format(first[0], written[0], second[0], written[1])
            raise MismatchedParts(f"{difference}; give models from one training run")


def path_text(model: Any) -> str:
    """The path of a model, or "" if the model is not given as a path."""
    return str(cast("Any", model)) if isinstance(model, str | PathLike) else ""


# A model as a step; without a number, the step is that of a ``ModelStep`` or in the name of a path.
def _as_step(model: Any, step: int | None) -> ModelStep:
    if isinstance(model, ModelStep):
        return model if step is None else replace(model, step=step)
    named = path_text(model)
    if step is None and not named:
        raise UnsupportedOption(f"the step of a {type(model).__name__} is unknown; give the argument steps")
    name = named or str(getattr(model, "name", type(model).__name__))
    return ModelStep(step_of(name) if step is None else step, name, partial(open_model, model))
