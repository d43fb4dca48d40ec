"""The audit of all heads of a model on a corpus: ladder, next-token seeking and causal value together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import digest_arrays
from attomaton.base.borders import check_kind
from attomaton.base.errors import InvalidSamples, MismatchedParts, UnsupportedOption
from attomaton.base.frames import Tabular
from attomaton.base.options import Checked, checked, share, show, whole_number
from attomaton.base.pages import embed_page
from attomaton.base.printing import Block, Grid
from attomaton.base.progress import Stages, as_stages
from attomaton.base.tables import Float64, Int64, table_of
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.tokenizers.vocabulary import Vocabulary, text_of
from attomaton.heads.audit.causal import Causal, LabelledContexts, measure_means, replace_by
from attomaton.heads.audit.ceiling import Ceiling, OwnScores, find_ceiling
from attomaton.heads.audit.documents import (
    check_copies,
    check_lengths,
    cut_documents,
    list_documents,
    split_documents,
)
from attomaton.heads.audit.excerpts import choose_contexts
from attomaton.heads.audit.explanations import Bigram, Frequency, LadderRung, Last, Table, TokenCounts
from attomaton.heads.audit.finished import FinishedLayers, digest_value
from attomaton.heads.audit.jackknife import FEWEST_DOCUMENTS, NullDistribution
from attomaton.heads.audit.ladder import Ladder, climb, name_column
from attomaton.heads.audit.page import render_audit, write_audit
from attomaton.heads.audit.pictures import draw_audit
from attomaton.heads.audit.randomised import draw_random_heads
from attomaton.heads.audit.recording import Recorded, record
from attomaton.heads.audit.rows import MEASURES, Rows
from attomaton.heads.audit.rungs import OfModel, Rungs, learned_rungs, plain_rungs, settle_rungs, useful_rungs
from attomaton.heads.audit.saved import NO_EVIDENCE, SIZE_FIELDS, About, mark, restore, store, write_saved
from attomaton.heads.audit.seeking import YES_NO, Seeking, seek_labels
from attomaton.heads.audit.types import HeadType, distribute, may_be_tokens, type_heads
from attomaton.heads.model import Head, HeadModel, LayeredModel, choose_heads
from attomaton.heads.opening import open_model
from attomaton.heads.texts import read_for

_arrow: Any = pa

NAMED_HEADS, SHOWN_HEADS = 12, 40
"""Heads that are named for each type, and shown in the table, at most."""

TYPE_COLUMNS = {
    "share": "share",
    "share_error": "error",
    "share_low": "low",
    "share_high": "high",
    "z": "z",
}
"""Columns of numbers of a type, without ``type_``, and where a :class:`HeadType` has them."""

HEIGHT = 760
"""Pixels of the page in a notebook."""


@dataclass(frozen=True)
class AuditSettings(Checked):
    """Settings of an audit.

    Attributes
    ----------
    window : int
        Positions in each attention row.
    per_document : int
        Positions sampled from each document.
    longest : int
        The longest context.
    rows : int
        The largest number of rows for the ladder and the ceiling, which cost most; next-token seeking
        uses all.
    fitted : float
        The share of documents used to fit explanations; the others are scored.
    length, contexts : int
        Tokens per context for causal value, and the largest number of contexts.
    seed : int
        The seed of all random draws.

    Examples
    --------
    >>> AuditSettings(window=16).fitted
    0.6
    """

    window: int = field(default=32, metadata=checked(whole_number, least=2))
    per_document: int = field(default=20, metadata=checked(whole_number, least=1))
    longest: int = field(default=256, metadata=checked(whole_number, least=3))
    rows: int = field(default=2_400, metadata=checked(whole_number, least=2 * FEWEST_DOCUMENTS))
    fitted: float = field(default=0.6, metadata=checked(share))
    length: int = field(default=64, metadata=checked(whole_number, least=2))
    contexts: int = field(default=64, metadata=checked(whole_number, least=FEWEST_DOCUMENTS))
    seed: int = field(default=0, metadata=checked(whole_number))


@dataclass(frozen=True, eq=False)
class Plan:
    """What is settled before a model is run: the split of the documents, counts, and rungs.

    ``rungs`` are nested in the ladder; ``most`` are the
    largest numbers of rows to fit them on and to score them on.
    """

    fit_on: list[int]
    score_on: list[int]
    counts: TokenCounts
    rungs: tuple[LadderRung | OfModel, ...]
    most: tuple[int, int]

    @property
    def alone_only(self) -> list[LadderRung]:
        """Rungs that are measured alone although the ladder does not have them."""
        names = {rung.name for rung in self.rungs}
        alone_only = (Last(), Frequency(self.counts), Bigram(self.counts))
        return [rung for rung in alone_only if rung.name not in names]

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """The rows to fit on and those to score."""
        fitted, scored = (
            rows.take(np.isin(rows.documents, documents)) for documents in (self.fit_on, self.score_on)
        )
        return fitted, scored

    def thin(self, fitted: Rows, scored: Rows) -> tuple[Rows, Rows]:
        """As many of the rows, evenly spaced, as rungs are fitted on and scored on."""
        fitted, scored = (
            rows.take(np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(np.int64))
            for rows, most in zip((fitted, scored), self.most, strict=True)
        )
        return fitted, scored


@dataclass(frozen=True, eq=False)
class Remembered:
    """A rung that is slow and the same for all heads: it is scored once for the same positions of a text."""

    rung: Any
    cache: dict[str, Float64] = field(default_factory=dict[str, Float64])

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.rung.name

    def scores(self, rows: Rows) -> Float64:
        key = digest_arrays(rows.tokens, rows.labels)
        if key not in self.cache:
            self.cache[key] = self.rung.scores(rows)
        return self.cache[key]


def prepare(
    model: HeadModel,
    documents: Sequence[Any],
    rungs: Rungs,
    settings: AuditSettings,
    *,
    theory: bool = False,
    length: int | None = None,
    vocabulary: Vocabulary | None = None,
) -> Plan:
    """Split the documents, count those to fit on and make the rungs from them; ``theory`` adds its own.

    For a full audit, whose contexts for causal value have this ``length``, both parts are checked to be large
    enough before any work is done. Rungs that need the texts of tokens are made only if there is a
    vocabulary.
    """
    n_tokens = model.shape.n_tokens
    if len(documents) < 2:
        raise InvalidSamples(
            "an audit fits on some documents and scores on others, but there "
            f"{'is one' if documents else 'are none'}; give several: cut a long one into "
            "pieces, or split a text file by Reading(documents='line')"
        )
    fit_on, score_on = split_documents(len(documents), share=settings.fitted, seed=settings.seed)
    if length is not None:
        check_lengths(documents, fit_on, score_on, window=settings.window, length=length)
    counted, held_back = (
        cut_documents([documents[number] for number in numbers], settings.longest + 1, n_tokens=n_tokens)
        for numbers in (fit_on, score_on)
    )
    if length is not None:
        check_copies(counted, held_back)
    steps: Any = rungs(counted) if callable(rungs) else rungs
    steps = plain_rungs(texts_of(vocabulary, n_tokens)) if steps is None else tuple(steps)
    if theory:
        sizes = {"n_tokens": n_tokens, "window": settings.window}
        learned = (Remembered(rung) for rung in learned_rungs(counted, **sizes))
        steps = (*steps, *learned, *useful_rungs(counted, **sizes))
    to_fit = round(settings.rows * settings.fitted)
    most = (max(to_fit, FEWEST_DOCUMENTS), max(settings.rows - to_fit, FEWEST_DOCUMENTS))
    return Plan(fit_on, score_on, TokenCounts.of(counted, n_tokens=n_tokens), steps, most)


def texts_of(vocabulary: Vocabulary | None, n_tokens: int) -> list[str] | None:
    """The texts of all tokens of a model; empty for those that its vocabulary lacks."""
    if vocabulary is None:
        return None
    n_named = min(len(vocabulary), n_tokens)
    return [text_of(vocabulary, token) for token in range(n_named)] + [""] * (n_tokens - n_named)


def record_all(
    model: HeadModel,
    controls: Sequence[HeadModel],
    documents: Sequence[Any],
    settings: AuditSettings,
    tell: Stages,
    *,
    layers: Sequence[int],
    reads_of: Sequence[int] = (),
) -> list[Recorded]:
    """The attention rows of a model and of models with random heads, and what their attention reads.

    Random heads that read the model's own residual stream are recorded in the same pass.
    """
    sizes: Any = {
        "window": settings.window,
        "per_document": settings.per_document,
        "longest": settings.longest,
    }
    sizes |= {"seed": settings.seed, "progress": tell.advance, "layers": layers}
    same_stream = [
        control for control in controls if isinstance(control, LayeredModel) and control.reads_from(model)
    ]
    if len(same_stream) == len(controls):
        tell(f"recording attention of {model.name}")
        recorded = record(model, documents, random=same_stream, reads_of=reads_of, **sizes)
        return [recorded, *(Recorded(rows, reads=recorded.reads) for rows in recorded.random)]
    every = list[Recorded]()
    for each_model in (model, *controls):
        tell(f"recording attention of {each_model.name}")
        every.append(record(each_model, documents, reads_of=reads_of, **sizes))
    return every


CAUSAL = ("none", "top", "all")
"""Whose causal value is measured: that of no head, of those that seek or avoid the label most, of all."""

TOP = 10
"""Heads whose causal value ``"top"`` measures: those with the largest |z| of next-token seeking."""


def causal_length(model: HeadModel, settings: AuditSettings, causal: str) -> tuple[int, str]:
    """Tokens per context for causal value, at most what the model takes; 0 if it is left out, and why."""
    if causal not in CAUSAL:
        raise UnsupportedOption(f"causal is {show(causal)}; give one of {', '.join(CAUSAL)}")
    if causal == "none":
        return 0, ""
    try:
        logits = model.watch(np.zeros((1, 1), np.int64), edit_patterns=lambda _, pattern: pattern).logits
    except UnsupportedOption as error:  # it shows patterns only
        why = str(error).split("; ", 1)[0]
    else:
        if bool(logits.isfinite().all()):
            return min(settings.length, model.shape.longest or settings.length), ""
        why = f"{model.name} gives probability 0 to tokens outside the context, so its loss is infinite"
    return 0, f"Causal value is left out: {why}."


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
        Next-token seeking.
    ceiling : Ceiling
        What pairs of query and token explain.
    causal : Causal, optional
        Causal value of each head, or of those with the largest |z| of next-token seeking.
    inside, first : float64 array, shape (n_heads,)
        Mean attention inside the window, and on the first token.
    withheld, entropy : float64 array, shape (n_heads,)
        Mean attention that no position gets, because a learned sink takes it; and the mean entropy in nats of
        the attention over all positions.
    outside : int64 array, shape (n_heads,)
        The number of scored rows in which the head attends to neither the window nor the first token. They
        are left out for this head.
    n_documents, n_rows : int
        The numbers of scored documents and rows.
    n_random : int
        The number of draws of random heads, or of models with random heads, that the heads are compared with.
    null : str
        The kind of random heads: ``"intact"``, ``"inputs"`` (the random heads of a layer share a rotation) or
        ``"given"``.
    left_out : str
        Why causal value or random heads are missing, if the caller did not leave them out.
    n_layers, n_heads : int
        The layers of the model, and the heads of each.
    n_chosen : int
        How many heads were to be audited; ``heads`` has fewer if the audit was stopped.
    digest : str
        Identifies the scored rows: audits with the same digest are compared document by document.
    null_types : tuple of NullDistribution
        For each type that is tested, the distribution of its share among random heads.
    contexts : pyarrow.Array, optional
        A few held-out contexts of each head, for the page: those that depart most from its mean pattern.

    Examples
    --------
    >>> import numpy as np
    >>> from attomaton.heads.audit.explanations import Duplicate
    >>> from attomaton.heads.audit.explanations import Position
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> rungs, settings = (Position(), Duplicate()), AuditSettings(window=8)
    >>> audit = audit_heads(model, documents, rungs=rungs, settings=settings)
    >>> audit, audit.table().num_rows
    (HeadAudit(2 heads, 200 rows of 10 documents), 2)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     same = HeadAudit.load(audit.save(f"{folder}/heads.parquet"))
    >>> same.table().equals(audit.table())
    True
    """

    model: str
    heads: tuple[Head, ...]
    ladder: Ladder
    alone: Ladder
    seeking: Seeking
    ceiling: Ceiling
    causal: Causal | None
    inside: Float64
    first: Float64
    withheld: Float64
    entropy: Float64
    outside: Int64
    n_documents: int
    n_rows: int
    n_random: int = 0
    null: str = "intact"
    left_out: str = ""
    n_layers: int = 0
    n_heads: int = 0
    n_chosen: int = 0
    digest: str = ""
    null_types: tuple[NullDistribution, ...] = ()
    contexts: Any = None

    def __repr__(self) -> str:
        n_layers = len(self.layers)
        partial = f" of {n_layers} of {self.n_layers} layers" if n_layers < self.n_layers else ""
        rows = f"{self.n_rows:,} rows of {self.n_documents:,} documents"
        return f"HeadAudit({len(self.heads)} heads{partial}, {rows})"

    @property
    def layers(self) -> list[int]:
        """The audited layers, ascending."""
        return sorted({head.layer for head in self.heads})

    @property
    def is_partial(self) -> bool:
        """Whether the audit was stopped before the last layer."""
        return len(self.heads) < self.n_chosen

    @property
    def rises(self) -> tuple[Float64, Float64] | None:
        """The rise of the loss with mean patterns and with mean outputs, shape (n_heads,) each.

        NaN for heads whose causal value was not measured; None if that of no head was.
        """
        if self.causal is None:
            return None
        measured = {heads[0]: at for at, heads in enumerate(self.causal.sets)}
        at = np.array([measured.get(head, -1) for head in self.heads])
        pattern, ablation = (
            np.where(at < 0, np.nan, estimates.value[at])
            for estimates in (self.causal.pattern, self.causal.ablation)
        )
        return pattern, ablation

    @cached_property
    def types(self) -> tuple[HeadType, ...]:
        """The type of each head, by the rule of :mod:`attomaton.heads.audit.types`."""
        outside = self.outside / self.n_rows
        return type_heads(self.ladder, self.seeking, self.ceiling, outside, self.null_types)

    @property
    def named(self) -> Float64:
        """The share of attention that the rungs of the ladder explain together, shape (n_heads,)."""
        return self.ladder.shares[-1]

    @property
    def contextual(self) -> Float64:
        """An upper estimate of the share that no function of pairs of tokens explains, shape (n_heads,)."""
        return 1.0 - self.ceiling.pairs.value

    def _table(self) -> pa.Table:
        """One row per head.

        Columns: head, layer, number; type, type_share with type_share_error, _low and _high, type_z,
        type_is_stable and type_reason; inside, first, withheld, entropy, effective_length and rows_outside;
        named, pairs (both with _error, _low and _high) and contextual; for each rung
        ``explained_<rung>``, ``added_<rung>`` and ``z_<rung>``; for each rung alone ``alone_<rung>``;
        seeking_mass, seeking_excess, seeking_z, seeking_z_documents, seeks; and, where causal value was
        measured, the rise in loss from mean patterns and from mean outputs.
        """
        columns: dict[str, Any] = {
            "head": [str(head) for head in self.heads],
            "layer": [head.layer for head in self.heads],
            "number": [head.number for head in self.heads],
            "type": [head_type.name for head_type in self.types],
            **{
                f"type_{name}": pa.array(
                    [getattr(head_type, of) for head_type in self.types], pa.float64(), from_pandas=True
                )
                for name, of in TYPE_COLUMNS.items()
            },
            "type_is_stable": [head_type.is_stable for head_type in self.types],
            "type_reason": [str(head_type) for head_type in self.types],
            **{name: getattr(self, name) for name in MEASURES},
            "effective_length": np.exp(self.entropy),
            "rows_outside": self.outside,
        }
        for name, estimates in (("named", self.ladder.explained[-1]), ("pairs", self.ceiling.pairs)):
            columns[name] = estimates.value
            columns |= {f"{name}_{of}": getattr(estimates, of) for of in ("error", "low", "high")}
        columns["contextual"] = self.contextual
        z = self.ladder.z
        for at, name in enumerate(self.ladder.names):
            columns[name_column("explained", name)] = self.ladder.explained[at].value
            columns[name_column("added", name)] = self.ladder.added[at].value
            columns[name_column("z", name)] = z[at]
        for at, name in enumerate(self.alone.names):
            columns[name_column("alone", name)] = self.alone.explained[at].value
        columns["seeking_mass"] = self.seeking.mass.value
        columns["seeking_excess"] = self.seeking.excess.value
        columns["seeking_z"] = self.seeking.z
        columns["seeking_z_documents"] = self.seeking.excess.z
        columns["seeks"] = pa.array(self.seeking.judged, pa.bool_())
        if self.rises is not None:
            for name, rise in zip(("pattern_rise", "ablation_rise"), self.rises, strict=True):
                columns[name] = pa.array(rise, pa.float64(), from_pandas=True)
        return mark(table_of(columns), self.about)

    @property
    def about(self) -> About:
        """The metadata of a saved table."""
        sizes = (self.n_documents, self.n_rows, self.n_random)
        return About(
            self.model,
            self.ladder.names,
            *sizes,
            self.null,
            alone=self.alone.names,
            seeking_rows=self.seeking.n_rows,
            seeking_documents=self.seeking.n_documents,
            whole=() if self.causal is None else (self.causal.loss, self.causal.accuracy),
            left_out=self.left_out,
            **{name: getattr(self, name) for name in SIZE_FIELDS},
            digest=self.digest,
        )

    def _with_contexts(self) -> pa.Table:
        """The table with a column of contexts, if there are any."""
        table: Any = self._table()
        return table if self.contexts is None else table.append_column("contexts", self.contexts)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the table, and what its errors and z are computed from, as Parquet; return the path.

        An existing file is replaced only if it is a Parquet file.
        """
        return write_saved(store(self), path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "HeadAudit":
        """An audit that :meth:`save` or ``attomaton heads --out`` wrote."""
        return cls(**restore(path))

    def page(self, path: str | PathLike[str] = "heads.html") -> Path:
        """Write one HTML file to look at, and return its path.

        It has a map of layers and heads, and for each head its ladder and contexts with attention drawn on
        the text. It needs no network. A notebook shows the same page.
        """
        return write_audit(self._with_contexts(), self.about, path)

    def _repr_html_(self) -> str:
        """The page in a frame; where a notebook is not trusted, only the table below it remains."""
        page = embed_page(render_audit(self._with_contexts(), self.about), height=HEIGHT)
        return f"{page}<details><summary>Table</summary>{super()._repr_html_()}</details>"

    def plot(self, ax: Any = None) -> Any:
        """Draw the map of types by layer and head, and who seeks the next token; returns matplotlib axes."""
        names = [head_type.name for head_type in self.types]
        return draw_audit(self.heads, names, self.seeking.holds, ax)

    @property
    def order(self) -> list[int]:
        """The heads by interest: rare types first, and within a type the largest share."""
        names = [head_type.name for head_type in self.types]
        return sorted(
            range(len(names)), key=lambda at: (names.count(names[at]), names[at], -self.types[at].share)
        )

    def _blocks(self) -> list[Block]:
        names, order = [head_type.name for head_type in self.types], self.order
        kinds = list(dict.fromkeys(names[at] for at in order))
        of_kind = {kind: [str(self.heads[at]) for at in order if names[at] == kind] for kind in kinds}
        types = [
            (kind, str(len(heads)), ", ".join(heads[:NAMED_HEADS]) + ", …" * (len(heads) > NAMED_HEADS))
            for kind, heads in of_kind.items()
        ]
        headers = ["head", "type", "share", "z", "first", "named", "pairs", "seeks"]
        headers += [] if self.causal is None else ["own mean pattern", "mean output"]
        judged, rows = self.seeking.judged, list[tuple[str, ...]]()
        for at in order[:SHOWN_HEADS]:
            head_type = self.types[at]
            z = "" if np.isnan(head_type.z) else f"{head_type.z:+.1f}"
            shares = (self.first[at], self.named[at], self.ceiling.pairs.value[at])
            name = f"{head_type.name}{'' if head_type.is_stable else ' *'}"
            row = (
                str(self.heads[at]),
                name,
                f"{head_type.share:.2f}",
                z,
                *(f"{share:.2f}" for share in shares),
            )
            row += (YES_NO[judged[at]],)
            if self.rises is not None:
                row += tuple("" if np.isnan(rise[at]) else f"{rise[at]:+.4f}" for rise in self.rises)
            rows.append(row)
        words: list[Block] = [self.about.said_of_z]
        if len(order) > SHOWN_HEADS:
            more = len(order) - SHOWN_HEADS
            words.insert(0, f"and {more} more heads: --page and --out, in Python .table(), have all")
        if not all(head_type.is_stable for head_type in self.types):
            words.append("* marks types that differ between the two halves of the documents.")
        if self.outside.any():
            worst: list[int] = np.argsort(-self.outside, kind="stable")[: (self.outside > 0).sum()].tolist()
            counts = ", ".join(f"{self.heads[at]} ({self.outside[at]:,})" for at in worst[:NAMED_HEADS])
            words.append(
                f"Heads that attend to neither the window nor the first token in some of {self.n_rows:,} "
                f"rows, which are left out for them: {counts}{', …' * (len(worst) > NAMED_HEADS)}."
            )
        if self.is_partial:
            words.append(f"The audit was stopped: {said_of_layers(self)}.")
        if self.causal is not None:
            words.append(f"The last two columns are the rise in loss. {NO_EVIDENCE}")
        return [
            repr(self),
            Grid("", ["type", "heads", "which"], types),
            Grid("", headers, rows),
            *words,
            self._rungs(),
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


def said_of_layers(audit: HeadAudit) -> str:
    """Which layers an audit has, in words."""
    layers = audit.layers
    runs = f"{layers[0]} to {layers[-1]}" if layers == list(range(layers[0], layers[-1] + 1)) else None
    return f"it has the layers {runs or ', '.join(map(str, layers))} of {audit.n_layers}"


def audit_heads(
    model: Any,
    corpus: Any,
    *,
    rungs: Rungs = None,
    theory: bool = False,
    random: int | Sequence[HeadModel] = 2,
    causal: str = "none",
    layers: int | Sequence[int] | None = None,
    heads: str | Sequence[Head | str] | None = None,
    limit: int | None = None,
    tokenizer: Any = None,
    reading: Reading | None = None,
    settings: AuditSettings | None = None,
    work: str | PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = False,
) -> HeadAudit:
    """Audit every head of a model on a corpus, or some of them.

    Parameters
    ----------
    model : HeadModel, path, str or object
        Anything that :func:`~attomaton.heads.opening.open_model` opens, such as a ``transformers`` model.
    corpus : path, Documents, frame, dataset, sequence of str, or sequence of integer sequences
        Text, which is tokenised by the model's own tokenizer, or token ids from it; the order of documents
        does not matter. A random part is used to fit and count; the others are scored.
    rungs : sequence of rungs, or callable, optional
        The ladder. A callable makes it from the documents to fit on, so that nothing is counted on documents
        that are scored. None means :func:`plain_rungs`.
    theory : bool
        Whether to add the rungs of the theory of one layer: the automaton, ``shrink`` and utility.
    random : int, or sequence of HeadModel
        How many times random heads are drawn; z is relative to them. Or a sequence of models with random
        heads. With 0, and for a model without accessible weights, z comes from documents alone and no head
        is reported as seeking the next token.
    causal : str
        Whose causal value to measure: ``"none"``, ``"all"``, or ``"top"``, the ten heads with the largest |z|
        of next-token seeking.
    layers : int or sequence of int, optional
        Audit the heads of these layers only, such as ``[17, 18]``.
    heads : str, or sequence of Head or str, optional
        Audit these heads only, such as ``["17.5", "L18H6"]``. They are compared with all random heads of
        their layers.
    limit : int, optional
        Audit on the first documents of the corpus, at most this many.
    tokenizer : str, path, Vocabulary or callable, optional
        What tokenises text: a file, or a tokenizer of ``transformers``. None means the model's own, which is
        in the folder of a model on disk, and part of a model of TransformerLens or nnsight.
    reading : Reading, optional
        How files are read, such as ``Reading(documents="line")``.
    settings : AuditSettings, optional
        Sizes and the seed.
    work : path, optional
        A folder in which finished layers are kept. If a call is stopped, the same call continues from there.
    progress : bool or callable
        True prints the name of each stage on stderr. A callable is called with that name. If it has a method
        ``advance``, that is called with the finished and the total amount of work in the stage.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> audit_heads(model, documents, settings=AuditSettings(window=8)).ladder
    Ladder(2 heads, 8 rungs, nested)
    """
    settings, tell = settings or AuditSettings(), as_stages(progress)
    check_kind(settings, AuditSettings, "settings")
    source, model = model, open_model(model)
    chosen = choose_heads(model.shape, layers, heads)
    read = read_for([source], corpus, tokenizer=tokenizer, reading=reading, limit=limit)
    documents, vocabulary = list_documents(read, limit), getattr(read, "vocabulary", None)
    length, no_causal = causal_length(model, settings, causal)
    plan = prepare(model, documents, rungs, settings, theory=theory, length=length, vocabulary=vocabulary)
    controls, null, no_controls = draw_random_heads(model, random, seed=settings.seed)
    for control in controls:
        if control.shape.heads != model.shape.heads:
            raise MismatchedParts(
                f"{control.name} does not have the layers and heads of {model.name}; "
                "give a control of the same shape"
            )
    if len(controls) * len(model.shape.heads) == 1:
        raise UnsupportedOption(
            f"random gives {model.name} one random head, which has no spread to compare with; give random=2 "
            "or more, or random=0 for no comparison"
        )
    about = {
        "model": model.name,
        "null": null,
        "left_out": " ".join(why for why in (no_controls, no_causal) if why),
        "n_layers": model.shape.n_layers,
        "n_heads": model.shape.n_heads,
        "n_chosen": len(chosen),
    }
    call_settings = {
        "settings": asdict(settings),
        "heads": [str(head) for head in chosen],
        "rungs": [[rung.name, digest_value(rung)] for rung in plan.rungs],
        "random": len(controls)
        if null != "given"
        else [[control.name, digest_value(control)] for control in controls],
        "causal": causal,
        **about,
    }
    with (
        nullcontext()
        if work is None
        else FinishedLayers.open(work, model, documents, call_settings) as finished
    ):
        entries = {} if finished is None else finished.read()
        by_layer = {layer: HeadAudit(**values) for layer, values in entries.items()}
        missing = [head for head in chosen if head.layer not in by_layer]
        for layer, audit in measure_layers(
            model, controls, documents, plan, null, missing, settings, tell, vocabulary
        ):
            by_layer[layer] = replace(audit, **about)
            if finished is not None:
                finished.write(layer, by_layer[layer])
        if length:
            every = join_audits([by_layer[layer] for layer in sorted(by_layer)])
            scored = [documents[number] for number in plan.score_on]
            contexts = LabelledContexts.of(
                scored, length=length, n_tokens=model.shape.n_tokens, most=settings.contexts
            )
            for layer, audit in add_causal(model, contexts, every, causal, by_layer, tell):
                by_layer[layer] = audit
                if finished is not None:
                    finished.write(layer, audit)
        return join_audits([by_layer[layer] for layer in sorted(by_layer)])


def add_causal(
    model: HeadModel,
    contexts: LabelledContexts,
    audit: HeadAudit,
    causal: str,
    audits: Mapping[int, HeadAudit],
    tell: Stages,
) -> Iterator[tuple[int, HeadAudit]]:
    """The layers with chosen heads, with the causal value of these; finished ones are left out."""
    order: list[int] = np.argsort(-np.abs(np.nan_to_num(audit.seeking.z)), kind="stable").tolist()
    chosen = sorted(audit.heads[at] for at in (order[:TOP] if causal == "top" else order))
    layers: dict[int, list[tuple[Head, ...]]] = {}
    for head in chosen:
        layers.setdefault(head.layer, []).append((head,))
    measured = {
        layer: finished.causal.sets for layer, finished in audits.items() if finished.causal is not None
    }
    missing = [layer for layer, sets in layers.items() if measured.get(layer) != tuple(sets)]
    if not missing:
        return
    tell("replacing heads")
    means = measure_means(model, contexts)
    for done, layer in enumerate(missing):
        yield layer, replace(audits[layer], causal=replace_by(model, contexts, means, layers[layer]))
        tell.advance(done + 1, len(missing))


def measure_layers(
    model: HeadModel,
    controls: Sequence[HeadModel],
    documents: Sequence[Any],
    plan: Plan,
    null: str,
    heads: Sequence[Head],
    settings: AuditSettings,
    tell: Stages,
    vocabulary: Vocabulary | None,
) -> Iterator[tuple[int, HeadAudit]]:
    """The audits of some heads, layer after layer, from one pass over the documents."""
    if not heads:
        return
    layers = sorted({head.layer for head in heads})
    recorded = record_all(model, controls, documents, settings, tell, layers=layers, reads_of=plan.fit_on)
    scores = [
        OwnScores(each_model, of_model.reads)
        for each_model, of_model in zip((model, *controls), recorded, strict=True)
        if isinstance(each_model, LayeredModel) and of_model.reads is not None
    ]
    rungs_of_model = settle_rungs(
        plan.rungs, model
    )  # compared with these, random heads are not more or less useful
    settled = [
        rungs_of_model,
        *(settle_rungs(plan.rungs, control) if null == "given" else rungs_of_model for control in controls),
    ]
    tell("explaining heads")
    for done, layer in enumerate(layers):
        sets = [of_model.rows.of_layer(layer) for of_model in recorded]
        sets[0] = sets[0].of_heads([head for head in heads if head.layer == layer])
        rungs_of = [
            [of_heads(rung, rows.heads, model) for rung in rungs]
            for rows, rungs in zip(sets, settled, strict=True)
        ]
        contexts = choose_contexts(plan.split(sets[0])[1], documents, vocabulary=vocabulary)
        own_scores = scores if len(scores) == len(sets) else []
        audit = measure_layer(plan, sets, rungs_of, own_scores, shared=null == "inputs")
        yield layer, replace(audit, contexts=contexts)
        tell.advance(done + 1, len(layers))


def measure_layer(
    plan: Plan,
    sets: Sequence[Rows],
    rungs_of: Sequence[Sequence[LadderRung]],
    scores: Sequence[OwnScores],
    *,
    shared: bool = False,
) -> HeadAudit:
    """The audit of the heads of one layer, compared with random heads of the same layer.

    ``sets`` are the rows of the model, then those of each draw of random heads, with the ladder of each in
    ``rungs_of``. ``scores`` is empty if a set has no weights, so that all ceilings are found in the same way.
    """
    ladders, seekings = list[Ladder](), list[Seeking]()
    for rows, rungs in zip(sets, rungs_of, strict=True):
        fitted, scored = plan.split(rows)
        seekings.append(seek_labels(fitted, scored, plan.counts))
        ladders.append(climb(*plan.thin(fitted, scored), rungs))
    every = plan.split(sets[0])
    fitted, scored = plan.thin(*every)
    alone = climb(fitted, scored, [*rungs_of[0], *plan.alone_only], nested=False)
    n_random = len(sets) - 1

    def limit(at: int) -> Ceiling:
        return find_ceiling(*plan.thin(*plan.split(sets[at])), scores[at] if scores else None)

    ceiling = limit(0)
    ceilings = [limit(at) for at in range(1, len(sets))] if may_be_tokens(ladders[0], ceiling) else []
    return HeadAudit(
        model="",
        heads=scored.heads,
        ladder=ladders[0].against(ladders[1:], shared=shared) if n_random else ladders[0],
        alone=alone,
        seeking=seekings[0].against(seekings[1:], shared=shared) if n_random else seekings[0],
        ceiling=ceiling,
        causal=None,
        **{name: getattr(every[1], name).mean(0, dtype=np.float64) for name in MEASURES},
        outside=(~scored.attends).sum(0),
        n_documents=len(np.unique(scored.documents)),
        n_rows=len(scored),
        n_random=n_random,
        null_types=distribute(ladders[1:], ceilings, shared=shared) if n_random else (),
        digest=digest_arrays(scored.tokens, scored.labels, scored.documents, scored.positions),
    )


def of_heads(rung: LadderRung, heads: Sequence[Head], model: HeadModel) -> LadderRung:
    """A rung for the rows of some heads of a model: a table with scores for every head keeps only theirs."""
    if not isinstance(rung, Table):
        return rung
    every = model.shape.heads
    indices = [every.index(head) for head in heads]
    scores = {
        name: values[indices]
        for name, values in (("values", rung.values), ("background", rung.background))
        if values.ndim == 2 and len(values) == len(every)
    }
    return replace(rung, **scores)


def read_finished(folder: str | PathLike[str]) -> HeadAudit | None:
    """The audit of the finished layers in the ``work`` folder of an audit; None if there are none."""
    layers = FinishedLayers(Path(folder)).read()
    return join_audits([HeadAudit(**layers[layer]) for layer in sorted(layers)]) if layers else None


def join_audits(items: Sequence[Any]) -> Any:
    """The audit of all heads of several audits of one model, such as its layers, on the same documents.

    Values are joined field by field: heads are the last axis of every array, and all else is the same.
    """
    items = [item for item in items if item is not None]  # causal value, where only some layers have it
    if not items or isinstance(items[0], str | int | float):
        return items[0] if items else None
    if isinstance(items[0], np.ndarray):
        return np.concatenate(items, -1)
    if isinstance(items[0], pa.Array):
        return _arrow.concat_arrays(items)
    if isinstance(items[0], tuple):
        return tuple(join_audits(entries) for entries in zip(*items, strict=True))
    values = {member.name: [getattr(item, member.name) for item in items] for member in fields(items[0])}
    return type(items[0])(
        **{
            name: sum(each, ()) if name in ("heads", "sets") else join_audits(each)
            for name, each in values.items()
        }
    )
