"""What explains where heads of small models look.

Settings: ``tokens`` ("characters" or "words"), ``window``, ``held_out`` or ``n_tokens`` (the text);
``models``, ``steps``, ``trials``; ``n_contexts``, ``n_windows``, ``strength`` (measurement); ``bounds``.
"""

from functools import partial

import pyarrow as pa

from attomaton.automaton import learn, shrink
from attomaton.base.progress import Progress
from attomaton.claims.verdicts import Judgement
from attomaton.corpora import Samples
from attomaton_experiments.figures.heads import draw_study
from attomaton_experiments.finished import FinishedResults
from attomaton_experiments.head_study import run as study
from attomaton_experiments.head_study.audit import StudyText, prepare_text
from attomaton_experiments.page import Page
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.scansnap_model.texts import read_texts
from attomaton_experiments.settings import Settings
from attomaton_experiments.text import split_text

SIZES = ("n_contexts", "n_windows", "strength")
"""The settings of the measurement."""


def run_heads(settings: Settings, progress: Progress) -> Page:
    """Train the models on the text, audit their heads, and make the page."""
    progress("learning the automaton", 0, 0)
    text, finished, models = (
        read_study(settings),
        FinishedResults(settings["work"]),
        study.list_models(settings),
    )
    options = {name: settings[name] for name in (*SIZES, "tokens")} | {"text": text.digest}
    runs = list[dict[str, list[study.Record]]]()
    for number, model in enumerate(models):
        progress(f"training and measuring {model.name}", number, len(models))
        runs.append(
            finished.take(model.name, options | vars(model), partial(model.run, text, settings["work"]))
        )
    heads, course = ([record for run in runs for record in run[name]] for name in ("heads", "course"))
    tables = (*study.tell_shares(heads), study.tell_closed(heads), study.tell_course(course))
    judged = study.judge_study(heads, settings["bounds"])
    verdicts = [
        Judgement(value, bound, holds, meaning).about(claim) for claim, value, bound, holds, meaning in judged
    ]
    numbers, draw = pa.Table.from_pylist(study.align(heads + course)), partial(draw_study, course)
    return render_figure(settings, study.tell_sizes(settings), tables, numbers, draw, verdicts=verdicts)


def read_study(settings: Settings) -> StudyText:
    """The text of the settings, with the explanations of attention that do not depend on a model."""
    if settings["tokens"] == "characters":
        train, valid = (samples.values for samples in split_text(settings))
        size = int(max(train.max(), valid.max())) + 1
    else:
        texts = read_texts(settings["source"], settings["n_tokens"])
        train, valid, size = texts.train, texts.valid, len(texts.tokens)
    samples = Samples.from_windows(train, window=settings["window"], n_tokens=size)
    automaton = learn(samples)
    answers = (automaton, shrink(samples, strength=settings["strength"]))
    sizes = {name: settings[name] for name in SIZES}
    return prepare_text(train, valid, samples, answers, automaton.components, **sizes)
