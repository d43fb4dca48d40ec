"""``attomaton tokenize``: a corpus to Parquet shards of token ids; a stopped command resumes."""

from pathlib import Path
from typing import Annotated

from attomaton.base.options import MOST_THREADS
from attomaton.cli import output
from attomaton.cli.progress import stages
from attomaton.cli.sources import CorpusArgument, CorpusOptions, reads
from attomaton.cli.stopping import resumable
from attomaton.cli.values import path_option, whole


# `reads` replaces `corpus_options` by the options that say how a corpus is read (--tokenizer, --column, …),
# and passes their values as one object.
@reads
def tokenize(
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    out: Annotated[Path, path_option("Folder for the shards.")],
    workers: Annotated[int, whole("Number of processes.", least=1, most=MOST_THREADS)] = 1,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Tokenise CORPUS into Parquet shards of token ids; a stopped command resumes."""
    # imported when the command runs, so that --help and other commands start faster
    from attomaton.corpora.readers.corpus import warn_of_skipped
    from attomaton.corpora.readers.tokenize import tokenize_corpus

    can_resume = corpus != "-"  # standard input cannot be read a second time
    with resumable(can_resume), stages(quiet) as announce:
        announce("tokenising")
        tokens = tokenize_corpus(
            corpus,
            out,
            **corpus_options,
            workers=workers,
            overwrite=overwrite,
            progress=announce.advance,
        )
        warn_of_skipped(tokens.skipped)
    record = {
        "documents": tokens.n_documents,
        "tokens": tokens.length,
        "vocabulary": tokens.n_tokens,
        "shards": len(tokens.shards),
        "out": str(out),
    }
    if as_json:
        output.print_json(record)
    elif not quiet:
        names = ("documents", "tokens", "vocabulary", "shards")
        output.print_table("Tokenised", ["", ""], [(name, f"{record[name]:,}") for name in names])
        output.print_written(out)
