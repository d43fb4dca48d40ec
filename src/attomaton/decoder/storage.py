"""A decoder's limit as a folder, and back: its supports as arrays, and the names of its tokens."""

from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attomaton.artifacts import Run, build_folder, fill_run, read_run
from attomaton.artifacts.manifests import DECODER
from attomaton.borders import check_int64, check_size
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.decoder.counting import Read
from attomaton.decoder.supports import Supports
from attomaton.errors import CorruptRun
from attomaton.options import given_path

ARRAYS = ("offsets", "tokens", "counts")
READ = ("n_documents", "n_tokens", "n_labels")
MOST = 1 << 53


class Stored(NamedTuple):
    """The parts of a decoder's limit."""

    supports: Supports
    read: Read
    vocabulary: Vocabulary | None


def save(stored: Stored, path: str | PathLike[str], *, overwrite: bool) -> Path:
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
    place = given_path(path, "path")
    with build_folder(place, DECODER, overwrite=overwrite) as building:
        fill_run(building, run)
    return place


def load(path: str | PathLike[str]) -> Stored:
    """Read a folder that :func:`save` wrote; what was altered does not load."""
    place = given_path(path, "path")
    run = read_run(place, DECODER)
    try:
        return _assemble(run)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:  # or MismatchedParts
        reason = str(error).partition(";")[0]
        raise CorruptRun(f"{place} holds no whole decoder ({reason}); save it again") from error


def _assemble(run: Run) -> Stored:
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
    return Stored(supports, read, vocabulary)
