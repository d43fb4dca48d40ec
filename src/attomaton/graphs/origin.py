"""Check that a run and a training in one folder have equal samples, before either is written."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import read_arrays, read_manifest
from attomaton.base.artifacts.parted import read_whole
from attomaton.base.artifacts.runs import read_run
from attomaton.base.errors import MismatchedParts
from attomaton.base.ragged import ranges_of
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import find_realisable
from attomaton.graphs.edges import extract_edges

# Context tokens hashed at once.
HASHED_TOKENS = 4_000_000


def describe_origin(samples: Samples) -> dict[str, Any]:
    """The manifest entry of samples: the number of realisable samples and tokens, and a digest."""
    # The digest depends on the contexts and labels, not on how they lie in memory.
    realisable = samples.take(find_realisable(samples))
    digest = hashlib.sha256(np.asarray(realisable.n_tokens, np.int64).tobytes())
    digest.update(np.ascontiguousarray(realisable.lengths, np.int64).data)
    digest.update(np.ascontiguousarray(realisable.labels, np.int32).data)
    for chunk in realisable.chunks(HASHED_TOKENS):
        digest.update(np.ascontiguousarray(chunk.values[ranges_of(chunk.starts, chunk.lengths)]).data)
    return {"realisable": len(realisable), "n_tokens": realisable.n_tokens, "sha256": digest.hexdigest()}


def check_origin(run: str | Path, samples: Samples, name: Path | None = None) -> None:
    """Refuse a training on these samples in the folder of a run that was learned from others."""
    # A run learned in memory records the digest of its samples; other runs are compared by their edges.
    # Errors show `name`, if given.
    folder = Path(run)
    manifest: dict[str, Any] = read_manifest(folder)
    if not manifest.get("files"):
        return
    recorded = manifest.get("samples")
    trained = describe_origin(samples)
    if recorded == trained:
        return
    if recorded is None:  # a run from an engine, which has no digest
        stored = read_run(folder)
        if gives_edges(samples, read_whole(stored.folder or folder, stored.partitions, "edges")):
            return
    config = manifest.get("config")
    window = cast("dict[str, Any]", config).get("window") if isinstance(config, dict) else None
    width = f", window {window}" if isinstance(window, int) else ""
    raise MismatchedParts(
        f"the run in {name or folder} was learned from other samples than those of the training (it has "
        f"{_say_size(recorded)}{width}; the training has {_say_size(trained)}). Give both "
        "commands the same corpus, --window and --tokenizer, or keep the training in a separate folder"
    )


def check_training(run: Path, folder: Path) -> None:
    """Refuse a new run in ``folder`` if it contains a finished training on other samples."""
    file = folder / "training" / "trace.safetensors"
    arrays, about = read_arrays(file) if file.is_file() else ({}, {})
    if about.get("holds") == "trace":
        for samples in read_corpora(arrays, about):
            check_origin(run, samples, folder)


def read_corpora(arrays: Mapping[str, Any], about: Mapping[str, str]) -> list[Samples]:
    """The distinct corpora of a training, from the arrays and the metadata of the file of its trace."""
    names = ("values", "starts", "stops", "labels")
    sizes: list[int] = json.loads(about["n_tokens"])
    return [
        Samples(**{name: arrays[f"corpora/{number}/{name}"] for name in names}, n_tokens=size)
        for number, size in enumerate(sizes)
    ]


# The size of samples in words, from their manifest entry.
def _say_size(origin: Any) -> str:
    if not isinstance(origin, dict):
        return "other edges"
    record = cast("dict[str, Any]", origin)
    return f"{record['realisable']:,} realisable samples over {record['n_tokens']:,} tokens"


def gives_edges(samples: Samples, edges: pa.Table) -> bool:
    """Whether samples give exactly the edges of a run, and so may be those from which it was learned."""
    rows = extract_edges(samples).rows
    return bool(rows.equals(edges.cast(rows.schema)))
