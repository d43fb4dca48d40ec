"""Campaign: runs, traces and checkpoints that are altered and signed again, each used in a child process.

``python -m tests.faults.resigned run 1000 --seed 1`` alters a thousand runs and prints what became of them.
"""

import argparse
import contextlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np

import attomaton as at
from attomaton.automaton.runs import stored
from attomaton.graphs.robustness import measure_robustness
from attomaton.report.csv_tables import write_csv
from attomaton.report.export import pick_queries
from attomaton.report.graphml import write_graphml
from attomaton.report.page.write import write_report
from tests.faults.forks import in_child, summarise
from tests.faults.resigning import (
    alter_arrays_file,
    alter_run,
    find_checkpoints,
    rename_step,
    sign_checkpoints,
)

STORY = "the wind saw a lamp and took it to hill where old sea was cold but stone kept warm"
WORDS = STORY.split()
ASKED = ("the wind saw the lamp and the", "hill was cold and the hill", "wind", "to the stone")


def text_of(n_words: int = 300, seed: int = 0) -> str:
    """A story of a few words, some of them often: under some queries all tie, under others few do."""
    weights = [8 / (1 + place) for place in range(len(WORDS))]
    return " ".join([*WORDS, *random.Random(seed).choices(WORDS, weights, k=n_words)])  # noqa: S311


def make_run(folder: Path, *, embedded: bool = False) -> Path:
    """A run to alter; ``embedded``: with dense weights, and components that embeddings merge."""
    source = folder / "story.txt"
    source.write_text(text_of(), encoding="utf-8")
    n_tokens = len(set(text_of().split()))
    table = np.random.default_rng(0).normal(size=(n_tokens, 14)) if embedded else None
    out = folder / ("embedded" if embedded else "plain")
    at.learn(source, window=6, embeddings=table, out=out)
    return out


def use_run(run: Path, whole: Path) -> None:
    """All that is done with a run, opened and read whole: where both give an answer, it is the same one."""
    told: list[dict[str, str]] = []
    refused: list[at.AttomatonError] = []
    for small in (0, stored.SMALL_RUN_BYTES):
        with patch.object(stored, "SMALL_RUN_BYTES", small):
            told.append({})
            try:
                _use_run(run, whole, told[-1])
            except at.AttomatonError as error:
                refused.append(error)
    opened, read = told
    assert all(opened[name] == read[name] for name in opened.keys() & read.keys())
    if refused:
        raise refused[-1]


def _use_run(run: Path, whole: Path, told: dict[str, str]) -> None:
    """Predict, explain, show, compare, report, export, save; what is answered goes to ``told``."""
    auto = at.Automaton.load(run)
    for context in ASKED:
        probabilities = auto.predict_proba(context)
        assert abs(probabilities.sum() - 1) < 1e-9
        told[f"probabilities of {context}"] = str(probabilities.tolist())
        told[f"explanation of {context}"] = str(auto.explain(context).to_dict(auto.name))
        str(auto.show(context))
    str(auto.coverage.to_dict()) + repr(auto) + auto._repr_html_()
    at.diff(auto, at.Automaton.load(whole))
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        picked = pick_queries(auto)
        write_csv(auto, out / "csv", picked)
        for nodes in ("components", "tokens"):
            write_graphml(auto, out / f"{nodes}.graphml", picked, nodes=nodes)
        write_report(run, out / "report.html")
        auto.save(out / "again")
    _go_deeper(auto)


def _go_deeper(auto: at.Automaton) -> None:
    """What reads the tables again: robustness, standard errors, the trajectory, the expansion."""
    refused: list[Exception] = []
    samples = at.Samples.from_windows(np.arange(60) % auto.n_tokens, window=4, n_tokens=auto.n_tokens)
    steps: list[Callable[[], object]] = [
        lambda: measure_robustness(auto.components),
        lambda: auto.soft.standard_errors(),
        lambda: at.fast_forward(auto.soft.choices, components=auto.components, to=100.0),
        lambda: at.expand(auto, auto.soft.choices),
        lambda: at.solve_luce(auto.soft.choices, auto.components),
        lambda: at.solve_graph_svm(auto.components),
        lambda: auto.score(samples, epsilon=0.1),
    ]
    for step in steps:
        try:
            step()
        except at.AttomatonError as error:
            refused.append(error)


