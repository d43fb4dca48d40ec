"""The settings of every experiment: one file each, shipped with the package.

A file has a ``title`` and a ``kind``, which names what runs it (``KINDS`` in
:mod:`attomaton_experiments.run`). It has ``trials`` where several are drawn, ``needs`` where nothing can run
without ``--data``, ``resumes`` where ``--work`` keeps what is done, and ``remarks`` where what comes out
differs from what was published. The rest is read by its kind alone.
"""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from attomaton.base import MOST_TRIALS, UnsupportedOption, whole_number

Settings = dict[str, Any]
"""What a file says, with the experiment's ``name``, the ``seed``, and as ``source`` what ``--data`` names."""

PAPERS = ("mechanics", "optimisers", "text", "scan-snap", "beginning", "decoder")
FAMILIES = (*PAPERS, "repetition", "heads", "heldout")
"""How names begin, as they are listed: first paper, optimisers, texts, second paper, and the others."""

ALL = "all-mechanics"
"""Stands for every experiment of the first paper."""


def list_experiments() -> list[str]:
    """The names of all experiments."""
    found = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".toml"))
    return [name.removesuffix(".toml") for family in FAMILIES for name in found if name.startswith(family)]


def find_experiments(name: str) -> list[str]:
    """The experiments that a name stands for: its own, or all of the first paper."""
    return [one for one in list_experiments() if one.startswith(FAMILIES[0])] if name == ALL else [name]


def read_settings(
    name: str,
    *,
    data: Path | None = None,
    trials: int | None = None,
    seed: int = 0,
    work: Path | None = None,
) -> Settings:
    """The settings of one experiment.

    Parameters
    ----------
    name : str
        Name of the settings file.
    data : Path, optional
        The text, or the published table, where the experiment takes one.
    trials : int, optional
        How many; those of the file if not given.
    work : Path, optional
        Where trainings are kept, so that an experiment that was interrupted goes on from there.

    Examples
    --------
    >>> read_settings("mechanics-global", trials=5)["trials"]
    5
    """
    names = list_experiments()
    if name not in names:
        raise UnsupportedOption(f"there is no experiment {name!r}; choose one of {', '.join([ALL, *names])}")
    settings = tomllib.loads((files(__name__) / f"{name}.toml").read_text(encoding="utf-8"))
    if data is None and "needs" in settings:
        raise UnsupportedOption(f"{name} needs {settings['needs']}")
    if work is not None and not settings.get("resumes"):
        raise UnsupportedOption(f"{name} keeps no work; leave --work out")
    settings |= {"name": name, "source": data, "seed": whole_number(seed, "seed"), "work": work}
    if trials is not None:
        settings["trials"] = whole_number(trials, "trials", least=1, most=MOST_TRIALS)
    return settings
