"""``attomaton choices``: ratings from a table of choices."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attomaton.cli import output
from attomaton.cli.values import check_folder, place, real, source_argument, whole, words

Column = str | None


def choices(
    table: Annotated[
        str,
        source_argument("A .csv, .tsv, .parquet, .jsonl or .json file with one choice, or ranking, a row."),
    ],
    winner: Annotated[Column, words("Column of the winner; by default winner.")] = None,
    loser: Annotated[Column, words("Column of the loser; by default loser.")] = None,
    choice_set: Annotated[
        Column, words("Column of all options, the winner included, in place of a loser.")
    ] = None,
    first: Annotated[Column, words("Column of one of two, with --second and --outcome.")] = None,
    second: Annotated[Column, words("Column of the other of two.")] = None,
    outcome: Annotated[
        Column, words("Column of how it ended: the winner, its column, tie, or 1, 0.5 or 0 for --first.")
    ] = None,
    ranking: Annotated[Column, words("Column of a ranking, the best first.")] = None,
    ranks: Annotated[
        str | None, words("Columns of items that hold their ranks, 1 the best, separated by commas.")
    ] = None,
    split: Annotated[
        str | None, words("What stands between the items of a choice set or ranking, in a file of text.")
    ] = None,
    tied: Annotated[
        Column,
        words("Column that says whether a row is a tie; by default tie, draw or tied, if there is one."),
    ] = None,
    count: Annotated[
        Column, words("Column that says how often each choice was made; by default count, if there is one.")
    ] = None,
    ridge: Annotated[float, real("Pull towards 0 inside components.", sign=">= 0", least=0)] = 0.0,
    prior: Annotated[
        float | None,
        real("Join all components by a prior with this standard deviation.", sign="> 0", above=0),
    ] = None,
    limit: Annotated[int, whole("Number of items to show.", least=1)] = 50,
    out: Annotated[Path | None, place("Folder to save the fit to.")] = None,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Rate the items of TABLE (Bradley-Terry, Plackett-Luce), and say what the choices leave open."""
    from attomaton.choices.fit import fit_choices
    from attomaton.choices.given import read_columns, split_column
    from attomaton.choices.storage import KIND

    check_folder(out, KIND)
    named = {
        "winner": winner,
        "loser": loser,
        "choice_set": choice_set,
        "first": first,
        "second": second,
        "outcome": outcome,
        "ranking": ranking,
        "ranks": None if ranks is None else [name.strip() for name in ranks.split(",")],
        "count": count,
    }
    columns: Any = {role: name for role, name in named.items() if name is not None}
    with output.stages(quiet or as_json) as announce:
        announce(f"reading {table}")
        frame = read_columns(table)
        if split is not None:
            usual = (name for name in ("choice_set", "ranking") if name in frame)
            frame = split_column(frame, choice_set or ranking or next(usual, None), split)
        announce("fitting the scores")
        fit = fit_choices(frame, tied=tied, ridge=ridge, prior=prior, **columns)
    if out is not None:
        fit.save(out, overwrite=overwrite)
    if as_json:
        output.print_json({**fit.to_dict(), "out": None if out is None else str(out)})
    elif quiet:
        output.print_line(str(len(fit.components)))
    else:
        output.print_text(fit.describe(limit, rest=f"--limit {len(fit.items)} shows all"))
    if not fit.soft.certificate.certified:
        raise typer.Exit(1)
