"""Write the page of a run as one HTML file, with styles, scripts and data inside."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attomaton.automaton.automaton import Automaton
from attomaton.base.artifacts import check_target, read_manifest, write_target
from attomaton.base.errors import CorruptRun, needing
from attomaton.base.options import given_path, whole_number
from attomaton.base.pages import is_page, render_page, to_json
from attomaton.report.page.content import PAGE_BYTES, choose_queries, gather_page, measure_tokens
from attomaton.report.page.packing import Packer
from attomaton.report.page.training import read_training, read_verdict_records

# The scripts of the page, in its folder ``assets``; each uses functions of those before it.
ASSETS = ("automaton", "overview", "picker", "layout", "graph", "heat", "context", "curves", "heads", "start")


@dataclass(frozen=True)
class Written:
    """A page that was written to ``path``, in ``n_bytes``, and how much of the run it shows.

    It shows ``n_shown`` of the ``n_queries`` queries of the run, which have ``samples_share`` of its
    realisable samples, and ``n_heads`` attention heads.
    """

    path: Path
    n_bytes: int
    n_shown: int
    n_queries: int
    samples_share: float
    n_heads: int = 0


def write_report(
    run: str | Path,
    out: str | Path = "report.html",
    *,
    most_queries: int | None = None,
    heads: str | Path | None = None,
) -> Written:
    """Write a run folder as one HTML page, to open in a browser.

    Parameters
    ----------
    run : str or Path
        A folder written by ``attomaton learn --out`` or ``Automaton.save``.
    out : str or Path
        The HTML file to write.
    most_queries : int, optional
        The largest number of queries to show; those with the most samples come first. None means as many as
        fit in 5 MB.
    heads : str or Path, optional
        An audit of the heads of a trained model to add: a Parquet file of ``attomaton heads --out``,
        ``HeadAudit.save`` or ``HeadCourse.save``.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(at.learn(["a rose is a rose"]).save(f"{folder}/run"), f"{folder}/run.html").n_shown
    2
    """
    if most_queries is not None:
        most_queries = whole_number(most_queries, "most_queries", least=1)
    target = check_target(given_path(out, "out"), is_ours=is_page)
    folder = given_path(run, "run")
    audit = None
    if heads is not None:
        with needing("a page with heads"):
            from attomaton.report.page.heads import read_heads
        audit = read_heads(given_path(heads, "heads"))
    automaton = Automaton.load(folder)
    packer = Packer(automaton)
    about = {
        "manifest": read_manifest(folder),
        "run": folder.name,
        "written_by": version("attomaton"),
        "training": read_training(folder),
        "verdicts": read_verdict_records(folder),
        "heads": audit,
    }
    for section, value in about.items():
        _check_shown(value, section, folder if section != "heads" else heads)
    room = PAGE_BYTES - measure_tokens(automaton) - (0 if audit is None else len(to_json(audit)))
    chosen = choose_queries(packer, room=room, most=most_queries)
    record = gather_page(automaton, packer, chosen, about)
    text = render_page("attomaton.report.page", ASSETS, record, title="attomaton report")
    written = write_target(target, lambda draft: draft.write_text(text, encoding="utf-8"), is_ours=is_page)
    n_queries = len(packer.queries)
    n_heads = 0 if audit is None else len(audit["heads"])
    return Written(target, written["bytes"], len(chosen.indices), n_queries, chosen.samples_share, n_heads)


# Refuse values that JSON cannot contain: infinite numbers, NaN, and texts that are not Unicode.
def _check_shown(value: Any, section: str, source: Any) -> None:
    try:
        to_json(value).encode()
    except (ValueError, RecursionError) as error:
        raise CorruptRun(
            f"the {section} of {source} cannot be shown on a page: it has a number that is not finite, or a "
            f"text that is not Unicode ({error}); run again the command that wrote {source}"
        ) from error
