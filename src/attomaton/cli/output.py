"""How commands print: tables on stdout, progress on stderr."""

import json
import re
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Annotated, Any, Self

import typer
from rich.console import Console
from rich.text import Text

from attomaton.base.printing import Block, Grid, Printed, blocks_of, clean, draw_table, lines_of, show_hidden
from attomaton.base.progress import Stages, silent

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output of an earlier command at --out.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print neither tables nor progress.")]

_SIGNS = (
    '→ -> × x … ... “ " ” " − - – - · * ± +/- ≥ >= ≤ <= ‖ | ⊥ perp √ sqrt ∞ inf ’ \' ₀ 0 ₁ 1 '
    "¹ ^1 ² ^2 ³ ^3 ᵀ ^T"
)
_LETTERS = (
    "ε eps η eta λ lambda μ mu γ gamma θ theta π pi ρ rho σ sigma τ tau χ chi ω omega "
    "Γ Gamma Δ Delta Π Pi Σ sum"
)
_PAIRS = f"{_SIGNS} ¼ 1/4 ½ 1/2 {_LETTERS}".split()
STAND_INS = {
    **dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True)),
    "\u0304": "",  # the line above a letter
    **dict.fromkeys("─━", "-"),
    "▁": "_",  # a blank in SentencePiece
    **dict.fromkeys("│┃", "|"),
    **dict.fromkeys("┌┐└┘┬┴┏┓┡┩┳╇", "+"),
}
"""Signs of ours → what stands for them where the output cannot hold them; in other text, a "?" does."""


INTERVAL = 20.0
"""Seconds after which a stage is a line again; 30 are promised, since other code may hold the GIL a while."""

SKIPPED: ContextVar[Mapping[str, Any]] = ContextVar("SKIPPED", default={})  # noqa: B039  never changed
"""What JSON says of documents that were skipped, in commands that read a corpus."""


def print_json(record: dict[str, Any]) -> None:
    """One JSON object on one line of stdout; what stdout cannot hold is written as an escape."""
    record = {**record, **SKIPPED.get()}
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    if not _holds(sys.stdout.encoding or "utf-8", text):
        text = json.dumps(record, ensure_ascii=True, allow_nan=False)
    typer.echo(text)


def print_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on stdout; cells are shown as they are, never read as markup or obeyed by the terminal."""
    console = Console(highlight=False)
    console.print(_shown(title, console))
    console.print(draw_table(Grid(title, headers, rows), lambda text: _shown(text, console)))


def print_value(value: Printed) -> None:
    """A value on stdout: what ``print(value)`` shows, drawn to the width of the terminal."""
    print_blocks(blocks_of(value))


def print_blocks(blocks: Sequence[Block]) -> None:
    """Lines and tables on stdout."""
    for block in blocks:
        if isinstance(block, Grid):
            print_table(block.title, block.headers, block.rows)
        else:
            for line in lines_of(block):
                print_line(line)


OPTIONS = {
    "Reading(documents='line')": "--documents line",
    "Reading(max_bytes=…)": "--max-document, in megabytes",
}
"""What errors advise in Python, and the options that say it in the shell."""

_PARAMETER = re.compile(
    r"(?<![\w(-])(winner|loser|choice_set|first|second|outcome|drop|ranking|ranks|scores|best|worst|situation|"
    r"alternative|chosen|available|tied|count|cluster|by|task|tokenizer|revision)"
    r"=(?:\[(.*?)\](?=$|[;,. ]))?(?![{\w'\"])"
)
"""What an error names as a parameter, and its value if that is a list."""


def name_options(text: str) -> str:
    """An error with the options of a command where it advises parameters."""
    for parameter, option in OPTIONS.items():
        text = text.replace(parameter, option)
    return _PARAMETER.sub(_name_option, text)


def _name_option(parameter: re.Match[str]) -> str:
    name = f"--{parameter[1].replace('_', '-')}"
    return " ".join(f"{name} {value}" for value in parameter[2].split(", ")) if parameter[2] else name


def print_error(text: str) -> None:
    sys.stderr.write(_encodable(clean(name_options(text)), sys.stderr.encoding or "utf-8") + "\n")


@contextmanager
def warnings_as_lines(kind: type[Warning], heed: Callable[[Any], object] = silent) -> Generator[None]:
    """Print warnings of this kind on stderr, a line each without the place in the code, and heed them."""
    show_other = warnings.showwarning

    def tell(message: Warning | str, *location: Any, **more: Any) -> None:
        if not isinstance(message, kind):
            show_other(message, *location, **more)
            return
        print_error(f"Warning: {message}.")
        heed(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", kind)
        warnings.showwarning = tell
        yield


@contextmanager
def counting_skipped() -> Generator[None]:
    """Say which documents a command skips as it reads: on stderr, and in the JSON that it prints."""
    from attomaton.base.errors import SkippedDocuments

    counted: dict[str, Any] = {"skipped": 0, "first_skipped": None}

    def count(warning: SkippedDocuments) -> None:
        counted["skipped"] += warning.count
        counted["first_skipped"] = counted["first_skipped"] or name_options(str(warning.first))

    before = SKIPPED.set(counted)
    try:
        with warnings_as_lines(SkippedDocuments, count):
            yield
    finally:  # a command that ends by an error, too
        SKIPPED.reset(before)


def _shown(text: str, console: Console) -> Text:
    return Text(_encodable(clean(text), console.encoding))


def _encodable(text: str, encoding: str) -> str:
    return text if _holds(encoding, text) else text.translate(str.maketrans(STAND_INS))


def _holds(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def print_line(text: str) -> None:
    """One wrapped line of plain text on stdout."""
    console = Console(highlight=False)
    console.print(_shown(text, console))


def print_text(text: str) -> None:
    """A text of any length on stdout, as it is, but for characters that a terminal would obey."""
    encoding = sys.stdout.encoding or "utf-8"
    typer.echo("\n".join(_encodable(show_hidden(line), encoding) for line in text.split("\n")))


@contextmanager
def stages(quiet: bool) -> Generator[Stages]:
    """What to announce stages with, on stderr.

    A terminal shows one line that changes: the stage and, where its end is known, a bar and the time left.
    Elsewhere a stage is a line, with another one after every :data:`INTERVAL`.
    """
    console = Console(stderr=True)
    if quiet:
        yield Stages()
    elif console.is_interactive and sys.stderr.isatty():
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn()
        with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
            task = progress.add_task("starting", total=None)

            def begin(stage: str) -> None:
                progress.reset(task, description=_shown(f"{stage} …", console).plain, total=None)

            yield Stages(begin, lambda done, total: progress.update(task, completed=done, total=total))
    else:
        with _Lines() as lines:
            yield Stages(lines.begin, lines.advance)


class _Lines:
    """Progress as lines on stderr, where a line cannot change."""

    def __init__(self) -> None:
        self._stage, self._share, self._began = "starting", "", monotonic()
        self._begins, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._begins.set()
        self._thread.join()

    def begin(self, stage: str) -> None:
        self._stage, self._share, self._began = stage, "", monotonic()
        print_error(f"{stage} …")
        self._begins.set()

    def advance(self, done: int, total: int) -> None:
        """Note how much of the stage is done, for the next line."""
        self._share = f"{100 * done / total:.0f} %, "

    def _repeat(self) -> None:
        while not self._ended:
            if self._begins.wait(INTERVAL):
                self._begins.clear()
            else:
                print_error(f"{self._stage} … {self._share}{monotonic() - self._began:.0f} s")
