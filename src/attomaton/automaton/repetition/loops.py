"""Loops of a layer that sees only its last T tokens: it always ends in one.

A token that has left the window cannot come back, so the set of tokens in the window only shrinks. Once it
stays the same, A say, every walk of T tokens through the graph "i → j: j is retrieved under i, A present"
must visit all of A; so every cycle of that graph passes through all of A, and a cycle with a chord would have
a shorter one. The result is one cycle through A without any choice: **the sets that absorb a text are those
A, of at most T tokens, in which every token retrieves exactly one, round in a single cycle.** A single token
is always such a set.
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
"""Maximum number of loops to find."""

MOST_PATHS = 1_000_000
"""Maximum number of paths to try."""

MOST_WINDOWS = 200_000
"""Maximum number of windows to visit for the probabilities of loops."""

MOST_WINDOW_TOKENS = 20_000_000
"""Maximum total length of the visited windows."""

MOST_LOOPS_SHOWN = 20
"""Number of loops to print."""

DIRECT = 3_000
"""Number of windows up to which probabilities are solved directly, otherwise by iteration."""

ABSORPTION_RTOL = 1e-12
"""The residual at which iteration ends, relative to 1."""

WindowTokens = tuple[int, ...]
"""The last tokens of a text, as indices."""

LOST_PROBABILITY = 1e-6
"""Tolerance for negative probabilities, and for their sum; beyond it they are not reported."""


@dataclass(frozen=True, eq=False, repr=False)
class Loops:
    """The loops that a layer with a window ends in.

    Attributes
    ----------
    odds : Odds
        The layer's odds for the prompt's tokens, with each of them as the query.
    window : int
        T: the number of last tokens that the layer sees.
    loops : tuple of tuple of int
        Each loop as token ids in the order of writing, beginning with the lowest id.
    probabilities : float64 array, shape (n_loops,), or None
        The probability that the text after the prompt ends in each loop; None if there are too many windows
        to visit, if absorption takes too long for float64, or if no prompt was given.
    steps : float, or None
        Mean number of tokens written until the window holds only the loop's tokens.
    """

    odds: Odds
    window: int
    loops: tuple[tuple[int, ...], ...]
    probabilities: Float64 | None
    steps: float | None

    def __repr__(self) -> str:
        return f"Loops({len(self.loops):,} loops, window {self.window})"

    def __str__(self) -> str:
        """The loops with their probabilities, most probable first."""
        falling = np.zeros(len(self.loops)) if self.probabilities is None else -self.probabilities
        order: list[int] = np.argsort(falling, stable=True).tolist()
        lines = [repr(self)]
        for number in order[:MOST_LOOPS_SHOWN]:
            probability = "" if self.probabilities is None else f"{self.probabilities[number]:.4f}  "
            lines.append(f"  {probability}{' '.join(map(self.odds.name, self.loops[number]))}")
        if len(order) > MOST_LOOPS_SHOWN:
            lines.append(f"  and {len(order) - MOST_LOOPS_SHOWN:,} more")
        return "\n".join(lines)


def find_loops(layer: RepeatedLayer, prompt: Context | None = None, *, window: int) -> Loops:
    """Find the loops that a layer ends in when it sees only the last ``window`` tokens of its own output.

    Parameters
    ----------
    layer : Attention or float array, shape (n_tokens, n_tokens)
        An automaton, another attention, or odds with one row per query.
    prompt : str or sequence, optional
        The first context; the text never contains other tokens. None means any prompt of the layer's tokens.
    window : int
        The number of tokens that the layer sees. With finite scores every text ends in repeating one token,
        however long that takes; in the limit of training longer loops are common.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(["a b c a b c a", "b c a b c a b"])
    >>> loops = find_loops(auto, "a b c a", window=3)
    >>> [[auto.name(token) for token in loop] for loop in loops.loops]
    [['a'], ['a', 'b', 'c'], ['b'], ['c']]
    >>> loops.probabilities.tolist(), loops.steps
    ([0.0, 1.0, 0.0, 0.0], 0.0)
    """
    window = whole_number(window, "window", least=1)
    odds, indices = read_odds(layer, prompt)
    cycles = list_cycles(odds, window)
    loops = tuple(tuple(odds.tokens[list(cycle)].tolist()) for cycle in cycles)
    absorbed = None if prompt is None else _absorb(odds, tuple(indices[-window:].tolist()), window, cycles)
    return Loops(odds, window, loops, *(absorbed or (None, None)))


def list_cycles(odds: Odds, window: int) -> list[WindowTokens]:
    """The cycles of at most ``window`` indices in which each retrieves only the next one, sorted.

    A path grows from its lowest index: with each v that joins, every step a → b so far must prefer b to v
    under a, and the step to v must prefer v to all before it.
    """
    cycles: list[WindowTokens] = []
    for n_paths, (path, closed) in enumerate(_grow(odds.levels, window)):
        if closed:
            cycles.append(path)
        if len(cycles) > MOST_LOOPS or n_paths >= MOST_PATHS:
            raise UnsupportedOption(
                f"there are more than {MOST_LOOPS:,} loops or {MOST_PATHS:,} paths to try; give a shorter "
                "prompt or a smaller window"
            )
    return sorted(cycles)


def _grow(levels: Float64, window: int) -> Iterator[tuple[WindowTokens, bool]]:
    """Every path that may become a cycle, and whether it is one."""
    for first in range(len(levels)):
        waiting: list[tuple[WindowTokens, Bool]] = [((first,), np.arange(len(levels)) > first)]
        while waiting:
            path, allowed = waiting.pop()  # tokens that no step of the path is drawn to
            last, before = path[-1], levels[path[-1], list(path)]
            yield path, bool(last == first or _leads(before[0], before[1:]).all())
            if len(path) == window:
                continue
            for token in np.flatnonzero(allowed & _leads(levels[last], before.max())).tolist():
                left = allowed & _leads(levels[last, token], levels[last])
                waiting.append(((*path, token), left))


def _leads(level: Float64 | float, lower: Float64 | float) -> Bool:
    """Whether a level is so far above another that, where both are present, it alone is retrieved."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(level) & (np.subtract(level, lower) > HARD_TIE)


