"""Documents of token ids for an audit: reading them from containers, checking them, splitting them in two."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, cast

import numpy as np

from attomaton.base.errors import InvalidSamples, TokenOutOfRange
from attomaton.base.options import LARGEST_WHOLE, make_rng, whole_number
from attomaton.base.tables import Int32
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.tokenizers.vocabulary import Vocabulary
from attomaton.heads.audit.jackknife import FEWEST_DOCUMENTS
from attomaton.heads.texts import read_for


def list_documents(documents: Any, limit: int | None = None) -> list[Any]:
    """At most ``limit`` documents, in order, from any container; a pandas series gives its values."""
    if isinstance(documents, Documents):
        ends = documents.offsets[: None if limit is None else limit + 1].tolist()
        return [documents.ids[first:last] for first, last in pairwise(ends)]
    if isinstance(documents, str | bytes | Mapping) or not isinstance(documents, Iterable):
        kind = type(cast("Any", documents)).__name__
        raise InvalidSamples(f"documents is of type {kind}; give a list of token ids for each document")
    source = cast("Any", documents)
    return list(islice(source.to_pylist() if hasattr(source, "to_pylist") else source, limit))


def read_audited(
    models: Sequence[Any], corpus: Any, tokenizer: Any, reading: Reading | None, limit: int | None
) -> tuple[list[Any], Vocabulary | None]:
    """The documents of a corpus for models, as :func:`~attomaton.heads.texts.read_for`, and their texts."""
    read = read_for(models, corpus, tokenizer=tokenizer, reading=reading, limit=limit)
    return list_documents(read, limit), getattr(read, "vocabulary", None)


def cut_documents(documents: Iterable[Any], longest: int, *, n_tokens: int) -> list[Int32]:
    """The first ``longest`` tokens of each document, checked against the vocabulary."""
    cut = list[Int32]()
    for number, document in enumerate(documents):
        try:
            whole = np.asarray(document)
        except ValueError:  # lists of unequal lengths; two axes are refused below
            whole = np.empty((0, 0))
        if whole.ndim != 1 or (len(whole) and not np.issubdtype(whole.dtype, np.integer)):
            raise InvalidSamples(f"document {number} is not a list of token ids; tokenise the text")
        ids = whole[:longest]
        wrong = ids[(ids < 0) | (ids >= n_tokens)]
        if len(wrong):
            raise TokenOutOfRange(
                f"document {number} contains the id {wrong[0]}, but the ids of the model are 0 … "
                f"{n_tokens - 1}; tokenise the text with the tokenizer of the model"
            )
        cut.append(ids.astype(np.int32))
    return cut


def split_documents(n: int, *, share: float = 0.6, seed: int = 0) -> tuple[list[int], list[int]]:
    """A random split of the numbers below n, ascending: documents to fit on, and documents to score."""
    n = whole_number(n, "n", least=2, most=LARGEST_WHOLE)
    order = make_rng(seed).permutation(n)
    cut = min(max(round(share * n), 1), n - 1)  # at least one document on each side
    return sorted(order[:cut].tolist()), sorted(order[cut:].tolist())


def check_split(
    documents: Sequence[Any], fit_on: Sequence[int], score_on: Sequence[int], *, window: int, length: int
) -> None:
    """Raise if too few documents are long enough for a window, or for ``length`` tokens if it is not 0."""
    fitted, scored = ([len(documents[number]) for number in numbers] for numbers in (fit_on, score_on))
    if max(fitted) < window + 2:
        raise InvalidSamples(
            f"none of the {len(fitted)} documents to fit on has {window + 2} tokens, which a window of "
            f"{window} needs; give longer documents or a smaller window"
        )
    # A query in a full window needs a next token; contexts for causal value need their last next token.
    for least, option in ((window + 2, f"a window of {window}"), (length + 1, f"a length of {length}")):
        n_long = sum(n_tokens >= least for n_tokens in scored)
        if least > 1 and n_long < FEWEST_DOCUMENTS:
            raise InvalidSamples(
                f"{option} needs {FEWEST_DOCUMENTS} documents to score with at least {least} tokens, but "
                f"only {n_long} of the {len(scored)} drawn from {len(documents)} documents have so many; "
                "give more documents, split long ones, or choose a smaller window or length"
            )


def check_copies(fitted: Sequence[Int32], scored: Sequence[Int32]) -> None:
    """Raise if over half of the documents to score are also among those to fit on: nothing is held out."""
    contents = {ids.tobytes() for ids in fitted}
    copies = sum(ids.tobytes() in contents for ids in scored)
    if 2 * copies > len(scored):
        raise InvalidSamples(
            f"{copies} of the {len(scored)} documents to score are copies of documents to fit on, so "
            "they are not held out; remove the copies"
        )
