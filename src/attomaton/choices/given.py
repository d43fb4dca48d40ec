"""Choices as users supply them: a frame with named columns, a file of one, or sequences."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, TypedDict, cast

import numpy as np

from attomaton.base.errors import InvalidSamples, UnreadableSource, UnsupportedOption
from attomaton.base.options import check_path, show
from attomaton.choices.columns import as_arrow, as_list, columns_of, find_column, is_frame, number_columns
from attomaton.choices.numbering import check_counts
from attomaton.choices.sequences import (
    TIES,
    ChoiceData,
    ParsedChoices,
    holds_items,
    pair_rows,
    read_outcomes,
    read_sequences,
)
from attomaton.corpora.budgets import STANDARD_INPUT
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.readers.files import File, keep_standard_input, naming, suffix_of
from attomaton.corpora.readers.sources import TABLES


def read_columns(path: str | PathLike[str], reading: Reading | None = None) -> Mapping[Any, Any]:
    """The columns of a file by name; ``"-"`` is standard input. Cells of CSV and TSV stay text (007)."""
    source = check_path(fspath(path), "the file of choices")
    reading = reading or Reading()
    file = keep_standard_input() if source == STANDARD_INPUT else File(source, source)
    suffix = suffix_of(file, reading) or (".csv" if source == STANDARD_INPUT else "")
    if suffix not in TABLES:
        raise UnreadableSource(
            f"{source!r} is not a file of choices; give one ending in {', '.join(TABLES)}, or sequences of "
            "winners and losers"
        )
    with naming(source):
        return columns_of(TABLES[suffix](file, reading).table())


def split_column(columns: Mapping[Any, Any], name: str | None, between: str) -> dict[Any, Any]:
    """The columns with one of them split into lists; whitespace around the parts is removed."""
    if name is None or not between.strip():
        raise UnsupportedOption(
            "split is for a column of choice sets or rankings; name that column and the separator"
        )
    texts = as_list(find_column(columns, name, "choice_set"))
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidSamples(f"row {row} of {name!r} has no text to split; leave split out, or fix it")
    return {**columns, name: [[part.strip() for part in text.split(between)] for text in texts]}


class Columns(TypedDict, total=False):
    """Names of the columns of a frame.

    ``winner`` with ``loser`` or ``choice_set`` (a column of lists), or ``first``, ``second`` and ``outcome``,
    or ``ranking`` (a column of lists, or one column per place), or ``ranks`` (one column per item,
    which holds its place); ``count`` with any of these.

    Examples
    --------
    >>> import attomaton as at
    >>> names = Columns(winner="won", loser="lost")
    >>> at.fit_choices({"won": ["a", "b"], "lost": ["b", "c"]}, **names).items
    ('a', 'b', 'c')
    """

    winner: Any
    loser: Any
    choice_set: Any
    first: Any
    second: Any
    outcome: Any
    ranking: Any
    ranks: Any
    count: Any


def read_given(data: ChoiceData, columns: Mapping[str, Any]) -> ParsedChoices:
    """The choices, supplied in any form."""
    unknown = [name for name in columns if name not in Columns.__annotations__]
    if unknown:
        raise UnsupportedOption(
            f"unknown option {unknown[0]!r}; columns are named by {', '.join(Columns.__annotations__)}"
        )
    framed: Any = data.winners if data.rankings is None else data.rankings
    if isinstance(framed, str | PathLike) and data.choice_sets is None and data.losers is None:
        framed = read_columns(cast("str | PathLike[str]", framed))
    framed = cast("Any", framed)
    if framed is None and columns and not any(isinstance(name, str) for name in columns.values()):
        framed, columns = dict(columns), {name: name for name in columns}
    if is_frame(framed) and not (framed is data.rankings and isinstance(framed, list)):
        return _read_frame(data, framed, dict(columns))
    if columns:
        raise InvalidSamples(
            f"{next(iter(columns))}= names a column, but the data are not a frame; give a frame first, or "
            "sequences: fit_choices(winners, losers=losers)"
        )
    return read_sequences(data)


def _read_frame(data: ChoiceData, frame: Any, columns: dict[str, Any]) -> ParsedChoices:
    if data.choice_sets is not None or data.losers is not None:
        raise InvalidSamples(
            'give a frame alone, with the names of its columns: fit_choices(frame, winner="…", loser="…")'
        )
    there = columns_of(frame)
    if data.rankings is not None and not columns:
        columns["ranking"] = list(there)
    form = _find_form(columns, there)

    def take(role: str) -> Any:
        return find_column(there, columns.get(role, role), role)

    counts, tied = data.counts, data.tied
    if isinstance(counts, str):
        columns.setdefault("count", counts)
    elif counts is None and "count" in there and not _names(columns, "count"):
        columns["count"] = "count"
    if "count" in columns:
        counts = _read_counts(find_column(there, columns["count"], "count"))
    if tied is None and form is _frame_pairs:
        tied = next((name for name in TIES if name in there and not _names(columns, name)), None)
    if isinstance(tied, str):
        tied = find_column(there, tied, "tied")
    return form(take, ChoiceData(counts=counts, tied=tied), columns, there)


Take = Callable[[str], Any]


def _names(columns: Mapping[str, Any], name: str) -> bool:
    """Whether a column already has a role."""
    return any(name in one if isinstance(one, list | tuple) else name == one for one in columns.values())


def _read_counts(values: Any) -> Any:
    """A column of counts as numbers, even if a file stores them as text."""
    array = as_arrow(values)
    if array is None:
        return as_list(values)
    if str(array.type) not in ("string", "large_string", "string_view"):
        return array.to_numpy(zero_copy_only=False)
    try:
        return np.array([float(text) for text in array.to_pylist()])  # pandas writes 3.0 beside gaps
    except (TypeError, ValueError, OverflowError):
        return np.array(array.to_pylist(), object)  # not counts; the check of counts rejects them


def _frame_pairs(take: Take, data: ChoiceData, _columns: Any, _there: Any) -> ParsedChoices:
    return read_sequences(data._replace(winners=take("winner"), losers=take("loser")))


def _frame_sets(take: Take, data: ChoiceData, columns: Mapping[str, Any], _there: Any) -> ParsedChoices:
    sets = take("choice_set")
    _refuse_texts(sets, columns.get("choice_set", "choice_set"), ", or name it as the loser if it is one")
    return read_sequences(data._replace(winners=take("winner"), choice_sets=sets))


def _refuse_texts(lists: Any, name: Any, otherwise: str = "") -> None:
    if holds_items(lists):
        raise InvalidSamples(
            f"the column {name!r} does not hold lists; split its strings first (in pandas: "
            f"frame[{name!r}].str.split('|'); on the command line: --split '|'){otherwise}"
        )


def _frame_outcomes(take: Take, data: ChoiceData, columns: Mapping[str, Any], _there: Any) -> ParsedChoices:
    if data.tied is not None:
        raise InvalidSamples("the outcome says which rows are tied; leave tied out")
    one, other = take("first"), take("second")
    items, (first, second) = number_columns({"first": one, "second": other})
    names = columns.get("first", "first"), columns.get("second", "second")
    lost, tied = read_outcomes(take("outcome"), items, (first, second), names)
    winner, loser = np.where(lost, second, first), np.where(lost, first, second)
    return pair_rows(items, winner, loser, tied, check_counts(data.counts, len(winner)))


def _frame_rankings(
    take: Take, data: ChoiceData, columns: Mapping[str, Any], there: Mapping[Any, Any]
) -> ParsedChoices:
    named = columns.get("ranking", "ranking")
    if not isinstance(named, list | tuple):
        _refuse_texts(rankings := take("ranking"), named)
        return read_sequences(data._replace(rankings=rankings))
    names = list(cast("Sequence[Any]", named))
    cells = [as_list(find_column(there, name, "ranking")) for name in names]
    _refuse_ranks(names, cells)
    rankings: list[list[Any]] = []
    for number, row in enumerate(zip(*cells, strict=True)):
        filled = [cell is not None and cell == cell for cell in row]  # NaN is unequal to itself
        if not all(filled[: sum(filled)]):
            raise InvalidSamples(f"ranking {number} has a gap before its end; close it, or drop the row")
        items = row[: sum(filled)]  # pandas turns whole numbers into floats if a column has gaps
        rankings.append(
            [int(item) if isinstance(item, float) and item.is_integer() else item for item in items]
        )
    return read_sequences(data._replace(rankings=rankings))


def _refuse_ranks(names: list[Any], cells: list[list[Any]]) -> None:
    """Reject numbers in named columns, which may be ranks; in columns named by place they are items."""
    texts = list(map(str, names))
    if any(texts == [str(first + place) for place in range(len(texts))] for first in (0, 1)):
        return
    if all(_is_absent(one) or _number(one) is not None for column in cells for one in column):
        columns = ", ".join(map(show, names[:3])) + ", …" * (len(names) > 3)
        raise InvalidSamples(
            f"the columns of ranking= hold numbers: if these are the ranks of {columns}, use ranks= instead "
            "of ranking= (on the command line: --ranks); if they are items, the best first, give lists: "
            "rankings=frame[columns].to_numpy().tolist()"
        )


def _frame_ranks(
    _take: Take, data: ChoiceData, columns: Mapping[str, Any], there: Mapping[Any, Any]
) -> ParsedChoices:
    """Rankings from columns of ranks, one per item: 1 is best, equal ranks are ties, empty cells unranked."""
    names: Any = columns["ranks"]
    if not isinstance(names, list | tuple) or len(cast("Sequence[Any]", names)) < 2:
        raise InvalidSamples(
            f"ranks={show(columns['ranks'])} names fewer than two items; give the columns of all. Pivot a "
            'table with one row per item of a ranking first (in pandas: frame.pivot(index="race", '
            'columns="driver", values="place"))'
        )
    items = list(cast("Sequence[Any]", names))
    cells = zip(*(as_list(find_column(there, name, "ranks")) for name in items), strict=True)
    rankings: list[list[list[Any]]] = []
    for number, row in enumerate(cells):
        ranks = dict[float, list[Any]]()
        for item, cell in zip(items, row, strict=True):
            if _is_absent(cell):
                continue
            rank = _number(cell)
            if rank is None or rank < 1:
                raise InvalidSamples(
                    f"row {number} gives {show(item)} the rank {show(cell)}; a rank is a number, at least 1 "
                    "(1 is best), or empty for an item that was not ranked"
                )
            ranks.setdefault(rank, []).append(item)
        rankings.append([ranks[rank] for rank in sorted(ranks)])
    return read_sequences(data._replace(rankings=rankings))


def _is_absent(cell: Any) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())


def _number(cell: Any) -> float | None:
    try:
        return None if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        return None


FORMS = {
    _frame_rankings: {"ranking"},
    _frame_ranks: {"ranks"},
    _frame_outcomes: {"first", "second", "outcome"},
    _frame_pairs: {"winner", "loser"},
    _frame_sets: {"winner", "choice_set"},
}
"""The reader of a frame → the columns that it needs."""


def _find_form(columns: Mapping[str, Any], there: Mapping[Any, Any]) -> Callable[..., ParsedChoices]:
    """The form that fits most of the named columns, otherwise the form of the usual names."""
    form = max(FORMS, key=lambda form: len(FORMS[form] & columns.keys()))
    if FORMS[form] & columns.keys():
        surplus = [name for name in columns if name not in FORMS[form] | {"count"}]
        if surplus:
            needed = " and ".join(f"{name}=" for name in sorted(FORMS[form]))
            raise InvalidSamples(f"{surplus[0]}= cannot be combined with {needed}; leave one out")
        return form
    for form in (_frame_pairs, _frame_sets, _frame_outcomes, _frame_rankings):
        if there.keys() >= FORMS[form]:
            return form
    names = ", ".join(show(name) for name in list(there)[:12])
    raise InvalidSamples(
        f"the columns {names or '(none)'} do not say which of them holds the winner; name them: "
        'fit_choices(frame, winner="…", loser="…"), or first=, second= and outcome=, or ranking=, or ranks= '
        "(on the command line: --winner … --loser …, and so on)"
    )
