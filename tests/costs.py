"""CPU seconds by test file, at the end of a run: ``python -m pytest -p tests.costs``, as ``.ci/run`` does.

What a test starts counts too. A test over 5 s without ``@pytest.mark.costly("why")`` is listed by name.
"""

import resource
from collections import Counter

import pytest

MOST = 5.0
"""CPU seconds of a test that need no reason."""

SHOWN = 40


class Clock:
    """CPU seconds of this process and its ended children since the last look."""

    def __init__(self) -> None:
        self.last = self._now()

    def _now(self) -> float:
        used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(one.ru_utime + one.ru_stime for one in used)

    def lap(self) -> float:
        """Seconds since the last lap."""
        before, self.last = self.last, self._now()
        return self.last - before


CLOCK = Clock()
COLLECTING: list[float] = []
"""CPU seconds of collecting, of each process."""


def pytest_collection_finish(session):
    seconds = CLOCK.lap()
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist
        session.config.workeroutput["collecting"] = seconds
    else:
        COLLECTING.append(seconds)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    COLLECTING.append(node.workeroutput["collecting"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    report.cpu = CLOCK.lap()
    report.costly = item.get_closest_marker("costly") is not None
    return report


def pytest_terminal_summary(terminalreporter):
    files, tests, costly = Counter(), Counter(), set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "cpu"):
                files[report.nodeid.partition("::")[0]] += report.cpu
                tests[report.nodeid] += report.cpu
                costly |= {report.nodeid} if report.costly else set()
    files["collecting"] = sum(COLLECTING)
    terminalreporter.section(f"CPU seconds: {sum(files.values()):.0f}")
    for name, seconds in files.most_common(SHOWN):
        terminalreporter.line(f"{seconds:7.1f}  {name}")
    for name, seconds in tests.items():
        if seconds > MOST and name not in costly:
            terminalreporter.line(f"{seconds:7.1f}  over {MOST:.0f} s without a reason: {name}")
