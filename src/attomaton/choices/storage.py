"""Save a fit to a folder, and load it; loading recomputes the components and the certificate."""

# pack_choice_fit and unpack_choice_fit convert a fit to and from a Run, which base/artifacts writes and
# reads; a ValueError of a check becomes an error that names the folder there.

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from attomaton.base import borders
from attomaton.base.artifacts import FolderKind, Run
from attomaton.base.errors import UnsupportedOption
from attomaton.base.tables import column, make_table, ragged_column
from attomaton.choices.luce_choices import NumberedChoices
from attomaton.choices.order import SCALES
from attomaton.choices.parsed import ItemTally
from attomaton.choices.rankings import RANKING_SCHEMA
from attomaton.choices.uncertainty import LuceScores
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import QUERY_SCHEMA, EdgeTable

if TYPE_CHECKING:
    from attomaton.choices.conditional import LogitScores

KIND = FolderKind("choices", "a fit of choices", "attomaton choices --out")


class StoredFit(NamedTuple):
    """The fields of a fit in a folder; the fits of categories are not unpacked yet."""

    items: tuple[Any, ...]
    graph: Components
    model: "LuceScores | LogitScores"
    scale: str
    by: Mapping[Any, Run]
    reading: str


def pack_choice_fit(fit: StoredFit) -> Run:
    """A fit as a run; names of what belongs to category i of ``by`` begin with ``by<i>-``."""
    model = fit.model
    tally = model.tally
    if isinstance(model, LuceScores):
        run, edges = _pack_luce(model), model.graph.edges
    else:
        run, edges = _pack_logit(model), model.edges
    tables, arrays, records = dict(run.tables), dict(run.arrays), dict(run.records)
    if edges is not None:
        tables["edges"] = edges.rows
        arrays |= {f"queries/{name}": column(edges.queries, name) for name in QUERY_SCHEMA.names}
    arrays |= {"tally/wins": tally.wins, "tally/losses": tally.losses}
    records["items"] = [_item_to_json(item) for item in fit.items]
    manifest = {
        **run.manifest,
        "scale": fit.scale,
        "reading": fit.reading,
        "by": [_item_to_json(category) for category in fit.by],
        "n_choices": tally.n_choices,
        "n_ties": tally.n_ties,
    }
    for number, nested in enumerate(fit.by.values()):
        tables |= _with_prefix(nested.tables, f"by{number}-")
        arrays |= _with_prefix(nested.arrays, f"by{number}-")
        records |= _with_prefix(nested.records, f"by{number}-")
        manifest[f"by{number}"] = dict(nested.manifest)
    return Run(tables=tables, arrays=arrays, records=records, manifest=manifest)


def unpack_choice_fit(run: Run) -> StoredFit:
    manifest = run.manifest
    items = tuple(_item_from_json(record) for record in run.records["items"])
    if len(set(items)) < len(items):
        raise ValueError("items.json names an item twice")
    edges = None
    if "edges" in run.tables:
        queries = {name: run.arrays[f"queries/{name}"] for name in QUERY_SCHEMA.names}
        n_nodes = len(items) + 1  # the items, and the query
        edges = EdgeTable(run.tables["edges"], make_table(QUERY_SCHEMA, queries), n_nodes)
    wins, losses = (_check_numbers(run.arrays[f"tally/{name}"], len(items)) for name in ("wins", "losses"))
    tally = ItemTally(wins, losses, _number(manifest["n_choices"]), _number(manifest["n_ties"]))
    if "logit" in manifest:
        graph, model = _unpack_logit(run, len(items), edges, tally)
    elif edges is None:
        raise ValueError("the table of edges is missing")
    else:
        graph = find_components(edges)
        model = _unpack_luce(run, len(items), graph, tally)
    scale = str(manifest["scale"])
    if scale not in SCALES:
        raise ValueError(f"the scale in manifest.json is {scale[:20]!r}, not {' or '.join(SCALES)}")
    by = {
        _item_from_json(category): Run(
            tables=_without_prefix(run.tables, f"by{number}-"),
            arrays=_without_prefix(run.arrays, f"by{number}-"),
            records=_without_prefix(run.records, f"by{number}-"),
            manifest=manifest[f"by{number}"],
        )
        for number, category in enumerate(manifest["by"])
    }
    return StoredFit(items, graph, model, scale, by, str(manifest["reading"]))


