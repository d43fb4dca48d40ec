"""Find the pairs that die, and with them the face of the data on which the estimate is finite.

:func:`find_face` decides in general, :func:`find_games_face` for games, and both return a :class:`Face`.
Let D have the difference d of each pair in a row. A pair dies if some direction v with D v ≥ 0 has d·v > 0:
its log odds then tend to infinity. One linear program decides for all pairs: max Σ s with D v ≥ s and
0 ≤ s ≤ 1 has s ∈ {0, 1}, because D v ≥ 0 is a cone, and s = 1 exactly on the pairs that die. It is solved in
the few directions in which no pair was proved to survive.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from attomaton.base.errors import UncertifiedSolution
from attomaton.base.tables import Bool, Float64, Int64
from attomaton.choices.logit.newton import NewtonClimb, information_root
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.spans import CUT, span_of, span_of_vectors
from attomaton.graphs.strong import connected_nodes, measure_heights

sparse: Any = scipy.sparse
unique: Any = np.unique  # their stubs leave types unknown
round_off: Any = np.round

PATIENCE = 6  # Newton steps without a proof before a linear program is solved
CUTS = (0.5, 0.1, 0.02)  # a guess takes a pair as surviving if Newton's step moves it by no more than this

# Up to these numbers of columns and rows the linear program is solved at once, without a guess.
FEW_PARAMETERS, FEW_ROWS = 20, 200_000

ATTEMPTS = 4  # how often the face is guessed
PROGRAM_CHUNK = 2_000  # rows by which a large linear program grows
MOST_MERGED_ENTRIES = 4_000_000  # entries of directions up to which equal directions are merged

# A direction is straightened only if it still raises every row that dies by more than this.
FAINTEST_RISE = 0.25

TOLERANCE = 1e-7  # activities of rows of length 1 below this count as zero in a large linear program


@dataclass(frozen=True, eq=False)
class Face:
    """Which rows die, a direction along which they do, and how they were found, in scaled coordinates."""

    dying: Bool  # (n_rows,): row j dies if the pair (c, j) does, for the reference c of the situation
    direction: Float64  # (n_parameters,), a v with d·v ≥ ½ on dying pairs of length 1, and 0 on the others
    start: Float64  # (n_parameters,), where Newton's method on the face may begin
    method: str  # "Newton", "components", "linear program" or "guess and linear program"
    program_rows: int = 0  # the number of rows of the linear program

    @property
    def alive(self) -> Bool | None:
        """The rows that do not die; None if no row dies."""
        return ~self.dying if self.dying.any() else None


class ConeProgram(NamedTuple):
    """A solved linear program max Σ s with A w ≥ s, 0 ≤ s ≤ 1."""

    direction: Float64  # w
    dies: Bool  # which rows of A have s = 1
    n_rows: int  # the rows of A that the program needed


def find_face(
    problem: ChoiceProblem, start: Float64, *, guess: bool | None = None, metric: Float64 | None = None
) -> Face:
    """Decide which pairs die.

    ``guess`` says whether Newton's method first guesses which rows survive. None decides by size, and by
    components where all differences are e_a − e_b. ``metric`` has the coordinates of :func:`find_metric`.
    """
    arcs = problem.rows.arcs(problem.reference)
    if arcs is not None and guess is None:
        return find_components_face(problem, arcs, start)
    proven = problem.also_chosen  # the rows that are known to survive
    method = "linear program"
    is_large = problem.rows.n_parameters > FEW_PARAMETERS or problem.situations.n_rows > FEW_ROWS
    if guess or (guess is None and is_large):
        alive, start = _guess_face(problem, start)
        if alive is not None:
            proven = alive & problem.is_pair
            method = "guess and linear program"
    program = _solve_reduced(problem, proven, metric)
    return Face(program.dies, program.direction, start, method, program.n_rows)


def find_components_face(problem: ChoiceProblem, arcs: tuple[Int64, Int64], start: Float64) -> Face:
    """Decide by components where all differences are e_a − e_b: pairs survive in strongly connected ones."""
    winner, loser = arcs
    both = problem.also_chosen  # these lost to and won against the reference: an arc each way
    tails, heads = np.concatenate([winner, loser[both]]), np.concatenate([loser, winner[both]])
    component, height = _stack_components(tails, heads, problem.rows.n_parameters)
    dying = component[winner] != component[loser]
    return Face(dying, height.astype(np.float64) * problem.scale, start, "components")


# The strong component of each node, and the height of this component above those that it leads to.
def _stack_components(tails: Int64, heads: Int64, size: int) -> tuple[Int64, Int64]:
    component = connected_nodes(tails, heads, size, strongly=True)
    between = component[tails] != component[heads]
    n_components = int(component.max(initial=0)) + 1
    heights = measure_heights(component[tails[between]], component[heads[between]], n_components)
    return component, heights[component]


def find_games_face(problem: ChoiceProblem) -> Face:
    """The face on which only games between strong components die, where a tie is an edge each way.

    It is right if all features have finite estimates, which must be proved.
    """
    rows: Any = problem.rows
    won, lost, *tied = problem.situations.columns(problem.counts)  # of the first item in each battle
    first_scored, second_scored = won + sum(tied) > 0, lost + sum(tied) > 0
    tails = np.concatenate([rows.first[first_scored], rows.second[second_scored]])
    heads = np.concatenate([rows.second[first_scored], rows.first[second_scored]])
    component, height = _stack_components(tails, heads, rows.n_items)
    between = component[rows.first] != component[rows.second]
    dying = problem.situations.spread(between) & problem.is_pair
    direction = np.zeros(rows.n_parameters)
    direction[: rows.n_items] = height
    direction = _scale_to_rise(problem, direction * problem.scale, dying)
    return Face(dying, direction, np.zeros_like(direction), "components")


def find_metric(problem: ChoiceProblem, basis: Float64) -> Float64 | None:
    """Coordinates that set alternatives near the border far apart; None if there are too many rows."""
    # At the end of Newton's method only these have weight: in units of the information there, classes that
    # overlap by 10⁻⁹ of their range differ by about 1.
    climb = NewtonClimb(most_steps=60, reach=np.inf, settled=1e-12, chord=False, basis=basis)
    last = climb.run(problem, None, np.zeros(problem.rows.n_parameters)).last
    return information_root(problem, last.point.probability, basis)


# Rows that Newton's step hardly moves and whose survival a further step proves, and its last point.
def _guess_face(problem: ChoiceProblem, start: Float64) -> tuple[Bool | None, Float64]:
    prove = NewtonClimb(most_steps=8, until_proof=True, patience=5)
    here = NewtonClimb(most_steps=0).run(problem, None, start).last
    sizes_tried = set[int]()
    # Each step moves dying pairs apart by about 1, and others less and less.
    for _ in range(ATTEMPTS):
        utilities = here.step_utilities  # how far the step moves each row
        apart = np.abs(problem.situations.spread(utilities[problem.reference]) - utilities)
        for cut in CUTS:
            alive = (apart <= cut) | (problem.counts > 0)
            if (size := int(alive.sum())) in sizes_tried:  # the guess is most probably an earlier one
                continue
            sizes_tried.add(size)
            course = prove.run(problem, alive, here.point.beta)
            if course.proof is not None:
                return alive, course.last.point.beta
        here = NewtonClimb(most_steps=5, patience=5).run(problem, None, here.point.beta).last
    return None, start  # nothing was proved


# The program over all rows of the problem, in the directions in which no row of ``proven`` dies.
def _solve_reduced(problem: ChoiceProblem, proven: Bool, metric: Float64 | None) -> ConeProgram:
    alive = proven.copy()
    alive[problem.reference] = True
    complement = span_of(problem, alive).complement
    undecided, slopes = _slopes_of_undecided(problem, proven, complement)
    if metric is not None:  # directions along which alternatives differ little become long
        vectors, values, _ = np.linalg.svd(complement.T @ metric, full_matrices=False)
        vectors = vectors[:, values > 0] * values[values > 0]
        complement, slopes = complement @ vectors, slopes @ vectors
    directions, direction_of = distinct_directions(slopes)
    program = solve_cone(directions)
    dying = np.zeros(problem.situations.n_rows, bool)
    dying[undecided[program.dies[direction_of]]] = True
    direction = complement @ program.direction
    if metric is not None:
        direction = _scale_to_rise(problem, direction, dying)
    return ConeProgram(direction, dying, program.n_rows)


# Rows whose pairs the complement does not rule out, and d·v / ‖d‖ for each of its columns v.
def _slopes_of_undecided(problem: ChoiceProblem, proven: Bool, complement: Float64) -> tuple[Int64, Float64]:
    undecided = np.flatnonzero(problem.is_pair & ~proven & (problem.norms > 0))
    slopes = problem.slopes(complement, undecided) / problem.norms[undecided, None]
    steep = np.abs(slopes).max(axis=1, initial=0.0) > CUT
    return undecided[steep], slopes[steep]


# Scale the direction so that min d·v / ‖d‖ over dying pairs is 1.
def _scale_to_rise(problem: ChoiceProblem, direction: Float64, dying: Bool) -> Float64:
    if not dying.any():
        return direction
    return direction / float((problem.gaps(direction)[dying] / problem.norms[dying]).min())


def distinct_directions(vectors: Float64, digits: int | None = 10) -> tuple[Float64, Int64]:
    """The distinct directions of vectors, of length 1, and the direction of each vector.

    Directions count as equal if they agree to ``digits``; None means exactly.
    """
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    if not len(units) or units.size > MOST_MERGED_ENTRIES:
        return units, np.arange(len(units))
    rounded = units if digits is None else round_off(units, digits)
    # + 0.0 makes −0.0 equal to 0.0
    _, first, direction_of = unique(rounded + 0.0, axis=0, return_index=True, return_inverse=True)
    return units[first], direction_of.ravel()


def solve_cone(directions: Float64) -> ConeProgram:
    """Find a w with A w ≥ 0 that raises all rows of A, the ``directions``, that such a w can raise."""
    size = len(directions)
    if size <= 3 * PROGRAM_CHUNK:  # growing would need several programs
        return ConeProgram(*_solve_cone_at_once(directions), size)
    # A large program grows by the rows that its solution violates, then by rows at 0 that the rows proved to
    # survive do not span.
    use = np.zeros(size, bool)
    use[np.random.default_rng(0).choice(size, PROGRAM_CHUNK, replace=False)] = True
    while True:
        rows = np.flatnonzero(use)
        direction, dies = _solve_cone_at_once(directions[rows])
        height = directions @ direction
        violated = np.flatnonzero((height < -TOLERANCE) & ~use)
        if len(violated):
            use[violated[np.argsort(height[violated])[:PROGRAM_CHUNK]]] = True
            continue
        at_zero = np.flatnonzero((np.abs(height) <= TOLERANCE) & ~use)
        span = span_of_vectors(directions[rows[~dies]], directions.shape[1])
        outside = np.abs(directions[at_zero] @ span.complement).max(axis=1, initial=0.0) > TOLERANCE
        if outside.any():
            use[at_zero[outside][:PROGRAM_CHUNK]] = True
            continue
        all_dies = height > TOLERANCE
        all_dies[rows] = dies
        return ConeProgram(direction, all_dies, len(rows))


# Solve max Σ s with A w ≥ s, 0 ≤ s ≤ 1 for the rows A of ``matrix``: w, and which rows have s = 1.
def _solve_cone_at_once(matrix: Float64) -> tuple[Float64, Bool]:
    n_rows, size = matrix.shape
    # variables: w, then s of each row; as a minimum, −Σ s subject to −A w + s ≤ 0
    if size == 0 or n_rows == 0:
        return np.zeros(size), np.zeros(n_rows, bool)
    cost = np.concatenate([np.zeros(size), -np.ones(n_rows)])
    left = sparse.hstack([sparse.csr_array(-matrix), sparse.eye_array(n_rows)], format="csr")
    bounds = np.array([(-np.inf, np.inf)] * size + [(0.0, 1.0)] * n_rows)
    answer = run_highs(cost, A_ub=left, b_ub=np.zeros(n_rows), bounds=bounds)
    direction, dies = np.asarray(answer.x[:size]), np.asarray(answer.x[size:] > 0.5)
    return straighten(matrix, direction, dies), dies


def straighten(matrix: Float64, direction: Float64, dies: Bool) -> Float64:
    """Project the direction onto the complement of surviving rows, and scale it to raise others by 1."""
    projected = span_of_vectors(matrix[~dies], matrix.shape[1]).reject(direction)
    lowest = float((matrix[dies] @ projected).min(initial=1.0))
    return projected / lowest if lowest > FAINTEST_RISE else direction


def find_balance(directions: Float64, both_ways: Any) -> Float64 | None:
    """λ with Σ λ d = 0 over directions d, and λ ≥ 1 except where d goes both ways; None if none exists."""
    bounds = np.array([(-np.inf if both else 1.0, np.inf) for both in both_ways])
    right = np.zeros(directions.shape[1])
    with suppress(UncertifiedSolution):
        answer = run_highs(np.where(both_ways, 0.0, 1.0), A_eq=directions.T, b_eq=right, bounds=bounds)
        return np.asarray(answer.x, np.float64)
    return None


def run_highs(cost: Float64, **constraints: Any) -> Any:
    """Solve a linear program with HiGHS, whose answer is not trusted: the certificate checks it."""
    import scipy.optimize

    linprog: Any = scipy.optimize.linprog
    answer: Any = None
    tolerances = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for method in ("highs", "highs-ds", "highs-ipm"):
        answer = linprog(cost, method=method, options=tolerances, **constraints)
        if answer.status == 0:
            return answer
    raise UncertifiedSolution(
        f"the linear program that finds infinite estimates was not solved ({answer.message}); scale features "
        "to a common size, or drop features that hardly differ"
    )
