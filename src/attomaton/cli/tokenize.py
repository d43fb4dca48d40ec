"""``attomaton tokenize``: a corpus to Parquet shards of token ids, once; it can be killed and run again."""

from pathlib import Path
from typing import Annotated

import typer

from attomaton.cli.output import AsJson, Overwrite, Quiet, print_json, print_line, print_table, stages
from attomaton.cli.values import place, source_argument, whole, words
from attomaton.options import MOST_THREADS

MOST_MEGABYTES = 1 << 20
"""Megabytes that one document may be allowed: a terabyte."""


def tokenize(
    corpus: Annotated[str, source_argument("A file, folder, glob or URL; - for text from standard input.")],
    out: Annotated[Path, place("Folder to write the shards to.")],
    tokenizer: Annotated[
        str, words("word, character, byte, or a tokenizer.json or .tiktoken file.")
    ] = "word",
    column: Annotated[str | None, words("Field or column that holds the documents.")] = None,
    documents: Annotated[
        str, words("Whether a .txt holds one document (file) or one on each line (line).")
    ] = "file",
    separator: Annotated[int | None, whole("The id that ends a document in .npy and .bin files.")] = None,
    dtype: Annotated[str, words("Type of the ids in .bin files: uint16, uint32, int32 or int64.")] = "uint16",
    max_document: Annotated[int, whole("Longest document, in megabytes.", least=1, most=MOST_MEGABYTES)] = 64,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count bad documents.")] = False,
    workers: Annotated[int, whole("Number of processes.", least=1, most=MOST_THREADS)] = 1,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tokenise CORPUS to Parquet shards; a run that was stopped continues where it stopped."""
    from attomaton.readers.batches import Reading
    from attomaton.readers.tokenize import tokenize_corpus

    reading = Reading(
        column=column,
        documents=documents,
        separator=separator,
        dtype=dtype,
        max_bytes=max_document << 20,
        skip_bad=skip_bad,
    )
    with stages(quiet or as_json) as announce:
        announce("tokenizing")
        tokens = tokenize_corpus(
            corpus,
            out,
            tokenizer=tokenizer,
            reading=reading,
            workers=workers,
            overwrite=overwrite,
            progress=announce.advance,
        )
    record = {
        "documents": tokens.n_documents,
        "tokens": tokens.length,
        "vocabulary": tokens.n_tokens,
        "shards": len(tokens.shards),
        "skipped": tokens.skipped.count,
        "first_skipped": tokens.skipped.first,
        "out": str(out),
    }
    if as_json:
        print_json(record)
    elif not quiet:
        names = ("documents", "tokens", "vocabulary", "shards", "skipped")
        print_table("Tokenised", ["", ""], [(name, f"{record[name]:,}") for name in names])
        if tokens.skipped.first is not None:
            print_line(f"The first that was skipped: {tokens.skipped.first}")
        print_line(f"Written to {out}.")
