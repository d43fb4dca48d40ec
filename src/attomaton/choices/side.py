"""What describes choices further: who moved first, features, style, clusters and categories."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import show
from attomaton.base.tables import Float64, Int64
from attomaton.choices.columns import as_sequence, find_column, look_up, number_values, read_numbers
from attomaton.choices.numbering import BadRows, SetChoices, is_missing
from attomaton.choices.sequences import Alternatives, PairChoices, ParsedChoices, read_movers
from attomaton.choices.shapes import ARENA_STYLE, read_totals, relative_difference

ROLES_OF_SIDE = ("moved_first", "features", "style", "cluster", "by")
"""What describes choices further, in any form."""

CONTESTANTS = (("first", "second"), ("winner", "loser"))
"""The roles of the two items of a pair."""

MOST_CATEGORIES = 1000
"""Maximum number of categories, each of which is fitted in about 15 ms or more."""


RELATIVE = " (relative)"
"""What the names of coefficients of ``style=`` end in."""


class Side(NamedTuple):
    """What describes the rows of the data further: numbers, and labels as codes with their names."""

    features: Mapping[str, Float64]  # of the first less the second in pairs; of each alternative otherwise
    cluster: Int64 | None = None
    by: tuple[Int64, list[Any]] | None = None


def read_side(
    parsed: ParsedChoices, side: Mapping[str, Any], table: Mapping[Any, Any], contestants: tuple[Any, Any]
) -> Side:
    """Position, features, clusters and categories; ``table`` has the columns of the frame, if it is one."""
    choices = parsed.choices
    options = [name for name in ("features", "moved_first", "style") if name in side]
    if isinstance(choices, SetChoices) and options:
        raise UnsupportedOption(
            f"{options[0]}= is for pairs, and for tables with one row per alternative; give the table in "
            "that form: situation=, alternative=, chosen= and features="
        )
    n_rows = _count_rows(parsed)

    features = dict[str, Float64]()
    if "moved_first" in side:
        if not isinstance(choices, PairChoices):
            raise UnsupportedOption(
                "moved_first= is for pairs; give a column that is 1 for the alternative that stood first and "
                "name it in features="
            )
        values = _take(table, side["moved_first"], "moved_first")
        pairs = choices.first, choices.second
        features["moved_first"] = read_movers(values, parsed.items, pairs, contestants)
    for name, source in _features_by_name(side.get("features")).items():
        if name in ("moved_first", "tie") or name in features:
            raise InvalidSamples(f"two coefficients would be called {name!r}; rename the feature")
        features[name] = _read_feature(parsed, name, source, table, contestants, n_rows)
    style = side.get("style")
    for name, source in _features_by_name(ARENA_STYLE if style == "arena" else style).items():
        features[name.rpartition(".")[2] + RELATIVE] = _read_style(
            choices, name, source, table, contestants, n_rows
        )

    labels = {
        name: number_labels(
            _take(table, side[name], name),
            f"{show(side[name])} ({name})" if isinstance(side[name], str) else name,
            n_rows,
        )
        for name in ("cluster", "by")
        if name in side
    }
    if "by" in labels and len(labels["by"][1]) > MOST_CATEGORIES:
        raise UnsupportedOption(
            f"{show(side['by'])} (by) has {len(labels['by'][1]):,} categories, each of which "
            f"would be fitted; give a column with at most {MOST_CATEGORIES:,}"
        )
    if isinstance(choices, Alternatives) and choices.against is None:
        for name, (number, _) in labels.items():
            differs = number[choices.entry] != np.repeat(number[choices.row], choices.lengths)
            if differs.any():
                rows = np.unique(choices.entry[differs])
                raise BadRows(
                    f"{name} differs inside the situation of ", rows, "; give each situation one value"
                )
    return Side(features, labels["cluster"][0] if "cluster" in labels else None, labels.get("by"))


def unfitted_feature(name: str) -> UnsupportedOption:
    """The error about new pairs with a feature that the fit does not have."""
    if name == "moved_first":
        return UnsupportedOption(
            "the fit has no effect of moving first; fit with moved_first=, or leave moved_first out"
        )
    return UnsupportedOption("the fit has no such feature; fit with features=, or leave features out")


def number_labels(values: Any, role: str, n_rows: int | None = None) -> tuple[Int64, list[Any]]:
    """The number of each row's label, and the labels."""
    number, distinct = number_values(values)
    if n_rows is not None and len(number) != n_rows:
        raise InvalidSamples(f"{role} has {len(number):,} entries for {n_rows:,} rows; give one per row")
    missing = np.array([is_missing(label) for label in distinct], bool)[number]
    if missing.any():
        raise BadRows(f"{role} is missing in ", missing, "; fill it in, or drop the row")
    return number, distinct


