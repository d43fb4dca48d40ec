"""Every position of a held-out text: a mixture of limits, compared with other models."""

from functools import partial

from attomaton.base.progress import Progress
from attomaton_experiments.mixture.table import TablePlan, judge_all
from attomaton_experiments.mixture.telling import draw_rows, tell_caption, tell_numbers, tell_rows, tell_rules
from attomaton_experiments.mixture.texts import read_texts
from attomaton_experiments.mixture.transformer import TransformerPlan
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings


def run_heldout(settings: Settings, progress: Progress) -> Page:
    """Learn from train.txt, fit weights on its end, and judge all of valid.txt."""
    texts = read_texts(settings["source"], settings["held"])
    trained = TransformerPlan(**settings["transformer"] | {"seed": settings["seed"]})
    table = judge_all(
        texts, TablePlan(**settings["plan"], transformer=trained), folder=settings["work"], progress=progress
    )
    return render_figure(
        settings,
        tell_caption(table, texts),
        (tell_rows(table), tell_rules(table)),
        tell_numbers(table),
        partial(draw_rows, table),
        verdicts=(),
        notes=tuple(settings["remarks"]),
        options="--data FOLDER",
    )
