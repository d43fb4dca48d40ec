"""How commands show their help: ``-h`` works, flags carry no type, and examples stand below the options."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

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


class Commands(TyperGroup):
    """All commands together, whose own flags are shown in the same way."""

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


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Make a function the command of this name."""
    app.command(name, cls=Command, epilog=show_examples(name), context_settings=HELP)(function)


def show_examples(name: str) -> str:
    """The examples of a command, a line each.

    Examples
    --------
    >>> show_examples("doctor").split()
    ['Examples', '$', 'attomaton', 'doctor']
    """
    return "\n\n".join(["Examples", *(f"$ {line}" for line in EXAMPLES[name])])
