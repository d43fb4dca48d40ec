"""Compute the limit of a softmax decoder under gradient descent from a corpus."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any, Unpack, cast, overload

import numpy as np

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.options import show, whole_number
from attomaton.base.progress import as_stages
from attomaton.base.ragged import rows_of
from attomaton.base.tables import Int64
from attomaton.corpora.documents import Chunk
from attomaton.corpora.readers.corpus import ReadingOptions
from attomaton.corpora.shards import Shards
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.engines.choose import Engine, as_engine, open_corpus
from attomaton.engines.sums import AddUp
from attomaton.theories.beginning.begin import check_texts, find_frequent
from attomaton.theories.beginning.passes import Frequent, PlainPass, count_read
from attomaton.theories.decoder.features import EmbeddedLimit, check_features, solve_decoder
from attomaton.theories.decoder.result import DecoderLimit
from attomaton.theories.decoder.supports import CorpusSizes, Supports, pack_contexts, supports_of

# The number of tokens of an n-gram, label included.
NAMED_CONTEXTS = {"unigram": 1, "bigram": 2, "trigram": 3}

# Number of n-grams whose keys fit in 64 bits.
MOST_KEYS = 1 << 62

# The largest n of n-grams.
MOST_GRAM = 64

# Number of positions listed at once.
POSITIONS_AT_ONCE = 1 << 21

# The sizes of a corpus that a pass counts: documents, tokens and labels.
N_SIZES = len(fields(CorpusSizes))


def read_width(context: object) -> int:
    """The number of tokens of a context: one less than the n of its n-grams."""
    if isinstance(context, str):
        if context in NAMED_CONTEXTS:
            return NAMED_CONTEXTS[context] - 1
        name, _, number = context.partition(":")
        if name == "ngram" and number.isascii() and number.isdigit():
            return whole_number(int(number), "the n of context", least=1, most=MOST_GRAM) - 1
    raise UnsupportedOption(
        f"context is {show(context)}; give 'bigram', 'ngram:3' or another number, or an array of features "
        "with a row for each label"
    )


@dataclass(frozen=True, eq=False)
class CountNext(PlainPass):
    """Count next tokens: key ``context · V + next token`` of ``pairs``, contexts of ``width`` tokens."""

    width: int
    n_tokens: int
    frequent: Frequent | None = None
    name: str = field(default="next", init=False)

    @property
    def settings(self) -> Mapping[str, Any]:
        digest = None if self.frequent is None else digest_arrays(self.frequent.tokens)
        return {"width": self.width, "n_tokens": self.n_tokens, "frequent": digest}

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"read": N_SIZES, "pairs": self.n_tokens ** (self.width + 1)}

    def __call__(self, chunk: Chunk, /) -> Iterator[tuple[str, Int64, Int64, Int64 | None]]:
        yield "read", np.arange(N_SIZES), np.array(count_read(chunk)), None
        # the position of each token in its document; a label has `width` tokens before it there
        position = np.arange(len(chunk.ids)) - chunk.documents[rows_of(chunk.documents)]
        labels = np.flatnonzero(position >= self.width)
        gram = np.arange(-self.width, 1)  # a context and its label, relative to the label
        ids = chunk.ids if self.frequent is None else self.frequent.ids[chunk.ids]
        for first in range(0, len(labels), POSITIONS_AT_ONCE):
            grams = ids[labels[first : first + POSITIONS_AT_ONCE, None] + gram].astype(np.int64)
            yield "pairs", pack_contexts(grams, self.n_tokens), np.ones(len(grams), np.int64), None


def add_supports(
    width: int, n_tokens: int, add_up: AddUp, frequent: Frequent | None = None
) -> tuple[Supports, CorpusSizes]:
    """Count the next tokens of contexts of ``width`` tokens, with the engine behind ``add_up``."""
    if n_tokens ** (width + 1) > MOST_KEYS:
        most = max(n for n in range(1, MOST_GRAM + 1) if n_tokens**n <= MOST_KEYS)
        raise UnsupportedOption(
            f"the {width + 1}-grams of {n_tokens:,} tokens cannot be numbered in 64 bits; use at most "
            f"context='ngram:{most}', or fewer tokens (most_frequent)"
        )
    sums = add_up(CountNext(width, n_tokens, frequent))
    counted = dict(zip(sums["read"].keys.tolist(), sums["read"].counts.tolist(), strict=True))
    if not len(sums["pairs"]):
        raise UnreadableSource(
            f"no document has {width + 1:,} tokens, which a context and its next token need; use longer "
            "documents, or shorter contexts"
        )
    read = CorpusSizes(*(counted.get(key, 0) for key in range(N_SIZES)))
    return supports_of(sums["pairs"].keys, sums["pairs"].counts, width, n_tokens), read


class DecoderOptions(ReadingOptions, total=False):
    """How to read documents: the keywords of :func:`~attomaton.read_corpus` without a window.

    ``most_frequent`` is the number of most frequent tokens to distinguish; all others become one token.
    """

    most_frequent: int | None


@overload
def learn_decoder(
    corpus: Any,
    context: str = "bigram",
    *,
    engine: str | Engine = "auto",
    work: str | PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = False,
    **options: Unpack[DecoderOptions],
) -> DecoderLimit: ...


@overload
def learn_decoder(
    corpus: Any,
    context: Any,
    *,
    engine: str | Engine = "auto",
    work: str | PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = False,
    **options: Unpack[DecoderOptions],
) -> EmbeddedLimit: ...


def learn_decoder(
    corpus: Any,
    context: Any = "bigram",
    *,
    engine: str | Engine = "auto",
    work: str | PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = False,
    **options: Unpack[DecoderOptions],
) -> DecoderLimit | EmbeddedLimit:
    """Compute the limit of a softmax decoder over fixed contexts under gradient descent from W = 0.

    A label is a token with another token before it in its document. Unlike in :func:`~attomaton.learn`,
    labels need not be in their contexts.

    Parameters
    ----------
    corpus : path, glob, URL, Documents, sequence of token ids or documents, frame, or dataset
        Any source of :func:`~attomaton.learn` except samples, which lack the order of the text.
    context : str or float array, shape (n_labels, dim)
        ``"bigram"`` means that the context is the token before the label, ``"ngram:3"`` the two tokens before
        it, and ``"unigram"`` no token; each distinct context has a one-hot embedding. An array contains the
        features of the context of each label, in the order of the text, such as the last hidden states of a
        model. Equal rows are one context.
    engine, work, progress
        As in :func:`~attomaton.begin`. All engines give identical results.
    **options
        ``tokenizer`` and ``reading``, as in :func:`~attomaton.learn`, and ``most_frequent``, as in
        :func:`~attomaton.begin`.

    Returns
    -------
    DecoderLimit or EmbeddedLimit
        ``EmbeddedLimit`` for given features, otherwise ``DecoderLimit``.

    Examples
    --------
    >>> learn_decoder(["to be or not to be", "to do is to be"]).predict_proba("to").tolist()
    [0.0, 0.75, 0.0, 0.0, 0.25, 0.0]
    """
    reading_options, most_frequent = _check_options(corpus, options)
    named = isinstance(context, str) or context is None or np.ndim(context) < 1
    width = read_width(context) if named else None
    announce = as_stages(progress)
    reading = open_corpus(corpus, reading_options, as_engine(engine), work=work, progress=announce)
    with reading as (tokens, vocabulary, _, add_up):
        frequent, vocabulary = find_frequent(tokens.n_tokens, most_frequent, add_up, vocabulary)
        announce("counting contexts and next tokens")
        if width is None:
            return _embed(tokens, frequent, context, vocabulary)
        size = tokens.n_tokens if frequent is None else frequent.n_tokens
        supports, read = add_supports(width, size, add_up, frequent)
    return DecoderLimit(supports, read, vocabulary)


def _check_options(corpus: Any, options: DecoderOptions) -> tuple[ReadingOptions, int | None]:
    # the options of reading, and the number of most frequent tokens
    remaining: dict[str, Any] = dict(options)
    most_frequent = remaining.pop("most_frequent", None)
    if "window" in remaining:
        raise UnsupportedOption("a decoder has no window; set the length of its contexts with 'ngram:3'")
    reading = cast("ReadingOptions", remaining)
    return reading, check_texts(corpus, reading, most_frequent)


def _embed(
    tokens: Chunk | Shards, frequent: Frequent | None, features: object, vocabulary: Vocabulary | None
) -> EmbeddedLimit:
    if not isinstance(tokens, Chunk):
        raise UnsupportedOption("features need a corpus in memory; give the documents with engine='memory'")
    # the supports of contexts given by features, one row for each label in the order of the text
    ids = tokens.ids if frequent is None else frequent.ids[tokens.ids]
    starts_document = np.zeros(len(ids) + 1, bool)  # one more, since empty documents may end the corpus
    starts_document[tokens.documents[:-1]] = True
    labels = ids[~starts_document[:-1]].astype(np.int64)
    table = check_features(features, len(labels), "labels (tokens with another before them)")
    size = tokens.n_tokens if frequent is None else frequent.n_tokens
    contexts, context_of_label = np.unique(table, axis=0, return_inverse=True)  # equal rows are one
    keys, counts = np.unique(context_of_label.reshape(-1) * size + labels, return_counts=True)
    context, token = np.divmod(keys, size)
    offsets = np.searchsorted(context, np.arange(len(contexts) + 1))
    supports = Supports(np.zeros((len(contexts), 0), np.int32), offsets, token, counts, size)
    return solve_decoder(supports, contexts, vocabulary=vocabulary)
