"""The corpus argument of commands, and the options that tell how the corpus is read.

A command declares ``corpus: CorpusArgument`` and ``corpus_options: CorpusOptions``. The decorator
:func:`reads` replaces the second parameter by the options of :func:`_reading_options`, and passes what they
say::

    @reads
    def learn(corpus: CorpusArgument, corpus_options: CorpusOptions, window: WindowOption = 32) -> None: ...
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.base.options import MOST_THREADS
from attomaton.cli.messages import counting_skipped
from attomaton.cli.values import source_argument, whole, words

if TYPE_CHECKING:
    from attomaton.corpora.readers.batches import Reading

MOST_MEGABYTES = 1 << 20  # megabytes that one document may be allowed: a terabyte
CorpusArgument = Annotated[
    str,
    source_argument(
        "A file (.txt, .jsonl, .json, .csv, .tsv, .parquet or another kind), folder, glob, URL, or folder of "
        "`attomaton tokenize`; - for standard input."
    ),
]
WindowOption = Annotated[int, whole("Longest context, in tokens.", least=1)]
Memory = Annotated[
    str | None,
    words(
        "Memory of duckdb, such as 2GB; reading and solving need about 0.6 GB more. Default: 60% of the "
        "machine's memory."
    ),
]
Threads = Annotated[
    int | None,
    whole("Number of threads of duckdb or local spark; default: all processors.", least=1, most=MOST_THREADS),
]
Master = Annotated[
    str | None, words("Address of the spark cluster, such as spark://host:7077; default: this machine.")
]


@dataclass(frozen=True)
class CorpusOptions:
    """How a corpus is read; the tokenizer None means that of the run or model of the command."""

    tokenizer: Any
    reading: "Reading"


def reads(command: Callable[..., None], tokenizer: str | None = None) -> Callable[..., None]:
    """Give a command the options of :func:`_reading_options` in place of its parameter ``corpus_options``.

    ``tokenizer`` is the help of ``--tokenizer`` for commands in which it has another default.
    """
    shared = list(inspect.signature(_reading_options).parameters.values())
    if tokenizer is not None:
        shared[0] = shared[0].replace(default=None, annotation=Annotated[str | None, words(tokenizer)])
    declared = list(inspect.signature(command).parameters.values())
    position = [parameter.name for parameter in declared].index("corpus_options")
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*declared[:position], *shared, *declared[position + 1 :])
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        corpus_options = _reading_options(
            **{parameter.name: values.pop(parameter.name) for parameter in shared}
        )
        with counting_skipped():
            command(corpus_options=corpus_options, **values)

    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    run.__annotations__ = annotations | {"return": None}
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    return run


def reads_beside_run(command: Callable[..., None]) -> Callable[..., None]:
    return reads(command, "Tokenizer of a corpus; default: that of the run, or word.")


def reads_beside_model(command: Callable[..., None]) -> Callable[..., None]:
    return reads(
        command, "Tokenizer file (.json, .tiktoken, .bin) of the corpus; default: that of the model."
    )


def _reading_options(
    tokenizer: Annotated[
        str,
        words("word, word-lower, word-punct, character, byte, or a file: tokenizer.json, .tiktoken or .bin."),
    ] = "word",
    column: Annotated[str | None, words("Column or field that contains the documents.")] = None,
    documents: Annotated[
        str, words("Documents of plain text: one per file (file) or one per line (line).")
    ] = "file",
    format: Annotated[  # noqa: A002  the name of the option
        str | None, words("Format of the files or of standard input: txt, jsonl, json, csv or another.")
    ] = None,
    separator: Annotated[int | None, whole("Token id that ends a document in .npy and .bin files.")] = None,
    dtype: Annotated[
        str, words("Type of token ids in .bin files: uint16, uint32, int32 or int64.")
    ] = "uint16",
    max_document: Annotated[
        int, whole("Maximum size of a document, in megabytes.", least=1, most=MOST_MEGABYTES)
    ] = 64,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip documents that cannot be read, and count them.")
    ] = False,
) -> CorpusOptions:
    from attomaton.corpora.readers.batches import Reading

    reading = Reading(
        column=column,
        documents=documents,
        separator=separator,
        dtype=dtype,
        max_bytes=max_document << 20,
        skip_bad=skip_bad,
        format=format,
    )
    return CorpusOptions(tokenizer, reading)