def _with_prefix(entries: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {prefix + name: entry for name, entry in entries.items()}


def _without_prefix(entries: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): entry for name, entry in entries.items() if name.startswith(prefix)}


# An item as JSON; a tuple becomes an object with the key ``tuple``.
def _item_to_json(item: Any) -> Any:
    if item is None or type(item) in (str, int, bool) or (type(item) is float and np.isfinite(item)):
        return item
    if type(item) is tuple:
        return {"tuple": [_item_to_json(element) for element in cast("tuple[Any, ...]", item)]}
    raise UnsupportedOption(
        f"the item {item!r} of type {type(item).__name__} cannot be saved; use strings or numbers as items"
    )


def _item_from_json(record: Any) -> Any:
    if isinstance(record, Mapping):
        return tuple(_item_from_json(element) for element in cast("Mapping[str, list[Any]]", record)["tuple"])
    if isinstance(record, list):
        raise ValueError("an item in items.json is a list, which is not supported")
    return record


# The choices, scores and settings of a Luce model; its components follow from the edges.
def _pack_luce(model: LuceScores) -> Run:
    rankings = {} if model.rankings is None else {"rankings": model.rankings}
    arrays = {
        f"choices/{name}": np.ascontiguousarray(array) for name, array in model.choices._asdict().items()
    }
    manifest = {"ridge": model.ridge, "prior": model.prior, "parts": model.denominator}
    return Run(tables=rankings, arrays={**arrays, "scores": model.values}, records={}, manifest=manifest)


# Check and rebuild a Luce model, which proves the stored scores anew.
def _unpack_luce(run: Run, n_items: int, graph: Components, tally: ItemTally) -> LuceScores:
    manifest = run.manifest
    columns = (run.arrays[f"choices/{name}"] for name in NumberedChoices._fields)
    choices = _check_choices(NumberedChoices(*columns), n_items)
    if n_items != max(graph.nodes.num_rows - 1, 0):
        raise ValueError("items.json and the table of edges have different numbers of items")
    prior = None if manifest["prior"] is None else _number(manifest["prior"])
    denominator = manifest["parts"]
    scores = np.asarray(run.arrays["scores"], np.float64)
    if type(denominator) is not int or denominator < 1 or prior == 0:
        raise ValueError("parts or prior in manifest.json is not positive")
    if scores.shape != (n_items,) or not np.isfinite(scores).all():
        raise ValueError("the array of scores does not contain one finite number for each item")
    return LuceScores(
        choices,
        graph,
        tally,
        ridge=_number(manifest["ridge"]),
        prior=prior,
        denominator=denominator,
        rankings=_check_rankings(run.tables["rankings"], n_items) if denominator > 1 else None,
        scores=scores,
    )


# Check that choices are sorted and in range, and that each set contains its winner.
def _check_choices(choices: NumberedChoices, n_items: int) -> NumberedChoices:
    for name, array in choices._asdict().items():
        borders.check_int64(array, name)
    borders.check_lengths("choices", winner=choices.winner, times=choices.times)
    borders.check_lengths(
        "options", choice=choices.choice, item=choices.item, multiplicity=choices.multiplicity
    )
    for name in ("winner", "item"):
        borders.check_ids(getattr(choices, name), n_items, name)
    borders.check_ids(choices.choice, len(choices.winner), "choice")
    borders.check_rising(choices.choice * n_items + choices.item, "options")
    borders.check_count_range(choices.times, 1, "times")
    borders.check_count_range(choices.multiplicity, 1, "multiplicity")
    borders.check_ids(choices.multiplicity, 1 << 31, "multiplicity")  # tables of choices have int32
    winning = choices.choice[choices.item == choices.winner[choices.choice]]
    if not np.array_equal(winning, np.arange(len(choices.winner))):
        raise ValueError("a choice set lacks its winner")
    return choices


