"""The audit of all heads over training, with the same contexts and rungs at every step."""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from glob import glob, has_magic
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.borders import check_kind
from attomaton.base.errors import (
    MismatchedParts,
    SameWeights,
    UnreadableModel,
    UnsupportedOption,
    UnwritablePlace,
)
from attomaton.base.frames import Tabular
from attomaton.base.options import whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import Stages, as_stages
from attomaton.base.tables import Float64
from attomaton.corpora.readers.batches import Reading
from attomaton.heads.audit.finished import FinishedLayers, alone_in, numbered
from attomaton.heads.audit.heads import AuditSettings, HeadAudit, audit_heads, prepare, read_finished
from attomaton.heads.audit.ladder import LadderRung
from attomaton.heads.audit.pictures import draw_course
from attomaton.heads.audit.rows import list_documents
from attomaton.heads.audit.rungs import OfModel, Rungs
from attomaton.heads.audit.saved import NO_EVIDENCE, mark, write_saved
from attomaton.heads.model import Head, HeadModel, ModelShape
from attomaton.heads.opening import open_model
from attomaton.heads.texts import read_for
from attomaton.heads.trained import is_run, open_checkpoint, read_any_trace, watch_trace

NAMED_NUMBER = re.compile(
    r"(?:step|checkpoint|ckpt|iteration|iter|epoch)s?[-_=. ]?([0-9]{1,18})(?![0-9A-Za-z])", re.I
)
"""A number whose prefix says what it counts."""

BARE_NUMBER = re.compile(r"(?<![0-9A-Za-z])([0-9]{1,18})(?![0-9A-Za-z])")
"""Any other whole number."""


@dataclass(frozen=True)
class ModelStep:
    """A model at one step of its training, opened on demand.

    Attributes
    ----------
    step : int
        The step.
    name : str
        Where the model is, as users refer to it.
    open : callable
        Opens it.
    """

    step: int
    name: str
    open: Callable[[], HeadModel] = field(repr=False)


def find_steps(sources: Sequence[str], *, most: int | None = None) -> tuple[ModelStep, ...]:
    """The steps of a training run, from the paths of its models; sorted by step, none of them opened.

    Parameters
    ----------
    sources : sequence of str
        Folders named after their steps, such as ``checkpoint-100``; runs of attomaton, or files in their
        ``training/checkpoints``; or globs of any of these.
    most : int, optional
        Take at most this many steps, evenly spaced, including the first and the last. None means all folders
        and files, but only the last step of a run of attomaton.

    Examples
    --------
    >>> [one.step for one in find_steps(["run/checkpoint-1000", "run/checkpoint-200"])]
    [200, 1000]
    >>> find_steps(["run/final"])
    Traceback (most recent call last):
        ...
    attomaton.base.errors.UnreadableModel: run/final is not named after a step; give names with one whole
    number, such as checkpoint-100
    """
    read = cache(read_any_trace)
    models: list[ModelStep] = []
    for source in expand_globs(sources):
        models += _steps_of(source, read, whole=most is not None)
    models = sort_steps(models)
    return tuple(models) if most is None else spread(models, most)


def find_revisions(repository: str, revisions: Sequence[str]) -> tuple[ModelStep, ...]:
    """The revisions of a hub model as steps of training, none of them opened.

    Revisions that are all named after steps, such as ``step1000``, are sorted by them; others are numbered
    from 0 in the order given.

    Examples
    --------
    >>> [model.step for model in find_revisions("owner/name", ["step1000", "step8"])]
    [8, 1000]
    >>> [model.name for model in find_revisions("owner/name", ["v2", "main"])]
    ['owner/name@v2', 'owner/name@main']
    """
    try:
        steps = [step_of(revision) for revision in revisions]
    except UnreadableModel:
        steps = list(range(len(revisions)))
    return tuple(
        sort_steps(
            ModelStep(step, f"{repository}@{revision}", partial(open_model, repository, revision=revision))
            for step, revision in zip(steps, revisions, strict=True)
        )
    )


def sort_steps(models: Iterable[ModelStep]) -> list[ModelStep]:
    """Models sorted by step; no two may have the same step."""
    ordered = sorted(models, key=lambda model: model.step)
    for first, second in pairwise(ordered):
        if first.step == second.step:
            raise MismatchedParts(
                f"{first.name} and {second.name} are both at step {first.step:,}; give one model per step"
            )
    return ordered


def expand_globs(sources: Sequence[str]) -> list[str]:
    """The sources, with each glob replaced by the paths it matches."""
    paths: list[str] = []
    for source in sources:
        if not has_magic(source) or Path(source).exists():
            paths.append(source)
            continue
        matches = sorted(glob(source))  # noqa: PTH207  an absolute glob is one of a user's
        if not matches:
            raise UnreadableModel(f"nothing matches {source}; give folders of models, or a glob of them")
        paths += matches
    return paths


