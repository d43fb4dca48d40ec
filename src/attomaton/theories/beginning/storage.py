"""A beginning as a folder, and back: its statistics as arrays, and the names of its tokens."""

from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse

from attomaton.base.artifacts import FolderKind, Run
from attomaton.base.borders import (
    check_counts,
    check_floats,
    check_ids,
    check_int64,
    check_offsets,
    check_size,
)
from attomaton.corpora.samples import MAX_TOKENS, Skipped
from attomaton.corpora.tokenizers import Vocabulary, read_vocabulary, vocabulary_records
from attomaton.theories.beginning.statistics import Statistics

KIND = FolderKind("beginning", "a beginning", "attomaton begin --out")
TABLES = ("counts", "smoothed", "looks")
SIZES = ("n_sequences", "n_documents", "n_read", "n_labels")
MOST = 1 << 53
_sparse: Any = sparse


def pack(statistics: Statistics, vocabulary: Vocabulary | None, skipped: Skipped) -> Run:
    """The files of a beginning."""
    arrays: dict[str, Any] = {"lags": statistics.lags}
    for name in TABLES:
        table = getattr(statistics, name)
        arrays |= {
            f"{name}/offsets": table.indptr.astype(np.int64),
            f"{name}/columns": table.indices.astype(np.int64),
            f"{name}/values": table.data,
        }
    sizes = {name: getattr(statistics, name) for name in SIZES}
    return Run(
        tables={},
        arrays=arrays,
        records=vocabulary_records(vocabulary),
        manifest={"n_tokens": statistics.n_tokens, **sizes, "skipped": asdict(skipped)},
    )


def unpack(run: Run) -> tuple[Statistics, Vocabulary | None, Skipped]:
    """Every part checked, in the order in which one indexes another."""
    size = check_size(run.manifest["n_tokens"], MAX_TOKENS, "n_tokens")
    tables = {name: _table(run, name, size) for name in TABLES}
    lags = check_floats(run.arrays["lags"], (None,), "lags")
    sizes = {name: check_size(run.manifest[name], MOST, name) for name in SIZES}
    vocabulary = read_vocabulary(run.records, size)
    return Statistics(**tables, lags=lags, **sizes), vocabulary, Skipped(**run.manifest["skipped"])


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
