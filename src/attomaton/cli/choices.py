"""``attomaton choices``: ratings from a table of choices."""

# Most options name columns of the table. `choices` reads the table and the columns, fits, runs the tests of
# `--tests`, and writes and prints the board of ratings.

import fnmatch
from collections.abc import Mapping
from csv import reader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.base.errors import AttomatonError, UnsupportedOption
from attomaton.base.options import show
from attomaton.cli import output
from attomaton.cli.messages import counting_skipped
from attomaton.cli.progress import stages
from attomaton.cli.values import (
    check_drawings,
    check_folder,
    is_stream,
    path_option,
    real,
    source_argument,
    whole,
    words,
)

if TYPE_CHECKING:
    from attomaton.choices.result import ChoiceFit

Column = str | None

JUDGES = "compare_judges"
TESTS = ("goodness_of_fit", "intransitivity", "cross_validate", JUDGES)
# Options that may name several columns.
LISTED_ROLES = {"loser", "choice_set", "outcome", "ranking", "ranks", "scores", "alternative", "available"}


@counting_skipped()
def choices(
    table: Annotated[
        str,
        source_argument("File of choices: .csv, .tsv, .parquet, .jsonl, .json or .pgn; - is standard input."),
    ],
    winner: Annotated[Column, words("Column of the winner; default: winner.")] = None,
    loser: Annotated[
        Column,
        words("Column of the loser; default: loser. Or columns of the wins against each item: Ann,Bob."),
    ] = None,
    choice_set: Annotated[
        Column,
        words("Column with all alternatives of a choice, including the winner. Or several columns: a,b,c."),
    ] = None,
    first: Annotated[Column, words("Column of a pair's first item; needs --second, --outcome.")] = None,
    second: Annotated[Column, words("Column of the second item of a pair.")] = None,
    outcome: Annotated[
        Column,
        words(
            "Column of the result: the winner or its column, home/away, tie, bothbad, W/L/D, 2-1, or "
            "the score of the first item (1, 0.5, 0). Or two columns, one for each side."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, words("Outcome to leave out, such as 'tie (bothbad)'; may be repeated.")
    ] = None,
    ranking: Annotated[
        Column, words("Column of a ranking, best item first. Or one column for each rank: P1,P2,P3.")
    ] = None,
    ranks: Annotated[
        Column,
        words("Columns of the rank of each item (1 is best): Ann,Bob or 'Q3*'. One, with --situation."),
    ] = None,
    scores: Annotated[
        Column, words("Columns of the score of each item (highest is best): Ann,Bob. One, with --situation.")
    ] = None,
    best: Annotated[Column, words("Column of the best item of a choice set; requires --worst.")] = None,
    worst: Annotated[Column, words("Column of the worst item of a choice set.")] = None,
    situation: Annotated[
        Column, words("If each row is an alternative: column of the situation, such as the race.")
    ] = None,
    alternative: Annotated[
        Column,
        words("If each row is an alternative: column of the item. If each is a choice: all items: car,bus."),
    ] = None,
    chosen: Annotated[
        Column,
        words("If each row is an alternative: column of 1/0 or counts. If a choice: column of the item."),
    ] = None,
    available: Annotated[
        Column, words("If each row is a choice: a column for each item, 1 if it was available, otherwise 0.")
    ] = None,
    split: Annotated[
        str | None, words("Separator between the items of a choice set or ranking in one cell.")
    ] = None,
    tied: Annotated[Column, words("Column that marks ties; default: tie, draw or tied, if present.")] = None,
    count: Annotated[
        Column, words("Column with the number of times each choice was made; default: count, if present.")
    ] = None,
    ties: Annotated[
        str | None,
        words("How ties count: davidson (as an outcome; default) or half (half a win for each item)."),
    ] = None,
    moved_first: Annotated[
        Column, words("Column with the item of a pair that moved first or was shown first.")
    ] = None,
    features: Annotated[
        str | None,
        words("Features, separated by commas: x (for pairs: columns x_a and x_b), or x=column:column."),
    ] = None,
    style: Annotated[
        Column,
        words(
            "Features to enter as (x_a - x_b)/(x_a + x_b), standardised: x,y, or arena for those of LMArena."
        ),
    ] = None,
    most_per_pair: Annotated[
        float | None,
        real("Weight comparisons so that no pair counts more than this number.", sign="> 0", above=0),
    ] = None,
    cluster: Annotated[Column, words("Column of judges or prompts, to cluster standard errors by.")] = None,
    by: Annotated[Column, words("Column of categories, each of which is also fitted separately.")] = None,
    scale: Annotated[str, words("Scale of ratings: log-odds or elo.")] = "log-odds",
    ridge: Annotated[float, real("Shrink scores towards 0 within components.", sign=">= 0", least=0)] = 0.0,
    prior: Annotated[
        float | None,
        real("Standard deviation of a normal prior, which makes all ratings finite.", sign="> 0", above=0),
    ] = None,
    penalty: Annotated[
        str | None, words("With firth, also estimate finite ratings by Firth's penalised likelihood.")
    ] = None,
    tests: Annotated[
        str | None, words("Comma-separated: goodness_of_fit, intransitivity, cross_validate, compare_judges.")
    ] = None,
    task: Annotated[
        Column, words("Column of what was judged, such as a question; used with --tests compare_judges.")
    ] = None,
    format: Annotated[  # noqa: A002  the name of the option
        str | None, words("Format of the file or of standard input: csv, tsv, jsonl, json, parquet or pgn.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip rows that cannot be read, and count them.")
    ] = False,
    limit: Annotated[int, whole("Number of items to print of each board.", least=1)] = 50,
    out: Annotated[Path | None, path_option("Folder for the fit.")] = None,
    figure: Annotated[
        Path | None, path_option("Figure of the board to write, such as board.pdf or board.png.")
    ] = None,
    page: Annotated[Path | None, path_option("HTML file of the board to write, such as board.html.")] = None,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Rate the items of TABLE (Bradley-Terry, Plackett-Luce), also where a rating is infinite."""
    options = locals()  # the parameters by name, before anything else is local: most are passed on by role
    from attomaton.choices.fit import fit_choices
    from attomaton.choices.inputs import read_columns
    from attomaton.choices.storage import KIND
    from attomaton.corpora.readers.batches import Reading

    test_names = [] if tests is None else _list_names(tests)
    _check_tests(test_names, cluster, task)
    check_folder(out, KIND)
    check_drawings(figure, page)
    is_streamed = any(is_stream(path, as_json) for path in (figure, page))
    with stages(quiet) as announce:
        announce(f"reading {table}")
        frame = read_columns(table, Reading(format=format, skip_bad=skip_bad))
        if split is not None:
            frame = _split_lists(frame, choice_set or ranking, split)
        announce("fitting the scores")
        columns = _name_columns(options, frame)
        model: Any = {name: options[name] for name in ("tied", "ties", "scale", "ridge", "prior", "penalty")}
        fit = fit_choices(frame, **model, **columns)
        test_results = dict[str, Any]()
        refusals = list[str]()  # of tests that do not apply to this table; all else is still shown
        for name in test_names:
            announce(name.replace("_", " "))
            try:
                if name == JUDGES:
                    from attomaton.choices.judges import compare_judges

                    pairs = {
                        role: column for role, column in columns.items() if role not in ("cluster", "by")
                    }
                    test_results[name] = compare_judges(frame, cluster=cluster, task=task, **model, **pairs)
                else:  # the other tests are methods of the fit
                    test_results[name] = getattr(fit, name)()
            except AttomatonError as error:
                refusals.append(f"{name}: {error}")
        announce("making the board")
        if out is not None:
            fit.save(out, overwrite=overwrite)
        _draw_board(fit, figure, page)
        # results are computed when they are shown, so while progress is shown
        record = dict[str, Any]()
        texts = list[str]()
        if as_json:
            record = fit.to_dict() | output.path_texts(out=out, figure=figure, page=page)
            record |= {name: result.to_dict() for name, result in test_results.items()}
        elif quiet:
            texts = [str(len(fit.components))]
        elif not is_streamed:
            texts = [_describe(fit, limit)]
            texts += [f"\n{category}\n{_describe(fitted, limit)}" for category, fitted in fit.by.items()]
            texts += [f"\n{name}\n{result}" for name, result in test_results.items()]
    if as_json:
        output.print_json(record)
    elif not is_streamed:
        for text in texts:
            output.print_text(text)
        if not quiet:
            output.print_written(figure, page)
    if refusals:
        raise UnsupportedOption("; ".join(refusals))
    if not all(fitted.certified for fitted in (fit, *fit.by.values())):  # also those of the categories
        raise typer.Exit(1)


def _describe(fit: "ChoiceFit", limit: int) -> str:
    return fit.describe(limit, pointer=f"--limit {len(fit.items)} shows all")


def _check_tests(names: list[str], cluster: str | None, task: str | None) -> None:
    unknown = [name for name in names if name not in TESTS]
    if unknown:
        raise UnsupportedOption(f"--tests has {show(unknown[0])}; choose from {', '.join(TESTS)}")
    if JUDGES in names and cluster is None:
        raise UnsupportedOption(f"--tests {JUDGES} needs the column of the judges; add --cluster COLUMN")
    if task is not None and JUDGES not in names:
        raise UnsupportedOption(f"--task needs --tests {JUDGES}; add that test, or leave --task out")


def _draw_board(fit: "ChoiceFit", figure: Path | None, page: Path | None) -> None:
    from attomaton.report.board_page import draw_board, write_board

    if figure is not None:
        draw_board(fit if fit.by else fit.board(), figure)
    if page is not None:
        write_board(fit.board(), page)


def _split_lists(frame: Any, column: str | None, separator: str) -> Any:
    # the table with the lists in one column split into items; by default the column choice_set or ranking
    from attomaton.choices.inputs import split_column

    default = next((name for name in ("choice_set", "ranking") if name in frame), None)
    return split_column(frame, column or default, separator)


# The parameters of `fit_choices` that name columns, from the options that were given, in the form of
# Python: a list for several columns, and a mapping for features.
def _name_columns(options: Mapping[str, Any], frame: Mapping[Any, Any]) -> dict[str, Any]:
    from attomaton.choices.inputs import Columns

    columns = {role: options[role] for role in Columns.__annotations__ if options[role] not in (None, [])}
    for role in LISTED_ROLES & columns.keys():
        columns[role] = _list_columns(columns[role], frame)
    for role in ("features", "style"):
        if role in columns and columns[role] != "arena":
            columns[role] = _read_features(columns[role])
    return columns


def _list_names(text: str) -> list[str]:
    # as a line of CSV, so that a name with a comma can be quoted
    return [name.strip() for name in next(reader([text], skipinitialspace=True))]


def _list_columns(text: str, frame: Mapping[Any, Any]) -> str | list[str]:
    # "Ann,Bob" → these columns, "Q3*" → the matching columns; a name without a match stays, and is refused
    # later
    if text in frame or not {",", "*"}.intersection(text):
        return text
    chosen = list[str]()
    for name in _list_names(text):
        chosen += [name] if name in frame else fnmatch.filter(map(str, frame), name) or [name]
    return chosen


def _read_features(text: str) -> dict[str, Any]:
    # "price,age=age_home:age_guest" → {"price": "price", "age": ("age_home", "age_guest")}
    features = dict[str, Any]()
    for entry in _list_names(text):
        name, _, sides = entry.partition("=")
        columns_of_pair = tuple(sides.split(":"))
        features |= {name: columns_of_pair} if len(columns_of_pair) > 1 else {entry: entry}
    return features