def step_of(source: str) -> int:
    """The step in the name of a folder or file."""
    name = Path(source).name.removesuffix(".safetensors").removesuffix(".gguf")
    numbers = NAMED_NUMBER.findall(name) or BARE_NUMBER.findall(name)
    if len(numbers) != 1:
        raise UnreadableModel(
            f"{source} is not named after a step; give names with one whole number, such as checkpoint-100"
        )
    return int(numbers[0])


def spread(models: Sequence[ModelStep], most: int) -> tuple[ModelStep, ...]:
    """At most ``most`` of the steps, evenly spaced, with the first and last; if only one, the last."""
    most = whole_number(most, "most", least=1)
    if len(models) <= most:
        return tuple(models)
    indices = [len(models) - 1] if most == 1 else np.linspace(0, len(models) - 1, most).round().astype(int)
    return tuple(models[int(index)] for index in indices)


def _steps_of(source: str, read: Callable[[Path], Any], *, whole: bool) -> list[ModelStep]:
    """The steps of one source; for a run of attomaton all records if ``whole``, else the last."""
    path = Path(source)
    if is_run(path):
        trace = read(path)
        steps = trace.steps.tolist() if whole else [int(trace.steps[-1])]
        return [ModelStep(step, source, partial(watch_trace, trace, step=step)) for step in steps]
    step = step_of(source)
    if path.suffix == ".safetensors":
        return [ModelStep(step, source, partial(open_checkpoint, path, read=read))]
    return [ModelStep(step, source, partial(open_model, source))]


PRINTED_STEPS = 5
"""Steps that fit side by side in a printed table."""

_arrow: Any = pa


@dataclass(frozen=True, eq=False, repr=False)
class HeadCourse(Tabular):
    """The audit of every head at every step of training.

    Attributes
    ----------
    steps : tuple of int
        The steps, ascending.
    audits : tuple of HeadAudit
        The audit at each step: same contexts, same rungs.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> from attomaton.heads.audit.randomised import rotate_heads
    >>> model, documents = example_audit()
    >>> models = [rotate_heads(model, seed=0), model]
    >>> course = audit_course(models, documents, steps=(0, 100), settings=AuditSettings(window=8))
    >>> course, course.table().num_rows, course.shares.shape
    (HeadCourse(2 heads at 2 steps, 0 to 100), 4, (2, 8, 2))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     course.save(f"{folder}/course.parquet").name
    'course.parquet'
    """

    steps: tuple[int, ...]
    audits: tuple[HeadAudit, ...]

    def __repr__(self) -> str:
        span = f"{self.steps[0]:,} to {self.steps[-1]:,}"
        return f"HeadCourse({len(self.heads)} heads at {len(self.steps)} steps, {span})"

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads."""
        return self.audits[0].heads

    @property
    def rungs(self) -> tuple[str, ...]:
        """The rungs, nested."""
        return self.audits[0].ladder.names

    @property
    def shares(self) -> Float64:
        """Explained shares, nested, shape (n_steps, n_rungs, n_heads)."""
        return np.array([audit.ladder.shares for audit in self.audits])

    @property
    def excess(self) -> Float64:
        """Excess label mass, shape (n_steps, n_heads)."""
        return np.array([audit.seeking.excess.value for audit in self.audits])

    @property
    def z(self) -> Float64:
        """z of next-token seeking, each step relative to its own random heads, shape (n_steps, n_heads)."""
        return np.array([audit.seeking.z for audit in self.audits])

    def _table(self) -> pa.Table:
        """One row for each step and head: step, model, and the columns of ``HeadAudit.table``."""
        tables: list[Any] = []
        for step, audit in zip(self.steps, self.audits, strict=True):
            table: Any = audit.table()
            columns = {"step": [step] * table.num_rows, "model": [audit.model] * table.num_rows}
            tables.append(_arrow.table(columns | dict(zip(table.column_names, table.columns, strict=True))))
        return mark(_arrow.concat_tables(tables).combine_chunks(), self.audits[-1].about)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table as Parquet and return the path; of existing files only Parquet is replaced."""
        return write_saved(self.table(), path)

    def plot(self, ax: Any = None) -> Any:
        """Draw explained shares and excess label mass over the steps; returns the three matplotlib axes.

        ``ax`` is None or three axes.
        """
        names = [str(head) for head in self.heads]
        return draw_course(self.steps, names, self.rungs, self.shares, self.excess, ax)

    def _blocks(self) -> list[Block]:
        columns = sorted({int(at) for at in np.linspace(0, len(self.steps) - 1, PRINTED_STEPS).round()})
        steps = [f"step {self.steps[at]:,}" for at in columns]
        shares, excess, z, last = self.shares, self.excess, self.z, self.audits[-1]

        def grid(title: str, cell: Callable[[int, int], str]) -> Grid:
            rows = [(str(head), *(cell(at, row) for at in columns)) for row, head in enumerate(self.heads)]
            return Grid(title, ["head", *steps], rows)

        blocks: list[Block] = [
            repr(self),
            self._rungs(),
            grid(
                f"Explained share by {self.rungs[0]} and all rungs up to {self.rungs[-1]}, head by head",
                lambda at, head: f"{shares[at, -1, head]:.3f}",
            ),
            grid("Label excess, and z", lambda at, head: f"{excess[at, head]:+.3f} {z[at, head]:+.1f}"),
        ]
        if last.rises is not None:
            blocks.append(grid("Rise of the loss: own mean pattern | mean output", self._worth))
        of_each = " Each step is compared with random heads of its own model." if last.n_random else ""
        blocks.append(last.about.said_of_z + of_each)
        blocks += [NO_EVIDENCE] if last.causal is not None else []
        return [*blocks, last.left_out] if last.left_out else blocks

    def _worth(self, at: int, head: int) -> str:
        rises = self.audits[at].rises
        if rises is None or np.isnan(rises[0][head]):
            return ""
        return " | ".join(f"{rise[head]:+.4f}" for rise in rises)

    def _rungs(self) -> Grid:
        rows = [
            (
                f"{step:,}",
                *(f"{share:.3f}" for share in audit.ladder.mean),
                str(int(audit.seeking.holds.sum())),
            )
            for step, audit in zip(self.steps, self.audits, strict=True)
        ]
        headers = [
            "step",
            self.rungs[0],
            *(f"+ {name}" for name in self.rungs[1:]),
            "heads seeking the next token",
        ]
        return Grid("Mean explained share over heads, on held-out documents", headers, rows)


