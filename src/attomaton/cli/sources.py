"""What every command that reads a corpus takes: the corpus, and the options that say how it is read.

A command has an argument ``corpus: Corpus`` and a parameter ``how: How``, in whose place :func:`reads` puts
the options; ``corpus_options`` then holds what they say::

    @reads
    def learn(corpus: Corpus, how: How, window: Window = 32) -> None: ...
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.base.options import MOST_THREADS
from attomaton.cli.output import counting_skipped
from attomaton.cli.values import source_argument, whole, words

if TYPE_CHECKING:
    from attomaton.corpora.readers.batches import Reading

MOST_MEGABYTES = 1 << 20  # megabytes that one document may be allowed: a terabyte
CorpusArgument = Annotated[
    str,
    source_argument(
        "A .txt, .md, .log, .jsonl, .json, .csv, .tsv, .parquet or other file, folder, glob, URL, or "
        "tokenised folder; - for standard input."
    ),
]
WindowOption = Annotated[int, whole("Longest context, in tokens.", least=1)]
Memory = Annotated[
    str | None,
    words(
        "Memory in which duckdb merges, such as 2GB; reading and solving take about 0.6 GB more. "
        "Default: 60 % of the machine's."
    ),
]
Threads = Annotated[
    int | None,
    whole("Threads of duckdb and local spark; default: all processors.", least=1, most=MOST_THREADS),
]
Master = Annotated[
    str | None, words("Address of the spark cluster, such as spark://host:7077; default: this machine.")
]


@dataclass(frozen=True)
class CorpusOptions:
    """How a corpus is read: the tokenizer (None: that of a run, where a command has one), and all else."""

    tokenizer: Any
    reading: "Reading"


def reads(command: Callable[..., None], tokenizer: str | None = None) -> Callable[..., None]:
    """Give a command the options of :func:`_reading_options` in place of its parameter ``corpus_options``.

    ``tokenizer`` is the help of that option where something else says which reads the corpus by default.
    """
    shared = list(inspect.signature(_reading_options).parameters.values())
    if tokenizer is not None:
        shared[0] = shared[0].replace(default=None, annotation=Annotated[str | None, words(tokenizer)])
    declared = list(inspect.signature(command).parameters.values())
    at = [parameter.name for parameter in declared].index("corpus_options")
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*declared[:at], *shared, *declared[at + 1 :])
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
    """Add the options of :func:`reads` to a command with a run, whose tokenizer is the default."""
    return reads(command, "Tokenizer of the corpus; default: that of the run, or word.")


def reads_beside_model(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of :func:`reads` to a command with a model, whose tokenizer is the default."""
    return reads(
        command, "Tokenizer of the text, such as tok512.bin; default: tokenizer.json beside the model."
    )


def _reading_options(
    tokenizer: Annotated[
        str,
        words("word, word-lower, word-punct, character, byte, or a tokenizer.json, .tiktoken or .bin file."),
    ] = "word",
    column: Annotated[str | None, words("Field or column with the documents.")] = None,
    documents: Annotated[
        str, words("One document per file (file) or per line (line) of plain text.")
    ] = "file",
    format: Annotated[  # noqa: A002  the name of the option
        str | None, words("Read files or standard input as this format: txt, jsonl, json, csv or another.")
    ] = None,
    separator: Annotated[int | None, whole("Token id that ends a document in .npy and .bin files.")] = None,
    dtype: Annotated[
        str, words("Type of token ids in .bin files: uint16, uint32, int32 or int64.")
    ] = "uint16",
    max_document: Annotated[int, whole("Longest document, in megabytes.", least=1, most=MOST_MEGABYTES)] = 64,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count bad documents.")] = False,
) -> CorpusOptions:
    """The options, and what they say."""
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
