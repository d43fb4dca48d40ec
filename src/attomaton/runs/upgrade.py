"""Runs of earlier versions, written anew as this version lays them out: in parts of whole queries."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attomaton.artifacts import Building, build_folder, explained, write_file
from attomaton.artifacts.folders import find_place, hold
from attomaton.artifacts.manifests import RUN
from attomaton.artifacts.naming import few
from attomaton.artifacts.ownership import INNER, SIDE_RECORDS, take_stock
from attomaton.artifacts.runs import find_run
from attomaton.borders import trusted
from attomaton.errors import UnwritablePlace
from attomaton.options import given_path
from attomaton.runs import storage
from attomaton.runs.stored import StoredRun, open_run
from attomaton.solved import Solved

WRITTEN = ("kind", "format", "files", "versions", "n_tokens", "borders", "certificates", "soft")
"""What a manifest says of the folder itself; the rest is about what was learned, and stays."""


def upgrade_run(run: str | Path) -> bool:
    """Write a run folder of an earlier version anew, in its place, as this version lays it out.

    The answers, the input, the configuration and the samples that its manifest names stay the same; a
    training and verdicts in the folder stay there. Until the new folder is whole the old one is untouched.

    Parameters
    ----------
    run : str or Path
        A folder written by ``attomaton learn --out`` or ``Automaton.save``.

    Returns
    -------
    bool
        Whether there was anything to do.

    Raises
    ------
    UnwritablePlace
        If the folder holds files that attomaton did not write, or a training that is not finished.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     upgrade_run(at.learn(["to be or not to be"]).save(f"{folder}/run"))
    False
    """
    folder = given_path(run, "run")
    if "borders" in find_run(folder)[1]:
        return False
    place = find_place(folder)
    with hold(place) as lock:
        found = open_run(place)
        if found.tables:  # somebody else did it meanwhile
            return False
        solved = trusted(Solved, **found.solve_all())
        with build_folder(place, RUN, overwrite=True, held=lock) as building:
            _keep_beside(building)
            records = storage.describe_records(found.vocabulary, found.coverage)
            storage.fill(building, solved, records, _about(found))
    return True


def _about(run: StoredRun) -> Mapping[str, Any]:
    return {name: told for name, told in run.run.manifest.items() if name not in WRITTEN}


def _keep_beside(building: Building) -> None:
    """Copy what other commands have put into the run: a training, and verdicts."""
    place = building.target
    stock = take_stock(place)
    if stock is None:
        return
    if stock.drafts:
        raise UnwritablePlace(
            f"{place} holds work that is not finished ({few([one.name for one in stock.drafts])}); finish it "
            "with the command that began it, and upgrade then"
        )
    with explained(place):
        for file in stock.files:
            name = file.relative_to(place)
            if name.parts[0] == INNER or str(name) in SIDE_RECORDS:
                copy = building.folder / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                write_file(copy, lambda path, file=file: shutil.copyfile(file, path))
