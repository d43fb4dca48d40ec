"""``attomaton scan-snap``: what the second theory says of a corpus, query by query."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_table, stages
from attomaton.cli.sources import Corpus, How, reads
from attomaton.cli.values import check_folder, place, real, whole

SHOWN = 3
"""Tokens of each kind in a table."""


@reads
def scan_snap(
    corpus: Corpus,
    how: How,
    window: Annotated[int, whole("Longest context, in tokens, with the query.", least=2)] = 32,
    queries: Annotated[int, whole("Number of queries to report, the most frequent first.", least=1)] = 20,
    tolerance: Annotated[
        float,
        real(
            "How much of a distinct token may be in other classes of its query.",
            sign="0 to below 1",
            least=0,
            below=1,
        ),
    ] = 0.0,
    min_samples: Annotated[int, whole("Least number of samples of a class.", least=1)] = 1,
    decoder_rate: Annotated[
        float, real("Learning rate of the decoder, eta_Y.", sign="> 0", least=1e-12, most=1e12)
    ] = 1.0,
    attention_rate: Annotated[
        float, real("Learning rate of attention, eta_Z.", sign="> 0", least=1e-12, most=1e12)
    ] = 0.1,
    momentum: Annotated[
        float,
        real(
            "Momentum of SGD; both rates are divided by 1 - momentum.", sign="0 to below 1", least=0, below=1
        ),
    ] = 0.0,
    out: Annotated[Path | None, place("Folder to write JSON and Parquet to.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say which tokens of CORPUS attention drops first and which it keeps, when, and what that assumes."""
    from attomaton.corpora.readers.given import read_given
    from attomaton.theories.scansnap.law import Rates
    from attomaton.theories.scansnap.survey import KIND, survey_samples

    check_folder(out, KIND)
    rates = Rates.with_momentum(decoder_rate, attention_rate, momentum)
    with stages(quiet or as_json) as announce:
        announce("reading")
        read, _ = read_given(corpus, how.tokenizer, how.reading)
        survey = survey_samples(
            read.windows(window),
            rates,
            n_queries=queries,
            tolerance=tolerance,
            min_samples=min_samples,
            announce=announce,
        )
        name = str if read.vocabulary is None else read.vocabulary.tokens.__getitem__
        if out is not None:
            announce("writing")
            survey.write(out, name)
    record = {**survey.to_dict(name), "out": None if out is None else str(out)}
    if as_json:
        print_json(record)
    elif not quiet:
        _print(record)


def _print(record: dict[str, Any]) -> None:
    print_line(
        f"{record['samples']:,} samples, of which {record['counted']:,} are counted: {record['classes']:,} "
        f"classes (pairs of query and label) of {record['queries']:,} queries, {record['tokens']:,} tokens."
    )
    _print_forecasts(record["forecasts"])
    if record["kept"]:
        _print_kept(record)
    _print_assumptions(record["assumptions"])
    if record["out"] is not None:
        print_line(f"Written to {record['out']}.")


def _print_forecasts(forecasts: Sequence[dict[str, Any]]) -> None:
    headers = ["query", "classes", "distinct", "first to fade", "last to stay", "t₀"]
    print_table(
        "Distinct tokens under each query",
        headers,
        [
            (
                one["query"],
                f"{one['classes']:,}",
                f"{one['distinct']:,}",
                _words(one["first_to_fade"]),
                _words(one["last_to_stay"]),
                f"{one['snap']:,.0f}",
            )
            for one in forecasts
        ],
    )
    print_line("t₀: the step by which the query's most frequent class is learned and its attention slows.")
    n_distinct = sum(one["distinct"] for one in forecasts)
    if n_distinct:
        raised = sum(one["upward"] * one["distinct"] for one in forecasts) / n_distinct
        print_line(
            f"{raised:.0%} of these distinct tokens are raised at the start of training; where all that the "
            "theory assumes holds, all are."
        )
    else:
        print_line(
            "No token is distinct: each stands before several labels of its query. The order of fading says "
            "nothing then; the next table needs no distinct tokens."
        )
    rows = [(one["query"], _words(one["lowered_first"]), _words(one["raised_first"])) for one in forecasts]
    print_table(
        "Where attention moves first, for long contexts",
        ["query", "lowered first", "raised first"],
        list(rows),
    )


def _print_kept(record: dict[str, Any]) -> None:
    rows = [(one["query"], _scores(one["lowered"]), _scores(one["raised"])) for one in record["kept"]]
    title = f"What attention keeps, by the exact flow on these contexts, t = {record['until']:,.0f}"
    print_table(title, ["query", "most lowered: token, score", "most raised: token, score"], list(rows))


def _print_assumptions(assumptions: Sequence[dict[str, Any]]) -> None:
    rows = [
        (
            one["name"],
            "not finite" if one["value"] is None else f"{one['value']:.3g}",
            f"{one['bound']:.3g}",
            "yes" if one["met"] else "no",
            one["meaning"],
        )
        for one in assumptions
    ]
    print_table("What the theory assumes", ["assumption", "value", "bound", "met", "meaning"], list(rows))


def _words(tokens: Sequence[str]) -> str:
    return " ".join(tokens[:SHOWN])


def _scores(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{row['token']} {row['score']:+.2f}" for row in rows[:SHOWN])
