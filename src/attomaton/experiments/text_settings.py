"""The settings of experiments on text, read from the files shipped with the package."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from attomaton.errors import UnsupportedOption

FOLDER = "tables/text"


@dataclass(frozen=True)
class TextSettings:
    """One experiment on a text.

    Attributes
    ----------
    name, title : str
        What it is called, and what it shows.
    tokens : str
        ``"characters"`` or ``"words"``.
    window : int
        Longest context.
    held_out : float
        The share of the text, at its end, that is not trained on.
    n_training_contexts : int
        How many of the contexts trained on are compared with the automaton too, drawn at random.
    steps : tuple of int
        When attention is compared with the automaton.
    models : tuple of dict
        Each with name, parametrisation (and rank), step and size, and batch_size if not all samples at once.
    """

    name: str
    title: str
    tokens: str
    window: int
    held_out: float
    n_training_contexts: int
    steps: tuple[int, ...]
    models: tuple[dict[str, Any], ...]


def list_text_experiments() -> list[str]:
    """The names of all experiments on text."""
    folder = files("attomaton.experiments") / FOLDER
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def read_text_settings(name: str) -> TextSettings:
    """The settings of one experiment on text."""
    if name not in list_text_experiments():
        raise UnsupportedOption(
            f"there is no experiment {name!r} on text; choose one of {', '.join(list_text_experiments())}"
        )
    text = (files("attomaton.experiments") / FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    read = tomllib.loads(text)
    steps, models = tuple(read.pop("steps")), tuple(read.pop("models"))
    return TextSettings(name=name, steps=steps, models=models, **read)
