"""``attomaton begin``: what every layer of a deep attention model learns first from a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attomaton.base.printing import count_noun
from attomaton.cli import output
from attomaton.cli.progress import stages
from attomaton.cli.sources import CorpusArgument, CorpusOptions, Master, Memory, Threads, reads
from attomaton.cli.stopping import resumable
from attomaton.cli.values import check_folder, path_option, read_queries, real, whole, words

if TYPE_CHECKING:
    from attomaton.theories.beginning.result import Beginning


@reads
def begin(
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    window: Annotated[int, whole("Tokens in a sequence; each predicts the next token.", least=1)] = 32,
    most_frequent: Annotated[
        int | None, whole("Number of most frequent tokens to keep; others become <rest>.", least=1)
    ] = None,
    queries: Annotated[
        str | None, words("Queries to print, separated by spaces, or a number k for the k most frequent.")
    ] = None,
    step_size: Annotated[
        float | None,
        real(
            "Step size of training; prints up to which step the error bounds of the theorem apply.",
            sign="> 0",
            least=1e-12,
            most=1e6,
        ),
    ] = None,
    layers: Annotated[int, whole("Number of layers of the model; used with --step-size.", least=1)] = 1,
    engine: Annotated[
        str, words("auto, memory, duckdb (bounded memory, resumable in --work), or spark.")
    ] = "auto",
    memory: Memory = None,
    threads: Threads = None,
    master: Master = None,
    work: Annotated[
        Path | None, path_option("Folder for files of duckdb or spark, from which a stopped command resumes.")
    ] = None,
    out: Annotated[Path | None, path_option("Folder for the statistics.")] = None,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Compute which tokens each query of a deep model attends to first in training, and how far back."""
    from attomaton.engines.choose import Engine
    from attomaton.theories.beginning.begin import begin as begin_with
    from attomaton.theories.beginning.result import BEGINNING, tell_beginning

    check_folder(out, BEGINNING, overwrite=overwrite)
    chosen = read_queries(queries)
    can_resume = engine in ("duckdb", "spark") and work is not None and corpus != "-"
    with resumable(can_resume), stages(quiet) as announce:
        beginning = begin_with(
            corpus,
            most_frequent=most_frequent,
            engine=Engine(engine, memory, threads, master),
            work=work,
            progress=announce,
            window=window,
            **corpus_options,
        )
        shown = _choose_queries(beginning, chosen)
        bounds: dict[str, Any] = {"valid_until": None, "missing": None}
        if step_size is not None:
            setting = beginning.weights_at(0, step_size, n_layers=layers).setting
            bounds = {"valid_until": setting.valid_until, "missing": list(setting.missing)}
        record = {**beginning.to_dict(shown), "step_size": step_size, "layers": layers, **bounds}
        if out is not None:
            announce("writing")
            beginning.save(out, overwrite=overwrite)
    if as_json:
        output.print_json({**record, **output.path_texts(out=out)})
    elif not quiet:
        output.print_blocks(tell_beginning(beginning, shown))
        if bounds["missing"]:
            output.print_line(
                f"The error bounds of the theorem do not apply: {'; '.join(bounds['missing'])}."
            )
        elif step_size is not None:
            output.print_line(
                f"With step size {step_size:g}, the theorem's error bounds apply up to step "
                f"{bounds['valid_until']:,} ({count_noun(layers, 'layer')})."
            )
        output.print_written(out)


def _choose_queries(beginning: "Beginning", queries: list[str] | int | None) -> list[Any] | None:
    # the queries to print: the first ones (None), the most frequent, or those that are named, by their ids if
    # there is no vocabulary
    if queries is None:
        return None
    if isinstance(queries, int):
        return beginning.queries[:queries].tolist()
    named = beginning.vocabulary is not None
    return [query if named or not query.isdecimal() else int(query) for query in queries]