def next_windows(odds: Odds, state: WindowTokens, window: int) -> dict[WindowTokens, float]:
    """The windows that can follow one, with their probabilities."""
    counts = np.bincount(state, minlength=len(odds.tokens)).astype(np.float64)
    weights = counts * odds.among(counts > 0)[state[-1]]
    probabilities = weights / weights.sum()
    return {
        (*state, token)[-window:]: float(probabilities[token])
        for token in np.flatnonzero(probabilities).tolist()
    }


def _absorb(
    odds: Odds, start: WindowTokens, window: int, cycles: list[WindowTokens]
) -> tuple[Float64, float] | None:
    """The probability of each cycle, and the mean number of tokens before it; None for too many windows."""
    ends = {frozenset(cycle): index for index, cycle in enumerate(cycles)}
    most = min(MOST_WINDOWS, MOST_WINDOW_TOKENS // window)
    number, waiting = {start: 0}, [start]
    rows: list[tuple[int, int, float]] = []
    while waiting:
        state = waiting.pop()
        index = number[state]
        if _is_caught(odds, state, window, ends):
            continue
        for after, probability in next_windows(odds, state, window).items():
            if after not in number:
                if len(number) >= most:
                    return None
                number[after] = len(number)
                waiting.append(after)
            rows.append((index, number[after], probability))
    return _solve_absorption(number, rows, ends)


def _is_caught(odds: Odds, state: WindowTokens, window: int, ends: dict[frozenset[int], int]) -> bool:
    """Whether a window holds only the tokens of one cycle, and repeats it without end."""
    tokens = frozenset(state)
    if tokens not in ends:
        return False
    for _ in range(window):
        following = next_windows(odds, state, window)
        if len(following) > 1 or frozenset(*following) != tokens:
            return False
        (state,) = following
    return True


def _solve_absorption(
    number: dict[WindowTokens, int], rows: list[tuple[int, int, float]], ends: dict[frozenset[int], int]
) -> tuple[Float64, float] | None:
    """Probabilities and mean steps from the first window, by a sparse system; None if precision is lost."""
    from scipy.sparse import diags_array, eye_array
    from scipy.sparse.linalg import gmres, spsolve

    n = len(number)
    probabilities = np.zeros(len(ends))
    if not rows:
        probabilities[ends[frozenset(next(iter(number)))]] = 1.0
        return probabilities, 0.0
    source, target, probability = (np.array(values) for values in zip(*rows, strict=True))
    moving = np.bincount(source, minlength=n) > 0
    table = csr_array((probability, (source, target)), shape=(n, n))
    first = np.zeros(n)
    first[0] = 1.0
    inner = eye_array(n, format="csc") - table.T.tocsc() @ diags_array(moving.astype(np.float64))
    if n <= DIRECT:
        solve: Any = spsolve
        visits: Float64 = solve(inner.tocsc(), first)
    else:  # elimination would fill in
        visits, failed = gmres(inner.tocsc(), first, rtol=ABSORPTION_RTOL, atol=0.0, restart=60, maxiter=40)
        if failed:
            return None
    for state, index in number.items():
        if not moving[index]:
            probabilities[ends[frozenset(state)]] += visits[index]
    lost = (
        visits.min() < -LOST_PROBABILITY or abs(probabilities.sum() - 1) > LOST_PROBABILITY
    )  # float64 cannot decide: it takes too long
    return None if lost or not np.isfinite(visits).all() else (probabilities, float(visits[moving].sum()))
