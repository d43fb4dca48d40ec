"""Apply the second theory to a corpus: classes, forecasts, assumptions, flow."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts import FolderKind, build_folder, explained, json_writer, write_file
from attomaton.base.errors import UncertifiedSolution
from attomaton.base.frames import Tabular
from attomaton.base.options import given_path, real_number, whole_number
from attomaton.base.printing import Block, Grid, Signal, count_noun
from attomaton.base.progress import silent
from attomaton.base.tables import Int64, make_table, write_parquet
from attomaton.corpora.readers.corpus import ReadingOptions, check_options, read_samples_and_vocabulary
from attomaton.corpora.samples import NOTHING_SKIPPED, Samples, Skipped
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.theories.scansnap.assumptions import Assumption, check_assumptions
from attomaton.theories.scansnap.classes import CorpusClasses, classes_of_contexts
from attomaton.theories.scansnap.followed import FollowedQuery, can_follow, follow_attention, half_time
from attomaton.theories.scansnap.forecast import QueryForecast, forecast_queries
from attomaton.theories.scansnap.law import Rates

# Scores below this belong to tokens that do not move.
SCORE_NOISE = 1e-6

# Largest vocabulary for which the exact flow is tried.
FEW_TOKENS = 50

# If attention learns faster than the decoder by this factor, the exact flow is too stiff to try.
LEAST_RATIO = 1e-6

# Number of evaluations after which the exact flow is given up: usual rates need a few hundred.
MOST_SLOPES = 2_000

SURVEY = FolderKind("survey", "a survey", "attomaton scan-snap --out")
_ID, _REAL = pa.int32(), pa.float64()

# The tables of a survey on disk; `rank` counts from 1, the first to fade.
SURVEY_SCHEMAS = {
    "tokens": pa.schema({"query": _ID, "token": _ID, "pull": _REAL}),
    "distinct": pa.schema(
        {"query": _ID, "rank": _ID, "token": _ID, "label": _ID, "probability": _REAL, "pull": _REAL}
    ),
    "classes": pa.schema({"query": _ID, "label": _ID, "share": _REAL, "turn": _REAL, "snap": _REAL}),
}

# Number of tokens of each kind to print.
TOKENS_PRINTED = 3

# The text of a token id.
Name = Callable[[int], str]


@dataclass(frozen=True, eq=False, repr=False)
class Survey(Tabular):
    """The second theory on one corpus; its table has the pull on each token before each query.

    ``classes`` are pairs of query and label, with the frequencies of the tokens before the query.
    ``n_samples`` samples were read; ``classes.n_samples`` of them have a token before the query and are in a
    class. ``skipped`` are the documents that could not be read. ``rates`` are the learning rates η_Y and η_Z.
    ``forecasts`` has the most frequent queries, and ``assumptions`` the measured assumptions of the theory.
    ``followed`` is attention at the time ``until`` of the exact flow; it is empty for large corpora.
    ``vocabulary`` has the names of tokens.
    """

    classes: CorpusClasses
    rates: Rates
    n_samples: int
    forecasts: tuple[QueryForecast, ...]
    assumptions: tuple[Assumption, ...]
    followed: tuple[FollowedQuery, ...]
    until: float
    skipped: Skipped = NOTHING_SKIPPED
    vocabulary: Vocabulary | None = None

    def __repr__(self) -> str:
        classes = count_noun(len(self.classes), "class", "classes")
        queries = count_noun(len(np.unique(self.classes.queries)), "query", "queries")
        return f"Survey({classes} of {queries}, {count_noun(self.n_samples, 'sample')})"

    def _table(self) -> pa.Table:
        return self._table_of("tokens")

    def _words(self) -> Vocabulary | None:
        return self.vocabulary

    def to_dict(self, *, shown: int = 5) -> dict[str, Any]:
        """Everything as JSON values, with a limited number of tokens of each kind, by name."""
        name = self._name
        assumptions = list(map(asdict, self.assumptions))
        for record in assumptions:
            record["value"] = record["value"] if isfinite(record["value"]) else None
        return {
            "samples": self.n_samples,
            "counted": self.classes.n_samples,
            "queries": len(np.unique(self.classes.queries)),
            "classes": len(self.classes),
            "tokens": self.classes.n_tokens,
            "decoder_rate": self.rates.decoder,
            "attention_rate": self.rates.attention,
            "forecasts": [_forecast_record(forecast, name, shown) for forecast in self.forecasts],
            "assumptions": assumptions,
            "until": self.until if self.followed else None,
            "followed": [_follow_record(query, name, shown) for query in self.followed],
        }

    def save(self, path: str | Path) -> Path:
        """Write ``forecast.json``, and tables as Parquet files, into a folder; return its path."""
        folder = given_path(path, "path")
        writers = {"forecast.json": json_writer(self.to_dict())}
        for table in SURVEY_SCHEMAS:
            writers[f"{table}.parquet"] = partial(write_parquet, self._table_of(table))
        with build_folder(folder, SURVEY, writers, overwrite=True) as building, explained(folder):
            written = {file: write_file(building.folder / file, write) for file, write in writers.items()}
            building.finish({"skipped": asdict(self.skipped)}, written)
        return folder

    def _name(self, token: int) -> str:
        return name_token(self.vocabulary, token)

    def _table_of(self, table: str) -> pa.Table:
        # one of the tables of SURVEY_SCHEMAS, with the rows of all forecasts
        schema = SURVEY_SCHEMAS[table]
        forecasts = [_columns(forecast)[table] for forecast in self.forecasts]
        return make_table(
            schema, {name: np.concatenate([columns[name] for columns in forecasts]) for name in schema.names}
        )

    def _blocks(self) -> list[Block]:
        record = self.to_dict(shown=TOKENS_PRINTED)
        forecasts: list[dict[str, Any]] = record["forecasts"]
        classes = count_noun(record["classes"], "class", "classes")
        blocks: list[Block] = [
            f"{count_noun(self.n_samples, 'sample')}, of which {record['counted']:,} form {classes} (pairs "
            f"of query and label) of {count_noun(record['queries'], 'query', 'queries')}. The vocabulary has "
            f"{count_noun(record['tokens'], 'token')}.",
            _grid_distinct(forecasts),
            "snap: the step by which the query's most frequent class is learned and its attention slows.",
            _describe_raised(forecasts),
            _grid_first_moves(forecasts),
        ]
        if record["followed"]:
            blocks.append(_grid_followed(record["followed"], self.until))
        return [*blocks, _grid_assumptions(record["assumptions"])]


def _grid_distinct(forecasts: list[dict[str, Any]]) -> Grid:
    rows = [
        (
            row["query"],
            f"{row['classes']:,}",
            f"{row['distinct']:,}",
            " ".join(row["first_to_fade"]),
            " ".join(row["last_to_stay"]),
            f"{row['snap']:,.0f}",
        )
        for row in forecasts
    ]
    headers = ["query", "classes", "distinct", "first to fade", "last to stay", "snap"]
    return Grid("Distinct tokens under each query", headers, rows)


def _describe_raised(forecasts: list[dict[str, Any]]) -> str:
    n_distinct = sum(row["distinct"] for row in forecasts)
    if not n_distinct:
        return (
            "No token is distinct: each precedes several labels of its query. The order of fading then "
            "is not informative, but the next table needs no distinct tokens."
        )
    share_raised = sum(row["upward"] * row["distinct"] for row in forecasts) / n_distinct
    return (
        f"{share_raised:.0%} of these distinct tokens are raised at the start of training. If all "
        "assumptions of the theory were met, it would be 100 %."
    )


def _grid_first_moves(forecasts: list[dict[str, Any]]) -> Grid:
    rows = [
        (row["query"], " ".join(row["lowered_first"]), " ".join(row["raised_first"])) for row in forecasts
    ]
    title = "Where attention moves first, for long contexts"
    return Grid(title, ["query", "lowered first", "raised first"], rows)


def _grid_followed(followed: list[dict[str, Any]], until: float) -> Grid:
    rows = [(row["query"], _join_scores(row["lowered"]), _join_scores(row["raised"])) for row in followed]
    headers = ["query", "most lowered: token, score", "most raised: token, score"]
    return Grid(f"Attention by the exact flow on these contexts, t = {until:,.0f}", headers, rows)


def _join_scores(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{row['token']} {row['score']:+.2f}" for row in rows)


def _grid_assumptions(assumptions: list[dict[str, Any]]) -> Grid:
    rows = [
        (
            row["name"],
            "not finite" if row["value"] is None else f"{row['value']:.3g}",
            f"{row['bound']:.3g}",
            Signal("yes" if row["met"] else "no", good=row["met"]),
            row["meaning"],
        )
        for row in assumptions
    ]
    return Grid("Assumptions of the theory", ["assumption", "value", "bound", "met", "meaning"], rows)


def survey_samples(
    samples: Samples | Any,
    rates: Rates,
    *,
    n_queries: int = 20,
    tolerance: float = 0.0,
    min_samples: int = 1,
    announce: Callable[[str], object] = silent,
    **options: Unpack[ReadingOptions],
) -> Survey:
    """Count the classes of a corpus, forecast its most frequent queries, and check the assumptions.

    Parameters
    ----------
    samples : Samples, or any source of :func:`~attomaton.learn`
        The corpus; labels need not be in their contexts.
    rates : Rates
        The learning rates of decoder and attention.
    n_queries, tolerance : int, float
        The number of forecast queries and the tolerance for distinct tokens, as in :func:`forecast_queries`.
    min_samples : int
        Classes with fewer samples are left out; forecast times are for training without them.
    announce : callable
        A function that is called with the name of each stage as it begins.
    **options
        ``window``, ``tokenizer`` and ``reading``, for a source other than samples.

    Examples
    --------
    >>> samples = Samples.from_lists([[0, 1, 4], [0, 2, 4], [0, 1, 4]], [1, 2, 3])
    >>> survey_samples(samples, Rates(decoder=1.0, attention=0.1))
    Survey(3 classes of 1 query, 3 samples)
    """
    n_queries = whole_number(n_queries, "n_queries", least=1)
    min_samples = whole_number(min_samples, "min_samples", least=1)
    tolerance = real_number(tolerance, "tolerance", least=0, below=1)
    vocabulary = None
    if not isinstance(samples, Samples):
        samples, vocabulary = read_samples_and_vocabulary(samples, options)
    check_options(options)
    announce("counting classes")
    classes = CorpusClasses.from_samples(samples, min_samples=min_samples)
    announce("forecasting")
    forecasts = forecast_queries(classes, rates, n_queries=n_queries, tolerance=tolerance)
    announce("checking assumptions")
    assumptions = check_assumptions(classes, rates, tolerance=tolerance)
    followed = ()
    until = 0.0
    if samples.n_tokens <= FEW_TOKENS and rates.ratio >= LEAST_RATIO:
        contexts = classes_of_contexts(samples)
        if can_follow(contexts):
            announce("following the flow")
            with suppress(UncertifiedSolution):  # the flow may be too stiff
                end = half_time(classes, rates)
                followed = follow_attention(contexts, rates, until=end, most_slopes=MOST_SLOPES)[:n_queries]
                until = end
    return Survey(
        classes, rates, len(samples), forecasts, assumptions, followed, until, samples.skipped, vocabulary
    )


def _columns(forecast: QueryForecast) -> dict[str, dict[str, Any]]:
    # the columns of each table of SURVEY_SCHEMAS, with the rows of one query
    return {
        "tokens": {
            "query": np.full(len(forecast.tokens), forecast.query),
            "token": forecast.tokens,
            "pull": forecast.pulls,
        },
        "distinct": {
            "query": np.full(len(forecast.distinct), forecast.query),
            "rank": 1 + np.arange(len(forecast.distinct)),
            "token": forecast.distinct,
            "label": forecast.labels[forecast.owners],
            "probability": forecast.probabilities,
            "pull": forecast.pulls[np.searchsorted(forecast.tokens, forecast.distinct)],
        },
        "classes": {
            "query": np.full(len(forecast.labels), forecast.query),
            "label": forecast.labels,
            "share": forecast.class_shares,
            "turn": forecast.turns,
            "snap": forecast.snaps,
        },
    }


def _forecast_record(forecast: QueryForecast, name: Name, shown: int) -> dict[str, Any]:
    # a forecast as JSON values; label, turn and snap are those of the query's most frequent class
    def names(tokens: Int64) -> list[str]:
        return [name(token) for token in tokens.tolist()]

    return {
        "query": name(forecast.query),
        "share": forecast.share,
        "classes": len(forecast.labels),
        "distinct": len(forecast.distinct),
        "everywhere": len(forecast.everywhere),
        "common": len(forecast.common),
        "upward": forecast.upward,
        "first_to_fade": names(forecast.first_to_fade(shown)),
        "last_to_stay": names(forecast.last_to_stay(shown)),
        "lowered_first": names(forecast.lowered_first(shown)),
        "raised_first": names(forecast.raised_first(shown)),
        "label": name(int(forecast.labels[0])),
        "turn": float(forecast.turns[0]),
        "snap": float(forecast.snaps[0]),
        "half_snap": forecast.half_snap,
    }


def _follow_record(followed: FollowedQuery, name: Name, shown: int) -> dict[str, Any]:
    # attention to the most lowered and to the most raised tokens of a query, as JSON values
    columns = (followed.tokens, followed.scores, followed.before, followed.after)
    rows = [
        {"token": name(int(token)), "score": float(score), "before": float(before), "after": float(after)}
        for token, score, before, after in zip(*columns, strict=True)
    ]
    # rows ascend by score, so the lowered tokens come first and the raised ones last
    lowered = rows[: int((followed.scores < -SCORE_NOISE).sum())]
    raised = rows[::-1][: int((followed.scores > SCORE_NOISE).sum())]
    return {"query": name(followed.query), "lowered": lowered[:shown], "raised": raised[:shown]}
