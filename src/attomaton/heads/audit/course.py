"""The audit of all heads over training, with the same contexts and rungs at every step.

:func:`audit_course` audits the models; :func:`read_finished_steps` reads what a stopped course has finished.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.borders import check_kind
from attomaton.base.errors import SameWeights, UnwritablePlace
from attomaton.base.frames import Tabular
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import Stages, as_stages
from attomaton.base.tables import Float64
from attomaton.corpora.readers.batches import Reading
from attomaton.heads.audit.documents import read_audited
from attomaton.heads.audit.finished import FinishedLayers, alone_in, numbered, read_finished
from attomaton.heads.audit.heads import audit_heads
from attomaton.heads.audit.pictures import draw_course
from attomaton.heads.audit.planning import AuditSettings, plan_audit
from attomaton.heads.audit.result import HeadAudit
from attomaton.heads.audit.rungs import Rungs
from attomaton.heads.audit.saved import NO_EVIDENCE, mark, write_saved
from attomaton.heads.audit.steps import ModelStep, check_alike, order_steps, path_text
from attomaton.heads.model import Head

PRINTED_STEPS = 5  # steps that fit side by side in a printed table

STEP = "step-{}"  # the folder in a ``work`` folder with the finished layers of a step

_arrow: Any = pa


@dataclass(frozen=True, eq=False, repr=False)
class HeadCourse(Tabular):
    """Audits of the same heads at several ``steps`` of training, in ascending order of the steps.

    All ``audits`` use the same contexts and the same rungs.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> audit = audit_heads(*example_audit(), settings=AuditSettings(window=8))
    >>> HeadCourse(steps=(100,), audits=(audit,)).shares.shape
    (1, 8, 2)
    """

    steps: tuple[int, ...]
    audits: tuple[HeadAudit, ...]

    def __repr__(self) -> str:
        span = f"{self.steps[0]:,} to {self.steps[-1]:,}"
        return f"HeadCourse({len(self.heads)} heads at {len(self.steps)} steps, {span})"

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads that are audited at every step."""
        return self.audits[0].heads

    @property
    def rungs(self) -> tuple[str, ...]:
        """The names of the rungs."""
        return self.audits[0].ladder.names

    @property
    def shares(self) -> Float64:
        """The share that each rung explains with all rungs before it, shape (n_steps, n_rungs, n_heads)."""
        return np.array([audit.ladder.shares for audit in self.audits])

    @property
    def excess(self) -> Float64:
        """The excess attention on the next token, shape (n_steps, n_heads)."""
        return np.array([audit.seeking.excess.value for audit in self.audits])

    @property
    def z(self) -> Float64:
        """z of next-token seeking relative to the random heads of each step, shape (n_steps, n_heads)."""
        return np.array([audit.seeking.z for audit in self.audits])

    def _table(self) -> pa.Table:
        """One row for each step and head: step, model, and the columns of ``HeadAudit.table``."""
        tables: list[Any] = []
        for step, audit in zip(self.steps, self.audits, strict=True):
            table: Any = audit.table()
            table = table.add_column(0, "step", _arrow.array([step] * table.num_rows))
            tables.append(table.add_column(1, "model", _arrow.array([audit.model] * table.num_rows)))
        return mark(_arrow.concat_tables(tables).combine_chunks(), self.audits[-1].about)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table as a Parquet file and return its path; only Parquet files are overwritten."""
        return write_saved(self.table(), path)

    def plot(self, ax: Any = None) -> Any:
        """Draw explained shares, and the excess attention on the next token, on three matplotlib axes."""
        names = [str(head) for head in self.heads]
        return draw_course(self.steps, names, self.rungs, self.shares, self.excess, ax)

    def _blocks(self) -> list[Block]:
        last = self.audits[-1]
        shares = self.shares
        excess = self.excess
        z = self.z
        blocks: list[Block] = [
            repr(self),
            self._grid_of_rungs(),
            self._grid_of_heads(
                f"Explained share of each head, by all rungs from {self.rungs[0]} to {self.rungs[-1]}",
                lambda step, head: f"{shares[step, -1, head]:.3f}",
            ),
            self._grid_of_heads(
                "Next-token excess, and z",
                lambda step, head: f"{excess[step, head]:+.3f} {z[step, head]:+.1f}",
            ),
        ]
        if last.rises is not None:
            title = "Rise in loss with the head's mean pattern | with its mean output"
            blocks.append(self._grid_of_heads(title, self._show_rises))
        own_null = " Each step is compared with random heads of its own model." if last.n_random else ""
        blocks.append(last.about.said_of_z + own_null)
        blocks += [NO_EVIDENCE] if last.causal is not None else []
        return [*blocks, last.left_out] if last.left_out else blocks

    def _grid_of_heads(self, title: str, show: Callable[[int, int], str]) -> Grid:
        """A row per head and a column for some of the steps; ``show`` takes the index of step and head."""
        n_steps = len(self.steps)
        shown = sorted({int(step) for step in np.linspace(0, n_steps - 1, PRINTED_STEPS).round()})
        rows = [(str(head), *(show(step, index) for step in shown)) for index, head in enumerate(self.heads)]
        return Grid(title, ["head", *(f"step {self.steps[step]:,}" for step in shown)], rows)

    def _show_rises(self, step: int, head: int) -> str:
        rises = self.audits[step].rises
        if rises is None or np.isnan(rises.pattern[head]):
            return ""
        return f"{rises.pattern[head]:+.4f} | {rises.ablation[head]:+.4f}"

    def _grid_of_rungs(self) -> Grid:
        rows = [
            (
                f"{step:,}",
                *(f"{share:.3f}" for share in audit.ladder.mean),
                str(int(audit.seeking.holds.sum())),
            )
            for step, audit in zip(self.steps, self.audits, strict=True)
        ]
        first, *later = self.rungs
        headers = ["step", first, *(f"+ {name}" for name in later), "heads seeking the next token"]
        return Grid("Explained share of attention on held-out documents, mean over heads", headers, rows)


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
    """Audit the heads of a model at several steps of its training, on the same contexts.

    The warning ``SameWeights`` means that two steps give identical numbers for every head.

    Parameters
    ----------
    models : sequence
        A :class:`~attomaton.heads.audit.steps.ModelStep` for each step, or anything that
        :func:`~attomaton.heads.opening.open_model` opens. The models are opened one at a time. All must have
        the same numbers of layers and heads, vocabulary and longest context.
    corpus : path, Documents, sequence of str, or sequence of integer sequences
        As in :func:`~attomaton.heads.audit.heads.audit_heads`.
    steps : sequence of int, optional
        The step of each model. None means the step of a ``ModelStep``, or the number in the name of a folder.
    rungs, theory, random, causal, layers, heads, limit, tokenizer, reading, settings, work, progress
        As in ``audit_heads``. Rungs are made once, from the documents to fit on. ``random`` is a number:
        random heads are drawn that many times for each model.

    Examples
    --------
    >>> from attomaton.heads import rotate_heads
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> models = [rotate_heads(model, seed=0), model]
    >>> audit_course(models, documents, steps=(0, 100), random=1, settings=AuditSettings(window=8))
    HeadCourse(2 heads at 2 steps, 0 to 100)
    """
    settings = settings or AuditSettings()
    check_kind(settings, AuditSettings, "settings")
    tell = as_stages(progress)
    ordered = order_steps(models, steps)
    sources = [path_text(model) or model for model in models if not isinstance(model, ModelStep)]
    documents, vocabulary = read_audited(sources, corpus, tokenizer, reading, limit)
    options: Any = {"random": random, "causal": causal, "settings": settings}
    options |= {"layers": layers, "heads": heads}
    first_shape = None
    audits: list[HeadAudit] = []
    with nullcontext() if work is None else alone_in(work):
        for number, model_step in enumerate(ordered):
            stage = f"step {model_step.step:,} ({number + 1} of {len(ordered)})"
            tell(f"reading {stage}")
            model = model_step.open()
            if first_shape is None:
                # All steps get the rungs that are made for the first.
                first_shape = model.shape
                plan = plan_audit(model, documents, rungs, settings, theory=theory, vocabulary=vocabulary)
                options["rungs"] = plan.rungs
            check_alike((ordered[0].name, first_shape), (model_step.name, model.shape))
            folder = None if work is None else Path(work) / STEP.format(model_step.step)
            stages = _name_stages(tell, stage)
            audits.append(audit_heads(model, documents, work=folder, progress=stages, **options))
            _warn_of_copies(ordered, audits)
    return HeadCourse(tuple(model_step.step for model_step in ordered), tuple(audits))


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
    """Warn if the last audit has the numbers of an earlier one; ``audits`` are those of the first steps."""
    *earlier, last = (audit.table() for audit in audits)
    copy = ordered[len(earlier)]
    for original, table in zip(ordered, earlier, strict=False):
        if table.equals(last):
            warnings.warn(
                f"{original.name} (step {original.step:,}) and {copy.name} (step {copy.step:,}) give "
                "identical numbers for every head, so their weights are probably the same; check where the "
                "models come from",
                SameWeights,
                stacklevel=3,
            )
            return


def _name_stages(tell: Stages, step: str) -> Stages:
    # The stages of an audit, with the step before the name of each.
    def begin(stage: str) -> None:
        tell.begin(f"{step}: {stage}")

    return replace(tell, begin=begin)
