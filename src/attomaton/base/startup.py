"""Runs first: keeps ``python -m attomaton`` from importing modules from the working directory.

``python -m`` first searches the working directory, so a ``pickle.py`` next to a corpus would run. The command
``attomaton`` does not search it, and ``python -P -m attomaton`` never does; without ``-P``, Python itself has
loaded some modules before this one.
"""

import os
import sys


def leave_working_directory() -> None:
    """Remove the working directory from ``sys.path`` if ``python -m attomaton`` has put it there.

    Programs that import attomaton keep their path, and so does a source tree run from its own folder.
    """
    arguments = list(getattr(sys, "argv", []))
    named = sys.orig_argv[-len(arguments)] if 0 < len(arguments) <= len(sys.orig_argv) else ""
    if sys.flags.safe_path or arguments[:1] != ["-m"] or not named.endswith("attomaton"):
        return
    ours = os.path.abspath(os.path.join(__file__, *[os.pardir] * 3))  # noqa: PTH100, PTH118  pathlib would be looked for
    if sys.path[0] in ("", os.getcwd()) and ours != os.getcwd():  # noqa: PTH109
        del sys.path[0]


leave_working_directory()
