"""A decoder's limit as a folder, and back: its supports as arrays, and the names of its tokens."""

from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attomaton.base.artifacts import Run, load_run, write_run
from attomaton.base.artifacts.manifests import DECODER
from attomaton.base.borders import check_int64, check_size
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.theories.decoder.counting import Read
from attomaton.theories.decoder.supports import Supports

ARRAYS = ("offsets", "tokens", "counts")
READ = ("n_documents", "n_tokens", "n_labels")
MOST = 1 << 53


class StoredDecoder(NamedTuple):
    """The parts of a decoder's limit."""

    supports: Supports
    read: Read
    vocabulary: Vocabulary | None


def save(stored: StoredDecoder, path: str | PathLike[str], *, overwrite: bool) -> Path:
    """Write the folder whole."""
    supports, read, vocabulary = stored
    arrays = {name: getattr(supports, name) for name in ARRAYS}
    run = Run(
        tables={},
        arrays={**arrays, "contexts": supports.contexts.astype(np.int64).ravel()},
        records={} if vocabulary is None else {"vocabulary": vocabulary.to_record()},
        manifest={
            "vocabulary_size": supports.n_tokens,
            "width": supports.contexts.shape[1],
            **{name: getattr(read, name) for name in READ},
        },
    )
    return write_run(path, run, DECODER, overwrite=overwrite)


def load(path: str | PathLike[str]) -> StoredDecoder:
    """Read a folder that :func:`save` wrote; what was altered does not load."""
    return load_run(path, DECODER, "decoder", _assemble)


def _assemble(run: Run) -> StoredDecoder:
    """Every part checked, in the order in which one indexes another."""
    offsets = check_int64(run.arrays["offsets"], "offsets")
    flat = check_int64(run.arrays["contexts"], "contexts")
    width = check_size(run.manifest["width"], 64, "width")
    size = run.manifest["vocabulary_size"]
    contexts = flat.reshape(len(offsets) - 1, width)
    supports = Supports(contexts.astype(np.int32), offsets, run.arrays["tokens"], run.arrays["counts"], size)
    if (contexts != supports.contexts).any():
        raise ValueError("contexts are no token ids")
    read = Read(*(check_size(run.manifest[name], MOST, name) for name in READ))
    record = run.records.get("vocabulary")
    vocabulary = None if record is None else Vocabulary.from_record(record)
    if vocabulary is not None and len(vocabulary) != size:
        raise ValueError(f"vocabulary.json names {len(vocabulary)} tokens, not {size}")
    return StoredDecoder(supports, read, vocabulary)
