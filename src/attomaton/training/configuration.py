"""The settings of a run as a JSON record: runs with equal records take equal steps."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import version
from typing import Any, cast

import numpy as np

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import UnsupportedOption
from attomaton.corpora.samples import Samples
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.deep import DeepModel
from attomaton.training.models.embeddings import EMBEDDINGS
from attomaton.training.models.heads import HEADS
from attomaton.training.models.losses import LOSSES
from attomaton.training.steps import STORED_STEPS, Decay

ROUNDING_PACKAGES = ("attomaton", "numpy", "torch")  # packages whose other versions may round differently


def describe(value: object) -> Any:
    """A setting as JSON: a dataclass by name and fields, an array by digest, a function by name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return digest_arrays(cast("np.ndarray[Any, Any]", value))
    if isinstance(value, Sequence):
        return [describe(item) for item in cast("Sequence[object]", value)]
    if is_dataclass(value):
        settings = {field.name: describe(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **settings}
    kind = cast("Any", value if callable(value) else type(value))
    return f"{kind.__module__}.{getattr(kind, '__qualname__', type(value).__qualname__)}"


# Classes that the record of a stored run can name, listed where each is defined.
CLASSES: tuple[type[Any], ...] = (*EMBEDDINGS, *HEADS.values(), *LOSSES.values(), *STORED_STEPS)
STORED_CLASSES = {kind.__name__: kind for kind in (AttentionModel, DeepModel, *CLASSES, Decay)}


@dataclass(frozen=True)
class StoredFunction:
    """A function of a run read from disk: only its name is known."""

    name: str

    def __call__(self, *_: object) -> Any:
        raise UnsupportedOption(
            f"the run used the function {self.name}, of which only the name is stored; train again with "
            "the function"
        )


def restore_settings(record: Any) -> Any:
    """The inverse of :func:`describe`; functions become :class:`StoredFunction`."""
    if isinstance(record, list):
        return tuple(restore_settings(value) for value in cast("list[Any]", record))
    if not isinstance(record, dict):
        return record
    settings = dict(cast("dict[str, Any]", record))
    kind = settings.pop("kind")
    if kind not in STORED_CLASSES:
        raise UnsupportedOption(
            f"the run used {kind}, a class of your own, of which only the name is stored; train with "
            f"one of {', '.join(STORED_CLASSES)} to read it back"
        )
    if isinstance(settings.get("schedule"), str):
        settings["schedule"] = StoredFunction(settings["schedule"])
    return STORED_CLASSES[kind](**{name: restore_settings(value) for name, value in settings.items()})


def versions() -> dict[str, str]:
    """The version of each of these packages, which a resumed run must have too."""
    return {package: version(package) for package in ROUNDING_PACKAGES}


def digest_corpora(corpora: Sequence[Samples]) -> list[str]:
    """The digest of each corpus; a corpus that occurs several times is read once."""
    digests: dict[int, str] = {}
    for corpus in corpora:
        if id(corpus) not in digests:
            arrays = np.array([corpus.n_tokens]), corpus.values, corpus.starts, corpus.stops, corpus.labels
            digests[id(corpus)] = digest_arrays(*arrays)
    return [digests[id(corpus)] for corpus in corpora]


def first_difference(settings: Any, stored: Any, path: str = "") -> str | None:
    """A clause on the first setting that differs from the stored run, or None.

    ``path`` is the name so far.
    """
    if {type(settings), type(stored)} != {dict}:
        differs = f"{path} is {_short(stored)} in the stored run and {_short(settings)} here"
        return None if settings == stored else differs
    names: list[str] = [*settings, *stored]
    for name in names:
        inner = first_difference(settings.get(name), stored.get(name), f"{path}.{name}" if path else name)
        if inner is not None:
            return inner
    return None


def _short(value: Any) -> str:
    text = repr(value)  # of which 60 characters fit into a message
    return text if len(text) <= 60 else f"{text[:60]}…"
