"""Find the loops in which a text of a layer ends if the layer sees only its last T tokens (``window``).

A token that has left the window cannot come back, so the set of tokens in the window only shrinks. Let A be
the set that remains, and draw an edge i → j if j is retrieved under i when A is present. Every walk of T
tokens through this graph must visit all of A, so every cycle of the graph passes through all of A. A cycle
with a chord would have a shorter one. Hence the graph is one cycle through A without any choice: **the sets
in which a text ends are those A, of at most T tokens, in which every token retrieves exactly one other, in a
single cycle.** A single token is always such a set.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from attomaton.automaton.prediction import HARD_TIE
from attomaton.automaton.repetition.odds import Odds, RepeatedLayer, read_odds
from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import whole_number
from attomaton.base.tables import Bool, Float64
from attomaton.corpora.prompts import Context

MOST_LOOPS = 10_000
MOST_PATHS = 1_000_000  # paths tried in search of loops
MOST_WINDOWS = 200_000  # windows visited for the probabilities of loops
MOST_WINDOW_TOKENS = 20_000_000  # total length of the windows visited
MOST_LOOPS_SHOWN = 20
MOST_SOLVED_DIRECTLY = 3_000  # windows up to which probabilities are solved directly, not by iteration
ABSORPTION_RTOL = 1e-12  # residual at which the iteration ends, relative to 1

# The last tokens of a text, as indices into ``Odds.tokens``, the query last.
WindowTokens = tuple[int, ...]

LOST_PROBABILITY = 1e-6  # tolerance for negative probabilities, and for their sum


@dataclass(frozen=True, eq=False, repr=False)
class Loops:
    """The loops in which the text of a layer can end if the layer sees only ``window`` tokens.

    ``odds`` are the odds of the layer for the tokens of the prompt. Each of ``loops`` lists the ids of its
    tokens in order, the lowest id first. ``probabilities``, shape (n_loops,), are those of ending in each
    loop after the prompt, and ``steps`` is the mean number of tokens before the window contains only tokens
    of one loop. Both are None without a prompt, if there are too many windows to visit, or if float64 is not
    precise enough.
    """

    odds: Odds
    window: int
    loops: tuple[tuple[int, ...], ...]
    probabilities: Float64 | None
    steps: float | None

    def __repr__(self) -> str:
        return f"Loops({len(self.loops):,} loops, window {self.window})"

    def __str__(self) -> str:
        keys = np.zeros(len(self.loops)) if self.probabilities is None else -self.probabilities
        by_probability: list[int] = np.argsort(keys, stable=True).tolist()
        lines = [repr(self)]
        for number in by_probability[:MOST_LOOPS_SHOWN]:
            probability = "" if self.probabilities is None else f"{self.probabilities[number]:.4f}  "
            lines.append(f"  {probability}{' '.join(map(self.odds.name, self.loops[number]))}")
        if len(by_probability) > MOST_LOOPS_SHOWN:
            lines.append(f"  and {len(by_probability) - MOST_LOOPS_SHOWN:,} more")
        return "\n".join(lines)


def find_loops(layer: RepeatedLayer, prompt: Context | None = None, *, window: int) -> Loops:
    """Find the loops in which the text of a layer ends if the layer sees only its last ``window`` tokens.

    Parameters
    ----------
    layer : Attention or float array, shape (n_tokens, n_tokens)
        An automaton, another attention, or a table of odds with one row per query.
    prompt : str or sequence, optional
        The first context; the text never contains other tokens. None means any prompt.
    window : int
        The number of tokens that the layer sees. With finite scores every text ends with one repeated token,
        however late; in the limit of training longer loops are common.

    Examples
    --------
    >>> loops = find_loops([[0.0, 1.0], [1.0, 0.0]], [0, 1], window=2)
    >>> loops.loops, loops.probabilities.tolist()
    (((0,), (0, 1), (1,)), [0.0, 1.0, 0.0])
    """
    window = whole_number(window, "window", least=1)
    odds, indices = read_odds(layer, prompt)
    cycles = list_cycles(odds, window)  # in indices; loops are in token ids
    loops = tuple(tuple(odds.tokens[list(cycle)].tolist()) for cycle in cycles)
    absorbed = None if prompt is None else _absorb(odds, tuple(indices[-window:].tolist()), window, cycles)
    return Loops(odds, window, loops, *(absorbed or (None, None)))


def list_cycles(odds: Odds, window: int) -> list[WindowTokens]:
    """The cycles of at most ``window`` tokens in which each token retrieves only the next one, sorted."""
    cycles: list[WindowTokens] = []
    for n_paths, (path, closed) in enumerate(_extend_paths(odds.levels, window)):
        if closed:
            cycles.append(path)
        if len(cycles) > MOST_LOOPS or n_paths >= MOST_PATHS:
            raise UnsupportedOption(
                f"there are more than {MOST_LOOPS:,} loops, or more than {MOST_PATHS:,} paths to try; use a "
                "prompt with fewer tokens, or a smaller window"
            )
    return sorted(cycles)


# Paths that start at their lowest token, each with whether it closes to a cycle without any choice.
# `levels[i, j]` is the level of j under i. In a cycle, each token ranks the next one above all others.
def _extend_paths(levels: Float64, window: int) -> Iterator[tuple[WindowTokens, bool]]:
    for lowest in range(len(levels)):
        waiting: list[tuple[WindowTokens, Bool]] = [((lowest,), np.arange(len(levels)) > lowest)]
        while waiting:
            path, may_join = waiting.pop()
            last = path[-1]
            levels_of_path = levels[last, list(path)]
            yield path, bool(last == lowest or _leads(levels_of_path[0], levels_of_path[1:]).all())
            if len(path) == window:
                continue
            # Under the last token, the next one must lead the tokens of the path, and all that join later.
            joining = np.flatnonzero(may_join & _leads(levels[last], levels_of_path.max()))
            for token in joining.tolist():
                may_follow = may_join & _leads(levels[last, token], levels[last])
                waiting.append(((*path, token), may_follow))


# Whether a level is finite and above others by more than a tie.
def _leads(level: Float64 | float, lower: Float64 | float) -> Bool:
    with np.errstate(invalid="ignore"):
        return np.isfinite(level) & (np.subtract(level, lower) > HARD_TIE)


def next_windows(odds: Odds, state: WindowTokens, window: int) -> dict[WindowTokens, float]:
    """The windows that can follow a window, each with its probability."""
    counts = np.bincount(state, minlength=len(odds.tokens)).astype(np.float64)
    weights = counts * odds.among(counts > 0)[state[-1]]
    probabilities = weights / weights.sum()
    return {
        (*state, token)[-window:]: float(probabilities[token])
        for token in np.flatnonzero(probabilities).tolist()
    }


# The probability of each cycle, and the mean number of tokens before it; None for too many windows.
def _absorb(
    odds: Odds, start: WindowTokens, window: int, cycles: list[WindowTokens]
) -> tuple[Float64, float] | None:
    cycle_of_tokens = {frozenset(cycle): index for index, cycle in enumerate(cycles)}
    most_windows = min(MOST_WINDOWS, MOST_WINDOW_TOKENS // window)
    number_of = {start: 0}  # by window, in order of discovery
    waiting = [start]
    steps: list[tuple[int, int, float]] = []  # from window, to window, probability
    while waiting:
        state = waiting.pop()
        if _is_caught(odds, state, window, cycle_of_tokens):
            continue
        for following, probability in next_windows(odds, state, window).items():
            if following not in number_of:
                if len(number_of) >= most_windows:
                    return None
                number_of[following] = len(number_of)
                waiting.append(following)
            steps.append((number_of[state], number_of[following], probability))
    return _solve_absorption(number_of, steps, cycle_of_tokens)


# Whether a text with this window stays in one cycle: for a whole window each token has one successor.
def _is_caught(
    odds: Odds, state: WindowTokens, window: int, cycle_of_tokens: dict[frozenset[int], int]
) -> bool:
    tokens = frozenset(state)
    if tokens not in cycle_of_tokens:
        return False
    for _ in range(window):
        following = next_windows(odds, state, window)
        if len(following) > 1 or frozenset(*following) != tokens:
            return False
        (state,) = following
    return True


# The result of `_absorb` from windows and steps; None if float64 is not precise enough.
# The mean numbers of visits v solve v = e_start + Pᵀ v, where rows of P are 0 for windows in a cycle.
# The visits of windows in a cycle add up to its probability, all others to the mean number of tokens.
def _solve_absorption(
    number_of: dict[WindowTokens, int],
    steps: list[tuple[int, int, float]],
    cycle_of_tokens: dict[frozenset[int], int],
) -> tuple[Float64, float] | None:
    from scipy.sparse import diags_array, eye_array  # slow to import
    from scipy.sparse.linalg import gmres, spsolve

    n_windows = len(number_of)
    probabilities = np.zeros(len(cycle_of_tokens))
    if not steps:  # the start is already in a cycle
        probabilities[cycle_of_tokens[frozenset(next(iter(number_of)))]] = 1.0
        return probabilities, 0.0
    source, target, probability = (np.array(values) for values in zip(*steps, strict=True))
    is_transient = np.bincount(source, minlength=n_windows) > 0  # windows in a cycle have no steps
    transitions = csr_array((probability, (source, target)), shape=(n_windows, n_windows))
    start = np.zeros(n_windows)
    start[0] = 1.0
    leaving = transitions.T.tocsc() @ diags_array(is_transient.astype(np.float64))
    system = eye_array(n_windows, format="csc") - leaving
    if n_windows <= MOST_SOLVED_DIRECTLY:
        solve: Any = spsolve
        visits: Float64 = solve(system.tocsc(), start)
    else:  # elimination would fill in
        visits, failed = gmres(system.tocsc(), start, rtol=ABSORPTION_RTOL, atol=0.0, restart=60, maxiter=40)
        if failed:
            return None
    for state, index in number_of.items():
        if not is_transient[index]:
            probabilities[cycle_of_tokens[frozenset(state)]] += visits[index]
    is_lost = visits.min() < -LOST_PROBABILITY or abs(probabilities.sum() - 1) > LOST_PROBABILITY
    if is_lost or not np.isfinite(visits).all():  # absorption takes too long for float64
        return None
    return probabilities, float(visits[is_transient].sum())
