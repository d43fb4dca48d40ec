"""The audit of all heads over training: the same contexts and rungs at every step."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from attomaton.base.errors import MismatchedParts, SameWeights, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import Stages
from attomaton.base.tables import Float64, write_parquet
from attomaton.heads.audit.heads import HeadAudit, audit_heads
from attomaton.heads.audit.ladder import Step
from attomaton.heads.audit.pictures import draw_course
from attomaton.heads.audit.prepared import Audit, prepare
from attomaton.heads.audit.rows import list_documents
from attomaton.heads.audit.saved import NO_EVIDENCE, mark
from attomaton.heads.audit.useful import OfModel
from attomaton.heads.audit.usual import Rungs
from attomaton.heads.model import Head, HeadModel, ModelShape
from attomaton.heads.opening import open_model
from attomaton.heads.steps import ModelStep, sort_steps, step_of

PRINTED = 5
"""Steps that stand side by side in a printed table."""

_arrow: Any = pa


@dataclass(frozen=True, eq=False, repr=False)
class HeadCourse(Tabular):
    """What was found of every head at every step of training.

    Attributes
    ----------
    steps : tuple of int
        The steps, rising.
    audits : tuple of HeadAudit
        What was found at each: of the same contexts, with the same rungs.

    Examples
    --------
    >>> from attomaton.heads.arrays import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> query, key, value = rng.normal(size=(3, 1, 2, 4, 3))
    >>> tokens, out = rng.normal(size=(6, 4)), rng.normal(size=(1, 2, 3, 4))
    >>> models = [from_arrays(tokens, grown * query, key, value, out) for grown in (0.1, 1.0)]
    >>> documents = [rng.integers(0, 6, 30) for _ in range(24)]
    >>> course = audit_course(models, documents, steps=(0, 100), how=Audit(window=8, length=0))
    >>> course, course.table().num_rows, course.shares.shape
    (HeadCourse(2 heads at 2 steps, 0 to 100), 4, (2, 5, 2))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     course.save(f"{folder}/course.parquet").name
    'course.parquet'
    >>> import matplotlib as mpl
    >>> mpl.use("agg")
    >>> [axes.get_title(loc="left") for axes in course.plot()]
    ['explained by position', '… and the rungs up to PMI', 'label excess']
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
        return np.array([one.ladder.shares for one in self.audits])

    @property
    def excess(self) -> Float64:
        """Excess label mass, shape (n_steps, n_heads)."""
        return np.array([one.seeking.excess.value for one in self.audits])

    @property
    def z(self) -> Float64:
        """z of label seeking, each step against its own random heads, shape (n_steps, n_heads)."""
        return np.array([one.seeking.z for one in self.audits])

    def _table(self) -> pa.Table:
        """One row for each step and head: step, model, and the columns of ``HeadAudit.table``."""
        parts: list[Any] = []
        for step, audit in zip(self.steps, self.audits, strict=True):
            one: Any = audit.table()
            columns = {"step": [step] * one.num_rows, "model": [audit.model] * one.num_rows}
            parts.append(_arrow.table(columns | dict(zip(one.column_names, one.columns, strict=True))))
        return mark(_arrow.concat_tables(parts).combine_chunks(), self.audits[-1].about)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table as Parquet; the path."""
        write_parquet(self.table(), path)
        return Path(path)

    def plot(self, ax: Any = None) -> Any:
        """Draw explained shares and excess label mass over the steps; returns the three matplotlib axes.

        ``ax`` is None or three axes.
        """
        names = [str(head) for head in self.heads]
        return draw_course(self.steps, names, self.rungs, self.shares, self.excess, ax)

    def _blocks(self) -> list[Block]:
        told = sorted({int(at) for at in np.linspace(0, len(self.steps) - 1, PRINTED).round()})
        steps = [f"step {self.steps[at]:,}" for at in told]
        shares, excess, z, last = self.shares, self.excess, self.z, self.audits[-1]

        def grid(title: str, cell: Callable[[int, int], str]) -> Grid:
            rows = [(str(head), *(cell(at, one) for at in told)) for one, head in enumerate(self.heads)]
            return Grid(title, ["head", *steps], rows)

        blocks: list[Block] = [
            repr(self),
            self._rungs(),
            grid(
                f"Explained share by {self.rungs[0]} and all rungs up to {self.rungs[-1]}, head by head",
                lambda at, one: f"{shares[at, -1, one]:.3f}",
            ),
            grid("Label excess, and z", lambda at, one: f"{excess[at, one]:+.3f} {z[at, one]:+.1f}"),
        ]
        if last.causal is not None:
            blocks.append(grid("How much the loss rises: own mean pattern | mean output", self._worth))
        of_each = " Each step is held against random heads of its own model." if last.n_random else ""
        blocks.append(last.about.said_of_z + of_each)
        blocks += [NO_EVIDENCE] if last.causal is not None else []
        return [*blocks, last.left_out] if last.left_out else blocks

    def _worth(self, at: int, head: int) -> str:
        causal = self.audits[at].causal
        if causal is None:
            return ""
        return f"{causal.pattern.value[head]:+.4f} | {causal.ablation.value[head]:+.4f}"

    def _rungs(self) -> Grid:
        rows = [
            (f"{step:,}", *(f"{share:.3f}" for share in one.ladder.mean), str(int(one.seeking.holds.sum())))
            for step, one in zip(self.steps, self.audits, strict=True)
        ]
        headers = [
            "step",
            self.rungs[0],
            *(f"+ {name}" for name in self.rungs[1:]),
            "heads that seek the label",
        ]
        return Grid("Mean explained share over heads, on documents held back", headers, rows)


def audit_course(
    models: Sequence[Any],
    documents: Sequence[Any],
    *,
    steps: Sequence[int] | None = None,
    rungs: Rungs = None,
    random: int = 2,
    null: str = "intact",
    how: Audit | None = None,
    progress: Stages | None = None,
) -> HeadCourse:
    """Audit every head of a model at several steps of its training, on the same contexts.

    Parameters
    ----------
    models : sequence
        What :func:`~attomaton.heads.opening.open_model` opens, or
        :class:`~attomaton.heads.steps.ModelStep`. One is opened at a time. All must have the same layers,
        heads, vocabulary and longest context.
    documents : sequence of integer sequences
        Token ids, as for :func:`~attomaton.heads.audit.heads.audit_heads`; the same positions are watched at
        every step.
    steps : sequence of int, optional
        The step of each model. None means that of a ``ModelStep``, or the number in the name of a folder.
    rungs : sequence of rungs, or callable, optional
        As for ``audit_heads``; made once, from the documents to fit on.
    random : int
        How many times random heads are drawn for each model, to hold that model's against.
    null : str
        Which, as for ``audit_heads``.
    how : Audit, optional
        Sizes and the seed.
    progress : Stages, optional
        Told what is done.

    Returns
    -------
    HeadCourse
        Sorted by step.

    Warns
    -----
    SameWeights
        Two steps give the same numbers for every head, to the last digit.

    Examples
    --------
    >>> from attomaton.heads.arrays import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> query, key, value = rng.normal(size=(3, 1, 2, 4, 3))
    >>> tokens, out = rng.normal(size=(6, 4)), rng.normal(size=(1, 2, 3, 4))
    >>> models = [from_arrays(tokens, grown * query, key, value, out) for grown in (0.1, 1.0)]
    >>> documents = [rng.integers(0, 6, 30) for _ in range(24)]
    >>> audit_course(models, documents, steps=(0, 100), random=1, how=Audit(window=8, length=8))
    HeadCourse(2 heads at 2 steps, 0 to 100)
    """
    how, tell = Audit() if how is None else how, Stages() if progress is None else progress
    documents = list_documents(documents)
    ordered = order_steps(models, steps)
    first: tuple[str, ModelShape] | None = None
    climbed: tuple[Step | OfModel, ...] = ()
    audits: list[HeadAudit] = []
    for number, one in enumerate(ordered):
        said = f"step {one.step:,} ({number + 1} of {len(ordered)})"
        tell(f"reading {said}")
        model = one.open()
        if first is None:
            first = one.name, model.shape
            *_, climbed = prepare(model, documents, rungs, how)
        check_alike(first, (one.name, model.shape))
        told = _within(tell, said)
        audits.append(
            audit_heads(model, documents, rungs=climbed, random=random, null=null, how=how, progress=told)
        )
        _warn_of_copies(ordered, audits)
    return HeadCourse(tuple(one.step for one in ordered), tuple(audits))


def _warn_of_copies(ordered: Sequence[ModelStep], audits: Sequence[HeadAudit]) -> None:
    """Warn if the last audit is that of an earlier step once more."""
    *earlier, last = (audit.table() for audit in audits)
    same = next((one for one, table in zip(ordered, earlier, strict=False) if table.equals(last)), None)
    if same is not None:
        other = ordered[len(earlier)]
        warnings.warn(
            f"{same.name} (step {same.step:,}) and {other.name} (step {other.step:,}) give the same numbers "
            "for every head to the last digit: their weights seem to be the same; check where they come from",
            SameWeights,
            stacklevel=3,
        )


def order_steps(models: Sequence[Any], steps: Sequence[int] | None) -> list[ModelStep]:
    """The models by their steps, each once."""
    if not len(models):
        raise UnsupportedOption("a course has at least one model; give some")
    if steps is not None and len(steps) != len(models):
        raise MismatchedParts(
            f"there are {len(models)} models and {len(steps)} steps; give a step for each model"
        )
    given = [None] * len(models) if steps is None else [whole_number(step, "steps") for step in steps]
    return sort_steps(map(_as_step, models, given))


def check_alike(first: tuple[str, ModelShape], other: tuple[str, ModelShape]) -> None:
    """Refuse a model of another shape than the first, and say what differs."""
    said = {
        "n_layers": "{} has {} layers and {} {}",
        "n_heads": "{} has {} heads in each layer and {} {}",
        "n_tokens": "{} knows {} tokens and {} {}",
        "longest": "{} takes contexts of {} tokens at most and {} {}",
    }
    for name, words in said.items():
        one, two = (getattr(shape, name) for _, shape in (first, other))
        if one != two:
            told = words.format(first[0], "any number of" if one is None else one, other[0], two)
            raise MismatchedParts(f"{told}; give models of one training")


def name_path(model: Any) -> str:
    """A model's path as text; nothing if it is none."""
    return str(cast("Any", model)) if isinstance(model, str | PathLike) else ""


def _within(tell: Stages, said: str) -> Stages:
    """What names stages with their step before them."""

    def begin(stage: str) -> None:
        tell.begin(f"{said}: {stage}")

    return replace(tell, begin=begin)


def _as_step(model: Any, step: int | None) -> ModelStep:
    if isinstance(model, ModelStep):
        return model if step is None else replace(model, step=step)
    named = name_path(model)
    if step is None and not named:
        raise UnsupportedOption(
            f"a {type(model).__name__} does not say which step it is of; give steps, one for each model"
        )
    name = named or str(getattr(model, "name", type(model).__name__))

    def open_it() -> HeadModel:
        return open_model(model)

    return ModelStep(step_of(name) if step is None else step, name, open_it)
