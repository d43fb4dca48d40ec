"""The training in a run folder: its measured curves, its predicted curves, and its verdicts."""

# `read_training` and `read_verdict_records` read them for the page; the figures of a run use
# `why_unpredicted` and `follow_trials` too.

import json
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.artifacts import TRAINING, read_checked, read_manifest
from attomaton.base.errors import CorruptRun, MissingExtra, needing
from attomaton.claims.stored import read_verdicts as read_kept

MOST_POINTS = 300  # points of a measured curve
PREDICTED_POINTS = 40  # points of a predicted curve; each is computed
MOST_PREDICTED = 5  # trials for which the predicted curve is computed


def read_training(run: Path) -> dict[str, Any] | None:
    """The curves of ``run/training`` as points (step, loss, norm); None without a training."""
    folder = run / TRAINING.name
    if not folder.is_dir():
        return None
    manifest = read_manifest(folder, TRAINING)
    path = folder / "trace.jsonl"
    try:
        text = read_checked(path, manifest["files"][path.name]["sha256"]).decode()
        lines = [json.loads(line) for line in text.splitlines()]
        records = [[line["step"], line["loss_mean"], line["norm_mean"]] for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRun(f"{path} is damaged ({error}); train again, or delete {folder}") from error
    rows = sorted({round(row) for row in np.linspace(0, len(records) - 1, MOST_POINTS)}) if records else []
    predicted, reason = _predict(run)
    return {"measured": [records[row] for row in rows], "predicted": predicted, "reason": reason}


def read_verdict_records(run: Path) -> list[dict[str, Any]]:
    # what the page shows of each verdict; empty if the run was not verified
    shown = ("claim", "status", "value", "bound", "reason")
    try:
        return [{name: verdict[name] for name in shown} for verdict in read_kept(run)]
    except (KeyError, TypeError) as error:
        raise CorruptRun(f"the verdicts of {run} have no {error}; run attomaton verify again") from error


def _predict(run: Path) -> tuple[list[list[float]], str]:
    # the points (step, loss, norm) of the predicted curve, or none and the reason
    try:
        with needing("a predicted curve"):
            from attomaton.training.checkpoints import read_trace
        trace = read_trace(run)
    except MissingExtra as error:
        return [], f"{error}; then write the report again"
    except CorruptRun as error:
        return [], str(error)
    reason = why_unpredicted(trace)
    return ([], reason) if reason else (_follow_trajectory(trace), "")


def why_unpredicted(trace: Any) -> str:
    """Why the curves of a run are not predicted; empty if they are."""
    from attomaton.claims.evidence import Evidence, need_log_loss, need_mass_head, need_plain_descent

    if trace.n_trials > MOST_PREDICTED:
        return f"curves are predicted for at most {MOST_PREDICTED} trials, and there are {trace.n_trials}"
    evidence = Evidence(trace, ())
    for need in (need_plain_descent, need_log_loss, need_mass_head):
        missing = need(evidence)
        if missing:
            return f"no curve is predicted: {missing}"
    return ""


def _follow_trajectory(trace: Any) -> list[list[float]]:
    # the points (step, loss, norm) of the predicted curve, means over trials
    from attomaton.trajectory.curves import inner

    steps, paths = follow_trials(trace)
    curves: list[list[list[float]]] = []
    for path in paths:
        norms = [inner(weights, weights) ** 0.5 for weights in map(path.weights_at, steps)]
        curves.append([[path.loss_at(step), norm] for step, norm in zip(steps, norms, strict=True)])
    return [[step, *values] for step, values in zip(steps, np.mean(curves, axis=0).tolist(), strict=True)]


def follow_trials(trace: Any) -> tuple[list[float], list[Any]]:
    """The steps of a curve, and the trajectory of each trial, computed without training."""
    from attomaton.claims.limits import embeddings_for_solvers
    from attomaton.trajectory.forward import fast_forward

    last = float(trace.steps[-1])
    steps = np.unique(np.geomspace(1.0, max(last, 1.0), PREDICTED_POINTS).round()).tolist()
    paths = [
        fast_forward(
            samples,
            embeddings=embeddings_for_solvers(table),
            step_size=trace.step.step_size,
            to=last,
            start=trace.weights[0, trial],
        )
        for trial, (samples, table) in enumerate(zip(trace.samples, trace.embeddings, strict=True))
    ]
    return steps, paths
