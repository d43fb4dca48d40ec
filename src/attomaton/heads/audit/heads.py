"""The audit of all heads of a model on a corpus: ladder, label seeking and causal value together."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.errors import InvalidSamples
from attomaton.base.frames import Tabular
from attomaton.base.options import settle, share, whole_number
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import Stages
from attomaton.base.tables import Float64, table_of, write_parquet
from attomaton.heads.audit.causal import Causal, LabelledContexts, replace_heads
from attomaton.heads.audit.explanations import Bigram, Frequency, Last, TokenCounts
from attomaton.heads.audit.ladder import Ladder, Step, climb
from attomaton.heads.audit.pictures import draw_audit
from attomaton.heads.audit.randomised import draw_random
from attomaton.heads.audit.rows import (
    Rows,
    check_copies,
    check_parts,
    cut_documents,
    list_documents,
    split_documents,
    watch_rows,
)
from attomaton.heads.audit.rungs import OfModel, Rungs, plain_rungs, settle_rungs
from attomaton.heads.audit.saved import NO_EVIDENCE, About, mark
from attomaton.heads.audit.seeking import SAID, Seeking, seek_labels
from attomaton.heads.model import Head, HeadModel
from attomaton.heads.opening import open_model
from attomaton.heads.patterns import PatternModel


@dataclass(frozen=True)
class Audit:
    """Settings of an audit.

    Attributes
    ----------
    window : int
        Positions in each attention row.
    per_document : int
        Positions sampled from each document.
    longest : int
        The longest context.
    fitted : float
        The share of documents used to fit explanations; the others are scored.
    length : int
        Tokens per context for causal value; 0 leaves causal value out.
    seed : int
        What draws.

    Examples
    --------
    >>> Audit(window=16).fitted
    0.6
    """

    window: int = 32
    per_document: int = 20
    longest: int = 256
    fitted: float = 0.6
    length: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        settle(
            self,
            window=whole_number(self.window, "window", least=2),
            per_document=whole_number(self.per_document, "per_document", least=1),
            longest=whole_number(self.longest, "longest", least=3),
            fitted=share(self.fitted, "fitted"),
            length=whole_number(self.length, "length"),
            seed=whole_number(self.seed, "seed"),
        )


def prepare(
    model: HeadModel, documents: Sequence[Any], rungs: Rungs, how: Audit, *, whole: bool = False
) -> tuple[list[int], list[int], TokenCounts, tuple[Step | OfModel, ...]]:
    """The documents to fit on and to score, the token counts of the former, and the rungs.

    For a full audit, both parts are checked to be large enough before any work is done.
    """
    n_tokens = model.shape.n_tokens
    if len(documents) < 2:
        raise InvalidSamples(
            "an audit fits on some documents and scores on others, but there "
            f"{'is one' if documents else 'are none'}; give several; long ones may be cut"
        )
    fit_on, score_on = split_documents(len(documents), share=how.fitted, seed=how.seed)
    if whole:
        length = causal_length(model, how)
        check_parts(documents, (fit_on, score_on), window=how.window, length=length)
    counted, held_back = (
        cut_documents([documents[one] for one in part], how.longest + 1, n_tokens=n_tokens)
        for part in (fit_on, score_on)
    )
    if whole:
        check_copies(counted, held_back)
    steps = rungs(counted) if callable(rungs) else rungs
    steps = plain_rungs(counted, n_tokens=n_tokens) if steps is None else tuple(steps)
    return fit_on, score_on, TokenCounts.of(counted, n_tokens=n_tokens), steps


def watch_all(model: HeadModel, documents: Sequence[Any], how: Audit, tell: Stages) -> Rows:
    """The attention rows of all documents that an audit needs."""
    tell(f"recording attention of {model.name}")
    sizes = {"window": how.window, "per_document": how.per_document, "longest": how.longest}
    return watch_rows(model, documents, **sizes, seed=how.seed, progress=tell.advance)


def causal_length(model: HeadModel, how: Audit) -> int:
    """Tokens per context for causal value, at most what the model takes; 0 if it is left out."""
    if not how.length or said_of_loss(model):
        return 0
    most = model.shape.longest
    return how.length if most is None else min(how.length, most)


def said_of_loss(model: HeadModel) -> str:
    """Why causal value is left out for a model; empty if its loss is finite."""
    if isinstance(model, PatternModel):
        return f"Causal value is left out: it needs weights, and {model.name} shows attention patterns only."
    if bool(model.watch(np.zeros((1, 1), np.int64)).logits.isfinite().all()):
        return ""
    return (
        f"Causal value is left out: {model.name} gives probability 0 to tokens outside the context, "
        "so its loss is infinite."
    )


@dataclass(frozen=True, eq=False, repr=False)
class HeadAudit(Tabular):
    """The results of an audit, one row per head.

    Attributes
    ----------
    model : str
        The model's name.
    heads : tuple of Head
        The heads.
    ladder, alone : Ladder
        Explained shares: nested, and of each rung alone.
    seeking : Seeking
        Label seeking.
    causal : Causal, optional
        Causal value of each head.
    inside, first : float64 array, shape (n_heads,)
        Mean attention inside the window, and on the first token.
    n_documents, n_rows : int
        The numbers of scored documents and rows.
    n_random : int
        How many draws of random heads, or models with them, the heads are compared with.
    null : str
        Their kind: ``"intact"``, ``"rotated"`` or ``"given"``.
    left_out : str
        Why causal value or random heads are missing, if the caller did not leave them out.

    Examples
    --------
    >>> import numpy as np
    >>> from attomaton.heads.audit.explanations import SameToken
    >>> from attomaton.heads.audit.ladder import Position
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> audit = audit_heads(model, documents, rungs=(Position(), SameToken()), how=Audit(window=8, length=8))
    >>> audit, audit.table().num_rows
    (HeadAudit(2 heads, 200 rows of 10 documents), 2)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     audit.save(f"{folder}/heads.parquet").name
    'heads.parquet'
    """

    model: str
    heads: tuple[Head, ...]
    ladder: Ladder
    alone: Ladder
    seeking: Seeking
    causal: Causal | None
    inside: Float64
    first: Float64
    n_documents: int
    n_rows: int
    n_random: int = 0
    null: str = "intact"
    left_out: str = ""

    def __repr__(self) -> str:
        return f"HeadAudit({len(self.heads)} heads, {self.n_rows:,} rows of {self.n_documents:,} documents)"

    def _table(self) -> pa.Table:
        """One row per head.

        Columns: head, layer, number, inside, first; for each rung ``explained <rung>``, ``added <rung>`` and
        ``z <rung>``; for each rung alone ``alone <rung>``; label_mass, label_excess, label_z,
        label_z_documents, seeks; and the rise in loss from mean patterns and from mean outputs.
        """
        columns: dict[str, Any] = {
            "head": [str(head) for head in self.heads],
            "layer": [head.layer for head in self.heads],
            "number": [head.number for head in self.heads],
            "inside": self.inside,
            "first": self.first,
        }
        z = self.ladder.z
        for at, name in enumerate(self.ladder.names):
            columns[f"explained {name}"] = self.ladder.explained[at].value
            columns[f"added {name}"] = self.ladder.added[at].value
            columns[f"z {name}"] = z[at]
        for at, name in enumerate(self.alone.names):
            columns[f"alone {name}"] = self.alone.explained[at].value
        columns["label_mass"] = self.seeking.mass.value
        columns["label_excess"] = self.seeking.excess.value
        columns["label_z"] = self.seeking.z
        columns["label_z_documents"] = self.seeking.excess.z
        columns["seeks"] = pa.array(self.seeking.judged, pa.bool_())
        if self.causal is not None:
            columns["pattern_rise"] = self.causal.pattern.value
            columns["ablation_rise"] = self.causal.ablation.value
        return mark(table_of(columns), self.about)

    @property
    def about(self) -> About:
        """The metadata of a saved table."""
        sizes = (self.n_documents, self.n_rows, self.n_random)
        return About(self.model, self.ladder.names, *sizes, self.null)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table as Parquet and return the path."""
        write_parquet(self.table(), path)
        return Path(path)

    def plot(self, ax: Any = None) -> Any:
        """Draw what each rung adds to each head, and label seeking; returns the matplotlib axes."""
        names = [str(head) for head in self.heads]
        return draw_audit(names, self.ladder.names, self.ladder.shares, self.seeking.holds, ax)

    def _blocks(self) -> list[Block]:
        first, last = self.ladder.names[0], self.ladder.names[-1]
        headers = ["head", f"explained by {first}", f"… to {last}", "label excess", "z", "seeks"]
        headers += [] if self.causal is None else ["own mean pattern", "mean output"]
        seeking, judged, rows = self.seeking, self.seeking.judged, list[tuple[str, ...]]()
        for at, head in enumerate(self.heads):
            row = (
                str(head),
                f"{self.ladder.shares[0, at]:.3f}",
                f"{self.ladder.shares[-1, at]:.3f}",
                f"{seeking.excess.value[at]:+.3f}",
                f"{seeking.z[at]:+.1f}",
                SAID[judged[at]],
            )
            if self.causal is not None:
                worth = (self.causal.pattern.value[at], self.causal.ablation.value[at])
                row += tuple(f"{one:+.4f}" for one in worth)
            rows.append(row)
        words: list[Block] = [self.about.said_of_z]
        if self.causal is not None:
            words.append(f"The last two columns are the rise in loss. {NO_EVIDENCE}")
        return [
            repr(self),
            Grid("", headers, rows),
            self._rungs(),
            *words,
            *([self.left_out] if self.left_out else []),
        ]

    def _rungs(self) -> Grid:
        alone = dict(zip(self.alone.names, self.alone.mean, strict=True))
        added = np.diff(self.ladder.mean, prepend=0.0)
        rows = [
            (name, f"{self.ladder.mean[at]:.3f}", f"{added[at]:+.3f}", harm, f"{alone[name]:.3f}")
            for at, (name, harm) in enumerate(zip(self.ladder.names, self.ladder.harm, strict=True))
        ]
        rows += [(name, "", "", "", f"{alone[name]:.3f}") for name in alone if name not in self.ladder.names]
        headers = ["rung", "cumulative share", "added", "heads it harms", "alone"]
        return Grid("Mean explained share over heads, on held-out documents", headers, rows)