def _features_by_name(features: Any) -> dict[str, Any]:
    if features is None:
        return {}
    if isinstance(features, Mapping):
        return {str(name): source for name, source in cast("Mapping[Any, Any]", features).items()}
    names = as_sequence(features)
    if not all(isinstance(name, Hashable) for name in names):
        raise InvalidSamples(
            "features are columns with names; give a list of column names, or a mapping from names to columns"
        )
    return {str(name): name for name in names}


def _take(table: Mapping[Any, Any], source: Any, role: str) -> Any:
    """A column by its name, or the values themselves."""
    by_name = isinstance(source, Hashable) and not isinstance(source, tuple)
    return find_column(table, source, role) if by_name else cast("Any", source)


def _count_rows(parsed: ParsedChoices) -> int:
    choices = parsed.choices
    if isinstance(choices, PairChoices):
        return len(choices.first)
    if isinstance(choices, SetChoices):
        return int(choices.row.max(initial=-1)) + 1
    return len(choices.entry) if choices.against is None else len(choices.lengths)


def _read_feature(
    parsed: ParsedChoices,
    name: str,
    source: Any,
    table: Mapping[Any, Any],
    contestants: tuple[Any, Any],
    n_rows: int,
) -> Float64:
    """One feature: of each alternative, or of the first of a pair less that of the second.

    A pair has it in one column (the difference), in two columns, or by item.
    """
    choices, role = parsed.choices, f"the feature {name!r}"
    if isinstance(source, Mapping):
        of_item = cast("Mapping[Any, Any]", source)
        absent = next((item for item in parsed.items if item not in of_item), None)
        if absent is not None:
            raise InvalidSamples(f"{role} has no value for the item {absent!r}; give one for every item")
        values = read_numbers([of_item[item] for item in parsed.items], role, len(parsed.items))
        if isinstance(choices, PairChoices):
            return values[choices.first] - values[choices.second]
        if isinstance(choices, Alternatives) and choices.against is None:
            of_row = np.empty(n_rows)
            of_row[choices.entry] = values[choices.members]
            return of_row
    if not isinstance(choices, PairChoices):
        if isinstance(choices, Alternatives) and choices.against is not None:
            raise UnsupportedOption("best and worst take no features; leave features out")
        return read_numbers(_take(table, source, "features"), role, n_rows)
    if isinstance(source, str) and look_up(table, source) is None:
        source = _sides_of(source, table, contestants)
    if isinstance(source, tuple) and len(cast("tuple[Any, ...]", source)) == 2:
        first, second = (
            read_numbers(_take(table, title, "features"), role, n_rows)
            for title in cast("tuple[Any, Any]", source)
        )
        return first - second
    return read_numbers(_take(table, source, "features"), role, n_rows)


def _read_style(
    choices: Any, name: str, source: Any, table: Mapping[Any, Any], contestants: tuple[Any, Any], n_rows: int
) -> Float64:
    """The relative difference of an amount between the first and the second of each pair."""
    if not isinstance(choices, PairChoices):
        raise UnsupportedOption("style= is for pairs; leave it out")
    if not isinstance(source, tuple):
        source = _sides_of(source, table, contestants)
    first, second = (
        read_totals(_take(table, title, "style"), f"the style {name!r}", n_rows)
        for title in cast("Any", source)
    )
    return relative_difference(first, second)


def _sides_of(name: Any, table: Mapping[Any, Any], contestants: tuple[Any, Any]) -> Any:
    """The two columns of a feature: ``length_a`` and ``length_b`` beside ``model_a`` and ``model_b``.

    The sides may also be inside: ``conv_length`` means ``conv_a_length`` and ``conv_b_length``, and
    ``meta.length.mean`` the fields ``length_a.mean`` and ``length_b.mean`` of the column ``meta``.
    """
    first, second = map(str, contestants)
    shared = next((k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
    sides = first[shared:], second[shared:]  # a and b of model_a and model_b
    text = str(name)
    borders = [len(text), *(k for k in range(len(text) - 1, 0, -1) if text[k] in "_.")]
    pairs = [tuple(f"{text[:k]}_{side}{text[k:]}" for side in sides) for k in borders]
    pairs += [tuple(f"{side}_{text}" for side in sides), tuple(f"{text}{side}" for side in sides)]
    for pair in pairs:
        if all(look_up(table, title) is not None for title in pair):
            return pair
    titles = " and ".join(show(f"{name}_{side}") for side in sides)
    raise InvalidSamples(
        f"there is no column {show(name)} for the feature, and no columns {titles}; name its two columns: "
        f"features={{{show(name)}: ('…', '…')}} (on the command line: --features {name}=…:…)"
    )
