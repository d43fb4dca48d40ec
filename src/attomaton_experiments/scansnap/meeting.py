"""Where the two theories meet: one corpus, and the assumptions that differ switched one at a time.

Four small cases whose labels are all in their contexts, trained as one corpus, and the text that comes with
the package. The predictions of each theory are computed from the samples (the automaton of the first, the
first movement of the scores for the second); the outcome is the exact gradient flow of each layer variant.
"""

from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton import Automaton, learn
from attomaton.base.printing import Grid
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Bool, Float64
from attomaton.claims import Verdict
from attomaton.claims.verdicts import Judgement
from attomaton.corpora import Samples, read_corpus
from attomaton.graphs.bags import find_realisable
from attomaton.theories import CorpusClasses, LearnedHead, MassHead, Rates, TiedHead, solve_flow
from attomaton.theories.scansnap.classes import classes_of_contexts
from attomaton.theories.scansnap.flow import LayerFlow
from attomaton.theories.scansnap.heads import DecoderHead
from attomaton.theories.scansnap.pulls import find_pulls
from attomaton_experiments.figures.grids import GridFigure as DrawnGrid, draw_grids
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

Row = dict[str, Any]
STORY = ("retrieved", "is_label", "is_query", "loss")
"""The measures on the story: properties of attention's top token, and the mean loss."""


@dataclass(frozen=True)
class Variant:
    """One layer: its name, also in two short lines, whether the query is a key, and its head."""

    name: str
    short: str
    query_is_key: bool
    head: DecoderHead

    @property
    def learns(self) -> bool:
        """Whether its decoder is learned."""
        return self.head.trains_decoder

    def train(self, samples: Samples, rates: Rates, time: float) -> LayerFlow:
        """The layer on these samples; labels that are not keys are left out if the loss needs their mass."""
        if isinstance(self.head, MassHead) and not self.query_is_key:
            samples = samples.take(_label_before_query(samples))
        contexts = classes_of_contexts(samples, query_is_key=self.query_is_key)
        return solve_flow(contexts, rates, [time], head=self.head, growth=False, rtol=1e-7, atol=1e-9)


def variants(tied_scale: float) -> tuple[Variant, ...]:
    """From the first paper to the second, one change at a time; the second column is a side step."""
    return (
        Variant("first paper", "first\npaper", True, MassHead()),
        Variant("first paper, query masked", "query\nmasked", False, MassHead()),
        Variant("softmax of a tied decoder", "tied\nsoftmax", True, TiedHead(tied_scale)),
        Variant("learned decoder", "learned\ndecoder", True, LearnedHead()),
        Variant("second paper (learned, query masked)", "second\npaper", False, LearnedHead()),
    )


@dataclass(frozen=True)
class Cases:
    """The small cases as one corpus; different cases have different tokens."""

    names: tuple[str, ...]
    words: tuple[str, ...]
    case_of: tuple[int, ...]
    samples: Samples

    @classmethod
    def from_settings(cls, cases: list[dict[str, Any]]) -> "Cases":
        """Number the tokens case by case."""
        ids: dict[tuple[int, str], int] = {}
        contexts: list[list[int]] = []
        labels: list[int] = []
        case_of: list[int] = []
        for number, case in enumerate(cases):
            for text, label in case["samples"]:
                contexts.append([ids.setdefault((number, word), len(ids)) for word in text.split()])
                labels.append(ids[number, label])
                case_of.append(number)
        samples = Samples.from_lists(contexts, labels, n_tokens=len(ids))
        return cls(
            tuple(case["name"] for case in cases), tuple(word for _, word in ids), tuple(case_of), samples
        )


def run_meeting(settings: Settings, _: Progress = silent) -> Page:
    """Both theories and five layers on the cases and on the story; nothing is random."""
    cases = Cases.from_settings(settings["cases"])
    layers = variants(settings["tied_scale"])
    rates = Rates(settings["decoder_rate"], settings["attention_rate"])
    first, second = learn(cases.samples), _second_theory(cases.samples)
    rows = _case_rows(cases, layers, rates, settings["time"])
    story = _story_rows(layers, rates, settings["story"])
    return render_figure(
        settings,
        f"Attention by layer at t = {settings['time']:g}. Framed: the label. White: not a key or not trained",
        (_case_table(cases, layers, rows, first, second), _story_table(story)),
        _numbers(cases, rows, story),
        partial(draw_grids, _grids(cases, layers, rows)),
        verdicts=_judge(layers, cases, rows, first, second),
        notes=(
            f"The exact gradient flow has η_Y = {rates.decoder:g} and η_Z = {rates.attention:g}; the tied "
            f"decoder is {settings['tied_scale']:g}·I.",
            *NOTES,
        ),
    )


