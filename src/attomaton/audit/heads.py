"""The audit of all heads of a model on a corpus: the ladder, label seeking and causal value, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.audit.causal import Causal, Contexts, replace_heads
from attomaton.audit.explanations import PMI, Attending, Bigram, Counts, Frequency, Induction, Last, SameToken
from attomaton.audit.ladder import KeyToken, Ladder, Position, Step, climb
from attomaton.audit.pictures import draw_audit
from attomaton.audit.rows import (
    Rows,
    check_copies,
    check_parts,
    cut_documents,
    list_documents,
    split_documents,
    watch_rows,
)
from attomaton.audit.seeking import Seeking, seek_labels
from attomaton.automaton.automaton import Automaton
from attomaton.automaton.shrinkage import shrink
from attomaton.corpora.samples import Samples
from attomaton.errors import InvalidSamples
from attomaton.frames import Tabular
from attomaton.graphs.bags import find_realisable
from attomaton.heads.model import Head, HeadModel
from attomaton.options import settle, share, whole_number
from attomaton.printing import Block, Grid
from attomaton.progress import Stages
from attomaton.solved import solve_samples
from attomaton.tables import Float64, table_of, write_parquet


@dataclass(frozen=True)
class Audit:
    """How an audit is done.

    Attributes
    ----------
    window : int
        Places of each attention row.
    per_document : int
        Positions that are drawn from each document.
    longest : int
        The longest context.
    fitted : float
        The share of the documents that explanations are fitted on; the others are scored.
    length : int
        Tokens of the contexts of causal value; 0 leaves causal value out.
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


