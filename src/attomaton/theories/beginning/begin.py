"""Compute the first weights of every layer of a deep attention model from a corpus."""

from collections.abc import Callable
from os import PathLike
from typing import Any, Unpack

import numpy as np

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import whole_number
from attomaton.base.progress import as_stages
from attomaton.corpora.readers.corpus import ReadingOptions, check_options
from attomaton.corpora.samples import WINDOW, Samples, Skipped
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.engines.choose import Engine, as_engine, open_corpus
from attomaton.engines.sums import AddUp
from attomaton.theories.beginning.passes import CountTokens, Cutting, Frequent
from attomaton.theories.beginning.result import Beginning
from attomaton.theories.beginning.statistics import add_statistics

# The name of all tokens that are not among the most frequent.
RARE = "<rest>"


def begin(
    corpus: Any,
    *,
    most_frequent: int | None = None,
    engine: str | Engine = "auto",
    work: str | PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = False,
    **options: Unpack[ReadingOptions],
) -> Beginning:
    """Compute what deep attention learns first from a corpus.

    Every document is cut into sequences of ``window`` tokens, and a next token is predicted at every
    position. No sequence crosses the border of a document; the remainder at the end of a document is left
    out.

    Parameters
    ----------
    corpus : path, glob, URL, Documents, sequence of token ids or documents, frame, or dataset
        Any source of :func:`~attomaton.learn` except samples, which lack the order of the text.
    most_frequent : int, optional
        The number of most frequent tokens to distinguish; all others become one token, ``<rest>``.
    engine : str or Engine
        Where the corpus is read, as in :func:`~attomaton.learn`. All engines give identical results.
    work : path, optional
        A folder for the intermediate files of duckdb and spark, by default a temporary folder. An interrupted
        call with this folder can be resumed. Spark on several machines needs a shared folder.
    progress : bool or callable
        True prints the name of each stage on stderr as it begins; a callable is called with that name.
    **options
        ``window`` (32), ``tokenizer`` and ``reading``, as in :func:`~attomaton.learn`.

    Returns
    -------
    Beginning

    Examples
    --------
    >>> begin(["to be or not to be that is the question"], window=3)
    Beginning(3 sequences of 3 tokens, vocabulary of 8)
    """
    most_frequent = check_texts(corpus, options, most_frequent)
    window = whole_number(options.get("window", WINDOW), "window", least=1)
    announce = as_stages(progress)
    reading = open_corpus(corpus, options, as_engine(engine), work=work, progress=announce)
    with reading as (tokens, vocabulary, about, add_up):
        frequent, vocabulary = find_frequent(tokens.n_tokens, most_frequent, add_up, vocabulary)
        size = tokens.n_tokens if frequent is None else frequent.n_tokens
        statistics = add_statistics(Cutting(window, size, frequent), add_up, announce)
    return Beginning(statistics, vocabulary, Skipped(**about["skipped"]))


def check_texts(corpus: Any, options: ReadingOptions, most_frequent: int | None) -> int | None:
    # the arguments of a corpus that must be a text; returns most_frequent
    check_options(options)
    if isinstance(corpus, Samples):
        raise UnsupportedOption(
            "the corpus holds samples, which lack the order of their texts; give the documents instead"
        )
    return None if most_frequent is None else whole_number(most_frequent, "most_frequent", least=1)


def find_frequent(
    n_tokens: int, most_frequent: int | None, add_up: AddUp, vocabulary: Vocabulary | None
) -> tuple[Frequent | None, Vocabulary | None]:
    """The tokens that keep their own ids (None if all do), and the names of all resulting tokens."""
    if most_frequent is None or n_tokens <= most_frequent:
        return None, vocabulary
    counted = add_up(CountTokens(n_tokens))["tokens"]  # tokens that do not occur have no key
    counts = np.zeros(n_tokens, np.int64)
    counts[counted.keys] = counted.counts
    frequent = Frequent.among(counts, most_frequent)
    names = [name_token(vocabulary, token) for token in frequent.tokens.tolist()]
    rare = RARE
    while rare in names:  # a corpus may contain the name
        rare = f"<{rare}>"
    tokenizer = "word" if vocabulary is None else vocabulary.tokenizer
    return frequent, Vocabulary((*names, rare), tokenizer)
