"""``attomaton diff``: which priorities differ between two runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attomaton.cli.output import AsJson, Quiet, print_blocks, print_json, print_line
from attomaton.cli.values import place_argument, whole

if TYPE_CHECKING:
    from attomaton.automaton.compare import Difference


def diff(
    run_a: Annotated[Path, place_argument("A folder written by `attomaton learn --out`.")],
    run_b: Annotated[Path, place_argument("Another such folder.")],
    limit: Annotated[int, whole("Number of examples to show of each change.")] = 5,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say which tokens the corpora of RUN_A and RUN_B order differently, and on what evidence."""
    from attomaton.automaton.automaton import Automaton
    from attomaton.automaton.compare import diff as compare
    from attomaton.automaton.compare import tell_difference

    difference = compare(Automaton.load(run_a), Automaton.load(run_b))
    if as_json:
        print_json(_record(difference, limit))
    elif quiet:
        print_line(str(len(difference)))
    else:
        print_blocks(tell_difference(difference, limit))


def _record(difference: "Difference", limit: int) -> dict[str, Any]:
    name = difference.tokens.__getitem__
    rows: list[dict[str, Any]] = []
    for change in difference.counts:
        rows += difference.strongest(change, limit).to_pylist()
    for row in rows:
        row.update({part: name(row[part]) for part in ("query", "one", "other")})
    return {
        "pairs": difference.n_pairs,
        "different": len(difference),
        "changes": {change.name.lower(): count for change, count in difference.counts.items()},
        "strongest": rows,
    }