@dataclass(frozen=True, eq=False, repr=False)
class HeadAudit(Tabular):
    """What was found of every head, one row each.

    Attributes
    ----------
    model : str
        What the model is called.
    heads : tuple of Head
        The heads.
    ladder, alone : Ladder
        Explained shares, nested, and each rung alone.
    seeking : Seeking
        Label seeking.
    causal : Causal, optional
        What each head is worth.
    inside, first : float64 array, shape (n_heads,)
        Mean attention inside the window, and on the first token.
    n_documents, n_rows : int
        How many documents and rows were scored.
    n_random : int
        How many models with random heads they are held against.

    Examples
    --------
    >>> import numpy as np
    >>> from attomaton.heads.arrays import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> query, key, value = rng.normal(size=(3, 1, 2, 4, 3))
    >>> model = from_arrays(rng.normal(size=(6, 4)), query, key, value, rng.normal(size=(1, 2, 3, 4)))
    >>> documents = [rng.integers(0, 6, 30) for _ in range(24)]
    >>> audit = audit_heads(model, documents, rungs=(Position(), SameToken()), how=Audit(window=8, length=8))
    >>> audit, audit.table().num_rows
    (HeadAudit(2 heads, 200 rows of 10 documents), 2)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     audit.save(f"{folder}/heads.parquet").name
    'heads.parquet'
    >>> import matplotlib as mpl
    >>> mpl.use("agg")
    >>> audit.plot().get_ylabel()
    'explained share'
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

    def __repr__(self) -> str:
        return f"HeadAudit({len(self.heads)} heads, {self.n_rows:,} rows of {self.n_documents:,} documents)"

    def table(self) -> pa.Table:
        """One row for each head, as Arrow.

        Columns: head, layer, number, inside, first; for each rung ``explained <rung>``, ``added <rung>`` and
        ``z <rung>``; for each rung alone ``alone <rung>``; label_mass, label_excess, label_z,
        label_z_documents, seeks; and what mean patterns and mean outputs cost, side by side.
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
        columns["seeks"] = self.seeking.holds
        if self.causal is not None:
            columns["pattern_rise"] = self.causal.pattern.value
            columns["ablation_rise"] = self.causal.ablation.value
        return table_of(columns)

    def _table(self) -> pa.Table:
        return self.table()

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table as Parquet; the path."""
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
        seeking, rows = self.seeking, list[tuple[str, ...]]()
        for at, head in enumerate(self.heads):
            row = (
                str(head),
                f"{self.ladder.shares[0, at]:.3f}",
                f"{self.ladder.shares[-1, at]:.3f}",
                f"{seeking.excess.value[at]:+.3f}",
                f"{seeking.z[at]:+.1f}",
                "yes" if seeking.holds[at] else "no",
            )
            if self.causal is not None:
                worth = (self.causal.pattern.value[at], self.causal.ablation.value[at])
                row += tuple(f"{one:+.4f}" for one in worth)
            rows.append(row)
        return [repr(self), Grid("", headers, rows), self._rungs(), *self._words_below()]

    def _rungs(self) -> Grid:
        alone = dict(zip(self.alone.names, self.alone.mean, strict=True))
        added = np.diff(self.ladder.mean, prepend=0.0)
        rows = [
            (name, f"{self.ladder.mean[at]:.3f}", f"{added[at]:+.3f}", f"{alone[name]:.3f}")
            for at, name in enumerate(self.ladder.names)
        ]
        rows += [(name, "", "", f"{alone[name]:.3f}") for name in alone if name not in self.ladder.names]
        headers = ["rung", "explained so far", "it adds", "alone"]
        return Grid("Mean explained share over heads, on documents held back", headers, rows)

    def _words_below(self) -> list[Block]:
        blocks: list[Block] = []
        if self.n_random:
            blocks.append(f"z holds heads against those of {self.n_random} models with random weights.")
        else:
            blocks.append(
                "z is over documents alone, which many heads of random weights pass too: give random models."
            )
        if self.causal is not None:
            blocks.append(
                "The last two columns say how much the loss rises. Mean output alone is no evidence about "
                "where a head looks."
            )
        return blocks


def plain_rungs(documents: Sequence[Any], *, n_tokens: int) -> tuple[Step, ...]:
    """Position, key token, induction, same token and PMI, counted on documents: the ladder's usual rungs.

    Examples
    --------
    >>> [rung.name for rung in plain_rungs([[0, 1, 0]], n_tokens=2)]
    ['position', 'key token', 'induction', 'same token', 'PMI']
    """
    counts = Counts.of(documents, n_tokens=n_tokens)
    return (Position(), KeyToken(), Induction(), SameToken(), PMI(counts))


def learned_rungs(
    documents: Sequence[Any], *, n_tokens: int, window: int = 32, strength: float | None = 0.5
) -> tuple[Step, ...]:
    """The automaton and ``shrink``, learned from documents; none if no label is in reach.

    Parameters
    ----------
    documents : sequence of integer sequences
        Token ids.
    n_tokens : int
        Size of the vocabulary.
    window : int
        The longest context.
    strength : float, optional
        Of ``shrink``; None means the best on samples held back.

    Examples
    --------
    >>> [rung.name for rung in learned_rungs([[0, 1, 0, 1, 1]], n_tokens=2, window=3)]
    ['automaton', 'shrink']
    """
    read = [np.asarray(ids, np.int64) for ids in documents if len(ids) > 1]
    if not read:
        return ()
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in read])])
    samples = Samples.from_windows(np.concatenate(read), window=window, documents=offsets, n_tokens=n_tokens)
    if not find_realisable(samples).any():
        return ()
    solved = solve_samples(samples)
    automaton = Automaton(solved.components, solved.hard, solved.soft)
    return (Attending("automaton", automaton), Attending("shrink", shrink(samples, strength=strength)))


def audit_heads(
    model: HeadModel,
    documents: Sequence[Any],
    *,
    rungs: "Rungs" = None,
    random: Sequence[HeadModel] = (),
    how: Audit | None = None,
    progress: Stages | None = None,
) -> HeadAudit:
    """Audit every head of a model on documents.

    Parameters
    ----------
    model : HeadModel
        The model.
    documents : sequence of integer sequences
        Token ids of the model's own tokenizer, documents in no order. A part of them, drawn, fits and counts;
        the others are scored.
    rungs : sequence of rungs, or callable, optional
        The ladder; a callable makes it from the documents to fit on, so that nothing is counted on those that
        are scored. None means :func:`plain_rungs`.
    random : sequence of HeadModel
        The same model with random heads (:func:`~attomaton.audit.randomised.rotate_heads`), against which
        every z is held. Without any, z is over documents alone.
    how : Audit, optional
        Sizes and the seed.
    progress : Stages, optional
        Told what is done.

    Returns
    -------
    HeadAudit

    Examples
    --------
    >>> from attomaton.heads.arrays import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> query, key, value = rng.normal(size=(3, 1, 2, 4, 3))
    >>> model = from_arrays(rng.normal(size=(6, 4)), query, key, value, rng.normal(size=(1, 2, 3, 4)))
    >>> documents = [rng.integers(0, 6, 30) for _ in range(24)]
    >>> audit_heads(model, documents, how=Audit(window=8, length=0)).ladder
    Ladder(2 heads, 5 rungs, nested)
    """
    how, tell = Audit() if how is None else how, Stages() if progress is None else progress
    documents = list_documents(documents)
    fit_on, score_on, counts, steps = prepare(model, documents, rungs, how, whole=True)
    others = _others(counts, steps)

    def measure(one: HeadModel, *, whole: bool) -> tuple[Rows, Ladder, Ladder | None, Seeking]:
        rows = watch_all(one, documents, how, tell)
        fitted, scored = (rows.take(np.isin(rows.documents, part)) for part in (fit_on, score_on))
        tell("climbing")
        ladder = climb(fitted, scored, steps, seed=how.seed, progress=tell.advance)
        alone = climb(fitted, scored, [*steps, *others], nested=False, seed=how.seed) if whole else None
        return scored, ladder, alone, seek_labels(fitted, scored, counts, seed=how.seed)

    scored, ladder, alone, seeking = measure(model, whole=True)
    by_chance = [measure(one, whole=False) for one in random]
    if by_chance:
        ladder = ladder.against([one[1] for one in by_chance])
        seeking = seeking.against([one[3] for one in by_chance])
    return HeadAudit(
        model.name,
        scored.heads,
        ladder,
        ladder if alone is None else alone,
        seeking,
        _worth(model, [documents[one] for one in score_on], how, tell),
        scored.inside.mean(0, dtype=np.float64),
        scored.first.mean(0, dtype=np.float64),
        len(np.unique(scored.documents)),
        len(scored),
        len(by_chance),
    )


Rungs = Sequence[Step] | Callable[[Sequence[Any]], Sequence[Step]] | None
"""Rungs, or what makes them from the documents to fit on; None means the usual ones."""


def prepare(
    model: HeadModel, documents: Sequence[Any], rungs: Rungs, how: Audit, *, whole: bool = False
) -> tuple[list[int], list[int], Counts, tuple[Step, ...]]:
    """The documents to fit on and to score, what is counted of the former, and the rungs.

    For a whole audit both parts are checked to be large enough, before any work is done.
    """
    n_tokens = model.shape.n_tokens
    fit_on, score_on = split_documents(len(check_many(documents)), share=how.fitted, seed=how.seed)
    if whole:
        length = _causal_length(model, how)
        check_parts(documents, (fit_on, score_on), window=how.window, length=length)
    counted, held_back = (
        cut_documents([documents[one] for one in part], how.longest + 1, n_tokens=n_tokens)
        for part in (fit_on, score_on)
    )
    if whole:
        check_copies(counted, held_back)
    steps = rungs(counted) if callable(rungs) else rungs
    steps = plain_rungs(counted, n_tokens=n_tokens) if steps is None else tuple(steps)
    return fit_on, score_on, Counts.of(counted, n_tokens=n_tokens), steps


def check_many(documents: Sequence[Any]) -> Sequence[Any]:
    """The documents, if there are enough to split."""
    if len(documents) < 2:
        raise InvalidSamples(
            "an audit fits on some documents and scores on others, and there "
            f"{'is one' if len(documents) else 'are none'}; give several, by cutting long ones if need be"
        )
    return documents


def watch_all(model: HeadModel, documents: Sequence[Any], how: Audit, tell: Stages) -> Rows:
    """The rows of all documents, as an audit asks for them."""
    tell(f"watching {model.name}")
    sizes = {"window": how.window, "per_document": how.per_document, "longest": how.longest}
    return watch_rows(model, documents, **sizes, seed=how.seed, progress=tell.advance)


def _others(counts: Counts, steps: Sequence[Step]) -> list[Step]:
    """Rungs that are told of alone, where the ladder has none of their name."""
    names = {rung.name for rung in steps}
    return [one for one in (Last(), Frequency(counts), Bigram(counts)) if one.name not in names]


def _causal_length(model: HeadModel, how: Audit) -> int:
    most = model.shape.longest
    return how.length if most is None else min(how.length, most)


def _worth(model: HeadModel, documents: Sequence[Any], how: Audit, tell: Stages) -> Causal | None:
    if not how.length:
        return None
    tell("exchanging heads")
    length = _causal_length(model, how)
    contexts = Contexts.of(documents, length=length, n_tokens=model.shape.n_tokens)
    return replace_heads(model, contexts, seed=how.seed, progress=tell.advance)
