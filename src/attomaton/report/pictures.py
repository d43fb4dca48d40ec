"""Draw the figures of a run for papers: its priority graph, its hard scores, and its training."""

# `write_figures` draws the priority graph, then a map of hard scores (`draw_heat`), then the curves of the
# training, to which `draw_approach` adds how W approaches its limit.

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.artifacts import FolderKind, build_folder
from attomaton.base.drawing import HOUSE_LIGHT, drawable, paper_style, wrap_caption
from attomaton.base.errors import CorruptRun, MissingExtra, UnsupportedOption, needing
from attomaton.base.options import given_path
from attomaton.base.tables import Float64, Int32
from attomaton.report.export import pick_queries, refuse_run_folder
from attomaton.report.figures import Line, LinePanel, draw_line_panels, new_figure, save_figure
from attomaton.report.page.packing import Packer, PageGraph
from attomaton.report.page.training import follow_trials, read_training, why_unpredicted
from attomaton.report.priority_graph import draw_graph

LARGEST_SUBSPACE = 50_000_000  # size of the axes of the cyclic subspace up to which curves are drawn
MAP_ROWS, MAP_COLUMNS = 14, 8  # tokens and queries on the map of hard scores
ROW_INCHES, CAPTION_INCHES, AXES_INCHES = 0.15, 0.115, 0.75  # heights of a row, a line of caption, the labels
TOKEN_CHARACTERS, QUERY_CHARACTERS = 14, 10  # of names left of the map and below
TIE_PREFERENCE = 10.0  # added to the score of tied tokens, so that they come before others on the map
COLOUR_RANGE = 1.6  # the largest score has 1/1.6 of a full colour, so that numbers can be read


def draw_approach(run: Path) -> list[LinePanel]:
    """How W approaches its limit in the training of a run.

    A panel for the correlation with W_svm, and one for the distance of the finite part. Empty if the run has
    no training that can be read.
    """
    try:
        with needing("these curves"):
            from attomaton.training.checkpoints import read_trace
        trace = read_trace(run)
    except (CorruptRun, MissingExtra):
        return []
    courses = measure_courses(trace)
    titles = {
        "correlation": ("correlation of W with W_svm", 1.0),
        "distance": ("distance of the finite part, ‖Π_fin W − W_fin‖", 0.0),
    }
    return [
        LinePanel(title, _lines(courses, name, limit))
        for name, (title, limit) in titles.items()
        if courses and courses["measured"][name] is not None
    ]


def measure_courses(trace: Any) -> dict[str, dict[str, Any]]:
    """The curves of a training as ``measured`` and, if they can be computed, as ``predicted``."""
    from attomaton.claims.limits import dense, solve_trials
    from attomaton.claims.measures import predict_target

    automata = solve_trials(trace)
    # a component of m tied tokens adds m − 1 axes, each a matrix like W, to the cyclic subspace of a trial
    n_axes = max(int((automaton.components.sizes - 1).sum()) for automaton in automata)
    if trace.n_trials * n_axes * trace.weights.shape[-1] ** 2 > LARGEST_SUBSPACE:
        return {}
    target = predict_target(trace, automata)
    courses = {"measured": _measure_curves(target, trace, tied=bool(n_axes))}
    if not why_unpredicted(trace):
        steps, paths = follow_trials(trace)
        weights = np.array([[dense(path.weights_at(step)) for path in paths] for step in steps])
        no_losses = np.full(weights.shape[:2], np.nan)  # (n_steps, n_trials); these curves need none
        computed = replace(trace, steps=np.array(steps, np.int64), weights=weights, losses=no_losses)
        courses["predicted"] = _measure_curves(target, computed, tied=bool(n_axes))
    return courses


def _measure_curves(target: Any, trace: Any, *, tied: bool) -> dict[str, Any]:
    # means over trials after each step from 1 on; None where no trial has the limit that a curve is compared
    # with
    after_start = trace.steps > 0
    weights = trace.weights[after_start]
    has_direction = bool(target.directions.any(axis=(1, 2)).all())
    return {
        "steps": trace.steps[after_start].astype(np.float64),
        "correlation": target.correlation(weights).mean(axis=1) if has_direction else None,
        "distance": target.finite_distance(weights).mean(axis=1) if tied else None,
    }


def _lines(courses: dict[str, dict[str, Any]], name: str, limit: float) -> list[Line]:
    looks = {"measured": 0, "predicted": 1}  # number of the colour, and of the style
    lines = [
        Line(kind, course["steps"].tolist(), course[name].tolist(), looks[kind], looks[kind])
        for kind, course in courses.items()
    ]
    return [*lines, Line("limit", [], [limit], colour=4, style=2)]


def choose_tokens(graphs: Sequence[PageGraph]) -> Int32:
    """The tokens of the map: of the first query, those under most queries, in ties, or with high scores."""
    graph = graphs[0]
    is_tied = np.zeros(len(graph.tokens), bool)
    is_tied[[row for rows in graph.members if len(rows) > 1 for row in rows]] = True
    n_queries = sum(np.isin(graph.tokens, shown.tokens).astype(np.int64) for shown in graphs)
    interest = TIE_PREFERENCE * is_tied + np.abs(graph.hard)
    chosen = np.lexsort((-interest, -np.asarray(n_queries)))[:MAP_ROWS]  # the last key comes first
    return graph.tokens[chosen[np.argsort(-graph.hard[chosen], kind="stable")]]


