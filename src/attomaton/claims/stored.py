"""Store verdicts in the folder of a learned run, beside the training run that they judge."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attomaton.base.artifacts import MANIFEST, digest_file, explained, read_sealed, write_sealed
from attomaton.base.artifacts.folders import lock_target
from attomaton.base.artifacts.manifests import FORMAT
from attomaton.base.errors import CorruptRun, UnwritablePlace

VERDICTS = "verdicts.json"
TRACE = Path("training", "trace.safetensors")


def write_verdicts(run: str | Path, verdicts: Sequence[Mapping[str, Any]], trace: str | None) -> str:
    """Store verdicts on the trace with this digest; return why they were not stored, or an empty text."""
    folder = Path(os.path.realpath(run))
    manifest = read_sealed(folder / MANIFEST)
    if manifest is None or manifest.get("kind") != "run":
        return f"{run} is not a folder written by attomaton learn"
    try:
        about = {"kind": "verdicts", "format": FORMAT, "trace": trace}
        with lock_target(folder) as lock, explained(folder):
            path = folder / VERDICTS
            if digest_trace(folder) != trace:
                return f"the training run in {run} was replaced in the meantime; run attomaton verify again"
            if os.path.lexists(path) and read_sealed(path) is None:
                return f"attomaton did not write the existing {path}; delete or rename it"
            write_sealed(path, {**about, "verdicts": list(verdicts)}, draft=lock.draft)
    except UnwritablePlace as error:
        return str(error)
    return ""


def read_verdicts(run: str | Path) -> list[Mapping[str, Any]]:
    """The stored verdicts of a run; empty if there are none, or if they judge an earlier training run."""
    path = Path(run) / VERDICTS
    if not path.is_file():
        return []
    record = read_sealed(path)
    if record is None:
        raise CorruptRun(f"{path} is truncated or altered; run attomaton verify again")
    manifest = read_sealed(Path(run) / TRACE.parent / MANIFEST) or {}
    if record["trace"] != manifest.get("files", {}).get(TRACE.name, {}).get("sha256"):
        return []
    if record["trace"] != digest_trace(Path(run)):
        raise CorruptRun(f"{Path(run) / TRACE} was altered after it was written; run attomaton train again")
    return record["verdicts"]


def digest_trace(run: Path) -> str | None:
    # of the training run that is stored beside a learned run, if there is one
    path = run / TRACE
    return digest_file(path) if path.is_file() else None
