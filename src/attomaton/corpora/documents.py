"""A whole corpus in memory: token ids with the borders between documents."""

from dataclasses import dataclass, replace

from attomaton.base.borders import check_int32, check_int64, check_offsets, keep_checked
from attomaton.base.errors import InvalidSamples, TokenOutOfRange
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.samples import NOTHING_SKIPPED, Samples, Skipped
from attomaton.corpora.tokenizers.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Documents:
    """A tokenised corpus: document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    ids : int32 array, shape (n_values,)
        All documents, one after the other.
    offsets : int64 array, shape (n_documents + 1,)
        Where each begins, and the end.
    vocabulary : Vocabulary, optional
        None for a corpus of ids whose tokenizer is not known.
    skipped : Skipped
        What could not be read.

    Examples
    --------
    >>> import attomaton as at
    >>> documents = at.read_corpus(["to be", "or not to be"])
    >>> list(documents.windows(window=2))[:2]  # no context crosses the border of a document
    [Sample(context=(0,), label=1), Sample(context=(2,), label=3)]
    """

    ids: Int32
    offsets: Int64
    vocabulary: Vocabulary | None
    skipped: Skipped = NOTHING_SKIPPED

    def __post_init__(self) -> None:
        """Refuse what later code must not be given; :meth:`windows` compares the ids with the vocabulary."""
        ids = check_int32(self.ids, "ids", error=TokenOutOfRange)
        offsets = check_int64(self.offsets, "offsets", error=InvalidSamples)
        check_offsets(offsets, len(ids), "offsets of documents", error=InvalidSamples)
        keep_checked(self, ids=ids, offsets=offsets)

    def windows(self, window: int) -> Samples:
        """Every position as a sample with up to ``window`` tokens of context."""
        n_tokens = None if self.vocabulary is None else len(self.vocabulary)
        samples = Samples.from_windows(self.ids, window=window, documents=self.offsets, n_tokens=n_tokens)
        return replace(samples, skipped=self.skipped) if self.skipped.count else samples
