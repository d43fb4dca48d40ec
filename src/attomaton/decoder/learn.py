"""``learn_decoder``: from a corpus to where gradient descent takes a softmax decoder."""

from collections.abc import Callable
from os import PathLike
from typing import Any, Unpack, cast

from attomaton.beginning.begin import find_frequent
from attomaton.corpora.samples import Samples
from attomaton.decoder.counting import add_supports, read_width
from attomaton.decoder.result import DecoderLimit
from attomaton.engines.add_up import Adder, workplace
from attomaton.engines.source import read_documents
from attomaton.errors import UnsupportedOption
from attomaton.options import whole_number
from attomaton.progress import as_stages
from attomaton.readers.batches import asked_reading
from attomaton.readers.given import ReadingOptions, check_options


class DecoderOptions(ReadingOptions, total=False):
    """How a source becomes documents: as :class:`~attomaton.readers.given.ReadingOptions` without a window.

    With ``most_frequent`` only so many tokens, the most frequent, keep their names; all others become one.

    Examples
    --------
    >>> DecoderOptions(most_frequent=1000, documents="line")["most_frequent"]
    1000
    """

    most_frequent: int | None


def learn_decoder(
    corpus: Any,
    context: Any = "bigram",
    *,
    engine: str = "auto",
    memory: str | int | None = None,
    threads: int | None = None,
    master: str | None = None,
    work: str | PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = False,
    **options: Unpack[DecoderOptions],
) -> DecoderLimit:
    """Compute where gradient descent takes a softmax decoder over fixed contexts, from W = 0.

    Every token of every document with a context before it is a label; it need not stand in its context, so
    that this speaks of every position.

    Parameters
    ----------
    corpus : path, glob, URL, Documents, sequence of token ids or documents, frame, or dataset
        What :func:`~attomaton.learn` reads, but no samples, which have lost their order.
    context : str
        ``"bigram"`` for the token before the label, ``"ngram:3"`` for the two before it, and so on;
        ``"unigram"`` for no context at all. Each distinct context has a one-hot embedding.
    engine, memory, threads, master
        As in :func:`~attomaton.learn`; the answer is the same to the last bit.
    work : path, optional
        A folder of your own for what the engines duckdb and spark write on their way, as in
        :func:`~attomaton.begin`.
    progress : bool or callable
        With True, the name of each stage is printed on stderr as it begins; a callable is called with it.
    **options
        ``tokenizer``, ``column``, ``documents`` and ``reading``, as in :func:`~attomaton.learn`, and
        ``most_frequent``, as in :func:`~attomaton.begin`.

    Returns
    -------
    DecoderLimit

    Examples
    --------
    >>> limit = learn_decoder(["to be or not to be", "to do is to be"])
    >>> limit
    DecoderLimit(6 contexts of 1 token, vocabulary of 6)
    >>> limit.predict_proba("to").tolist(), round(limit.loss_at(10**6) - limit.entropy, 8)
    ([0.0, 0.75, 0.0, 0.0, 0.25, 0.0], 5.5e-06)
    >>> learn_decoder(["to be or not to be"], "ngram:3").explain("or not").tokens
    ('to',)
    """
    given: dict[str, Any] = dict(options)
    most_frequent = given.pop("most_frequent", None)
    if "window" in given:
        raise UnsupportedOption("a decoder has no window; its contexts are as long as 'ngram:3' says")
    check_options(cast("ReadingOptions", given))
    if isinstance(corpus, Samples):
        raise UnsupportedOption(
            "the corpus is samples, which have lost the order of their texts; give the documents themselves"
        )
    width = read_width(context)
    if most_frequent is not None:
        most_frequent = whole_number(most_frequent, "most_frequent", least=1)
    announce = as_stages(progress)
    adder = Adder(engine, memory, threads, master, announce)
    reading = asked_reading(
        given.get("reading"), column=given.get("column"), documents=given.get("documents")
    )
    with workplace(work) as folder:
        announce("reading")
        shards = folder / "tokens" if adder.on_disk else None
        tokenizer = given.get("tokenizer") or "word"
        tokens, vocabulary = read_documents(corpus, tokenizer=tokenizer, tokens=shards, reading=reading)
        add_up = adder.over(tokens, folder)
        frequent, vocabulary = find_frequent(tokens.n_tokens, most_frequent, add_up, vocabulary)
        announce("counting contexts and next tokens")
        size = tokens.n_tokens if frequent is None else frequent.n_tokens
        supports, read = add_supports(width, size, add_up, frequent)
    return DecoderLimit(supports, read, vocabulary)
