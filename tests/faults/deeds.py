"""Everything that writes, as one function of a place; run in forked children that can be killed.

A deed writes to ``place / "out"``. ``old`` puts there what an earlier deed of the same kind wrote, so that a
campaign can ask of every moment: is it the old one, or the new one, whole?
"""

import os
import shutil
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import attomaton as at
from attomaton.base.artifacts import systems
from attomaton.base.errors import AttomatonError
from attomaton.report.csv_tables import write_csv
from attomaton.report.export import pick_queries
from attomaton.report.graphml import write_graphml
from attomaton.report.page.write import write_report
from attomaton.theories.scansnap.law import Rates
from attomaton.theories.scansnap.survey import survey_samples
from attomaton.training.checkpoints import Store
from tests.faults.strangers import look

TEXTS = {"old": "a b a c a b c a b b a c\n" * 3, "new": "x y x z y x z z y x\n" * 4}
DUCKDB = at.engines.Engine("duckdb", threads=1, memory="1GB")
WRITING = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.unlink"}


@dataclass(frozen=True)
class Deed:
    """One way to write; ``write(place, which)`` writes the old or the new thing."""

    name: str
    write: object
    target: str = "out"


def deeds(made):
    """All of them; ``made`` has a text, an automaton and a run for old and new."""

    def of(which):
        return made[which]

    return [
        Deed(
            "learn",
            lambda place, which: at.learn(of(which)["text"], window=4, out=place / "out", overwrite=True),
        ),
        Deed(
            "learn duckdb",
            lambda place, which: at.learn(
                of(which)["text"], window=4, out=place / "out", overwrite=True, engine=DUCKDB
            ),
        ),
        Deed("save", lambda place, which: of(which)["auto"].save(place / "out", overwrite=True)),
        Deed("train", lambda place, which: _train(of(which)["auto"], place / "out"), "out/training"),
        Deed(
            "tokenize",
            lambda place, which: at.tokenize_corpus(of(which)["text"], place / "out", overwrite=True),
        ),
        Deed("csv", lambda place, which: _csv(of(which)["auto"], place / "out")),
        Deed("survey", lambda place, which: _survey(of(which)["auto"]).save(place / "out")),
        Deed("begin", lambda place, which: _begin(of(which)["text"]).save(place / "out", overwrite=True)),
        Deed("graphml", lambda place, which: _graphml(of(which)["auto"], place / "out"), "out"),
        Deed("report", lambda place, which: write_report(of(which)["run"], place / "out"), "out"),
    ]


def prepare(folder):
    """Texts, automata and runs, old and new."""
    made = {}
    for which, text in TEXTS.items():
        (folder / which).mkdir()
        (folder / which / "text.txt").write_text(text)
        auto = at.learn(folder / which / "text.txt", window=4, out=folder / which / "run")
        made[which] = {"text": folder / which / "text.txt", "auto": auto, "run": folder / which / "run"}
    return made


def _train(auto, out):
    store = Store(out, resume=True, overwrite=True, every=2)
    return at.train(auto.samples, at.AttentionModel(), at.GradientDescent(1.0), steps=6, out=store)


def _csv(auto, out):
    return write_csv(auto, out, pick_queries(auto))


def _graphml(auto, out):
    return write_graphml(auto, out, pick_queries(auto))


def _begin(text):
    return at.begin(text, window=4)


def _survey(auto):
    return survey_samples(auto.samples, Rates(decoder=1.0, attention=0.1))


def tree(place, target):
    """What stands at the target: None, the bytes of a file, or all of a folder."""
    path = place / target
    if path.is_dir():
        return look(path)
    return path.read_bytes() if path.exists() else None


class Fork:
    """A deed in a child process: it may be killed at its n-th change of the disk, or after some seconds."""

    def __init__(self, act, place, *, at_change=0, sign=signal.SIGKILL, delay=0.0, log=None):
        self.log = place.parent / f"{place.name}.log" if log is None else log
        self.pid = os.fork()
        if self.pid == 0:
            self._child(act, place, at_change, sign, delay)

    def _child(self, act, place, at_change, sign, delay):
        code = 70
        try:
            descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 2)
            changes = _count_changes(str(place), at_change, sign)
            time.sleep(delay)
            warnings.simplefilter("ignore")
            act()
            os.write(2, f"changes {changes[0]}\n".encode())
            code = 0
        except AttomatonError as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
            code = 2
        except BaseException:
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
            code = 99
        finally:
            os._exit(code)

    def wait(self, seconds=60):
        """The exit code, minus the signal, and what it said."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), self.log.read_text(errors="replace")
            time.sleep(0.002)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"hangs: {self.log.read_text(errors='replace')}")


def _count_changes(root, at_change, sign):
    """Count changes under a folder, and send the signal at one of them; renames in C count twice."""
    count = [0]

    def change():
        count[0] += 1
        if count[0] == at_change:
            os.write(2, f"signal at change {at_change}\n".encode())
            os.kill(os.getpid(), sign)
            if sign == signal.SIGKILL:
                time.sleep(10)

    def hear(event, arguments):
        if event in WRITING and _writes(event, arguments) and any(root in one for one in _paths(arguments)):
            change()

    def counted(*arguments):
        change()
        result = call(*arguments)
        change()
        return result

    sys.addaudithook(hear)
    call = systems._find_renameat2()
    if call is not None:
        systems._find_renameat2 = lambda: counted
    return count


def _writes(event, arguments):
    if event != "open":
        return True
    _, mode, flags = arguments
    return any(one in mode for one in "wax+") if isinstance(mode, str) else bool(flags & 3)


def _paths(arguments):
    return [os.fsdecode(one) for one in arguments[:2] if isinstance(one, str | bytes | Path)]


def names(place):
    """What stands in a folder."""
    return {path.name for path in place.iterdir()}


def fresh(place, deed, old):
    """An empty place, with the old thing in it if asked."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if old is not None:
        source = old / deed.name
        shutil.copytree(source, place, dirs_exist_ok=True)