def audit_course(
    models: Sequence[Any],
    corpus: Any,
    *,
    steps: Sequence[int] | None = None,
    rungs: Rungs = None,
    theory: bool = False,
    random: int = 2,
    causal: str = "none",
    layers: int | Sequence[int] | None = None,
    heads: str | Sequence[Head | str] | None = None,
    limit: int | None = None,
    tokenizer: Any = None,
    reading: Reading | None = None,
    settings: AuditSettings | None = None,
    work: str | PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = False,
) -> HeadCourse:
    """Audit every head of a model, or some, at several steps of its training, on the same contexts.

    Parameters
    ----------
    models : sequence
        Anything :func:`~attomaton.heads.opening.open_model` opens, or
        :class:`ModelStep`. They are opened one at a time. All must have the same number of layers and
        heads, vocabulary and longest context.
    corpus : path, Documents, sequence of str, or sequence of integer sequences
        As for :func:`~attomaton.heads.audit.heads.audit_heads`; the same positions are watched at every step.
    steps : sequence of int, optional
        The step of each model. None means the step of a ``ModelStep``, or the number in a folder's name.
    rungs, theory
        As for ``audit_heads``; made once, from the documents to fit on.
    random : int
        How many sets of random heads are drawn for each model, to compare its heads with.
    causal, layers, heads, limit, tokenizer, reading
        As for ``audit_heads``.
    settings : AuditSettings, optional
        Sizes and the seed.
    work : path, optional
        A folder in which finished layers of each step are kept. If a call is stopped, the same call continues
        from there.
    progress : bool or callable
        True prints the name of each stage on stderr. A callable is called with that name. If it has a method
        ``advance``, that is called with the finished and the total amount of work in the stage.

    Returns
    -------
    HeadCourse
        Sorted by step.

    Warns
    -----
    SameWeights
        Two steps give identical numbers for every head.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> from attomaton.heads.audit.randomised import rotate_heads
    >>> model, documents = example_audit()
    >>> models = [rotate_heads(model, seed=0), model]
    >>> audit_course(models, documents, steps=(0, 100), random=1, settings=AuditSettings(window=8))
    HeadCourse(2 heads at 2 steps, 0 to 100)
    """
    settings, tell = settings or AuditSettings(), as_stages(progress)
    check_kind(settings, AuditSettings, "settings")
    ordered = order_steps(models, steps)
    named = [_path_text(model) or model for model in models if not isinstance(model, ModelStep)]
    read = read_for(named, corpus, tokenizer=tokenizer, reading=reading, limit=limit)
    documents, vocabulary = list_documents(read, limit), getattr(read, "vocabulary", None)
    first: tuple[str, ModelShape] | None = None
    climbed: tuple[LadderRung | OfModel, ...] = ()
    audits: list[HeadAudit] = []
    with nullcontext() if work is None else alone_in(work):
        for number, model_step in enumerate(ordered):
            stage = f"step {model_step.step:,} ({number + 1} of {len(ordered)})"
            tell(f"reading {stage}")
            model = model_step.open()
            if first is None:
                first = model_step.name, model.shape
                climbed = prepare(
                    model, documents, rungs, settings, theory=theory, vocabulary=vocabulary
                ).rungs
            check_alike(first, (model_step.name, model.shape))
            stages = _name_stages(tell, stage)
            options: Any = {
                "random": random,
                "causal": causal,
                "settings": settings,
                "progress": stages,
            }
            options |= {"layers": layers, "heads": heads}
            folder = None if work is None else Path(work) / STEP.format(model_step.step)
            audits.append(audit_heads(model, documents, rungs=climbed, work=folder, **options))
            _warn_of_copies(ordered, audits)
    return HeadCourse(tuple(model_step.step for model_step in ordered), tuple(audits))


