"""A beginning as a folder, and back: its statistics as arrays, and the names of its tokens."""

from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from attomaton.base.artifacts import Run, load_run, write_run
from attomaton.base.artifacts.manifests import BEGINNING
from attomaton.base.borders import (
    check_counts,
    check_floats,
    check_ids,
    check_int64,
    check_offsets,
    check_size,
)
from attomaton.corpora.samples import MAX_TOKENS, Skipped
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.theories.beginning.statistics import Statistics

TABLES = ("counts", "smoothed", "looks")
SIZES = ("n_sequences", "n_documents", "n_read", "n_labels")
MOST = 1 << 53
_sparse: Any = sparse


class StoredBeginning(NamedTuple):
    """The parts of a beginning."""

    statistics: Statistics
    vocabulary: Vocabulary | None
    skipped: Skipped


def save(stored: StoredBeginning, path: str | PathLike[str], *, overwrite: bool) -> Path:
    """Write the folder whole."""
    statistics, vocabulary, skipped = stored
    arrays: dict[str, Any] = {"lags": statistics.lags}
    for name in TABLES:
        table = getattr(statistics, name)
        arrays |= {
            f"{name}/offsets": table.indptr.astype(np.int64),
            f"{name}/columns": table.indices.astype(np.int64),
            f"{name}/values": table.data,
        }
    sizes = {name: getattr(statistics, name) for name in SIZES}
    run = Run(
        tables={},
        arrays=arrays,
        records={} if vocabulary is None else {"vocabulary": vocabulary.to_record()},
        manifest={"n_tokens": statistics.n_tokens, **sizes, "skipped": asdict(skipped)},
    )
    return write_run(path, run, BEGINNING, overwrite=overwrite)


def load(path: str | PathLike[str]) -> StoredBeginning:
    """Read a folder that :func:`save` wrote; what was altered does not load."""
    return load_run(path, BEGINNING, "beginning", _assemble)


def _assemble(run: Run) -> StoredBeginning:
    """Every part checked, in the order in which one indexes another."""
    size = check_size(run.manifest["n_tokens"], MAX_TOKENS, "n_tokens")
    tables = {name: _table(run, name, size) for name in TABLES}
    lags = check_floats(run.arrays["lags"], (None,), "lags")
    sizes = {name: check_size(run.manifest[name], MOST, name) for name in SIZES}
    record = run.records.get("vocabulary")
    vocabulary = None if record is None else Vocabulary.from_record(record)
    if vocabulary is not None and len(vocabulary) != size:
        raise ValueError(f"vocabulary.json names {len(vocabulary)} tokens, not {size}")
    skipped = Skipped(**run.manifest["skipped"])
    return StoredBeginning(Statistics(**tables, lags=lags, **sizes), vocabulary, skipped)


def _table(run: Run, name: str, size: int) -> Any:
    offsets = check_int64(run.arrays[f"{name}/offsets"], f"offsets of {name}")
    columns = check_int64(run.arrays[f"{name}/columns"], f"columns of {name}")
    given = run.arrays[f"{name}/values"]
    check_offsets(offsets, len(columns), f"offsets of {name}")
    check_ids(columns, size, f"a column of {name}")
    if len(offsets) != size + 1 or len(given) != len(columns):
        raise ValueError(f"{name} has other sizes than it should")
    if name == "counts":
        values: Any = check_int64(given, name)
        check_counts(values, 1, name)
    else:
        values = check_floats(given, (None,), name)
    return _sparse.csr_array((values, columns, offsets), shape=(size, size))
