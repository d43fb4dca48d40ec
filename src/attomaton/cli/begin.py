"""``attomaton begin``: what every layer of a deep attention model learns first from a corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attomaton.cli import output
from attomaton.cli.sources import CorpusArgument, CorpusOptions, Master, Memory, Threads, reads
from attomaton.cli.stopping import resumable
from attomaton.cli.values import check_folder, path_option, read_queries, real, whole, words

if TYPE_CHECKING:
    from attomaton.theories.beginning.result import Beginning


@reads
def begin(
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    window: Annotated[int, whole("Tokens per sequence; each predicts the next one.", least=1)] = 32,
    most_frequent: Annotated[
        int | None, whole("Keep this many tokens, the most frequent ones; all others become <rest>.", least=1)
    ] = None,
    queries: Annotated[
        str | None, words("Queries to print, separated by spaces; a number k prints the k most frequent.")
    ] = None,
    step_size: Annotated[
        float | None,
        real(
            "Step size, for which the last step that the theorem covers is printed.",
            sign="> 0",
            least=1e-12,
            most=1e6,
        ),
    ] = None,
    layers: Annotated[int, whole("Number of layers of the model, for --step-size.", least=1)] = 1,
    engine: Annotated[
        str, words("auto, memory, duckdb (bounded memory, resumable in --work), or spark.")
    ] = "auto",
    memory: Memory = None,
    threads: Threads = None,
    master: Master = None,
    work: Annotated[
        Path | None,
        path_option("Folder for intermediate files of duckdb or spark; a later command resumes from it."),
    ] = None,
    out: Annotated[Path | None, path_option("Folder for the statistics.")] = None,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Compute what each query attends to first, and how far back, when a deep model starts training."""
    from attomaton.engines.choose import Engine
    from attomaton.theories.beginning.begin import begin as begin_with
    from attomaton.theories.beginning.result import BEGINNING, tell_beginning

    check_folder(out, BEGINNING, overwrite=overwrite)
    chosen = read_queries(queries)
    goes_on = engine in ("duckdb", "spark") and work is not None and corpus != "-"
    with resumable(goes_on), output.stages(quiet) as announce:
        beginning = begin_with(
            corpus,
            most_frequent=most_frequent,
            engine=Engine(engine, memory, threads, master),
            work=work,
            progress=announce,
            window=window,
            tokenizer=corpus_options.tokenizer,
            reading=corpus_options.reading,
        )
        shown = _choose(beginning, chosen)
        promise: dict[str, Any] = {"valid_until": None, "missing": None}
        if step_size is not None:
            setting = beginning.weights_at(0, step_size, n_layers=layers).setting
            promise = {"valid_until": setting.valid_until, "missing": list(setting.missing)}
        record = {**beginning.to_dict(shown), "step_size": step_size, "layers": layers, **promise}
        if out is not None:
            announce("writing")
            beginning.save(out, overwrite=overwrite)
    if as_json:
        output.print_json({**record, "out": None if out is None else str(out)})
    elif not quiet:
        output.print_blocks(tell_beginning(beginning, shown))
        if promise["missing"]:
            output.print_line(
                f"The theorem does not promise its bounds here: {'; '.join(promise['missing'])}."
            )
        elif step_size is not None:
            output.print_line(
                f"With steps of {step_size:g} the theorem's bounds hold up to step "
                f"{promise['valid_until']:,} ({layers} layer{'s' * (layers > 1)})."
            )
        if out is not None:
            output.print_line(f"Written to {out}.")


def _choose(beginning: "Beginning", queries: list[str] | int | None) -> list[Any] | None:
    """The queries that are meant: by name, by id where there are no names, or how many."""
    if queries is None:
        return None
    if isinstance(queries, int):
        return beginning.queries[:queries].tolist()
    named = beginning.vocabulary is not None
    return [query if named or not query.isdecimal() else int(query) for query in queries]