STEP = "step-{}"
"""The folder with the finished layers of a step."""


def read_finished_steps(work: str | PathLike[str]) -> "HeadAudit | HeadCourse | None":
    """What is finished in a ``work`` folder: layers of one model, or whole steps of a training."""
    steps = numbered(Path(work), STEP)
    if not steps:
        return read_finished(work)
    audits = {step: read_finished(folder) for step, folder in steps.items()}
    whole = {step: audit for step, audit in audits.items() if audit is not None and not audit.is_partial}
    return HeadCourse(tuple(whole), tuple(whole.values())) if whole else None


def remove_finished(work: str | PathLike[str]) -> None:
    """Remove a ``work`` folder, after its audit was written, unless another audit uses it."""
    with suppress(UnwritablePlace), alone_in(work):
        for folder in (*numbered(Path(work), STEP).values(), Path(work)):
            FinishedLayers(folder).remove()


def _warn_of_copies(ordered: Sequence[ModelStep], audits: Sequence[HeadAudit]) -> None:
    """Warn if the last audit is identical to that of an earlier step."""
    *earlier, last = (audit.table() for audit in audits)
    same = next(
        (model_step for model_step, table in zip(ordered, earlier, strict=False) if table.equals(last)), None
    )
    if same is not None:
        copy = ordered[len(earlier)]
        warnings.warn(
            f"{same.name} (step {same.step:,}) and {copy.name} (step {copy.step:,}) give identical numbers "
            "for every head, so their weights are probably the same; check where the models come from",
            SameWeights,
            stacklevel=3,
        )


def order_steps(models: Sequence[Any], steps: Sequence[int] | None) -> list[ModelStep]:
    """The models by their steps, each once."""
    if not len(models):
        raise UnsupportedOption("an audit over training needs at least one model; give one or more")
    if steps is not None and len(steps) != len(models):
        raise MismatchedParts(
            f"there are {len(models)} models and {len(steps)} steps; give one step per model"
        )
    numbers = [None] * len(models) if steps is None else [whole_number(step, "steps") for step in steps]
    return sort_steps(map(_as_step, models, numbers))


def check_alike(first: tuple[str, ModelShape], second: tuple[str, ModelShape]) -> None:
    """Refuse a model whose shape differs from the first, and say how."""
    sentences = {
        "n_layers": "{} has {} layers, but {} has {}",
        "n_heads": "{} has {} heads per layer, but {} has {}",
        "n_tokens": "{} has a vocabulary of {} tokens, but {} of {}",
        "longest": "{} takes contexts of at most {} tokens, but {} of {}",
    }
    for name, words in sentences.items():
        expected, value = (getattr(shape, name) for _, shape in (first, second))
        if expected != value:
            difference = words.format(
                first[0], "any number of" if expected is None else expected, second[0], value
            )
            raise MismatchedParts(f"{difference}; give models from one training run")


def _name_stages(tell: Stages, step: str) -> Stages:
    """Progress that puts the step before the name of each stage."""

    def begin(stage: str) -> None:
        tell.begin(f"{step}: {stage}")

    return replace(tell, begin=begin)


def _path_text(model: Any) -> str:
    """A model's path as text; empty if it is not a path."""
    return str(cast("Any", model)) if isinstance(model, str | PathLike) else ""


def _as_step(model: Any, step: int | None) -> ModelStep:
    if isinstance(model, ModelStep):
        return model if step is None else replace(model, step=step)
    named = _path_text(model)
    if step is None and not named:
        raise UnsupportedOption(
            f"a {type(model).__name__} does not carry its step; give steps, one per model"
        )
    name = named or str(getattr(model, "name", type(model).__name__))
    return ModelStep(step_of(name) if step is None else step, name, partial(open_model, model))