def make_training(folder: Path, *, stop_after: int | None = None) -> Path:
    """A finished training with a run beside it, or one that was interrupted."""
    run = folder / "run"
    at.learn(_trained_samples(), out=run)
    if stop_after is None:
        train_on(run, resume=False)
    else:
        with contextlib.suppress(KeyboardInterrupt):
            train_on(run, resume=False, stop_after=stop_after)
        run = run.rename(folder / "interrupted")
    return run


def _trained_samples() -> at.Samples:
    return at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [2, 1]], [0, 1, 1])


def train_on(run: Path, *, resume: bool = True, stop_after: int | None = None) -> None:
    """Train in the run's folder, or go on there."""
    from attomaton.training.checkpoints import Store
    from attomaton.training.loop import Watch

    def interrupt(step: int, _: object) -> None:
        if step == stop_after:
            raise KeyboardInterrupt

    samples = _trained_samples()
    store = Store(run, resume=resume, every=10)
    model, step = at.AttentionModel(), at.GradientDescent(0.5)
    at.train(samples, model, step, steps=40, trials=2, out=store, watch=Watch([interrupt], every=8))


def use_trace(run: Path) -> None:
    """All that is done with a trace: its model and step, verdicts, the page's curves."""
    from attomaton.training.checkpoints import read_trace

    trace = read_trace(run)
    repr(trace), trace.at(int(trace.steps[-1])), trace.model, trace.step
    with tempfile.TemporaryDirectory() as name:
        write_report(run, Path(name) / "report.html")
    at.verify(at.learn(trace.samples[0]), trace)


def _alter_trace(run: Path, rng: random.Random) -> str:
    return alter_arrays_file(run / "training" / "trace.safetensors", rng)


def _alter_checkpoints(run: Path, rng: random.Random) -> str:
    """Alter one checkpoint, and perhaps forget the later ones."""
    files = find_checkpoints(run)
    file = rng.choice(files)
    told = alter_arrays_file(file, rng)
    for later in files[rng.choice([len(files), files.index(file) + 1]) :]:
        later.unlink()
    if rng.random() < 0.1:
        step = rng.choice([41, 10**6, 10**11])
        rename_step(file, step)
        told += f", named after step {step}"
    sign_checkpoints(run)
    return told


def campaign(kind: str, count: int, seed: int = 0) -> dict[str, object]:
    """Alter, sign and use ``count`` copies; how many came to what."""
    outcomes: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="resigned-") as name:
        folder = Path(name)
        bases, alter, use = _prepare(kind, folder)
        for base in bases:  # what is compiled is compiled here, once
            use(Path(shutil.copytree(base, folder / f"warm-{base.name}")))
        altered = folder / "altered"
        for number in range(count):
            rng = random.Random(f"{kind} {seed} {number}")  # noqa: S311
            base = rng.choice(bases)
            shutil.rmtree(altered, ignore_errors=True)
            shutil.copytree(base, altered)
            told = alter(altered, rng)
            outcomes.append((in_child(lambda: use(altered)), f"{number}: {base.name}/{told}"))
    return summarise(outcomes)


def _prepare(kind: str, folder: Path) -> tuple[list[Path], Callable[..., str], Callable[[Path], None]]:
    if kind == "run":
        runs = [make_run(folder), make_run(folder, embedded=True)]
        return runs, alter_run, lambda run: use_run(run, runs[0])
    if kind == "trace":
        return [make_training(folder)], _alter_trace, use_trace
    return [make_training(folder, stop_after=32), make_training(folder)], _alter_checkpoints, train_on


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["run", "trace", "checkpoint"])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(json.dumps(campaign(asked.kind, asked.count, asked.seed), indent=1))  # noqa: T201
