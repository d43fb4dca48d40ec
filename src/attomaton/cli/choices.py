"""``attomaton choices``: ratings from a table of choices."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attomaton.cli import output
from attomaton.cli.values import check_folder, place, real, source_argument, whole, words

Column = str | None


@output.counting_skipped()
def choices(
    table: Annotated[
        str,
        source_argument(
            "A .csv, .tsv, .parquet, .jsonl or .json file with one choice or ranking per row; "
            "- for standard input."
        ),
    ],
    winner: Annotated[Column, words("Column of the winner; default: winner.")] = None,
    loser: Annotated[Column, words("Column of the loser; default: loser.")] = None,
    choice_set: Annotated[
        Column, words("Column of all alternatives, including the winner, instead of a loser.")
    ] = None,
    first: Annotated[Column, words("First item of a pair; needs --second and --outcome.")] = None,
    second: Annotated[Column, words("Second item of a pair.")] = None,
    outcome: Annotated[
        Column,
        words("Result: the winner's name or column, tie, or 1, 0.5 or 0 for the first item."),
    ] = None,
    ranking: Annotated[Column, words("Column of a ranking, best item first.")] = None,
    ranks: Annotated[
        str | None, words("Columns of items that contain their ranks (1 is best), separated by commas.")
    ] = None,
    split: Annotated[
        str | None, words("Separator between the items of a choice set or ranking in a text file.")
    ] = None,
    tied: Annotated[
        Column,
        words("Column that marks ties; default: tie, draw or tied, if present."),
    ] = None,
    count: Annotated[
        Column, words("Column with the number of times each choice was made; default: count, if present.")
    ] = None,
    ridge: Annotated[float, real("Shrink scores towards 0 inside components.", sign=">= 0", least=0)] = 0.0,
    prior: Annotated[
        float | None,
        real("Connect all components by a normal prior with this standard deviation.", sign="> 0", above=0),
    ] = None,
    format: Annotated[  # noqa: A002  the name of the option
        str | None, words("Read the file or standard input as csv, tsv, jsonl, json or parquet.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip and count bad rows.")] = False,
    limit: Annotated[int, whole("Number of items to show.", least=1)] = 50,
    out: Annotated[Path | None, place("Folder to save the fit to.")] = None,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Rate the items of TABLE (Bradley-Terry, Plackett-Luce), also where a rating is infinite."""
    from attomaton.choices.fit import fit_choices
    from attomaton.choices.given import read_columns, split_column
    from attomaton.choices.storage import KIND
    from attomaton.corpora.readers.batches import Reading

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
        frame = read_columns(table, Reading(format=format, skip_bad=skip_bad))
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
