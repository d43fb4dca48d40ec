"""Read the covariates of choices: who moved first, features, style, clusters and categories."""

# ``read_covariates`` reads all that the options of a fit name, for choices that are already parsed.

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from attomaton.base.errors import InvalidSamples, UnsupportedOption
from attomaton.base.options import show
from attomaton.base.tables import Float64, Int64
from attomaton.choices import columns
from attomaton.choices.numbering import BadRows, is_missing
from attomaton.choices.outcomes import FIRST, SECOND, TIE, UNREAD, find_side
from attomaton.choices.parsed import Alternatives, PairChoices, ParsedChoices, SetChoices

# The options that describe choices, whatever the form of the table.
COVARIATES = ("moved_first", "features", "style", "cluster", "by")

CONTESTANTS = (("first", "second"), ("winner", "loser"))  # the roles of the two items of a pair

MOST_CATEGORIES = 1000  # maximum number of categories; a fit of a category takes at least 15 ms

RELATIVE = " (relative)"  # suffix of the names of coefficients of ``style=``


# The style features of LMArena.
ARENA_STYLE = tuple(
    f"conv_metadata.{name}" for name in ("sum_assistant_tokens", "header_count", "list_count", "bold_count")
)


class RowLabels(NamedTuple):
    """The label of each row of the data, such as its cluster or category."""

    codes: Int64  # (n_rows,), indices into names
    names: list[Any]


class Covariates(NamedTuple):
    """The features, clusters and categories of choices."""

    features: Mapping[str, Float64]  # of the first less the second in pairs; of each alternative otherwise
    cluster: Int64 | None = None
    by: RowLabels | None = None


def read_covariates(
    parsed: ParsedChoices, options: Mapping[str, Any], table: Mapping[Any, Any], contestants: tuple[Any, Any]
) -> Covariates:
    """Read the covariates that ``options`` name; ``contestants`` names the columns of the items of a pair."""
    choices = parsed.choices
    unfit = [name for name in ("features", "moved_first", "style") if name in options]
    if isinstance(choices, SetChoices) and unfit:
        raise UnsupportedOption(
            f"{unfit[0]}= needs pairs, or a table with one row per alternative; give such a table with "
            "situation=, alternative=, chosen= and features="
        )
    reader = _RowReader(parsed, table, contestants, _count_rows(parsed))
    features = dict[str, Float64]()
    if "moved_first" in options:
        features["moved_first"] = reader.read_movers(options["moved_first"])
    for name, source in _features_by_name(options.get("features")).items():
        if name in ("moved_first", "tie") or name in features:
            raise InvalidSamples(f"two coefficients would have the name {name!r}; rename the feature")
        features[name] = reader.read_feature(name, source)
    style = options.get("style")
    for name, source in _features_by_name(ARENA_STYLE if style == "arena" else style).items():
        features[name.rpartition(".")[2] + RELATIVE] = reader.read_style(name, source)

    cluster = reader.read_labels("cluster", options["cluster"]) if "cluster" in options else None
    by = reader.read_labels("by", options["by"]) if "by" in options else None
    if by is not None and len(by.names) > MOST_CATEGORIES:
        raise UnsupportedOption(
            f"{show(options['by'])} (by) has {len(by.names):,} categories; choose a column with at most "
            f"{MOST_CATEGORIES:,} categories"
        )
    return Covariates(features, None if cluster is None else cluster.codes, by)