def audit_heads(
    model: Any,
    documents: Sequence[Any],
    *,
    rungs: Rungs = None,
    random: int | Sequence[HeadModel] = 2,
    null: str = "intact",
    how: Audit | None = None,
    progress: Stages | None = None,
) -> HeadAudit:
    """Audit every head of a model on documents.

    Parameters
    ----------
    model : HeadModel, path, str or object
        Anything that :func:`~attomaton.heads.opening.open_model` opens, such as a ``transformers`` model.
    documents : sequence of integer sequences
        Token ids from the model's own tokenizer; the order of documents does not matter. A random part
        is used to fit and count; the others are scored.
    rungs : sequence of rungs, or callable, optional
        The ladder. A callable makes it from the documents to fit on, so that nothing is counted on documents
        that are scored. None means :func:`plain_rungs`.
    random : int, or sequence of HeadModel
        How many times random heads are drawn; z is relative to them. Or a sequence of models with random
        heads. With 0, and for a model without accessible weights, z comes from documents alone and no head
        is reported as seeking the label.
    null : str
        ``"intact"``: random heads read the trained residual stream
        (:func:`~attomaton.heads.audit.randomised.rotate_beside`). ``"rotated"``: they read the output of
        random heads (:func:`~attomaton.heads.audit.randomised.rotate_heads`), so deep in a model they vary
        less.
    how : Audit, optional
        Sizes and the seed.
    progress : Stages, optional
        Reports progress.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> audit_heads(model, documents, how=Audit(window=8, length=0)).ladder
    Ladder(2 heads, 5 rungs, nested)
    """
    how, tell, documents = how or Audit(), progress or Stages(), list_documents(documents)
    model = open_model(model)
    fit_on, score_on, counts, steps = prepare(model, documents, rungs, how, whole=True)

    controls, no_controls = draw_random(model, random, null, seed=how.seed)
    null = "given" if isinstance(random, Sequence) else null

    def measure(
        one: HeadModel, own: Sequence[Step], *, whole: bool = False
    ) -> tuple[Rows, Ladder, Ladder, Seeking]:
        rows = watch_all(one, documents, how, tell)
        fitted, scored = (rows.take(np.isin(rows.documents, part)) for part in (fit_on, score_on))
        tell("climbing")
        ladder = climb(fitted, scored, own, progress=tell.advance)
        alone = climb(fitted, scored, [*own, *beside], nested=False) if whole else ladder
        return scored, ladder, alone, seek_labels(fitted, scored, counts)

    own = settle_rungs(steps, model)
    names = {rung.name for rung in own}
    others = (Last(), Frequency(counts), Bigram(counts))
    beside = [rung for rung in others if rung.name not in names]
    scored, ladder, alone, seeking = measure(model, own, whole=True)
    by_probability = [
        measure(control, own if null == "intact" else settle_rungs(steps, control)) for control in controls
    ]  # compared with the model's own heads nothing is more or less useful
    ladder = ladder.against([one[1] for one in by_probability]) if by_probability else ladder
    seeking = seeking.against([one[3] for one in by_probability]) if by_probability else seeking
    worth, why_not = _worth(model, [documents[one] for one in score_on], how, tell)
    return HeadAudit(
        model.name,
        scored.heads,
        ladder,
        alone,
        seeking,
        worth,
        scored.inside.mean(0, dtype=np.float64),
        scored.first.mean(0, dtype=np.float64),
        len(np.unique(scored.documents)),
        len(scored),
        len(by_probability),
        null,
        " ".join(why for why in (no_controls, why_not) if why),
    )


def _worth(model: HeadModel, documents: Sequence[Any], how: Audit, tell: Stages) -> tuple[Causal | None, str]:
    """The causal value of heads, or why it is left out."""
    length = causal_length(model, how)
    if not length:
        return None, said_of_loss(model) if how.length else ""
    tell("replacing heads")
    contexts = LabelledContexts.of(documents, length=length, n_tokens=model.shape.n_tokens)
    return replace_heads(model, contexts, progress=tell.advance), ""
