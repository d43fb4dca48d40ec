"""Beginning and end on a text: which queries keep the tokens they attend to first, and which must turn.

Settings: ``tokenizer``, ``tokenised`` (endings of files whose tokens are already separated by spaces),
``n_tokens`` and ``window``; ``shown``, how many queries of each kind are listed.
"""

from functools import partial
from pathlib import Path

import numpy as np

from attomaton.automaton import learn
from attomaton.base.printing import Grid
from attomaton.base.progress import Progress
from attomaton.base.tables import Bool
from attomaton.claims import compare_ends
from attomaton.claims.ends import Ends
from attomaton.theories import Beginning, begin
from attomaton_experiments.beginning.sequences import read_frequent
from attomaton_experiments.figures.bags import draw_bags
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings


def run_ends(settings: Settings, progress: Progress) -> Page:
    """Compute the limit and the beginning of one text, and compare them query by query."""
    progress("reading", 0, 0)
    is_tokenised = Path(settings["source"]).suffix in settings["tokenised"]
    tokenizer = "word" if is_tokenised else settings["tokenizer"]
    documents, vocabulary = read_frequent(settings["source"], settings["n_tokens"], tokenizer)
    progress("the beginning", 0, 0)
    beginning = begin(documents, window=settings["window"], engine="memory")
    progress("the limit", 0, 0)
    automaton = learn(documents.windows(settings["window"]), engine="memory")
    ends = compare_ends(automaton, Beginning(beginning.statistics, vocabulary))
    name = Path(settings["source"]).name
    caption = (
        f"{name}: {len(documents.ids):,} tokens, {len(vocabulary):,} distinct, window "
        f"{settings['window']}; {len(ends):,} queries with at least 5 tokens to order"
    )
    return render_figure(
        settings,
        caption,
        (_counts(ends), *(_examples(ends, course, settings["shown"]) for course in ("keep", "turn"))),
        ends.table(),
        partial(_draw, ends),
        verdicts=(),
        notes=tuple(settings.get("remarks", ())),
        options="--data FILE",
    )


def _counts(ends: Ends) -> Grid:
    """Queries and positions by outcome."""
    has_agreement = np.isfinite(ends.agreements)
    bags = {"keep": ends.keeps, "turn": ends.turns, "neither": ~(ends.keeps | ends.turns)}
    whole = max(int(ends.samples.sum()), 1)
    rows = [
        [
            name,
            f"{int(chosen.sum()):,}",
            f"{100 * chosen.mean():.1f} %" if len(ends) else "",
            f"{100 * ends.samples[chosen].sum() / whole:.1f} %",
            _median(ends, chosen & has_agreement),
        ]
        for name, chosen in bags.items()
    ]
    headers = ["queries that", "number", "of the queries", "of the positions", "median agreement"]
    return Grid("Whether queries keep their first attention", headers, rows)


def _median(ends: Ends, chosen: Bool) -> str:
    return f"{np.median(ends.agreements[chosen]):.2f}" if chosen.any() else ""


def _examples(ends: Ends, course: str, count: int) -> Grid:
    """The most frequent queries of a kind: the first and the last token that each attends to most."""
    chosen = np.flatnonzero(ends.keeps if course == "keep" else ends.turns)
    order = chosen[np.argsort(-ends.samples[chosen], kind="stable")][:count]
    names = ends.vocabulary.tokens if ends.vocabulary is not None else [str(query) for query in ends.queries]
    rows = [
        [
            names[ends.queries[row]],
            f"{ends.samples[row]:,}",
            f"{ends.agreements[row]:.2f}",
            names[ends.first[row]],
            names[ends.last[row]],
        ]
        for row in order.tolist()
    ]
    headers = ["query", "positions", "agreement", "first attends to", "ends with"]
    return Grid(f"Frequent queries that {course}", headers, rows)


def _draw(ends: Ends, path: Path, *, caption: str) -> list[Path]:
    has_agreement = np.isfinite(ends.agreements)
    course = np.where(ends.keeps, 0, np.where(ends.turns, 1, 2))
    names = ("keeps its first attention", "turns", "neither, significantly")
    return draw_bags(
        ends.samples[has_agreement].astype(np.float64),
        ends.agreements[has_agreement],
        course[has_agreement],
        path,
        names=names,
        caption=caption,
    )