class _RowReader(NamedTuple):
    """Reads one covariate after the other, for choices that are already parsed."""

    parsed: ParsedChoices
    table: Mapping[Any, Any]
    contestants: tuple[Any, Any]
    n_rows: int

    def take(self, source: Any, role: str) -> Any:
        """A column by its name, or the values themselves."""
        by_name = isinstance(source, Hashable) and not isinstance(source, tuple)
        return columns.find_column(self.table, source, role) if by_name else cast("Any", source)

    def read_movers(self, source: Any) -> Float64:
        """1 where the first of a pair moved first, −1 where the second did, 0 where neither did."""
        pairs, items = self.parsed.choices, self.parsed.items
        if not isinstance(pairs, PairChoices):
            raise UnsupportedOption(
                "moved_first= needs pairs; add a column that is 1 for the alternative that was shown first, "
                "and name the column in features="
            )
        number, distinct = columns.number_values(self.take(source, "moved_first"))
        if len(number) != len(pairs.first):
            raise InvalidSamples(
                f"moved_first has {len(number):,} entries, but there are {len(pairs.first):,} pairs; give "
                "one entry for each pair"
            )
        # a value names an item, or the column of the first or second item; an empty cell (TIE) is neither
        sides = dict(zip(self.contestants, (FIRST, SECOND), strict=True))
        codes = [TIE if is_missing(value) else sides.get(value, UNREAD) for value in distinct]
        side = find_side(number, distinct, items, (pairs.first, pairs.second), np.array(codes, np.int64))
        bad = side == UNREAD
        if bad.any():
            raise BadRows(
                f"moved_first is {show(distinct[number[np.argmax(bad)]])} in ",
                bad,
                ", which is not an item of the pair; name the item that was first, or leave the cell empty "
                "if neither was",
            )
        return np.array([1.0, -1.0, 0.0])[side]  # FIRST, SECOND, TIE

    def read_feature(self, name: str, source: Any) -> Float64:
        """The value of a feature for each alternative, or its difference (first minus second) for pairs."""
        choices, role = self.parsed.choices, f"the feature {name!r}"
        if isinstance(choices, Alternatives) and choices.against is not None:
            raise UnsupportedOption(
                "best and worst choices cannot be fitted with features; leave features out"
            )
        if isinstance(source, Mapping):
            return self._read_by_item(cast("Mapping[Any, Any]", source), role)
        if isinstance(choices, PairChoices):
            if isinstance(source, str) and columns.look_up(self.table, source) is None:
                source = self._find_pair_columns(source)
            if isinstance(source, tuple) and len(cast("tuple[Any, ...]", source)) == 2:
                first, second = (self._read_numbers(title, role) for title in cast("tuple[Any, Any]", source))
                return first - second
        return self._read_numbers(source, role)

    def _read_numbers(self, source: Any, role: str) -> Float64:
        return columns.read_numbers(self.take(source, "features"), role, self.n_rows)

    def _read_by_item(self, value_of: Mapping[Any, Any], role: str) -> Float64:
        # the answer of ``read_feature`` from a value for each item
        choices, items = self.parsed.choices, self.parsed.items
        absent = next((item for item in items if item not in value_of), None)
        if absent is not None:
            raise InvalidSamples(f"{role} has no value for the item {absent!r}; add the value")
        values = columns.read_numbers([value_of[item] for item in items], role, len(items))
        if isinstance(choices, PairChoices):
            return values[choices.first] - values[choices.second]
        assert isinstance(choices, Alternatives)  # noqa: S101  choice sets have no features
        of_row = np.empty(self.n_rows)
        of_row[choices.entry] = values[choices.members]
        return of_row

    def read_style(self, name: str, source: Any) -> Float64:
        """(first − second) / (first + second) for a feature of pairs, from its two columns, standardised."""
        if not isinstance(self.parsed.choices, PairChoices):
            raise UnsupportedOption("style= needs pairs; leave style out")
        titles = cast("Any", source) if isinstance(source, tuple) else self._find_pair_columns(source)
        first, second = (
            columns.read_totals(self.take(title, "style"), f"the style {name!r}", self.n_rows)
            for title in titles
        )
        # as LMArena controls style; 0 / 0 counts as 0
        total = first + second
        share = (first - second) / np.where(total == 0, 1.0, total)
        return (share - share.mean()) / (float(share.std()) or 1.0)

    # The two columns of a feature: ``length_a``, ``length_b`` if items are ``model_a``, ``model_b``.
    def _find_pair_columns(self, name: Any) -> tuple[str, ...]:
        # the sides are what follows the common start of the two names: a and b of model_a and model_b
        first, second = map(str, self.contestants)
        start = next((k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
        sides = first[start:], second[start:]
        # try the side at the end of the name, before each _ or . from the last on, and at the start, since
        # `conv_length` can mean `conv_a_length` and `conv_b_length`
        text = str(name)
        borders = [len(text), *(k for k in range(len(text) - 1, 0, -1) if text[k] in "_.")]
        pairs = [tuple(f"{text[:k]}_{side}{text[k:]}" for side in sides) for k in borders]
        pairs += [tuple(f"{side}_{text}" for side in sides), tuple(f"{text}{side}" for side in sides)]
        for pair in pairs:
            if all(columns.look_up(self.table, title) is not None for title in pair):
                return pair
        titles = " and ".join(show(f"{name}_{side}") for side in sides)
        raise InvalidSamples(
            f"there is no column {show(name)} for the feature and no columns {titles}; name the two "
            f"columns: features={{{show(name)}: ('…', '…')}} (on the command line: --features {name}=…:…)"
        )

    def read_labels(self, name: str, source: Any) -> RowLabels:
        """Clusters or categories; rejects two labels in one situation."""
        role = f"{show(source)} ({name})" if isinstance(source, str) else name
        labels = number_labels(self.take(source, name), role, self.n_rows)
        choices = self.parsed.choices
        if isinstance(choices, Alternatives) and choices.against is None:
            # every alternative must have the label of the first row of its situation
            codes = labels.codes
            differs = codes[choices.entry] != np.repeat(codes[choices.row], choices.lengths)
            if differs.any():
                rows = np.unique(choices.entry[differs])
                fault = f"{name} has different values inside the situation of "
                raise BadRows(fault, rows, "; write one value for each situation")
        return labels


def number_labels(values: Any, role: str, n_rows: int | None = None) -> RowLabels:
    """Number the labels of ``n_rows`` rows (None: any number), none of which may be missing."""
    labels = RowLabels(*columns.number_values(values))
    if n_rows is not None and len(labels.codes) != n_rows:
        raise InvalidSamples(
            f"{role} has {len(labels.codes):,} entries, but there are {n_rows:,} rows; give one entry for "
            "each row"
        )
    missing = np.array([is_missing(name) for name in labels.names], bool)[labels.codes]
    if missing.any():
        raise BadRows(f"{role} is missing in ", missing, "; fill it in, or drop the row")
    return labels


def _features_by_name(features: Any) -> dict[str, Any]:
    # features as a dict from names to columns, pairs of columns, or values by item
    if features is None:
        return {}
    if isinstance(features, Mapping):
        return {str(name): source for name, source in cast("Mapping[Any, Any]", features).items()}
    names = columns.as_sequence(features)
    if not all(isinstance(name, Hashable) for name in names):
        raise InvalidSamples(
            "features= does not name columns; give a list of column names, or a dict from names to columns"
        )
    return {str(name): name for name in names}


def _count_rows(parsed: ParsedChoices) -> int:
    # the number of rows of the data, each of which needs a value of a covariate
    choices = parsed.choices
    if isinstance(choices, PairChoices):
        return len(choices.first)
    if isinstance(choices, SetChoices):
        return int(choices.row.max(initial=-1)) + 1
    return len(choices.entry) if choices.against is None else len(choices.lengths)


def unfitted_feature(name: str) -> UnsupportedOption:
    if name == "moved_first":
        return UnsupportedOption(
            "the fit has no coefficient moved_first; fit with moved_first=, or leave moved_first out"
        )
    return UnsupportedOption("the fit has no such feature; fit again with features=, or leave features out")
