"""``attomaton heads``: what explains where the heads of a trained model look."""

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.base.errors import MismatchedParts, SameWeights, UnsupportedOption, needing
from attomaton.base.options import show as show_value
from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_value, stages, warnings_as_lines
from attomaton.cli.sources import CorpusArgument, CorpusOptions, reads_beside_model
from attomaton.cli.stopping import resumable
from attomaton.cli.values import path_option, whole, words, words_argument

if TYPE_CHECKING:
    from attomaton.corpora.documents import Documents
    from attomaton.heads.audit.steps import ModelStep
    from attomaton.heads.model import Head, HeadModel


THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""Variables that keep threads from spinning: fits of heads solve small systems, where a second thread of
OpenBLAS only waits."""

LAYERS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)
"""A layer, or a range of layers."""


@reads_beside_model
def heads(
    models: Annotated[
        list[str],
        words_argument(
            "A folder with config.json and safetensors files, a GGUF file, a hub id, or a run of attomaton; "
            "or several checkpoints of one training, such as run/checkpoint-*."
        ),
    ],
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    revision: Annotated[
        list[str] | None,
        words("Commit, branch or tag of a hub model. Give it several times to audit a series."),
    ] = None,
    steps: Annotated[
        int | None, whole("Audit at most this many checkpoints, evenly spaced.", least=1)
    ] = None,
    window: Annotated[
        int, whole("Positions of each attention row, including the query's own.", least=2)
    ] = 32,
    per_document: Annotated[int, whole("Positions to sample from each document.", least=1)] = 20,
    longest: Annotated[int, whole("Longest context, in tokens.", least=3)] = 256,
    rows: Annotated[
        int,
        whole("Attention rows for the ladder and for pairs, at most; next-token seeking uses all.", least=16),
    ] = 2_400,
    random: Annotated[int, whole("Number of models with random heads to compare with.", most=100)] = 2,
    causal: Annotated[
        str, words("Causal value of none, all, or the top ten heads by |z| of next-token seeking.")
    ] = "none",
    length: Annotated[int, whole("Length of the contexts for causal value.", least=2)] = 64,
    contexts: Annotated[int, whole("Number of contexts for causal value, at most.", least=8)] = 64,
    theory: Annotated[
        bool, typer.Option("--theory", help="Add the rungs of the theory: automaton, shrink and utility.")
    ] = False,
    layers: Annotated[
        str | None, words("Audit the heads of these layers only, such as 17 or 4,10-12.")
    ] = None,
    heads: Annotated[str | None, words("Audit these heads only, such as 17.5 or 17.5,L18H6.")] = None,
    limit: Annotated[
        int | None, whole("Audit on the first documents only, at most this many.", least=1)
    ] = None,
    show: Annotated[
        str | None, words("Show contexts of this head instead of an audit, such as 4.0 or L4H0.")
    ] = None,
    examples: Annotated[int, whole("Number of contexts to show with --show.", least=1)] = 5,
    seed: Annotated[int, whole("Random seed.")] = 0,
    out: Annotated[Path | None, path_option("Parquet file for the table.")] = None,
    figure: Annotated[
        Path | None, path_option("File for the figure, such as heads.pdf or heads.png.")
    ] = None,
    page: Annotated[
        Path | None, path_option("HTML file with a map of the heads, their ladders and contexts.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Audit all heads of MODELS: what explains where each looks on CORPUS; whether it seeks the next token.

    Several models, named after their steps as in checkpoint-100, are audited on the same contexts. Text is
    tokenised with tokenizer.json beside the model or on the hub, the tokenizer in a GGUF file, the vocabulary
    of a run, or --tokenizer (also .tiktoken files and .bin files of llama2.c). With --out, finished layers
    are kept beside it until the end: the same command goes on there if it was stopped.
    """
    for name, value in THREADS.items():  # read when numpy and torch are imported
        os.environ.setdefault(name, value)
    with needing("heads", "heads"):
        from attomaton.heads.audit.planning import AuditSettings

    settings = AuditSettings(window, per_document, longest, rows, length=length, contexts=contexts, seed=seed)
    shown = None if show is None else parse_heads("--show", show)[0]
    chosen_layers = None if layers is None else parse_layers(layers)
    chosen_heads = None if heads is None else parse_heads("--heads", heads)
    _check_audit_targets(out, figure, page, show)
    if shown is not None and (layers or heads):
        raise UnsupportedOption("--show shows one head; leave --layers and --heads out")
    keeps = out is not None and shown is None and str(out) != "-"
    work = out.with_name(f"{out.name}.partial") if out is not None and keeps else None
    with resumable(work is not None), stages(quiet) as announce, warnings_as_lines(SameWeights):
        announce("reading")
        on_hub = bool(revision)
        models_given = find_models(models, revisions=tuple(revision or ()), steps=steps)
        if page is not None and models_given[1:]:
            raise UnsupportedOption("--page shows one model; leave it out, or give one model")
        last = models_given[-1].open()  # says what is wrong with the model before the corpus is read
        documents = read_documents(models_given, corpus, corpus_options, limit=limit, on_hub=on_hub)
        options: Any = {"theory": theory, "settings": settings, "progress": announce, "limit": limit}
        if shown is None:
            options |= {"random": random, "causal": causal}
            options |= {"layers": chosen_layers, "heads": chosen_heads}
            value = _audit(models_given, last, documents, options, out, work)
        else:
            value = _show(models_given, last, documents, shown, options | {"examples": examples})
        _write_files(value, out, figure, page)
        if work is not None:
            from attomaton.heads.audit.course import remove_finished

            remove_finished(work)
    if as_json:
        table: Any = value.table()
        paths = {
            name: path and str(path) for name, path in (("out", out), ("figure", figure), ("page", page))
        }
        names = None if chosen_heads is None else list(map(str, chosen_heads))
        about = {"model": last.name, "layers": chosen_layers, "heads": names, "limit": limit}
        print_json({**about, "rows": _finite(table.to_pylist()), **paths})
    elif not quiet:
        print_value(value)
        for path in (out, figure, page):
            if path is not None:
                print_line(f"Written to {path}.")


