"""The settings of an experiment, read from the files shipped with the package."""

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from attomaton.errors import UnsupportedOption

FOLDER = "tables"
SCAN_SNAP = "tables/scansnap"
"""Figures of the second paper."""


@dataclass(frozen=True)
class Settings:
    """One experiment.

    Attributes
    ----------
    name, title : str
        What it is called, and what it shows.
    trials : int
        How many are drawn if nothing else is asked for.
    data, model : dict
        How samples are drawn, and what is trained.
    step : dict
        By which steps, if it is trained.
    published : dict
        Ranges that the paper reports, by the name of the measure.
    kind : str
        ``training`` or ``path``.
    path : dict
        Radii and cases of a regularisation path.
    local : bool
        Whether to measure against the tokens that the model selects too.
    slope_from : int, optional
        Step from which the fall of ‖Π_fin W − W_fin‖ is fitted.
    log_axis : bool
        Whether the figure has steps on a logarithmic axis.
    panels : list of str
        Names of the measures that the figure shows; empty: all.
    remarks : list of str
        Why what comes out differs from what was published, where it does.
    """

    name: str
    title: str
    trials: int
    data: dict[str, Any]
    model: dict[str, Any]
    step: dict[str, Any] = field(default_factory=dict[str, Any])
    published: dict[str, Any] = field(default_factory=dict[str, Any])
    kind: str = "training"
    path: dict[str, Any] = field(default_factory=dict[str, Any])
    local: bool = False
    slope_from: int | None = None
    log_axis: bool = False
    panels: list[str] = field(default_factory=list[str])
    remarks: list[str] = field(default_factory=list[str])


def list_experiments() -> list[str]:
    """The names of all experiments."""
    return list_tables(FOLDER)


def read_settings(name: str) -> Settings:
    """The settings of one experiment."""
    return Settings(name=name, **read_table(FOLDER, name))


def list_tables(folder: str) -> list[str]:
    """The names of the settings files in a folder of this package."""
    found = (files("attomaton.experiments") / folder).iterdir()
    return sorted(file.name.removesuffix(".toml") for file in found if file.name.endswith(".toml"))


def read_table(folder: str, name: str) -> dict[str, Any]:
    """What one of them says."""
    if name not in list_tables(folder):
        raise UnsupportedOption(
            f"there is no experiment {name!r}; choose one of {', '.join(list_tables(folder))}"
        )
    text = (files("attomaton.experiments") / folder / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