NOTES = (
    "With a tied decoder attention keeps the label, whichever loss reads it; with a learned one it keeps "
    "the token that distinguishes the labels, the label or not. This is the only difference in the cases.",
    "Masking the query matters where the query itself is worth keeping: with the first paper's head where "
    "it is the label (last case), with a learned decoder where it predicts the label (often, in the story).",
    "The first theory ends in a limit (mass → 1); the second slows down once its decoder has learned, and "
    "leaves attention soft.",
)


def _label_before_query(samples: Samples) -> Bool:
    return np.array([label in context[:-1] for context, label in samples])


def _second_theory(samples: Samples) -> dict[int, dict[int, float]]:
    """The pull on each token before each query."""
    classes = CorpusClasses.from_samples(samples)
    queries: list[int] = np.unique(classes.queries).tolist()
    return {
        query: dict(zip(tokens.tolist(), pulls.tolist(), strict=True))
        for query, (tokens, pulls) in zip(queries, find_pulls(classes, queries), strict=True)
    }


def _attention(path: LayerFlow, context: tuple[int, ...], *, query_is_key: bool) -> dict[int, float]:
    """Attention of a trained layer to the tokens of one context; {} if its query was not trained."""
    reduced, query = path.reduced, context[-1]
    keys = context if query_is_key else context[:-1]
    at = np.searchsorted(reduced.queries, query)
    if at == len(reduced.queries) or reduced.queries[at] != query:
        return {}
    tokens, counts = np.unique(keys, return_counts=True)
    columns = np.minimum(np.searchsorted(reduced.keys, tokens), len(reduced.keys) - 1)
    scores: Float64 = np.where(reduced.keys[columns] == tokens, path.scores[-1][at, columns], 0.0)
    raised = counts * np.exp(scores - scores.max())
    return dict(zip(tokens.tolist(), (raised / raised.sum()).tolist(), strict=True))


def _case_rows(cases: Cases, layers: tuple[Variant, ...], rates: Rates, time: float) -> list[Row]:
    rows: list[Row] = []
    for layer in layers:
        path = layer.train(cases.samples, rates, time)
        for number, (context, label) in enumerate(cases.samples):
            if isinstance(layer.head, MassHead) and not layer.query_is_key and label not in context[:-1]:
                continue  # its mass is 0, so this layer was not trained on it
            for token, mass in _attention(path, context, query_is_key=layer.query_is_key).items():
                origin = {"layer": layer.name, "sample": number}
                rows.append({**origin, "token": cases.words[token], "id": token, "attention": mass})
    return rows


def _tops(rows: list[Row], layer: Variant) -> dict[int, Row]:
    """The row with the most attention in every sample that the layer was trained on."""
    tops: dict[int, Row] = {}
    for row in sorted((row for row in rows if row["layer"] == layer.name), key=lambda row: row["attention"]):
        tops[row["sample"]] = row
    return tops


def _kept_by_second(second: dict[int, dict[int, float]], context: tuple[int, ...]) -> int:
    """The token of the context with the largest pull."""
    return max(context[:-1], key=second[context[-1]].__getitem__)


def _case_table(
    cases: Cases,
    layers: tuple[Variant, ...],
    rows: list[Row],
    first: Automaton,
    second: dict[int, dict[int, float]],
) -> Grid:
    tops = [_tops(rows, layer) for layer in layers]
    lines: list[list[str]] = []
    for number, (context, label) in enumerate(cases.samples):
        shown = " ".join(cases.words[token] for token in context)
        retrieved = " ".join(cases.words[int(token)] for token in first.retrieve(list(context)))
        by_second = cases.words[_kept_by_second(second, context)]
        attentions = [
            f"{top[number]['token']} {top[number]['attention']:.2f}" if number in top else "cannot learn it"
            for top in tops
        ]
        cells = [cases.names[cases.case_of[number]], f"{shown} → {cases.words[label]}", retrieved, by_second]
        lines.append([*cells, *attentions])
    headers = ["case", "sample", "first theory keeps", "second theory keeps"]
    return Grid(
        "The token with most attention, and its attention",
        [*headers, *(layer.name for layer in layers)],
        lines,
    )


