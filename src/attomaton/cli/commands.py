"""All commands, each loaded when it is asked for, and how they show their help.

``-h`` works, flags carry no type, and examples stand below the options.
"""

from collections import UserDict
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from attomaton import __version__
from attomaton.cli.examples import EXAMPLES
from attomaton.cli.output import print_error

STOPPED = 130
"""The exit code of what Ctrl-C stopped, by the custom of shells: 128 and the number of the signal."""

HELP = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command whose flags are shown without a type, since nothing can be written behind them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters of the command, with what is shown beside them."""
        return _bare_flags(super().get_params(ctx))


class OnDemand(UserDict[str, Any]):
    """The commands by their names; one that is looked up is loaded."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise KeyError(name)
        return load_command(name)


class Commands(TyperGroup):
    """All commands together, whose own flags are shown in the same way."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = OnDemand(EXAMPLES)

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters before the command, with what is shown beside them."""
        return _bare_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; one that is stopped by Ctrl-C says so, and how it goes on if it can."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            print_error(" ".join(["Stopped.", *stop.args]))
            raise typer.Exit(STOPPED) from stop


def _bare_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


@cache
def load_command(name: str) -> Any:
    """The command of this name, out of its file."""
    file = name.replace("-", "_")
    function = getattr(import_module(f"attomaton.cli.{file}"), file)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, cls=Command, epilog=show_examples(name), context_settings=HELP)(function)
    return typer.main.get_command(alone)


def show_examples(name: str) -> str:
    """The examples of a command, a line each."""
    return "\n\n".join(["Examples", *(f"$ {line}" for line in EXAMPLES[name])])


app = typer.Typer(
    add_completion=True,
    cls=Commands,
    no_args_is_help=True,
    context_settings=HELP,
    pretty_exceptions_enable=False,
    help="What gradient descent makes of a self-attention layer, computed from token sequences alone.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attomaton {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options before the command."""
