"""``attomaton learn``: from a text to the automaton, with its coverage report."""

import shlex
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.output import AsJson, Overwrite, Quiet, print_json, print_line, print_value, stages
from attomaton.cli.sources import Corpus, How, Window, reads
from attomaton.cli.values import fraction, place, read_queries, whole, words
from attomaton.options import MOST_THREADS

if TYPE_CHECKING:
    from attomaton.automaton.automaton import Automaton


@reads
def learn(
    corpus: Corpus,
    how: How,
    window: Window = 32,
    engine: Annotated[
        str, words("auto, memory, duckdb (bounded memory, resumable in --out), or spark.")
    ] = "auto",
    memory: Annotated[
        str | None, words("Memory that duckdb may use, such as 2GB; by default 60 % of the machine's.")
    ] = None,
    threads: Annotated[
        int | None,
        whole(
            "Threads of duckdb and of a local spark; by default all processors.", least=1, most=MOST_THREADS
        ),
    ] = None,
    master: Annotated[
        str | None, words("Where spark runs, such as spark://host:7077; by default on this machine.")
    ] = None,
    min_support: Annotated[int, whole("Least number of samples that must show an edge.", least=1)] = 1,
    queries: Annotated[
        str | None,
        words("Only these queries, separated by blanks; a number k keeps the k with the most samples."),
    ] = None,
    sample_queries: Annotated[
        float, fraction("Keep this share of the queries, chosen by a hash; what is kept is exact.")
    ] = 1.0,
    max_window: Annotated[
        int | None, whole("Keep only this number of tokens, the last ones, of a context.", least=1)
    ] = None,
    out: Annotated[
        Path | None, place("Folder to write the run to; it must be new or empty, or hold a run to overwrite.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute what attention must learn from CORPUS, and report how much of it the theory covers."""
    from attomaton.errors import NothingRealisable
    from attomaton.pipeline import learn as learn_automaton

    with stages(quiet or as_json) as announce, warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingRealisable)  # the report says it
        automaton = learn_automaton(
            corpus,
            window=window,
            tokenizer=how.tokenizer,
            reading=how.reading,
            engine=engine,
            min_support=min_support,
            queries=read_queries(queries),
            sample_queries=sample_queries,
            max_window=max_window,
            memory=memory,
            threads=threads,
            master=master,
            out=out,
            overwrite=overwrite,
            progress=announce,
        )
    if as_json:
        told = {"note": automaton.coverage.note or None, "out": None if out is None else str(out)}
        print_json({**automaton.coverage.to_dict(), **told})
    elif not quiet:
        print_value(automaton.coverage)
        if out is not None:
            print_line(f"Written to {out}.{_suggestion(automaton, out)}")
    if "uncertified" in (automaton.coverage.hard["status"], automaton.coverage.soft["status"]):
        raise typer.Exit(1)


def _suggestion(automaton: "Automaton", out: Path) -> str:
    """A command to try next, with tokens that compete under one query as its context."""
    from attomaton.corpora.tokenizers.splitting import EOS
    from attomaton.display import LONGEST_WORD

    edges = automaton.components.edges
    if not len(edges):
        return ""
    best = int(edges["support"].argmax())
    tokens = [int(edges[name][best]) for name in ("loser", "winner", "query")]
    competing = [[*one.tokens[:2], one.query] for one in automaton.coverage.largest]
    worded = [one for one in competing if EOS not in map(automaton.name, one)]  # line ends say little
    tokens = next(iter(worded or competing), tokens)
    context = " ".join(map(automaton.name, tokens))
    if len(context) > LONGEST_WORD:
        return ""  # nobody types it
    return f" Try: attomaton explain {shlex.quote(str(out))} {shlex.quote(context)}"
