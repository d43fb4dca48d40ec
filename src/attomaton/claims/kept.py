"""Verdicts in a run folder: sealed, and tied to the training that they judge."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attomaton.base.artifacts import MANIFEST, digest_file, explained, read_sealed, write_sealed
from attomaton.base.artifacts.folders import hold
from attomaton.base.artifacts.seals import FORMAT
from attomaton.base.errors import CorruptRun, UnwritablePlace

VERDICTS = "verdicts.json"
TRACE = Path("training", "trace.safetensors")


def write_verdicts(run: str | Path, verdicts: Sequence[Mapping[str, Any]], trace: str | None) -> str:
    """Keep verdicts in ``run/verdicts.json``; why they were not kept, or nothing.

    ``trace`` is the digest of the trace they judge, taken before it was read (:func:`digest_trace`).

    A run that cannot be written, or that somebody else writes to, is read all the same.
    """
    place = Path(os.path.realpath(run))
    manifest = read_sealed(place / MANIFEST)
    if manifest is None or manifest.get("kind") != "run":
        return f"{run} is no run folder that attomaton wrote"
    try:
        about = {"kind": "verdicts", "format": FORMAT, "trace": trace}
        with hold(place) as lock, explained(place):
            path = place / VERDICTS
            if digest_trace(place) != trace:
                return f"the training in {run} was replaced in the meantime; verify again"
            if os.path.lexists(path) and read_sealed(path) is None:
                return f"{path} is there already and attomaton did not write it"
            write_sealed(path, {**about, "verdicts": list(verdicts)}, draft=lock.draft)
    except UnwritablePlace as error:
        return str(error)
    return ""


def read_verdicts(run: str | Path) -> list[Mapping[str, Any]]:
    """The verdicts that a run has; empty if there are none, or if they judge an earlier training."""
    path = Path(run) / VERDICTS
    if not path.is_file():
        return []
    record = read_sealed(path)
    if record is None:
        raise CorruptRun(f"{path} was cut short or altered; run attomaton verify again")
    if record["trace"] != _listed_trace(Path(run)):
        return []
    if record["trace"] != digest_trace(Path(run)):
        raise CorruptRun(f"{Path(run) / TRACE} was altered after it was written; train again")
    return record["verdicts"]


def _listed_trace(run: Path) -> str | None:
    """The digest that the manifest of the training gives its trace."""
    manifest = read_sealed(run / TRACE.parent / MANIFEST) or {}
    return manifest.get("files", {}).get(TRACE.name, {}).get("sha256")


def digest_trace(run: Path) -> str | None:
    """The digest of a run's trace as it is now; None if there is none."""
    path = run / TRACE
    return digest_file(path) if path.is_file() else None