def gather_scores(graphs: Sequence[PageGraph], tokens: Int32) -> Float64:
    """Hard scores, rows tokens, columns queries; NaN if a token has no evidence under a query."""
    values = np.full((len(tokens), len(graphs)), np.nan)
    for column, graph in enumerate(graphs):
        # where each token is in the ascending tokens of the graph; clipped, and compared, since it may be
        # absent
        rows = np.searchsorted(graph.tokens, tokens).clip(max=len(graph.tokens) - 1)
        is_present = graph.tokens[rows] == tokens
        values[is_present, column] = graph.hard[rows[is_present]]
    return values


def draw_heat(graphs: Sequence[PageGraph], name: Callable[[int], str], path: Path) -> list[Path]:
    """Draw the map of hard scores of the first query's tokens; ``name`` gives the text of a token."""
    tokens = choose_tokens(graphs)
    values = gather_scores(graphs, tokens)
    lines = wrap_caption(
        f"Hard scores of {len(tokens)} tokens (rows) under {len(graphs)} queries (columns). Blue tokens are "
        "preferred, orange tokens are beaten; an empty cell means no evidence."
    )
    with paper_style():
        figure = new_figure(ROW_INCHES * len(tokens) + AXES_INCHES + CAPTION_INCHES * len(lines))
        axis = figure.subplots()
        _draw_scores(axis, values)
        rows = [drawable(name(int(token)), TOKEN_CHARACTERS) for token in tokens]
        columns = [drawable(name(graph.query), QUERY_CHARACTERS) for graph in graphs]
        axis.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
        axis.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=45, ha="right", parse_math=False)
        return save_figure(figure, path, caption="\n".join(lines))


def _draw_scores(axis: Any, values: Float64) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colours: Any = LinearSegmentedColormap.from_list("scores", ["C1", "white", "C0"])
    limit = COLOUR_RANGE * float(np.nanmax(np.abs(values), initial=1e-12))  # above 0 if all scores are 0
    edges = {"edgecolors": "white", "linewidth": 0.6}
    axis.pcolormesh(np.ma.masked_invalid(values), cmap=colours, vmin=-limit, vmax=limit, **edges)
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
            axis.text(column + 0.5, row + 0.5, text, ha="center", va="center_baseline", fontsize="x-small")
    axis.invert_yaxis()
    axis.set_facecolor(HOUSE_LIGHT)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


FIGURES = FolderKind("figures", "figures", "attomaton report --figures")
FIGURE_FILES = [f"{name}.{ending}" for name in ("graph", "scores", "training") for ending in ("png", "pdf")]


def write_figures(run: str | Path, folder: str | Path, *, query: str | None = None) -> list[Path]:
    """Draw the figures of a run as PDF and PNG, one paper column wide, and return the written files.

    ``graph`` is the priority graph of a query, and ``scores`` shows the hard scores of its tokens under the
    queries with the most samples. If the run has a training, ``training`` shows the measured and predicted
    curves: loss, norm of W, correlation of W with W_svm, and distance of the finite part of W from W_fin.

    Parameters
    ----------
    run : str or Path
        A folder written by ``attomaton learn --out`` or ``Automaton.save``.
    folder : str or Path
        A new or empty folder, or one with earlier figures, which are replaced.
    query : str, optional
        The token whose graph is drawn (its id, if the run has no vocabulary). None means the query with the
        most samples.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = at.learn(["a rose is a rose"]).save(f"{folder}/run")
    ...     print([path.name for path in write_figures(run, f"{folder}/pictures")])
    ['graph.png', 'graph.pdf', 'scores.png', 'scores.pdf']
    """
    source, target = given_path(run, "run"), given_path(folder, "folder")
    refuse_run_folder(source, target)
    automaton = Automaton.load(source)
    packer = Packer(automaton)
    if not len(packer.queries):
        raise UnsupportedOption("there is nothing to draw, because no query of this run has a graph")
    chosen = int(packer.by_samples[0])
    if query is not None:
        chosen = int(np.flatnonzero(pick_queries(automaton, [query])[packer.queries])[0])
    indices = [chosen, *(index for index in packer.by_samples.tolist() if index != chosen)][:MAP_COLUMNS]
    graphs = [packer.graph(index) for index in indices]
    training = read_training(source)
    with build_folder(target, FIGURES, FIGURE_FILES, overwrite=True) as building:
        written = [
            *draw_graph(graphs[0], automaton.name, building.folder / "graph"),
            *draw_heat(graphs, automaton.name, building.folder / "scores"),
            *(_draw_training(training, source, building.folder / "training") if training else []),
        ]
        building.finish({})
    return [target / path.name for path in written]


def _draw_training(training: dict[str, Any], run: Path, path: Path) -> list[Path]:
    # points are (step, loss, norm)
    kinds = (("measured", 0), ("predicted", 1))
    panels: list[LinePanel] = []
    for title, entry in (("training loss", 1), ("norm of W", 2)):
        lines = [_curve_line(training[name], entry, name, look) for name, look in kinds if training[name]]
        panels.append(LinePanel(title, lines))
    panels += draw_approach(run)
    caption = "Training, and what is predicted from the corpus alone"
    if training["reason"]:  # why nothing is predicted
        caption += f". {training['reason']}"
    return draw_line_panels(panels, path, caption=caption)


def _curve_line(points: list[list[Any]], entry: int, name: str, look: int) -> Line:
    # one entry of the points by step, from step 1 on, since the axis of steps is logarithmic
    shown = [point for point in points if point[0] > 0 and point[entry] is not None]
    return Line(name, [point[0] for point in shown], [point[entry] for point in shown], look, look)