# The conditional logit, with the units of its standard errors.
def _pack_logit(model: "LogitScores") -> Run:
    from attomaton.choices.logit.folders import pack_fit  # the logit is loaded only if a fit needs it

    logit, units = model.logit, model.units
    run = pack_fit(logit.problem, logit.evidence, logit.method, logit.program_rows)
    optional = {f"units/{name}": getattr(units, name) for name in ("clusters", "repeats", "rankings")}
    arrays = {f"logit-{name}": array for name, array in run.arrays.items()}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    manifest = {"logit": dict(run.manifest), "ties": model.ties}
    manifest |= {"units": units.kind, "penalty": model.penalty}
    records = {"names": run.records["names"], "aliases": dict(model.aliases)}
    return Run(tables={}, arrays=arrays, records=records, manifest=manifest)


# The components, which a penalty does not change, and the scores.
def _unpack_logit(
    run: Run, n_items: int, edges: EdgeTable | None, tally: ItemTally
) -> "tuple[Components, LogitScores]":
    from attomaton.choices.conditional import UNITS, LogitScores, Units  # loaded only if a fit needs it
    from attomaton.choices.logit.fit import restore_fit

    manifest, arrays = run.manifest, run.arrays
    fit_arrays = _without_prefix(arrays, "logit-")
    logit = restore_fit(Run(tables={}, arrays=fit_arrays, records=run.records, manifest=manifest["logit"]))
    n_situations = len(logit.problem.situations)
    groups = {name: arrays.get(f"units/{name}") for name in ("clusters", "rankings")}
    for group in groups.values():
        if group is not None and (
            group.dtype.kind != "i" or group.shape != (n_situations,) or group.min() < 0
        ):
            raise ValueError("the clusters or rankings are not one integer of at least 0 for each situation")
    repeats = arrays.get("units/repeats")
    repeats = None if repeats is None else _check_numbers(repeats, n_situations)
    aliases = {str(name): str(text) for name, text in run.records["aliases"].items()}
    units = Units(str(manifest["units"]), repeats=repeats, **groups)
    if len(logit.problem.names) < n_items or units.kind not in UNITS:
        raise ValueError("the items or the units of the standard errors do not match the fit")
    model = LogitScores(logit, n_items, edges, tally, units, str(manifest["ties"]), aliases)
    if manifest["penalty"] not in (None, "firth"):
        raise ValueError("the penalty in manifest.json is unknown")
    if manifest["penalty"] is None:
        return model.components, model
    from attomaton.choices.firth import FirthScores

    return model.components, FirthScores.of(model)


# An array of ``size`` finite numbers of at least 0, as float64.
def _check_numbers(values: Any, size: int) -> Any:
    numbers = np.asarray(values, np.float64)
    if numbers.shape != (size,) or not np.isfinite(numbers).all() or numbers.min(initial=0.0) < 0:
        raise ValueError(f"an array does not contain {size} numbers of at least 0")
    return numbers


def _check_rankings(rankings: pa.Table, n_items: int) -> pa.Table:
    borders.check_table(rankings, RANKING_SCHEMA, "the table of rankings")
    (offsets, items), (rank_offsets, _) = (ragged_column(rankings, name) for name in ("items", "places"))
    borders.check_ids(items, n_items, "an item of the rankings")
    borders.check_count_range(column(rankings, "count"), 1, "count in the table of rankings")
    if not np.array_equal(offsets, rank_offsets):
        raise ValueError("the numbers of places and of items in a ranking differ")
    return rankings


# A number of the manifest, which is finite and at least 0.
def _number(value: Any) -> float:
    if type(value) not in (int, float) or not np.isfinite(value) or value < 0:
        raise ValueError(f"manifest.json contains {str(value)[:40]} instead of a number of at least 0")
    return float(value)
