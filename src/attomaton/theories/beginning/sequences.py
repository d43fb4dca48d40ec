"""How documents are cut into the sequences that the theory of the beginning speaks of.

A sequence has ``window`` tokens, and at each of its positions the next token is predicted, so it takes
``window + 1`` tokens of a document. The next sequence begins with the last of them: no token is predicted
twice. What is left of a document, fewer than ``window + 1`` tokens, is left out, because the mean of the
theory is over sequences of one length; so is a document that is shorter than that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attomaton.base.ragged import offsets_of
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.documents import Piece


def cut_documents(documents: Int64, window: int) -> Int64:
    """Where each sequence begins.

    Parameters
    ----------
    documents : int64 array, shape (n_documents + 1,)
        Offsets of the documents.
    window : int
        Tokens of a sequence; its next tokens end one further.

    Returns
    -------
    int64 array, shape (n_sequences,)

    Examples
    --------
    >>> cut_documents(np.array([0, 7, 9, 13]), window=3).tolist()  # documents of 7, 2 and 4 tokens
    [0, 3, 9]
    """
    whole = np.maximum(np.diff(documents) - 1, 0) // window
    number = np.arange(int(whole.sum())) - np.repeat(offsets_of(whole)[:-1], whole)
    return np.repeat(documents[:-1], whole) + window * number


def list_sequences(piece: Piece, window: int, at_once: int) -> Iterator[Int32]:
    """The sequences of a piece of whole documents with their last next token, some at a time."""
    starts = cut_documents(piece.documents, window)
    for first in range(0, len(starts), at_once):
        yield piece.ids[starts[first : first + at_once, None] + np.arange(window + 1)]


@dataclass(frozen=True, eq=False)
class Frequent:
    """Which tokens keep an id of their own, and one id for all others.

    Attributes
    ----------
    kept : int64 array, shape (n_kept,)
        Old ids, the most frequent first; each has its place as new id.
    ids : int32 array, shape (n_old,)
        Old id → new id; ``n_kept`` for all others.

    Examples
    --------
    >>> frequent = Frequent.among(np.array([1, 7, 0, 7]), 2)
    >>> frequent.kept.tolist(), frequent.ids.tolist(), frequent.n_tokens
    ([1, 3], [2, 0, 2, 1], 3)
    """

    kept: Int64
    ids: Int32

    @classmethod
    def among(cls, counts: Int64, n_kept: int) -> "Frequent":
        """The ``n_kept`` most frequent tokens; of equally frequent ones, those with the smaller id."""
        kept = np.argsort(-counts, kind="stable")[:n_kept]
        ids = np.full(len(counts), len(kept), np.int32)
        ids[kept] = np.arange(len(kept), dtype=np.int32)
        return cls(kept, ids)

    @property
    def n_tokens(self) -> int:
        """How many new ids there are, with the one of all others."""
        return len(self.kept) + 1


def context_pairs(window: int, most: int) -> Iterator[tuple[Int64, Int64]]:
    """The pairs of a position t and a position u ≤ t, both counted from 0: about ``most`` at a time.

    All pairs of one t come together.
    """
    first = 0
    while first < window:
        last, size = first + 1, first + 1
        while last < window and size + last + 1 <= most:
            size += last + 1
            last += 1
        counts = np.arange(first + 1, last + 1)
        t = np.repeat(counts - 1, counts)
        yield t, np.arange(size) - np.repeat(np.cumsum(counts) - counts, counts)
        first = last
