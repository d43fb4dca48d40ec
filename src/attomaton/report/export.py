"""Which part of a run is written for other programs, and where it must not go."""

from collections.abc import Sequence
from os.path import realpath
from pathlib import Path

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.errors import UnknownToken, UnsupportedOption, UnwritablePlace
from attomaton.base.options import whole_number
from attomaton.base.tables import Bool, column


def pick_queries(automaton: Automaton, asked: Sequence[str] | int | None = None) -> Bool:
    """Which tokens are queries to be written, shape (n_tokens,).

    Parameters
    ----------
    automaton : Automaton
        What is written.
    asked : sequence of str, or int, optional
        These tokens; an int k means the k with the most realisable samples (of equals, the smaller id);
        all queries if not given.

    Examples
    --------
    >>> import attomaton as at
    >>> auto = at.learn(at.Samples.from_lists([[0, 1, 2], [1, 0, 2], [1, 2, 1]], [0, 1, 2], n_tokens=3))
    >>> pick_queries(auto).tolist(), pick_queries(auto, 1).tolist(), pick_queries(auto, ["1"]).tolist()
    ([False, True, True], [False, False, True], [False, True, False])
    """
    present = np.zeros(automaton.n_tokens, bool)
    index = automaton.index
    present[column(index, "query")[column(index, "components") > 0]] = True
    if asked is None:
        return present
    picked = np.zeros(automaton.n_tokens, bool)
    picked[
        _most_seen(automaton, asked)
        if isinstance(asked, int | float | np.number)
        else _named(automaton, asked)
    ] = True
    absent = np.flatnonzero(picked & ~present)
    if len(absent):
        raise UnknownToken(
            f"{automaton.name(int(absent[0]))!r} is not the query of any realisable sample of this run; "
            "name other queries"
        )
    return picked


def check_place(run: Path, target: Path) -> None:
    """Refuse to write into the run folder itself: it holds what is in its manifest and nothing else."""
    if Path(realpath(target)).is_relative_to(realpath(run)):  # links in a circle lead nowhere
        raise UnwritablePlace(f"{target} is in the run folder {run}; choose another place")


def _most_seen(automaton: Automaton, number: object) -> list[int]:
    number = whole_number(number, "the number of queries", least=1)
    queries = automaton.index
    ids, realisable = column(queries, "query"), column(queries, "realisable")
    first = np.lexsort((ids, -realisable))
    return ids[first[realisable[first] > 0][:number]].tolist()


def _is_id(name: str, n_tokens: int) -> bool:
    """Whether a text is a token id in plain digits."""
    plain = name.isascii() and name.isdecimal() and len(name) <= len(str(n_tokens))
    return plain and int(name) < n_tokens


def _named(automaton: Automaton, names: Sequence[str]) -> list[int]:
    if not names:
        raise UnsupportedOption("no query was named; give tokens separated by blanks, or a number")
    if automaton.vocabulary is not None:
        return automaton.vocabulary.lookup(names).tolist()
    unknown = [name for name in names if not _is_id(name, automaton.n_tokens)]
    if unknown:
        raise UnknownToken(
            f"{unknown[0]!r} is not a token id of this run, which has no vocabulary; "
            f"give ids below {automaton.n_tokens}"
        )
    return [int(name) for name in names]
