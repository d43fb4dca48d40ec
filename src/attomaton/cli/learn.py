"""``attomaton learn``: from a corpus to the automaton, with a coverage report."""

# Without `--writes`, the head writes the token that it reads, as in the theorem.

import shlex
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli import output
from attomaton.cli.progress import stages
from attomaton.cli.sources import CorpusArgument, CorpusOptions, Master, Memory, Threads, WindowOption, reads
from attomaton.cli.stopping import resumable
from attomaton.cli.values import fraction, read_queries, run_option, whole, words

if TYPE_CHECKING:
    from attomaton.automaton.automaton import Automaton
    from attomaton.automaton.ov_maps.automaton import WritingAutomaton

# Field of `Answered` → what it means.
RULE_MEANINGS = {
    "determined": "the theorem decides",
    "unseen_ignored": "the theorem decides among the tokens with evidence",
    "incomparable": "no component precedes all others; the hard score decides",
    "no_evidence": "no token has evidence under the query",
}


@reads
def learn(
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    window: WindowOption = 32,
    engine: Annotated[
        str, words("auto, memory, duckdb (bounded memory, resumable in --out), or spark.")
    ] = "auto",
    memory: Memory = None,
    threads: Threads = None,
    master: Master = None,
    writes: Annotated[
        str | None,
        words(
            "Token that the head writes where it reads a token: identity (that token; default), successor "
            "(the most frequent next token), identity+successor, or a JSON file that maps tokens to tokens."
        ),
    ] = None,
    min_support: Annotated[int, whole("Minimum number of samples of an edge.", least=1)] = 1,
    queries: Annotated[
        str | None,
        words("Queries to keep, separated by spaces, or a number k for the k queries with the most samples."),
    ] = None,
    sample_queries: Annotated[
        float, fraction("Keep this share of the queries, chosen by a hash; their results are exact.")
    ] = 1.0,
    max_window: Annotated[
        int | None, whole("Cut longer contexts to this number of last tokens.", least=1)
    ] = None,
    out: Annotated[
        Any | None,
        run_option(
            "Folder for the run: a path, or a URL such as s3://bucket/run. It must be new or empty; "
            "with --overwrite it may be an earlier run."
        ),
    ] = None,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Compute the attention layer that training on CORPUS converges to, and how much the theory covers."""
    # imported when the command runs, so that `attomaton --help` needs none of the library
    from attomaton.automaton.automaton import Automaton
    from attomaton.automaton.learning import learn as learn_automaton
    from attomaton.automaton.ov_maps.maps import IDENTITY_MAP, NAMED_MAPS, read_map
    from attomaton.automaton.suggestion import suggest_context
    from attomaton.base.errors import NothingRealisable, UnsupportedOption
    from attomaton.engines.choose import Engine, as_engine
    from attomaton.engines.selection import Selection

    resumes = engine in ("duckdb", "spark") and isinstance(out, Path) and corpus != "-"
    with resumable(resumes), stages(quiet) as announce, warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingRealisable)  # the coverage report says so
        options: dict[str, Any] = {
            **corpus_options,
            "keep": Selection(window, max_window, min_support, read_queries(queries), sample_queries),
        }
        options |= {"out": out, "overwrite": overwrite, "progress": announce}
        chosen_engine = as_engine(Engine(engine, memory, threads, master))
        if writes is None or writes == IDENTITY_MAP:
            automaton = learn_automaton(corpus, engine=chosen_engine, **options)
        elif chosen_engine.on_disk:
            raise UnsupportedOption(
                f"--writes works only in memory, and the engine {engine} works on disk; leave --engine out, "
                "or leave --writes out"
            )
        else:
            from attomaton.automaton.ov_maps.learning import learn_writing

            mapping: Any = writes if writes in NAMED_MAPS else read_map(writes)
            automaton = learn_writing(corpus, mapping, threads=threads, **options)
        answered = dict[str, Any]()
        context = None  # to suggest in an example of `attomaton explain`
        if as_json or not quiet:
            announce("measuring the coverage")
            answered = _measure_answered(automaton)
            if not as_json and out is not None and isinstance(automaton, Automaton):
                context = suggest_context(automaton)
    if as_json:
        note = {"note": automaton.coverage.note or None}
        output.print_json({**automaton.coverage.to_dict(), **answered, **note, **output.path_texts(out=out)})
    elif not quiet:
        output.print_value(automaton.coverage)
        _print_answered(answered)
        output.print_written(out)
        if context is not None:
            output.print_line("Try:")
            output.print_text(f"attomaton explain {shlex.quote(str(out))} {shlex.quote(context)}")
    if "uncertified" in (automaton.coverage.hard["status"], automaton.coverage.soft["status"]):
        raise typer.Exit(1)


# The shares of contexts that each rule answers, on the corpus and on a held-out tenth; None if the
# samples are not in memory, or if the theorem is not about this automaton.
def _measure_answered(automaton: "Automaton | WritingAutomaton") -> dict[str, Any]:
    from attomaton.automaton.answered import measure_answered, measure_held_out
    from attomaton.automaton.automaton import Automaton

    if not isinstance(automaton, Automaton) or automaton.samples is None or not len(automaton.samples):
        return {"answered": None, "held_out": None}
    samples = automaton.samples
    held_out = None if automaton.embedded else measure_held_out(samples)
    on_corpus = asdict(measure_answered(automaton, samples))
    return {"answered": on_corpus, "held_out": None if held_out is None else asdict(held_out)}


def _print_answered(shares: dict[str, Any]) -> None:
    on_corpus, held_out = shares["answered"], shares["held_out"]
    if on_corpus is None:
        return
    rows = [
        (meaning, f"{on_corpus[name]:.1%}", "not measured" if held_out is None else f"{held_out[name]:.1%}")
        for name, meaning in RULE_MEANINGS.items()
    ]
    output.print_table("How contexts are answered", ["", "contexts of the corpus", "a held-out tenth"], rows)
