"""Every position of a text foretold: what :mod:`attomaton.mixture` makes of the settings, on a page."""

from functools import partial

from attomaton.experiments.page import Page
from attomaton.experiments.scansnap.figure import render_figure
from attomaton.experiments.settings import Settings
from attomaton.mixture.table import TablePlan, judge_all
from attomaton.mixture.telling import draw_rows, tell_caption, tell_numbers, tell_rows, tell_rules
from attomaton.mixture.texts import read_texts
from attomaton.mixture.transformer import TransformerPlan
from attomaton.progress import Progress


def run_heldout(settings: Settings, progress: Progress) -> Page:
    """Learn from train.txt, weigh on its end, and judge all of valid.txt."""
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
