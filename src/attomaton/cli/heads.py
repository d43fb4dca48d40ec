"""``attomaton heads``: what explains where the attention heads of a trained model look."""

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.base.errors import MismatchedParts, SameWeights, UnsupportedOption, needing
from attomaton.base.options import show as show_value
from attomaton.cli.messages import warnings_as_lines
from attomaton.cli.output import AsJson, Quiet, path_texts, print_json, print_value, print_written
from attomaton.cli.progress import stages
from attomaton.cli.sources import CorpusArgument, CorpusOptions, reads_beside_model
from attomaton.cli.stopping import resumable
from attomaton.cli.values import check_drawings, path_option, whole, words, words_argument

if TYPE_CHECKING:
    from attomaton.corpora.documents import Documents
    from attomaton.heads.audit.steps import ModelStep
    from attomaton.heads.model import Head, HeadModel


# Environment variables that keep threads from spinning: a second thread of OpenBLAS would only wait.
THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}

LAYERS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)  # a layer, or a range of layers


@reads_beside_model
def heads(
    models: Annotated[
        list[str],
        words_argument(
            "A folder with config.json and safetensors files, a GGUF file, a hub id, or a run folder of "
            "attomaton; or several checkpoints of one training, such as run/checkpoint-*."
        ),
    ],
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    revision: Annotated[
        list[str] | None,
        words("Commit, branch or tag of a hub model; may be repeated to audit several revisions."),
    ] = None,
    steps: Annotated[
        int | None, whole("Maximum number of checkpoints to audit; they are evenly spaced.", least=1)
    ] = None,
    window: Annotated[
        int, whole("Number of positions in each attention row, including the query.", least=2)
    ] = 32,
    per_document: Annotated[int, whole("Number of positions to sample from each document.", least=1)] = 20,
    longest: Annotated[int, whole("Longest context, in tokens.", least=3)] = 256,
    rows: Annotated[
        int,
        whole("Maximum number of attention rows for the explained shares and for pairs of heads.", least=16),
    ] = 2_400,
    random: Annotated[int, whole("Number of models with random heads for comparison.", most=100)] = 2,
    causal: Annotated[
        str, words("Heads whose causal effect is measured: none, all, or top (the ten with the largest |z|).")
    ] = "none",
    length: Annotated[int, whole("Length of the contexts for --causal, in tokens.", least=2)] = 64,
    contexts: Annotated[int, whole("Maximum number of contexts for --causal.", least=8)] = 64,
    theory: Annotated[
        bool,
        typer.Option(
            "--theory", help="Also fit automaton, shrink and utility, from the theory of one layer."
        ),
    ] = False,
    layers: Annotated[
        str | None, words("Audit the heads of these layers only, such as 17 or 4,10-12.")
    ] = None,
    heads: Annotated[str | None, words("Audit these heads only, such as 17.5 or 17.5,L18H6.")] = None,
    limit: Annotated[int | None, whole("Maximum number of documents to read.", least=1)] = None,
    show: Annotated[str | None, words("Print contexts of this head, such as 4.0 or L4H0; no audit.")] = None,
    examples: Annotated[int, whole("Number of contexts that --show prints.", least=1)] = 5,
    seed: Annotated[int, whole("Random seed.")] = 0,
    out: Annotated[Path | None, path_option("Parquet file for the table of heads.")] = None,
    figure: Annotated[
        Path | None, path_option("Figure of the heads to write, such as heads.pdf or heads.png.")
    ] = None,
    page: Annotated[
        Path | None, path_option("HTML file to write: a map of the heads, with contexts.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Audit the heads of MODELS on CORPUS: what explains where they look, and which seek the next token.

    Checkpoints of one training, with names such as checkpoint-100, are audited on
    the same contexts. The tokenizer is that of the model or the run. With --out,
    finished layers are stored next to the file, and the same command resumes.
    """
    for name, value in THREADS.items():  # read when numpy and torch are imported
        os.environ.setdefault(name, value)
    # imported after that, and only when the command runs, so that `attomaton --help` needs no torch

    with needing("heads", "heads"):
        from attomaton.heads.audit.planning import AuditSettings
        from attomaton.heads.texts import read_for

    # options that are wrong, or exclude each other, are refused before a model is opened
    settings = AuditSettings(window, per_document, longest, rows, length=length, contexts=contexts, seed=seed)
    head_shown = None if show is None else parse_heads("--show", show)[0]
    chosen_layers = None if layers is None else parse_layers(layers)
    chosen_heads = None if heads is None else parse_heads("--heads", heads)
    if head_shown is not None and (layers or heads):
        raise UnsupportedOption("--show prints one head; leave --layers and --heads out, or leave --show out")
    if head_shown is not None and (figure is not None or page is not None):
        raise UnsupportedOption("--figure and --page draw all heads, and --show prints one; leave --show out")
    if out is not None:
        from attomaton.heads.audit.saved import check_saved

        check_saved(out)
    check_drawings(figure, page)
    work = None  # the folder of finished layers, from which a stopped command resumes
    if out is not None and head_shown is None and str(out) != "-":
        work = out.with_name(f"{out.name}.partial")
    with resumable(work is not None), stages(quiet) as announce, warnings_as_lines(SameWeights):
        announce("reading")
        steps_given = find_models(models, revisions=tuple(revision or ()), steps=steps)
        if page is not None and steps_given[1:]:
            raise UnsupportedOption("--page shows one model, and there are several; give one model")
        last = steps_given[-1].open()  # an error in the model comes before the corpus is read
        documents: Any = read_for(
            [step.name for step in steps_given],
            corpus,
            **corpus_options,
            limit=limit,
            on_hub=bool(revision),
        )
        options: Any = {"theory": theory, "settings": settings, "progress": announce, "limit": limit}
        if head_shown is None:
            options |= {"random": random, "causal": causal}
            options |= {"layers": chosen_layers, "heads": chosen_heads, "work": work}
            result = _audit(steps_given, last, documents, options, out)
        elif len(steps_given) > 1:
            raise UnsupportedOption(
                "--show prints contexts of one model, and there are several; give one model"
            )
        else:
            from attomaton.heads.audit.contexts import show_head

            result: Any = show_head(last, documents, head_shown, examples=examples, **options)
        _write_files(result, out, figure, page)
        if work is not None:
            from attomaton.heads.audit.course import remove_finished

            remove_finished(work)
    if as_json:
        names = None if chosen_heads is None else list(map(str, chosen_heads))
        about = {"model": last.name, "layers": chosen_layers, "heads": names, "limit": limit}
        table: Any = result.table()
        paths = path_texts(out=out, figure=figure, page=page)
        print_json({**about, "rows": _finite(table.to_pylist()), **paths})
    elif not quiet:
        print_value(result)
        print_written(out, figure, page)


# The audit of one model or of several steps. If it is stopped, its finished layers are written to `out`,
# except if they would replace an earlier audit.
def _audit(
    models: "Sequence[ModelStep]",
    last: "HeadModel",
    documents: "Documents",
    options: dict[str, Any],
    out: Path | None,
) -> Any:
    from attomaton.heads.audit.course import audit_course, read_finished_steps
    from attomaton.heads.audit.heads import audit_heads

    work = options["work"]
    is_new = work is not None and not work.exists()
    has_earlier = is_new and out is not None and out.exists()  # an earlier audit that was not stopped
    try:
        if len(models) > 1:
            return audit_course(models, documents, **options)
        return audit_heads(last, documents, **options)
    except KeyboardInterrupt as stop:
        finished = None if work is None else read_finished_steps(work)
        if has_earlier:
            stop.args = (f"{out} still contains the earlier audit.",)
        elif finished is not None:
            _write_files(finished, out)
            stop.args = (f"{out} contains the finished layers: {finished!r}.",)
        raise


def parse_heads(option: str, text: str) -> "list[Head]":
    from attomaton.heads.model import Head

    try:
        return [Head.of(name) for name in text.split(",")]
    except MismatchedParts as error:
        raise UnsupportedOption(f"{option}: {error}") from error


def parse_layers(text: str) -> list[int]:
    # "4,10-12" → [4, 10, 11, 12]
    layers = set[int]()
    for entry in text.split(","):
        ends = LAYERS.fullmatch(entry.strip())
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise UnsupportedOption(
                f"--layers: {show_value(entry)} is not a layer or a range of layers; give numbers such as "
                "4,10-12"
            )
        layers.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return sorted(layers)


def _write_files(value: Any, out: Path | None, figure: Path | None = None, page: Path | None = None) -> None:
    # `value` is an audit, a course, or the contexts of one head; the contexts have a table, but no save
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


# JSON has no NaN and no infinity: null instead.
def _finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from math import isfinite

    return [
        {name: None if isinstance(cell, float) and not isfinite(cell) else cell for name, cell in row.items()}
        for row in rows
    ]


def find_models(
    sources: Sequence[str], *, revisions: Sequence[str] = (), steps: int | None = None
) -> "tuple[ModelStep, ...]":
    from attomaton.heads.audit.steps import ModelStep, expand_globs, find_revisions, find_steps, spread
    from attomaton.heads.opening import open_model

    if revisions:
        if len(sources) != 1:
            raise UnsupportedOption("--revision works only with one model of the hub; give one model")
        series = find_revisions(sources[0], revisions)
        return series if steps is None else spread(series, steps)
    # one path, without --steps, is a single model; otherwise the checkpoints of a training are found and
    # ordered
    names = expand_globs(sources)
    for missing in (name for name in names if not Path(name).exists()):
        open_model(missing)  # raises an error that says what is missing
    if len(names) == 1 and steps is None:
        return (ModelStep(0, names[0], partial(open_model, names[0])),)
    return find_steps(names, most=steps)
