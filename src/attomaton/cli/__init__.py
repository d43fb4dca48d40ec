"""The command line: one file per command, each of which parses, calls and prints."""

import io
import sys

import typer

from attomaton.cli.begin import begin
from attomaton.cli.choices import choices
from attomaton.cli.commands import HELP, Commands, add_command
from attomaton.cli.diff import diff
from attomaton.cli.doctor import doctor
from attomaton.cli.example import example
from attomaton.cli.explain import explain
from attomaton.cli.export import export
from attomaton.cli.generate import generate
from attomaton.cli.heads import heads
from attomaton.cli.learn import learn
from attomaton.cli.output import print_error
from attomaton.cli.report import report
from attomaton.cli.reproduce import reproduce
from attomaton.cli.scansnap import scansnap
from attomaton.cli.score import score
from attomaton.cli.tokenize import tokenize
from attomaton.cli.train import train
from attomaton.cli.verify import verify

app = typer.Typer(
    add_completion=True,
    cls=Commands,
    no_args_is_help=True,
    context_settings=HELP,
    pretty_exceptions_enable=False,
    help="What gradient descent makes of a self-attention layer, computed from token sequences alone.",
)
COMMANDS = {
    "learn": learn,
    "explain": explain,
    "generate": generate,
    "score": score,
    "diff": diff,
    "export": export,
    "report": report,
    "reproduce": reproduce,
    "train": train,
    "verify": verify,
    "scan-snap": scansnap,
    "begin": begin,
    "heads": heads,
    "tokenize": tokenize,
    "choices": choices,
    "example": example,
    "doctor": doctor,
}
for _name, _function in COMMANDS.items():
    add_command(app, _name, _function)


def _print_version(wanted: bool) -> None:
    if wanted:
        from attomaton import __version__

        typer.echo(f"attomaton {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command line; a user's error is one line on stderr and exit code 2, never a traceback."""
    from attomaton.artifacts import explained
    from attomaton.errors import AttomatonError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows "?"
    try:
        with explained("the output"):
            app(prog_name="attomaton")
    except AttomatonError as error:
        print_error(f"error: {error}")
        sys.exit(2)
