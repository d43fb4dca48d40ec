"""Measure which labels a head can reach if it writes a token other than the one it attends to.

A head that writes n(x) where it attends to x can reach a label y if some token of the context writes it. With
n the identity this is the theory's own realisable label. For an injective n, graph, components and both
solvers are those of the samples whose label y is replaced by n⁻¹(y). In code, n is the array ``writes``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from attomaton.base.borders import trusted
from attomaton.base.errors import MismatchedParts, TokenOutOfRange
from attomaton.base.tables import Bool, Int32, Integers
from attomaton.corpora.samples import Samples
from attomaton.graphs.bags import find_realisable


@dataclass(frozen=True)
class Reach:
    """The fraction of ``n_samples`` samples whose label a head can reach, depending on what it writes.

    ``identity`` is the fraction with the label in the context, ``written`` the fraction with a token in the
    context that writes the label, and ``either`` the fraction with at least one of the two.
    """

    n_samples: int
    identity: float
    written: float
    either: float

    @classmethod
    def from_masks(cls, in_context: Bool, is_written: Bool) -> "Reach":
        """The fractions, from two masks over the samples."""
        n_samples = len(in_context)
        masks = (in_context, is_written, in_context | is_written)
        return cls(n_samples, *(float(mask.sum()) / max(n_samples, 1) for mask in masks))

    def __str__(self) -> str:
        return (
            f"{self.n_samples:,} samples: the label is in the context in {100 * self.identity:.1f} %, "
            f"written by a token of it in {100 * self.written:.1f} %, either in {100 * self.either:.1f} %"
        )


def measure_reach(samples: Samples, writes: Integers | Mapping[int, int]) -> Reach:
    """Measure how many labels an attention head can reach if it writes ``writes[x]`` when it attends to x.

    ``writes`` is an array with one token id per token, or a mapping. A token missing from the mapping is
    mapped to itself.

    Examples
    --------
    >>> stream = [0, 1, 2, 0, 1, 3, 0]
    >>> measure_reach(Samples.from_windows(stream, window=1), find_successors(stream)).written
    0.8333333333333334
    """
    return Reach.from_masks(find_realisable(samples), find_realisable(apply_writes(samples, writes)))


def apply_writes(samples: Samples, writes: Integers | Mapping[int, int]) -> Samples:
    """The samples with each context token replaced by the token it writes; labels stay."""
    table = check_writes(writes, samples.n_tokens)
    fields = {name: getattr(samples, name) for name in ("starts", "stops", "labels", "n_tokens")}
    return trusted(Samples, values=table[samples.values], **fields)


def check_writes(writes: Integers | Mapping[int, int], n_tokens: int) -> Int32:
    """The token that each token writes, shape (n_tokens,), after a check of the ids."""
    if isinstance(writes, Mapping):
        table = np.arange(n_tokens)
        keys, values = np.array(list(writes.keys())), np.array(list(writes.values()))
        if len(keys) and {keys.dtype.kind, values.dtype.kind} - {"i", "u"}:
            raise MismatchedParts("keys or values of writes are not whole numbers; give token ids")
        if len(keys) and not (keys.min() >= 0 and keys.max() < n_tokens):
            raise TokenOutOfRange(
                f"a key of writes is not in 0 … {n_tokens - 1}; give token ids of this corpus"
            )
        table[keys.astype(np.int64)] = values
    else:
        table = np.asarray(writes)
    if table.shape != (n_tokens,) or not np.issubdtype(table.dtype, np.integer):
        raise MismatchedParts(
            f"writes has shape {table.shape} and type {table.dtype}; give one token id for each of "
            f"the {n_tokens} tokens, or a mapping"
        )
    if len(table) and not (table.min() >= 0 and table.max() < n_tokens):
        raise TokenOutOfRange(
            f"a value of writes is not in 0 … {n_tokens - 1}; give token ids of this corpus"
        )
    return table.astype(np.int32)


def find_successors(
    ids: Integers, documents: Integers | None = None, *, n_tokens: int | None = None
) -> Int32:
    """Find the token that most often follows each token, shape (n_tokens,).

    If several tokens follow equally often, the first one in the text is taken. A token without a successor is
    mapped to itself.

    Parameters
    ----------
    ids : integers, shape (n_values,)
        The token ids of the text.
    documents : integers, shape (n_documents + 1,), optional
        Offsets of the documents in ``ids``; by default one document. Successors do not cross documents.
    n_tokens : int, optional
        Size of the vocabulary; by default the largest id plus one.

    Examples
    --------
    >>> find_successors([0, 1, 0, 2, 0, 2, 3]).tolist()  # after 2 come 0 and 3 once each: 0 was first
    [2, 0, 0, 3]
    """
    return count_successors(Samples.from_windows(ids, window=1, documents=documents, n_tokens=n_tokens))


def count_successors(samples: Samples) -> Int32:
    """The label that most often follows each query, shape (n_tokens,); ties go to the earliest."""
    size = samples.n_tokens
    pairs = samples.queries.astype(np.int64) * size + samples.labels
    distinct, first_sample, counts = np.unique(pairs, return_index=True, return_counts=True)
    query, label = distinct // max(size, 1), distinct % max(size, 1)
    best_first = np.lexsort((first_sample, -counts, query))  # by query, then by falling count
    best = best_first[np.unique(query[best_first], return_index=True)[1]]
    successors = np.arange(size, dtype=np.int32)
    successors[query[best]] = label[best]
    return successors


def replace_labels(samples: Samples, writes: Integers | Mapping[int, int]) -> Samples:
    """The samples from which a writing head learns: label y becomes the token n⁻¹(y) that writes it."""
    # Samples whose label no token of the context writes are left out.
    table = check_writes(writes, samples.n_tokens)
    reachable = samples.take(find_realisable(apply_writes(samples, table)))
    n_writers = np.bincount(table, minlength=samples.n_tokens)  # of each label
    labels = np.unique(reachable.labels)
    ambiguous = labels[n_writers[labels] > 1]
    if len(ambiguous):
        label = ambiguous[0]
        raise MismatchedParts(
            f"{n_writers[label]} tokens write the label {label}; give a map with one token per label"
        )
    writer = np.zeros(samples.n_tokens, np.int32)  # n⁻¹; 0 for a label that nothing writes, which is unused
    writer[table] = np.arange(samples.n_tokens, dtype=np.int32)
    return replace(reachable, labels=writer[reachable.labels])
