"""The command line inside the test's own process, on streams of any encoding: quick where there are many."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from unittest.mock import patch

from attomaton.cli import main


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def run_inside(*arguments, cwd, encoding="utf-8", **environment):
    """Run ``attomaton`` with these arguments, its streams piped."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    with (
        contextlib.chdir(cwd),
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["attomaton", *map(str, arguments)]),
        patch.object(sys, "stdout", streams[0]),
        patch.object(sys, "stderr", streams[1]),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        for stream in streams:
            stream.flush()
    return Result(code, *(stream.buffer.getvalue().decode(encoding) for stream in streams))
