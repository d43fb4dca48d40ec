"""Values that nobody should give, a watch on what a call does with them, and how many of them to try."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

SECONDS = 10
"""A call that takes longer hangs."""

FAULTS = float(os.environ.get("ATTOMATON_FAULTS", "1"))
"""How many times as many cases as the gate tries."""

NUMBERS = (
    *(
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "-1",
        "0",
        "-0",
        "1",
        "2",
        "7",
        "1.5",
        "-1.5",
        "1e400",
        "-1e400",
    ),
    *("1e-400", "5e-324", "1e308", "0x10", "0b1", "1_000", "١", "²", "1,5", "1e3", "1.0", "+1", "--1", "1 2"),
    *(str(10**40), f"-{10**40}", str(2**63), str(2**63 - 1), str(2**64), "9" * 5000, "1" + "0" * 30 + "GB"),
)
TEXTS = (
    *("", " ", "\t", "None", "True", "null", "{}", "[]", "%s", "{0}", "$HOME", "*", "?", "[", "a\nb", "-"),
    *("é", "日本", "\u202e", "\udcff", "𝔸", "x" * 5000, "=1+1", "'; --", "<script>", "nan GB", "0GB", "-1GB"),
    *("1e400GB", "9" * 400 + "GB", "spark://", "local[0]", "local[-1]", "file", "word", "auto"),
)
PATHS = (
    *(".", "..", "a/b/c/d", "here.txt", "folder", "folder/inside.txt", "missing", "missing/missing.txt"),
    *(
        "here.txt/below",
        "x" * 300,
        "/".join(["deep"] * 100),
        "trailing/",
        "a*b",
        "~",
        "link",
        "dangling",
        "loop",
    ),
    *("corpus.txt", "run", "trained", "C:\\x", "con", ".hidden", "-dash", "new\nline"),
)
TYPED = (*NUMBERS, *TEXTS, *PATHS)
"""What is typed for an option: every value for every option, whatever it takes."""

NEVER = (
    *(float("nan"), float("inf"), -float("inf"), np.float64("nan"), np.float32("inf"), True, False, np.True_),
    *(10**400, -(10**5000), "3", "nan", "", "None", b"1", "x" * 5000, "١", 1j, [], [1], {}, ()),
    *(
        object(),
        np.array([1, 2]),
        np.array([[1]]),
        np.array("a"),
        np.str_("3"),
        np.bytes_(b"3"),
        float,
        print,
        Path("1"),
        np.datetime64("NaT"),
    ),
)
"""What is no number of any use: always refused, whatever the parameter."""

HUGE = (2**63, 2**64, 10**40, -(10**40))
"""No whole number may be one of these; a real one may."""

PERHAPS = (
    *(-1, 0, -1.5, 1.5, 0.5, 1, 2, 3.0, 1e3, -0.0, 1e-300, 5e-324, 1e300, -1e300, 2**63 - 1, -(2**63), *HUGE),
    *(np.int8(1), np.uint64(2), np.float32(0.25), np.float16(2), np.array(2), np.array(0.5)),
)
"""What one parameter may take and another not."""


def some_of(cases: list, gate: int) -> list:
    """So many cases, spread evenly over all of them; the environment variable asks for more."""
    wanted = min(len(cases), max(int(gate * FAULTS), 1))
    return [cases[(2 * place + 1) * len(cases) // (2 * wanted)] for place in range(wanted)]


class Hang(BaseException):
    """A call took too long; no product code catches this."""


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Raise :class:`Hang` in what takes longer: of this process's own time, or six times that by the clock.

    The clock alone would call a busy machine a hang.
    """

    def stop(*_: object) -> None:
        raise Hang

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, 6 * seconds),
    )
    before = [signal.signal(number, stop) for number, _, _ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


class Watch:
    """Which files Python opens for writing, makes, moves or removes outside some folders."""

    CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.symlink", "os.link")

    def __init__(self) -> None:
        self.inside: tuple[str, ...] | None = None
        self.outside: list[tuple[str, str]] = []
        sys.addaudithook(self._hear)

    @contextmanager
    def only(self, *folders: str | Path) -> Iterator[list[tuple[str, str]]]:
        """What happens outside these folders meanwhile."""
        self.inside, self.outside = tuple(os.path.realpath(one) for one in folders), []
        try:
            yield self.outside
        finally:
            self.inside = None

    def _hear(self, event: str, arguments: tuple) -> None:
        if self.inside is None:
            return
        if any(str(one).startswith("/proc/self/fd/") for one in arguments[:1]):
            return  # a file without a name, which gets one
        if event == "open":
            path, mode, flags = arguments
            writes = any(sign in mode for sign in "wax+") if mode else flags & (os.O_WRONLY | os.O_RDWR)
            touched = [path] if writes else []
        else:
            touched = list(arguments[:2]) if event in self.CHANGES else []
        for path in touched:
            if isinstance(path, str | bytes | os.PathLike) and not self._allowed(os.fsdecode(path)):
                self.outside.append((event, os.fsdecode(path)))

    def _allowed(self, path: str) -> bool:
        whole = os.path.realpath(Path.cwd() / Path(path).parent)
        return path == os.devnull or "__pycache__" in path or whole.startswith(self.inside)
