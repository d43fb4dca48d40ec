"""The settings of every experiment: one file each, shipped with the package.

A file has a ``title`` and a ``kind``, which selects the function that runs it (``KINDS`` in
:mod:`attomaton_experiments.run`). It has ``trials`` if several are drawn, ``needs`` if it cannot run
without ``--data``, ``figure`` and ``minutes`` if they are known, ``resumes`` if ``--work`` stores finished
parts, and ``remarks`` if results differ from the published ones. All other settings belong to its kind.
"""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import MOST_TRIALS, whole_number

Settings = dict[str, Any]
"""The content of a file, with the experiment's ``name``, the ``seed``, and ``--data`` as ``source``."""

PAPERS = ("mechanics", "optimisers", "text", "scan-snap", "beginning", "decoder")
FAMILIES = (*PAPERS, "published", "repetition", "heads", "heldout")
"""Name prefixes in listing order: first paper, optimisers, texts, second paper, and the others."""

ALL = "all-mechanics"
"""The name for all experiments of the first paper."""


def list_experiments() -> list[str]:
    """The names of all experiments."""
    names = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".toml"))
    return [name.removesuffix(".toml") for family in FAMILIES for name in names if name.startswith(family)]


def describe_experiments() -> list[dict[str, Any]]:
    """Every experiment: name, title, published figure, minutes on two cores (None: not measured), needs."""
    files_by_name = {name: files(__name__) / f"{name}.toml" for name in list_experiments()}
    rows = {name: tomllib.loads(file.read_text(encoding="utf-8")) for name, file in files_by_name.items()}
    keys = ("title", "figure", "minutes", "needs")
    return [{"name": name, **{key: row.get(key) for key in keys}} for name, row in rows.items()]


def find_experiments(name: str) -> list[str]:
    """The experiments that a name selects: the one of that name, or all of the first paper."""
    return (
        [experiment for experiment in list_experiments() if experiment.startswith(FAMILIES[0])]
        if name == ALL
        else [name]
    )


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
        The text, or the published table, if the experiment takes one.
    trials : int, optional
        The number of trials. None means that of the file.
    work : Path, optional
        Where finished parts are stored, so that an interrupted experiment can be resumed.

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
        raise UnsupportedOption(f"{name} does not store its work; leave --work out")
    settings |= {"name": name, "source": data, "seed": whole_number(seed, "seed"), "work": work}
    if trials is not None:
        settings["trials"] = whole_number(trials, "trials", least=1, most=MOST_TRIALS)
    return settings