def _story_rows(layers: tuple[Variant, ...], rates: Rates, settings: Settings) -> list[Row]:
    """How often attention's top token is retrieved by the automaton, the label, or the query itself."""
    story = resources.files("attomaton.corpora").joinpath("example.txt").read_text(encoding="utf-8")
    samples = read_corpus([story]).windows(settings["window"])
    samples = samples.take(find_realisable(samples))
    first = learn(samples)
    rows: list[Row] = []
    for layer in layers:
        path = layer.train(samples, rates, settings["time"])
        outcomes: list[tuple[bool, bool, bool]] = []
        for context, label in samples:
            masses = _attention(path, context, query_is_key=layer.query_is_key)
            top = max(masses, key=masses.__getitem__) if masses else label
            retrieved = first.retrieve(list(context))
            outcomes.append((top in retrieved, top == label, top == context[-1]))
        shares = np.array(outcomes).mean(axis=0).tolist()
        measured = dict(zip(STORY, [*shares, float(path.loss()[-1])], strict=True))
        rows.append({"layer": layer.name, **measured})
    return rows


def _numbers(cases: Cases, rows: list[Row], story: list[Row]) -> pa.Table:
    """All numbers, one per row; those of the story are over all samples, so sample and token are empty."""
    numbers: list[Row] = []
    for row in rows:
        context, label = cases.samples[row["sample"]]
        shown = f"{' '.join(cases.words[token] for token in context)} → {cases.words[label]}"
        origin: Row = {
            "part": cases.names[cases.case_of[row["sample"]]],
            "layer": row["layer"],
            "sample": shown,
        }
        numbers.append({**origin, "token": row["token"], "measure": "attention", "value": row["attention"]})
    for row in story:
        whole: Row = {"part": "story", "layer": row["layer"], "sample": "", "token": ""}
        numbers += [{**whole, "measure": name, "value": row[name]} for name in STORY]
    return pa.Table.from_pylist(numbers)


def _story_table(rows: list[Row]) -> Grid:
    lines = [
        [
            row["layer"],
            *(f"{row[name]:.1%}" for name in STORY[:-1]),
            f"{row['loss']:.3f}",
        ]
        for row in rows
    ]
    headers = ["layer", "top token is that of the first theory", "is the label", "is the query", "loss"]
    return Grid("The story that comes with the package, realisable samples", headers, lines)


def _grids(cases: Cases, layers: tuple[Variant, ...], rows: list[Row]) -> list[DrawnGrid]:
    """One grid per case: tokens by layers, the label's row framed."""
    attention_of = {(row["layer"], row["sample"], row["id"]): row["attention"] for row in rows}
    grids: list[DrawnGrid] = []
    for case, name in enumerate(cases.names):
        names: list[str] = []
        values: list[list[float | None]] = []
        marked: list[tuple[int, int]] = []
        borders: list[int] = []
        for number in (sample for sample, of in enumerate(cases.case_of) if of == case):
            context, label = cases.samples[number]
            if names:
                borders.append(len(names))
            first = len(names)
            for token in dict.fromkeys(context):
                if token == label:
                    marked += [(len(names), column) for column in range(len(layers))]
                names.append(cases.words[token])
                values.append([attention_of.get((layer.name, number, token)) for layer in layers])
            words = " ".join(cases.words[token] for token in context)
            names[first] = f"{words} → {cases.words[label]}:  {names[first]}"
        grids.append(DrawnGrid(name, names, [layer.short for layer in layers], values, marked, borders))
    return grids


def _judge(
    layers: tuple[Variant, ...],
    cases: Cases,
    rows: list[Row],
    first: Automaton,
    second: dict[int, dict[int, float]],
) -> list[Verdict]:
    """Whether tied decoders keep the token of the first theory, and learned ones that of the second."""
    hits: dict[bool, list[bool]] = {False: [], True: []}
    for layer in layers:
        for number, top in _tops(rows, layer).items():
            context = cases.samples[number].context
            retrieved, by_second = first.retrieve(list(context)), _kept_by_second(second, context)
            hits[layer.learns].append(top["id"] == by_second if layer.learns else top["id"] in retrieved)
    names = {False: "tied decoder: first theory", True: "learned decoder: second theory"}
    verdicts: list[Verdict] = []
    for learned, of_kind in hits.items():
        share = float(np.mean(of_kind))
        reason = "share of samples and layers whose top token is the theory's"
        verdicts.append(Judgement(share, 1.0, share == 1, reason).about(names[learned]))
    return verdicts
