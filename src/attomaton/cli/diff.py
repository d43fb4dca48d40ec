"""``attomaton diff``: which priorities differ between two runs or corpora."""

import warnings
from typing import TYPE_CHECKING, Annotated, Any

from attomaton.cli.output import AsJson, Quiet, print_blocks, print_json, print_line
from attomaton.cli.sources import CorpusOptions, reads_beside_run
from attomaton.cli.values import source_argument, whole

if TYPE_CHECKING:
    from attomaton.automaton.compare import Difference


@reads_beside_run
def diff(
    run_a: Annotated[
        str, source_argument("Folder written by `attomaton learn --out`, or a corpus to learn from.")
    ],
    run_b: Annotated[str, source_argument("Run or corpus to compare with the first one.")],
    corpus_options: CorpusOptions,
    window: Annotated[
        int | None,
        whole("Longest context, in tokens, for a corpus; default: that of the run, or 32.", least=1),
    ] = None,
    limit: Annotated[int, whole("Number of examples to show for each change.")] = 5,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare two runs or corpora: which tokens they order differently, and on what evidence."""
    from attomaton.automaton.compare import describe_difference, diff as compare
    from attomaton.base.errors import NothingRealisable

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingRealisable)  # the printed number of pairs is 0
        difference = compare(run_a, run_b, window=window, **corpus_options)
    if as_json:
        print_json(_difference_record(difference, limit))
    elif quiet:
        print_line(str(len(difference)))
    else:
        print_blocks(describe_difference(difference, limit))


def _difference_record(difference: "Difference", limit: int) -> dict[str, Any]:
    name = difference.tokens.__getitem__
    rows: list[dict[str, Any]] = []
    for change in difference.counts:
        rows += difference.strongest(change, limit).to_pylist()
    for row in rows:
        row.update({key: name(row[key]) for key in ("query", "token", "rival")})
    return {
        "pairs": difference.n_pairs,
        "different": len(difference),
        "changes": {change.name.lower(): count for change, count in difference.counts.items()},
        "strongest": rows,
    }
