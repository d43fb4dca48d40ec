"""Load each command on demand, and lay out its help.

``app`` is the command line of attomaton. Typer asks the group :class:`Commands` for a command;
:class:`OnDemand` then imports the file of this command alone, with :func:`load_command`.
"""

from collections import UserDict
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from attomaton import __version__
from attomaton.cli.stopping import ending_when_stopped

# The commands, in the groups of `--help`.
GROUPS = {
    "Text": ("learn", "explain", "generate", "score", "diff", "export", "report"),
    "Heads of trained models": ("heads",),
    "Ratings": ("choices",),
    "Theory and training": ("train", "verify", "reproduce", "begin", "scan-snap"),
    "Tools": ("tokenize", "example", "doctor"),
}

# Parameters that many commands share, in the groups of `--help`.
PANELS = {
    "Reading": (
        "tokenizer",
        "column",
        "documents",
        "format",
        "separator",
        "dtype",
        "max_document",
        "skip_bad",
    ),
    "Engine": ("engine", "memory", "threads", "master"),
    "Output": ("out", "overwrite", "figure", "figures", "as_json", "quiet"),
}

# Command → examples of its use.
EXAMPLES = {
    "example": (
        "attomaton example story.txt",
        "attomaton example passages.jsonl",
        "attomaton example llmfao.csv",
    ),
    "learn": (
        "attomaton learn story.txt --window 8 --out run",
        "attomaton learn story.txt --tokenizer character --json",
    ),
    "explain": ('attomaton explain run "the wind saw the lamp and the"',),
    "generate": (
        'attomaton generate run "the wind saw the lamp and the" -n 12 --seed 1',
        'attomaton generate run "the wind saw the lamp and the" --step 20 --learned-from story.txt',
    ),
    "score": (
        "attomaton score run story.txt --window 4 --epsilon 0.1",
        "attomaton score run story.txt --shrink 0.5 --learned-from story.txt",
    ),
    "report": ("attomaton report run --out report.html",),
    "export": ("attomaton export run --graphml graph.graphml --queries the",),
    "diff": ("attomaton learn story.txt --window 4 --out shorter", "attomaton diff run shorter"),
    "train": ("attomaton train story.txt --window 8 --steps 200 --out run",),
    "verify": ("attomaton verify run",),
    "scan-snap": ("attomaton scan-snap story.txt --window 8",),
    "begin": (
        "attomaton begin story.txt --window 8",
        'attomaton begin story.txt --window 8 --queries "the lamp" --step-size 0.01 --layers 2',
    ),
    "heads": (
        "attomaton heads model story.jsonl --window 8 --out heads.parquet",
        "attomaton heads model story.jsonl --window 8 --show L0H1 --examples 1",
        "attomaton heads 'steps/checkpoint-*' story.jsonl --window 8",
    ),
    "tokenize": ("attomaton tokenize story.txt --out tokens", "attomaton learn tokens --window 8"),
    "reproduce": ("attomaton reproduce mechanics-global --trials 2 --out figure",),
    "choices": (
        "attomaton choices games.csv",
        "attomaton choices matches.csv --winner home --loser guest --count games",
        "attomaton choices battles.jsonl --first model_a --second model_b --outcome winner --page board.html",
        "attomaton choices menus.csv --winner dish --choice-set menu --split '|'",
        "attomaton choices races.tsv --ranking result --split '>' --prior 1",
    ),
    "doctor": ("attomaton doctor",),
}


HELP = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command whose help has panels of options, as :func:`_show_params` lays them out."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _show_params(super().get_params(ctx))


class OnDemand(UserDict[str, Any]):
    """The commands by name; each is loaded from its file when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise KeyError(name)
        return load_command(name)


class Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = OnDemand(dict.fromkeys(name for names in GROUPS.values() for name in names))

    def get_params(self, ctx: Any) -> list[Any]:
        return _show_params(super().get_params(ctx))

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with ending_when_stopped():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with ending_when_stopped():
            return super().invoke(ctx)


def _show_params(params: list[Any]) -> list[Any]:
    # in the help: flags have no type, arguments are in capitals, shared options are in panels of their own
    panels = {name: panel for panel, names in PANELS.items() for name in names}
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
        if param.param_type_name == "argument":
            param.metavar = f"{param.name.upper()}..." if param.nargs == -1 else param.name.upper()
        else:
            param.rich_help_panel = panels.get(param.name)
    return params


@cache
def load_command(name: str) -> Any:
    """The command with this name, such as scan-snap: the function scan_snap of the file scan_snap.py."""
    file = name.replace("-", "_")
    function = getattr(import_module(f"attomaton.cli.{file}"), file)
    examples = "\n\n".join(["Examples", *(f"$ {line}" for line in EXAMPLES[name])])
    group = next(group for group, names in GROUPS.items() if name in names)
    layout: Any = {"epilog": examples, "context_settings": HELP, "rich_help_panel": group}
    # Typer makes a command only from an application, so each gets an application of its own
    application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    application.command(name, cls=Command, **layout)(function)
    return typer.main.get_command(application)


app = typer.Typer(
    add_completion=True,
    cls=Commands,
    no_args_is_help=True,
    context_settings=HELP,
    pretty_exceptions_enable=False,
    help="Compute what attention learns from data, audit the heads of trained models, and rate items.",
)


def _print_version(show: bool) -> None:
    if show:
        typer.echo(f"attomaton {__version__}")
        raise typer.Exit


@app.callback()
def _common_options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options before the command."""
