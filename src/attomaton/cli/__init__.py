"""The command line: each command is one file, loaded on demand, which parses, calls and prints."""

import io
import sys
from typing import TYPE_CHECKING, Any

from attomaton import __version__
from attomaton.base.errors import AttomatonError
from attomaton.cli.stopping import ending_when_stopped, heeding_termination

if TYPE_CHECKING:
    from attomaton.cli.commands import app as app


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from attomaton.cli.commands import app

    return app


def main() -> None:
    """Run the command line; an error of the user is one line on stderr and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # print "?" for characters that the terminal lacks
    try:
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"attomaton {__version__}\n")
            sys.stdout.flush()
            return
        with heeding_termination(), ending_when_stopped():
            from attomaton.cli.commands import app

            app(prog_name="attomaton")
    except MemoryError:
        from attomaton.cli.messages import print_error

        print_error(
            "error: memory ran out; use a smaller --window, or learn with --engine duckdb --memory SIZE "
            "(pip install 'attomaton[duckdb]')"
        )
        sys.exit(2)
    except (AttomatonError, OSError) as error:
        from attomaton.base.artifacts.files import unwritable
        from attomaton.cli.messages import print_error

        ours = isinstance(error, AttomatonError)
        print_error(f"error: {error if ours else unwritable('the output', error.strerror or str(error))}")
        sys.exit(2)
