"""The weights of gradient descent at any step t, in O(ln t): a warm-up of plain steps, then gradient flow.

:func:`fast_forward` reads its arguments, and :func:`follow_descent` computes. It chooses coordinates for W (a
*frame*), splits them into batches that do not influence each other, and follows each along a ``Track``.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csc_array

from attomaton.base.errors import UnsupportedOption
from attomaton.base.machine import count_processors
from attomaton.base.options import real_number
from attomaton.base.progress import silent
from attomaton.base.solutions import check_embeddings, score_table, sparse_weights
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.corpora.samples import Samples
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import extract_edges
from attomaton.graphs.separation import separate
from attomaton.trajectory.basis import Basis, find_basis
from attomaton.trajectory.curves import WeightPath
from attomaton.trajectory.flow.embedded import embedded_flow
from attomaton.trajectory.flow.implicit import LossFlow
from attomaton.trajectory.flow.orthonormal import orthonormal_flow
from attomaton.trajectory.flow.track import Track
from attomaton.trajectory.loss import TrainingLoss, training_loss
from attomaton.trajectory.sharpness import STABILITY_LIMIT, StabilityEdge, bound_sharpness, find_edge

LARGEST_PLAIN_STEP = 1e100  # the smallest is its inverse; beyond them float64 products overflow
MOST_AXES = 1_000  # maximum number of coordinates of embedded tokens: more are too many for dense steps
N_BATCHES = 24  # orthonormal: number of batches of queries of similar size, each with its own steps
ALIGNED_STEPS = 1e6  # steps whose rounding errors may all have one sign; more are a random walk

UNSETTLED = "gradient descent still oscillated, or the loss was too curved for it, when the warm-up ended"
WORTH_BATCHES = 100_000  # minimum number of entries in choice sets for which batches pay off


class Trajectory(WeightPath):
    """W(t) of plain gradient descent at any step, from :func:`fast_forward`.

    Later steps than those computed so far are computed on demand.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1]], [0])  # 0 precedes 1 under the query 1
    >>> trajectory = fast_forward(samples, to=1e9)
    >>> [round(float(trajectory.weights_at(step)[0, 1]), 3) for step in (1e3, 1e6, 1e9)]  # ½ ln(2 η t)
    [3.801, 7.254, 10.708]
    >>> trajectory.error_at(1e9) < 1e-3, round(1e9 * trajectory.loss_at(1e9), 3)
    (True, 0.5)
    """

    def __init__(
        self, loss: TrainingLoss, frame: "_Frame", tracks: Sequence[tuple[Int64, Track]], step_size: float
    ) -> None:
        self.loss = loss
        self._frame = frame
        self._tracks = tracks  # of each batch: its coordinates in the frame, and their states
        self._step_size = step_size

    def __repr__(self) -> str:
        return f"Trajectory({self.loss.pairs.num_rows:,} scores, up to step {self._reached:.3g})"

    @property
    def _reached(self) -> float:
        return min((track.reached for _, track in self._tracks), default=0.0)

    def _table(self) -> pa.Table:
        return self.scores_at(self._reached)

    def weights_at(self, step: float) -> Float64 | csc_array:
        """W(t), shape (dim, dim); with orthonormal embeddings the scores, sparse, key tokens × queries."""
        return self._frame.weights(self._point_at(step))

    def scores_at(self, step: float) -> pa.Table:
        """The table (query, token, score) of all pairs that training sees."""
        return self._frame.scores(self._point_at(step))

    def error_at(self, step: float) -> float:
        """Estimated ‖error‖ of W(t), Frobenius norm; not a proof, see the page "What is promised".

        It is the sum of the errors of integration, of the correction from flow to gradient descent, of
        oscillations that remained when the warm-up ended, and of rounding. Beyond the edge of stability it is
        infinite, except during the first steps, which are taken one by one.
        """
        step = real_number(step, "step", least=0)
        states = [track.at(step) for _, track in self._tracks]
        errors = np.concatenate([state.error for state in states] or [np.zeros(0)])
        length = sum(float(state.point @ state.point) for state in states) ** 0.5
        n_roundings = min(step, np.sqrt(ALIGNED_STEPS * step))  # a random walk grows with the root
        rounding = np.finfo(np.float64).eps * length * n_roundings
        return float(np.linalg.norm(errors) + rounding) * self._frame.unit

    @cached_property
    def edge(self) -> StabilityEdge:
        """The edge of stability for the step size."""
        return find_edge(self.loss, self._step_size, self._frame.basis)

    @property
    def caveat(self) -> str:
        """Why weights after the first steps are unknown; empty if they are known."""
        if all(np.isfinite(track.at(track.reached).error).all() for _, track in self._tracks):
            return ""
        return str(self.edge) if self.edge.passed else f"{self.edge}, but {UNSETTLED}"

    # The coordinates of W(t) in the frame.
    def _point_at(self, step: float) -> Float64:
        step = real_number(step, "step", least=0)
        point = np.zeros(sum(len(rows) for rows, _ in self._tracks))
        for rows, track in self._tracks:
            point[rows] = track.at(step).point
        return point


def fast_forward(
    samples: Samples | ChoiceTable,
    *,
    embeddings: object = None,
    step_size: float = 1.0,
    to: float = 1e12,
    start: Float64 | csc_array | None = None,
    components: Components | None = None,
    rtol: float = 1e-7,
    progress: Callable[[str], object] = silent,
) -> Trajectory:
    """Compute the weights of plain gradient descent at any step, without taking the steps.

    After a warm-up of plain steps, dW/dτ = −η e^τ ∇L(W) with τ = ln t is integrated implicitly. If the step
    size is beyond the edge of stability, ``error_at`` is infinite and ``weights_at`` returns the last plain
    step.

    Parameters
    ----------
    samples : Samples or ChoiceTable
        The corpus, or its whole-context choices, ``extract_choices(samples)``; these need ``components``.
    embeddings : float array, shape (n_tokens, dim), optional
        E. None means orthonormal; then every query is followed separately, at any corpus size.
    step_size : float
        The step size η of gradient descent on the mean loss over realisable samples.
    to : float
        The last step that is computed at once; later steps are computed when they are requested.
    start : float array, shape (dim, dim), optional
        W(0). None means zero. With orthonormal embeddings: shape (n_tokens, n_tokens), dense or sparse.
    components : Components, optional
        The components of the corpus, if already computed.
    rtol : float
        Largest estimated error of the weights in one step of integration, relative to their norm.
    progress : callable
        Called with occasional lines of text.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1]], [0])  # 0 precedes 1 under the query 1
    >>> scores = fast_forward(samples, to=1e6).scores_at(1e6).column("score").to_numpy()
    >>> float((scores[0] - scores[1]).round(3))  # e^gap = 2 η t + O(ln t)
    14.509
    """
    step_size = real_number(step_size, "step_size", least=1 / LARGEST_PLAIN_STEP, most=LARGEST_PLAIN_STEP)
    to, rtol = real_number(to, "to", above=0), real_number(rtol, "rtol", above=0, below=1)
    if components is None:
        if isinstance(samples, ChoiceTable):
            raise UnsupportedOption(
                "samples is a ChoiceTable, which does not record the number of samples; give components too"
            )
        components = find_components(extract_edges(samples))
    table = None if embeddings is None else check_embeddings(embeddings, components.edges.n_tokens)
    if table is not None:
        components = separate(components, table).components
    setting = DescentSetting(training_loss(samples, components), step_size, table, start)
    return follow_descent(setting, to, rtol, progress)


@dataclass(frozen=True, eq=False)
class DescentSetting:
    """The inputs that determine the path of plain gradient descent."""

    loss: TrainingLoss  # with the components that the embeddings separate
    step_size: float
    embeddings: Float64 | None = None  # (n_tokens, dim); None means orthonormal
    start: Float64 | csc_array | None = None  # W(0); None means zero


def follow_descent(
    setting: DescentSetting, to: float = 1.0, rtol: float = 1e-7, progress: Callable[[str], object] = silent
) -> Trajectory:
    """The trajectory up to step ``to`` of a descent whose loss is already prepared."""
    loss, step_size = setting.loss, setting.step_size
    if setting.embeddings is None:
        frame, batches = _prepare_orthonormal(loss, setting.start)
    else:
        start = None if setting.start is None else np.asarray(setting.start)
        frame, batches = _prepare_embedded(loss, setting.embeddings, start)
    tracks: list[tuple[Int64, Track]] = []
    trajectory = Trajectory(loss, frame, tracks, step_size)
    safe = step_size * bound_sharpness(loss, frame.basis) < STABILITY_LIMIT  # at any weights
    settles = safe or not trajectory.edge.passed  # the edge itself takes long to compute
    scaled_step = step_size * frame.unit**-2  # in the coordinates of the frame
    make_track = partial(Track, step_size=scaled_step, rtol=rtol, safe=safe, settles=settles)

    def follow(batch: _QueryBatch) -> tuple[Int64, Track]:
        track = make_track(batch.flow, batch.start, reach=scaled_step * batch.reach)
        track.advance(to)
        return batch.rows, track

    with ThreadPoolExecutor(min(len(batches), count_processors()) or 1) as threads:
        for rows_and_track in threads.map(follow, batches):  # kernels release the interpreter lock
            tracks.append(rows_and_track)
            progress(f"followed {len(tracks)} of {len(batches)} batches of queries to step {to:.3g}")
    return trajectory


@dataclass(frozen=True, eq=False)
class _OrthonormalFrame:
    """Coordinates for orthonormal embeddings: the scores; ``outside`` is W(0) where no sample reads it."""

    loss: TrainingLoss
    n_tokens: int
    outside: csc_array | None
    unit: float = 1.0  # the length in W of a coordinate of 1
    basis: None = None

    def scores(self, point: Float64) -> pa.Table:
        return score_table(self.loss.pairs, point)

    def weights(self, point: Float64) -> csc_array:
        weights = sparse_weights(self.scores(point), self.n_tokens)
        return weights if self.outside is None else csc_array(weights + self.outside)


@dataclass(frozen=True, eq=False)
class _EmbeddedFrame:
    """Coordinates for given embeddings: those of W in a basis; ``outside`` (dim, dim) is what W(0) adds."""

    loss: TrainingLoss
    basis: Basis
    table: Float64
    outside: Float64

    @property
    def unit(self) -> float:
        """The length in W of a coordinate of 1."""
        return self.basis.scale**-2

    def scores(self, point: Float64) -> pa.Table:
        keys, queries = self.table[self.loss.token], self.table[self.loss.query]
        return score_table(self.loss.pairs, np.sum(keys @ self.weights(point) * queries, axis=1))

    def weights(self, point: Float64) -> Float64:
        return self.outside + self.basis.weights(point)


_Frame = _OrthonormalFrame | _EmbeddedFrame


@dataclass(frozen=True, eq=False)
class _QueryBatch:
    """A flow on the coordinates ``rows``; a step of size 1 moves a score by at most ``reach``."""

    rows: Int64
    flow: LossFlow
    start: Float64
    reach: float


# The frame of scores, and batches of whole queries: no query influences another.
def _prepare_orthonormal(
    loss: TrainingLoss, start: Float64 | csc_array | None
) -> tuple[_OrthonormalFrame, list[_QueryBatch]]:
    component = loss.component
    n_tokens = loss.components.edges.n_tokens
    point = np.zeros(len(component))
    outside = None
    if start is not None:
        weights = csc_array(_check_start(start, n_tokens))
        if len(point):  # SciPy refuses empty indices
            point = np.asarray(weights[loss.token, loss.query], np.float64)
        outside = csc_array(weights - sparse_weights(score_table(loss.pairs, point), n_tokens))
    batches: list[_QueryBatch] = []
    for is_in_batch, reach in _batch_queries(loss):
        rows, problem = loss.problem.restrict(is_in_batch)
        flow = orthonormal_flow(problem, component[rows], loss.n_samples)
        batches.append(_QueryBatch(rows, flow, point[rows], reach))
    return _OrthonormalFrame(loss, n_tokens, outside), batches


# W(0), dense or sparse, if it has the shape (dim, dim) and finite entries.
def _check_start(start: Any, dim: int) -> Any:
    shape = np.shape(start)
    if shape != (dim, dim) or not np.isfinite(csc_array(start).sum()):
        fault = f"shape {shape}" if shape != (dim, dim) else "values that are not finite"
        raise UnsupportedOption(f"start has {fault}; give finite numbers, shape ({dim}, {dim})")
    return start


# Batches of queries of similar size, largest first, and how far a step of size 1 moves a score there.
def _batch_queries(loss: TrainingLoss) -> list[tuple[Bool, float]]:
    problem = loss.problem
    query = problem.component[problem.winner]
    entries = np.bincount(query, np.diff(problem.offsets), problem.n_components)
    shares = np.bincount(query, problem.count, problem.n_components) / loss.n_samples
    is_large = len(problem.alternative) >= WORTH_BATCHES
    n_batches = N_BATCHES if is_large else 1
    largest_first = np.argsort(-entries, kind="stable")
    sizes = entries[largest_first]
    # put the entries in a row and cut it into batches of equal length: a query is in the batch of its middle
    middles = np.cumsum(sizes) - 0.5 * sizes
    batch = np.empty(len(entries), np.int64)
    batch[largest_first] = n_batches * middles // max(sizes.sum(), 1)
    masks = [batch == index for index in np.unique(batch)]
    # A step moves a score by at most the share of the query in the samples; small problems get the full
    # warm-up.
    return [(mask, float(shares[mask].max()) if is_large else 1.0) for mask in masks]


# The frame of a basis, with all coordinates in one batch; none if no context has a second token.
def _prepare_embedded(
    loss: TrainingLoss, table: Float64, start: Float64 | None
) -> tuple[_EmbeddedFrame, list[_QueryBatch]]:
    basis = find_basis(loss.components, table)
    if len(basis.axes) > MOST_AXES:
        raise UnsupportedOption(
            f"with these embeddings training moves {len(basis.axes):,} coordinates, more than {MOST_AXES:,}; "
            "leave out tokens or queries, or give no embeddings"
        )
    dim = table.shape[1]
    point = np.zeros(len(basis.axes))
    outside = np.zeros((dim, dim))
    if start is not None:
        weights: Float64 = _check_start(start, dim)
        point = basis.coordinates(weights)
        outside = weights - basis.weights(point)
    frame = _EmbeddedFrame(loss, basis, table, outside)
    if not len(point):
        return frame, []
    return frame, [_QueryBatch(np.arange(len(point)), embedded_flow(loss, basis), point, reach=1.0)]
