"""The audit of all heads of a model on a corpus, layer by layer (``audit_heads``).

:func:`record_all` records attention rows of the model and of random heads in one pass. For each layer,
:func:`measure_layer` fits rungs and habits on the rows of some documents, and measures ladder, next-token
seeking and ceiling on the rows of the others. Causal value is measured last, because it may depend on the
results of all layers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np

from attomaton.base.artifacts import digest_arrays
from attomaton.base.borders import check_kind
from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import choice
from attomaton.base.progress import Stages, as_stages
from attomaton.base.tables import Float64
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.tokenizers.vocabulary import Vocabulary
from attomaton.heads.audit.causal import replace_by
from attomaton.heads.audit.ceiling import Ceiling, OwnScores, find_ceiling
from attomaton.heads.audit.digests import digest_value
from attomaton.heads.audit.documents import read_audited
from attomaton.heads.audit.excerpts import choose_contexts
from attomaton.heads.audit.explanations import LadderRung, Table
from attomaton.heads.audit.finished import FinishedLayers
from attomaton.heads.audit.ladder import Ladder, climb
from attomaton.heads.audit.planning import AuditSettings, Plan, plan_audit
from attomaton.heads.audit.randomised import RandomHeads, draw_random_heads
from attomaton.heads.audit.recording import Recorded, record
from attomaton.heads.audit.replacing import LabelledContexts, measure_means
from attomaton.heads.audit.result import HeadAudit, join_audits
from attomaton.heads.audit.rows import MEASURES, Rows
from attomaton.heads.audit.rungs import Rungs, settle_rungs
from attomaton.heads.audit.seeking import Seeking, seek_labels
from attomaton.heads.audit.types import distribute, may_be_tokens
from attomaton.heads.model import Head, HeadModel, LayeredModel, choose_heads
from attomaton.heads.opening import open_model

# Whose causal value is measured: that of no head, of those that seek or avoid the label most, of all.
CAUSAL = ("none", "top", "all")

TOP = 10  # heads whose causal value ``"top"`` measures: those with the largest |z| of next-token seeking


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
    """Audit the attention heads of a model on a corpus: what explains where each head looks.

    Explanations are fitted on some documents, drawn at random, and tested on the others.

    Parameters
    ----------
    model : HeadModel, path, str or object
        Anything that :func:`~attomaton.heads.opening.open_model` opens, such as a ``transformers`` model.
    corpus : path, Documents, frame, dataset, sequence of str, or sequence of integer sequences
        Text, which is tokenised with the tokenizer of the model, or token ids.
    rungs : sequence of rungs, or callable, optional
        The explanations to fit, in this order; each is called a rung. A callable makes them from the
        documents to fit on. None means :func:`plain_rungs`.
    theory : bool
        Whether to add three explanations from theory: the automaton, ``shrink`` and utility.
    random : int, or sequence of HeadModel
        How often to draw random heads for comparison, or models that have random heads. If there are none,
        or the weights of the model cannot be read, no head is reported as seeking the next token.
    causal : str
        The heads whose effect on the loss is measured: ``"none"``, ``"all"``, or ``"top"``, the ten heads
        with the largest |z| of next-token seeking.
    layers : int or sequence of int, optional
        The layers to audit, such as ``[17, 18]``. None means all.
    heads : str, or sequence of Head or str, optional
        The heads to audit, such as ``["17.5", "L18H6"]``. None means all.
    limit : int, optional
        The maximum number of documents to read.
    tokenizer : str, path, Vocabulary or callable, optional
        A file, or a tokenizer of ``transformers``. None means the tokenizer that belongs to the model.
    reading : Reading, optional
        How to read files, such as ``Reading(documents="line")``.
    settings : AuditSettings, optional
        Sizes of the audit, and the random seed.
    work : path, optional
        A folder for finished layers. If a call is stopped, repeat the call to continue the audit.
    progress : bool or callable
        True prints the name of each stage on stderr. A callable gets this name. If the callable has a method
        ``advance``, the method gets the finished and the total amount of work in the stage.

    Examples
    --------
    >>> from attomaton.heads.arrays import example_audit
    >>> model, documents = example_audit()
    >>> audit_heads(model, documents, settings=AuditSettings(window=8)).ladder
    Ladder(2 heads, 8 rungs, nested)
    """
    settings = settings or AuditSettings()
    check_kind(settings, AuditSettings, "settings")
    source = model
    model = open_model(source)
    chosen = choose_heads(model.shape, layers, heads)
    documents, vocabulary = read_audited([source], corpus, tokenizer, reading, limit)
    length, no_causal = causal_length(model, settings, causal)
    plan = plan_audit(model, documents, rungs, settings, theory=theory, length=length, vocabulary=vocabulary)
    random_heads = draw_random_heads(model, random, seed=settings.seed)
    about = {
        "model": model.name,
        "null": random_heads.null,
        "left_out": " ".join(note for note in (random_heads.note, no_causal) if note),
        "n_layers": model.shape.n_layers,
        "n_heads": model.shape.n_heads,
        "n_chosen": len(chosen),
    }
    run = _AuditRun(model, random_heads, documents, vocabulary, plan, settings, as_stages(progress))
    identity = run.identify(chosen, causal) | about
    with nullcontext() if work is None else FinishedLayers.open(work, model, documents, identity) as finished:
        audits = {} if finished is None else finished.read()
        without_causal = run.audit_layers([head for head in chosen if head.layer not in audits])
        # A generator, which reads ``audits`` when it is started: after ``without_causal`` has ended.
        with_causal = run.add_causal(audits, length, only_top=causal == "top") if length else ()
        for layer, audit in chain(without_causal, with_causal):
            audits[layer] = replace(audit, **about)
            if finished is not None:
                finished.write(layer, audits[layer])
        return join_audits([audits[layer] for layer in sorted(audits)])


def causal_length(model: HeadModel, settings: AuditSettings, causal: str) -> tuple[int, str]:
    """The length of contexts for causal value, 0 if heads cannot be replaced, and a note that says why."""
    if choice(causal, "causal", options=CAUSAL) == "none":
        return 0, ""
    try:
        logits = model.watch(np.zeros((1, 1), np.int64), edit_patterns=lambda _, pattern: pattern).logits
    except UnsupportedOption as error:  # it shows patterns only
        reason = str(error).split("; ", 1)[0]
    else:
        if bool(logits.isfinite().all()):
            return min(settings.length, model.shape.longest or settings.length), ""
        reason = f"{model.name} gives probability 0 to tokens outside the context, so its loss is infinite"
    return 0, f"Causal value is left out: {reason}."


@dataclass(frozen=True, eq=False)
class LayerHeads:
    """Heads of one layer, of the model or of a random draw: their rows, and the rungs to explain them."""

    rows: Rows
    rungs: Sequence[LadderRung]
    # For the ceiling. If the weights of any model cannot be read, they are None for all models, so that all
    # are treated alike.
    own_scores: OwnScores | None = None


@dataclass(frozen=True, eq=False)
class _AuditRun:
    """What the audits of all layers have in common."""

    model: HeadModel
    random: RandomHeads
    documents: list[Any]
    vocabulary: Vocabulary | None
    plan: Plan
    settings: AuditSettings
    tell: Stages

    def identify(self, heads: Sequence[Head], causal: str) -> dict[str, Any]:
        """JSON values that a stopped audit must have in common with the call that continues it."""
        is_given = self.random.null == "given"
        random = [[model.name, digest_value(model)] for model in self.random.models if is_given]
        return {
            "settings": asdict(self.settings),
            "heads": [str(head) for head in heads],
            "rungs": [[rung.name, digest_value(rung)] for rung in self.plan.rungs],
            "random": random if is_given else len(self.random.models),
            "causal": causal,
        }

    def audit_layers(self, heads: Sequence[Head]) -> Iterator[tuple[int, HeadAudit]]:
        """The audits of some heads, layer after layer, from one pass over the documents."""
        if not heads:
            return
        layers = sorted({head.layer for head in heads})
        recorded = record_all(
            self.model,
            self.random.models,
            self.documents,
            self.settings,
            self.tell,
            layers=layers,
            reads_of=self.plan.fit_on,
        )
        # Lists with an entry for the model, and then one for each draw of random heads.
        rungs = self._rungs()
        own_scores = self._own_scores(recorded)
        self.tell("explaining heads")
        for done, layer in enumerate(layers):
            rows = [one_pass.rows.of_layer(layer) for one_pass in recorded]
            rows[0] = rows[0].of_heads([head for head in heads if head.layer == layer])
            rungs_of_layer = [
                [table_of_heads(rung, rows_of_draw.heads, self.model) for rung in rungs_of_draw]
                for rows_of_draw, rungs_of_draw in zip(rows, rungs, strict=True)
            ]
            heads_of_model, *random = map(LayerHeads, rows, rungs_of_layer, own_scores)
            audit = measure_layer(self.plan, heads_of_model, random, shared=self.random.null == "inputs")
            _, scored = self.plan.split(heads_of_model.rows)
            contexts = choose_contexts(scored, vocabulary=self.vocabulary)
            yield layer, replace(audit, contexts=contexts)
            self.tell.advance(done + 1, len(layers))

    # The rungs of the model and of each draw; only models from the user have rungs of their own.
    def _rungs(self) -> list[tuple[LadderRung, ...]]:
        of_model = settle_rungs(self.plan.rungs, self.model)
        if self.random.null != "given":
            return [of_model] * (1 + len(self.random.models))
        return [of_model, *(settle_rungs(self.plan.rungs, control) for control in self.random.models)]

    # Own scores of the model and of each draw, or None for all of them: see :class:`LayerHeads`.
    def _own_scores(self, recorded: Sequence[Recorded]) -> list[OwnScores] | list[None]:
        models = (self.model, *self.random.models)
        scores = [
            OwnScores(model, one_pass.reads)
            for model, one_pass in zip(models, recorded, strict=True)
            if isinstance(model, LayeredModel) and one_pass.reads is not None
        ]
        return scores if len(scores) == len(models) else [None] * len(models)

    def add_causal(
        self, audits: Mapping[int, HeadAudit], length: int, *, only_top: bool
    ) -> Iterator[tuple[int, HeadAudit]]:
        """Measure the causal value of heads in the layers that lack it; yield the audits of these layers."""
        audit: HeadAudit = join_audits([audits[layer] for layer in sorted(audits)])
        # By the |z| of next-token seeking, the largest first.
        order: list[int] = np.argsort(-np.abs(np.nan_to_num(audit.seeking.z)), kind="stable").tolist()
        chosen = sorted(audit.heads[index] for index in (order[:TOP] if only_top else order))
        sets: dict[int, list[tuple[Head, ...]]] = {}  # by layer; every head is replaced alone
        for head in chosen:
            sets.setdefault(head.layer, []).append((head,))
        measured = {layer: done.causal.sets for layer, done in audits.items() if done.causal is not None}
        missing = [layer for layer in sets if measured.get(layer) != tuple(sets[layer])]
        if not missing:
            return
        self.tell("replacing heads")
        contexts = LabelledContexts.of(
            [self.documents[number] for number in self.plan.score_on],
            length=length,
            n_tokens=self.model.shape.n_tokens,
            most=self.settings.contexts,
        )
        means = measure_means(self.model, contexts)
        for done, layer in enumerate(missing):
            yield layer, replace(audits[layer], causal=replace_by(self.model, contexts, means, sets[layer]))
            self.tell.advance(done + 1, len(missing))


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
    """Record attention rows, and what attention reads: first of a model, then of each of its ``controls``."""
    options: Any = {name: getattr(settings, name) for name in ("window", "per_document", "longest", "seed")}
    options |= {"layers": layers, "reads_of": reads_of, "progress": tell.advance}
    # Random heads that read the residual stream of the model are recorded in the pass of the model.
    joined = [other for other in controls if isinstance(other, LayeredModel) and other.reads_from(model)]
    if len(joined) == len(controls):
        tell(f"recording attention of {model.name}")
        recorded = record(model, documents, random=joined, **options)
        return [recorded, *(Recorded(rows, reads=recorded.reads) for rows in recorded.random)]
    passes = list[Recorded]()
    for recorded_model in (model, *controls):
        tell(f"recording attention of {recorded_model.name}")
        passes.append(record(recorded_model, documents, **options))
    return passes


def measure_layer(
    plan: Plan, heads: LayerHeads, random: Sequence[LayerHeads] = (), *, shared: bool = False
) -> HeadAudit:
    """Audit the heads of a layer and compare them with random draws, whose heads may share one rotation."""
    all_fitted, all_scored = plan.split(heads.rows)
    seeking = seek_labels(all_fitted, all_scored, plan.counts)
    measures = {name: getattr(all_scored, name).mean(0, dtype=np.float64) for name in MEASURES}
    fitted, scored = plan.thin(all_fitted, all_scored)
    ladder = climb(fitted, scored, heads.rungs)
    alone = climb(fitted, scored, [*heads.rungs, *plan.alone_only], nested=False)
    ceiling = find_ceiling(fitted, scored, heads.own_scores)
    # Ceilings are slow to find, and only the test of the token-specific type needs those of random heads.
    needs_ceilings = may_be_tokens(ladder, ceiling)
    seekings = list[Seeking]()
    ladders = list[Ladder]()
    ceilings = list[Ceiling]()
    for draw in random:
        rows = plan.split(draw.rows)
        seekings.append(seek_labels(*rows, plan.counts))
        thinned = plan.thin(*rows)
        ladders.append(climb(*thinned, draw.rungs))
        if needs_ceilings:
            ceilings.append(find_ceiling(*thinned, draw.own_scores))
    return HeadAudit(
        model="",  # the caller adds what all layers have in common
        heads=scored.heads,
        ladder=ladder.against(ladders, shared=shared) if random else ladder,
        alone=alone,
        seeking=seeking.against(seekings, shared=shared) if random else seeking,
        ceiling=ceiling,
        causal=None,
        **measures,
        outside=(~scored.attends).sum(0),
        n_documents=len(np.unique(scored.documents)),
        n_rows=len(scored),
        n_random=len(random),
        null_types=distribute(ladders, ceilings, shared=shared) if random else (),
        digest=digest_arrays(scored.tokens, scored.labels, scored.documents, scored.positions),
    )


def table_of_heads(rung: LadderRung, heads: Sequence[Head], model: HeadModel) -> LadderRung:
    """The rung for some heads of a model: a :class:`Table` with a row for each head keeps their rows."""
    if not isinstance(rung, Table):
        return rung
    every = model.shape.heads
    indices = [every.index(head) for head in heads]

    def of_heads(scores: Float64) -> Float64:
        return scores[indices] if scores.ndim == 2 and len(scores) == len(every) else scores

    return replace(rung, values=of_heads(rung.values), background=of_heads(rung.background))
