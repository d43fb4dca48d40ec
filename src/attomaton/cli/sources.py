"""The argument for a corpus, and the options that say how to read it.

A command declares ``corpus: CorpusArgument`` and ``corpus_options: CorpusOptions``. The decorator
:func:`reads` replaces the second parameter by the options of :func:`_reading_options`, and passes their
values::

    @reads
    def learn(corpus: CorpusArgument, corpus_options: CorpusOptions, window: WindowOption = 32) -> None: ...
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

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
        "File (.txt, .jsonl, .json, .csv, .tsv, .parquet or another kind), folder, glob, URL, or folder "
        "written by `attomaton tokenize`; - is standard input."
    ),
]
WindowOption = Annotated[int, whole("Longest context, in tokens.", least=1)]
Memory = Annotated[
    str | None,
    words(
        "Memory of duckdb, such as 2GB; default: 60% of the available memory. Reading and solving need about "
        "0.6 GB more."
    ),
]
Threads = Annotated[
    int | None,
    whole("Number of threads of engine and solvers; default: all processors.", least=1, most=MOST_THREADS),
]
Master = Annotated[
    str | None, words("Address of the spark cluster, such as spark://host:7077; default: this machine.")
]


class CorpusOptions(TypedDict):
    """How a corpus is read; a ``tokenizer`` of None means the tokenizer of the run or model."""

    tokenizer: Any
    reading: "Reading"


def reads(command: Callable[..., None], tokenizer: str | None = None) -> Callable[..., None]:
    """Replace the parameter ``corpus_options`` of a command by the options of :func:`_reading_options`."""
    # `tokenizer` is the help of `--tokenizer` for commands in which that has another default.
    # Typer reads the options of a command from its signature, so the wrapped command gets a new one.
    shared = list(inspect.signature(_reading_options).parameters.values())
    if tokenizer is not None:  # the first parameter
        shared[0] = shared[0].replace(default=None, annotation=Annotated[str | None, words(tokenizer)])
    declared = list(inspect.signature(command).parameters.values())
    position = [parameter.name for parameter in declared].index("corpus_options")
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*declared[:position], *shared, *declared[position + 1 :])
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        """Typer passes all options by name."""
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
    return reads(command, "Tokenizer for a corpus; default: that of the run, or word.")


def reads_beside_model(command: Callable[..., None]) -> Callable[..., None]:
    return reads(
        command, "Tokenizer file (.json, .tiktoken, .bin) for the corpus; default: that of the model."
    )


def _reading_options(
    tokenizer: Annotated[
        str,
        words("word, word-lower, word-punct, character, byte, or a file: tokenizer.json, .tiktoken or .bin."),
    ] = "word",
    column: Annotated[str | None, words("Column or field that contains the documents.")] = None,
    documents: Annotated[
        str, words("What a document is in plain text: the whole file (file) or each line (line).")
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
        max_bytes=max_document << 20,  # from megabytes
        skip_bad=skip_bad,
        format=format,
    )
    return {"tokenizer": tokenizer, "reading": reading}
