"""A decoder's limit as a folder, and back: its supports as arrays, and the names of its tokens."""

import numpy as np

from attomaton.base.artifacts import FolderKind, Run
from attomaton.base.borders import check_int64, check_size
from attomaton.corpora.tokenizers import Vocabulary, read_vocabulary, vocabulary_records
from attomaton.theories.decoder.counting import Read
from attomaton.theories.decoder.supports import Supports

KIND = FolderKind("decoder", "a decoder", "DecoderLimit.save")
ARRAYS = ("offsets", "tokens", "counts")
READ = ("n_documents", "n_tokens", "n_labels")
MOST = 1 << 53


def pack(supports: Supports, read: Read, vocabulary: Vocabulary | None) -> Run:
    """The files of a decoder's limit."""
    arrays = {name: getattr(supports, name) for name in ARRAYS}
    return Run(
        tables={},
        arrays={**arrays, "contexts": supports.contexts.astype(np.int64).ravel()},
        records=vocabulary_records(vocabulary),
        manifest={
            "vocabulary_size": supports.n_tokens,
            "width": supports.contexts.shape[1],
            **{name: getattr(read, name) for name in READ},
        },
    )


def unpack(run: Run) -> tuple[Supports, Read, Vocabulary | None]:
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
    return supports, read, read_vocabulary(run.records, size)