def _audit(
    models: "Sequence[ModelStep]",
    last: "HeadModel",
    documents: "Documents",
    options: dict[str, Any],
    out: Path | None,
    work: Path | None,
) -> Any:
    """The audit of one model, or of the steps of a training; if stopped, a table of what is finished."""
    from attomaton.heads.audit.course import audit_course, read_finished_steps
    from attomaton.heads.audit.heads import audit_heads

    anew = work is not None and not work.exists()
    is_whole = anew and out is not None and out.exists()  # an earlier audit that was not stopped
    try:
        if len(models) > 1:
            return audit_course(models, documents, work=work, **options)
        return audit_heads(last, documents, work=work, **options)
    except KeyboardInterrupt as stop:
        finished = None if work is None else read_finished_steps(work)
        if is_whole:
            stop.args = (f"{out} still contains the earlier audit.",)
        elif finished is not None:
            _write_files(finished, out)
            stop.args = (f"{out} contains the finished part: {finished!r}.",)
        raise


def _show(
    models: "Sequence[ModelStep]",
    last: "HeadModel",
    documents: "Documents",
    head: "Head",
    options: dict[str, Any],
) -> Any:
    from attomaton.heads.audit.contexts import show_head

    if len(models) > 1:
        raise UnsupportedOption("--show shows contexts of one model; leave it out, or give one model")
    return show_head(last, documents, head, **options)


def parse_heads(option: str, text: str) -> "list[Head]":
    """Heads as they are written, with commas between them: 4.0 or L4H0."""
    from attomaton.heads.model import Head

    try:
        return [Head.of(name) for name in text.split(",")]
    except MismatchedParts as error:
        raise UnsupportedOption(f"{option}: {error}") from error


def parse_layers(text: str) -> list[int]:
    """Layers as they are written: numbers and ranges, with commas between them."""
    numbers = set[int]()
    for part in text.split(","):
        ends = LAYERS.fullmatch(part.strip())
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise UnsupportedOption(
                f"--layers: {show_value(part)} is not a layer or a range of layers; give numbers such as "
                "4,10-12"
            )
        numbers.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return sorted(numbers)


def _check_audit_targets(out: Path | None, figure: Path | None, page: Path | None, show: str | None) -> None:
    """Say at once why a file cannot be written: before the audit, not after."""
    from attomaton.base.artifacts import check_target, is_parquet
    from attomaton.base.pages import is_page
    from attomaton.report.figures import check_figure

    if out is not None:
        check_target(out, is_ours=is_parquet)
    if show is not None and (figure is not None or page is not None):
        raise UnsupportedOption("--figure and --page draw all heads; leave --show out")
    if figure is not None:
        check_figure(figure)
    if page is not None:
        check_target(page, is_ours=is_page)


def _write_files(value: Any, out: Path | None, figure: Path | None = None, page: Path | None = None) -> None:
    if out is not None:
        from attomaton.heads.audit.saved import write_saved

        getattr(value, "save", partial(write_saved, value.table()))(out)
    if page is not None:
        value.page(page)
    if figure is None:
        return
    from attomaton.base.drawing import paper_style
    from attomaton.report.figures import write_figure

    with paper_style():
        axes: Any = value.plot()
        write_figure(axes.figure if hasattr(axes, "figure") else axes[0].figure, figure)


def _finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which what is not finite is null, for JSON."""
    from math import isfinite

    return [
        {name: None if isinstance(cell, float) and not isfinite(cell) else cell for name, cell in row.items()}
        for row in rows
    ]


def find_models(
    sources: Sequence[str], *, revisions: Sequence[str] = (), steps: int | None = None
) -> "tuple[ModelStep, ...]":
    """What the arguments name: one model, as it is, or the steps of a training; none is opened."""
    from attomaton.heads.audit.steps import ModelStep, expand_globs, find_revisions, find_steps, spread
    from attomaton.heads.opening import open_model

    if revisions:
        if len(sources) != 1:
            raise UnsupportedOption("--revision is for one model of the hub; leave it out, or give one model")
        series = find_revisions(sources[0], revisions)
        return series if steps is None else spread(series, steps)
    names = expand_globs(sources)
    for missing in (name for name in names if not Path(name).exists()):
        open_model(missing)  # says what is missing, before the corpus is read
    if len(names) == 1 and steps is None:
        return (ModelStep(0, names[0], partial(open_model, names[0])),)
    return find_steps(names, most=steps)


def read_documents(
    models: "Sequence[ModelStep]",
    corpus: str,
    corpus_options: "CorpusOptions",
    *,
    limit: int | None = None,
    on_hub: bool,
) -> "Documents":
    """The corpus as ids of the models."""
    from attomaton.heads.texts import read_for

    read: Any = read_for(
        [model.name for model in models],
        corpus,
        tokenizer=corpus_options.tokenizer,
        reading=corpus_options.reading,
        limit=limit,
        on_hub=on_hub,
    )
    return read
