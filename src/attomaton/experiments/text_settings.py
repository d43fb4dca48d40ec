"""The settings of experiments on text, read from the files shipped with the package."""

from dataclasses import dataclass
from typing import Any

from attomaton.experiments.settings import list_tables, read_table

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
    return list_tables(FOLDER)


def read_text_settings(name: str) -> TextSettings:
    """The settings of one experiment on text."""
    read = read_table(FOLDER, name)
    steps, models = tuple(read.pop("steps")), tuple(read.pop("models"))
    return TextSettings(name=name, steps=steps, models=models, **read)
