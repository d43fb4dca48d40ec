"""``attomaton choices``: ratings from a table of choices."""

import fnmatch
from collections.abc import Mapping
from csv import reader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import show
from attomaton.cli import output
from attomaton.cli.values import check_folder, is_stream, path_option, real, source_argument, whole, words

if TYPE_CHECKING:
    from attomaton.choices.result import ChoiceFit

Column = str | None

JUDGES = "compare_judges"
TESTS = ("goodness_of_fit", "intransitivity", "cross_validate", JUDGES)
"""What --tests may name."""


@output.counting_skipped()
def choices(
    table: Annotated[
        str,
        source_argument(
            "A .csv, .tsv, .parquet, .jsonl, .json or .pgn file with one choice or ranking per row; "
            "- for standard input."
        ),
    ],
    winner: Annotated[Column, words("Column of the winner; default: winner.")] = None,
    loser: Annotated[
        Column,
        words("Column of the loser; default: loser. Or a column of win counts for each loser: Ann,Bob."),
    ] = None,
    choice_set: Annotated[
        Column,
        words("Column of all alternatives, including the winner, instead of a loser; or several: a,b,c."),
    ] = None,
    first: Annotated[Column, words("First item of a pair; needs --second and --outcome.")] = None,
    second: Annotated[Column, words("Second item of a pair.")] = None,
    outcome: Annotated[
        Column,
        words(
            "Result: winner, its column, home/away, tie, bothbad, W/L/D, 2-1, score of the first "
            "(1, 0.5, 0); or two columns."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, words("Outcome to leave out, such as 'tie (bothbad)'; may be repeated.")
    ] = None,
    ranking: Annotated[
        Column, words("Column of a ranking, best item first; or one column per place: P1,P2,P3.")
    ] = None,
    ranks: Annotated[
        str | None,
        words(
            "A column of ranks for each item (1 is best): Ann,Bob, or 'Q3*'. Or one column for all; see "
            "--situation."
        ),
    ] = None,
    scores: Annotated[
        str | None,
        words(
            "A column of scores for each item (the highest is best). Or one column for all; see --situation."
        ),
    ] = None,
    best: Annotated[Column, words("Column of the best item of a choice set; needs --worst.")] = None,
    worst: Annotated[Column, words("Column of the worst item of a choice set.")] = None,
    situation: Annotated[
        Column, words("One row per alternative: column that names the situation, such as the race.")
    ] = None,
    alternative: Annotated[
        Column,
        words("One row per alternative: column of the item. One row per choice: all items, as car,bus."),
    ] = None,
    chosen: Annotated[
        Column,
        words(
            "One row per alternative: column of 1 or 0, or of counts. One row per choice: column of the item."
        ),
    ] = None,
    available: Annotated[
        str | None, words("One row per choice: a column for each item, 1 if it was available, else 0.")
    ] = None,
    split: Annotated[
        str | None, words("Separator between the items of a choice set or ranking in a text file.")
    ] = None,
    tied: Annotated[Column, words("Column that marks ties; default: tie, draw or tied, if present.")] = None,
    count: Annotated[
        Column, words("Column with the number of times each choice was made; default: count, if present.")
    ] = None,
    ties: Annotated[
        str | None, words("davidson (a tie is an outcome; default) or half (half a win each).")
    ] = None,
    moved_first: Annotated[Column, words("Column of the item of a pair that moved or stood first.")] = None,
    features: Annotated[
        str | None, words("Features, separated by commas: x (in pairs also x_a and x_b), or x=column:column.")
    ] = None,
    style: Annotated[
        str | None,
        words(
            "Features (a - b)/(a + b) of the columns x_a and x_b, standardised: x,y; or arena for LMArena's."
        ),
    ] = None,
    most_per_pair: Annotated[
        float | None,
        real(
            "Weight comparisons so that no pair of items counts as more than this many.", sign="> 0", above=0
        ),
    ] = None,
    cluster: Annotated[Column, words("Column of judges or prompts: clustered standard errors.")] = None,
    by: Annotated[Column, words("Column of categories; each category is also fitted by itself.")] = None,
    scale: Annotated[str, words("Scale of ratings: log-odds or elo.")] = "log-odds",
    ridge: Annotated[float, real("Shrink scores towards 0 inside components.", sign=">= 0", least=0)] = 0.0,
    prior: Annotated[
        float | None,
        real("Connect all components by a normal prior with this standard deviation.", sign="> 0", above=0),
    ] = None,
    penalty: Annotated[
        str | None, words("firth: finite ratings by Firth's penalised likelihood, next to infinite ones.")
    ] = None,
    tests: Annotated[
        str | None,
        words(
            "Tests, separated by commas: goodness_of_fit, intransitivity, cross_validate, or compare_judges "
            "(with --cluster)."
        ),
    ] = None,
    task: Annotated[
        Column, words("Column of what was judged, such as a question; for compare_judges.")
    ] = None,
    format: Annotated[  # noqa: A002  the name of the option
        str | None, words("Read the file or standard input as csv, tsv, jsonl, json or parquet.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip and count rows that cannot be read.")
    ] = False,
    limit: Annotated[int, whole("Number of items of each board to show.", least=1)] = 50,
    out: Annotated[Path | None, path_option("Folder to save the fit to.")] = None,
    figure: Annotated[
        Path | None, path_option("File for a figure of the board, such as board.pdf or board.png.")
    ] = None,
    page: Annotated[Path | None, path_option("HTML file for the board, such as board.html.")] = None,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Rate the items of TABLE (Bradley-Terry, Plackett-Luce), also where a rating is infinite."""
    options = locals()
    from attomaton.choices.fit import fit_choices
    from attomaton.choices.inputs import Columns, read_columns, split_column
    from attomaton.choices.storage import KIND
    from attomaton.corpora.readers.batches import Reading

    names = [] if tests is None else _list_names(tests)
    _check_tests(names, cluster, task)
    check_folder(out, KIND)
    _check_targets(figure, page)
    streamed = any(is_stream(path, as_json) for path in (figure, page))
    columns: Any = {
        role: options[role] for role in Columns.__annotations__ if options[role] not in (None, [])
    }
    if features is not None:
        columns["features"] = _read_features(features)
    if style not in (None, "arena"):
        columns["style"] = _read_features(style)
    with output.stages(quiet) as announce:
        announce(f"reading {table}")
        frame = read_columns(table, Reading(format=format, skip_bad=skip_bad))
        if split is not None:
            usual = (name for name in ("choice_set", "ranking") if name in frame)
            frame = split_column(frame, choice_set or ranking or next(usual, None), split)
        announce("fitting the scores")
        listed = ("loser", "choice_set", "outcome", "ranking", "ranks", "scores", "alternative", "available")
        columns |= {role: _list_columns(columns[role], frame) for role in listed if role in columns}
        given_options: Any = {"tied": tied, "ties": ties, "scale": scale, "ridge": ridge}
        given_options |= {"prior": prior, "penalty": penalty}
        fit = fit_choices(frame, **given_options, **columns)
        results = dict[str, Any]()
        for name in names:
            announce(name.replace("_", " "))
            if name == JUDGES:
                from attomaton.choices.judges import compare_judges

                pairs = {role: column for role, column in columns.items() if role not in ("cluster", "by")}
                results[name] = compare_judges(frame, cluster=cluster, task=task, **given_options, **pairs)
            else:
                results[name] = getattr(fit, name)()
        announce("making the board")
        if out is not None:
            fit.save(out, overwrite=overwrite)
        if figure is not None or page is not None:
            _write_board(fit, figure, page)
        paths = {"out": out, "figure": figure, "page": page}
        record, texts = dict[str, Any](), list[str]()
        if as_json:
            record = fit.to_dict() | {name: path and str(path) for name, path in paths.items()}
            record |= {name: result.to_dict() for name, result in results.items()}
        elif quiet:
            texts = [str(len(fit.components))]
        elif not streamed:
            texts = [_describe(fit, limit)]
            texts += [f"\n{category}\n{_describe(fitted, limit)}" for category, fitted in fit.by.items()]
            texts += [f"\n{name}\n{result}" for name, result in results.items()]
    if as_json:
        output.print_json(record)
    elif not streamed:
        for text in texts:
            output.print_text(text)
        for path in (figure, page) if not quiet else ():
            if path is not None:
                output.print_line(f"Written to {path}.")
    if not all(fitted.certified for fitted in (fit, *fit.by.values())):
        raise typer.Exit(1)


def _describe(fit: "ChoiceFit", limit: int) -> str:
    return fit.describe(limit, pointer=f"--limit {len(fit.items)} shows all")


def _check_tests(names: list[str], cluster: str | None, task: str | None) -> None:
    """Refuse tests that there are not, or that lack a column: before the fit, not after."""
    unknown = [name for name in names if name not in TESTS]
    if unknown:
        raise UnsupportedOption(f"--tests names {show(unknown[0])}; give some of {', '.join(TESTS)}")
    if JUDGES in names and cluster is None:
        raise UnsupportedOption(f"{JUDGES} needs the judges; name their column with --cluster")
    if task is not None and JUDGES not in names:
        raise UnsupportedOption(f"--task is for --tests {JUDGES}; add it, or leave --task out")


def _check_targets(figure: Path | None, page: Path | None) -> None:
    """Say at once why a file cannot be written: before the fit, not after."""
    if figure is not None:
        from attomaton.base.drawing import paper_style
        from attomaton.report.figures import check_figure

        check_figure(figure)
        with paper_style():  # says which extra has matplotlib
            pass
    if page is not None:
        from attomaton.base.artifacts import check_target
        from attomaton.base.pages import is_page

        check_target(page, is_ours=is_page)


def _write_board(fit: "ChoiceFit", figure: Path | None, page: Path | None) -> None:
    from attomaton.report.board_page import draw_board, write_board

    if figure is not None:
        draw_board(fit if fit.by else fit.board(), figure)
    if page is not None:
        write_board(fit.board(), page)


def _list_names(text: str) -> list[str]:
    return [name.strip() for name in next(reader([text], skipinitialspace=True))]


def _list_columns(text: str, frame: Mapping[Any, Any]) -> str | list[str]:
    """One column, or several separated by commas; ``Q3*`` names all that begin so."""
    if text in frame or not {",", "*"}.intersection(text):
        return text
    chosen = list[str]()
    for name in _list_names(text):
        chosen += [name] if name in frame else fnmatch.filter(map(str, frame), name) or [name]
    return chosen


def _read_features(text: str) -> dict[str, Any]:
    """The column, or the columns of a pair or of all alternatives, of each feature."""
    features = dict[str, Any]()
    for entry in _list_names(text):
        name, _, sides = entry.partition("=")
        pair = tuple(sides.split(":"))
        features |= {name: pair} if len(pair) > 1 else {entry: entry}
    return features
