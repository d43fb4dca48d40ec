"""The settings of an experiment, read from the files shipped with the package."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from attomaton.errors import UnsupportedOption

FOLDER = "tables"


@dataclass(frozen=True)
class Settings:
    """One experiment.

    Attributes
    ----------
    name, title : str
        What it is called, and what it shows.
    trials : int
        How many are drawn if nothing else is asked for.
    data, model, step : dict
        How samples are drawn, what is trained, and by which steps.
    published : dict
        Ranges that the paper reports, by the name of the measure.
    """

    name: str
    title: str
    trials: int
    data: dict[str, Any]
    model: dict[str, Any]
    step: dict[str, Any]
    published: dict[str, Any]


def list_experiments() -> list[str]:
    """The names of all experiments."""
    return sorted(
        file.name.removesuffix(".toml")
        for file in (files("attomaton.experiments") / FOLDER).iterdir()
        if file.name.endswith(".toml")
    )


def read_settings(name: str) -> Settings:
    """The settings of one experiment."""
    if name not in list_experiments():
        raise UnsupportedOption(
            f"there is no experiment {name!r}; choose one of {', '.join(list_experiments())}"
        )
    text = (files("attomaton.experiments") / FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    read: dict[str, Any] = {"published": {}, **tomllib.loads(text)}
    return Settings(name=name, **read)
