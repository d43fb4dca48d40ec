"""The pictures of a run for papers: what its page shows, drawn in the style of the figures."""

from pathlib import Path
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.artifacts import FolderKind, build_folder
from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import given_path
from attomaton.report.course import draw_course
from attomaton.report.export import check_place, pick_queries
from attomaton.report.heat import COLUMNS, draw_heat
from attomaton.report.lines import Line, LinePanel, draw_lines
from attomaton.report.page.packing import Packer
from attomaton.report.page.training import read_training
from attomaton.report.priority_graph import draw_graph
from attomaton.report.query_graph import read_graph

KIND = FolderKind("figures", "figures", "attomaton report --figures")
FILES = [f"{name}.{ending}" for name in ("graph", "scores", "training") for ending in ("png", "pdf")]


def write_figures(run: str | Path, folder: str | Path, *, query: str | None = None) -> list[Path]:
    """Draw a run's pictures as PDF and PNG, one paper column wide.

    ``graph`` is the priority graph of a query, ``scores`` the hard scores of its tokens under the queries
    with the most samples, and ``training`` the measured and predicted curves, if the run has training: loss,
    norm of W, its correlation with W_svm, and the distance of its finite part from W_fin.

    Parameters
    ----------
    run : str or Path
        A folder written by ``attomaton learn --out`` or ``Automaton.save``.
    folder : str or Path
        Where to: a new or empty folder, or one of earlier figures, which are replaced.
    query : str, optional
        The token whose graph is drawn (an id, for runs without a vocabulary). None means that with most
        samples.

    Returns
    -------
    list of Path
        What was written.

    Examples
    --------
    >>> import tempfile
    >>> import attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])).save(f"{folder}/run")
    ...     [path.name for path in write_figures(f"{folder}/run", f"{folder}/pictures")]
    ['graph.png', 'graph.pdf', 'scores.png', 'scores.pdf']
    """
    source, place = given_path(run, "run"), given_path(folder, "folder")
    check_place(source, place)
    automaton = Automaton.load(source)
    packer = Packer(automaton)
    chosen = _find_place(automaton, packer, query)
    places = [chosen, *(one for one in packer.by_samples.tolist() if one != chosen)][:COLUMNS]
    graphs = [read_graph(packer, one) for one in places]
    training = read_training(source)
    with build_folder(place, KIND, FILES, overwrite=True) as building:
        written = [
            *draw_graph(graphs[0], automaton.name, building.folder / "graph"),
            *draw_heat(graphs, automaton.name, building.folder / "scores"),
            *(_draw_training(training, source, building.folder / "training") if training else []),
        ]
        building.finish({})
    return [place / path.name for path in written]


def _find_place(automaton: Automaton, packer: Packer, query: str | None) -> int:
    queries = packer.queries
    if not len(queries):
        raise UnsupportedOption("this run has no query with a graph, so there is nothing to draw")
    if query is None:
        return int(packer.by_samples[0])
    return int(np.flatnonzero(pick_queries(automaton, [query])[queries])[0])


def _draw_training(training: dict[str, Any], run: Path, path: Path) -> list[Path]:
    """Loss, norm of W and its way to the limit, as measured, and as predicted from the corpus alone."""
    kinds = (("measured", 0, 0), ("predicted", 1, 1))
    panels = [
        LinePanel(
            title, [_line(training[name], which, name, look) for name, *look in kinds if training[name]]
        )
        for title, which in (("training loss", 1), ("norm of W", 2))
    ] + draw_course(run)
    caption = "Training, and what is predicted from the corpus alone"
    return draw_lines(
        panels, path, caption=f"{caption}. {training['reason']}" if training["reason"] else caption
    )


def _line(points: list[list[Any]], which: int, name: str, look: list[int]) -> Line:
    kept = [point for point in points if point[0] > 0 and point[which] is not None]
    return Line(name, [point[0] for point in kept], [point[which] for point in kept], *look)
